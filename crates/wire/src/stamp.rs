//! STAMP, RFC 8762, unauthenticated mode: 44 B, with the session identifier of RFC 8972.
//!
//! A reflector of another make understands these; vtare's own sessions use the native forms, which are authenticated.
//= RFC 8762, 4.2.1 (Session-Sender packet), 4.3.1 (Session-Reflector packet); RFC 8972, 3 (SSID)

use crate::bytes::{bytes_at, put};
use crate::{LARGEST_BYTE, WireError};

/// Bytes of a STAMP packet in unauthenticated mode; padding may follow.
pub const PACKET_BYTE: usize = 44;

/// Seconds from 1900 (NTP's epoch) to 1970.
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// How the 64 bits of a time stamp are to be read; bit Z of the error estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeFormat {
    /// Seconds since 1900 and a binary fraction (Z = 0), which every reflector must understand.
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, truncated PTP (Z = 1).
    Ptp,
}

/// A time stamp of 64 bits with the format it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Time {
    /// The bits as sent.
    pub bits: u64,
    /// What they mean.
    pub format: TimeFormat,
}

impl Time {
    /// `unix_ns` nanoseconds since 1970, in `format`. Seconds wrap as the formats do (NTP in 2036, PTP in 2106).
    #[must_use]
    pub const fn from_unix_ns(unix_ns: u64, format: TimeFormat) -> Self {
        let (seconds, nanos) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
        let bits = match format {
            // Rounded up, so that reading it back gives the same nanosecond.
            TimeFormat::Ntp => (seconds + NTP_TO_UNIX_S) << 32 | (nanos << 32).div_ceil(1_000_000_000),
            TimeFormat::Ptp => seconds << 32 | nanos,
        };
        Self { bits, format }
    }

    /// Nanoseconds since 1970; NTP seconds are taken from the era 1968 to 2104. `None` for a PTP stamp with more than
    /// 999,999,999 ns.
    #[must_use]
    pub const fn unix_ns(self) -> Option<u64> {
        let (seconds, rest) = (self.bits >> 32, self.bits & 0xffff_ffff);
        match self.format {
            TimeFormat::Ntp => {
                // RFC 4330, 3: with the top bit clear the stamp lies in the era that begins in 2036.
                let era = if seconds & 0x8000_0000 == 0 { 1 << 32 } else { 0 };
                match (seconds + era).checked_sub(NTP_TO_UNIX_S) {
                    Some(unix) => Some(unix * 1_000_000_000 + ((rest * 1_000_000_000) >> 32)),
                    None => None,
                }
            }
            TimeFormat::Ptp if rest < 1_000_000_000 => Some(seconds * 1_000_000_000 + rest),
            TimeFormat::Ptp => None,
        }
    }
}

/// How well a stamp's clock is known: RFC 8762, 4.2.1, after RFC 4656, 4.1.2. The format bit is kept in [`Time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// The clock is synchronized to UTC by an outside source.
    pub synchronized: bool,
    /// The error is `multiplier` x 2^`scale` x 2^-32 s; 6 bits.
    pub scale: u8,
    /// Never 0: a packet with 0 is to be discarded.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The least estimate that is at least `error_ns`.
    #[must_use]
    pub fn of_ns(error_ns: u64, synchronized: bool) -> Self {
        let mut units = ((u128::from(error_ns) << 32).div_ceil(1_000_000_000)).max(1);
        let mut scale = 0;
        while units > 255 {
            units = units.div_ceil(2);
            scale += 1;
        }
        Self { synchronized, scale, multiplier: units as u8 }
    }

    /// The error in ns, rounded up; saturates.
    #[must_use]
    pub fn as_ns(self) -> u64 {
        let ns = ((u128::from(self.multiplier) << (self.scale & 0x3f)) * 1_000_000_000).div_ceil(1 << 32);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    const fn to_bits(self, format: TimeFormat) -> u16 {
        let z = match format {
            TimeFormat::Ntp => 0,
            TimeFormat::Ptp => 1 << 14,
        };
        (self.synchronized as u16) << 15 | z | ((self.scale & 0x3f) as u16) << 8 | self.multiplier as u16
    }

    const fn from_bits(bits: u16) -> (Self, TimeFormat) {
        let format = if bits & 1 << 14 == 0 { TimeFormat::Ntp } else { TimeFormat::Ptp };
        let estimate = Self { synchronized: bits >> 15 == 1, scale: (bits >> 8 & 0x3f) as u8, multiplier: bits as u8 };
        (estimate, format)
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
    /// [`WireError::TooShort`] below [`PACKET_BYTE`], [`WireError::TooLong`].
    pub fn encode(&self, datagram: &mut [u8]) -> Result<(), WireError> {
        check_size(datagram)?;
        datagram[..PACKET_BYTE].fill(0);
        put(datagram, 0, &self.sequence.to_be_bytes());
        put(datagram, 4, &self.sent.bits.to_be_bytes());
        put(datagram, 12, &self.error.to_bits(self.sent.format).to_be_bytes());
        put(datagram, 14, &self.session.to_be_bytes());
        Ok(())
    }

    /// Reads a sender's packet. Bytes that "must be zero" are ignored on receipt, as the RFC wants.
    ///
    /// # Errors
    /// [`WireError::TooShort`], [`WireError::TooLong`]; [`WireError::Reserved`] for an error estimate with multiplier
    /// 0.
    pub fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        check_size(datagram)?;
        let (error, format) = estimate_at(datagram, 12)?;
        Ok(Self {
            sequence: u32::from_be_bytes(bytes_at(datagram, 0)),
            sent: Time { bits: u64::from_be_bytes(bytes_at(datagram, 4)), format },
            error,
            session: u16::from_be_bytes(bytes_at(datagram, 14)),
        })
    }
}

/// Whether the bytes that must be zero in a sender's packet are: in a reflector's they are its time of arrival and a
/// copy of the sender's packet. Of a datagram of at least [`PACKET_BYTE`]; for shorter ones it is false.
//= RFC 8762, 4.2.1 and 4.3.1, figures 3 and 5; RFC 8972, 3: bytes 14 and 15 are the session's
#[must_use]
pub fn is_of_a_sender(datagram: &[u8]) -> bool {
    datagram.get(16..PACKET_BYTE).is_some_and(|reserved| reserved.iter().all(|byte| *byte == 0))
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
    pub fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        check_size(datagram)?;
        let (error, format) = estimate_at(datagram, 12)?;
        let (sender_error, sender_format) = estimate_at(datagram, 36)?;
        let time = |at, format| Time { bits: u64::from_be_bytes(bytes_at(datagram, at)), format };
        Ok(Self {
            reflection: Reflection {
                sequence: u32::from_be_bytes(bytes_at(datagram, 0)),
                replied: time(4, format),
                error,
                received: time(16, format),
                sender_ttl: datagram[40],
            },
            sender: SenderPacket {
                sequence: u32::from_be_bytes(bytes_at(datagram, 24)),
                sent: time(28, sender_format),
                error: sender_error,
                session: u16::from_be_bytes(bytes_at(datagram, 14)),
            },
        })
    }
}

/// Rewrites a sender's packet into its reflection, in place: exactly as many bytes as came, the padding kept.
///
/// # Errors
/// As [`SenderPacket::decode`]; the datagram is then unchanged.
pub fn reflect<'a>(datagram: &'a mut [u8], reflection: &Reflection) -> Result<&'a mut [u8], WireError> {
    let sender = SenderPacket::decode(datagram)?;
    datagram[..PACKET_BYTE].fill(0);
    put(datagram, 0, &reflection.sequence.to_be_bytes());
    put(datagram, 4, &reflection.replied.bits.to_be_bytes());
    put(datagram, 12, &reflection.error.to_bits(reflection.replied.format).to_be_bytes());
    put(datagram, 14, &sender.session.to_be_bytes());
    put(datagram, 16, &reflection.received.bits.to_be_bytes());
    put(datagram, 24, &sender.sequence.to_be_bytes());
    put(datagram, 28, &sender.sent.bits.to_be_bytes());
    put(datagram, 36, &sender.error.to_bits(sender.sent.format).to_be_bytes());
    datagram[40] = reflection.sender_ttl;
    Ok(datagram)
}

fn estimate_at(datagram: &[u8], at: usize) -> Result<(ErrorEstimate, TimeFormat), WireError> {
    let (estimate, format) = ErrorEstimate::from_bits(u16::from_be_bytes(bytes_at(datagram, at)));
    if estimate.multiplier == 0 { Err(WireError::Reserved { found: 0 }) } else { Ok((estimate, format)) }
}

fn check_size(datagram: &[u8]) -> Result<(), WireError> {
    let found_byte = datagram.len();
    match found_byte {
        _ if found_byte < PACKET_BYTE => Err(WireError::TooShort { found_byte, need_byte: PACKET_BYTE }),
        _ if found_byte > LARGEST_BYTE => Err(WireError::TooLong { found_byte }),
        _ => Ok(()),
    }
}
