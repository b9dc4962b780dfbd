use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::flow::FlowReport;
use super::limits::Refusal;
use super::request::{Open, ReversePlan, VersionRange};
use crate::{SessionId, SessionKey};

/// The first message. Unknown fields are ignored here and nowhere else: a newer client must be able to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What the client speaks.
    pub versions: VersionRange,
    /// The client's name and release, for messages to people.
    pub program: String,
}

/// An open session, as the client learns of it. The key makes this a message for an encrypted connection only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its name.
    pub session: SessionId,
    /// The responder's number for it, for the short form.
    pub handle: u16,
    /// Its key.
    pub key: SessionKey,
    /// What was asked for and granted.
    pub open: Open,
    /// The first probe must arrive within this time, ns; a session is also closed after a silence of this length.
    pub idle_ns: u64,
}

/// What a responder counted in one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Distinct probes accepted.
    pub accepted: u64,
    /// Replies made.
    pub replied: u64,
    /// Probes that had come before.
    pub duplicate: u64,
    /// Probes so far behind the newest that it is not known whether they had come before; not accepted.
    pub too_old: u64,
    /// Probes above the granted rate; not accepted.
    pub over_rate: u64,
    /// Probes beyond the granted number or the granted time; not accepted.
    pub over_limit: u64,
    /// Probes longer than granted; not accepted.
    pub oversized: u64,
    /// Datagrams that named this session and came from another address or with a wrong tag.
    pub forged: u64,
    /// Payload bytes accepted.
    pub accepted_byte: u64,
    /// Payload bytes of the replies: never more than `accepted_byte`.
    pub replied_byte: u64,
    /// Replies that the responder's kernel did not take; they count as `replied`.
    pub unsent: u64,
    /// Datagrams of all senders that found the responder's receive buffer full while this session was open: an upper
    /// bound of what this session lost there, exact where it was alone. `None` where the responder's kernel does
    /// not count them, which is not 0.
    pub socket_drops: Option<u64>,
    /// Packets of trains that were sent back on the client's wish.
    pub reversed: u64,
    /// Packets of such trains that the responder's kernel did not take.
    pub reverse_unsent: u64,
    /// Payload bytes granted for such trains.
    pub reverse_byte: u64,
}

impl Counters {
    /// Datagrams that were judged: accepted or refused.
    #[must_use]
    pub const fn datagrams(&self) -> u64 {
        let refused = self.duplicate + self.too_old + self.over_rate + self.over_limit + self.oversized + self.forged;
        self.accepted + refused
    }
}

impl std::ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            replied: self.replied + other.replied,
            duplicate: self.duplicate + other.duplicate,
            too_old: self.too_old + other.too_old,
            over_rate: self.over_rate + other.over_rate,
            over_limit: self.over_limit + other.over_limit,
            oversized: self.oversized + other.oversized,
            forged: self.forged + other.forged,
            accepted_byte: self.accepted_byte + other.accepted_byte,
            replied_byte: self.replied_byte + other.replied_byte,
            unsent: self.unsent + other.unsent,
            socket_drops: self.socket_drops.or(other.socket_drops),
            reversed: self.reversed + other.reversed,
            reverse_unsent: self.reverse_unsent + other.reverse_unsent,
            reverse_byte: self.reverse_byte + other.reverse_byte,
        }
    }
}

/// What a client sends on the control connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ToResponder {
    /// First: which versions.
    Hello(Hello),
    /// Asks for a session. May be sent again for another one.
    Open(Open),
    /// Asks for a session's counters as they are now.
    Count {
        /// Which session.
        session: SessionId,
    },
    /// Asks for recorded arrivals, from this place on; those before it are given up.
    Arrivals {
        /// Which session.
        session: SessionId,
        /// From which record on, counted from 0.
        from: u64,
    },
    /// Asks for a train to be sent back.
    Reverse {
        /// Which session.
        session: SessionId,
        /// Which train.
        plan: ReversePlan,
    },
    /// Asks what came on the session's data connections; since control version 3.
    Flows {
        /// Which session.
        session: SessionId,
        /// From which bin on, counted from 0.
        from: u32,
    },
    /// Ends a session.
    Close {
        /// Which session.
        session: SessionId,
    },
}

/// What a responder sends on the control connection; one answer to each message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ToClient {
    /// The answer to a hello.
    Welcome {
        /// The version that both will speak.
        version: u16,
        /// The responder's name and release.
        program: String,
    },
    /// The answer to an open.
    Granted(Grant),
    /// The answer to anything that cannot be.
    Refused(Refusal),
    /// The answer to a count.
    Counted {
        /// Which session.
        session: SessionId,
        /// Its counters.
        counters: Counters,
    },
    /// The answer to a question for arrivals; not JSON, see [`Arrivals::encode`].
    #[serde(skip)]
    Arrivals(Arrivals),
    /// The answer to a wish for a train: it is about to be sent.
    Reversing {
        /// Which session.
        session: SessionId,
        /// The number of its first packet. Trains of a session are numbered on.
        first_sequence: u64,
    },
    /// The answer to a question for flows.
    Flowed(FlowReport),
    /// The answer to a close.
    Closed {
        /// Which session.
        session: SessionId,
        /// Its last counters.
        counters: Counters,
    },
}
