//! Available bandwidth: what to send next, and what follows from what came back.
//!
//! A [`Method`] is a state machine without I/O and without a clock. A runner asks it for the next [`Step`], sends the
//! [`Train`] over a link (real: `vtare avb`; simulated: the tests and `bench/avb`), and hands back one [`Observation`]
//! a train. Whatever the link, the method is the same code and, for a seed, sends the same trains after the same
//! answers.
//!
//! ```text
//! loop { match method.step(now) {
//!     Step::Send(train)   => { send it; collect it; method.observe(&observation) }
//!     Step::Wait(ns)      => let ns pass
//!     Step::Done(estimate) => break
//! } }
//! ```
//!
//! All sizes are bytes of IP packets and all rates are at the IP layer, headers included, unless an [`Estimate`] states
//! otherwise. Send times and receive times are on two clocks: one-way delays are known up to a constant.

mod abacus;
mod abing;
mod adr;
mod assolo;
mod catalog;
mod chirp;
mod classic;
mod estimate;
mod igi;
mod kite;
mod kite2;
mod modes;
mod observation;
mod pairs;
mod pathchirp;
mod pathload;
mod pathrate;
mod random;
mod settings_error;
mod spent;
mod spruce;
mod stopped;
mod tcp;
mod train;
mod udpst;
mod yaz;

use vtare_units::{Monotonic, Timestamp};

pub(crate) use abacus::group;
pub use abacus::{Abacus, AbacusSettings, Case};
pub use abing::AbingSettings;
pub use adr::{Adr, AdrSettings};
pub use assolo::AssoloSettings;
pub use catalog::{ALIAS, Entry, METHODS, Preset, Settings, entry};
pub(crate) use classic::{median, quantile};
pub use estimate::{Estimate, Layer};
pub use igi::IgiSettings;
pub use kite::KiteSettings;
pub use kite2::{Kite2Kind, Kite2Settings};
pub use observation::{Ecn, Observation, Packet, SortedArrival};
pub use pathchirp::PathchirpSettings;
pub use pathload::PathloadSettings;
pub use pathrate::PathrateSettings;
pub use random::Random;
pub use settings_error::SettingsError;
pub use spent::{Budget, Spent};
pub use spruce::SpruceSettings;
pub use stopped::Stopped;
pub use tcp::{SYSTEM, TCP, TCP_SOURCE, TCP_SUMMARY, TcpSeen, TcpSettings, tcp_estimate};
pub use train::{Spacing, Train};
pub use udpst::{UdpstAlgorithm, UdpstSettings};
pub use yaz::YazSettings;

/// What a method wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this train, then call [`Method::observe`] with what came of it.
    Send(Train),
    /// Let this time pass, ns, then ask again.
    Wait(u64),
    /// The end. Further calls give the same.
    Done(Box<Estimate>),
}

/// A way to estimate available bandwidth (or capacity).
///
/// After a [`Step::Send`] the runner must call [`Method::observe`] once before it asks for the next step, also when
/// nothing arrived.
pub trait Method {
    /// The name under which [`METHODS`] lists it.
    fn name(&self) -> &'static str;

    /// What to do at `now`, on the sender's clock. The first call begins the measurement: budgets of time count from
    /// it.
    fn step(&mut self, now: Timestamp<Monotonic>) -> Step;

    /// What became of the train of the last [`Step::Send`].
    fn observe(&mut self, observation: &Observation);

    /// The best answer so far, for runs that were broken off and for those that follow changes; `None` before the
    /// first.
    fn interim(&self) -> Option<Estimate>;
}

/// What the sender and the path can carry: a method plans within it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ability {
    /// Bytes of the headers from the IP header up to the payload: 28 for IPv4 and UDP, 48 for IPv6.
    pub ip_header_byte: u32,
    /// Largest IP packet that passes without fragments: the path MTU.
    pub most_packet_byte: u32,
    /// Least IP packet: headers and what the probe format needs.
    pub least_packet_byte: u32,
    /// Least time between two sends of the program, ns: what one system call takes.
    pub least_gap_ns: f64,
    /// Packets that may leave in one call ([`Spacing::Groups`], UDP_SEGMENT); 1: each needs a call of its own.
    pub most_group: u32,
    /// Packets that a train may have at most.
    pub most_packets: u32,
    /// How finely arrivals are stamped, ns: the larger of clock quantum and half the stamp's stated error.
    pub stamp_error_ns: f64,
}

impl Default for Ability {
    /// Ethernet over IPv4, single sends of 1 us each, stamps to 100 ns.
    fn default() -> Self {
        Self {
            ip_header_byte: 28,
            most_packet_byte: 1500,
            least_packet_byte: 64,
            least_gap_ns: 1_000.0,
            most_group: 1,
            most_packets: 20_000,
            stamp_error_ns: 100.0,
        }
    }
}

impl Ability {
    /// The highest rate at which packets of `size_byte` can be sent as evenly spaced groups of at most `most_group`,
    /// bit/s.
    #[must_use]
    pub fn most_bit_per_s(&self, size_byte: u32) -> f64 {
        f64::from(size_byte) * 8e9 * f64::from(self.most_group.max(1)) / self.least_gap_ns.max(1e-3)
    }
}

/// What every method is made with, beside its own settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// Sender and path.
    pub ability: Ability,
    /// Limits.
    pub budget: Budget,
    /// Seed of all that the method draws (exponential gaps).
    pub seed: u64,
}

#[cfg(test)]
mod tests;
