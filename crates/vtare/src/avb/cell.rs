//! The figures of a run, and its samples: one row an estimate.

use std::ops::ControlFlow;

use serde::Serialize;
use vtare_methods::avb::{Estimate, Layer, Stopped};
use vtare_packet::link::Facts;
use vtare_packet::session::Counters;
use vtare_units::{Monotonic, Span, Timestamp};

use super::parameters::Stream;
use super::run::Made;
use super::{megabits, words};
use crate::failure::Failure;
use crate::instrument::{self, Note};
use crate::samples::{Cell, Column, Samples, SamplesError};
use crate::summary::Summary;

/// The columns of the samples, in the order in which [`row`] fills them.
pub(super) const COLUMNS: &[Column] = &[
    Column::string("peer", "the far end, as it was given"),
    Column::string("method", "how it was estimated, NAME or NAME:PRESET"),
    Column::string("direction", "forward: from here to the far end; reverse: from there to here"),
    Column::int64("estimate", "number of the estimate, from 0"),
    Column::int64("began_ns", "when the measurement of this estimate began, CLOCK_MONOTONIC of the sender's host"),
    Column::optional_int64(
        "window_from_ns",
        "begin of the time that the value is the mean of, same clock; null where the method cannot say",
    ),
    Column::optional_int64("window_to_ns", "end of that time"),
    Column::int64("elapsed_ns", "from its first step to the answer"),
    Column::optional_int64(
        "avb_bit_per_s",
        "available bandwidth, IP packets with headers; null where there is no answer",
    ),
    Column::optional_int64("low_bit_per_s", "lower end of its interval; null where the method gives none"),
    Column::optional_int64("high_bit_per_s", "upper end of its interval"),
    Column::optional_int64(
        "capacity_bit_per_s",
        "capacity of the link that forms the queue; null where it was not seen",
    ),
    Column::optional_int64("token_bucket_byte", "depth of a token bucket on the way, where one was seen"),
    Column::optional_int64("queued_ns", "the most that the probes themselves made the queue wait"),
    Column::optional_int64("occupied_bit_per_s", "probe bytes over the time taken"),
    Column::int64("probe_byte", "bytes of probe packets, IP"),
    Column::int64("extra_byte", "bytes sent besides: soundings of the path, and credit for trains back"),
    Column::int64("packets", "probe packets"),
    Column::int64("trains", "trains of packets"),
    Column::boolean("at_least", "the value is a lower bound: the sender could not send faster"),
    Column::string("stopped", "why the measurement ended"),
];

fn rate(value: Option<f64>) -> Option<i64> {
    value.filter(|value| value.is_finite()).map(|value| value.round() as i64)
}

fn word(stopped: Stopped) -> String {
    serde_json::to_value(stopped).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Writes an estimate down.
///
/// # Errors
/// Where the samples cannot be written.
pub(super) fn row(samples: &mut Samples, cell: &AvbCell, number: u64, made: &Made) -> Result<(), SamplesError> {
    let Made { began, estimate, extra_byte } = made;
    let optional = |value: Option<i64>| value.map_or(Cell::Missing, Cell::Integer);
    let at = |seconds: f64| began.as_nanos().cast_signed() + (seconds * 1e9).round() as i64;
    let count = |value: u64| Cell::Integer(value.min(i64::MAX as u64).cast_signed());
    let interval = |index: usize| optional(rate(estimate.interval_bit_per_s.map(|interval| interval[index])));
    let stopped = word(estimate.stopped);
    samples.row(&[
        Cell::Text(&cell.peer),
        Cell::Text(&cell.method),
        Cell::Text(cell.direction),
        count(number),
        count(began.as_nanos()),
        optional(estimate.window_s.map(|window| at(window[0]))),
        optional(estimate.window_s.map(|window| at(window[1]))),
        Cell::Integer((estimate.elapsed_s * 1e9).round() as i64),
        optional(rate(estimate.avb_bit_per_s)),
        interval(0),
        interval(1),
        optional(rate(estimate.capacity_bit_per_s)),
        optional(rate(estimate.token_bucket_byte)),
        optional(rate(estimate.queued_ns)),
        optional(rate(estimate.occupied_bit_per_s)),
        count(estimate.probe_byte),
        count(*extra_byte),
        count(estimate.packets),
        Cell::Integer(estimate.trains.into()),
        Cell::Truth(estimate.at_least),
        Cell::Text(&stopped),
    ])
}

/// What came of a run. Rates are of IP packets, headers included, bit/s.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Its interval; of several estimates the medians of the ends.
    pub(crate) interval_bit_per_s: Option<[f64; 2]>,
    /// Capacity of the link that forms the queue, likewise.
    pub(crate) capacity_bit_per_s: Option<f64>,
    /// The value is a lower bound, in at least half of the estimates.
    pub(crate) at_least: bool,
    /// Depth of a token bucket on the way, where one was seen.
    pub(crate) token_bucket_byte: Option<f64>,
    /// The most that the probes made the queue wait, ns.
    pub(crate) queued_ns: Option<f64>,
    /// Probe bytes over the time taken, bit/s.
    pub(crate) occupied_bit_per_s: Option<f64>,
    /// The same as a share of the capacity that was found, 0 to 1: median of the estimates that found one.
    pub(crate) occupied_share: Option<f64>,
    /// Bytes of probe packets, all estimates.
    pub(crate) probe_byte: u64,
    /// Bytes sent besides: soundings, and credit for trains back.
    pub(crate) extra_byte: u64,
    /// Time of the measurements, s, without the silence between.
    pub(crate) elapsed_s: f64,
    /// Why it stopped; of several estimates the most frequent reason.
    pub(crate) stopped: Option<Stopped>,
    /// What the rates count.
    pub(crate) layer: Layer,
    /// Estimates made.
    pub(crate) estimates: u64,
    /// Estimates without an answer.
    pub(crate) unanswered: u64,
    /// The answers.
    pub(crate) estimate_bit_per_s: Summary,
    /// Probe bytes of an estimate.
    pub(crate) estimate_byte: Summary,
    /// Time of an estimate, ns.
    pub(crate) estimate_ns: Summary,
    /// Bytes of the largest probe packet, IP.
    pub(crate) packet_byte: u32,
    /// What a single send costs the sender, ns; null where the kernel sends.
    pub(crate) send_cost_ns: Option<f64>,
    /// Packets of one call at most; null where the kernel sends.
    pub(crate) group_packet: Option<u32>,
    /// The congestion control that the connections of `tcp` really had; null for all other methods.
    pub(crate) congestion: Option<String>,
    /// Datagrams that found the receiver's buffer full during the run; null where it does not tell.
    pub(crate) receiver_drops: Option<u64>,
    /// What the link got and did not get.
    pub(crate) link: Option<Facts>,
}

/// The estimates of a run as they come.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    made: Vec<Made>,
}

impl Gathered {
    pub(super) fn push(&mut self, made: &Made) {
        self.made.push(made.clone());
    }

    pub(super) const fn len(&self) -> u64 {
        self.made.len() as u64
    }

    /// Fills in what the estimates say together.
    pub(super) fn sum_up(&self, cell: &mut AvbCell, counters: Option<&Counters>) {
        let all = || self.made.iter().map(|made| &made.estimate);
        let middle = |values: Vec<f64>| median(values);
        let of = |get: &dyn Fn(&Estimate) -> Option<f64>| middle(all().filter_map(get).collect());
        cell.avb_bit_per_s = of(&|it| it.avb_bit_per_s);
        let low = of(&|it| Some(it.interval_bit_per_s?[0]));
        let high = of(&|it| Some(it.interval_bit_per_s?[1]));
        cell.interval_bit_per_s = low.zip(high).map(|(low, high)| [low, high]);
        cell.capacity_bit_per_s = of(&|it| it.capacity_bit_per_s);
        cell.token_bucket_byte = of(&|it| it.token_bucket_byte);
        cell.queued_ns = of(&|it| it.queued_ns);
        cell.occupied_bit_per_s = of(&|it| it.occupied_bit_per_s);
        cell.occupied_share = of(&occupied_share);
        cell.estimates = self.len();
        cell.unanswered = all().filter(|it| it.avb_bit_per_s.is_none()).count() as u64;
        cell.at_least = 2 * all().filter(|it| it.at_least).count() >= self.made.len().max(1);
        cell.elapsed_s = all().map(|it| it.elapsed_s).sum();
        cell.probe_byte = all().map(|it| it.probe_byte).sum();
        cell.extra_byte = self.made.iter().map(|made| made.extra_byte).sum();
        cell.layer = all().next().map(|it| it.layer).unwrap_or_default();
        // Those with an answer come first: of equals the first is taken.
        let (answered, others): (Vec<_>, Vec<_>) = all().partition(|it| it.avb_bit_per_s.is_some());
        cell.stopped = most_frequent(answered.into_iter().chain(others).map(|it| it.stopped));
        cell.estimate_bit_per_s = Summary::of(all().filter_map(|it| rate(it.avb_bit_per_s)), 1.0);
        cell.estimate_byte = Summary::of(all().map(|it| it.probe_byte.cast_signed()), 1.0);
        cell.estimate_ns = Summary::of(all().map(|it| (it.elapsed_s * 1e9) as i64), 1.0);
        cell.receiver_drops = counters.and_then(|counters| counters.socket_drops);
    }

    /// What the methods themselves remarked, each once.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for note in self.made.iter().flat_map(|made| &made.estimate.notes) {
            if !remarks.contains(note) {
                remarks.push(note.clone());
            }
        }
        remarks
    }
}

/// The share of the link that probes took: of the capacity that the same estimate found.
fn occupied_share(estimate: &Estimate) -> Option<f64> {
    let capacity = estimate.capacity_bit_per_s.filter(|capacity| *capacity > 0.0)?;
    Some(estimate.occupied_bit_per_s? / capacity)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.get((values.len().max(1) - 1) / 2)?, values.get(values.len() / 2)?);
    Some(low.midpoint(*high))
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

/// One line of `--json-stream`.
#[derive(Debug, Serialize)]
pub(super) struct StreamLine<'a> {
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
}

impl<'a> StreamLine<'a> {
    pub(super) fn new(
        cell: &'a AvbCell,
        number: u64,
        made: &'a Made,
        started: Timestamp<Monotonic>,
        now: Timestamp<Monotonic>,
    ) -> Self {
        let at: Span = now - started;
        Self {
            schema: "vtare.avb.estimate/1",
            peer: &cell.peer,
            method: &cell.method,
            direction: cell.direction,
            estimate_number: number,
            at_s: at.as_secs_f64(),
            estimate: &made.estimate,
            extra_byte: made.extra_byte,
            occupied_share: occupied_share(&made.estimate),
        }
    }
}

impl StreamLine<'_> {
    /// The estimate for people: when it was there, what is free, and its interval.
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
        format!("{at}  {bound}{}{interval}", megabits(self.estimate.avb_bit_per_s))
    }
}

/// Shows a line of the stream. Breaks, with a note, where its reader went away.
///
/// # Errors
/// Where stdout cannot be written.
pub(super) fn show(line: &StreamLine<'_>, how: Stream, notes: &mut Vec<Note>) -> Result<ControlFlow<()>, Failure> {
    let text = if how == Stream::Lines { line.in_words() } else { instrument::to_json(line).to_string() };
    let shown = instrument::print_on(&format!("{text}\n"))?;
    if shown.is_break() {
        notes.push(Note::new("reader_gone", "whoever read the stream of estimates went away, which ended the run"));
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_methods::avb::Spent;

    fn made(value: Option<f64>, stopped: Stopped) -> Made {
        let mut estimate = Estimate::none(&Spent::default(), stopped);
        estimate.avb_bit_per_s = value;
        estimate.interval_bit_per_s = value.map(|value| [0.9 * value, 1.1 * value]);
        estimate.notes = vec!["once".to_owned()];
        (estimate.occupied_bit_per_s, estimate.capacity_bit_per_s) = (Some(20e6), value.map(|value| 2.0 * value));
        Made { began: Timestamp::ZERO, estimate, extra_byte: 10 }
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
            gathered.push(&made(value, stopped));
        }
        let mut cell = AvbCell::default();
        gathered.sum_up(&mut cell, None);
        assert_eq!((cell.avb_bit_per_s, cell.estimates, cell.unanswered), (Some(110e6), 4, 1));
        assert_eq!(cell.interval_bit_per_s.map(|[low, high]| (low.round(), high.round())), Some((99e6, 121e6)));
        assert_eq!((cell.stopped, cell.extra_byte), (Some(Stopped::Converged), 40));
        assert_eq!((cell.receiver_drops, cell.at_least), (None, false));
        // 20 Mbit/s of 200, 220 and 240.
        assert_eq!(cell.occupied_share.map(|share| (share * 1e4).round()), Some(909.0));
        assert_eq!(gathered.remarks(), ["once"]);
    }

    #[test]
    fn an_estimate_is_told_to_people_in_a_line() {
        let told = |made: &Made| {
            let now = Timestamp::ZERO + Span::from_millis(2_040);
            StreamLine::new(&AvbCell::default(), 0, made, Timestamp::ZERO, now).in_words()
        };
        assert_eq!(told(&made(Some(100e6), Stopped::Running)), "    2.0 s  100 Mbit/s  (90.0 Mbit/s to 110 Mbit/s)");
        let mut bound = made(Some(100e6), Stopped::SenderLimited);
        (bound.estimate.at_least, bound.estimate.interval_bit_per_s) = (true, None);
        assert_eq!(told(&bound), "    2.0 s  at least 100 Mbit/s");
        assert_eq!(told(&made(None, Stopped::TimeBudget)), "    2.0 s  no answer: time budget");
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
