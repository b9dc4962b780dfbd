//! The figures of a run, and its samples: one row an estimate.

use std::ops::ControlFlow;

use serde::Serialize;
use vtare_methods::avb::{Estimate, Layer, Stopped};
use vtare_methods::throughput::Repeated;
use vtare_probe::link::Facts;
use vtare_units::figures::{Figures, quantile};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::Counters;

use super::parameters::Stream;
use super::run::TimedEstimate;
use super::shown::{megabits, words};
use crate::failure::Failure;
use crate::instrument::Note;
use crate::output;
use crate::samples::{Samples, SamplesError, count, nearest};
use crate::sentences::avb as words;
use crate::table::time;

/// One estimate.
pub(super) struct EstimateRow<'a> {
    cell: &'a AvbCell,
    number: u64,
    timed: &'a TimedEstimate,
    stopped: String,
}

impl EstimateRow<'_> {
    /// What was sent for it; none of another program, which does not report it.
    fn sent(&self, number: u64) -> Option<i64> {
        (!self.cell.foreign).then(|| count(number))
    }

    /// A time of the estimate, in s since it began, on the clock.
    fn at(&self, seconds: f64) -> i64 {
        self.timed.began.as_nanos().cast_signed() + (seconds * 1e9).round() as i64
    }
}

columns!(row: EstimateRow<'_> {
    string "peer" = &row.cell.peer, "the far end, as it was given";
    string "method" = &row.cell.method, "how it was estimated, NAME or NAME:PRESET";
    string "direction" = row.cell.direction, "forward: from here to the far end; reverse: from there to here";
    int64 "estimate" = count(row.number), "number of the estimate, from 0";
    int64 "began_ns" = count(row.timed.began.as_nanos()),
        "when the measurement of this estimate began, CLOCK_MONOTONIC of the sender's host";
    optional_int64 "window_from_ns" = row.timed.estimate.window_s.map(|window| row.at(window[0])),
        "start of the time that the value is the mean of, same clock; null where the method does not know it";
    optional_int64 "window_to_ns" = row.timed.estimate.window_s.map(|window| row.at(window[1])), "end of that time";
    int64 "elapsed_ns" = (row.timed.estimate.elapsed_s * 1e9).round() as i64, "from its first step to the answer";
    optional_int64 "avb_bit_per_s" = row.timed.estimate.avb_bit_per_s.and_then(nearest),
        "available bandwidth, IP packets with headers; null where there is no answer";
    optional_int64 "low_bit_per_s" = row.timed.estimate.interval_bit_per_s.and_then(|[low, _]| nearest(low)),
        "lower end of its interval; null where the method gives none";
    optional_int64 "high_bit_per_s" = row.timed.estimate.interval_bit_per_s.and_then(|[_, high]| nearest(high)),
        "upper end of its interval";
    optional_int64 "capacity_bit_per_s" = row.timed.estimate.capacity_bit_per_s.and_then(nearest),
        "capacity of the link that forms the queue; null where it was not seen";
    optional_int64 "token_bucket_byte" = row.timed.estimate.token_bucket_byte.and_then(nearest),
        "depth of a token bucket on the way, where one was seen";
    optional_int64 "queued_ns" = row.timed.estimate.queued_ns.and_then(nearest),
        "the most that the probes themselves made the queue wait";
    optional_int64 "occupied_bit_per_s" = row.timed.estimate.occupied_bit_per_s.and_then(nearest),
        "probe bytes over the time taken";
    optional_int64 "probe_byte" = row.sent(row.timed.estimate.probe_byte),
        "bytes of probe packets, IP; this and the next three are null for another program, which does not report them";
    optional_int64 "extra_byte" = row.sent(row.timed.extra_byte),
        "bytes sent besides: soundings of the path, and credit for trains back";
    optional_int64 "packets" = row.sent(row.timed.estimate.packets), "probe packets";
    optional_int64 "trains" = row.sent(row.timed.estimate.trains.into()), "trains of packets";
    boolean "at_least" = row.timed.estimate.at_least, "the value is a lower bound: the sender could not send faster";
    string "stopped" = &row.stopped, "why the measurement ended";
});

/// Writes an estimate down.
///
/// # Errors
/// Where the samples cannot be written.
pub(super) fn row(
    samples: &mut Samples,
    cell: &AvbCell,
    number: u64,
    timed: &TimedEstimate,
) -> Result<(), SamplesError> {
    let stopped = output::to_json(&timed.estimate.stopped).as_str().unwrap_or_default().to_owned();
    samples.row(&EstimateRow { cell, number, timed, stopped })
}

/// The result of a run. Rates are of IP packets, headers included, bit/s.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct AvbCell {
    /// The far end, as it was given.
    pub(crate) peer: String,
    /// Its address.
    pub(crate) address: String,
    /// How it was estimated.
    pub(crate) method: String,
    /// `forward` or `reverse`.
    pub(crate) direction: &'static str,
    /// The answer: that of the only estimate, or the median of all that gave one; null where none did.
    pub(crate) avb_bit_per_s: Option<f64>,
    /// Its interval; of several estimates the medians of the ends, of six and more answers at least as wide as that of
    /// their median (95 %).
    pub(crate) interval_bit_per_s: Option<[f64; 2]>,
    /// Time that the answer is the mean of, s: the windows of all estimates added up; null where the method does not
    /// know it.
    pub(crate) window_s: Option<f64>,
    /// From the first step of the first estimate to the end of the last, s; null without an estimate.
    pub(crate) span_s: Option<f64>,
    /// Interval for the mean of much longer times if the other traffic stays the same, 95 %; of six and
    /// more answers `interval_bit_per_s`. Null where the method gives none.
    pub(crate) long_run_bit_per_s: Option<[f64; 2]>,
    /// Capacity of the link that forms the queue, likewise.
    pub(crate) capacity_bit_per_s: Option<f64>,
    /// The value is a lower bound, in at least half of the estimates.
    pub(crate) at_least: bool,
    /// Depth of a token bucket on the path, at least, where one was seen: the most that an estimate saw.
    pub(crate) token_bucket_byte: Option<f64>,
    /// The most that the probes made the queue wait, ns.
    pub(crate) queued_ns: Option<f64>,
    /// Probe bytes over the time taken, bit/s.
    pub(crate) occupied_bit_per_s: Option<f64>,
    /// The same as a share of the capacity that was found, 0 to 1: median of the estimates that found one.
    pub(crate) occupied_share: Option<f64>,
    /// Bytes of probe packets, all estimates; null where another program sent them.
    pub(crate) probe_byte: Option<u64>,
    /// Bytes sent besides: soundings, and credit for trains back; null likewise.
    pub(crate) extra_byte: Option<u64>,
    /// Time of the measurements, s, without the silence between.
    pub(crate) elapsed_s: f64,
    /// Why it stopped; of several estimates the most frequent reason.
    pub(crate) stopped: Option<Stopped>,
    /// What the rates count.
    pub(crate) layer: Layer,
    /// Estimates of the run.
    pub(crate) estimates: u64,
    /// Estimates without an answer.
    pub(crate) unanswered: u64,
    /// Estimates that exclude nothing: their interval is as wide as the link.
    pub(crate) uninformative: u64,
    /// The answers.
    pub(crate) estimate_bit_per_s: Figures,
    /// Probe bytes of an estimate.
    pub(crate) estimate_byte: Figures,
    /// Time of an estimate, ns.
    pub(crate) estimate_ns: Figures,
    /// Bytes of the largest probe packet, IP; null where another program sends.
    pub(crate) packet_byte: Option<u32>,
    /// What a single send costs the sender, ns; null where the kernel sends.
    pub(crate) send_cost_ns: Option<f64>,
    /// Packets of one call at most; null where the kernel sends.
    pub(crate) group_packet: Option<u32>,
    /// The congestion control that the connections of `tcp` really had; null for all other methods.
    pub(crate) congestion: Option<String>,
    /// Datagrams that found the receiver's buffer full during the run; null where it does not report them.
    pub(crate) receiver_drops: Option<u64>,
    /// What the link got and did not get.
    pub(crate) link: Option<Facts>,
    /// Whether the estimates are another program's, which does not report what it sent.
    #[serde(skip)]
    pub(crate) foreign: bool,
}

/// The estimates of a run as they come.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    timed: Vec<TimedEstimate>,
}

impl Gathered {
    pub(super) fn push(&mut self, timed: &TimedEstimate) {
        self.timed.push(timed.clone());
    }

    pub(super) const fn len(&self) -> u64 {
        self.timed.len() as u64
    }

    /// The link's capacity, as far as the estimates found one: their median.
    pub(super) fn capacity_bit_per_s(&self) -> Option<f64> {
        median(self.timed.iter().filter_map(|timed| timed.estimate.capacity_bit_per_s).collect())
    }

    /// Fills in the figures of all estimates together.
    pub(super) fn sum_up(&self, cell: &mut AvbCell, counters: Option<&Counters>) {
        let all = || self.timed.iter().map(|timed| &timed.estimate);
        let middle = |values: Vec<f64>| median(values);
        let of = |get: &dyn Fn(&Estimate) -> Option<f64>| middle(all().filter_map(get).collect());
        cell.avb_bit_per_s = of(&|it| it.avb_bit_per_s);
        let low = of(&|it| Some(it.interval_bit_per_s?[0]));
        let high = of(&|it| Some(it.interval_bit_per_s?[1]));
        cell.interval_bit_per_s = low.zip(high).map(|(low, high)| [low, high]);
        let windows: Vec<f64> = all().filter_map(|it| it.window_s).map(|[from, to]| to - from).collect();
        cell.window_s = (!windows.is_empty()).then(|| windows.iter().sum());
        cell.span_s = self.timed.first().zip(self.timed.last()).map(|(first, last)| {
            let between: Span = last.began - first.began;
            between.as_secs_f64() + last.estimate.elapsed_s
        });
        // Six estimates at different times show by themselves how much the path varies; fewer cannot. What the method
        // itself may be off by is common to all of them.
        let values: Vec<f64> = all().filter(|it| !it.at_least).filter_map(|it| it.avb_bit_per_s).collect();
        let together = Repeated::of(&values);
        let low = of(&|it| Some(it.long_run_bit_per_s?[0]));
        let high = of(&|it| Some(it.long_run_bit_per_s?[1]));
        cell.long_run_bit_per_s = match together.coverage {
            Some(coverage) if coverage >= LONG_RUN_COVERAGE => {
                cell.interval_bit_per_s = hull(cell.interval_bit_per_s, together.interval);
                cell.interval_bit_per_s
            }
            _ => low.zip(high).map(|(low, high)| [low, high]),
        };
        cell.capacity_bit_per_s = self.capacity_bit_per_s();
        // One that earlier estimates emptied looks shallower.
        cell.token_bucket_byte = all().filter_map(|it| it.token_bucket_byte).max_by(f64::total_cmp);
        cell.queued_ns = of(&|it| it.queued_ns);
        cell.occupied_bit_per_s = of(&|it| it.occupied_bit_per_s);
        cell.occupied_share = of(&occupied_share);
        cell.estimates = self.len();
        cell.unanswered = all().filter(|it| it.avb_bit_per_s.is_none()).count() as u64;
        cell.uninformative = all().filter(|it| uninformative(it, cell.capacity_bit_per_s)).count() as u64;
        cell.at_least = 2 * all().filter(|it| it.at_least).count() >= self.timed.len().max(1);
        cell.elapsed_s = all().map(|it| it.elapsed_s).sum();
        cell.probe_byte = (!cell.foreign).then(|| all().map(|it| it.probe_byte).sum());
        cell.extra_byte = (!cell.foreign).then(|| self.timed.iter().map(|timed| timed.extra_byte).sum());
        cell.layer = all().next().map(|it| it.layer).unwrap_or_default();
        // Those with an answer come first: of equals the first is taken.
        let (answered, others): (Vec<_>, Vec<_>) = all().partition(|it| it.avb_bit_per_s.is_some());
        cell.stopped = most_frequent(answered.into_iter().chain(others).map(|it| it.stopped));
        cell.estimate_bit_per_s = all().filter_map(|it| it.avb_bit_per_s.and_then(nearest)).collect();
        cell.estimate_byte = all().filter(|_| !cell.foreign).map(|it| it.probe_byte.cast_signed()).collect();
        cell.estimate_ns = all().map(|it| (it.elapsed_s * 1e9) as i64).collect();
        cell.receiver_drops = counters.and_then(|counters| counters.socket_drops);
    }

    /// What the method itself remarked, each once.
    pub(super) fn notes(&self, method: &str) -> Vec<Note> {
        let mut notes: Vec<Note> = Vec::new();
        for remark in self.timed.iter().flat_map(|timed| &timed.estimate.notes) {
            let note = Note::new("method", words::remark(method, remark));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }
}

/// How often the interval of a median of estimates holds, for it to stand for the long run.
const LONG_RUN_COVERAGE: f64 = 0.95;

/// The least interval that holds both.
fn hull(one: Option<[f64; 2]>, other: Option<[f64; 2]>) -> Option<[f64; 2]> {
    match (one, other) {
        (Some([low, high]), Some([lower, higher])) => Some([low.min(lower), high.max(higher)]),
        (one, other) => one.or(other),
    }
}

/// Whether an estimate excludes nothing: its interval is as wide as the link, by its own capacity or by that of all
/// estimates; where no capacity was found, as wide as its upper end is high.
fn uninformative(estimate: &Estimate, capacity_bit_per_s: Option<f64>) -> bool {
    let capacity = [estimate.capacity_bit_per_s, capacity_bit_per_s].into_iter().flatten().reduce(f64::min);
    estimate
        .interval_bit_per_s
        .is_some_and(|[low, high]| !estimate.at_least && high > low && high - low >= capacity.unwrap_or(high))
}

/// The share of the link that probes took: of the capacity that the same estimate found.
fn occupied_share(estimate: &Estimate) -> Option<f64> {
    let capacity = estimate.capacity_bit_per_s.filter(|capacity| *capacity > 0.0)?;
    Some(estimate.occupied_bit_per_s? / capacity)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

fn most_frequent(all: impl Iterator<Item = Stopped>) -> Option<Stopped> {
    let mut counts: Vec<(Stopped, u32)> = Vec::new();
    for stopped in all {
        match counts.iter_mut().find(|(it, _)| *it == stopped) {
            Some((_, count)) => *count += 1,
            None => counts.push((stopped, 1)),
        }
    }
    // Of equals the first: it was there before.
    counts.iter().rev().max_by_key(|(_, count)| *count).map(|(stopped, _)| *stopped)
}

pub(crate) const STREAM_SCHEMA: &str = "vtare.avb.estimate/1";

/// What is null in the estimate of another program, which does not state it.
pub(crate) const FOREIGN_NULL: [&str; 4] = ["probe_byte", "extra_byte", "packets", "trains"];

/// One line of `--json-stream`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct StreamLine<'a> {
    schema: &'static str,
    peer: &'a str,
    method: &'a str,
    direction: &'a str,
    /// Number, from 0.
    estimate_number: u64,
    /// Time since the run began, s.
    at_s: f64,
    #[serde(flatten)]
    estimate: &'a Estimate,
    extra_byte: u64,
    /// Of the capacity found, 0 to 1.
    occupied_share: Option<f64>,
    /// The estimate is another program's.
    #[serde(skip)]
    foreign: bool,
    /// Its interval is as wide as the link.
    uninformative: bool,
}

impl<'a> StreamLine<'a> {
    /// The newest of these estimates.
    pub(super) fn new(
        cell: &'a AvbCell,
        gathered: &Gathered,
        timed: &'a TimedEstimate,
        started: Timestamp<Monotonic>,
        now: Timestamp<Monotonic>,
    ) -> Self {
        let at: Span = now - started;
        Self {
            schema: STREAM_SCHEMA,
            peer: &cell.peer,
            method: &cell.method,
            direction: cell.direction,
            estimate_number: gathered.len().saturating_sub(1),
            at_s: at.as_secs_f64(),
            estimate: &timed.estimate,
            extra_byte: timed.extra_byte,
            occupied_share: occupied_share(&timed.estimate),
            foreign: cell.foreign,
            uninformative: uninformative(&timed.estimate, gathered.capacity_bit_per_s()),
        }
    }
}

impl StreamLine<'_> {
    /// The estimate for programs. What another program sent is null.
    fn document(&self) -> serde_json::Value {
        let mut document = output::to_json(self);
        for key in FOREIGN_NULL.iter().filter(|_| self.foreign) {
            document[*key] = serde_json::Value::Null;
        }
        document
    }

    /// The estimate for people: its time, the available bandwidth, and its interval.
    fn in_words(&self) -> String {
        let at = format!("{:7.1} s", self.at_s);
        if self.estimate.avb_bit_per_s.is_none() {
            return format!("{at}  no answer: {}", words(self.estimate.stopped));
        }
        let bound = if self.estimate.at_least { "at least " } else { "" };
        let interval = self
            .estimate
            .interval_bit_per_s
            .map_or_else(String::new, |[low, high]| format!("  ({} to {})", megabits(Some(low)), megabits(Some(high))));
        let window = self
            .estimate
            .window_s
            .map_or_else(String::new, |[from, to]| format!("  mean of {}", time(Some((to - from) * 1e9))));
        let nothing = if self.uninformative { "  (as wide as the link)" } else { "" };
        format!("{at}  {bound}{}{interval}{window}{nothing}", megabits(self.estimate.avb_bit_per_s))
    }
}

/// Shows a line of the stream. Breaks, with a note, where its reader went away.
///
/// # Errors
/// Where stdout cannot be written.
pub(super) fn show(line: &StreamLine<'_>, how: Stream, notes: &mut Vec<Note>) -> Result<ControlFlow<()>, Failure> {
    let text = if how == Stream::Lines { line.in_words() } else { line.document().to_string() };
    let shown = output::print_on(&format!("{text}\n"))?;
    if shown.is_break() {
        notes.push(Note::new("reader_gone", words::reader_gone()));
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use vtare_methods::avb::Spent;

    use super::*;

    fn timed(value: Option<f64>, stopped: Stopped) -> TimedEstimate {
        let mut estimate = Estimate::none(&Spent::default(), stopped);
        estimate.avb_bit_per_s = value;
        estimate.interval_bit_per_s = value.map(|value| [0.9 * value, 1.1 * value]);
        estimate.long_run_bit_per_s = value.map(|value| [0.5 * value, 1.5 * value]);
        estimate.window_s = value.map(|_| [0.01, 0.02]);
        estimate.notes = vec!["once".to_owned()];
        (estimate.occupied_bit_per_s, estimate.capacity_bit_per_s) = (Some(20e6), value.map(|value| 2.0 * value));
        TimedEstimate { began: Timestamp::ZERO, estimate, extra_byte: 10 }
    }

    #[test]
    fn six_estimates_show_by_themselves_what_the_path_has_in_the_long_run() {
        let mut gathered = Gathered::default();
        (1..=6).for_each(|value| gathered.push(&timed(Some(f64::from(value) * 1e7), Stopped::Converged)));
        let mut cell = AvbCell::default();
        gathered.sum_up(&mut cell, None);
        assert_eq!((cell.long_run_bit_per_s, cell.interval_bit_per_s), (Some([1e7, 6e7]), Some([1e7, 6e7])));
        assert_eq!(cell.uninformative, 0);
    }

    #[test]
    fn equal_estimates_are_no_surer_together_than_the_method_by_itself() {
        let mut gathered = Gathered::default();
        (0..20).for_each(|_| gathered.push(&timed(Some(1e8), Stopped::Converged)));
        let mut cell = AvbCell::default();
        gathered.sum_up(&mut cell, None);
        assert_eq!(cell.interval_bit_per_s.map(|ends| ends.map(f64::round)), Some([9e7, 1.1e8]));
    }

    #[test]
    fn the_time_of_several_estimates_runs_from_the_first_to_the_end_of_the_last() {
        let mut gathered = Gathered::default();
        for second in [3, 8] {
            let mut one = timed(Some(1e8), Stopped::Converged);
            (one.began, one.estimate.elapsed_s) = (Timestamp::ZERO + Span::from_millis(1_000 * second), 0.5);
            gathered.push(&one);
        }
        let mut cell = AvbCell::default();
        gathered.sum_up(&mut cell, None);
        assert_eq!(cell.span_s, Some(5.5));
    }

    #[test]
    fn an_estimate_excludes_nothing_where_its_interval_is_as_wide_as_the_link() {
        let of = |interval, capacity| {
            let mut estimate = timed(Some(100e6), Stopped::Converged).estimate;
            (estimate.interval_bit_per_s, estimate.capacity_bit_per_s) = (Some(interval), capacity);
            uninformative(&estimate, Some(500e6))
        };
        assert!(of([0.0, 666e6], Some(500e6)) && of([0.0, 150e6], Some(150e6)));
        assert!(of([40e6, 600e6], Some(700e6)), "wider than the link that all estimates found");
        assert!(!of([10e6, 490e6], Some(500e6)) && !of([0.0, 150e6], None) && !of([0.0, 0.0], None));
        let mut alone = timed(Some(100e6), Stopped::Converged).estimate;
        (alone.interval_bit_per_s, alone.capacity_bit_per_s) = (Some([0.0, 150e6]), None);
        assert!(uninformative(&alone, None));
        alone.interval_bit_per_s = Some([10e6, 150e6]);
        assert!(!uninformative(&alone, None));
    }

    #[test]
    fn several_estimates_give_medians_and_those_without_answer_are_counted() {
        let mut gathered = Gathered::default();
        for (value, stopped) in [
            (Some(100e6), Stopped::Converged),
            (None, Stopped::Lossy),
            (Some(120e6), Stopped::Converged),
            (Some(110e6), Stopped::ByteBudget),
        ] {
            gathered.push(&timed(value, stopped));
        }
        let mut cell = AvbCell::default();
        gathered.sum_up(&mut cell, None);
        assert_eq!((cell.avb_bit_per_s, cell.estimates, cell.unanswered), (Some(110e6), 4, 1));
        assert_eq!(cell.interval_bit_per_s.map(|[low, high]| (low.round(), high.round())), Some((99e6, 121e6)));
        assert_eq!((cell.stopped, cell.extra_byte), (Some(Stopped::Converged), Some(40)));
        // Three windows of 10 ms; three answers do not show how the path varies.
        assert_eq!(cell.window_s.map(|s| (s * 1e3).round()), Some(30.0));
        assert_eq!(cell.long_run_bit_per_s.map(|[low, high]| (low.round(), high.round())), Some((55e6, 165e6)));
        assert_eq!((cell.receiver_drops, cell.at_least), (None, false));
        // 20 Mbit/s of 200, 220 and 240.
        assert_eq!(cell.occupied_share.map(|share| (share * 1e4).round()), Some(909.0));
        assert_eq!(gathered.notes("abacus"), [Note::new("method", "abacus: once.")]);
    }

    #[test]
    fn an_estimate_is_shown_to_people_in_a_line() {
        let shown = |timed: &TimedEstimate| {
            let now = Timestamp::ZERO + Span::from_millis(2_040);
            StreamLine::new(&AvbCell::default(), &Gathered::default(), timed, Timestamp::ZERO, now).in_words()
        };
        let line = "    2.0 s  100 Mbit/s  (90.0 Mbit/s to 110 Mbit/s)  mean of 10.0 ms";
        assert_eq!(shown(&timed(Some(100e6), Stopped::Running)), line);
        let mut wide = timed(Some(100e6), Stopped::Running);
        wide.estimate.interval_bit_per_s = Some([0.0, 200e6]);
        assert!(shown(&wide).ends_with("  (as wide as the link)"));
        let mut bound = timed(Some(100e6), Stopped::SenderLimited);
        (bound.estimate.at_least, bound.estimate.interval_bit_per_s) = (true, None);
        bound.estimate.window_s = None;
        assert_eq!(shown(&bound), "    2.0 s  at least 100 Mbit/s");
        assert_eq!(shown(&timed(None, Stopped::TimeBudget)), "    2.0 s  no answer: time budget");
    }

    #[test]
    fn no_estimate_gives_no_figure() {
        let mut cell = AvbCell::default();
        Gathered::default().sum_up(&mut cell, None);
        assert_eq!((cell.avb_bit_per_s, cell.interval_bit_per_s, cell.stopped), (None, None, None));
        assert_eq!(cell.occupied_share, None);
        assert!(!cell.at_least);
    }
}
