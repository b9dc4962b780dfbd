//! What the threads that answer datagrams share.

use std::io::ErrorKind;

use vtare_units::{Monotonic, Peer, Timestamp};

/// Datagrams judged under one lock and answered by one call.
pub(crate) const BATCH: usize = 64;

/// How long a blocking wait lasts, so that the wish to stop is seen.
pub(crate) const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// Errors of the socket itself, as opposed to those that a datagram left behind.
pub(crate) fn is_fatal(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::PermissionDenied
            | ErrorKind::Interrupted
            | ErrorKind::WouldBlock
    )
}

/// This host's time as its clients see it.
pub(crate) const fn on_the_wire(at: Timestamp<Monotonic>) -> Timestamp<Peer> {
    Timestamp::from_nanos(at.as_nanos())
}
