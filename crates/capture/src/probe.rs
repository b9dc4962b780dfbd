//! From a packet's headers and the first bytes of its payload to the probe it carries, or the probes, where the kernel
//! moves many as one large packet (GSO, GRO).

use std::net::{IpAddr, SocketAddr};

use vtare_wire::{DEFAULT_PORT, Form, Kind, full, short, stamp};

use crate::Direction;
use crate::frame::{Packet, Transport};

/// The port of STAMP reflectors (RFC 8762).
pub const STAMP_PORT: u16 = 862;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// UDP ports of vtare's responders.
    pub ports: Vec<u16>,
    /// ICMP and ICMPv6 echo.
    pub icmp: bool,
    /// STAMP, by this port.
    pub stamp: Option<u16>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { ports: vec![DEFAULT_PORT], icmp: false, stamp: None }
    }
}

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It asks.
    Request,
    /// It answers.
    Reply,
    /// It wants no answer.
    OneWay,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// vtare's full form.
    Full,
    /// vtare's short form.
    Short,
    /// ICMP echo.
    Icmp,
    /// STAMP.
    Stamp,
}

impl Shape {
    /// `full`, `short`, `icmp` or `stamp`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Short => "short",
            Self::Icmp => "icmp",
            Self::Stamp => "stamp",
        }
    }

    /// The kind of a probe of this shape, in one word.
    #[must_use]
    pub const fn kind(self, role: Role) -> &'static str {
        match (self, role) {
            (Self::Icmp, Role::Reply) => "echo_reply",
            (Self::Icmp, _) => "echo_request",
            (Self::Stamp, Role::Reply) => "stamp_reply",
            (Self::Stamp, _) => "stamp_request",
            (_, Role::Request) => "request",
            (_, Role::Reply) => "reply",
            (_, Role::OneWay) => "one_way",
        }
    }
}

/// One end of a packet: an address, and a port where there are ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// The address.
    pub address: IpAddr,
    /// The port; `None` for ICMP.
    pub port: Option<u16>,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

/// A probe as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// How it is written.
    pub shape: Shape,
    /// What it is for.
    pub role: Role,
    /// The session it claims: its 64 bits (full), its handle (short), the identifier (ICMP, STAMP).
    pub session: u64,
    /// Its number as carried: 64 bits (full), 32 (short, STAMP), 16 (ICMP).
    pub sequence: u64,
    /// Length of its IP packet in bytes; of a probe out of a large packet: what its own will have.
    pub ip_byte: u32,
    /// Where it came from.
    pub source: End,
    /// Where it goes.
    pub destination: End,
    /// Its direction, where the frame records it.
    pub direction: Option<Direction>,
    /// Whether it was seen as part of a large packet that the kernel cuts up later, or has put together.
    pub merged: bool,
}

/// What a packet held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Probes that were given.
    pub probes: u32,
    /// Probes that a large packet holds and that could not be read, because they were not captured.
    pub unread: u32,
    /// Whether it was a large packet whose probes' size could not be determined: how many it held is not known, and
    /// none was given.
    pub unsplit: bool,
}

/// Gives the probes in `packet`, one at least where it is one that was looked for. `segment_byte` is the size of a
/// datagram's payload in a large packet, where the kernel reported it; else it is derived from the packet itself.
pub fn find(packet: &Packet<'_>, segment_byte: Option<u16>, wanted: &Wanted, give: &mut dyn FnMut(Probe)) -> Found {
    let (source, destination) = match packet.transport {
        Transport::Udp { source, destination } => (Some(source), Some(destination)),
        Transport::Echo { .. } => (None, None),
    };
    let mut probe = Probe {
        shape: Shape::Icmp,
        role: Role::Request,
        session: 0,
        sequence: 0,
        ip_byte: packet.ip_byte,
        source: End { address: packet.source, port: source },
        destination: End { address: packet.destination, port: destination },
        direction: packet.direction,
        merged: false,
    };
    match packet.transport {
        Transport::Echo { reply, identifier, sequence } if wanted.icmp => {
            probe.role = if reply { Role::Reply } else { Role::Request };
            (probe.session, probe.sequence) = (identifier.into(), sequence.into());
            give(probe);
            Found { probes: 1, ..Found::default() }
        }
        Transport::Udp { source, destination } => {
            let of = |port: Option<u16>| port.is_some_and(|port| port == source || port == destination);
            let head: fn(&[u8], bool) -> Option<Head> = if wanted.ports.iter().any(|&port| of(Some(port))) {
                |bytes, _| native(bytes)
            } else if of(wanted.stamp) {
                measured
            } else {
                return Found::default();
            };
            // Requests go to the reflector's port, whatever port they come from.
            let to_reflector = wanted.stamp == Some(destination);
            split(packet, segment_byte, probe, &|bytes| head(bytes, to_reflector), give)
        }
        Transport::Echo { .. } => Found::default(),
    }
}

/// What the first bytes of a datagram state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    shape: Shape,
    role: Role,
    session: u64,
    sequence: u64,
    /// The size of the whole datagram, where it states it.
    stated_byte: Option<u32>,
    least_byte: usize,
}

/// Bytes that each form's head needs to have been captured.
const FULL_HEAD: usize = 20;
const SHORT_HEAD: usize = 7;
const STAMP_HEAD: usize = 28;

/// vtare's own forms.
fn native(bytes: &[u8]) -> Option<Head> {
    let (form, kind) = vtare_wire::peek(bytes).ok()?;
    let role = match kind {
        Kind::Request => Role::Request,
        Kind::Reply => Role::Reply,
        // The direction follows from the flow.
        Kind::OneWay | Kind::Reverse => Role::OneWay,
    };
    match form {
        Form::Full => {
            let head = bytes.first_chunk::<FULL_HEAD>()?;
            let stated = u16::from_be_bytes([head[2], head[3]]);
            let plausible = usize::from(stated) >= full::HEADER_BYTE && (role == Role::Reply || head[1] == 0);
            plausible.then_some(Head {
                shape: Shape::Full,
                role,
                session: number(&head[4..12]),
                sequence: number(&head[12..20]),
                stated_byte: Some(stated.into()),
                least_byte: full::HEADER_BYTE,
            })
        }
        Form::Short => {
            let head = bytes.first_chunk::<SHORT_HEAD>()?;
            Some(Head {
                shape: Shape::Short,
                role,
                session: number(&head[1..3]),
                sequence: number(&head[3..7]),
                stated_byte: None,
                least_byte: short::HEADER_BYTE,
            })
        }
    }
}

/// STAMP. A reply carries the sender's number behind the reflector's own.
fn measured(bytes: &[u8], to_reflector: bool) -> Option<Head> {
    let head = bytes.first_chunk::<STAMP_HEAD>()?;
    let (role, at) = if to_reflector { (Role::Request, 0) } else { (Role::Reply, 24) };
    Some(Head {
        shape: Shape::Stamp,
        role,
        session: number(&head[14..16]),
        sequence: number(&head[at..at + 4]),
        stated_byte: None,
        least_byte: stamp::PACKET_BYTE,
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The largest distance between the numbers of neighbours in one large packet: what was lost between them.
const MOST_APART: u64 = 64;
/// Datagrams that Linux puts into one large packet (UDP_MAX_SEGMENTS; 64 before Linux 6.9).
const MOST_SEGMENTS: u32 = 128;

fn split(
    packet: &Packet<'_>,
    segment_byte: Option<u16>,
    base: Probe,
    head: &dyn Fn(&[u8]) -> Option<Head>,
    give: &mut dyn FnMut(Probe),
) -> Found {
    let Some(first) = head(packet.payload) else { return Found::default() };
    let whole = packet.payload_byte;
    if (whole as usize) < first.least_byte {
        return Found::default();
    }
    let told = segment_byte.map(u32::from).filter(|size| *size as usize >= first.least_byte && *size < whole);
    let stated = first.stated_byte.filter(|size| *size < whole);
    let size = told.or(stated).or_else(|| period(packet, &first, head)).unwrap_or(whole);
    let segments = whole.div_ceil(size);
    let mut found = Found::default();
    if segments > MOST_SEGMENTS || (segments == 1 && too_large(packet, &first)) {
        return Found { unsplit: true, ..found };
    }
    let headers = packet.ip_byte - whole;
    for segment in 0..segments {
        let at = segment * size;
        let own = size.min(whole - at);
        let bytes = packet.payload.get(at as usize..).unwrap_or_default();
        match head(bytes) {
            Some(it) if it.shape == first.shape && it.session == first.session => {
                give(Probe {
                    shape: it.shape,
                    role: it.role,
                    session: it.session,
                    sequence: it.sequence,
                    ip_byte: headers + own,
                    merged: segments > 1,
                    ..base
                });
                found.probes += 1;
            }
            _ => found.unread += 1,
        }
    }
    found
}

/// Whether a packet that looks like one probe holds more than a probe may.
fn too_large(packet: &Packet<'_>, first: &Head) -> bool {
    packet.payload_byte as usize > vtare_wire::LARGEST_BYTE
        || first.stated_byte.is_some_and(|size| size < packet.payload_byte)
}

/// The size of the datagrams in a large packet of a form that does not state it: the least at which every head is that
/// of a later probe of the same session. `None` where there is no such size, as in a packet with one probe.
fn period(packet: &Packet<'_>, first: &Head, head: &dyn Fn(&[u8]) -> Option<Head>) -> Option<u32> {
    if first.stated_byte.is_some() {
        return None;
    }
    let payload = packet.payload;
    let follows = |before: &Head, bytes: &[u8]| {
        head(bytes).filter(|it| {
            let same = (it.shape, it.role, it.session) == (first.shape, first.role, first.session);
            same && (1..=MOST_APART).contains(&it.sequence.wrapping_sub(before.sequence))
        })
    };
    let least = first.least_byte as u32;
    (least..=packet.payload_byte.saturating_sub(least)).find(|&size| {
        // A last datagram that is shorter than a head is none.
        let last = packet.payload_byte % size;
        if packet.payload_byte.div_ceil(size) > MOST_SEGMENTS || (last != 0 && last < least) {
            return false;
        }
        let mut before = *first;
        let mut seen = 0;
        for at in (size..packet.payload_byte).step_by(size as usize) {
            let Some(bytes) =
                payload.get(at as usize..).filter(|bytes| bytes.len() >= STAMP_HEAD.min(first.least_byte))
            else {
                break;
            };
            let Some(next) = follows(&before, bytes) else { return false };
            (before, seen) = (next, seen + 1);
        }
        seen > 0
    })
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
