//! The extensions of STAMP: type, length, value, one behind the other after the base packet.
//!
//! A sender writes requests ([`Request::write`]), a reflector fills them in where they are ([`answer`]) and sends as
//! many bytes as came, the sender reads the answers ([`Tlv::all`]).
//= RFC 8972, 4 (flags, types), 4.1 to 4.8

use std::net::IpAddr;

use super::auth::CODE_BYTE;
use super::{StampKey, Time, TimeFormat};
use crate::bytes::{bytes_at, put};

/// Bytes of flags, type and length.
pub const HEADER_BYTE: usize = 4;

/// The reflector does not know this type. A sender sets it, so that a reflector which knows none returns it set.
pub const UNRECOGNIZED: u8 = 0x80;
/// The length is none of this type, or goes beyond the datagram.
pub const MALFORMED: u8 = 0x40;
/// The code over the extensions does not fit.
pub const INTEGRITY: u8 = 0x20;

const PADDING: u8 = 1;
const LOCATION: u8 = 2;
const TIMESTAMPS: u8 = 3;
const CLASS_OF_SERVICE: u8 = 4;
const DIRECT: u8 = 5;
const FOLLOW_UP: u8 = 7;
const HMAC: u8 = 8;

/// In a location: what is asked for, and the types of the answers for IPv4 and IPv6.
const DESTINATION: [u8; 3] = [4, 5, 6];
const SOURCE: [u8; 3] = [7, 8, 9];
const ADDRESS_BYTE: usize = 16;

/// What a sender may ask of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Ports and addresses that the reflector saw.
    Location,
    /// Where the reflector's times come from.
    Timestamps,
    /// The class that the packet arrived with; the reply shall have this DSCP.
    ClassOfService {
        /// 6 bits.
        dscp: u8,
    },
    /// Counters of packets sent, received and answered.
    Direct,
    /// When the reply before this one left.
    FollowUp,
}

impl Request {
    const fn kind(self) -> u8 {
        match self {
            Self::Location => LOCATION,
            Self::Timestamps => TIMESTAMPS,
            Self::ClassOfService { .. } => CLASS_OF_SERVICE,
            Self::Direct => DIRECT,
            Self::FollowUp => FOLLOW_UP,
        }
    }

    const fn value_byte(self) -> usize {
        match self {
            Self::Location => 4 + 2 * (HEADER_BYTE + ADDRESS_BYTE),
            Self::Timestamps | Self::ClassOfService { .. } => 4,
            Self::Direct => 12,
            Self::FollowUp => 16,
        }
    }

    /// Bytes behind the base packet that `requests` take: with a key, a code over them follows.
    #[must_use]
    pub fn bytes(requests: &[Self], key: Option<&StampKey>) -> usize {
        let values: usize = requests.iter().map(|request| HEADER_BYTE + request.value_byte()).sum();
        values + if key.is_some() && values > 0 { HEADER_BYTE + CODE_BYTE } else { 0 }
    }

    /// Writes `requests` into `tail`, the bytes behind the base packet, whose number is `sequence`; `sent` is the
    /// sender's counter with this packet in it. What is left is padding; up to 3 B, too few for a header, stay 0.
    pub fn write(requests: &[Self], key: Option<&StampKey>, tail: &mut [u8], sequence: u32, sent: u32) {
        if requests.is_empty() || tail.len() < Self::bytes(requests, key) {
            return;
        }
        tail.fill(0);
        let mut at = 0;
        for request in requests {
            let value = put_header(tail, at, request.kind(), request.value_byte());
            match request {
                Self::Location => {
                    let addresses = put_header(tail, value + 4, DESTINATION[0], ADDRESS_BYTE) + ADDRESS_BYTE;
                    put_header(tail, addresses, SOURCE[0], ADDRESS_BYTE);
                }
                Self::ClassOfService { dscp } => tail[value] = dscp << 2,
                Self::Direct => put(tail, value, &sent.to_be_bytes()),
                Self::Timestamps | Self::FollowUp => {}
            }
            at = value + request.value_byte();
        }
        if let Some(key) = key {
            let code = key.code(&[&sequence.to_be_bytes(), &tail[..at]]);
            let value = put_header(tail, at, HMAC, CODE_BYTE);
            put(tail, value, &code);
            at = value + CODE_BYTE;
        }
        if let Some(left) = (tail.len() - at).checked_sub(HEADER_BYTE) {
            put_header(tail, at, PADDING, left);
        }
    }
}

/// Where a clock's time comes from.
//= RFC 8972, 4.3, table 7
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Source {
    /// A daemon holds the clock at UTC, by NTP as far as the kernel knows.
    Ntp = 1,
    /// A clock that nothing corrects.
    FreeRunning = 5,
}

/// Times taken by software of the host itself.
//= RFC 8972, 4.3, table 9
const LOCAL_SOFTWARE: u8 = 2;

/// What a reflector knows when it answers.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// The address asked, where known, and the port.
    pub local: (Option<IpAddr>, u16),
    /// The sender's.
    pub peer: (IpAddr, u16),
    /// DSCP and ECN of the packet; `None` where the kernel does not report them.
    pub class: Option<u8>,
    /// The reply may have the DSCP that is asked for, not only that of the packet.
    pub any_class: bool,
    /// Where times come from.
    pub source: Source,
    /// Packets of this session received and answered, this one included; `None` without state.
    pub counters: Option<(u32, u32)>,
    /// Number and time of the reply before; `None` without state or where this is the first.
    pub before: Option<(u32, Time)>,
}

/// Fills in the answers to what `tail` asks, the bytes behind the base packet of the request `sequence`, for the reply
/// `replied`, and gives the DSCP that the reply shall have, where that was asked. Bytes that are no extensions of a
/// sender stay as they are: padding of RFC 8762.
pub fn answer(key: Option<&StampKey>, tail: &mut [u8], sequence: u32, replied: u32, answers: &Answers) -> Option<u8> {
    // A sender sets this flag; padding is zeros or random.
    if tail.first() != Some(&UNRECOGNIZED) || tail.get(1) == Some(&0) {
        return None;
    }
    let integrity = checked(key, tail, sequence);
    let (mut at, mut dscp) = (0, None);
    while at + HEADER_BYTE <= tail.len() {
        let (kind, value) = (tail[at + 1], at + HEADER_BYTE);
        // What begins so is no extension, nor is what lies behind it: no code is over that.
        if kind == 0 {
            break;
        }
        let length = usize::from(u16::from_be_bytes(bytes_at(tail, at + 2)));
        let Some(end) = value.checked_add(length).filter(|end| *end <= tail.len()) else {
            tail[at] = MALFORMED;
            return dscp;
        };
        tail[at] = match (integrity, kind, key) {
            (Integrity::Fails, ..) => INTEGRITY,
            (_, HMAC, None) => UNRECOGNIZED,
            (_, HMAC, Some(key)) => {
                let code = key.code(&[&replied.to_be_bytes(), &tail[..at]]);
                put(tail, value, &code);
                0
            }
            _ => fill(kind, &mut tail[value..end], answers),
        };
        if (tail[at], kind) == (0, CLASS_OF_SERVICE) {
            dscp = answers.class.map(|class| if answers.any_class { tail[value] >> 2 } else { class >> 2 });
        }
        at = end;
    }
    dscp
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Integrity {
    Fits,
    Fails,
}

/// With a key, extensions must end with their code, which only padding may follow. Without one none can be checked.
fn checked(key: Option<&StampKey>, tail: &[u8], sequence: u32) -> Integrity {
    let Some(key) = key else { return Integrity::Fits };
    let mut at = 0;
    let mut code = None;
    for tlv in Tlv::all(tail) {
        match (tlv.kind, code) {
            (HMAC, None) => code = Some((at, tlv.value)),
            (HMAC, Some(_)) => return Integrity::Fails,
            (PADDING, _) | (_, None) => {}
            (_, Some(_)) => return Integrity::Fails,
        }
        at += HEADER_BYTE + tlv.value.len();
    }
    let fits = code.is_some_and(|(at, code)| key.fits(&[&sequence.to_be_bytes(), &tail[..at]], code));
    if fits { Integrity::Fits } else { Integrity::Fails }
}

/// Fills in one answer and gives its flags.
fn fill(kind: u8, value: &mut [u8], answers: &Answers) -> u8 {
    let wanted = match kind {
        PADDING => return 0,
        LOCATION => return fill_location(value, answers),
        TIMESTAMPS | CLASS_OF_SERVICE => 4,
        DIRECT => 12,
        FOLLOW_UP => 16,
        _ => return UNRECOGNIZED,
    };
    if value.len() != wanted {
        return MALFORMED;
    }
    match kind {
        TIMESTAMPS => {
            let source = answers.source as u8;
            value.copy_from_slice(&[source, LOCAL_SOFTWARE, source, LOCAL_SOFTWARE]);
        }
        CLASS_OF_SERVICE => {
            let Some(class) = answers.class else { return UNRECOGNIZED };
            let (dscp, ecn) = (class >> 2, class & 3);
            value[0] = value[0] & 0xfc | dscp >> 4;
            value[1] = dscp << 4 | ecn << 2 | u8::from(!answers.any_class);
            value[2..].fill(0);
        }
        DIRECT => {
            let Some((received, replied)) = answers.counters else { return UNRECOGNIZED };
            put(value, 4, &received.to_be_bytes());
            put(value, 8, &replied.to_be_bytes());
        }
        _ => {
            // RFC 8972, 4.7: only with state; zeros in the first reply.
            if answers.counters.is_none() {
                return UNRECOGNIZED;
            }
            value.fill(0);
            if let Some((sequence, at)) = answers.before {
                put(value, 0, &sequence.to_be_bytes());
                put(value, 4, &at.bits.to_be_bytes());
                value[12] = LOCAL_SOFTWARE;
            }
        }
    }
    0
}

fn fill_location(value: &mut [u8], answers: &Answers) -> u8 {
    if value.len() < 4 {
        return MALFORMED;
    }
    put(value, 0, &answers.local.1.to_be_bytes());
    put(value, 2, &answers.peer.1.to_be_bytes());
    let mut at = 4;
    while at + HEADER_BYTE <= value.len() {
        let length = usize::from(u16::from_be_bytes(bytes_at(value, at + 2)));
        let (kind, start) = (value[at + 1], at + HEADER_BYTE);
        if start + length > value.len() {
            value[at] = MALFORMED;
            return MALFORMED;
        }
        let known = match kind {
            _ if kind == DESTINATION[0] => answers.local.0.map(|address| (DESTINATION, address)),
            _ if kind == SOURCE[0] => Some((SOURCE, answers.peer.0)),
            _ => None,
        };
        value[at] = match known {
            Some(_) if length != ADDRESS_BYTE => MALFORMED,
            Some((kinds, address)) => {
                value[start..start + length].fill(0);
                match address.to_canonical() {
                    IpAddr::V4(address) => {
                        value[at + 1] = kinds[1];
                        put(value, start, &address.octets());
                    }
                    IpAddr::V6(address) => {
                        value[at + 1] = kinds[2];
                        put(value, start, &address.octets());
                    }
                }
                0
            }
            None => UNRECOGNIZED,
        };
        at = start + length;
    }
    0
}

/// One extension as it lies in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// [`UNRECOGNIZED`], [`MALFORMED`], [`INTEGRITY`].
    pub flags: u8,
    kind: u8,
    value: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// The extensions in `tail`, the bytes behind the base packet, up to the first whose length goes beyond them.
    pub fn all(tail: &'a [u8]) -> impl Iterator<Item = Self> {
        let mut rest = tail;
        std::iter::from_fn(move || {
            let (&[flags, kind, high, low], behind) = rest.split_first_chunk::<HEADER_BYTE>()?;
            let length = usize::from(u16::from_be_bytes([high, low]));
            let value = behind.get(..length)?;
            rest = &behind[length..];
            (kind != 0).then_some(Self { flags, kind, value })
        })
    }

    /// What it answers; `None` for padding, codes, unknown types, wrong lengths, and where a flag is set.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        if self.flags & (UNRECOGNIZED | MALFORMED | INTEGRITY) != 0 {
            return None;
        }
        let value = self.value;
        let word = |at| u32::from_be_bytes(bytes_at(value, at));
        match (self.kind, value.len()) {
            (LOCATION, 4..) => {
                let ports = [u16::from_be_bytes(bytes_at(value, 0)), u16::from_be_bytes(bytes_at(value, 2))];
                let address = |kinds: [u8; 3]| {
                    Tlv::all(&value[4..]).filter(|tlv| tlv.flags == 0).find_map(|tlv| match tlv.value.len() {
                        ADDRESS_BYTE if tlv.kind == kinds[1] => Some(IpAddr::from(bytes_at::<4>(tlv.value, 0))),
                        ADDRESS_BYTE if tlv.kind == kinds[2] => Some(IpAddr::from(bytes_at::<16>(tlv.value, 0))),
                        _ => None,
                    })
                };
                Some(Answer::Location {
                    destination: (address(DESTINATION), ports[0]),
                    source: (address(SOURCE), ports[1]),
                })
            }
            (TIMESTAMPS, 4..) => {
                Some(Answer::Timestamps { received: (value[0], value[1]), replied: (value[2], value[3]) })
            }
            (CLASS_OF_SERVICE, 4) => Some(Answer::ClassOfService {
                dscp: (value[0] & 3) << 4 | value[1] >> 4,
                ecn: value[1] >> 2 & 3,
                kept: value[1] & 3 == 0,
            }),
            (DIRECT, 12) => Some(Answer::Direct { sent: word(0), received: word(4), replied: word(8) }),
            (FOLLOW_UP, 16) => {
                Some(Answer::FollowUp { sequence: word(0), bits: u64::from_be_bytes(bytes_at(value, 4)) })
            }
            _ => None,
        }
    }

    /// Whether it is padding.
    #[must_use]
    pub const fn is_padding(&self) -> bool {
        self.kind == PADDING
    }
}

/// Whether the code over the extensions of the reply `sequence` fits. True without a key, and without extensions.
#[must_use]
pub fn is_authentic(key: Option<&StampKey>, tail: &[u8], sequence: u32) -> bool {
    Tlv::all(tail).all(|tlv| tlv.is_padding()) || checked(key, tail, sequence) == Integrity::Fits
}

/// What a reflector answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As it saw the packet: addresses where it gives them, and ports.
    Location {
        /// Its own.
        destination: (Option<IpAddr>, u16),
        /// The sender's: another than its own behind a translator of addresses.
        source: (Option<IpAddr>, u16),
    },
    /// Numbers of RFC 8972, tables 7 and 9: where the times of arrival and reply come from, and who takes them.
    Timestamps {
        /// Of arrival.
        received: (u8, u8),
        /// Of the reply.
        replied: (u8, u8),
    },
    /// What the packet arrived with.
    ClassOfService {
        /// 6 bits.
        dscp: u8,
        /// 2 bits; 3: congestion was marked on the way.
        ecn: u8,
        /// The reply has the DSCP that was asked for.
        kept: bool,
    },
    /// Packets up to this one.
    Direct {
        /// Sent, as the sender stated.
        sent: u32,
        /// Received by the reflector.
        received: u32,
        /// Answered by it.
        replied: u32,
    },
    /// When the reply `sequence` left; 0 and 0 in the first.
    FollowUp {
        /// The reflector's number of it.
        sequence: u32,
        /// The time, in the format of the packet's other times.
        bits: u64,
    },
}

impl Answer {
    /// The time of a [`Self::FollowUp`] in `format`; `None` for another answer and where it has none.
    #[must_use]
    pub const fn follow_up(self, format: TimeFormat) -> Option<(u32, Time)> {
        match self {
            Self::FollowUp { sequence, bits } if bits != 0 => Some((sequence, Time { bits, format })),
            _ => None,
        }
    }
}

fn put_header(tail: &mut [u8], at: usize, kind: u8, length: usize) -> usize {
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    put(tail, at, &[UNRECOGNIZED, kind, length[0], length[1]]);
    at + HEADER_BYTE
}
