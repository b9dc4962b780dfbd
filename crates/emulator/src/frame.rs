//! Frames as bytes: how large the packet inside is, whether it is a probe, how a large one is cut, and how one is
//! damaged.

use vtare_sys::net::frames::{Cut, FrameHeader};
use vtare_wire::{internet_checksum, internet_sum};

/// Bytes of two addresses and the EtherType.
const ETHERNET: usize = 14;
const VLAN: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;

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

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn put(frame: &mut [u8], at: usize, value: u16) {
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

/// Why a frame cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotCut;

/// The packets that a large frame stands for, as the sender's card or kernel would have made them.
#[derive(Debug)]
pub struct Pieces<'f> {
    frame: &'f [u8],
    header: FrameHeader,
    packet_at: usize,
    transport_at: usize,
    payload_at: usize,
    /// Payload bytes of each piece but the last.
    segment: usize,
    next: usize,
    checksum: (u16, u16),
}

impl<'f> Pieces<'f> {
    /// The pieces of `frame`.
    ///
    /// # Errors
    /// For a protocol that this program cannot cut, and for headers that lead out of the frame.
    pub fn of(frame: &'f [u8], header: FrameHeader) -> Result<Self, CannotCut> {
        let packet_at = inside(frame).packet_at;
        let checksum = header.checksum.ok_or(CannotCut)?;
        let transport_at = usize::from(checksum.0);
        let transport = frame.get(transport_at..).ok_or(CannotCut)?;
        let length = match header.cut {
            Cut::Udp => 8,
            Cut::Tcp4 | Cut::Tcp6 => usize::from(*transport.get(12).ok_or(CannotCut)? >> 4) * 4,
            Cut::None | Cut::Other(_) => return Err(CannotCut),
        };
        let least = if header.cut == Cut::Udp { 8 } else { 20 };
        let payload_at = transport_at + length;
        let version = frame.get(packet_at).map(|first| first >> 4);
        let room = match version {
            Some(4) => 20,
            Some(6) => 40,
            _ => return Err(CannotCut),
        };
        let sound = length >= least && payload_at < frame.len() && transport_at >= packet_at + room;
        if !sound || header.segment_byte == 0 {
            return Err(CannotCut);
        }
        let segment = usize::from(header.segment_byte);
        Ok(Self { frame, header, packet_at, transport_at, payload_at, segment, next: 0, checksum })
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        (self.frame.len() - self.payload_at).div_ceil(self.segment)
    }

    /// Bytes of the IP packets of all pieces together.
    #[must_use]
    pub const fn packet_byte(&self) -> usize {
        self.frame.len() - self.payload_at + self.count() * (self.payload_at - self.packet_at)
    }

    /// Appends the next piece to `into` and gives the header that goes with it; `None` after the last.
    pub fn next_into(&mut self, into: &mut Vec<u8>) -> Option<[u8; vtare_sys::net::frames::FRAME_HEADER_BYTE]> {
        let number = self.next;
        let from = self.payload_at + number * self.segment;
        let payload =
            self.frame.get(from..(from + self.segment).min(self.frame.len())).filter(|rest| !rest.is_empty())?;
        self.next += 1;
        let begin = into.len();
        into.extend_from_slice(&self.frame[..self.payload_at]);
        into.extend_from_slice(payload);
        let piece = &mut into[begin..];
        self.write_network(piece, number);
        match self.header.cut {
            Cut::Udp => put(piece, self.transport_at + 4, (piece.len() - self.transport_at) as u16),
            _ => self.write_tcp(piece, number, from + self.segment >= self.frame.len()),
        }
        let sum = pseudo_sum(piece, self.packet_at, self.transport_at, self.header.cut);
        put(piece, self.transport_at + usize::from(self.checksum.1), sum);
        Some(FrameHeader::write_single(Some(self.checksum)))
    }

    fn write_network(&self, piece: &mut [u8], number: usize) {
        let (at, length) = (self.packet_at, piece.len() - self.packet_at);
        if piece[at] >> 4 == 6 {
            put(piece, at + 4, (length - 40) as u16);
            return;
        }
        put(piece, at + 2, length as u16);
        let identity = word(piece, at + 4).unwrap_or(0).wrapping_add(number as u16);
        put(piece, at + 4, identity);
        put(piece, at + 10, 0);
        let header = usize::from(piece[at] & 0xf) * 4;
        let sum = piece.get(at..at + header).map_or(0, internet_checksum);
        put(piece, at + 10, sum);
    }

    fn write_tcp(&self, piece: &mut [u8], number: usize, is_last: bool) {
        const FIN_AND_PSH: u8 = 0x09;
        const CWR: u8 = 0x80;
        let at = self.transport_at;
        let high = u32::from(word(piece, at + 4).unwrap_or(0)) << 16;
        let sequence = high | u32::from(word(piece, at + 6).unwrap_or(0));
        let sequence = sequence.wrapping_add((number * self.segment) as u32);
        put(piece, at + 4, (sequence >> 16) as u16);
        put(piece, at + 6, sequence as u16);
        if !is_last {
            piece[at + 13] &= !FIN_AND_PSH;
        }
        if self.header.congestion && number > 0 {
            piece[at + 13] &= !CWR;
        }
    }
}

/// The folded sum of the pseudo header: what stands in the checksum field of a packet whose checksum is still to be
/// made.
fn pseudo_sum(piece: &[u8], packet_at: usize, transport_at: usize, cut: Cut) -> u16 {
    let addresses =
        if piece[packet_at] >> 4 == 6 { packet_at + 8..packet_at + 40 } else { packet_at + 12..packet_at + 20 };
    let protocol: u64 = if cut == Cut::Udp { UDP.into() } else { 6 };
    internet_sum(protocol + (piece.len() - transport_at) as u64, piece.get(addresses).unwrap_or_default())
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
