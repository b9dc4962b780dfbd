//! A simulated path: queues in a row, cross traffic, loss, and machines that are late now and then; no I/O and no
//! clock. May touch: units.
//!
//! Time is a number: every run of a seed is the same. Queues are exact: work is counted in 1e-9 bit, so that no
//! rounding adds up.
//!
//! [`Path`] is one direction alone. `vtare_probe::sim` has hosts at both ends, behind the trait that real links have.
//!
//! Sizes in a path are bytes of IP packets, rates are at the IP layer.
#![forbid(unsafe_code)]

mod aqm;
mod cross;
mod error;
mod hop;
mod host;
mod noise;
mod path;
mod peer_clock;

pub use aqm::{Aqm, Arrival, Manager};
pub use cross::{Cross, Source, Traffic};
pub use error::{SimError, above_zero, probability};
pub use hop::{Hop, HopCount, HopSpec, LossModel, Passed, Step};
pub use host::{EndSpec, Host};
pub use noise::{Lateness, Noise, Pause};
pub use path::{Detour, Duplication, Fate, Passage, Path, PathSpec};
pub use peer_clock::PeerClock;

#[cfg(test)]
mod tests;
