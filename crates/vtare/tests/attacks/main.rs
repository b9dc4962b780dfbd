//! Attacks on the binary as it is shipped: each test is one attack that succeeded once (docs/security.md names them by
//! claim).
//!
//! Names begin with `attack_`, and each prints one line, `ATTACK <name>: survived, ...`, on stdout.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/wire.rs"]
mod wire;

mod confinement;
mod daemon;
mod flood;
mod forge;
mod icmp;
mod log;
mod reflectors;
mod replay;
