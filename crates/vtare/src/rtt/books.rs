//! Keeping the books of a run: what the sending thread wrote down becomes records, figures and samples.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use vtare_methods::rtt::{Fate, LocalDrops, Options, OutOfOrder, Record, Report, ResponderCounters, Run, Series};
use vtare_units::{Monotonic, Span, Timestamp};

use super::log::Page;
use crate::samples::{Cell, Column, Samples, SamplesError};

/// Pages that may lie unread while a fast run goes on: 0.5 GB.
const MOST_UNREAD: usize = 160;
/// Up to this rate of all peers together pages are read as they come; above, reading would take the responder's CPU.
const READ_AT_ONCE_UP_TO: f64 = 50_000.0;

/// The columns of the samples, in the order in which [`row`] fills them.
pub(super) const COLUMNS: &[Column] = &[
    Column::string("peer", "the far end, as it was given"),
    Column::int64("sequence", "number of the packet among those to its peer, from 0"),
    Column::string(
        "fate",
        "received, lost (no reply), late (reply after the timeout), too_late or no_room (never sent)",
    ),
    Column::int64("scheduled_ns", "when it was due, since the first packet to any peer was due"),
    Column::optional_int64(
        "sent_ns",
        "when it was handed to the kernel, on the same scale; null where it was not; with launch times: when it left",
    ),
    Column::optional_int64(
        "kernel_tx_ns",
        "when it left the kernel or the card, likewise; null where that was not stamped",
    ),
    Column::optional_int64("kernel_rx_ns", "when its reply came to the kernel or the card, likewise"),
    Column::optional_int64("arrived_ns", "when the program got its reply, likewise"),
    Column::optional_int64("rtt_ns", "from the actual send to the program's receipt; null where lost"),
    Column::optional_int64("rtt_scheduled_ns", "from the scheduled send to the program's receipt; null where lost"),
    Column::optional_int64(
        "peer_received_ns",
        "when the far end got it, on the far end's clock; null where it does not say",
    ),
    Column::optional_int64("peer_replied_ns", "when the far end answered, on the far end's clock"),
    Column::optional_int64("turnaround_ns", "from arrival to departure at the far end"),
    Column::boolean("reordered", "its reply came after that of a later packet"),
    Column::int64("duplicates", "replies beyond the first"),
    Column::int64(
        "session",
        "what its packets say on the wire of whose they are: as `session` in the samples of capture",
    ),
    Column::boolean("sent_asked", "sent_ns is the launch time asked for: nobody stamped the departure"),
];

/// The books of one peer.
struct Book {
    peer: String,
    session: i64,
    run: Run,
    gap_error: Series,
    /// Sequence, scheduled and actual send time of the packet before.
    before: Option<(u64, Timestamp<Monotonic>, Timestamp<Monotonic>)>,
}

/// The books of a run.
pub(super) struct Books<'s> {
    books: Vec<Book>,
    samples: &'s mut Samples,
    started: Option<Timestamp<Monotonic>>,
    failed: Option<SamplesError>,
    unread: VecDeque<Page>,
    defer: bool,
    /// Slots and replies on pages that were handed over.
    seen: (u64, u64),
}

/// What one peer's books came to.
pub(super) struct Closed {
    pub(super) report: Report,
    pub(super) gap_error: vtare_methods::figures::Figures,
}

impl<'s> Books<'s> {
    /// Empty books for `peers`, each with the session that its packets carry; `rate` is that of all together.
    pub(super) fn new(peers: &[(String, i64)], options: Options, rate: Option<f64>, samples: &'s mut Samples) -> Self {
        let book = |(peer, session): &(String, i64)| Book {
            peer: peer.clone(),
            session: *session,
            run: Run::new(options),
            gap_error: Series::new(options.exact_samples),
            before: None,
        };
        Self {
            books: peers.iter().map(book).collect(),
            samples,
            started: None,
            failed: None,
            unread: VecDeque::new(),
            defer: rate.is_none_or(|rate| rate > READ_AT_ONCE_UP_TO),
            seen: (0, 0),
        }
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
            let run = &mut self.books[entry.lane as usize].run;
            match entry.slot {
                Ok(sent) => run.sent(sent)?,
                Err((sequence, scheduled, why)) => run.unsent(sequence, scheduled, why)?,
            }
        }
        for entry in &page.departures {
            self.books[entry.lane as usize].run.departed(entry.sequence, entry.at);
        }
        for entry in &page.replies {
            self.books[entry.lane as usize].run.answered(&entry.answer);
        }
        let (samples, failed) = (&mut *self.samples, &mut self.failed);
        let started = self.started.unwrap_or(Timestamp::ZERO);
        for Book { peer, session, run, gap_error, before } in &mut self.books {
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

    /// Median and p99 of the round trips since the last call; `None` where none has been read since.
    pub(super) fn live(&mut self) -> Option<(u64, Option<u64>)> {
        let mut merged = vtare_methods::histogram::Histogram::default();
        for book in &mut self.books {
            merged.merge(book.run.live().interval);
            book.run.next_interval();
        }
        merged.quantile(0.5).map(|median| (median, merged.p99()))
    }

    /// Closes the books: counters and local drops are given for each peer.
    ///
    /// # Errors
    /// Where samples could not be written.
    pub(super) fn close(
        self,
        counted: &[(Option<ResponderCounters>, LocalDrops)],
    ) -> Result<Vec<Closed>, SamplesError> {
        let Self { books, samples, started, mut failed, .. } = self;
        let started = started.unwrap_or(Timestamp::ZERO);
        let mut closed = Vec::with_capacity(books.len());
        for (Book { peer, session, run, mut gap_error, mut before }, (counters, local)) in
            books.into_iter().zip(counted)
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
    // A wish says nothing of the gap.
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
        *failed = row(record, whose, started, samples).err();
    }
}

fn row(
    record: &Record,
    (peer, session): (&str, i64),
    started: Timestamp<Monotonic>,
    samples: &mut Samples,
) -> Result<(), SamplesError> {
    use vtare_methods::rtt::Unsent;

    let at = |time: Option<Timestamp<Monotonic>>| {
        time.map_or(Cell::Missing, |time| Cell::Integer((time - started).as_nanos()))
    };
    let span = |span: Option<Span>| span.map_or(Cell::Missing, |span| Cell::Integer(span.as_nanos()));
    let there = |ns: Option<u64>| ns.and_then(|ns| i64::try_from(ns).ok()).map_or(Cell::Missing, Cell::Integer);
    let received = record.fate == Fate::Received;
    let fate = match record.fate {
        Fate::Received => "received",
        Fate::Late => "late",
        Fate::Lost => "lost",
        Fate::Unsent(Unsent::TooLate) => "too_late",
        Fate::Unsent(Unsent::NoRoom) => "no_room",
    };
    samples.row(&[
        Cell::Text(peer),
        Cell::Integer(record.sequence.cast_signed()),
        Cell::Text(fate),
        Cell::Integer((record.scheduled - started).as_nanos()),
        at(record.sent),
        at(record.kernel_tx),
        at(record.kernel_rx),
        at(record.arrived),
        span(record.rtt().filter(|_| received)),
        span(record.rtt_scheduled().filter(|_| received)),
        there(record.far_end.received.map(Timestamp::as_nanos)),
        there(record.far_end.replied.map(Timestamp::as_nanos)),
        span(record.far_end.turnaround),
        Cell::Truth(record.reordered),
        Cell::Integer(record.duplicates.into()),
        Cell::Integer(session),
        Cell::Truth(record.sent_asked),
    ])
}
