//! From the bytes of a frame to the headers that matter: link, VLAN tags, tunnels, IPv4 or IPv6, UDP or ICMP.
//!
//! Total: any bytes give a packet or the reason why there is none, and nothing is allocated. Checksums are not looked
//! at: a capture on the sending host sees them before the card has filled them in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Direction;
pub use crate::header::{NoPacket, Protocol, Tunnel};
use crate::header::{byte, number, octets, rest};
use crate::tunnel::{self, Inner};

/// What a frame begins with; the numbers are the registry's of pcap link types (`LINKTYPE_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet without its check sequence (1).
    Ethernet,
    /// An IP header (101; also 12, 14, 228 and 229).
    RawIp,
    /// A four-byte address family in the writer's byte order (0), or big-endian (108).
    Loopback,
    /// Linux cooked capture, version 1 (113).
    Cooked,
    /// Linux cooked capture, version 2 (276).
    Cooked2,
}

impl LinkType {
    /// The type that a capture file names by `number`; `None` for those that are not read here.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Self::RawIp),
            0 | 108 => Some(Self::Loopback),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }
}

/// What IP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP, with its ports.
    Udp {
        /// Port it came from.
        source: u16,
        /// Port it goes to.
        destination: u16,
    },
    /// An echo message of ICMP or ICMPv6, with identifier and sequence number.
    Echo {
        /// Whether it is a reply.
        reply: bool,
        /// The identifier.
        identifier: u16,
        /// The number.
        sequence: u16,
    },
}

/// A packet as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Where it came from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// What it carries.
    pub transport: Transport,
    /// Length of the IP packet, header included, in bytes. 0 is never given.
    pub ip_byte: u32,
    /// Length of what is behind the UDP or echo header, in bytes, captured or not.
    pub payload_byte: u32,
    /// What of that was captured.
    pub payload: &'a [u8],
    /// Its direction, where the frame itself records it (cooked captures).
    pub direction: Option<Direction>,
    /// The outermost of the tunnels that it was in.
    pub tunnel: Option<Tunnel>,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// MPLS, to one receiver and to many.
const ETHERTYPES_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHERTYPE_PPPOE: u16 = 0x8864;
/// IEEE 802.1Q, 802.1ad, and what some vendors used before.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags that are passed over; two are usual at most.
const MOST_TAGS: usize = 4;
/// IPv6 extension headers that are passed over.
const MOST_EXTENSIONS: usize = 8;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
/// Tunnels within each other.
const MOST_TUNNELS: usize = 4;

/// What was passed on the way to a header.
#[derive(Clone, Copy, Default)]
struct Outside {
    tunnels: usize,
    outermost: Option<Tunnel>,
}

impl Outside {
    /// Reads what is inside a tunnel.
    fn through<'a>(self, tunnel: Tunnel, bytes: &'a [u8]) -> Result<Packet<'a>, NoPacket> {
        if self.tunnels == MOST_TUNNELS {
            return Err(NoPacket::Other(Protocol::Inside(tunnel)));
        }
        let outside = Self { tunnels: self.tunnels + 1, outermost: self.outermost.or(Some(tunnel)) };
        match tunnel::open(tunnel, bytes)? {
            Inner::Ethernet(frame) => ethernet(frame, outside),
            Inner::EtherType(kind, bytes) => named(kind, bytes, outside),
            Inner::Ip(bytes) => ip(bytes, outside),
        }
    }
}

/// Reads a frame.
///
/// # Errors
/// [`NoPacket`], with the reason.
pub fn read(link: LinkType, frame: &[u8]) -> Result<Packet<'_>, NoPacket> {
    match link {
        LinkType::Ethernet => ethernet(frame, Outside::default()),
        LinkType::RawIp => ip(frame, Outside::default()),
        LinkType::Loopback => ip(rest(frame, 4)?, Outside::default()),
        LinkType::Cooked => {
            let packet = ethertype(number(frame, 14)?, rest(frame, 16)?)?;
            let sent = number(frame, 0)? == PACKET_OUTGOING;
            Ok(Packet { direction: Some(if sent { Direction::Tx } else { Direction::Rx }), ..packet })
        }
        LinkType::Cooked2 => {
            let packet = ethertype(number(frame, 0)?, rest(frame, 20)?)?;
            let sent = u16::from(byte(frame, 10)?) == PACKET_OUTGOING;
            Ok(Packet { direction: Some(if sent { Direction::Tx } else { Direction::Rx }), ..packet })
        }
    }
}

/// `linux/if_packet.h`.
const PACKET_OUTGOING: u16 = 4;

/// Reads what is behind a link header that named `kind`, as `0x0800` for IPv4; VLAN tags are passed over.
///
/// # Errors
/// [`NoPacket`], with the reason.
pub fn ethertype(kind: u16, bytes: &[u8]) -> Result<Packet<'_>, NoPacket> {
    named(kind, bytes, Outside::default())
}

fn ethernet(frame: &[u8], outside: Outside) -> Result<Packet<'_>, NoPacket> {
    named(number(frame, 12)?, rest(frame, 14)?, outside)
}

fn named(mut kind: u16, mut bytes: &[u8], outside: Outside) -> Result<Packet<'_>, NoPacket> {
    for _ in 0..MOST_TAGS {
        if !ETHERTYPES_VLAN.contains(&kind) {
            break;
        }
        kind = number(bytes, 2)?;
        bytes = rest(bytes, 4)?;
    }
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => ip(bytes, outside),
        ETHERTYPE_PPPOE => outside.through(Tunnel::Pppoe, bytes),
        kind if ETHERTYPES_MPLS.contains(&kind) => outside.through(Tunnel::Mpls, bytes),
        kind => Err(NoPacket::Other(Protocol::EtherType(kind))),
    }
}

fn ip(bytes: &[u8], outside: Outside) -> Result<Packet<'_>, NoPacket> {
    match byte(bytes, 0)? >> 4 {
        4 => ipv4(bytes, outside),
        6 => ipv6(bytes, outside),
        _ => Err(NoPacket::Other(Protocol::NoIp)),
    }
}

//= RFC 791, 3.1
fn ipv4(bytes: &[u8], outside: Outside) -> Result<Packet<'_>, NoPacket> {
    let header = usize::from(byte(bytes, 0)? & 0xf) * 4;
    let total = number(bytes, 2)?;
    let protocol = byte(bytes, 9)?;
    let (source, destination) = (octets::<4>(bytes, 12)?, octets::<4>(bytes, 16)?);
    if header < 20 || !carried(protocol, ICMP) {
        return Err(NoPacket::Other(Protocol::Ip(protocol)));
    }
    if number(bytes, 6)? & 0x1fff != 0 {
        return Err(NoPacket::Fragment);
    }
    let ends = (Ipv4Addr::from(source).into(), Ipv4Addr::from(destination).into());
    transport(protocol, ends, bytes, (header, usize::from(total)), outside)
}

//= RFC 8200, 3 and 4
fn ipv6(bytes: &[u8], outside: Outside) -> Result<Packet<'_>, NoPacket> {
    let total = 40 + usize::from(number(bytes, 4)?);
    let (source, destination) = (octets::<16>(bytes, 8)?, octets::<16>(bytes, 24)?);
    let (mut next, mut at) = (byte(bytes, 6)?, 40);
    for _ in 0..MOST_EXTENSIONS {
        match next {
            // Hop-by-hop, routing, destination options.
            0 | 43 | 60 => {
                next = byte(bytes, at)?;
                at += (usize::from(byte(bytes, at + 1)?) + 1) * 8;
            }
            44 => {
                if number(bytes, at + 2)? & 0xfff8 != 0 {
                    return Err(NoPacket::Fragment);
                }
                next = byte(bytes, at)?;
                at += 8;
            }
            _ => break,
        }
    }
    if !carried(next, ICMPV6) {
        return Err(NoPacket::Other(Protocol::Ip(next)));
    }
    let ends = (Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into());
    transport(next, ends, bytes, (at, total), outside)
}

/// Whether probes may be behind this protocol.
fn carried(protocol: u8, icmp: u8) -> bool {
    protocol == icmp || matches!(protocol, UDP | IPV4_IN_IP | IPV6_IN_IP | GRE)
}

/// Both headers are 8 B long.
const TRANSPORT_BYTE: usize = 8;

fn transport(
    protocol: u8,
    (source, destination): (IpAddr, IpAddr),
    bytes: &[u8],
    (at, total): (usize, usize),
    outside: Outside,
) -> Result<Packet<'_>, NoPacket> {
    // Short frames are padded to 60 B: what is beyond the packet's end is not of it.
    let whole = &bytes[..bytes.len().min(total)];
    match protocol {
        IPV4_IN_IP | IPV6_IN_IP => return outside.through(Tunnel::IpInIp, rest(whole, at)?),
        GRE => return outside.through(Tunnel::Gre, rest(whole, at)?),
        _ => {}
    }
    let payload_at = at + TRANSPORT_BYTE;
    if total < payload_at {
        return Err(NoPacket::Other(Protocol::Ip(protocol)));
    }
    let tunnel = if protocol == UDP { Tunnel::of_port(number(bytes, at + 2)?) } else { None };
    if let Some(tunnel) = tunnel
        && let Some(payload) = whole.get(payload_at..)
        && tunnel::open(tunnel, payload).is_ok()
    {
        return outside.through(tunnel, payload);
    }
    let found = match protocol {
        UDP => Transport::Udp { source: number(bytes, at)?, destination: number(bytes, at + 2)? },
        _ => {
            let reply = match (protocol, byte(bytes, at)?) {
                (ICMP, 8) | (ICMPV6, 128) => false,
                (ICMP, 0) | (ICMPV6, 129) => true,
                (_, kind) => return Err(NoPacket::Other(Protocol::Icmp(kind))),
            };
            Transport::Echo { reply, identifier: number(bytes, at + 4)?, sequence: number(bytes, at + 6)? }
        }
    };
    let payload = whole.get(payload_at..).ok_or(NoPacket::Cut)?;
    Ok(Packet {
        source,
        destination,
        transport: found,
        ip_byte: total as u32,
        payload_byte: (total - payload_at) as u32,
        payload,
        direction: None,
        tunnel: outside.outermost,
    })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
