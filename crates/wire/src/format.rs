/// The version of the wire format, in the upper half of a datagram's first byte.
pub const VERSION: u8 = 1;

/// The largest datagram payload that is sent or accepted, in bytes. What a path carries without fragments is its MTU
/// less [`IPV4_UDP_BYTE`] or [`IPV6_UDP_BYTE`].
pub const LARGEST_BYTE: usize = 9000;

/// Bytes of the IPv4 and the UDP header (ICMP echo's header is as long as UDP's).
pub const IPV4_UDP_BYTE: usize = 28;

/// Bytes of the IPv6 and the UDP header.
pub const IPV6_UDP_BYTE: usize = 48;

/// Bytes of the smallest header there is, which is that of the short form.
pub(crate) const LEAST_HEADER_BYTE: usize = 18;

/// Bytes of the header of the full form.
pub(crate) const FULL_HEADER_BYTE: usize = 60;
