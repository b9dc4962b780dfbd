//! The datagrams of vtare and of STAMP; `docs/wire.md` is their specification.
//!
//! Two native forms: [`full`], 60 B and more, carries everything; [`short`], 18 B and more, is what a 64 B Ethernet frame has
//! room for under IPv4 and UDP. [`stamp`] speaks RFC 8762 in its unauthenticated mode.
//!
//! Decoders are total: any bytes give a value or a [`WireError`], and nothing is allocated. A decoded header is *unverified*
//! until its tag has been checked against the key of the session it names; only then does it give its fields away.

pub mod full;
pub mod short;
pub mod stamp;
mod tag;

use std::fmt;

pub use tag::SessionKey;

/// The version of the wire format, in the upper half of a datagram's first byte.
pub const VERSION: u8 = 1;

/// The largest datagram payload that is sent or accepted, in bytes. What a path carries without fragments is its MTU less
/// [`IPV4_UDP_BYTE`] or [`IPV6_UDP_BYTE`].
pub const LARGEST_BYTE: usize = 9000;

/// Bytes of the IPv4 and the UDP header (ICMP echo's header is as long as UDP's).
pub const IPV4_UDP_BYTE: usize = 28;

/// Bytes of the IPv6 and the UDP header.
pub const IPV6_UDP_BYTE: usize = 48;

/// Bytes of an Ethernet header and its check sequence; frame sizes of RFC 2544 count both.
pub const ETHERNET_BYTE: usize = 18;

/// The payload that a frame of `frame_byte` (counted as RFC 2544 does, with check sequence) carries behind `ip_udp_byte` of
/// headers; `None` where there is no room for any.
///
/// ```
/// use vtare_packet::wire::{IPV4_UDP_BYTE, IPV6_UDP_BYTE, payload_of_frame};
/// assert_eq!(payload_of_frame(64, IPV4_UDP_BYTE), Some(18));
/// assert_eq!(payload_of_frame(64, IPV6_UDP_BYTE), None);
/// ```
#[must_use]
pub const fn payload_of_frame(frame_byte: usize, ip_udp_byte: usize) -> Option<usize> {
    match frame_byte.checked_sub(ETHERNET_BYTE + ip_udp_byte) {
        None | Some(0) => None,
        room => room,
    }
}

/// The name of a session: 64 random bits that cannot be guessed. Shown in full in logs; it is no secret without the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a datagram is for; the lower half of its first byte, without the bit that tells the forms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Wants one reply.
    Request,
    /// Answers one request.
    Reply,
    /// Wants no reply: the far end records its arrival (trains, throughput).
    OneWay,
    /// Of a train that the responder sends because its client asked for it; full form only. A kind of its own, so that none of them can
    /// be sent to the responder as a probe.
    Reverse,
}

/// Which native form a datagram has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// [`full`].
    Full,
    /// [`short`].
    Short,
}

const SHORT_BIT: u8 = 0x8;

/// The first byte of a datagram of this form and kind.
const fn first_byte(form: Form, kind: Kind) -> u8 {
    let kind = match kind {
        Kind::Request => 1,
        Kind::Reply => 2,
        Kind::OneWay => 3,
        Kind::Reverse => 4,
    };
    let form = match form {
        Form::Full => 0,
        Form::Short => SHORT_BIT,
    };
    VERSION << 4 | form | kind
}

/// Tells form and kind of a datagram by its first byte.
///
/// # Errors
/// [`WireError::TooShort`] for no bytes, [`WireError::Version`], [`WireError::Kind`].
pub fn peek(datagram: &[u8]) -> Result<(Form, Kind), WireError> {
    let &first = datagram.first().ok_or(WireError::TooShort { found_byte: 0, need_byte: short::HEADER_BYTE })?;
    if first >> 4 != VERSION {
        return Err(WireError::Version { found: first >> 4 });
    }
    let form = if first & SHORT_BIT == 0 { Form::Full } else { Form::Short };
    match first & 0x7 {
        1 => Ok((form, Kind::Request)),
        2 => Ok((form, Kind::Reply)),
        3 => Ok((form, Kind::OneWay)),
        4 if form == Form::Full => Ok((form, Kind::Reverse)),
        _ => Err(WireError::Kind { found: first & 0xf }),
    }
}

/// Why bytes are no datagram of ours, or why a datagram cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the header has.
    #[error("datagram of {found_byte} B, its header needs {need_byte} B")]
    TooShort {
        /// Bytes there are.
        found_byte: usize,
        /// Bytes the header takes.
        need_byte: usize,
    },
    /// More bytes than the format allows.
    #[error("datagram of {found_byte} B, at most {LARGEST_BYTE} B are allowed")]
    TooLong {
        /// Bytes there are.
        found_byte: usize,
    },
    /// Another version of the format, or another protocol.
    #[error("wire version {found}, this program speaks {VERSION}: use the same release of vtare at both ends")]
    Version {
        /// The version in the datagram.
        found: u8,
    },
    /// A kind this decoder is not for, or none of the known ones.
    #[error("datagram kind {found} is not expected here")]
    Kind {
        /// The lower half of the first byte.
        found: u8,
    },
    /// Bits that must be zero are not.
    #[error("reserved bits are set: {found:#04x}")]
    Reserved {
        /// The offending byte.
        found: u8,
    },
    /// The size in the header is not the size of the datagram: it was cut or padded on its way.
    #[error("datagram of {found_byte} B says that it has {stated_byte} B")]
    Size {
        /// Bytes there are.
        found_byte: usize,
        /// Bytes the header states.
        stated_byte: usize,
    },
    /// The tag does not fit the key: a forgery, a flipped bit, or another session's packet.
    #[error("the tag does not fit the session's key")]
    Tag,
}

/// Reads `N` bytes at `at`. Callers have checked the length; where they have not, zeros come out instead of a panic.
fn bytes_at<const N: usize>(datagram: &[u8], at: usize) -> [u8; N] {
    datagram.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}

/// Writes `bytes` at `at`, where there is room.
fn put(datagram: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = datagram.get_mut(at..at + bytes.len()) {
        slot.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
