//! A simulated path: queues in a row, cross traffic, loss, and two machines that are late now and then.
//!
//! Time is a number. It jumps from event to event, every run of a seed is the same, and ten minutes of 1 kpps over several hops
//! take tenths of a second. Queues are exact: work is counted in 1e-9 bit, so that no rounding adds up.
//!
//! [`Path`] is one direction alone; [`TrainPath`] is one direction with the hosts at its ends, for estimators that look at trains;
//! [`SimLink`] is both directions with a far end, behind the trait that real links have.
//!
//! Sizes in a path are bytes of IP packets, rates are at the IP layer.

mod cross;
mod far;
pub(crate) mod hop;
mod link;
mod noise;
mod path;
mod train;

use serde::{Deserialize, Serialize};

pub use cross::{Cross, Source, Traffic};
pub use far::{Echo, FarSide, PeerClock, Responder};
pub use hop::{HopCount, HopSpec, LossModel, Step};
pub use link::SimLink;
pub use noise::{Noise, Pause};
pub use path::{Detour, Duplication, Fate, Passage, Path, PathSpec};
pub use train::{CrossSeen, RelaySpec, SenderSpec, TrainPacket, TrainPath, TrainSeen, TrainSpec};

/// One of the two machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndSpec {
    /// How late its program is: to send (near end), to answer (far end).
    pub send_noise: Noise,
    /// How late its program is to get what has arrived.
    pub receive_noise: Noise,
    /// Arrivals are handed over together, this long after the first of them, as interrupt moderation and GRO do; they then share one
    /// kernel stamp. 0: each at once.
    pub coalesce_ns: u64,
    /// Datagrams that may wait for the program; more are dropped and counted. `None`: any number.
    pub receive_room: Option<usize>,
}

/// A path there and back, with both its ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimSpec {
    /// From the near to the far end.
    pub forward: PathSpec,
    /// From the far to the near end.
    pub reverse: PathSpec,
    /// Who measures.
    #[serde(default)]
    pub near: EndSpec,
    /// Who answers.
    #[serde(default)]
    pub far: EndSpec,
    /// The far end's clock.
    #[serde(default)]
    pub peer_clock: PeerClock,
    /// Seed of all that is random.
    #[serde(default)]
    pub seed: u64,
}

impl SimSpec {
    /// The same hops there and back, quiet machines, no loss.
    #[must_use]
    pub fn symmetric(hops: Vec<HopSpec>, seed: u64) -> Self {
        let forward = PathSpec { hops, ..PathSpec::default() };
        let mut reverse = forward.clone();
        reverse.hops.reverse();
        let (near, far, peer_clock) = (EndSpec::default(), EndSpec::default(), PeerClock::default());
        Self { forward, reverse, near, far, peer_clock, seed }
    }
}

/// A path that cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A probability outside 0..=1.
    #[error("{what} is {found}, want a probability from 0 to 1")]
    Probability {
        /// Which.
        what: &'static str,
        /// Its value.
        found: f64,
    },
    /// A value that must be above 0.
    #[error("{what} is 0, want more")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// A Pareto shape of 1 or less has no mean.
    #[error("Pareto shape is {found}, want more than 1: below, the mean does not exist")]
    Shape {
        /// Its value.
        found: f64,
    },
    /// An on-off source that is on all the time, or more.
    #[error("mean rate is {mean_bit_per_s} bit/s and peak rate {peak_bit_per_s} bit/s: want the mean below the peak")]
    Peak {
        /// Mean rate.
        mean_bit_per_s: u64,
        /// Rate while on.
        peak_bit_per_s: u64,
    },
}

pub(crate) fn probability(what: &'static str, found: f64) -> Result<(), SimError> {
    if (0.0..=1.0).contains(&found) { Ok(()) } else { Err(SimError::Probability { what, found }) }
}

pub(crate) fn above_zero(what: &'static str, found: u64) -> Result<(), SimError> {
    if found > 0 { Ok(()) } else { Err(SimError::Zero { what }) }
}

#[cfg(test)]
mod tests;
