//! The frames in which packets leave that are due: packets of one flow that follow each other leave as one frame.

use std::io::IoSlice;
use std::ops::Range;

use vtare_sys::net::frames::FRAME_HEADER_BYTE;

use crate::departures::Departure;
use crate::segments::Run;
use crate::store::Store;

/// Frames that are about to leave. Keeps its memory between uses.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    heads: Vec<u8>,
    frames: Vec<Frame>,
}

#[derive(Debug)]
struct Frame {
    /// Which of the packets due.
    packets: Range<usize>,
    /// Its headers; empty where the frame leaves as it came.
    head: Range<usize>,
}

impl Outgoing {
    /// Puts `due` into frames.
    pub(super) fn gather(&mut self, due: &[Departure], store: &Store) {
        self.heads.clear();
        self.frames.clear();
        let mut from = 0;
        while let Some(first) = due.get(from) {
            let frame = &store.get(first.slot)[FRAME_HEADER_BYTE..];
            let (mut until, begin) = (from + 1, self.heads.len());
            if let Some(segments) = store.segments(first.slot) {
                let run = run_of(due, from, store, segments.run(first.number as usize));
                until = from + run.packets;
                if run.packets > 1 || segments.count() > 1 {
                    segments.write_head(frame, first.number as usize, run, &mut self.heads);
                }
            }
            self.frames.push(Frame { packets: from..until, head: begin..self.heads.len() });
            from = until;
        }
    }

    /// How many packets each frame carries.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> {
        self.frames.iter().map(|frame| frame.packets.len())
    }

    /// The bytes of all frames one after another, and how many pieces each has.
    pub(super) fn pieces<'s>(&'s self, due: &[Departure], store: &'s Store) -> (Vec<IoSlice<'s>>, Vec<usize>) {
        let mut pieces = Vec::with_capacity(due.len() + self.frames.len());
        let mut ends = Vec::with_capacity(self.frames.len());
        for Frame { packets, head } in &self.frames {
            if head.is_empty() {
                pieces.push(IoSlice::new(store.get(due[packets.start].slot)));
            } else {
                pieces.push(IoSlice::new(&self.heads[head.clone()]));
                // Payloads that lie one behind another are one piece.
                let mut open: Option<(u32, Range<usize>)> = None;
                for packet in &due[packets.clone()] {
                    let payload = store.segments(packet.slot).map_or(0..0, |it| it.payload(packet.number as usize));
                    match &mut open {
                        Some((slot, range)) if *slot == packet.slot && range.end == payload.start => {
                            range.end = payload.end;
                        }
                        _ => pieces.extend(open.replace((packet.slot, payload)).map(|it| piece(store, it))),
                    }
                }
                pieces.extend(open.map(|it| piece(store, it)));
            }
            ends.push(pieces.len());
        }
        (pieces, ends)
    }
}

fn piece(store: &Store, (slot, range): (u32, Range<usize>)) -> IoSlice<'_> {
    IoSlice::new(&store.get(slot)[FRAME_HEADER_BYTE..][range])
}

/// The packets from `from` on that leave as one frame.
fn run_of(due: &[Departure], from: usize, store: &Store, mut run: Run) -> Run {
    for pair in due[from..].windows(2) {
        let [last, next] = [pair[0], pair[1]].map(|packet| {
            let frame = &store.get(packet.slot)[FRAME_HEADER_BYTE..];
            (store.segments(packet.slot), frame, packet.number as usize)
        });
        let ((Some(segments), frame, number), (Some(other), other_frame, next)) = (last, next) else { break };
        let Some(longer) = segments.join((frame, number), (other, other_frame, next), run) else { break };
        run = longer;
    }
    run
}
