//! Background loads that report the load they really made. May touch: units, sys, clock, wire, pathsim.
//!
//! The kinds are those of Kirova and others (Future Internet 11:179, section 2.1.3): an idle system, a CPU-bound load
//! of threads that take square roots, and an input/output- and network-bound load. The instances beside the tool of
//! Lampe and others (2013) are a kind of their own: they count. See docs/guide/load.md.
//!
//! [`nbd`] is the file service of the third kind outside the guest, reached over its network card.
//!
//! Beside them, [`net`]: cross traffic over UDP with a measured rate, and the sink that counts it.
//!
//! A load runs until its stop flag is set or its time is over, whichever comes first, and then ends within 100 ms even
//! when its threads by far outnumber the CPUs: each looks at the flag every 100 us or so of its own running time, and
//! the report is made from counters, not from threads that have been joined.
#![forbid(unsafe_code)]

mod aligned;
mod cpu;
mod error;
mod io;
pub mod nbd;
pub mod net;
mod report;
mod run;
mod workers;

pub use cpu::count;
pub use error::LoadError;
pub use io::{BLOCK_BYTE, FILE_BYTE};
pub use report::{IoReport, Moved, NbdMoved, NbdReport, NbdServed, Report};
pub use run::{Kind, Options, run};
