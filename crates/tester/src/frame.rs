//! How the frames look: Ethernet, IPv4, UDP, and a tag of 18 B that fits the smallest frame.

use std::net::{Ipv4Addr, SocketAddrV4};

use vtare_bpf::layout::throughput::{AT_FLOW, AT_RUN, AT_SENT, AT_SEQUENCE};
use vtare_wire::{UDP_FRAME_HEADERS_BYTE, udp_frame_headers};

use crate::options::Flow;
use crate::size::{ETHERNET_BYTE, FCS_BYTE};

/// Bytes of the Ethernet, IPv4 and UDP headers.
pub const HEADERS_BYTE: usize = UDP_FRAME_HEADERS_BYTE;
/// Source and destination port: those of the test, and by the second one that of vtare's responder.
pub(crate) const PORTS: [u16; 2] = [8_463, 8_462];
/// Bytes up to the end of the tag.
pub const TAGGED_BYTE: usize = 60;
/// The same from the IP header on.
pub const IP_TAGGED_BYTE: usize = TAGGED_BYTE - ETHERNET_BYTE as usize;

/// Bytes of a frame as the kernel has it.
pub(crate) const fn bytes(frame_byte: u32) -> usize {
    (frame_byte - FCS_BYTE) as usize
}

/// Ethernet, IPv4 and UDP headers of a frame of `frame_byte` with its check sequence, at least
/// [`SMALLEST_BYTE`](crate::SMALLEST_BYTE). No UDP checksum: the tag changes in every frame.
#[must_use]
pub fn headers(from: [u8; 6], source: Ipv4Addr, flow: &Flow, frame_byte: u32) -> [u8; HEADERS_BYTE] {
    let payload_byte = bytes(frame_byte) - HEADERS_BYTE;
    let [source, destination] = [SocketAddrV4::new(source, PORTS[0]), SocketAddrV4::new(flow.address, PORTS[1])];
    udp_frame_headers([from, flow.to], [source, destination], payload_byte as u16)
}

/// Writes headers and tag (run, flow, sequence) into the first [`TAGGED_BYTE`] bytes of a frame.
///
/// # Panics
/// For a shorter frame.
pub fn write(frame: &mut [u8], headers: &[u8; HEADERS_BYTE], (run, flow, sequence): (u32, u16, u32), sent_ns: u64) {
    frame[..HEADERS_BYTE].copy_from_slice(headers);
    frame[AT_RUN..AT_RUN + 4].copy_from_slice(&run.to_ne_bytes());
    frame[AT_FLOW..AT_FLOW + 2].copy_from_slice(&flow.to_ne_bytes());
    frame[AT_SEQUENCE..AT_SEQUENCE + 4].copy_from_slice(&sequence.to_ne_bytes());
    frame[AT_SENT..AT_SENT + 8].copy_from_slice(&sent_ns.to_ne_bytes());
}

/// The fields of a frame behind its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The trial.
    pub run: u32,
    /// The flow.
    pub flow: u16,
    /// The number of the frame in the trial.
    pub sequence: u32,
    /// When it left, ns of CLOCK_MONOTONIC.
    pub sent_ns: u64,
}

/// What must come as it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    source: [u8; 4],
    destination: [u8; 4],
    ip_byte: [u8; 2],
}

/// What must come as it left, of a flow's headers.
#[must_use]
pub fn ends(headers: &[u8; HEADERS_BYTE]) -> Ends {
    let ip = &headers[ETHERNET_BYTE as usize..];
    Ends { source: array(ip, 12), destination: array(ip, 16), ip_byte: array(ip, 2) }
}

/// Reads an IP packet that passed the filter of the ring; `None` where it was cut before the end of its tag.
#[must_use]
pub fn read(ip: &[u8]) -> Option<(Tag, Ends)> {
    let ip = ip.get(..IP_TAGGED_BYTE)?;
    let at = |place: usize| place - ETHERNET_BYTE as usize;
    let tag = Tag {
        run: u32::from_ne_bytes(array(ip, at(AT_RUN))),
        flow: u16::from_ne_bytes(array(ip, at(AT_FLOW))),
        sequence: u32::from_ne_bytes(array(ip, at(AT_SEQUENCE))),
        sent_ns: u64::from_ne_bytes(array(ip, at(AT_SENT))),
    };
    Some((tag, Ends { source: array(ip, 12), destination: array(ip, 16), ip_byte: array(ip, 2) }))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

/// A hardware address as people write it.
pub(crate) fn hardware_words(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}
