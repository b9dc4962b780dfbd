//! CPU counters, kernel clocks, scheduler calls, sockets and machine facts. May touch: units.
//!
//! This is the room for `unsafe` and for reading the machine: thin, safe functions over instructions, system calls,
//! `/proc` and `/sys`, and no decisions. What a reading means is decided in `vtare-clock` and above.
#![allow(unsafe_code, reason = "the room for it: each block holds one operation and its proof")]

pub mod block;
pub mod bpf;
pub mod calls;
pub mod clocks;
pub mod confine;
pub mod counter;
pub mod cpu;
pub mod errno;
mod error;
pub mod facts;
pub mod kernel_file;
pub mod named_file;
pub mod net;
mod outside;
pub mod perf;
pub mod phc;
pub mod proc;
pub mod process;
pub mod random;
pub mod sched;
pub mod secret;
pub mod shared_page;
pub mod standard_output;
pub mod vmclock;
pub mod vmgenid;
pub mod vvar;
pub mod whole_file;

pub use error::SysError;
pub use outside::OutsideUtc;
