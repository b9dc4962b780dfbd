//! The figures of one method and length.

use serde::Serialize;
use vtare_clock::sleep::Method;
use vtare_clock::sleep::adaptive::LATE;
use vtare_units::Span;
use vtare_units::figures::Figures;

use crate::standstill::Outage;

use super::worker::{Batch, Reading, Refused};

/// From this share of sleeps on that were late or not made, other threads are taken for the cause.
const CROWDED: f64 = 0.1;

/// How one method sleeps one length.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct SleepCell {
    /// How it slept.
    pub(crate) method: Option<Method>,
    /// For how long it was asked to, in ns.
    pub(crate) target_ns: u64,
    /// Actual minus target wake-up, in ns; negative is early.
    pub(crate) miss_ns: Figures,
    /// The mean time spent spinning in a sleep, in ns.
    pub(crate) spin_ns_mean: Option<f64>,
    /// CPU time of the thread in a second of sleeping.
    pub(crate) cpu_fraction: Option<f64>,
    /// Sleeps that a gap of the machine hit.
    pub(crate) disturbed: u64,
    /// Sleeps that were made, and those that the lateness of others left no time for.
    pub(crate) asked: u64,
    /// The median miss over all sleeps asked for, in ns; none where half of them were not made.
    pub(crate) asked_median_ns: Option<f64>,
    /// Of all sleeps asked for, the share that ended more than 100 us late or was not made.
    pub(crate) exceed_fraction: Option<f64>,
    /// Time spent after the targets, as a share of the time of all sleeps.
    pub(crate) late_fraction: Option<f64>,
    /// Times in which this process was stopped or its machine stalled. No other figure includes them.
    pub(crate) outages: Vec<Outage>,
}

impl SleepCell {
    /// Whether other threads had the CPUs: sleeps were not made, or a method that ends in a spin was late, which the
    /// kernel's own sleeps may be on a quiet machine too.
    pub(super) fn is_crowded(&self) -> bool {
        let spins = !matches!(self.method, Some(Method::Usleep | Method::ClockNanosleep));
        let late = self.exceed_fraction.is_some_and(|late| late >= CROWDED);
        self.asked > 0 && (self.made_fraction() <= 1.0 - CROWDED || spins && late)
    }

    /// Of all sleeps asked for, the share that was made.
    pub(super) fn made_fraction(&self) -> f64 {
        self.miss_ns.n as f64 / self.asked.max(1) as f64
    }
}

/// One cell while it is measured.
pub(super) struct Measured {
    pub(super) method: Method,
    pub(super) target_ns: u64,
    pub(super) readings: Vec<Reading>,
    /// Those of all turns.
    pub(super) outages: Vec<Outage>,
    /// Sleeps for which lateness left no time.
    pub(super) displaced: u64,
    pub(super) cpu: Span,
    pub(super) wall: Span,
    pub(super) refused: Refused,
}

impl Measured {
    /// No sleep yet.
    pub(super) fn new(method: Method, target_ns: u64) -> Self {
        Self {
            method,
            target_ns,
            readings: Vec::new(),
            outages: Vec::new(),
            displaced: 0,
            cpu: Span::ZERO,
            wall: Span::ZERO,
            refused: Refused::default(),
        }
    }

    /// Adds the sleeps of one turn, of `sleeps` that were to be made where time allows.
    pub(super) fn take(&mut self, turn: Batch, sleeps: u64) {
        let mut misses: Vec<u64> = turn.readings.iter().map(|reading| reading.miss_ns.max(0).cast_unsigned()).collect();
        misses.sort_unstable();
        // What a sleep takes longer than usual leaves no time for others; what all take longer does not.
        let usual = misses.get(misses.len() / 2).copied().unwrap_or(0);
        let excess: u64 = misses.iter().map(|miss| miss.saturating_sub(usual)).sum();
        let unmade = sleeps.saturating_sub(misses.len() as u64);
        self.displaced += unmade.min(excess / (self.target_ns + usual).max(1));
        self.readings.extend(turn.readings);
        self.outages.extend(turn.outages);
        self.cpu += turn.cpu;
        self.wall += turn.wall;
        self.refused = turn.refused;
    }

    /// The figures.
    pub(super) fn cell(&self) -> SleepCell {
        let n = self.readings.len();
        let spin: i128 = self.readings.iter().map(|reading| i128::from(reading.spin_ns)).sum();
        let wall = self.wall.as_nanos();
        let asked = n as u64 + self.displaced;
        let mut misses: Vec<i64> = self.readings.iter().map(|reading| reading.miss_ns).collect();
        misses.sort_unstable();
        let late: i64 = misses.iter().map(|miss| *miss.max(&0)).sum();
        let in_time = misses.partition_point(|miss| *miss <= LATE.as_nanos()) as u64;
        // What was not made comes after all that was: the type 7 median, where both of its sleeps were made.
        let at = |rank: u64| misses.get(rank as usize).map(|miss| *miss as f64);
        let middle = |low: u64, high: u64| Some(f64::midpoint(at(low)?, at(high)?));
        SleepCell {
            method: Some(self.method),
            target_ns: self.target_ns,
            asked,
            asked_median_ns: middle(asked.saturating_sub(1) / 2, asked / 2),
            late_fraction: (n > 0).then(|| late as f64 / (late as f64 + n as f64 * self.target_ns as f64)),
            exceed_fraction: (asked > 0).then(|| (asked - in_time) as f64 / asked as f64),
            miss_ns: misses.into_iter().collect(),
            spin_ns_mean: (n > 0).then(|| spin as f64 / n as f64),
            cpu_fraction: (n > 0 && wall > 0).then(|| self.cpu.as_nanos() as f64 / wall as f64),
            disturbed: self.readings.iter().filter(|reading| reading.disturbed).count() as u64,
            outages: self.outages.clone(),
        }
    }
}
