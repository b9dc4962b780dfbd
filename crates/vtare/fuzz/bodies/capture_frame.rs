//! Any bytes as a frame of each link type, to the probes in it.

use vtare_capture::frame::{LinkType, read};
use vtare_capture::probe::{STAMP_PORT, Wanted, find};

/// One case: a byte for the link type, one whose lowest bit sets whether a segment size of two bytes follows, then the
/// frame.
pub(crate) fn run(case: &[u8]) {
    let [link, flags, rest @ ..] = case else { return };
    let (segment_byte, bytes) = match rest {
        [low, high, bytes @ ..] if flags & 1 == 1 => (Some(u16::from_le_bytes([*low, *high])), bytes),
        bytes => (None, bytes),
    };
    let links = [0, 1, 101, 113, 276];
    let Some(link) = LinkType::from_number(links[usize::from(*link) % links.len()]) else { return };
    let Ok(packet) = read(link, bytes) else { return };
    assert!(packet.payload.len() <= packet.payload_byte as usize && packet.payload_byte < packet.ip_byte);
    let wanted = Wanted { ports: vec![8462, 0x1111], icmp: true, stamp: Some(STAMP_PORT) };
    let mut given = 0;
    let found = find(&packet, segment_byte, &wanted, &mut |probe| {
        assert!(probe.ip_byte <= packet.ip_byte);
        given += 1;
    });
    assert_eq!(given, found.probes);
    assert!(found.probes + found.unread <= 128 && (found.probes == 0 || !found.unsplit));
}
