//! What goes between the two ends: datagrams, the messages that open sessions, and both ends of a session as state
//! machines; no I/O and no clock. May touch: units, traffic.
//!
//! Two native forms of datagrams (`docs/internals/wire.md` is their specification): [`full`], 60 B and more, carries
//! everything; [`short`], 18 B and more, is what a 64 B Ethernet frame has room for under IPv4 and UDP. [`stamp`] is
//! RFC 8762 in both its modes, [`heartbeat`] what a witness states of UTC. [`preamble`] and [`hello`] are the first
//! bytes of TCP connections, [`session`] is who may send how much for how long, [`connections`] is who may be
//! connected.
//!
//! Decoders are total: any bytes give a value or a [`WireError`], and nothing is allocated. A decoded header is
//! *unverified* until its tag has been checked against the key of the session it names; only then does it give its
//! fields away.
#![forbid(unsafe_code)]

mod bytes;
mod checksum;
pub mod connections;
mod error;
mod form;
mod format;
pub mod full;
pub mod heartbeat;
pub mod hello;
mod key;
mod peer_group;
pub mod preamble;
pub mod session;
pub mod short;
pub mod stamp;
mod udp_frame;

pub use checksum::{internet_checksum, internet_sum};
pub use error::WireError;
pub use form::{Form, Kind, first_byte, peek};
pub use format::{IPV4_UDP_BYTE, IPV6_UDP_BYTE, LARGEST_BYTE, VERSION};
pub use key::{SessionId, SessionKey};
pub use peer_group::peer_group;
pub use udp_frame::{UDP_FRAME_HEADERS_BYTE, udp_frame_headers};

/// The port of a responder, TCP and UDP, unless another is chosen.
pub const DEFAULT_PORT: u16 = 8462;

/// The byte of IPv4's TOS of probes that leave ECN-capable: ECT(0). ECT(1) would put them into another queue where a
/// router has two (RFC 9331).
//= RFC 3168, section 5
pub const ECN_CAPABLE: u8 = 0b10;

#[cfg(test)]
mod tests;
