//! The thread that answers probes.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use vtare_clock::ClockOffset;
use vtare_sys::net::{ReceiveBatch, Socket};
use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::{Arrival, Cause, Table, Verdict};
use vtare_wire::{WireError, full, heartbeat};

use crate::error::ServeError;
use crate::probe_socket::{BATCH, is_fatal, on_the_wire};
use crate::replies::Replies;
use crate::tally::{self, BUFFER_FULL, Drops, KINDS, Tally};
use crate::witness::Witness;

/// How often the wall clock and the monotonic clock are laid beside each other.
const ALIGN_EVERY: Span = Span::from_millis(10);

/// Brackets of each reading: the first may meet an interrupt, and a probe waits for its reply meanwhile.
const ALIGN_BRACKETS: usize = 2;

/// How often the kernel is asked what it dropped.
const DROPS_EVERY: Span = Span::from_secs(1);

/// What a reflector counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) datagrams: u64,
    pub(super) replies: u64,
    pub(super) unsent: u64,
    pub(super) socket_drops: Option<u64>,
}

pub(super) struct Reflector<'a> {
    socket: &'a Socket,
    table: &'a Mutex<Table>,
    tally: &'a Tally,
    receive: ReceiveBatch,
    /// Room for pieces that the kernel merged (UDP_GRO). Once made it stays in use: a merged piece may still be
    /// waiting when merging ends.
    merged: Option<ReceiveBatch>,
    /// Whether the kernel merges what comes together: while a session has trains.
    merging: bool,
    replies: Replies,
    witness: Witness,
    drops: [Drops; KINDS.len()],
    /// How far wall time, on which the kernel's stamps are, is ahead.
    wall: Option<ClockOffset>,
    density: Density,
    counts: Counts,
    ask_drops_at: Timestamp<Monotonic>,
}

impl<'a> Reflector<'a> {
    pub(super) fn new(
        socket: &'a Socket,
        table: &'a Mutex<Table>,
        tally: &'a Tally,
        segments: bool,
        witness: Witness,
    ) -> Self {
        let replies = Replies::new(BATCH, segments && socket.probe_segmentation().is_ok());
        Self {
            socket,
            table,
            tally,
            receive: ReceiveBatch::new(BATCH, vtare_wire::LARGEST_BYTE),
            merged: None,
            merging: false,
            replies,
            witness,
            drops: [Drops::default(); KINDS.len()],
            wall: None,
            density: Density::default(),
            counts: Counts::default(),
            ask_drops_at: Timestamp::ZERO,
        }
    }

    /// Answers probes until `ended`.
    pub(super) fn reflect(
        mut self,
        spin: bool,
        cpu: Option<usize>,
        ended: &dyn Fn() -> bool,
    ) -> Result<Counts, ServeError> {
        if let Some(cpu) = cpu {
            sched::pin_to(&[cpu])?;
        }
        while !ended() {
            let batch = self.merged.as_mut().unwrap_or(&mut self.receive);
            // Asleep in the call that takes the datagram: between its arrival and its answer there is no other.
            let taken =
                if spin { batch.receive(self.socket, BATCH) } else { batch.receive_waiting(self.socket, BATCH) };
            let got = match taken {
                Ok(got) => got,
                // The peer's port refused a reply: the kernel reports that to the next call. It is the peer's affair.
                Err(error) if !is_fatal(error.kind()) => continue,
                Err(source) => return Err(ServeError::Io { doing: "receiving probes", source }),
            };
            if got > 0 {
                let now = clocks::now::<Monotonic>();
                let before = self.counts.datagrams;
                self.judge(got, now);
                let crowded = self.density.note(now, self.counts.datagrams - before);
                self.answer(crowded);
                if now >= self.ask_drops_at {
                    self.ask_drops_at = now + DROPS_EVERY;
                    self.ask_drops();
                }
            } else if spin {
                std::hint::spin_loop();
            }
        }
        self.ask_drops();
        Ok(self.counts)
    }

    /// Takes note of what the kernel dropped since it was last asked.
    fn ask_drops(&mut self) {
        let Ok(now) = self.socket.drops() else { return };
        // The kernel's count has 32 bits and wraps.
        let before = self.counts.socket_drops.unwrap_or(0);
        let new = u64::from(now.wrapping_sub(before as u32));
        self.counts.socket_drops = Some(before + new);
        if new > 0 {
            self.drops[BUFFER_FULL].count += new;
            self.tally.add(&mut self.drops);
        }
    }

    /// Judges a batch; its replies lie in `self.replies` afterwards.
    fn judge(&mut self, got: usize, now: Timestamp<Monotonic>) {
        self.replies.clear();
        if self.wall.is_none_or(|wall| wall.age(now) >= ALIGN_EVERY) {
            // The newest, whatever it finds: wall time may have been set.
            self.wall = Some(ClockOffset::wall(ALIGN_BRACKETS, clocks::now));
        }
        let wall = self.wall;
        let mut dropped = false;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let receive = self.merged.as_mut().unwrap_or(&mut self.receive);
        for index in 0..got {
            let Some(datagram) = receive.get(index) else { continue };
            let Some(to) = datagram.from else { continue };
            // A socket for both families shows IPv4 peers as IPv6 addresses; the control connection's are canonical.
            let from = SocketAddr::new(to.ip().to_canonical(), to.port());
            let stamp = datagram.control.software_ns.and_then(|wall_ns| wall?.convert(wall_ns));
            // Later than now: the wall clock was set back or forth since the clocks were laid beside each other.
            let stamp = stamp.filter(|stamp| *stamp <= now);
            let arrival = Arrival {
                now,
                received: on_the_wire(stamp.unwrap_or(now)),
                flags: full::ReplyFlags { rx_by_kernel: stamp.is_some(), ..full::ReplyFlags::default() },
                class: datagram.control.class,
            };
            let piece = datagram.control.segment_byte.map_or(datagram.bytes.len(), usize::from);
            let mut rest = datagram.bytes;
            loop {
                let (bytes, behind) = {
                    let at = piece.min(rest.len());
                    std::mem::take(&mut rest).split_at_mut(at)
                };
                rest = behind;
                self.counts.datagrams += 1;
                let verdict = if datagram.cut {
                    let found_byte = vtare_wire::LARGEST_BYTE + 1;
                    Verdict::Drop(Cause::Garbage(WireError::TooLong { found_byte }))
                } else if heartbeat::is_request(bytes) {
                    match self.witness.answer(from.ip(), bytes, now) {
                        Ok(()) => Verdict::Reply(bytes),
                        Err(cause) => Verdict::Drop(cause),
                    }
                } else {
                    table.judge(from, bytes, &arrival, || on_the_wire(clocks::now()))
                };
                match verdict {
                    Verdict::Reply(reply) => self.replies.push(to, datagram.control.local, None, reply),
                    Verdict::Record { .. } => {}
                    Verdict::Drop(cause) => {
                        let drops = &mut self.drops[tally::kind(cause)];
                        drops.count += 1;
                        drops.example = Some((from, cause));
                        dropped = true;
                    }
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
        let trains = table.has_trains();
        drop(table);
        if dropped {
            self.tally.add(&mut self.drops);
        }
        if trains != self.merging {
            self.merging = trains;
            self.merge(trains);
        }
    }

    /// Has the kernel merge arrivals, or not. Where it cannot, packets come one by one: slower, and no less exact.
    fn merge(&mut self, merge: bool) {
        if !merge {
            let _ = self.socket.separate_arrivals();
        } else if self.socket.merge_arrivals().is_ok() && self.merged.is_none() {
            self.merged = Some(ReceiveBatch::new(BATCH, 1 << 16));
        }
    }

    /// Sends the replies of the batch; those to one peer together only where the traffic is dense, since a large send
    /// is one packet to queues, filters and capture points on its way.
    fn answer(&mut self, together: bool) {
        let table = self.table;
        let mut unsent = 0;
        self.counts.replies += self.replies.send(self.socket, together, |reply| {
            unsent += 1;
            table.lock().unwrap_or_else(PoisonError::into_inner).unsent(reply);
        });
        self.counts.unsent += unsent;
    }
}

/// From this rate on replies may leave as large sends: single ones could not keep up. The client's own sends change
/// there, too.
const DENSE_PACKET_PER_S: u64 = vtare_link::rate::BUNCHED_FROM;

/// How dense the traffic is, from counts over at least [`Density::SPAN`].
#[derive(Clone, Copy, Debug)]
struct Density {
    since: Timestamp<Monotonic>,
    datagrams: u64,
    dense: bool,
}

impl Default for Density {
    fn default() -> Self {
        Self { since: Timestamp::ZERO, datagrams: 0, dense: false }
    }
}

impl Density {
    const SPAN: Span = Span::from_millis(5);

    /// Counts this many datagrams; whether the traffic is dense.
    fn note(&mut self, now: Timestamp<Monotonic>, datagrams: u64) -> bool {
        self.datagrams += datagrams;
        let span = now - self.since;
        if span >= Self::SPAN {
            let wanted = u128::from(DENSE_PACKET_PER_S) * u128::from(span.as_nanos_unsigned());
            self.dense = u128::from(self.datagrams) * 1_000_000_000 >= wanted;
            (self.since, self.datagrams) = (now, 0);
        }
        self.dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_dense_from_100_000_packets_a_second_on_and_no_longer_than_that() {
        let mut density = Density::default();
        let at = |us: u64| Timestamp::from_nanos(1_000_000_000 + us * 1_000);
        let mut run = |from_us: u64, gap_us: u64, each: u64| -> Vec<bool> {
            (0..20_000 / gap_us).map(|step| density.note(at(from_us + step * gap_us), each)).collect()
        };
        assert!(run(0, 1_000, 50).iter().all(|dense| !dense), "50,000 a second, 50 at once");
        let dense = run(20_000, 10, 2);
        assert!(!dense[0] && dense[1_999], "200,000 a second");
        let after = run(40_000, 1_000, 1);
        assert!(after[0] && !after[19]);
    }
}
