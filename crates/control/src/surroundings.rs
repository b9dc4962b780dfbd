use std::sync::Mutex;

use vtare_units::Span;
use vtare_wire::SessionId;
use vtare_wire::session::{Counters, Open, Refusal, ReverseOrder, Table};

use crate::first_messages::FirstMessages;
use crate::key::PresharedKey;

/// How long a connection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the connection to the end of the handshake, however many bytes come meanwhile.
    pub handshake: Span,
    /// Without an open session, since the last message.
    pub idle: Span,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { handshake: Span::from_secs(5), idle: Span::from_secs(60) }
    }
}

/// What a connection needs of its surroundings to answer.
pub struct Surroundings<'a> {
    /// The keys, any of which lets a client in; none on a responder for its own host.
    pub keys: &'a [PresharedKey],
    /// The first messages that came before.
    pub first_messages: &'a FirstMessages,
    /// The sessions. Locked only for the time of one look-up or change; before the pre-shared key has been checked
    /// only for the look-up of a data connection's session and its tag, as for a datagram.
    pub table: &'a Mutex<Table>,
    /// This program's name and release.
    pub program: &'a str,
    /// Time limits.
    pub patience: TimeLimits,
    /// The kernel's count of datagrams that found the receive buffer full; `None` where it does not report it.
    pub socket_drops: &'a dyn Fn() -> Option<u32>,
}

/// Something that happened and is worth a line in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A session was opened, and what was granted.
    Opened(SessionId, Open),
    /// A session was refused.
    Refused(Refusal),
    /// A train is to be sent to a client.
    Reverse(ReverseOrder),
    /// A session was closed by its client.
    Closed(SessionId, Counters),
}
