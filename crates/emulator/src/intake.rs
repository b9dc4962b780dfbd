//! The way of a frame that was read: its packets through the lane, and into the queue of its departures.

use vtare_sys::net::frames::{Cut, FRAME_HEADER_BYTE, FrameHeader};

use crate::departures::Departures;
use crate::frame;
use crate::lane::{Due, Fate, Lane};
use crate::report::{Inlet, Outlet};
use crate::segments::Segments;
use crate::store::Store;

/// One direction: its lane, and the packets that are on their way.
pub(super) struct Direction {
    pub(super) lane: Lane,
    pub(super) queue: Departures,
    pub(super) least_delay_ns: u64,
    pub(super) outlet: Outlet,
}

/// Where a frame that was read goes.
pub(super) struct Intake<'e> {
    pub(super) at_ns: u64,
    pub(super) direction: &'e mut Direction,
    pub(super) store: &'e mut Store,
    pub(super) probe_port: u16,
}

impl Intake<'_> {
    pub(super) fn frame(&mut self, bytes: &[u8], is_cut_short: bool, vlan: Option<(u16, u16)>, inlet: &mut Inlet) {
        let Some((header, frame)) = bytes.split_first_chunk::<FRAME_HEADER_BYTE>() else { return };
        let mut header = FrameHeader::read(header);
        let tagged = vlan.map(|tag| {
            let mut tagged = frame.to_vec();
            frame::put_tag_back(&mut tagged, &mut header, tag);
            tagged
        });
        let frame = tagged.as_deref().unwrap_or(frame);
        let found = frame::inside(frame);
        let segments = if header.cut == Cut::None {
            Ok(Segments::of_datagram(frame, header))
        } else {
            Segments::of(frame, header).map(Some)
        };
        let Some(segments) = segments.ok().filter(|_| !is_cut_short) else {
            self.direction.lane.unable(found.packet_byte);
            return;
        };
        inlet.cut_frames += u64::from(header.cut != Cut::None);
        let head = FrameHeader::write_single(header.checksum);
        let slot = self.store.take(segments, |into| {
            into.extend_from_slice(&head);
            into.extend_from_slice(frame);
        });
        let is_probe = found.udp_ports.is_some_and(|(from, to)| from == self.probe_port || to == self.probe_port);
        let is_over = self.store.is_over();
        for number in 0..segments.map_or(1, |segments| segments.count()) {
            let byte = segments.map_or(found.packet_byte, |segments| segments.packet_byte(number));
            if is_over {
                self.direction.lane.unable(byte);
            } else {
                self.packet((slot, number as u32), byte, is_probe, header.checksum);
            }
        }
        self.store.release(slot);
    }

    /// One packet of the wire: where it lies, and its bytes.
    fn packet(&mut self, (slot, number): (u32, u32), byte: u32, is_probe: bool, checksum: Option<(u16, u16)>) {
        let Fate::Due(due) = self.direction.lane.pass(self.at_ns, byte, is_probe) else { return };
        let (slot, number) = if due.marked || due.damage.is_some() {
            (self.changed((slot, number), checksum, &due), 0)
        } else {
            self.store.share(slot);
            (slot, number)
        };
        self.direction.queue.push(due.at_ns, due.detoured, (slot, number), byte);
        if let Some(at_ns) = due.copy_at_ns {
            self.store.share(slot);
            self.direction.queue.push(at_ns, due.detoured, (slot, number), byte);
        }
    }

    /// A frame of its own for a packet that is marked, or of which a bit is turned over.
    fn changed(&mut self, (slot, number): (u32, u32), checksum: Option<(u16, u16)>, due: &Due) -> u32 {
        let (mut bytes, number) = (Vec::new(), number as usize);
        let whole = self.store.get(slot);
        match self.store.segments(slot) {
            Some(segments) => {
                let frame = &whole[FRAME_HEADER_BYTE..];
                segments.write_head(frame, number, segments.run(number), &mut bytes);
                bytes.extend_from_slice(&frame[segments.payload(number)]);
            }
            None => bytes.extend_from_slice(whole),
        }
        let (head, frame) = bytes.split_at_mut(FRAME_HEADER_BYTE);
        if due.marked && frame::mark(frame) {
            self.direction.lane.note_mark();
        }
        if let Some(random) = due.damage {
            if let Some(places) = checksum {
                // The checksum of what was sent: one made later would hide the damage.
                frame::complete_checksum(frame, places);
                head.copy_from_slice(&FrameHeader::write_single(None));
            }
            frame::damage(frame, random);
        }
        self.store.take(None, |into| into.extend_from_slice(&bytes))
    }
}
