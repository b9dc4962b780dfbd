use vtare_units::{Monotonic, Peer, Timestamp};

use super::cause::Cause;
use crate::{SessionId, full};

/// What is known of a datagram's arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Now, on the clock that limits are kept by.
    pub now: Timestamp<Monotonic>,
    /// When it arrived, as the reply states: the kernel's stamp where there is one.
    pub received: Timestamp<Peer>,
    /// Where that stamp comes from.
    pub flags: full::ReplyFlags,
    /// DSCP and ECN, as the byte of IPv4's TOS; `None` where the kernel does not report them.
    pub class: Option<u8>,
}

/// What to do with a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'d> {
    /// Send these bytes back to where the datagram came from: as many as came.
    Reply(&'d [u8]),
    /// A one-way probe: nothing to send, something to record.
    Record {
        /// Its session.
        session: SessionId,
        /// Its number.
        sequence: u64,
        /// When it was sent, on its sender's clock; `None` in the short form, where only the lower 32 bits are known.
        sent: Option<Timestamp<Peer>>,
    },
    /// Nothing, for this reason.
    Drop(Cause),
}
