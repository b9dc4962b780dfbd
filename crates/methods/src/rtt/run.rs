use std::collections::VecDeque;

use vtare_units::figures::{Figures, LogHistogram};
use vtare_units::{Monotonic, Span, Timestamp};

use super::UtcHere;
use super::launches::Launches;
use super::loss::InBand;
use super::one_way::{OneWay, OneWayDelays};
use super::outages::{Outage, Outages};
use super::record::{Fate, Record};
use super::seen::Seen;
use super::series::Series;
use super::variation::Variation;
use super::{Answer, FarEnd, Options, ReplyKind, Sent, Unsent};

/// A slot was given out of turn: the caller mixes two runs, or lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// The number that came.
    pub found: u64,
    /// The number that was to come.
    pub wanted: u64,
}

impl std::fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slot {} came instead of slot {}: pass each slot once, in order", self.found, self.wanted)
    }
}

impl std::error::Error for OutOfOrder {}

/// The run as it stands: for the live line.
#[derive(Clone, Copy, Debug)]
pub struct Live<'r> {
    /// Packets sent.
    pub sent: u64,
    /// Packets whose reply came in time.
    pub received: u64,
    /// Packets that may still be answered in time.
    pub open: u64,
    /// Replies beyond the first.
    pub duplicate: u64,
    /// Round-trip times from the actual send, since the last call of [`Run::next_interval`].
    pub interval: &'r LogHistogram,
    /// The same since the start.
    pub whole: &'r LogHistogram,
}

/// An open-loop round-trip run.
///
/// Give it every slot of the schedule in order ([`Run::sent`], [`Run::unsent`]), of kernel stamps and replies as
/// they come; call [`Run::settle`] now and then to settle what is past, and [`Run::finish`] at the end.
///
/// ```
/// use vtare_methods::rtt::{Answer, FarEnd, LocalDrops, Options, Run, Sent};
/// use vtare_units::Timestamp;
/// let at = Timestamp::from_nanos;
/// let mut run = Run::new(Options::default());
/// run.sent(Sent { sequence: 0, scheduled: at(1_000), sent: at(1_040) })?;
/// run.answered(&Answer { sequence: 0, arrived: at(21_040), kernel_rx: None, far_end: FarEnd::default() });
/// let report = run.finish(None, &LocalDrops::default(), &mut |_| {});
/// assert_eq!((report.sent, report.received, report.lost), (1, 1, 0));
/// assert_eq!(report.rtt_ns.median, Some(20_000.0));
/// assert_eq!(report.rtt_scheduled_ns.median, Some(20_040.0));
/// # Ok::<(), vtare_methods::rtt::OutOfOrder>(())
/// ```
#[derive(Debug)]
pub struct Run {
    options: Options,
    /// Slots that are not settled, and for each the number of packets sent up to it.
    window: VecDeque<(Record, u64)>,
    next: u64,
    answered: Seen,
    /// Bounds of the scheduled times, and of the actual send times; a slot without a packet counts in both with its
    /// due time.
    scheduled: Option<(Timestamp<Monotonic>, Timestamp<Monotonic>)>,
    sent_at: Option<(Timestamp<Monotonic>, Timestamp<Monotonic>)>,
    newest_answered: Option<u64>,
    in_band: Option<InBand>,
    interval: LogHistogram,
    whole: LogHistogram,
    variation: Variation,
    one_way: OneWayDelays,
    rtt: Series,
    rtt_scheduled: Series,
    rtt_kernel: Series,
    turnaround: Series,
    pacing_error: Series,
    tally: Tally,
    launches: Launches,
    outages: Outages,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) sent_late: u64,
    pub(super) too_late: u64,
    pub(super) no_room: u64,
    pub(super) received: u64,
    pub(super) late: u64,
    pub(super) duplicate: u64,
    pub(super) reordered: u64,
    pub(super) unknown: u64,
}

impl Run {
    /// A run of which nothing has happened yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let series = || Series::new(options.exact_samples);
        Self {
            options,
            window: VecDeque::new(),
            next: 0,
            answered: Seen::default(),
            scheduled: None,
            sent_at: None,
            newest_answered: None,
            in_band: None,
            interval: LogHistogram::default(),
            whole: LogHistogram::default(),
            variation: Variation::new(options.exact_samples),
            one_way: OneWayDelays::new(options.exact_samples),
            rtt: series(),
            rtt_scheduled: series(),
            rtt_kernel: series(),
            turnaround: series(),
            pacing_error: series(),
            tally: Tally::default(),
            launches: Launches::default(),
            outages: Outages::new(&options),
        }
    }

    /// What was read of this host's clock against UTC, later than all that was read before; `None` where nothing bounds
    /// it. For far ends that state theirs: from before the first packet until after the last, a few times a second.
    pub fn against_utc(&mut self, at: Timestamp<Monotonic>, here: Option<UtcHere>) {
        self.one_way.against_utc(at, here);
    }

    /// A slot's packet was taken by the kernel.
    ///
    /// # Errors
    /// Where the slot is not the next one; nothing is changed then.
    pub fn sent(&mut self, sent: Sent) -> Result<(), OutOfOrder> {
        self.push(sent.sequence, sent.scheduled, Ok(sent.sent))
    }

    /// A slot passed without a packet.
    ///
    /// # Errors
    /// As [`Run::sent`].
    pub fn unsent(&mut self, sequence: u64, scheduled: Timestamp<Monotonic>, why: Unsent) -> Result<(), OutOfOrder> {
        self.push(sequence, scheduled, Err(why))
    }

    fn push(
        &mut self,
        sequence: u64,
        scheduled: Timestamp<Monotonic>,
        sent: Result<Timestamp<Monotonic>, Unsent>,
    ) -> Result<(), OutOfOrder> {
        if sequence != self.next {
            return Err(OutOfOrder { found: sequence, wanted: self.next });
        }
        self.next += 1;
        self.answered.push();
        self.scheduled = Some((self.scheduled.map_or(scheduled, |(first, _)| first), scheduled));
        match sent {
            Ok(sent) => {
                self.tally.sent += 1;
                // Of a launched packet it is not known yet when it leaves.
                if !self.options.launched {
                    self.left(scheduled, sent);
                }
            }
            Err(why) => {
                match why {
                    Unsent::TooLate => self.tally.too_late += 1,
                    Unsent::NoRoom => self.tally.no_room += 1,
                }
                // A rate without the time of the slots that were left out would be higher than what was achieved.
                self.sent_at =
                    Some(self.sent_at.map_or((scheduled, scheduled), |(first, last)| (first, last.max(scheduled))));
                // There is nothing to answer: whatever comes is no reply to it.
                self.answered.set(sequence);
            }
        }
        let record = Record {
            sequence,
            scheduled,
            sent: sent.ok(),
            sent_asked: false,
            kernel_tx: None,
            kernel_rx: None,
            arrived: None,
            far_end: FarEnd::default(),
            fate: sent.err().map_or(Fate::Lost, Fate::Unsent),
            reordered: false,
            duplicates: 0,
        };
        self.window.push_back((record, self.tally.sent));
        Ok(())
    }

    /// The actual send time of a packet is known.
    fn left(&mut self, scheduled: Timestamp<Monotonic>, sent: Timestamp<Monotonic>) {
        let error = sent - scheduled;
        self.tally.sent_late += u64::from(error > Span::from_unsigned_nanos(self.options.late_send_ns));
        self.pacing_error.add(error.as_nanos());
        self.sent_at = Some(self.sent_at.map_or((sent, sent), |(first, last)| (first.min(sent), last.max(sent))));
    }

    /// The kernel stamped a departure. Stamps of settled packets come too late and are left out.
    pub fn departed(&mut self, sequence: u64, kernel_tx: Timestamp<Monotonic>) {
        if let Some((record, _)) = self.slot(sequence)
            && record.sent.is_some()
        {
            record.kernel_tx = Some(kernel_tx);
        }
    }

    /// A reply came.
    pub fn answered(&mut self, answer: &Answer) -> ReplyKind {
        let sequence = answer.sequence;
        let timeout = Span::from_unsigned_nanos(self.options.timeout_ns);
        let launched = self.options.launched;
        let newest = self.newest_answered;
        let heard = match self.answered.get(sequence) {
            None => ReplyKind::Unknown,
            Some(true) if self.slot(sequence).is_some_and(|(record, _)| record.sent.is_none()) => ReplyKind::Unknown,
            Some(true) => ReplyKind::Duplicate,
            Some(false) => match self.slot(sequence) {
                Some((record, sent_so_far)) => {
                    let sent = record.kernel_tx.filter(|_| launched).or(record.sent).unwrap_or(record.scheduled);
                    let rtt = answer.arrived - sent;
                    let in_time = rtt <= timeout;
                    record.arrived = Some(answer.arrived);
                    record.kernel_rx = answer.kernel_rx;
                    record.far_end = answer.far_end;
                    record.fate = if in_time { Fate::Received } else { Fate::Late };
                    record.reordered = newest.is_some_and(|newest| newest > sequence);
                    let (reordered, sent) = (record.reordered, *sent_so_far);
                    self.tally.reordered += u64::from(reordered);
                    if let (Some(accepted), false) = (answer.far_end.accepted, reordered) {
                        self.in_band = Some(InBand { sent, accepted });
                    }
                    if in_time {
                        self.interval.add(rtt.as_nanos());
                        self.whole.add(rtt.as_nanos());
                        ReplyKind::Received
                    } else {
                        ReplyKind::Late
                    }
                }
                // Settled as lost: at least twice the timeout has passed.
                None => ReplyKind::Late,
            },
        };
        match heard {
            ReplyKind::Received => self.tally.received += 1,
            ReplyKind::Late => self.tally.late += 1,
            ReplyKind::Duplicate => {
                self.tally.duplicate += 1;
                if let Some((record, _)) = self.slot(sequence) {
                    record.duplicates += 1;
                }
            }
            ReplyKind::Unknown => self.tally.unknown += 1,
        }
        if matches!(heard, ReplyKind::Received | ReplyKind::Late) {
            self.answered.set(sequence);
            self.newest_answered = Some(newest.map_or(sequence, |newest| newest.max(sequence)));
        }
        heard
    }

    fn slot(&mut self, sequence: u64) -> Option<&mut (Record, u64)> {
        let settled = self.next - self.window.len() as u64;
        let index = sequence.checked_sub(settled)?;
        self.window.get_mut(usize::try_from(index).ok()?)
    }

    /// Gives all records of which nothing more is expected to `sink`, in order: those scheduled more than twice the
    /// timeout before `now`. (A reply that comes even later is counted as late; its record has been given as lost.)
    pub fn settle(&mut self, now: Timestamp<Monotonic>, sink: &mut dyn FnMut(&Record)) {
        let keep = Span::from_unsigned_nanos(self.options.timeout_ns.saturating_mul(2));
        while let Some((record, _)) = self.window.front()
            && now - record.sent.unwrap_or(record.scheduled) > keep
        {
            self.settle_front(sink);
        }
    }

    fn settle_front(&mut self, sink: &mut dyn FnMut(&Record)) {
        let Some((mut record, _)) = self.window.pop_front() else { return };
        if self.options.launched {
            self.launched(&mut record);
        }
        if record.fate == Fate::Received {
            let series = [
                (record.rtt(), &mut self.rtt),
                (record.rtt_scheduled(), &mut self.rtt_scheduled),
                (record.rtt_kernel(), &mut self.rtt_kernel),
                (record.far_end.turnaround, &mut self.turnaround),
            ];
            for (sample, series) in series {
                if let Some(span) = sample {
                    series.add(span.as_nanos());
                }
            }
            self.variation.add(&record);
            self.one_way.add(&record);
        }
        self.outages.add(&record);
        sink(&record);
    }

    /// Puts the stamp of a launched packet's departure in the place of its launch time.
    fn launched(&mut self, record: &mut Record) {
        let Some(asked) = record.sent else { return };
        match record.kernel_tx {
            Some(left) => {
                let after = (left - asked).as_nanos();
                self.launches.stamped += 1;
                self.launches.earliest_ns = Some(self.launches.earliest_ns.map_or(after, |least| least.min(after)));
                record.sent = Some(left);
                self.left(record.scheduled, left);
            }
            None => {
                self.launches.asked_only += 1;
                record.sent_asked = true;
                self.sent_at =
                    Some(self.sent_at.map_or((asked, asked), |(first, last)| (first.min(asked), last.max(asked))));
            }
        }
    }

    /// How the run stands.
    #[must_use]
    pub fn live(&self) -> Live<'_> {
        let Tally { sent, received, late, duplicate, .. } = self.tally;
        let open = self.window.iter().filter(|(record, _)| record.fate == Fate::Lost).count() as u64;
        Live {
            sent,
            received,
            open: open.min(sent - received - late),
            duplicate,
            interval: &self.interval,
            whole: &self.whole,
        }
    }

    /// Begins a new interval of the live line.
    pub fn next_interval(&mut self) {
        self.interval = LogHistogram::default();
    }

    /// Gives the remaining records to `sink`.
    pub(super) fn settle_all(&mut self, sink: &mut dyn FnMut(&Record)) {
        while !self.window.is_empty() {
            self.settle_front(sink);
        }
    }
}

/// What [`Report`](super::Report) needs of a run that is over.
impl Run {
    pub(super) const fn tally(&self) -> &Tally {
        &self.tally
    }
    pub(super) const fn launches(&self) -> Option<Launches> {
        if self.options.launched { Some(self.launches) } else { None }
    }
    pub(super) const fn in_band(&self) -> Option<InBand> {
        self.in_band
    }
    pub(super) const fn series(&self) -> [&Series; 5] {
        [&self.rtt, &self.rtt_scheduled, &self.rtt_kernel, &self.turnaround, &self.pacing_error]
    }
    pub(super) const fn variation(&self) -> &Variation {
        &self.variation
    }
    pub(super) fn one_way(&mut self) -> Option<OneWay> {
        self.one_way.figures()
    }
    pub(super) fn outages(&mut self) -> (Vec<Outage>, Option<Figures>) {
        self.outages.close()
    }
    pub(super) fn scheduled_span(&self) -> Option<(u64, Span)> {
        self.scheduled.map(|(first, last)| (self.next, last - first))
    }
    pub(super) fn sent_span(&self) -> Option<(u64, Span)> {
        self.sent_at.map(|(first, last)| (self.tally.sent, last - first))
    }
}
