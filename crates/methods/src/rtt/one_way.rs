//! One-way delay, as an interval.
//!
//! A packet leaves at `t1`, arrives at the far end at `t2` of its clock, the reply leaves there at `t3` and is here at
//! `t4`. With the offset `o(t)` of the far clock from this one,
//!
//! ```text
//! there = t2 - t1 - o    back = t4 - t3 + o    both are at least 0, hence    t3 - t4 <= o <= t2 - t1          (1)
//! ```
//!
//! Each round trip bounds the offset, and the bounds of one hold for its neighbours, widened by how far two clocks can
//! move apart in the time between. Where both clocks are held at UTC, the errors that they state bound it too, unless
//! one round trip contradicts them: then one of the clocks is wrong, and they are used for none. So each delay has a
//! lower and an upper bound, and a quantile of the delays lies between that of the lower and that of the upper bounds.
//! Where the bounds of neighbours contradict each other, a clock was set between them: the round trips before and those
//! after it bound only each other. No assumption is made that the two ways are alike: without clocks held at UTC the
//! interval of the shortest delay is as wide as the shortest round trip.
//= RFC 5905, 11.2.1 has (1) as "correctness interval"; RFC 7679 for one-way delay

use std::collections::VecDeque;

use vtare_units::figures::Figures;
use vtare_units::{Monotonic, Timestamp};

use super::UtcHere;
use super::record::Record;
use super::series::Series;

/// How fast two clocks may move apart, ns a second: each crystal is within 100 ppm of its frequency, and a daemon that
/// corrects a clock faster than that is correcting an error which it states.
const DRIFT_NS_PER_S: i64 = 200_000;

/// How fast this host's clock may move away from what was read of UTC, ns a second: its crystal's part of that.
const DRIFT_HERE_NS_PER_S: i64 = DRIFT_NS_PER_S / 2;

/// Round trips that bound each other's offset: enough to contain undisturbed ones at any rate, few enough that memory
/// is no matter.
const BLOCK: usize = 4_096;

/// Bounds of one-way delays.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct OneWay {
    /// Of the way there: the figures of the lower bounds, ns.
    pub there_low_ns: Figures,
    /// Of the way there: the figures of the upper bounds, ns.
    pub there_high_ns: Figures,
    /// Of the way back: the figures of the lower bounds, ns.
    pub back_low_ns: Figures,
    /// Of the way back: the figures of the upper bounds, ns.
    pub back_high_ns: Figures,
    /// Round trips that, with their neighbours, contradict the two clocks' statements of UTC: at least one of them is
    /// wrong. They bound nothing then, those of other round trips neither.
    pub contradicted: u64,
    /// How often neighbouring round trips contradict each other: one of the clocks was set there, or they moved apart
    /// faster than 200 ppm.
    pub clock_steps: u64,
    /// Whether the errors of both clocks against UTC were used. Both must be known from the first round trip on.
    pub from_utc: bool,
}

#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    /// This host's time, ns.
    at_ns: i64,
    /// `t2 - t1` and `t3 - t4`.
    most: i64,
    least: i64,
    /// The offset's bounds.
    low: i64,
    high: i64,
}

impl RoundTrip {
    /// This one with the bounds that a neighbour sets; `None` where they contradict its own.
    fn bounded_by(self, other: Self) -> Option<Self> {
        let apart = drifted(self.at_ns.abs_diff(other.at_ns), DRIFT_NS_PER_S);
        self.narrowed(other.low.saturating_sub(apart), other.high.saturating_add(apart))
    }

    /// This one where the offset lies between these, too; `None` where that contradicts its own bounds.
    fn narrowed(self, low: i64, high: i64) -> Option<Self> {
        let (low, high) = (self.low.max(low), self.high.min(high));
        (low <= high).then_some(Self { low, high, ..self })
    }
}

/// How far a clock may move in this time, ns.
fn drifted(apart_ns: u64, ns_per_s: i64) -> i64 {
    let drift = i128::from(apart_ns) * i128::from(ns_per_s) / 1_000_000_000 + 1;
    i64::try_from(drift).unwrap_or(i64::MAX)
}

/// Bounds of delays, by one kind of bounds of the offset.
#[derive(Clone, Debug)]
struct Bounds {
    /// Round trips that agree, each bounded by those before it.
    block: Vec<RoundTrip>,
    there: [Series; 2],
    back: [Series; 2],
    clock_steps: u64,
}

impl Bounds {
    fn new(exact_samples: usize) -> Self {
        let pair = || [Series::new(exact_samples), Series::new(exact_samples)];
        Self { block: Vec::new(), there: pair(), back: pair(), clock_steps: 0 }
    }

    /// Takes a round trip, and gives it as those before it bound it.
    fn add(&mut self, own: RoundTrip) -> RoundTrip {
        let holds = own.low <= own.high;
        let bounded = match self.block.last() {
            Some(before) => own.bounded_by(*before),
            None => holds.then_some(own),
        };
        if bounded.is_none() {
            self.clock_steps += 1;
            self.close_block();
        }
        let bounded = bounded.unwrap_or(own);
        // A clock that was set while the packet was on its way leaves no offset that holds for both ends of it.
        if holds {
            self.block.push(bounded);
        }
        if self.block.len() == BLOCK {
            self.close_block();
        }
        bounded
    }

    /// Has each round trip of a block bounded by those after it, too.
    fn close_block(&mut self) {
        for at in (1..self.block.len()).rev() {
            if let Some(bounded) = self.block[at - 1].bounded_by(self.block[at]) {
                self.block[at - 1] = bounded;
            }
        }
        for trip in self.block.drain(..) {
            let [there_low, there_high] = &mut self.there;
            there_low.add(trip.most - trip.high);
            there_high.add(trip.most - trip.low);
            let [back_low, back_high] = &mut self.back;
            back_low.add(trip.low - trip.least);
            back_high.add(trip.high - trip.least);
        }
    }
}

/// Gathers round trips.
#[derive(Clone, Debug)]
pub(super) struct OneWayDelays {
    exact_samples: usize,
    /// This host's clock against UTC as it was read, in the order of time.
    utc: VecDeque<(i64, Option<UtcHere>)>,
    by_trips: Bounds,
    /// The same with what both clocks state of UTC; `None` where that is not known, or contradicted.
    by_utc: Option<Bounds>,
    first: bool,
    contradicted: u64,
}

impl OneWayDelays {
    pub(super) fn new(exact_samples: usize) -> Self {
        let by_trips = Bounds::new(exact_samples);
        Self { exact_samples, utc: VecDeque::new(), by_trips, by_utc: None, first: true, contradicted: 0 }
    }

    /// This host's clock against UTC at a time that is later than those before.
    pub(super) fn against_utc(&mut self, at: Timestamp<Monotonic>, here: Option<UtcHere>) {
        self.utc.push_back((at.as_nanos().cast_signed(), here));
    }

    /// Bounds of UTC minus this host's clock: by the nearer of the readings around; `None` unless each states them.
    fn utc_at(&mut self, at_ns: i64) -> Option<(i64, i64)> {
        while self.utc.get(1).is_some_and(|(next_ns, _)| *next_ns <= at_ns) {
            self.utc.pop_front();
        }
        let mut nearest: Option<(i64, i64)> = None;
        for (read_ns, here) in self.utc.iter().take(2) {
            let UtcHere { ahead_ns, error_ns } = (*here)?;
            let drift = drifted(read_ns.abs_diff(at_ns), DRIFT_HERE_NS_PER_S);
            let error = i64::try_from(error_ns).unwrap_or(i64::MAX).saturating_add(drift);
            nearest = nearest.filter(|(_, nearer)| *nearer <= error).or(Some((ahead_ns, error)));
        }
        nearest
    }

    /// Takes the records of received packets in the order of their numbers.
    pub(super) fn add(&mut self, record: &Record) {
        let far = &record.far_end;
        let (Some(t2), Some(t3)) = (far.received, far.replied) else { return };
        let (Some(t1), Some(t4)) = (record.kernel_tx.or(record.sent), record.kernel_rx.or(record.arrived)) else {
            return;
        };
        let [t1, t2, t3, t4] = [t1.as_nanos(), t2.as_nanos(), t3.as_nanos(), t4.as_nanos()].map(|ns| ns.cast_signed());
        let (least, most) = (t3.wrapping_sub(t4), t2.wrapping_sub(t1));
        let own = RoundTrip { at_ns: t1, most, least, low: least, high: most };
        let bounded = self.by_trips.add(own);
        let narrowed = self.utc_at(t1).zip(far.utc_error).map(|((ahead_ns, error_ns), there)| {
            let error_ns = error_ns.saturating_add(i64::try_from(there.as_nanos_unsigned()).unwrap_or(i64::MAX));
            bounded.narrowed(ahead_ns.saturating_sub(error_ns), ahead_ns.saturating_add(error_ns))
        });
        if std::mem::take(&mut self.first) && narrowed.is_some() {
            self.by_utc = Some(Bounds::new(self.exact_samples));
        }
        let holds = match (narrowed, &mut self.by_utc) {
            (Some(None), _) => false,
            (narrowed, Some(by_utc)) => {
                by_utc.add(narrowed.flatten().unwrap_or(own));
                by_utc.clock_steps <= self.by_trips.clock_steps
            }
            (_, None) => true,
        };
        if !holds {
            self.contradicted += 1;
            self.by_utc = None;
        }
    }

    /// The bounds; `None` where no far end stated its times.
    pub(super) fn figures(&mut self) -> Option<OneWay> {
        self.by_trips.close_block();
        let clock_steps = self.by_trips.clock_steps;
        let from_utc = self.by_utc.is_some();
        let bounds = self.by_utc.as_mut().unwrap_or(&mut self.by_trips);
        bounds.close_block();
        let [[there_low_ns, there_high_ns], [back_low_ns, back_high_ns]] =
            [&bounds.there, &bounds.back].map(|pair| [pair[0].figures(), pair[1].figures()]);
        let contradicted = self.contradicted;
        (there_low_ns.n > 0).then_some(OneWay {
            there_low_ns,
            there_high_ns,
            back_low_ns,
            back_high_ns,
            contradicted,
            clock_steps,
            from_utc,
        })
    }
}
