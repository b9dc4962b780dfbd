//! What to send next and what the answers mean: state machines without I/O and without a clock. Time is an argument.
//! May touch: units, traffic.
//!
//! - [`avb`]: available bandwidth, by several methods.
//! - [`path`]: what a path is worth: what is free, latency when it is used, the depth of the buffer behind it.
//! - [`throughput`]: the highest load that a device forwards, by loss.
//! - [`rpm`]: responsiveness while the path is full, in round trips a minute.
//! - [`rtt`]: what became of every packet of an open-loop round-trip run.
#![forbid(unsafe_code)]

pub mod avb;
pub mod path;
pub mod rpm;
pub mod rtt;
pub mod throughput;
