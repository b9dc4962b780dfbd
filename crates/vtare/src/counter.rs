//! `vtare counter`: how evenly a deterministic function runs, after TiMeAcE.KOM.
//!
//! Source: Lampe, Kieselmann, Miede, Zoeller, Steinmetz, "A Tale of Millis and Nanos", ESOCC 2013. A machine speed
//! index is found first, so that argument a takes about a x `unit_ms` on any CPU; then b batches of c calls for each
//! argument 2^0..2^m run in random order, and the coefficient of variation (CV) of each argument's run time is the
//! result. Three CVs are given: raw (the paper's), of thread CPU time, and of run time without the gaps seen between
//! chunks.
//!
//! The function runs in this process, or in a program in another language (`counters/`); all else is the same for both.

mod answer;
mod caller;
mod cause;
mod cell;
mod function;
mod image;
mod language;
mod parameters;
mod program;
mod tools;
mod variance;

use std::path::PathBuf;

use vtare_sys::proc::Snapshot;
use vtare_units::{Random, Span};

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument, Note, Outcome, Session};
use crate::progress::duration;
use crate::quantities::positive;
use crate::samples::{Column, Row as _};
use crate::sentences::{counter as words, run};
use crate::standstill::{self, Cause as StandstillCause, Outage, Watch};
use crate::table::{Table, percent, spread, time};
use caller::Caller;
pub(crate) use cause::Cause;
use cause::{CauseShares, Evidence};
pub(crate) use cell::CounterCell;
use function::Call;
use language::Language;
use parameters::Parameters;
use variance::Spread;
use vtare_units::figures::{ExactHistogram, Figures};

/// Gaps are counted in steps of this many ns.
const GAP_STEP_NS: i64 = 100;

/// Arguments of `vtare counter`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CounterArguments {
    #[command(flatten)]
    run: crate::parameters::Arguments<Parameters>,

    /// Only build the program in that language into this file, for --program here or on a machine without its compiler
    #[arg(long, value_name = "FILE", requires = "language", conflicts_with = "program")]
    build: Option<PathBuf>,

    /// With --build and java: put a virtual machine into the file, too, for machines and containers without one
    #[arg(long, requires = "build")]
    with_runtime: bool,

    /// Choose --unit-ms so that everything takes about this time
    #[arg(long, value_name = "S", value_parser = positive, conflicts_with = "unit_ms")]
    seconds: Option<f64>,
}

/// The instrument.
pub(crate) struct Counter;

/// Carries out `vtare counter`.
///
/// # Errors
/// See [`instrument::carry_out`].
pub(crate) fn command(arguments: &CounterArguments, context: &Context) -> Result<Exit, Failure> {
    let mut parameters = arguments.run.parameters.clone();
    if let Some(file) = &arguments.build {
        language::build_into(parameters.language, file, arguments.with_runtime)?;
        return Ok(Exit::Measured);
    }
    if let Some(seconds) = arguments.seconds {
        parameters.unit_ms = seconds * 1e3 / parameters.units() as f64;
        if parameters.unit_ms < LEAST_UNIT_MS {
            let least = parameters.units() as f64 * LEAST_UNIT_MS / 1e3;
            let instead = format_args!("{least:.3} or more for these batches, calls and arguments, or fewer of them");
            return Err(Failure::value("--seconds", seconds, instead));
        }
    }
    instrument::command::<Counter>(&parameters, &arguments.run.common, context)
}

/// Below this an argument of 1 would be less than five chunks, too few to distinguish gaps from work.
const LEAST_UNIT_MS: f64 = 0.05;

/// One finished call with its batch.
struct Done {
    batch: u64,
    result: Call,
}

/// One call.
struct CounterRow<'a> {
    language: Language,
    batch: u64,
    call: u64,
    argument: i64,
    order: i64,
    result: &'a Call,
}

columns!(row: CounterRow<'_> {
    string "language" = row.language.name(), "language of the counter function";
    int64 "batch" = row.batch.cast_signed(), "batch, from 0";
    int64 "call" = row.call.cast_signed(), "call of this argument in its batch, from 0";
    int64 "argument" = row.argument, "argument a, a power of two";
    int64 "order" = row.order, "position in the random order of the whole run, from 0";
    int64 "wall_ns" = row.result.wall_ns, "run time";
    int64 "cpu_ns" = row.result.cpu_ns, "CPU time of the thread";
    int64 "gap_ns" = row.result.gap_ns, "time lost in gaps seen between the chunks";
    int64 "involuntary_switches" = row.result.involuntary_switches.cast_signed(),
        "times the thread lost its CPU although it could have run on";
});

impl Instrument for Counter {
    const NAME: &'static str = "counter";
    const MAIN: &'static str = "runtime";
    const COLUMNS: &'static [Column] = CounterRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["language", "argument", "steps"];
    type Parameters = Parameters;
    type Cell = CounterCell;

    fn resolve(parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        crate::parameters::check_bounds(&parameters)?;
        instrument::check_cpu(parameters.cpu)?;
        if let (Language::Rust, Some(program)) = (parameters.language, &parameters.program) {
            let found = program.display();
            return Err(Failure::Input(format!(
                "program is {found}, but language rust is in this binary: leave program out, or use language c, java \
                 or python"
            )));
        }
        Ok(parameters)
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<CounterCell>, Failure> {
        if let Some(cpu) = parameters.cpu {
            vtare_sys::sched::pin_to(&[cpu])?;
        }
        let context = session.context;
        if !context.is_quiet() {
            announce(parameters);
        }
        let Some(mut caller) = Caller::start(parameters, context)? else {
            return Ok(Outcome { cells: Vec::new(), notes: Vec::new(), interrupted: true });
        };
        let before = Snapshot::take();
        let mut gaps: Vec<ExactHistogram> = (0..=parameters.max_exponent).map(|_| ExactHistogram::default()).collect();
        let mut done: Vec<Vec<Done>> = (0..=parameters.max_exponent).map(|_| Vec::new()).collect();
        let progress = context.progress("counter", parameters.units());
        let mut random = Random::new(session.seed);
        let (mut order, mut units) = (0_i64, 0);
        let mut outages: Vec<Vec<Outage>> = vec![Vec::new(); done.len()];
        let (began, mut longest_ns) = (session.clock().now(), 0);
        let mut calls: Vec<(u64, u32)> = (0..parameters.calls)
            .flat_map(|call| (0..=parameters.max_exponent).map(move |exponent| (call, exponent)))
            .collect();
        'batches: for batch in 0..parameters.batches {
            random.shuffle(&mut calls);
            let watch = Watch::start();
            for (at, (call, exponent)) in calls.iter().enumerate() {
                let index = *exponent as usize;
                let histogram = &mut gaps[index];
                let (at_ns, mut long_ns) = ((session.clock().now() - began).as_nanos(), Vec::new());
                let call_gap = |gap_ns: i64| match standstill::stands_out(gap_ns, longest_ns) {
                    true => long_ns.push(gap_ns),
                    false => {
                        longest_ns = longest_ns.max(gap_ns);
                        histogram.add(gap_ns / GAP_STEP_NS);
                    }
                };
                let upcoming = calls[at..].iter().map(|(_, exponent)| 1 << exponent);
                let Some(result) = caller.call(upcoming, context, call_gap)? else { break 'batches };
                let language = parameters.language;
                match standstill_in(&result, &long_ns, language, &watch) {
                    Some((length_ns, cause)) => outages[index].push(Outage::new(at_ns, length_ns, cause)),
                    None => {
                        long_ns.iter().for_each(|gap_ns| gaps[index].add(gap_ns / GAP_STEP_NS));
                        session.samples.row(&CounterRow {
                            language,
                            batch,
                            call: *call,
                            argument: 1 << exponent,
                            order,
                            result: &result,
                        })?;
                        done[index].push(Done { batch, result });
                    }
                }
                order += 1;
                units += 1 << exponent;
                progress.set(units);
            }
        }
        drop(progress);
        let counters = Snapshot::take().since(&before);
        let single: Vec<(i64, u64)> =
            gaps.iter().flat_map(ExactHistogram::counts).map(|(steps, count)| (steps * GAP_STEP_NS, count)).collect();
        let all: Vec<&Call> = done.iter().flatten().map(|done| &done.result).collect();
        let evidence = Evidence::gather(&counters, &all, parameters.cpu, &single);
        let cells = done.iter().zip(&gaps).enumerate();
        let identity =
            |exponent: usize| (parameters.language.name(), 1 << exponent, caller.size().steps(1 << exponent));
        let cells: Vec<CounterCell> =
            cells.map(|(exponent, (done, gaps))| cell(identity(exponent), done, gaps, &evidence)).collect();
        let cells: Vec<CounterCell> =
            cells.into_iter().zip(outages).map(|(cell, outages)| CounterCell { outages, ..cell }).collect();
        let mut notes = caller.notes();
        notes.extend(cells.iter().filter_map(|cell| standstill::note(&words::place(cell.argument), &cell.outages)));
        notes.push(Note::new("attribution", evidence.text()));
        if parameters.cpu.is_none() {
            notes.push(Note::new("not_pinned", run::not_pinned()));
        }
        let interrupted = context.stop_requested();
        Ok(Outcome { cells, notes, interrupted })
    }

    fn answer(outcome: &Outcome<CounterCell>, _parameters: &Parameters, _line: &CommandLine) -> Answer {
        answer::of(outcome)
    }

    fn table(cells: &[CounterCell]) -> Table {
        let heading = [
            "argument",
            "median",
            "half IQR",
            "CV",
            "within",
            "between",
            "CV CPU time",
            "CV without gaps",
            "calls",
            "cause",
        ];
        let mut table = Table::new(&heading, 0);
        for cell in cells {
            table.row(vec![
                cell.argument.to_string(),
                time(cell.runtime_ns.median),
                spread(cell.runtime_ns.half_iqr),
                percent(cell.cv),
                percent(cell.cv_within),
                percent(cell.cv_between),
                percent(cell.cv_thread_cpu),
                percent(cell.cv_gap_corrected),
                cell.runtime_ns.n.to_string(),
                cell.dominant_cause.map_or("-", Cause::words).to_owned(),
            ]);
        }
        table
    }
}

/// Shows how long it will take, before it starts, where it is more than a minute.
fn announce(parameters: &Parameters) {
    let seconds = parameters.estimated_s();
    if seconds > 60.0 {
        let Parameters { batches, calls, max_exponent, unit_ms, .. } = parameters;
        let span = duration(seconds);
        message!(
            "vtare counter: about {span}: {batches} batches x {calls} calls x arguments 1 to {}, {unit_ms} ms each \
             unit (--seconds or --unit-ms make it shorter)",
            1_u64 << max_exponent
        );
    }
}

/// The figures of one argument, identified by language, argument and steps.
fn cell(
    (language, argument, steps): (&'static str, u64, u64),
    done: &[Done],
    gaps: &ExactHistogram,
    evidence: &Evidence,
) -> CounterCell {
    let spread = |value: fn(&Call) -> i64| {
        let values: Vec<(u64, f64)> = done.iter().map(|done| (done.batch, value(&done.result) as f64)).collect();
        Spread::of(&values)
    };
    let raw = spread(|call| call.wall_ns);
    let cpu = spread(|call| call.cpu_ns);
    let corrected = spread(|call| call.wall_ns - call.gap_ns);
    let calls: Vec<&Call> = done.iter().map(|done| &done.result).collect();
    let shares = CauseShares::of(&calls);
    CounterCell {
        language,
        argument,
        steps,
        runtime_ns: calls.iter().map(|call| call.wall_ns).collect(),
        cv: raw.cv,
        cv_within: raw.within,
        cv_between: raw.between,
        cv_thread_cpu: cpu.cv,
        cv_thread_cpu_within: cpu.within,
        cv_thread_cpu_between: cpu.between,
        cv_gap_corrected: corrected.cv,
        cv_gap_corrected_within: corrected.within,
        cv_gap_corrected_between: corrected.between,
        gap_ns: Figures::of_counts(&gaps.counts()).scaled(GAP_STEP_NS as f64),
        dominant_cause: evidence.dominant(&shares),
        cause_share: shares,
        outages: Vec::new(),
    }
}

/// How long the process stalled during a call with these gaps, and why; `None` where it did not, or where another
/// process made the call: its waits for a CPU are not known here.
fn standstill_in(call: &Call, long_ns: &[i64], language: Language, watch: &Watch) -> Option<(i64, StandstillCause)> {
    if long_ns.is_empty() || language != Language::Rust {
        return None;
    }
    let length_ns = long_ns.iter().sum();
    let idle = Span::from_nanos(call.wall_ns - call.cpu_ns);
    watch.accounts(Some(idle)).cause(Span::from_nanos(length_ns)).map(|cause| (length_ns, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_run_takes_five_hours_and_a_half() {
        let published = Parameters::default();
        assert_eq!(published.units(), 20 * 100 * 1_023);
        assert!((published.estimated_s() - 20_460.0).abs() < 1e-6);
        assert_eq!(duration(published.estimated_s()), "5 h 41 min");
        assert_eq!((duration(0.2), duration(200.0)), ("1 s".to_owned(), "3 min 20 s".to_owned()));
    }

    #[test]
    fn a_small_run_calls_each_argument_as_often_as_asked() {
        let context = Context::without_signals();
        let mut session = Session::without_samples(&context, 3);
        let asked = Parameters { batches: 2, calls: 3, max_exponent: 1, unit_ms: 0.05, ..Parameters::default() };
        let parameters = Counter::resolve(asked, &context).expect("the parameters are right");
        let outcome = Counter::measure(&parameters, &mut session).expect("this machine can count");
        let figures: Vec<(u64, u64)> = outcome.cells.iter().map(|cell| (cell.argument, cell.runtime_ns.n)).collect();
        assert_eq!(figures, [(1, 6), (2, 6)]);
        assert!(outcome.cells[1].steps > outcome.cells[0].steps);
        assert!(outcome.cells.iter().all(|cell| cell.cv.is_some() && cell.runtime_ns.p99.is_none()));
    }

    #[test]
    fn a_unit_too_short_for_chunks_is_refused() {
        let context = Context::without_signals();
        for unit_ms in [0.01, f64::NAN, 2_000.0] {
            let error = Counter::resolve(Parameters { unit_ms, ..Parameters::default() }, &context);
            assert!(error.expect_err("out of range").to_string().contains("use a number from 0.05 to 1000"));
        }
    }
}
