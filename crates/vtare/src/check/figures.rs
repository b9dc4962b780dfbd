//! The figures that `check` draws conclusions from: those of the instruments' cells, by the names of
//! docs/internals/contract.md.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vtare_units::figures::Figures;

use crate::counter::Counter;
use crate::failure::Failure;
use crate::instrument::Instrument;
use crate::noise::Noise;
use crate::sleep::SleepCell;
use crate::timer::Timer;

use super::trust::Trust;

/// From this share of the time taken by other programs on, a machine is not idle.
const NOT_IDLE: f64 = 0.01;

/// Everything that was measured. A part that was not is empty or `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) clock: ClockFigures,
    pub(super) timer: Vec<TimerFigures>,
    pub(super) sleep: Vec<SleepFigures>,
    pub(super) counter: Vec<CounterFigures>,
    pub(super) noise: Vec<NoiseFigures>,
    pub(super) trust: Option<Trust>,
}

/// The `clock` object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClockFigures {
    pub(super) source: String,
    pub(super) trusted: bool,
    pub(super) reasons: Vec<String>,
    pub(super) residual_ppm: Option<f64>,
    pub(super) read_cost_ns: Option<f64>,
    pub(super) quantum_ns: Option<f64>,
}

/// What one way to read the time costs: the figure that `vtare timer` shows first.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TimerFigures {
    pub(super) source: String,
    pub(super) read_cost_ns: Figures,
    pub(super) cost_ns: Figures,
}

/// How late one way to sleep wakes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SleepFigures {
    pub(super) method: String,
    pub(super) target_ns: u64,
    pub(super) miss_ns: Figures,
    pub(super) cpu_fraction: Option<f64>,
}

/// How evenly a fixed piece of work runs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CounterFigures {
    pub(super) argument: u64,
    pub(super) runtime_ns: Figures,
    pub(super) cv: Option<f64>,
    pub(super) cv_within: Option<f64>,
    pub(super) cv_between: Option<f64>,
    pub(super) dominant_cause: Option<String>,
}

/// What one CPU lost.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct NoiseFigures {
    pub(super) cpu: usize,
    pub(super) gap_ns: Figures,
    pub(super) gaps: u64,
    pub(super) lost_fraction: Option<f64>,
    pub(super) gaps_per_s: Option<f64>,
    pub(super) causes: CauseFigures,
}

/// Who took it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CauseFigures {
    pub(super) lost_ns: i64,
    pub(super) steal_ns: Option<i64>,
    pub(super) quota_ns: Option<i64>,
    pub(super) other_threads_ns: Option<i64>,
    pub(super) unattributed_ns: Option<i64>,
    pub(super) gaps_from_outside_min: Option<u64>,
    pub(super) outside_ns_min: Option<i64>,
    pub(super) dominant_cause: Option<String>,
}

/// The cells of each instrument as they stand in the document.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Cells {
    /// As in `vtare.timer/1`; null where it was not measured.
    #[schemars(with = "Option<Vec<<Timer as Instrument>::Cell>>")]
    pub(super) timer: Value,
    /// As in `vtare.sleep/1`; null where it was not measured.
    #[schemars(with = "Option<Vec<SleepCell>>")]
    pub(super) sleep: Value,
    /// As in `vtare.counter/1`; null where it was not measured.
    #[schemars(with = "Option<Vec<<Counter as Instrument>::Cell>>")]
    pub(super) counter: Value,
    /// As in `vtare.noise/1`; null where it was not measured.
    #[schemars(with = "Option<Vec<<Noise as Instrument>::Cell>>")]
    pub(super) noise: Value,
}

impl Measured {
    /// Reads the figures out of the cells; a part that is null is a part without figures.
    ///
    /// # Errors
    /// Where a cell does not have the shape of the contract: a mistake in this program.
    pub(super) fn of(clock: &Value, cells: &Cells, trust: Option<Trust>) -> Result<Self, Failure> {
        fn list<T: for<'de> Deserialize<'de>>(name: &str, cells: &Value) -> Result<Vec<T>, Failure> {
            if cells.is_null() {
                return Ok(Vec::new());
            }
            let wrong = |error| Failure::Machine(format!("{name} cells break docs/internals/contract.md: {error}"));
            Vec::deserialize(cells).map_err(wrong)
        }
        Ok(Self {
            clock: ClockFigures::deserialize(clock).map_err(|error| {
                Failure::Machine(format!("the clock object is not as docs/internals/contract.md has it: {error}"))
            })?,
            timer: list("timer", &cells.timer)?,
            sleep: list("sleep", &of_all_asked(&cells.sleep))?,
            counter: list("counter", &cells.counter)?,
            noise: list("noise", &cells.noise)?,
            trust,
        })
    }

    /// The read cost of `source`.
    pub(super) fn timer(&self, source: &str) -> Option<&Figures> {
        self.timer.iter().find(|cell| cell.source == source).map(|cell| &cell.read_cost_ns)
    }

    /// The sleep of `method` to `target_ns`.
    pub(super) fn sleep(&self, method: &str, target_ns: u64) -> Option<&SleepFigures> {
        self.sleep.iter().find(|cell| cell.method == method && cell.target_ns == target_ns)
    }

    /// What one reading of vtare's clock costs, in ns: measured by the timer instrument, else by the clock at its
    /// start.
    pub(super) fn read_cost_ns(&self) -> Option<f64> {
        self.timer("vtare").and_then(|cost| cost.median).or(self.clock.read_cost_ns)
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
    pub(super) fn cause_share(&self, part: impl Fn(&CauseFigures) -> Option<i64>) -> Option<f64> {
        let lost: i64 = self.noise.iter().map(|cell| cell.causes.lost_ns).sum();
        let taken = self.noise.iter().map(|cell| part(&cell.causes)).sum::<Option<i64>>()?;
        (lost > 0).then(|| taken as f64 / lost as f64)
    }
}

/// The cells of sleeps with the median over all that were asked for, as `vtare sleep` judges them; no figure of those
/// that were made alone where half were not.
fn of_all_asked(cells: &Value) -> Value {
    let mut cells = cells.clone();
    for cell in cells.as_array_mut().into_iter().flatten() {
        if let Some(median) = cell.get("asked_median_ns").cloned() {
            if median.is_null() {
                cell["miss_ns"]["half_iqr"] = Value::Null;
            }
            cell["miss_ns"]["median"] = median;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::to_json;
    use serde_json::json;

    #[test]
    fn sleeps_are_judged_by_all_that_were_asked_for_as_the_instrument_judges_them() {
        let cell = |asked_median_ns: Value| {
            let miss = to_json(&Figures { median: Some(89.0), half_iqr: Some(5.0), ..Figures::default() });
            let cell = json!({"method": "two_phase", "target_ns": 50_000, "miss_ns": miss, "cpu_fraction": null});
            let mut cells = json!([cell]);
            cells[0]["asked_median_ns"] = asked_median_ns;
            cells
        };
        let judged = |cell: Value| {
            let cells = Cells { sleep: cell, ..Cells::default() };
            let figures = Measured::of(&json!({}), &cells, None).expect("the shape of the contract");
            figures.sleep("two_phase", 50_000).map(|cell| (cell.miss_ns.median, cell.miss_ns.half_iqr))
        };
        assert_eq!(judged(cell(Value::Null)), Some((None, None)));
        assert_eq!(judged(cell(json!(91.0))), Some((Some(91.0), Some(5.0))));
    }

    #[test]
    fn figures_are_read_by_the_names_of_the_contract() {
        let clock =
            json!({"source": "tsc", "trusted": true, "reasons": [], "residual_ppm": 0.002, "read_cost_ns": 9.7});
        let summary = json!({
            "n": 5, "median": 9.6, "half_iqr": 0.1, "min": 9.0, "max": 12.0, "mean": 9.7, "p99": null, "p999": null
        });
        let cells = Cells {
            timer: json!([{"source": "vtare", "cost_ns": {"n": 0}, "read_cost_ns": summary}]),
            sleep: json!([{"method": "usleep", "target_ns": 50_000, "miss_ns": summary, "cpu_fraction": null}]),
            counter: Value::Null,
            noise: json!([
                {
                    "cpu": 0, "gap_ns": summary, "gaps": 4, "lost_fraction": 0.01, "gaps_per_s": 2.0,
                    "causes": {"lost_ns": 100, "steal_ns": 50}
                },
                {
                    "cpu": 1, "gap_ns": summary, "gaps": 4, "lost_fraction": 0.03, "gaps_per_s": 2.0,
                    "causes": {"lost_ns": 300, "steal_ns": 0}
                },
            ]),
        };
        let figures = Measured::of(&clock, &cells, None).expect("the shape of the contract");
        assert_eq!(figures.read_cost_ns(), Some(9.6), "the timer instrument's word goes first");
        assert_eq!(figures.sleep("usleep", 50_000).and_then(|cell| cell.miss_ns.median), Some(9.6));
        assert_eq!(figures.lost_fraction(), Some(0.02));
        assert_eq!(figures.cause_share(|causes| causes.steal_ns), Some(0.125));
        assert_eq!(figures.cause_share(|causes| causes.other_threads_ns), None, "no CPU has an account");
        assert!(figures.counter.is_empty());
    }

    #[test]
    fn the_instruments_cells_have_the_shape_that_is_read_here() {
        let mut timer = to_json(&[crate::timer::TimerCell::default()]);
        timer[0]["source"] = json!("rdtsc");
        let mut sleep = to_json(&[crate::sleep::SleepCell::default()]);
        sleep[0]["method"] = json!("usleep");
        let cells = Cells {
            timer,
            sleep,
            counter: to_json(&[crate::counter::CounterCell::default()]),
            noise: to_json(&[crate::noise::NoiseCell::default()]),
        };
        let figures = Measured::of(&json!({}), &cells, None).expect("the shape of the contract");
        assert_eq!(
            (figures.timer.len(), figures.sleep.len(), figures.counter.len(), figures.noise.len()),
            (1, 1, 1, 1)
        );
        assert_eq!(figures.lost_fraction(), None);
    }
}
