use std::net::SocketAddrV4;

use crate::checksum::internet_checksum;
use crate::format::IPV4_UDP_BYTE;

/// Bytes of the Ethernet, IPv4 and UDP headers of a frame without VLAN tags.
pub const UDP_FRAME_HEADERS_BYTE: usize = 14 + IPV4_UDP_BYTE;

/// The Ethernet, IPv4 and UDP headers of a frame with `payload_byte` bytes of payload; `card` and `address` are those
/// of source and destination. The datagram must not be fragmented. Its checksum is 0, "not computed", as RFC 768 allows
/// over IPv4: what is sent has a tag of its own.
#[must_use]
pub fn udp_frame_headers(
    card: [[u8; 6]; 2],
    address: [SocketAddrV4; 2],
    payload_byte: u16,
) -> [u8; UDP_FRAME_HEADERS_BYTE] {
    const DO_NOT_FRAGMENT: u8 = 0x40;
    const TIME_TO_LIVE: u8 = 64;
    const UDP: u8 = 17;
    let mut bytes = [0; UDP_FRAME_HEADERS_BYTE];
    let [source, destination] = address;
    bytes[..6].copy_from_slice(&card[1]);
    bytes[6..12].copy_from_slice(&card[0]);
    bytes[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    let ip = &mut bytes[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(28 + payload_byte).to_be_bytes());
    ip[6] = DO_NOT_FRAGMENT;
    ip[8] = TIME_TO_LIVE;
    ip[9] = UDP;
    ip[12..16].copy_from_slice(&source.ip().octets());
    ip[16..20].copy_from_slice(&destination.ip().octets());
    let sum = internet_checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[34..36].copy_from_slice(&source.port().to_be_bytes());
    bytes[36..38].copy_from_slice(&destination.port().to_be_bytes());
    bytes[38..40].copy_from_slice(&(8 + payload_byte).to_be_bytes());
    bytes
}
