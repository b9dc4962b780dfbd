//! Aggregates a run: what the sending thread logged becomes records, figures and samples.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use vtare_clock::Clock;
use vtare_link::rate::RatePolicy;
use vtare_methods::rtt::{
    Fate, LocalDrops, Options, OutOfOrder, Record, Report, ResponderCounters, Run, Series, Unsent,
};
use vtare_units::figures::{Figures, LogHistogram};
use vtare_units::{Monotonic, Peer, Span, Timestamp};

use super::log::Page;
use super::stamp;
use crate::samples::{Samples, SamplesError};

/// Pages that may lie unread while a fast run goes on: 0.5 GB.
const MOST_UNREAD: usize = 160;

/// One packet.
pub(super) struct PacketRow<'a> {
    peer: &'a str,
    session: i64,
    record: &'a Record,
    /// When the first slot was due.
    started: Timestamp<Monotonic>,
}

columns!(row: PacketRow<'_> {
    string "peer" = row.peer, "the far end, as it was given";
    int64 "sequence" = row.record.sequence.cast_signed(), "number of the packet among those to its peer, from 0";
    string "fate" = name(row.record.fate),
        "received, lost (no reply), late (reply after the timeout), too_late or no_room (never sent)";
    int64 "scheduled_ns" = (row.record.scheduled - row.started).as_nanos(),
        "when it was due, since the first packet to any peer was due";
    optional_int64 "sent_ns" = row.since_start(row.record.sent),
        "when it was handed to the kernel, on the same scale; null where it was not; with launch times: when it left";
    optional_int64 "kernel_tx_ns" = row.since_start(row.record.kernel_tx),
        "when it left the kernel or the card, likewise; null where that was not stamped";
    optional_int64 "kernel_rx_ns" = row.since_start(row.record.kernel_rx),
        "when its reply came to the kernel or the card, likewise";
    optional_int64 "arrived_ns" = row.since_start(row.record.arrived), "when the program got its reply, likewise";
    optional_int64 "rtt_ns" = row.of_received(row.record.rtt()),
        "from the actual send to the program's receipt; null where lost";
    optional_int64 "rtt_scheduled_ns" = row.of_received(row.record.rtt_scheduled()),
        "from the scheduled send to the program's receipt; null where lost";
    optional_int64 "peer_received_ns" = on_its_clock(row.record.far_end.received),
        "when the far end got it, on the far end's clock; null where it does not report it";
    optional_int64 "peer_replied_ns" = on_its_clock(row.record.far_end.replied),
        "when the far end answered, on the far end's clock";
    optional_int64 "turnaround_ns" = row.record.far_end.turnaround.map(Span::as_nanos),
        "from arrival to departure at the far end";
    boolean "reordered" = row.record.reordered, "its reply came after that of a later packet";
    int64 "duplicates" = row.record.duplicates.into(), "replies beyond the first";
    int64 "session" = row.session,
        "the session as its packets carry it on the wire: as `session` in the samples of capture";
    boolean "sent_asked" = row.record.sent_asked,
        "sent_ns is the launch time asked for: nobody stamped the departure";
});

impl PacketRow<'_> {
    /// A time since the first slot was due.
    fn since_start(&self, time: Option<Timestamp<Monotonic>>) -> Option<i64> {
        time.map(|time| (time - self.started).as_nanos())
    }

    /// A span that only a packet that was received has.
    fn of_received(&self, span: Option<Span>) -> Option<i64> {
        span.filter(|_| self.record.fate == Fate::Received).map(Span::as_nanos)
    }
}

/// A time on the far end's clock.
fn on_its_clock(time: Option<Timestamp<Peer>>) -> Option<i64> {
    time.and_then(|time| i64::try_from(time.as_nanos()).ok())
}

/// The name of a fate.
const fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::Received => "received",
        Fate::Late => "late",
        Fate::Lost => "lost",
        Fate::Unsent(Unsent::TooLate) => "too_late",
        Fate::Unsent(Unsent::NoRoom) => "no_room",
    }
}

/// What is aggregated of one peer.
struct PeerState {
    peer: String,
    session: i64,
    run: Run,
    gap_error: Series,
    /// Sequence, scheduled and actual send time of the packet before.
    before: Option<(u64, Timestamp<Monotonic>, Timestamp<Monotonic>)>,
}

/// Aggregates what the sending thread logged.
pub(super) struct Aggregate<'s> {
    peers: Vec<PeerState>,
    samples: &'s mut Samples,
    started: Option<Timestamp<Monotonic>>,
    failed: Option<SamplesError>,
    unread: VecDeque<Page>,
    defer: bool,
    /// Slots and replies on pages that were handed over.
    seen: (u64, u64),
}

/// The result of one peer.
pub(super) struct Closed {
    pub(super) report: Report,
    pub(super) gap_error: Figures,
}

/// A run under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// May still be answered in time.
    pub(super) open: u64,
    pub(super) duplicate: u64,
    /// Round trips since the last look.
    pub(super) interval: Figures,
    /// Round trips since the start.
    pub(super) whole: LogHistogram,
}

impl<'s> Aggregate<'s> {
    /// An empty aggregate for `peers`, each with the session that its packets carry; `rate` is that of all together.
    pub(super) fn new(peers: &[(String, i64)], options: Options, rate: Option<f64>, samples: &'s mut Samples) -> Self {
        let state = |(peer, session): &(String, i64)| PeerState {
            peer: peer.clone(),
            session: *session,
            run: Run::new(options),
            gap_error: Series::new(options.exact_samples),
            before: None,
        };
        Self {
            peers: peers.iter().map(state).collect(),
            samples,
            started: None,
            failed: None,
            unread: VecDeque::new(),
            defer: rate.is_none_or(|rate| RatePolicy::of(rate).dense),
            seen: (0, 0),
        }
    }

    /// Has what is known of UTC here now bound one-way delays; for far ends that state theirs.
    pub(super) fn against_utc(&mut self, clock: Option<&Clock>) {
        let Some(clock) = clock else { return };
        let (at, here) = (clock.now_ordered(), stamp::utc_here(clock));
        self.peers.iter_mut().for_each(|peer| peer.run.against_utc(at, here));
    }

    /// Reads pages until the sending thread is done. `show` is called a few times a second with the state of the run.
    pub(super) fn keep(
        &mut self,
        full: &Receiver<Page>,
        empty: &Sender<Page>,
        mut show: impl FnMut(&mut Self),
    ) -> Result<(), OutOfOrder> {
        loop {
            match full.recv_timeout(Duration::from_millis(250)) {
                Ok(page) => {
                    self.seen.0 += page.slots.len() as u64;
                    self.seen.1 += page.replies.len() as u64;
                    let started = || Some(page.slots.first()?.slot.map_or_else(|slot| slot.1, |sent| sent.scheduled));
                    self.started = self.started.or_else(started);
                    self.unread.push_back(page);
                    if self.defer && self.unread.len() < MOST_UNREAD {
                        // An empty page for the full one, made here so that the sender need not.
                        let _ = empty.send(Page::fresh());
                    } else {
                        while let Some(read) = self.read_one()? {
                            let _ = empty.send(read);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            show(self);
        }
        while self.read_one()?.is_some() {}
        Ok(())
    }

    fn read_one(&mut self) -> Result<Option<Page>, OutOfOrder> {
        let Some(mut page) = self.unread.pop_front() else { return Ok(None) };
        for entry in &page.slots {
            let run = &mut self.peers[entry.lane as usize].run;
            match entry.slot {
                Ok(sent) => run.sent(sent)?,
                Err((sequence, scheduled, why)) => run.unsent(sequence, scheduled, why)?,
            }
        }
        for entry in &page.departures {
            self.peers[entry.lane as usize].run.departed(entry.sequence, entry.at);
        }
        for entry in &page.replies {
            self.peers[entry.lane as usize].run.answered(&entry.answer);
        }
        let (samples, failed) = (&mut *self.samples, &mut self.failed);
        let started = self.started.unwrap_or(Timestamp::ZERO);
        for PeerState { peer, session, run, gap_error, before } in &mut self.peers {
            let whose = (peer.as_str(), *session);
            run.settle(page.until, &mut |record| settle(record, whose, started, (gap_error, before), samples, failed));
        }
        page.clear();
        Ok(Some(page))
    }

    /// When the first slot was due, to which all times in the samples count.
    pub(super) fn started(&self) -> Option<Timestamp<Monotonic>> {
        self.started
    }

    /// Slots and replies so far.
    pub(super) fn seen(&self) -> (u64, u64) {
        self.seen
    }

    /// All peers as they stand; the interval starts anew.
    pub(super) fn look(&mut self) -> Look {
        let mut look = Look::default();
        let mut interval = LogHistogram::default();
        for peer in &mut self.peers {
            let live = peer.run.live();
            look.sent += live.sent;
            look.received += live.received;
            look.open += live.open;
            look.duplicate += live.duplicate;
            look.whole.merge(live.whole);
            interval.merge(live.interval);
            peer.run.next_interval();
        }
        Look { interval: interval.figures(), ..look }
    }

    /// Ends the aggregation: counters and local drops are given for each peer.
    ///
    /// # Errors
    /// Where samples could not be written.
    pub(super) fn close(
        self,
        counted: &[(Option<ResponderCounters>, LocalDrops)],
    ) -> Result<Vec<Closed>, SamplesError> {
        let Self { peers, samples, started, mut failed, .. } = self;
        let started = started.unwrap_or(Timestamp::ZERO);
        let mut closed = Vec::with_capacity(peers.len());
        for (PeerState { peer, session, run, mut gap_error, mut before }, (counters, local)) in
            peers.into_iter().zip(counted)
        {
            let whose = (peer.as_str(), session);
            let report = run.finish(counters.as_ref(), local, &mut |record| {
                settle(record, whose, started, (&mut gap_error, &mut before), samples, &mut failed);
            });
            closed.push(Closed { report, gap_error: gap_error.figures() });
        }
        failed.map_or(Ok(closed), Err)
    }
}

type Gaps<'b> = (&'b mut Series, &'b mut Option<(u64, Timestamp<Monotonic>, Timestamp<Monotonic>)>);

/// Takes a record of which nothing more is expected.
fn settle(
    record: &Record,
    whose: (&str, i64),
    started: Timestamp<Monotonic>,
    (gap_error, before): Gaps<'_>,
    samples: &mut Samples,
    failed: &mut Option<SamplesError>,
) {
    // A launch time asked for is no measured gap.
    if let Some(sent) = record.sent.filter(|_| !record.sent_asked) {
        if let Some((sequence, scheduled_before, sent_before)) = *before
            && sequence + 1 == record.sequence
        {
            let error = (sent - sent_before) - (record.scheduled - scheduled_before);
            gap_error.add(error.as_nanos());
        }
        *before = Some((record.sequence, record.scheduled, sent));
    }
    if samples.kept() && failed.is_none() {
        *failed = samples.row(&PacketRow { peer: whose.0, session: whose.1, record, started }).err();
    }
}
