//! What to send next and what the answers mean: state machines without I/O and without a clock. Time is an argument.
//! May touch: units.
//!
//! - [`avb`]: available bandwidth, by several methods.
//! - [`throughput`]: the highest load that a device forwards, by loss.
//! - [`rtt`]: what became of every packet of an open-loop round-trip run.
#![forbid(unsafe_code)]

pub mod avb;
pub mod rtt;
pub mod throughput;
