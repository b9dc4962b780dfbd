//! Any bytes as a frame of `vtare link`: read, cut, completed, damaged.

use vtare_emulator::frame::{Inside, complete_checksum, damage, inside, put_tag_back};
use vtare_emulator::segments::Segments;
use vtare_sys::net::frames::{Cut, FRAME_HEADER_BYTE, FrameHeader};

/// One case: the kernel's metadata of the frame, then the frame.
pub(crate) fn run(case: &[u8]) {
    let Some((header, frame)) = case.split_first_chunk::<FRAME_HEADER_BYTE>() else { return };
    let header = FrameHeader::read(header);
    if !matches!(header.cut, Cut::Other(_)) {
        assert_eq!(FrameHeader::read(&header.write()), header);
    }
    let found = inside(frame);
    let packet_byte = found.packet_byte as usize;
    assert!(packet_byte <= frame.len().saturating_sub(found.packet_at), "{found:?}");
    assert!(found.transport_at.is_none_or(|at| at >= found.packet_at + 20 && at <= frame.len()), "{found:?}");
    assert!(found.udp_ports.is_none() || found.transport_at.is_some());
    tag(frame, header, &found);
    packets(frame, header);
    checksum(frame, header.checksum);
    damaged(frame, &found);
}

fn tag(frame: &[u8], mut header: FrameHeader, untagged: &Inside) {
    let mut tagged = frame.to_vec();
    put_tag_back(&mut tagged, &mut header, (0x8100, 7));
    if frame.len() < 14 {
        return;
    }
    assert_eq!((&tagged[..12], &tagged[16..]), (&frame[..12], &frame[12..]));
    let moved =
        Inside { packet_at: untagged.packet_at + 4, transport_at: untagged.transport_at.map(|at| at + 4), ..*untagged };
    assert_eq!(inside(&tagged), moved);
}

fn packets(frame: &[u8], header: FrameHeader) {
    let datagram = Segments::of_datagram(frame, FrameHeader { cut: Cut::None, ..header });
    let large = Segments::of(frame, header).ok();
    let packet_at = inside(frame).packet_at;
    for segments in large.into_iter().chain(datagram) {
        let mut payload_at = None;
        for number in 0..segments.count() {
            let payload = segments.payload(number);
            assert!(!payload.is_empty() && payload.end <= frame.len());
            assert!(payload_at.is_none_or(|at| at == payload.start), "all payload, once, in order");
            payload_at = Some(payload.end);
            let mut head = Vec::new();
            segments.write_head(frame, number, segments.run(number), &mut head);
            let bytes = head.split_first_chunk::<FRAME_HEADER_BYTE>().expect("the kernel's header stands first");
            let given = FrameHeader::read(bytes.0);
            assert_eq!((given.cut, given.checksum), (Cut::None, header.checksum), "each is one packet");
            assert_eq!(bytes.1.len() - packet_at + payload.len(), segments.packet_byte(number) as usize);
        }
        assert_eq!(payload_at, Some(frame.len()));
        let first = segments.run(0);
        let joined = segments.join((frame, 0), (&segments, frame, 1), first);
        assert!(joined.is_none_or(|run| run.packets == 2));
    }
}

fn checksum(frame: &[u8], place: Option<(u16, u16)>) {
    let Some((start, offset)) = place else { return };
    let mut done = frame.to_vec();
    complete_checksum(&mut done, (start, offset));
    let at = usize::from(start) + usize::from(offset);
    let changed = frame.iter().zip(&done).enumerate().filter(|(_, (before, after))| before != after);
    assert!(changed.map(|(index, _)| index).all(|index| index == at || index == at + 1));
    if at + 2 <= frame.len() {
        assert_ne!(done[at..at + 2], [0, 0], "0 means that there is no checksum");
    }
}

fn damaged(frame: &[u8], found: &Inside) {
    let random = frame.iter().fold(7_u64, |sum, byte| sum.rotate_left(9) ^ u64::from(*byte));
    let mut bent = frame.to_vec();
    damage(&mut bent, random);
    let bits = frame.iter().zip(&bent).map(|(before, after)| (before ^ after).count_ones());
    let packet = found.packet_byte > 0 && found.transport_at != Some(found.packet_at + found.packet_byte as usize);
    assert!(bits.sum::<u32>() <= u32::from(packet), "one bit of a packet that has one behind its header");
    let end = found.packet_at + found.packet_byte as usize;
    let outside = |bytes: &[u8]| [&bytes[..found.packet_at.min(bytes.len())], bytes.get(end..).unwrap_or(&[])].concat();
    assert_eq!(outside(&bent), outside(frame), "headers of the link and padding stay");
}
