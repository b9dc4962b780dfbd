/// The version of the wire format, in the upper half of a datagram's first byte.
pub const VERSION: u8 = 1;

/// The largest datagram payload that is sent or accepted, in bytes. What a path carries without fragments is its MTU
/// less [`IPV4_UDP_BYTE`] or [`IPV6_UDP_BYTE`].
pub const LARGEST_BYTE: usize = 9000;

/// Bytes of the IPv4 and the UDP header (ICMP echo's header is as long as UDP's).
pub const IPV4_UDP_BYTE: usize = 28;

/// Bytes of the IPv6 and the UDP header.
pub const IPV6_UDP_BYTE: usize = 48;

/// Bytes of an Ethernet header and its check sequence; frame sizes of RFC 2544 count both.
pub const ETHERNET_BYTE: usize = 18;

/// The payload that a frame of `frame_byte` (counted as RFC 2544 does, with check sequence) carries behind
/// `ip_udp_byte` of headers; `None` where there is no room for any.
///
/// ```
/// use vtare_wire::{IPV4_UDP_BYTE, IPV6_UDP_BYTE, payload_of_frame};
/// assert_eq!(payload_of_frame(64, IPV4_UDP_BYTE), Some(18));
/// assert_eq!(payload_of_frame(64, IPV6_UDP_BYTE), None);
/// ```
#[must_use]
pub const fn payload_of_frame(frame_byte: usize, ip_udp_byte: usize) -> Option<usize> {
    match frame_byte.checked_sub(ETHERNET_BYTE + ip_udp_byte) {
        None | Some(0) => None,
        room => room,
    }
}

/// Bytes of the smallest header there is, which is that of the short form.
pub(crate) const LEAST_HEADER_BYTE: usize = 18;

/// Bytes of the header of the full form.
pub(crate) const FULL_HEADER_BYTE: usize = 60;
