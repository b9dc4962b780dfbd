//! Generator and analyser for tests of forwarding devices (docs/methods/throughput.md): frames of many flows leave one
//! port on a schedule and are counted, checked and timed at another port of the same machine, so with one clock. May
//! touch: units, sys, clock, bpf, wire.
//!
//! - [`Tester`]: opened for a size of frame and a spread of flows; [`Tester::trial`] offers a load and reports what
//!   arrived.
//! - [`Engine`]: who sends. [`Analyser`]: who counts; where programs cannot be loaded, both do without.
//!
//! A frame is counted with its check sequence (4 B, which the kernel does not see), as RFC 2544 does: one of 64 B is 60
//! B here.

#![forbid(unsafe_code)]

mod analyser;
mod error;
pub mod frame;
mod generator;
mod options;
mod port;
mod ring;
mod shared;
mod size;
mod tester;
mod trial_result;
mod user;

pub use error::TesterError;
pub use options::{Analyser, Engine, Flow, Offer, RateStep, TesterOptions};
pub use port::{check, hardware_address};
pub use size::{FCS_BYTE, LARGEST_BYTE, SMALLEST_BYTE};
pub use tester::{Tester, self_test};
pub use trial_result::{FlowSeen, LostAround, TrialResult};

#[cfg(test)]
mod tests;
