//! Any bytes as an IP packet of `vtare throughput`, and as the reply to an ICMP echo request.

use std::net::Ipv4Addr;

use vtare_link::socket::echo::{Echo, HEADER_BYTE};
use vtare_tester::frame::{HEADERS_BYTE, IP_TAGGED_BYTE, TAGGED_BYTE, Tag, ends, headers, read, write};
use vtare_tester::{Flow, LARGEST_BYTE, SMALLEST_BYTE};

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    tester(bytes);
    for (ipv6, raw) in [(false, false), (false, true), (true, false), (true, true)] {
        echo(bytes, ipv6, raw);
    }
}

fn tester(bytes: &[u8]) {
    let found = read(bytes);
    assert_eq!(found.is_some(), bytes.len() >= IP_TAGGED_BYTE);
    let Some((tag, came)) = found else { return };
    // A frame with the same tag and other headers: the tag comes back, and the headers are those that were written.
    let flow = Flow { to: [2; 6], address: Ipv4Addr::new(bytes[16], bytes[17], bytes[18], bytes[19]) };
    let span = u64::from(LARGEST_BYTE - SMALLEST_BYTE) + 1;
    let frame_byte = SMALLEST_BYTE + (tag.sent_ns % span) as u32;
    let source = Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]);
    let made: [u8; HEADERS_BYTE] = headers([2; 6], source, &flow, frame_byte);
    let mut frame = vec![0xa5; TAGGED_BYTE + bytes.len()];
    let Tag { run, flow, sequence, sent_ns } = tag;
    write(&mut frame, &made, (run, flow, sequence), sent_ns);
    assert_eq!(read(&frame[14..]), Some((tag, ends(&made))));
    assert!(frame[TAGGED_BYTE..].iter().all(|byte| *byte == 0xa5), "nothing is written behind the tag");
    let same_length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) == frame_byte as usize - 18;
    assert_eq!(came == ends(&made), same_length, "addresses are the same, so the length decides");
}

fn echo(bytes: &[u8], ipv6: bool, raw: bool) {
    let identifier = bytes.first_chunk().map_or(0x1234, |head| u16::from_be_bytes(*head));
    let echo = Echo::new(identifier, ipv6, raw);
    let (payload, ttl) = echo.reply(bytes);
    let behind = if raw && !ipv6 { bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4) } else { 0 };
    assert!(payload.is_none_or(|payload| payload.len() + HEADER_BYTE + behind == bytes.len()));
    assert!(ttl.is_none() || (raw && !ipv6));

    let request = echo.request(u64::from(identifier), bytes);
    let ip = if raw && !ipv6 { vec![0x45; 20] } else { Vec::new() };
    let mut packet = [&ip[..], &request[..], bytes].concat();
    assert_eq!(echo.reply(&packet).0, None, "a request is no reply");
    packet[ip.len()] = if ipv6 { 129 } else { 0 };
    assert_eq!(echo.reply(&packet).0, Some(bytes));
    assert_eq!(Echo::new(!identifier, ipv6, raw).reply(&packet).0, None, "another link's reply");
}
