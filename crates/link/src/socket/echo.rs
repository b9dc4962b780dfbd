//! ICMP echo messages, which any host answers without a responder.

use vtare_wire::internet_sum;

/// Bytes of an echo header.
pub const HEADER_BYTE: usize = 8;

/// The echo messages of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    identifier: u16,
    ipv6: bool,
    /// Whether arrivals begin with an IP header, and the checksum is ours to make.
    raw: bool,
}

pub(crate) const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
pub(crate) const ECHO_REPLY_V6: u8 = 129;

impl Echo {
    /// The messages with this identifier. `raw`: arrivals begin with an IP header, and the checksum is made here (IPv4
    /// only).
    #[must_use]
    pub const fn new(identifier: u16, ipv6: bool, raw: bool) -> Self {
        Self { identifier, ipv6, raw }
    }

    /// Its identifier.
    #[must_use]
    pub const fn identifier(self) -> u16 {
        self.identifier
    }

    /// The header of the request that carries `payload`.
    #[must_use]
    pub fn request(self, sequence: u64, payload: &[u8]) -> [u8; HEADER_BYTE] {
        let kind = if self.ipv6 { ECHO_REQUEST_V6 } else { ECHO_REQUEST };
        let ([a, b], [c, d]) = (self.identifier.to_be_bytes(), (sequence as u16).to_be_bytes());
        let mut header = [kind, 0, 0, 0, a, b, c, d];
        // The kernel does it for unprivileged sockets and for ICMPv6.
        if self.raw && !self.ipv6 {
            let checksum = !internet_sum(internet_sum(0, &header).into(), payload);
            header[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        header
    }

    /// The payload of a reply to this link, where `bytes` are one, and the TTL in their IP header, where they have one.
    #[must_use]
    pub fn reply(self, bytes: &[u8]) -> (Option<&[u8]>, Option<u8>) {
        let (message, ttl) = if self.raw && !self.ipv6 {
            let words = bytes.first().map_or(0, |first| usize::from(first & 0xf));
            (bytes.get(words * 4..).unwrap_or_default(), bytes.get(8).copied())
        } else {
            (bytes, None)
        };
        let wanted = if self.ipv6 { ECHO_REPLY_V6 } else { ECHO_REPLY };
        let own = message.first() == Some(&wanted)
            && message.get(4..6) == Some(&self.identifier.to_be_bytes()[..])
            && message.len() >= HEADER_BYTE;
        (own.then(|| &message[HEADER_BYTE..]), ttl)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RAW: Echo = Echo { identifier: 0x1234, ipv6: false, raw: true };

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The RFC's own example: the sum of these words is 0xddf2.
        assert_eq!(internet_sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        let header = RAW.request(0x0102, b"abc");
        assert_eq!(internet_sum(internet_sum(0, &header).into(), b"abc"), 0xffff);
    }

    #[test]
    fn a_raw_reply_is_found_behind_its_ip_header_with_its_ttl() {
        let mut bytes = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 63];
        bytes.resize(24, 0);
        bytes.extend([ECHO_REPLY, 0, 0, 0, 0x12, 0x34, 0, 1]);
        bytes.extend(b"text");
        assert_eq!(RAW.reply(&bytes), (Some(&b"text"[..]), Some(63)));
        bytes[29] = 0x35;
        assert_eq!(RAW.reply(&bytes).0, None, "another program's identifier");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), ipv6: bool, raw: bool,
        ) {
            let _whatever = Echo { identifier: 1, ipv6, raw }.reply(&bytes);
        }
    }
}
