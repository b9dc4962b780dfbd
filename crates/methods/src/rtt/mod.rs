//! The logic of an open-loop round-trip run: what became of every packet, and what follows from it.
//!
//! [`Run`] receives what was sent, what the kernel stamped and what came back, in any order that can happen, and gives
//! one [`Record`] a packet and one [`Report`] a run. `docs/methods/rtt.md` defines each figure.
//!
//! Two round-trip times are kept apart for every packet: from the *actual* send time, which is the path's, and from the
//! *scheduled* one, which also holds what the sender itself was late. A tool that shows only the first hides its own
//! stalls (coordinated omission).
//!
//! Always: `scheduled = sent + unsent` and `sent = received + lost`; each lost packet stands in exactly one class of
//! [`LossClasses`].

mod launches;
mod loss;
mod one_way;
mod outages;
mod record;
mod report;
mod run;
mod seen;
mod series;
mod variation;

use vtare_units::{Monotonic, Peer, Span, Timestamp};

pub use launches::Launches;
pub use loss::{Attribution, LossClasses, ResponderCounters};
pub use one_way::OneWay;
pub use outages::{Outage, Place};
pub use record::{Fate, Record};
pub use report::{Report, UnsentCounts};
pub use run::{Live, OutOfOrder, Run};
pub use series::Series;
pub use vtare_traffic::LocalDrops;

/// This host's clock against UTC, for a far end that states UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UtcHere {
    /// UTC minus CLOCK_MONOTONIC, ns.
    pub ahead_ns: i64,
    /// The greatest error of that, ns.
    pub error_ns: u64,
}

/// What is to be decided before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// A reply that takes longer than this from the actual send time is late, and its packet lost; ns.
    pub timeout_ns: u64,
    /// A packet that is sent more than this after its slot counts as sent late; ns. It is measured like any other.
    pub late_send_ns: u64,
    /// Figures are exact up to this many samples a series (8 B each, 7 series); beyond, quantiles come from the
    /// histogram, to 1/64.
    pub exact_samples: usize,
    /// Packets are handed over before they are due, with a launch time: [`Sent::sent`] is that time, and the kernel's
    /// stamp of the departure takes its place as the actual send time.
    pub launched: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout_ns: 2_000_000_000, late_send_ns: 100_000, exact_samples: 1 << 22, launched: false }
    }
}

/// A packet that the kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number: one more than that of the slot before.
    pub sequence: u64,
    /// When it was due.
    pub scheduled: Timestamp<Monotonic>,
    /// When it was handed to the kernel; where it was handed over with a launch time, that time
    /// ([`Options::launched`]).
    pub sent: Timestamp<Monotonic>,
}

/// Why a slot passed without a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsent {
    /// The sender was too far behind to make it up.
    TooLate,
    /// The kernel had no room for it.
    NoRoom,
}

/// What a reply reports of the far end. Each part may be missing: ICMP has none, the short form only the turnaround.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarEnd {
    /// When the request arrived there.
    pub received: Option<Timestamp<Peer>>,
    /// When the reply left there.
    pub replied: Option<Timestamp<Peer>>,
    /// The time between the two.
    pub turnaround: Option<Span>,
    /// Distinct requests accepted there so far, with this one.
    pub accepted: Option<u64>,
    /// Its clock shows UTC with no greater error than this; `None` where it does not state that.
    pub utc_error: Option<Span>,
}

impl FarEnd {
    /// From the full form and STAMP: both stamps, hence the turnaround.
    #[must_use]
    pub fn stamped(received: Timestamp<Peer>, replied: Timestamp<Peer>, accepted: Option<u64>) -> Self {
        Self {
            received: Some(received),
            replied: Some(replied),
            turnaround: Some(replied - received),
            accepted,
            utc_error: None,
        }
    }
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's number.
    pub sequence: u64,
    /// When the program got it.
    pub arrived: Timestamp<Monotonic>,
    /// When the kernel or the card got it.
    pub kernel_rx: Option<Timestamp<Monotonic>>,
    /// What it reports of the far end.
    pub far_end: FarEnd,
}

/// What a reply was to its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// The first reply, in time.
    Received,
    /// The first reply, after the timeout.
    Late,
    /// Another reply to the same request.
    Duplicate,
    /// A reply to a request that was never sent, or so long ago that nothing is known of it.
    Unknown,
}

#[cfg(test)]
mod tests;
