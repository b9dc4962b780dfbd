//! A simulated path: queues in a row, cross traffic, loss, and machines that are late now and then; no I/O and no
//! clock. May touch: units.
//!
//! Time is a number: every run of a seed is the same. Queues are exact: work is counted in 1e-9 bit, so that no
//! rounding adds up.
//!
//! [`Path`] is one direction alone; [`TrainPath`] is one direction with the hosts at its ends, for estimators that look
//! at trains. `vtare_probe::sim` is both directions with a far end, behind the trait that real links have.
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
mod train;

pub use aqm::{Aqm, Arrival, Manager};
pub use cross::{Cross, Source, Traffic};
pub use error::{SimError, above_zero, probability};
pub use hop::{Hop, HopCount, HopSpec, LossModel, Passed, Step};
pub use host::{EndSpec, Host};
pub use noise::{Lateness, Noise, Pause};
pub use path::{Detour, Duplication, Fate, Passage, Path, PathSpec};
pub use peer_clock::PeerClock;
pub use train::{CrossSeen, RelaySpec, SenderSpec, TrainPacket, TrainPath, TrainSeen, TrainSpec};

#[cfg(test)]
mod tests;
