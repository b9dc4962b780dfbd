//! The packets that a large frame stands for, and large frames made of packets that follow each other.

use std::ops::Range;

use vtare_sys::net::frames::{Cut, FrameHeader};
use vtare_wire::{internet_checksum, internet_sum};

use crate::frame::{UDP, inside, put, word};

/// Packets of one datagram flow that leave as one frame at most: what every receiver takes.
const MOST_DATAGRAMS: usize = 64;
/// Bytes of an IP packet at most, also of one that stands for several.
const MOST_PACKET_BYTE: usize = 65_535;

/// Why a frame cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotCut;

/// Where the parts of a frame lie that is several packets, or one UDP datagram that can join others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    packet_at: usize,
    transport_at: usize,
    payload_at: usize,
    end: usize,
    /// Payload bytes of each packet but the last.
    segment: usize,
    cut: Cut,
    congestion: bool,
    checksum: (u16, u16),
}

/// Packets that leave as one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub packets: usize,
    /// Payload of the first: of each but the last.
    segment: usize,
    /// Payload of all.
    payload_byte: usize,
    /// Payload of the last.
    last_byte: usize,
}

impl Segments {
    /// The packets of `frame`, as the sender's card or kernel would have made them.
    ///
    /// # Errors
    /// For a protocol that this program cannot cut, and for headers that lead out of the frame.
    pub fn of(frame: &[u8], header: FrameHeader) -> Result<Self, CannotCut> {
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
        Ok(Self {
            packet_at,
            transport_at,
            payload_at,
            end: frame.len(),
            segment: usize::from(header.segment_byte),
            cut: header.cut,
            congestion: header.congestion,
            checksum,
        })
    }

    /// A frame that is one UDP datagram whose checksum is still to be made: only then can it leave with others.
    #[must_use]
    pub fn of_datagram(frame: &[u8], header: FrameHeader) -> Option<Self> {
        const FRAGMENT: u16 = 0x3fff;
        let found = inside(frame);
        let (Cut::None, Some(checksum)) = (header.cut, header.checksum) else { return None };
        let (at, transport_at) = (found.packet_at, found.transport_at?);
        let is_whole = frame[at] >> 4 == 6 || word(frame, at + 6)? & FRAGMENT == 0;
        let stated = usize::from(word(frame, transport_at + 4)?);
        let fits = found.packet_byte as usize == frame.len() - at && stated == frame.len() - transport_at && stated > 8;
        let is_datagram = found.udp_ports.is_some() && (usize::from(checksum.0), checksum.1) == (transport_at, 6);
        (is_datagram && is_whole && fits).then(|| Self {
            packet_at: at,
            transport_at,
            payload_at: transport_at + 8,
            end: frame.len(),
            segment: stated - 8,
            cut: Cut::Udp,
            congestion: false,
            checksum,
        })
    }

    /// How many packets there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        (self.end - self.payload_at).div_ceil(self.segment)
    }

    /// Where the payload of packet `number` lies in the frame.
    #[must_use]
    pub fn payload(&self, number: usize) -> Range<usize> {
        let from = (self.payload_at + number * self.segment).min(self.end);
        from..(from + self.segment).min(self.end)
    }

    /// Bytes of IP packet `number`.
    #[must_use]
    pub fn packet_byte(&self, number: usize) -> u32 {
        (self.payload_at - self.packet_at + self.payload(number).len()) as u32
    }

    /// A run of packet `number` alone.
    #[must_use]
    pub fn run(&self, number: usize) -> Run {
        let byte = self.payload(number).len();
        Run { packets: 1, segment: byte, payload_byte: byte, last_byte: byte }
    }

    /// `run`, which ends with packet `last` of this `frame`, with packet `next` of `other` behind it; `None` where they
    /// cannot leave as one frame. Datagrams join those of the same flow; pieces of a TCP send only the one after them.
    #[must_use]
    pub fn join(
        &self,
        (frame, last): (&[u8], usize),
        (other, other_frame, next): (&Self, &[u8], usize),
        run: Run,
    ) -> Option<Run> {
        let byte = other.payload(next).len();
        let payload_byte = run.payload_byte + byte;
        let is_same_frame = std::ptr::eq(frame, other_frame);
        let follows = match (self.cut, other.cut) {
            (Cut::Udp, Cut::Udp) => {
                run.packets < MOST_DATAGRAMS && (is_same_frame || self.is_same_flow(frame, other, other_frame))
            }
            _ => is_same_frame && next == last + 1,
        };
        let fits = run.last_byte == run.segment
            && byte <= run.segment
            && self.payload_at - self.packet_at + payload_byte <= MOST_PACKET_BYTE;
        (fits && follows).then_some(Run { packets: run.packets + 1, payload_byte, last_byte: byte, ..run })
    }

    /// Whether the headers of two datagrams differ in nothing but lengths, identities and checksums.
    fn is_same_flow(&self, frame: &[u8], other: &Self, other_frame: &[u8]) -> bool {
        let (at, transport) = (self.packet_at, self.transport_at);
        let same = |range: Range<usize>| frame.get(range.clone()) == other_frame.get(range);
        let places = |of: &Self| (of.packet_at, of.transport_at, of.payload_at, of.checksum);
        let network = if frame[at] >> 4 == 6 {
            same(0..at + 4) && same(at + 6..transport)
        } else {
            same(0..at + 2) && same(at + 6..at + 10) && same(at + 12..transport)
        };
        places(self) == places(other) && network && same(transport..transport + 4)
    }

    /// Appends the kernel's header and all headers of the frame for `run`, whose first packet is `first` of this
    /// `frame`; the payloads go behind it.
    pub fn write_head(&self, frame: &[u8], first: usize, run: Run, into: &mut Vec<u8>) {
        let header = FrameHeader {
            checksum: Some(self.checksum),
            cut: if run.packets > 1 { self.cut } else { Cut::None },
            header_byte: if run.packets > 1 { self.payload_at as u16 } else { 0 },
            segment_byte: if run.packets > 1 { run.segment as u16 } else { 0 },
            congestion: run.packets > 1 && first == 0 && self.congestion,
        };
        into.extend_from_slice(&header.write());
        let begin = into.len();
        into.extend_from_slice(&frame[..self.payload_at]);
        let head = &mut into[begin..];
        let transport_byte = self.payload_at - self.transport_at + run.payload_byte;
        self.write_network(head, first, self.transport_at - self.packet_at + transport_byte);
        match self.cut {
            Cut::Udp => put(head, self.transport_at + 4, transport_byte as u16),
            _ => self.write_tcp(head, first, first + run.packets == self.count()),
        }
        let sum = self.pseudo_sum(head, transport_byte);
        put(head, self.transport_at + usize::from(self.checksum.1), sum);
    }

    fn write_network(&self, head: &mut [u8], first: usize, length: usize) {
        let at = self.packet_at;
        if head[at] >> 4 == 6 {
            put(head, at + 4, (length - 40) as u16);
            return;
        }
        put(head, at + 2, length as u16);
        let identity = word(head, at + 4).unwrap_or(0).wrapping_add(first as u16);
        put(head, at + 4, identity);
        put(head, at + 10, 0);
        let header = usize::from(head[at] & 0xf) * 4;
        let sum = head.get(at..at + header).map_or(0, internet_checksum);
        put(head, at + 10, sum);
    }

    fn write_tcp(&self, head: &mut [u8], first: usize, has_last: bool) {
        const FIN_AND_PSH: u8 = 0x09;
        const CWR: u8 = 0x80;
        let at = self.transport_at;
        let high = u32::from(word(head, at + 4).unwrap_or(0)) << 16;
        let sequence = high | u32::from(word(head, at + 6).unwrap_or(0));
        let sequence = sequence.wrapping_add((first * self.segment) as u32);
        put(head, at + 4, (sequence >> 16) as u16);
        put(head, at + 6, sequence as u16);
        if !has_last {
            head[at + 13] &= !FIN_AND_PSH;
        }
        if self.congestion && first > 0 {
            head[at + 13] &= !CWR;
        }
    }

    /// The folded sum of the pseudo header: what stands in the checksum field of a packet whose checksum is still to be
    /// made.
    fn pseudo_sum(&self, head: &[u8], transport_byte: usize) -> u16 {
        let at = self.packet_at;
        let addresses = if head[at] >> 4 == 6 { at + 8..at + 40 } else { at + 12..at + 20 };
        let protocol: u64 = if self.cut == Cut::Udp { UDP.into() } else { 6 };
        internet_sum(protocol + transport_byte as u64, head.get(addresses).unwrap_or_default())
    }
}
