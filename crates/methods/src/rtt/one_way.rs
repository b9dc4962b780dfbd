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
//! move apart in the time between. Where both clocks are held at UTC, the errors that they state bound it too. So each
//! delay has a lower and an upper bound, and a quantile of the delays lies between that of the lower and that of the
//! upper bounds. Where the bounds of neighbours contradict each other, a clock was set between them: the round trips
//! before and those after it bound only each other. No assumption is made that the two ways are alike: without clocks
//! held at UTC the interval of the shortest delay is as wide as the shortest round trip.
//= RFC 5905, 11.2.1 has (1) as "correctness interval"; RFC 7679 for one-way delay

use vtare_units::figures::Figures;

use super::UtcHere;
use super::record::Record;
use super::series::Series;

/// How fast two clocks may move apart, ns a second: each crystal is within 100 ppm of its frequency, and a daemon that
/// corrects a clock faster than that is correcting an error which it states.
const DRIFT_NS_PER_S: i64 = 200_000;

/// Round trips that bound each other's offset: enough to contain undisturbed ones at any rate, few enough that memory
/// is no matter.
const BLOCK: usize = 4_096;

/// Bounds of one-way delays.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct OneWay {
    /// Of the way there: the figures of the lower bounds, ns.
    pub there_low_ns: Figures,
    /// Of the way there: the figures of the upper bounds, ns.
    pub there_high_ns: Figures,
    /// Of the way back: the figures of the lower bounds, ns.
    pub back_low_ns: Figures,
    /// Of the way back: the figures of the upper bounds, ns.
    pub back_high_ns: Figures,
    /// Round trips in which the two clocks' statements of UTC contradict (1): at least one of them is wrong.
    pub contradicted: u64,
    /// How often neighbouring round trips contradict each other: one of the clocks was set there, or they moved apart
    /// faster than 200 ppm.
    pub clock_steps: u64,
    /// Whether the errors of both clocks against UTC were used.
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
        let apart = i128::from(self.at_ns.abs_diff(other.at_ns)) * i128::from(DRIFT_NS_PER_S) / 1_000_000_000 + 1;
        let apart = i64::try_from(apart).unwrap_or(i64::MAX);
        let low = self.low.max(other.low.saturating_sub(apart));
        let high = self.high.min(other.high.saturating_add(apart));
        (low <= high).then_some(Self { low, high, ..self })
    }
}

/// Gathers round trips.
#[derive(Clone, Debug)]
pub(super) struct OneWayDelays {
    utc: Option<UtcHere>,
    /// Round trips that agree, each bounded by those before it.
    block: Vec<RoundTrip>,
    there: [Series; 2],
    back: [Series; 2],
    contradicted: u64,
    clock_steps: u64,
    from_utc: bool,
}

impl OneWayDelays {
    pub(super) fn new(exact_samples: usize, utc: Option<UtcHere>) -> Self {
        let pair = || [Series::new(exact_samples), Series::new(exact_samples)];
        Self { utc, block: Vec::new(), there: pair(), back: pair(), contradicted: 0, clock_steps: 0, from_utc: false }
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
        let (mut low, mut high) = (least, most);
        if let (Some(here), Some(there)) = (self.utc, far.utc_error) {
            let error = here.error_ns.saturating_add(there.as_nanos_unsigned());
            let error = i64::try_from(error).unwrap_or(i64::MAX);
            let (narrow_low, narrow_high) =
                (low.max(here.ahead_ns.saturating_sub(error)), high.min(here.ahead_ns.saturating_add(error)));
            if narrow_low <= narrow_high {
                (low, high) = (narrow_low, narrow_high);
                self.from_utc = true;
            } else {
                self.contradicted += 1;
            }
        }
        let own = RoundTrip { at_ns: t1, most, least, low, high };
        let bounded = match self.block.last() {
            Some(before) => own.bounded_by(*before),
            None => (low <= high).then_some(own),
        };
        if bounded.is_none() {
            self.clock_steps += 1;
            self.close_block();
        }
        // A clock that was set while the packet was on its way leaves no offset that holds for both ends of it.
        if low <= high {
            self.block.push(bounded.unwrap_or(own));
        }
        if self.block.len() == BLOCK {
            self.close_block();
        }
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

    /// The bounds; `None` where no far end stated its times.
    pub(super) fn figures(&mut self) -> Option<OneWay> {
        self.close_block();
        let [[there_low_ns, there_high_ns], [back_low_ns, back_high_ns]] =
            [&self.there, &self.back].map(|pair| [pair[0].figures(), pair[1].figures()]);
        let (contradicted, clock_steps, from_utc) = (self.contradicted, self.clock_steps, self.from_utc);
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
