//! UTC confirmed by witnesses: asks responders on other hosts, and keeps a page that all processes of this machine
//! read. May touch: units, sys, clock, wire, control.
//!
//! What answers are worth is decided in `vtare-clock`, without I/O; here are the sockets, the random numbers and the
//! page.
#![forbid(unsafe_code)]

mod ask;
mod page;

pub use ask::{Confirmation, WitnessError, Witnesses};
pub use page::{PageReader, PageWriter, page_path};

/// The environment variable with the witnesses.
pub const WITNESSES_VARIABLE: &str = "VTARE_WITNESSES";
