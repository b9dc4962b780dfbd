//! Frames as bytes: how large the packet inside is, whether it is a probe, and how one is marked or damaged.

use vtare_sys::net::frames::FrameHeader;
use vtare_wire::internet_checksum;

/// Bytes of two addresses and the EtherType.
const ETHERNET: usize = 14;
const VLAN: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
pub(crate) const UDP: u8 = 17;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Where the packet begins: behind the Ethernet header and its VLAN tags.
    pub packet_at: usize,
    /// Bytes of the IP packet, without padding; of other frames all behind the Ethernet header.
    pub packet_byte: u32,
    /// Where what follows the IP header begins, where that is known.
    pub transport_at: Option<usize>,
    /// Ports of a UDP datagram: source and destination. Only the first fragment has them.
    pub udp_ports: Option<(u16, u16)>,
}

pub(crate) fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Looks into a frame. Any bytes give an answer.
#[must_use]
pub fn inside(frame: &[u8]) -> Inside {
    let (mut packet_at, mut kind) = (ETHERNET, word(frame, 12));
    while matches!(kind, Some(0x8100 | 0x88a8 | 0x9100)) {
        kind = word(frame, packet_at + 2);
        packet_at += VLAN;
    }
    let all = frame.len().saturating_sub(packet_at);
    let packet = frame.get(packet_at..).unwrap_or_default();
    let (stated, header, protocol, first) = match kind {
        Some(IPV4) if packet.len() >= 20 => {
            let fragment = word(packet, 6).unwrap_or(0) & 0x1fff;
            (word(packet, 2).map(usize::from), usize::from(packet[0] & 0xf) * 4, packet[9], fragment == 0)
        }
        // Extension headers are passed over: what hides behind one is no probe of vtare.
        Some(IPV6) if packet.len() >= 40 => (word(packet, 4).map(|byte| usize::from(byte) + 40), 40, packet[6], true),
        _ => (None, 0, 0, false),
    };
    // A frame that is to be cut, or larger than 64 KiB, states no length that holds.
    let packet_byte = stated.filter(|byte| (20..=all).contains(byte)).unwrap_or(all);
    let transport_at = stated.map(|_| packet_at + header).filter(|at| header >= 20 && *at <= frame.len());
    let udp_ports =
        transport_at.filter(|_| protocol == UDP && first).and_then(|at| Some((word(frame, at)?, word(frame, at + 2)?)));
    Inside { packet_at, packet_byte: u32::try_from(packet_byte).unwrap_or(u32::MAX), transport_at, udp_ports }
}

/// Puts a VLAN tag back that the kernel took out, and moves the checksum's place along.
pub fn put_tag_back(frame: &mut Vec<u8>, header: &mut FrameHeader, (kind, tag): (u16, u16)) {
    let [k, l] = kind.to_be_bytes();
    let [t, u] = tag.to_be_bytes();
    if frame.len() >= 12 {
        frame.splice(12..12, [k, l, t, u]);
        // Offsets that lead out of the frame are refused later; they must not wrap into it.
        header.checksum = header.checksum.map(|(start, offset)| (start.saturating_add(VLAN as u16), offset));
        header.header_byte = header.header_byte.saturating_add(VLAN as u16);
    }
}

/// Makes the checksum that was left to be made. Places that lead out of the frame leave it as it is.
pub fn complete_checksum(frame: &mut [u8], (start, offset): (u16, u16)) {
    let (start, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    let Some(stretch) = frame.get(start..).filter(|_| place + 2 <= frame.len()) else { return };
    // 0 would mean "no checksum" in UDP; both are the same number in this arithmetic.
    let sum = match internet_checksum(stretch) {
        0 => 0xffff,
        sum => sum,
    };
    put(frame, place, sum);
}

/// Gives an ECN-capable packet the mark of congestion (CE), and answers whether it is one.
//= RFC 3168, section 5
pub fn mark(frame: &mut [u8]) -> bool {
    let Inside { packet_at: at, transport_at: Some(end), .. } = inside(frame) else { return false };
    let is_ipv6 = frame[at] >> 4 == 6;
    // The lowest bits of the traffic class: in IPv6 they lie higher in their byte.
    let field = if is_ipv6 { 0x30 } else { 0x03 };
    if frame[at + 1] & field == 0 {
        return false;
    }
    frame[at + 1] |= field;
    if !is_ipv6 {
        put(frame, at + 10, 0);
        let sum = internet_checksum(&frame[at..end]);
        put(frame, at + 10, sum);
    }
    true
}

/// Turns one bit over, chosen by `random`: behind the IP header, so that the packet still finds its way and its
/// checksum shows the damage. In a frame without one, any bit behind the Ethernet header. A packet that is a header
/// alone stays whole.
pub fn damage(frame: &mut [u8], random: u64) {
    let found = inside(frame);
    let from = found.transport_at.unwrap_or(found.packet_at);
    // Padding is no part of the packet: a bit there would do nothing.
    let end = (found.packet_at + found.packet_byte as usize).min(frame.len());
    if let Some(bits) = end.checked_sub(from).map(|byte| byte as u64 * 8).filter(|bits| *bits > 0) {
        let bit = random % bits;
        frame[from + (bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
