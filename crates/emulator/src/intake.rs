//! The way of a frame that was read: whole or in pieces through the lane, and into the queue of its departures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vtare_sys::net::frames::{Cut, FRAME_HEADER_BYTE, FrameHeader};

use crate::frame::{self, Pieces};
use crate::lane::{Fate, Lane};
use crate::report::{Inlet, Outlet};
use crate::store::Store;

/// One direction: its lane, and the frames that are on their way.
pub(super) struct Direction {
    pub(super) lane: Lane,
    /// Due time, number of the frame, its place and its bytes.
    pub(super) queue: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    pub(super) least_delay_ns: u64,
    pub(super) outlet: Outlet,
}

/// Where a frame that was read goes.
pub(super) struct Intake<'e> {
    pub(super) at_ns: u64,
    pub(super) direction: &'e mut Direction,
    pub(super) store: &'e mut Store,
    pub(super) made: &'e mut u64,
    pub(super) probe_port: u16,
    pub(super) whole: bool,
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
        if is_cut_short {
            self.direction.lane.unable(frame::inside(frame).packet_byte);
            return;
        }
        if header.cut == Cut::None {
            let head = FrameHeader::write_single(header.checksum);
            self.packet(header.checksum, None, |into| {
                into.extend_from_slice(&head);
                into.extend_from_slice(frame);
            });
            return;
        }
        let Ok(mut pieces) = Pieces::of(frame, header) else {
            self.direction.lane.unable(frame::inside(frame).packet_byte);
            return;
        };
        if self.whole {
            let size = (pieces.packet_byte() as u32, pieces.count() as u32);
            // As it came but for a tag that was put back, which moves the checksum's place.
            let head = header.write();
            self.packet(header.checksum, Some(size), |into| {
                into.extend_from_slice(&head);
                into.extend_from_slice(frame);
            });
            return;
        }
        inlet.cut_frames += 1;
        for _ in 0..pieces.count() {
            self.packet(header.checksum, None, |into| {
                into.extend_from_slice(&[0; FRAME_HEADER_BYTE]);
                if let Some(head) = pieces.next_into(into) {
                    into[..FRAME_HEADER_BYTE].copy_from_slice(&head);
                }
            });
        }
    }

    /// One packet of the wire, written into a place of the store by `write`; or one frame that stands for several, with
    /// their bytes and their number in `whole`.
    fn packet(&mut self, checksum: Option<(u16, u16)>, whole: Option<(u32, u32)>, write: impl FnOnce(&mut Vec<u8>)) {
        let slot = self.store.take(write);
        let frame = &self.store.get(slot)[FRAME_HEADER_BYTE..];
        let found = frame::inside(frame);
        let byte = whole.map_or(found.packet_byte, |(byte, _)| byte);
        if self.store.is_over() {
            self.direction.lane.unable(byte);
            self.store.free(slot);
            return;
        }
        let is_probe = found.udp_ports.is_some_and(|(from, to)| from == self.probe_port || to == self.probe_port);
        let fate = match whole {
            None => self.direction.lane.pass(self.at_ns, byte, is_probe),
            Some((byte, packets)) => self.direction.lane.pass_whole(self.at_ns, byte, packets, is_probe),
        };
        let Fate::Due(due) = fate else {
            self.store.free(slot);
            return;
        };
        if let Some(random) = due.damage {
            let (head, frame) = self.store.get_mut(slot).split_at_mut(FRAME_HEADER_BYTE);
            // A large frame's checksums are made when it is cut: damage to it goes unseen by them, and by the far host.
            if let Some(places) = checksum.filter(|_| whole.is_none()) {
                // The checksum of what was sent: one made later would hide the damage.
                frame::complete_checksum(frame, places);
                head.copy_from_slice(&FrameHeader::write_single(None));
            }
            frame::damage(frame, random);
        }
        let copy = due.copy_at_ns.map(|at| (at, self.store.copy(slot)));
        for (at, slot) in [Some((due.at_ns, slot)), copy].into_iter().flatten() {
            *self.made += 1;
            self.direction.queue.push(Reverse((at, *self.made, slot, byte)));
        }
    }
}
