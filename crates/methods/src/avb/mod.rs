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
mod udpst;
mod yaz;

pub use vtare_traffic::{Ability, Ecn, Observation, Packet, SortedArrival, Spacing, Train};
use vtare_units::{Monotonic, Timestamp};

pub(crate) use abacus::group;
pub use abacus::{Abacus, AbacusSettings, Case};
pub use abing::AbingSettings;
pub use adr::{Adr, AdrSettings};
pub use assolo::AssoloSettings;
pub use catalog::{ALIAS, Entry, METHODS, Preset, Settings, entry, takes_any_stamps};
pub(crate) use classic::{median, quantile};
pub use estimate::{Estimate, Layer};
pub use igi::IgiSettings;
pub use kite::KiteSettings;
pub use kite2::{Kite2Kind, Kite2Settings};
pub use pathchirp::PathchirpSettings;
pub use pathload::PathloadSettings;
pub use pathrate::PathrateSettings;
pub use random::Random;
pub use settings_error::SettingsError;
pub use spent::{Budget, Spent};
pub use spruce::SpruceSettings;
pub use stopped::Stopped;
pub use tcp::{SYSTEM, TCP, TCP_SOURCE, TCP_SUMMARY, TcpSeen, TcpSettings, tcp_estimate};
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
