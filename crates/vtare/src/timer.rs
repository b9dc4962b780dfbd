//! `vtare timer`: what it costs to read the time, by consecutive differences.

mod answer;
mod cell;
mod loops;
mod series;
mod sources;

pub(crate) use cell::TimerCell;
use cell::TimerRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use series::Series;
pub(crate) use sources::Source;
use vtare_units::{Random, Span};

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{self, Instrument, Note, Outcome, Session};
use crate::parameters;
use crate::quantities::positive;
use crate::samples::{Column, Row as _};
use crate::sentences::{run, timer as words};
use crate::table::{Table, spread, time};

/// The sources take turns this often, so that a drift of the machine meets all of them alike.
const ROUNDS: u64 = 8;

/// Parameters of `timer` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// What to read; without it, everything that this CPU has.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    #[schemars(length(min = 1))]
    pub(crate) source: Option<Vec<Source>>,

    /// Readings of each source.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 1, max = 10_000_000_000_u64))]
    pub(crate) samples: u64,

    /// Stop each source after this time, in seconds; without it, no such limit.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,

    /// Readings slower than this, in ns, keep their position in the series.
    #[arg(long, value_name = "NS")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub(crate) tail_ns: u64,
}

impl parameters::Parameters for Parameters {}

impl Default for Parameters {
    fn default() -> Self {
        Self { source: None, samples: 10_000_000, seconds: None, cpu: None, tail_ns: 1_000 }
    }
}

/// The instrument.
pub(crate) struct Timer;

impl Instrument for Timer {
    const NAME: &'static str = "timer";
    const MAIN: &'static str = "read_cost";
    const COLUMNS: &'static [Column] = TimerRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["source"];
    const SHORT_LINES: usize = 14;
    type Parameters = Parameters;
    type Cell = TimerCell;

    fn resolve(mut parameters: Parameters, context: &Context) -> Result<Parameters, Failure> {
        parameters::check_bounds(&parameters)?;
        instrument::check_seconds("seconds", parameters.seconds)?;
        instrument::check_cpu(parameters.cpu)?;
        let available = Source::available(context.clock());
        match &parameters.source {
            None => parameters.source = Some(available),
            Some(asked) => {
                instrument::check_list("source", asked)?;
                if let Some(missing) = asked.iter().find(|source| !available.contains(source)) {
                    let list: Vec<String> = available.iter().map(Source::to_string).collect();
                    return Err(Failure::Machine(format!(
                        "source {missing} is not usable on this machine: use one of {}",
                        list.join(", ")
                    )));
                }
            }
        }
        Ok(parameters)
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<TimerCell>, Failure> {
        if let Some(cpu) = parameters.cpu {
            vtare_sys::sched::pin_to(&[cpu])?;
        }
        let (context, clock) = (session.context, session.clock());
        let sources = parameters.source.clone().unwrap_or_else(|| Source::available(clock));
        let mut all: Vec<Series> =
            sources.iter().map(|source| Series::new(*source, clock, parameters.tail_ns)).collect();
        let progress = context.progress("timer", ROUNDS * all.len() as u64);
        let mut order: Vec<usize> = (0..all.len()).collect();
        let mut random = Random::new(session.seed);
        let mut buffer = series::buffer();
        let mut done = 0;
        for round in 1..=ROUNDS {
            random.shuffle(&mut order);
            for index in &order {
                let series = &mut all[*index];
                progress.label(&format!("timer {}", series.source()));
                let share = round as f64 / ROUNDS as f64;
                let goal = (u128::from(parameters.samples) * u128::from(round) / u128::from(ROUNDS)) as u64;
                let cap = parameters.seconds.and_then(|seconds| Span::try_from_secs_f64(seconds * share));
                // A quarter of the time is for the loops.
                while series.readings() < goal && cap.is_none_or(|cap| series.elapsed() < cap - cap / 4) {
                    if context.stop_requested() {
                        return finish(all, parameters, session, true);
                    }
                    series.extend(&mut buffer, goal, clock, &mut session.samples)?;
                }
                series.time_loops(clock, parameters.samples / ROUNDS, cap.map(|cap| cap / 4));
                done += 1;
                progress.set(done);
            }
        }
        finish(all, parameters, session, false)
    }

    fn answer(outcome: &Outcome<TimerCell>, _parameters: &Parameters, _line: &CommandLine) -> Answer {
        answer::of(outcome)
    }

    fn table(cells: &[TimerCell]) -> Table {
        let heading = ["source", "read cost", "median", "half IQR", "min", "p99", "p99.9", "max", "readings"];
        let mut table = Table::new(&heading, 1);
        for cell in cells {
            let cost = &cell.cost_ns;
            let mut row = vec![cell.source.map_or_else(String::new, |source| source.to_string())];
            row.push(time(cell.read_cost_ns.median));
            row.extend([time(cost.median), spread(cost.half_iqr)]);
            row.extend([cost.min, cost.p99, cost.p999, cost.max].map(time));
            row.push(cost.n.to_string());
            table.row(row);
        }
        table
    }
}

/// Writes the histograms and sums up.
fn finish(
    all: Vec<Series>,
    parameters: &Parameters,
    session: &mut Session<'_>,
    interrupted: bool,
) -> Result<Outcome<TimerCell>, Failure> {
    let clock = session.clock();
    let mut notes = vec![Note::new("read_cost", words::read_cost())];
    let preempted: u64 = all.iter().map(|series| series.loops().preempted()).sum();
    if preempted > 0 {
        let timed: u64 = all.iter().map(|series| series.loops().timed()).sum();
        notes.push(Note::new("loops_preempted", words::preempted(preempted, timed, timed - preempted)));
    }
    if parameters.cpu.is_none() {
        notes.push(Note::new("not_pinned", run::not_pinned()));
    }
    if !clock.counter_usable() {
        notes.push(Note::new("counter_left_out", words::counter_left_out()));
    }
    let mut cells = Vec::new();
    for series in all {
        if session.samples.kept() {
            let name = series.source().to_string();
            for (cost_ps, count) in series.histogram_rows(clock) {
                session.samples.row(&TimerRow { source: &name, index: None, cost_ps, count })?;
            }
        }
        notes.extend(series.note());
        cells.push(series.cell(clock));
    }
    Ok(Outcome { cells, notes, interrupted })
}
