//! What the reflecting thread dropped: counted there, reported by the other thread, so that a reply never waits for a
//! log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use vtare_wire::session::Cause;

/// Kinds of [`Cause`], as the journal names them, and three more.
pub(super) const KINDS: [&str; 13] = [
    "garbage",
    "reply",
    "unknown_session",
    "wrong_address",
    "wrong_tag",
    "duplicate",
    "too_old",
    "over_rate",
    "over_limit",
    "oversized",
    "buffer_full",
    "stamp_garbage",
    "stamp_over_rate",
];

/// The place of datagrams that the kernel dropped because the receive buffer was full: they have no cause of ours.
pub(super) const BUFFER_FULL: usize = 10;

/// The places of datagrams at the STAMP reflector: no packet of a sender, or above its rate.
pub(super) const STAMP_GARBAGE: usize = 11;
pub(super) const STAMP_OVER_RATE: usize = 12;

/// The place of a cause in [`KINDS`].
pub(super) const fn kind(cause: Cause) -> usize {
    match cause {
        Cause::Garbage(_) => 0,
        Cause::Reply => 1,
        Cause::UnknownSession => 2,
        Cause::WrongAddress => 3,
        Cause::WrongTag => 4,
        Cause::Duplicate => 5,
        Cause::TooOld => 6,
        Cause::OverRate => 7,
        Cause::OverLimit => 8,
        Cause::Oversized => 9,
    }
}

/// Drops of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drops {
    pub(super) count: u64,
    /// One of them.
    pub(super) example: Option<(SocketAddr, Cause)>,
}

/// Drops since they were last taken, by kind.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<[Drops; KINDS.len()]>);

impl Tally {
    /// Adds the drops of one batch and clears it.
    pub(super) fn add(&self, batch: &mut [Drops; KINDS.len()]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, new) in all.iter_mut().zip(std::mem::take(batch)) {
            all.count += new.count;
            all.example = new.example.or(all.example);
        }
    }

    /// Takes what there is.
    pub(super) fn take(&self) -> [Drops; KINDS.len()] {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
