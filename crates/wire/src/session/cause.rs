use serde::Serialize;

use crate::WireError;

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// No datagram of ours.
    #[error("garbage: {0}")]
    Garbage(WireError),
    /// A reply, which no responder expects.
    #[error("a reply came instead of a request")]
    Reply,
    /// It names no open session.
    #[error("no such session")]
    UnknownSession,
    /// It came from another address than its session, or in another form.
    #[error("another address or form than the session's")]
    WrongAddress,
    /// Its tag does not fit.
    #[error("the tag does not fit")]
    WrongTag,
    /// It has come before.
    #[error("it has come before")]
    Duplicate,
    /// It is too old to know whether it has come before.
    #[error("too old to know whether it has come before")]
    TooOld,
    /// The session sends faster than it was granted.
    #[error("above the granted rate")]
    OverRate,
    /// The session has used up its packets or its time.
    #[error("beyond the granted number or time")]
    OverLimit,
    /// It is longer than granted.
    #[error("longer than granted")]
    Oversized,
}

/// Datagrams that belonged to no session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Discards {
    /// No datagrams of ours.
    pub garbage: u64,
    /// Datagrams that named no open session.
    pub unknown_session: u64,
}
