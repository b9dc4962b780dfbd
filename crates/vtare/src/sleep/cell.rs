//! The figures of one method and length.

use serde::Serialize;
use vtare_clock::sleep::Method;
use vtare_units::Span;
use vtare_units::figures::Figures;

use super::worker::{Batch, Reading, Refused};

/// How one method sleeps one length.
#[derive(Clone, Debug, Default, Serialize)]
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
}

/// One cell while it is measured.
pub(super) struct Measured {
    pub(super) method: Method,
    pub(super) target_ns: u64,
    pub(super) readings: Vec<Reading>,
    pub(super) cpu: Span,
    pub(super) wall: Span,
    pub(super) refused: Refused,
}

impl Measured {
    /// No sleep yet.
    pub(super) fn new(method: Method, target_ns: u64) -> Self {
        Self { method, target_ns, readings: Vec::new(), cpu: Span::ZERO, wall: Span::ZERO, refused: Refused::default() }
    }

    /// Adds the sleeps of one turn.
    pub(super) fn take(&mut self, turn: Batch) {
        self.readings.extend(turn.readings);
        self.cpu += turn.cpu;
        self.wall += turn.wall;
        self.refused = turn.refused;
    }

    /// The figures.
    pub(super) fn cell(&self) -> SleepCell {
        let n = self.readings.len();
        let spin: i128 = self.readings.iter().map(|reading| i128::from(reading.spin_ns)).sum();
        let wall = self.wall.as_nanos();
        SleepCell {
            method: Some(self.method),
            target_ns: self.target_ns,
            miss_ns: self.readings.iter().map(|reading| reading.miss_ns).collect(),
            spin_ns_mean: (n > 0).then(|| spin as f64 / n as f64),
            cpu_fraction: (n > 0 && wall > 0).then(|| self.cpu.as_nanos() as f64 / wall as f64),
            disturbed: self.readings.iter().filter(|reading| reading.disturbed).count() as u64,
        }
    }
}
