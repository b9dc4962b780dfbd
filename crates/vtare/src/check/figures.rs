//! The figures that `check` draws conclusions from: those of the instruments' cells.

use schemars::JsonSchema;
use serde::Serialize;
use vtare_clock::ClockInfo;
use vtare_clock::sleep::Method;
use vtare_units::figures::Figures;

use crate::counter::CounterCell;
use crate::noise::{Causes, NoiseCell};
use crate::sleep::SleepCell;
use crate::timer::{Source, TimerCell};

use super::trust::Trust;

/// From this share of the time taken by other programs on, a machine is not idle.
const NOT_IDLE: f64 = 0.01;

/// Everything that was measured. A part that was not is empty or `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) clock: ClockFigures,
    pub(super) timer: Vec<TimerCell>,
    pub(super) sleep: Vec<SleepCell>,
    pub(super) counter: Vec<CounterCell>,
    pub(super) noise: Vec<NoiseCell>,
    pub(super) trust: Option<Trust>,
}

/// The `clock` object.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockFigures {
    pub(super) source: &'static str,
    pub(super) trusted: bool,
    pub(super) reasons: Vec<String>,
    pub(super) residual_ppm: Option<f64>,
    pub(super) read_cost_ns: Option<f64>,
    pub(super) quantum_ns: Option<f64>,
}

/// The cells of each instrument as they stand in the document.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Cells {
    /// As in `vtare.timer/1`; null where it was not measured.
    pub(super) timer: Option<Vec<TimerCell>>,
    /// As in `vtare.sleep/1`; null where it was not measured.
    pub(super) sleep: Option<Vec<SleepCell>>,
    /// As in `vtare.counter/1`; null where it was not measured.
    pub(super) counter: Option<Vec<CounterCell>>,
    /// As in `vtare.noise/1`; null where it was not measured.
    pub(super) noise: Option<Vec<NoiseCell>>,
}

impl Measured {
    /// The figures of the cells; a part that is null is a part without figures.
    pub(super) fn of(clock: &ClockInfo, cells: &Cells, trust: Option<Trust>) -> Self {
        Self {
            clock: ClockFigures {
                source: clock.source,
                trusted: clock.trusted,
                reasons: clock.reasons.clone(),
                residual_ppm: clock.residual_ppm,
                // NaN before it was measured.
                read_cost_ns: Some(clock.read_cost_ns).filter(|cost| cost.is_finite()),
                quantum_ns: clock.quantum_ns,
            },
            timer: cells.timer.clone().unwrap_or_default(),
            sleep: cells.sleep.iter().flatten().cloned().map(of_all_asked).collect(),
            counter: cells.counter.clone().unwrap_or_default(),
            noise: cells.noise.clone().unwrap_or_default(),
            trust,
        }
    }

    /// The read cost of `source`.
    pub(super) fn timer(&self, source: Source) -> Option<&Figures> {
        self.timer.iter().find(|cell| cell.source == Some(source)).map(|cell| &cell.read_cost_ns)
    }

    /// The sleep of `method` to `target_ns`.
    pub(super) fn sleep(&self, method: Method, target_ns: u64) -> Option<&SleepCell> {
        self.sleep.iter().find(|cell| cell.method == Some(method) && cell.target_ns == target_ns)
    }

    /// What one reading of vtare's clock costs, in ns: measured by the timer instrument, else by the clock at its
    /// start.
    pub(super) fn read_cost_ns(&self) -> Option<f64> {
        self.timer(Source::Vtare).and_then(|cost| cost.median).or(self.clock.read_cost_ns)
    }

    /// The mean over CPUs of the share of time lost.
    pub(super) fn lost_fraction(&self) -> Option<f64> {
        let shares: Vec<f64> = self.noise.iter().filter_map(|cell| cell.lost_fraction).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// The share of the time that other programs took from a busy loop, where that is worth naming.
    pub(super) fn busy(&self) -> Option<f64> {
        let others = self.cause_share(|causes| causes.other_threads_ns)?.min(1.0);
        Some(self.lost_fraction()? * others).filter(|share| *share >= NOT_IDLE)
    }

    /// The share of the time lost on all CPUs that `part` of the causes makes up; `None` where some CPU has no account.
    pub(super) fn cause_share(&self, part: impl Fn(&Causes) -> Option<i64>) -> Option<f64> {
        let lost: i64 = self.noise.iter().map(|cell| cell.causes.lost_ns).sum();
        let taken = self.noise.iter().map(|cell| part(&cell.causes)).sum::<Option<i64>>()?;
        (lost > 0).then(|| taken as f64 / lost as f64)
    }
}

/// A cell of sleeps with the median over all that were asked for, as `vtare sleep` judges them; no figure of those that
/// were made alone where half were not.
fn of_all_asked(mut cell: SleepCell) -> SleepCell {
    cell.miss_ns.half_iqr = cell.miss_ns.half_iqr.filter(|_| cell.asked_median_ns.is_some());
    cell.miss_ns.median = cell.asked_median_ns;
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_judged_by_all_that_were_asked_for_as_the_instrument_judges_them() {
        let judged = |asked_median_ns| {
            let miss_ns = Figures { median: Some(89.0), half_iqr: Some(5.0), ..Figures::default() };
            let cell = of_all_asked(SleepCell { miss_ns, asked_median_ns, ..SleepCell::default() });
            (cell.miss_ns.median, cell.miss_ns.half_iqr)
        };
        assert_eq!(judged(None), (None, None));
        assert_eq!(judged(Some(91.0)), (Some(91.0), Some(5.0)));
    }

    #[test]
    fn a_clock_whose_cost_was_not_measured_has_none() {
        let clock = crate::context::Context::without_signals().clock().info();
        let cost = |read_cost_ns| {
            let clock = ClockInfo { read_cost_ns, ..clock.clone() };
            Measured::of(&clock, &Cells::default(), None).read_cost_ns()
        };
        assert_eq!((cost(f64::NAN), cost(9.7)), (None, Some(9.7)));
    }

    #[test]
    fn figures_over_all_cpus_are_missing_where_some_cpu_has_none() {
        let median = |median| Figures { median: Some(median), ..Figures::default() };
        let noise = |lost_ns, steal_ns, lost_fraction| NoiseCell {
            lost_fraction: Some(lost_fraction),
            causes: Causes { lost_ns, steal_ns: Some(steal_ns), ..Causes::default() },
            ..NoiseCell::default()
        };
        let timer = TimerCell { source: Some(Source::Vtare), read_cost_ns: median(9.6), ..TimerCell::default() };
        let clock = ClockFigures { read_cost_ns: Some(9.7), ..ClockFigures::default() };
        let mut figures =
            Measured { clock, noise: vec![noise(100, 50, 0.01), noise(300, 0, 0.03)], ..Measured::default() };
        assert_eq!(figures.read_cost_ns(), Some(9.7));
        figures.timer.push(timer);
        assert_eq!(figures.read_cost_ns(), Some(9.6), "the timer instrument's word goes first");
        assert_eq!(figures.lost_fraction(), Some(0.02));
        assert_eq!(figures.cause_share(|causes| causes.steal_ns), Some(0.125));
        assert_eq!(figures.cause_share(|causes| causes.other_threads_ns), None, "no CPU has an account");
        assert_eq!(Measured::default().lost_fraction(), None);
    }
}
