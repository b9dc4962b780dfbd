//! What to send next and what the answers mean: state machines without I/O and without a clock. Time is an argument.
//!
//! - [`avb`]: available bandwidth, by several methods.
//! - [`throughput`]: the highest load that a device forwards, by loss.
//! - [`rtt`]: what became of every packet of an open-loop round-trip run.
//! - [`figures`]: quantiles under the rule that a figure which cannot be estimated is null.
//! - [`histogram`]: a live distribution in constant memory.
#![forbid(unsafe_code)]

pub mod avb;
pub mod figures;
pub mod histogram;
pub mod rtt;
pub mod throughput;
