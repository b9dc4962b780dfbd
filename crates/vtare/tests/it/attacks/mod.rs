//! Attacks on the binary as it is shipped: each test is one attack that succeeded once (docs/internals/security.md
//! names them by claim).
//!
//! Names begin with `attack_`, and each prints one line, `ATTACK <name>: survived, ...`, on stdout.

mod confinement;
pub(crate) mod daemon;
mod flood;
mod forge;
mod frames;
mod icmp;
mod kernel_files;
mod log;
mod pipes;
mod reflectors;
mod replay;
