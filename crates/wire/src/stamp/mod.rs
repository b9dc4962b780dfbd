//! STAMP: RFC 8762 in both modes, with the session identifier and the extensions of RFC 8972.
//!
//! A reflector of another make understands these; vtare's own sessions use the native forms. Each function takes the
//! key of the authenticated mode, or `None` for the unauthenticated one. The base packet ([`packet_byte`]) may be
//! followed by extensions ([`tlv`]) or by padding.
//= RFC 8762, 4.2.1 and 4.2.2 (Session-Sender packet), 4.3.1 and 4.3.2 (Session-Reflector packet); RFC 8972, 3 (SSID)

mod auth;
mod time;
pub mod tlv;

pub use auth::StampKey;
pub use time::{ErrorEstimate, Time, TimeFormat};

use crate::bytes::{bytes_at, put};
use crate::{LARGEST_BYTE, WireError};

/// Bytes of a STAMP packet in unauthenticated mode.
pub const PACKET_BYTE: usize = 44;

/// Bytes of a STAMP packet in authenticated mode; the last 16 are the code over those before.
pub const AUTHENTICATED_BYTE: usize = 112;

/// Bytes of a STAMP packet without extensions and padding.
#[must_use]
pub const fn packet_byte(key: Option<&StampKey>) -> usize {
    layout(key).packet_byte
}

/// Where the fields of one mode are.
struct Layout {
    packet_byte: usize,
    time: usize,
    error: usize,
    session: usize,
    received: usize,
    sender_sequence: usize,
    sender_time: usize,
    sender_error: usize,
    sender_ttl: usize,
    /// Of the code; the packet ends before it in the unauthenticated mode.
    code: usize,
}

const fn layout(key: Option<&StampKey>) -> Layout {
    match key {
        None => Layout {
            packet_byte: PACKET_BYTE,
            time: 4,
            error: 12,
            session: 14,
            received: 16,
            sender_sequence: 24,
            sender_time: 28,
            sender_error: 36,
            sender_ttl: 40,
            code: PACKET_BYTE,
        },
        Some(_) => Layout {
            packet_byte: AUTHENTICATED_BYTE,
            time: 16,
            error: 24,
            session: 26,
            received: 32,
            sender_sequence: 48,
            sender_time: 64,
            sender_error: 72,
            sender_ttl: 80,
            code: AUTHENTICATED_BYTE - auth::CODE_BYTE,
        },
    }
}

/// What a Session-Sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderPacket {
    /// Its number; 32 bits, wraps.
    pub sequence: u32,
    /// When it was sent.
    pub sent: Time,
    /// How well that is known.
    pub error: ErrorEstimate,
    /// STAMP session identifier; 0 where none is used.
    pub session: u16,
}

impl SenderPacket {
    /// Writes the packet into `datagram`, whose length is the size of the datagram; bytes behind the packet stay as
    /// they are.
    ///
    /// # Errors
    /// [`WireError::TooShort`] below [`packet_byte`], [`WireError::TooLong`].
    pub fn encode(&self, key: Option<&StampKey>, datagram: &mut [u8]) -> Result<(), WireError> {
        check_size(key, datagram)?;
        let at = layout(key);
        datagram[..at.packet_byte].fill(0);
        put(datagram, 0, &self.sequence.to_be_bytes());
        put(datagram, at.time, &self.sent.bits.to_be_bytes());
        put(datagram, at.error, &self.error.to_bits(self.sent.format).to_be_bytes());
        put(datagram, at.session, &self.session.to_be_bytes());
        seal(key, datagram);
        Ok(())
    }

    /// Reads a sender's packet. Bytes that "must be zero" are ignored on receipt, as the RFC wants.
    ///
    /// # Errors
    /// [`WireError::TooShort`], [`WireError::TooLong`]; [`WireError::Tag`] where the code does not fit the key;
    /// [`WireError::Reserved`] for an error estimate with multiplier 0.
    pub fn decode(key: Option<&StampKey>, datagram: &[u8]) -> Result<Self, WireError> {
        check(key, datagram)?;
        let at = layout(key);
        let (error, format) = estimate_at(datagram, at.error)?;
        Ok(Self {
            sequence: u32::from_be_bytes(bytes_at(datagram, 0)),
            sent: time_at(datagram, at.time, format),
            error,
            session: u16::from_be_bytes(bytes_at(datagram, at.session)),
        })
    }
}

/// Whether the bytes that must be zero in a sender's packet are: in a reflector's they are its time of arrival and a
/// copy of the sender's packet. Of a datagram of at least [`packet_byte`]; for shorter ones it is false.
//= RFC 8762, figures 3 to 6; RFC 8972, 3: the two bytes before them are the session's
#[must_use]
pub fn is_of_a_sender(key: Option<&StampKey>, datagram: &[u8]) -> bool {
    let at = layout(key);
    datagram.get(at.received..at.code).is_some_and(|reserved| reserved.iter().all(|byte| *byte == 0))
}

/// What a Session-Reflector adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The reflector's own number (stateful), or the sender's (stateless).
    pub sequence: u32,
    /// When the reply was sent.
    pub replied: Time,
    /// How well the reflector's clock is known.
    pub error: ErrorEstimate,
    /// When the sender's packet arrived, in the format of `replied`.
    pub received: Time,
    /// TTL or hop limit that the sender's packet arrived with.
    pub sender_ttl: u8,
}

/// What a Session-Reflector sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// The reflector's part.
    pub reflection: Reflection,
    /// The sender's part, as it came.
    pub sender: SenderPacket,
}

impl ReflectorPacket {
    /// Reads a reflector's packet.
    ///
    /// # Errors
    /// As [`SenderPacket::decode`].
    pub fn decode(key: Option<&StampKey>, datagram: &[u8]) -> Result<Self, WireError> {
        check(key, datagram)?;
        let at = layout(key);
        let (error, format) = estimate_at(datagram, at.error)?;
        let (sender_error, sender_format) = estimate_at(datagram, at.sender_error)?;
        Ok(Self {
            reflection: Reflection {
                sequence: u32::from_be_bytes(bytes_at(datagram, 0)),
                replied: time_at(datagram, at.time, format),
                error,
                received: time_at(datagram, at.received, format),
                sender_ttl: datagram[at.sender_ttl],
            },
            sender: SenderPacket {
                sequence: u32::from_be_bytes(bytes_at(datagram, at.sender_sequence)),
                sent: time_at(datagram, at.sender_time, sender_format),
                error: sender_error,
                session: u16::from_be_bytes(bytes_at(datagram, at.session)),
            },
        })
    }
}

/// Rewrites a sender's packet into its reflection, in place: exactly as many bytes as came, those behind it kept.
///
/// # Errors
/// As [`SenderPacket::decode`]; the datagram is then unchanged.
pub fn reflect<'a>(
    key: Option<&StampKey>,
    datagram: &'a mut [u8],
    reflection: &Reflection,
) -> Result<&'a mut [u8], WireError> {
    let sender = SenderPacket::decode(key, datagram)?;
    Ok(reflect_decoded(key, datagram, &sender, reflection))
}

/// The same of a datagram from which [`SenderPacket::decode`] read `sender` with this key: its code is not checked
/// again.
pub fn reflect_decoded<'a>(
    key: Option<&StampKey>,
    datagram: &'a mut [u8],
    sender: &SenderPacket,
    reflection: &Reflection,
) -> &'a mut [u8] {
    let at = layout(key);
    datagram[..at.packet_byte].fill(0);
    put(datagram, 0, &reflection.sequence.to_be_bytes());
    put(datagram, at.time, &reflection.replied.bits.to_be_bytes());
    put(datagram, at.error, &reflection.error.to_bits(reflection.replied.format).to_be_bytes());
    put(datagram, at.session, &sender.session.to_be_bytes());
    put(datagram, at.received, &reflection.received.bits.to_be_bytes());
    put(datagram, at.sender_sequence, &sender.sequence.to_be_bytes());
    put(datagram, at.sender_time, &sender.sent.bits.to_be_bytes());
    put(datagram, at.sender_error, &sender.error.to_bits(sender.sent.format).to_be_bytes());
    datagram[at.sender_ttl] = reflection.sender_ttl;
    seal(key, datagram);
    datagram
}

/// Writes the code of the authenticated mode.
fn seal(key: Option<&StampKey>, datagram: &mut [u8]) {
    let Some(known) = key else { return };
    let at = layout(key).code;
    let code = known.code(&[&datagram[..at]]);
    put(datagram, at, &code);
}

fn check(key: Option<&StampKey>, datagram: &[u8]) -> Result<(), WireError> {
    check_size(key, datagram)?;
    let at = layout(key);
    match key {
        Some(key) if !key.fits(&[&datagram[..at.code]], &datagram[at.code..at.packet_byte]) => Err(WireError::Tag),
        _ => Ok(()),
    }
}

fn estimate_at(datagram: &[u8], at: usize) -> Result<(ErrorEstimate, TimeFormat), WireError> {
    let (estimate, format) = ErrorEstimate::from_bits(u16::from_be_bytes(bytes_at(datagram, at)));
    if estimate.multiplier == 0 { Err(WireError::Reserved { found: 0 }) } else { Ok((estimate, format)) }
}

fn time_at(datagram: &[u8], at: usize, format: TimeFormat) -> Time {
    Time { bits: u64::from_be_bytes(bytes_at(datagram, at)), format }
}

fn check_size(key: Option<&StampKey>, datagram: &[u8]) -> Result<(), WireError> {
    let (found_byte, need_byte) = (datagram.len(), packet_byte(key));
    match found_byte {
        _ if found_byte < need_byte => Err(WireError::TooShort { found_byte, need_byte }),
        _ if found_byte > LARGEST_BYTE => Err(WireError::TooLong { found_byte }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
