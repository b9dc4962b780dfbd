//! What the sending thread does at each event: as little as can be.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use vtare_link::xdp::probe;
use vtare_methods::rtt::{Answer, FarEnd, Sent, Unsent};
use vtare_probe::link::Incoming;
use vtare_probe::open_loop::{Event, Observer};
use vtare_probe::schedule::Slot;
use vtare_units::{Monotonic, Span, Timestamp};

use super::codec::Codec;
use super::log::{DepartureEntry, Log, ReplyEntry, SlotEntry};

/// Pages are handed over at least this often, so that the live line lives.
const HAND_OVER: Span = Span::from_millis(250);

/// Writes probes and takes events down.
pub(super) struct Recorder<'a> {
    codecs: &'a [Codec],
    /// The peer that the current arrival comes from.
    lane: Rc<Cell<usize>>,
    log: Log,
    stop: &'a AtomicBool,
    /// Slots of the whole schedule, where their number is known.
    planned: Option<u64>,
    slots_seen: u64,
    /// For each slot, whether its packet may still be answered for the first time.
    open: Vec<bool>,
    open_count: u64,
    handed_over: Timestamp<Monotonic>,
    newest: u64,
    /// Arrivals that were no replies of the session, for each peer.
    pub(super) foreign: Vec<u64>,
    /// The last two replies of each STAMP reflector, oldest first; empty for others.
    pub(super) last_replies: Vec<[Vec<u8>; 2]>,
    /// The least and the longest time from hand-over to launch, ns; `None` without launch times.
    pub(super) handed_ahead_ns: Option<(i64, i64)>,
    /// Every packet has been answered, so there was nothing left to wait for.
    pub(super) complete: bool,
    /// The request to stop ended it.
    pub(super) stopped: bool,
}

/// Runs up to this number of packets end as soon as all are answered; longer ones wait for all of their linger time.
const MOST_TRACKED: u64 = 1 << 26;

impl<'a> Recorder<'a> {
    /// A recorder for the peers of `codecs`; `planned` slots in all, where that is known.
    pub(super) fn new(
        codecs: &'a [Codec],
        lane: Rc<Cell<usize>>,
        log: Log,
        stop: &'a AtomicBool,
        planned: Option<u64>,
    ) -> Self {
        let planned = planned.filter(|planned| *planned <= MOST_TRACKED);
        // Touched now; growing would copy it in the middle of the run.
        let mut open = vec![true; planned.unwrap_or(0) as usize];
        open.clear();
        Self {
            foreign: vec![0; codecs.len()],
            last_replies: vec![<[Vec<u8>; 2]>::default(); codecs.len()],
            codecs,
            lane,
            log,
            stop,
            planned,
            slots_seen: 0,
            open,
            open_count: 0,
            handed_over: Timestamp::ZERO,
            newest: 0,
            handed_ahead_ns: None,
            complete: false,
            stopped: false,
        }
    }

    fn place(&self, slot: &Slot) -> (u32, u64) {
        let peers = self.codecs.len() as u64;
        ((slot.sequence % peers) as u32, slot.sequence / peers)
    }

    fn slot(&mut self, slot: &Slot, record: impl FnOnce(u64) -> Result<Sent, (u64, Timestamp<Monotonic>, Unsent)>) {
        let (lane, sequence) = self.place(slot);
        self.take(lane, sequence, record(sequence));
    }

    fn take(&mut self, lane: u32, sequence: u64, slot: Result<Sent, (u64, Timestamp<Monotonic>, Unsent)>) {
        let entry = SlotEntry { lane, slot };
        let sent = entry.slot.is_ok();
        if self.planned.is_some() {
            self.open.push(sent);
            self.open_count += u64::from(sent);
        }
        self.slots_seen += 1;
        self.newest = self.newest.max(sequence);
        self.log.page().slots.push(entry);
    }

    fn arrived(&mut self, incoming: &Incoming<'_>) {
        let lane = self.lane.get();
        let Ok((sequence, far_end)) = self.codecs[lane].read(incoming.payload, self.newest) else {
            self.foreign[lane] += 1;
            return;
        };
        if self.codecs[lane].stamp_key().is_some() {
            let replies = &mut self.last_replies[lane];
            replies.swap(0, 1);
            replies[1].clear();
            replies[1].extend_from_slice(incoming.payload);
        }
        let kernel_rx = incoming.stamp.map(|stamp| stamp.at);
        self.answered(lane, Answer { sequence, arrived: incoming.arrived, kernel_rx, far_end });
    }

    fn answered(&mut self, lane: usize, answer: Answer) {
        let sequence = answer.sequence;
        self.log.page().replies.push(ReplyEntry { lane: lane as u32, answer });
        let global = sequence.saturating_mul(self.codecs.len() as u64).saturating_add(lane as u64);
        if let Some(open) = usize::try_from(global).ok().and_then(|index| self.open.get_mut(index))
            && std::mem::take(open)
        {
            self.open_count -= 1;
        }
    }

    fn flow(&mut self) -> ControlFlow<()> {
        self.complete = self.planned == Some(self.slots_seen) && self.open_count == 0;
        if self.complete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Takes what programs in the kernel wrote down; they serve one peer. Whether every packet has been answered.
    pub(super) fn observe(&mut self, event: &probe::Event) -> bool {
        match *event {
            probe::Event::Slot { sequence, scheduled, sent } => {
                let slot = sent.map(|sent| Sent { sequence, scheduled, sent });
                self.take(0, sequence, slot.ok_or((sequence, scheduled, Unsent::TooLate)));
                self.log.turn_if_full(scheduled);
            }
            probe::Event::Reply(reply) => {
                let far_end = match reply.far_end {
                    Some((received, replied, accepted)) => {
                        FarEnd::stamped(Timestamp::from_nanos(received), Timestamp::from_nanos(replied), Some(accepted))
                    }
                    None => FarEnd { turnaround: reply.turnaround, ..FarEnd::default() },
                };
                let (sequence, arrived) = (reply.sequence, reply.arrived);
                self.answered(0, Answer { sequence, arrived, kernel_rx: None, far_end });
                self.log.turn_if_full(arrived);
            }
            probe::Event::Turn(now) => {
                if now - self.handed_over > HAND_OVER {
                    self.handed_over = now;
                    self.log.turn(now);
                }
                return self.flow().is_break();
            }
        }
        false
    }

    /// Hands over what is left.
    pub(super) fn finish(&mut self, now: Timestamp<Monotonic>) {
        self.log.turn(now);
    }
}

impl Observer for Recorder<'_> {
    fn fill(&mut self, slot: &Slot, now: Timestamp<Monotonic>, datagram: &mut [u8]) {
        let (lane, sequence) = self.place(slot);
        let filled = self.codecs[lane as usize].fill(sequence, now, datagram);
        debug_assert_eq!(filled, Ok(()), "the parameters' check wants room for the header");
    }

    fn observe(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Sent { slot, scheduled, burst, launch } => {
                if let Some(launch) = launch {
                    let ahead = (launch - burst.after).as_nanos();
                    let (least, most) = self.handed_ahead_ns.unwrap_or((ahead, ahead));
                    self.handed_ahead_ns = Some((least.min(ahead), most.max(ahead)));
                }
                // None leaves before it is handed over.
                let sent = launch.map_or(burst.before, |launch| launch.max(burst.before));
                self.slot(&slot, |sequence| Ok(Sent { sequence, scheduled, sent }));
                self.log.turn_if_full(burst.after);
            }
            Event::TooLate { slot, scheduled } => {
                self.slot(&slot, |sequence| Err((sequence, scheduled, Unsent::TooLate)));
                self.log.turn_if_full(scheduled);
                return self.flow();
            }
            Event::NoRoom { slot, scheduled } => {
                self.slot(&slot, |sequence| Err((sequence, scheduled, Unsent::NoRoom)));
                self.log.turn_if_full(scheduled);
            }
            Event::Departed(departure) => {
                let peers = self.codecs.len() as u64;
                let entry = DepartureEntry {
                    lane: (departure.sequence % peers) as u32,
                    sequence: departure.sequence / peers,
                    at: departure.stamp.at,
                };
                self.log.page().departures.push(entry);
                self.log.turn_if_full(departure.stamp.at);
            }
            Event::Arrived(incoming) => {
                self.arrived(&incoming);
                self.log.turn_if_full(incoming.arrived);
                return self.flow();
            }
            Event::Turn(now) => {
                if now - self.handed_over > HAND_OVER {
                    self.handed_over = now;
                    self.log.turn(now);
                }
                if self.stop.load(Ordering::Relaxed) {
                    self.stopped = true;
                    return ControlFlow::Break(());
                }
                // A schedule whose last slots were left out has no arrival to end it.
                return self.flow();
            }
        }
        ControlFlow::Continue(())
    }
}
