//! What all instruments share: parameters in, cells and samples out, one document, one table, one exit code.
//!
//! An instrument measures in [`Instrument::measure`] and nothing else; [`carry_out`] opens the samples file before the
//! first reading (a wrong path is refused at once), gathers the machine's facts, judges `--fail-if`, and writes each
//! result once.

use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vtare_sys::clocks;
use vtare_sys::facts::{MachineFacts, Throttled, throttled};
use vtare_units::{Span, Wall};

use crate::answer::{Answer, Change, CommandLine, Shape, VerdictLevel};
use crate::arguments::CommonArguments;
use crate::context::Context;
use crate::document::{AnswerDocument, Program, Shared};
use crate::failure::{Exit, Failure};
use crate::limits::{self, Known, Verdict};
pub(crate) use crate::note::{CPU_QUOTA, Note};
use crate::output::{print, print_json, to_json};
use crate::own_program::proc_note;
use crate::parameters::{Arguments, Parameters};
use crate::run_file::RUN_SCHEMA;
use crate::samples::{Column, Samples};
use crate::sentences::{answer as usual, run as words};
use crate::table::{Table, time};
use crate::terminal;
use vtare_clock::Clock;

/// The note of a run in which wall time was set.
pub(crate) const WALL_TIME_SET: &str = "wall_time_set";
const SMALLEST_STEP: Span = Span::from_millis(1);

/// One timing instrument.
pub(crate) trait Instrument {
    /// Its name: the subcommand, `instrument` in run.json, and the schema `vtare.NAME/1`.
    const NAME: &'static str;
    /// The columns of its samples.
    const COLUMNS: &'static [Column];
    /// The keys that identify a cell; all other numbers are figures for `--fail-if`.
    const IDENTITY: &'static [&'static str];
    /// What the command line or run.json gives it. Missing keys take their default, unknown ones are refused.
    type Parameters: Parameters;
    /// One cell of the result.
    type Cell: Default + Serialize + JsonSchema;

    /// Checks the parameters and fills in what "all" means on this machine.
    ///
    /// # Errors
    /// [`Failure::Input`] for a value out of range, [`Failure::Machine`] for what this machine does not have.
    fn resolve(parameters: Self::Parameters, context: &Context) -> Result<Self::Parameters, Failure>;

    /// Measures until done or until [`Context::stop_requested`]. `parameters` have been resolved.
    ///
    /// # Errors
    /// Where the machine refuses a call or the samples cannot be written.
    fn measure(parameters: &Self::Parameters, session: &mut Session<'_>) -> Result<Outcome<Self::Cell>, Failure>;

    /// What people read above the table: the answer, what limits it, and what to change, as options of the command
    /// line that was given.
    fn answer(outcome: &Outcome<Self::Cell>, parameters: &Self::Parameters, line: &CommandLine) -> Answer;

    /// What it measures, as its figures begin: `p99` in a limit is of this.
    const MAIN: &'static str = Self::NAME;

    /// The most lines that the answer may take where not all figures are asked for.
    const SHORT_LINES: usize = 8;

    /// The cells for people.
    fn table(cells: &[Self::Cell]) -> Table;

    /// What people see below the table: lines of text, each ended. Nothing for most instruments.
    fn details(_cells: &[Self::Cell]) -> String {
        String::new()
    }
}

/// What an instrument works with while it measures.
pub(crate) struct Session<'a> {
    /// The command's surroundings.
    pub(crate) context: &'a Context,
    /// The seed of every random order.
    pub(crate) seed: u64,
    /// Where the raw samples go.
    pub(crate) samples: Samples,
    /// Which far end did not answer or went away, for people; what was measured until then is kept.
    pub(crate) peer_lost: Option<String>,
}

impl<'a> Session<'a> {
    /// A session that keeps no samples.
    pub(crate) fn without_samples(context: &'a Context, seed: u64) -> Self {
        Self { context, seed, samples: Samples::discard(), peer_lost: None }
    }

    /// The calibrated clock.
    pub(crate) fn clock(&self) -> &'a Clock {
        self.context.clock()
    }
}

/// What an instrument found.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<Cell> {
    /// The figures.
    pub(crate) cells: Vec<Cell>,
    /// Remarks on them.
    pub(crate) notes: Vec<Note>,
    /// Whether a signal ended the measurement early.
    pub(crate) interrupted: bool,
}

/// One resolved run, as run.json has it (docs/internals/contract.md).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunHeader {
    /// The lab's name for the run; null where a person started it.
    pub(crate) run_id: Option<String>,
    /// Where the samples go; null for nowhere.
    pub(crate) output: Option<PathBuf>,
    /// The seed.
    pub(crate) seed: u64,
}

/// The schema name of an instrument's document.
pub(crate) fn instrument_name<I: Instrument>() -> String {
    format!("vtare.{}/1", I::NAME)
}

/// The document of one run.
#[derive(Serialize, JsonSchema)]
#[serde(bound = "")]
#[schemars(bound = "")]
pub(crate) struct Document<'a, I: Instrument> {
    schema: String,
    /// What the terminal shows first; null for `vtare measure`.
    answer: Option<AnswerDocument<VerdictLevel, Change>>,
    /// The lab's name for the run; null where a person started it.
    run_id: Option<&'a str>,
    /// Seed of every random order.
    seed: u64,
    /// What was asked for, with the defaults filled in.
    parameters: &'a I::Parameters,
    /// The figures, one entry for each combination of what was varied.
    cells: &'a [I::Cell],
    /// One entry for each `--fail-if`.
    limits: &'a [Verdict],
    /// The file of the samples; null where none were kept.
    output: Option<&'a Path>,
    /// Remarks on how the figures came about.
    notes: &'a [Note],
    #[serde(flatten)]
    shared: Shared<'a>,
}

/// How the result is shown and judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Showing<'a> {
    /// One JSON document instead of the table.
    pub(crate) json: bool,
    /// Nothing at all where it is not JSON (for the plumbing).
    pub(crate) quiet: bool,
    /// All figures, not only the answer.
    pub(crate) verbose: bool,
    /// The limits.
    pub(crate) limits: &'a [limits::Asked],
}

/// Carries out the command line of an instrument that has no arguments besides its parameters.
///
/// # Errors
/// As [`carry_out`].
pub(crate) fn run<I: Instrument>(arguments: &Arguments<I::Parameters>, context: &Context) -> Result<Exit, Failure> {
    command::<I>(&arguments.parameters, &arguments.common, context)
}

/// Carries out the run that a command line asked for.
///
/// # Errors
/// As [`carry_out`].
pub(crate) fn command<I: Instrument>(
    parameters: &I::Parameters,
    common: &CommonArguments,
    context: &Context,
) -> Result<Exit, Failure> {
    let seed = common.seed.unwrap_or_else(fresh_seed);
    let header = RunHeader { run_id: None, output: common.out.clone(), seed };
    let showing = Showing { json: common.json, quiet: false, verbose: common.verbose, limits: &common.fail_if };
    carry_out::<I>(parameters.clone(), &header, showing, context)
}

/// Carries out one run: measures, writes the samples, shows the result.
///
/// # Errors
/// For wrong parameters, an unknown figure in a limit, a file that cannot be written, or what the instrument meets.
pub(crate) fn carry_out<I: Instrument>(
    parameters: I::Parameters,
    header: &RunHeader,
    showing: Showing<'_>,
    context: &Context,
) -> Result<Exit, Failure> {
    let (limits, help) = asked::<I>(showing.limits)?;
    let parameters = I::resolve(parameters, context)?;
    let samples = match &header.output {
        Some(path) => Samples::create(path, I::COLUMNS)?,
        None => Samples::discard(),
    };
    let mut machine = MachineFacts::read();
    let mut session = Session { context, seed: header.seed, samples, peer_lost: None };
    let clock = context.clock();
    let (started, ahead) = (clocks::now::<Wall>(), clocks::wall_ahead_of_boottime_ns());
    let (quota_before, suspended_before) = (throttled(), clocks::suspended());
    let from = clock.now();
    let mut outcome = I::measure(&parameters, &mut session)?;
    let elapsed = clock.now() - from;
    machine.note_steal_after();
    // A capture that knows more about its stamps has its own.
    if outcome.notes.iter().all(|note| note.id != WALL_TIME_SET) {
        outcome.notes.extend(wall_time_set(ahead, clocks::wall_ahead_of_boottime_ns()));
    }

    let quota = throttled().zip(quota_before).and_then(|(after, before)| after.since(&before));
    outcome.notes.extend(quota.and_then(|taken| quota_note(&taken, machine.cgroup.cpu_max.as_deref())));
    outcome.notes.extend(suspended_note(clocks::suspended() - suspended_before));
    outcome.notes.extend(proc_note());

    if let Some(lost) = &session.peer_lost {
        message!("vtare: peer lost: {lost}");
        outcome.notes.push(Note::new("peer_lost", words::peer_lost(lost.trim_end_matches('.'))));
    }
    let cells = to_json(&outcome.cells);
    let labelled = labelled(&cells, I::IDENTITY);
    let verdicts = limits::judge(&limits, &labelled, I::IDENTITY);
    let run = json!({
        "schema": RUN_SCHEMA, "run_id": header.run_id, "instrument": I::NAME, "seed": header.seed,
        "output": header.output, "parameters": to_json(&parameters),
    });
    let shared = Shared {
        program: Program::OWN,
        interrupted: outcome.interrupted,
        started_unix_ns: started.as_nanos(),
        elapsed_ns: elapsed.as_nanos(),
        machine: &machine,
        clock: &clock.info(),
    };
    let mut footer = json!({
        "schema": "vtare.samples/1", "run": run, "result": {"cells": cells}, "notes": to_json(&outcome.notes),
    });
    if let (Some(into), Value::Object(from)) = (footer.as_object_mut(), to_json(&shared)) {
        into.extend(from);
    }
    let lost = session.samples.finish(&footer).err();
    let output = if lost.is_some() { None } else { header.output.as_deref() };
    if let Some(error) = &lost {
        // Hours of measuring must not go unseen because a disk is full.
        message!("vtare: {error}");
        outcome.notes.push(Note::new("samples_lost", words::samples_lost(error)));
    }

    if showing.json {
        // A program that gives a run of its own has no command line to change.
        let line = (!showing.quiet).then(CommandLine::own);
        let answer = line.map(|line| I::answer(&outcome, &parameters, &line));
        print_json(&to_json(&Document::<I> {
            schema: instrument_name::<I>(),
            answer: answer.map(|answer| answer.document()),
            run_id: header.run_id.as_deref(),
            seed: header.seed,
            parameters: &parameters,
            cells: &outcome.cells,
            limits: &verdicts,
            output,
            notes: &outcome.notes,
            shared,
        }))?;
    } else if help {
        print(&limits::listed(&labelled, I::IDENTITY))?;
    } else if !showing.quiet {
        print(&if showing.verbose {
            report::<I>(&outcome, &parameters, (header.seed, output), clock)
        } else {
            short_answer::<I>(&outcome, &parameters, output)
        })?;
    }
    let exit = match conclude(outcome.interrupted, &verdicts) {
        Exit::Measured | Exit::LimitCrossed if session.peer_lost.is_some() => Exit::PeerLost,
        other => other,
    };
    Ok(if lost.is_some() { Exit::SamplesLost } else { exit })
}

/// The note of a run in which wall time was set, by how far it was ahead of CLOCK_BOOTTIME before and after: the least
/// and the most each can be. Steps of less than 1 ms are none: a sandbox may read both clocks by lines of its own.
fn wall_time_set(before: (i64, i64), after: (i64, i64)) -> Option<Note> {
    let (least, most) = (after.0 - before.1, after.1 - before.0);
    let step = least + (most - least) / 2;
    (least > 0 || most < 0).then_some(step).filter(|step| step.abs() >= SMALLEST_STEP.as_nanos()).map(|step| {
        let by = time(Some(step.abs() as f64));
        let text = if step > 0 { words::wall_time_set_forward(by) } else { words::wall_time_set_back(by) };
        Note::new(WALL_TIME_SET, text)
    })
}

/// The note of a run that a CPU quota stopped.
fn quota_note(taken: &Throttled, cpu_max: Option<&str>) -> Option<Note> {
    let allowed = cpu_max.and_then(|text| text.split_once(' ')).and_then(|(quota, period)| {
        let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
        (period > 0.0).then(|| quota / period)
    });
    let stopped = time(Some(taken.time.as_nanos() as f64));
    let text = match allowed {
        Some(cpus) => words::quota_of(stopped, taken.periods, cpus),
        None => words::quota(stopped, taken.periods),
    };
    (taken.periods > 0).then(|| Note::new(CPU_QUOTA, text))
}

/// The note of a run in which the machine was suspended.
fn suspended_note(suspended: Span) -> Option<Note> {
    let text = || words::suspended(time(Some(suspended.as_nanos() as f64)));
    (suspended >= SMALLEST_STEP).then(|| Note::new("suspended", text()))
}

/// The answer alone, on few lines.
fn short_answer<I: Instrument>(
    outcome: &Outcome<I::Cell>,
    parameters: &I::Parameters,
    output: Option<&Path>,
) -> String {
    let answer = I::answer(outcome, parameters, &CommandLine::own());
    let samples = output.map(|path| format!("samples: {}", path.display()));
    let interrupted = outcome.interrupted.then(usual::interrupted);
    let last: Vec<String> = samples.into_iter().chain(interrupted).collect();
    answer.short(Shape::here(), I::SHORT_LINES, &outcome.notes, &last)
}

/// The table with a head and the notes.
fn report<I: Instrument>(
    outcome: &Outcome<I::Cell>,
    parameters: &I::Parameters,
    (seed, output): (u64, Option<&Path>),
    clock: &Clock,
) -> String {
    let info = to_json(&clock.info());
    let trust = if info["trusted"] == json!(true) { "trusted" } else { "not trusted" };
    let mut text = format!("vtare {}, clock {} ({trust}), seed {}\n", I::NAME, text_of(&info["source"]), seed);
    if let Some(cpu) = to_json(parameters)["cpu"].as_u64() {
        text.push_str(&format!("pinned to CPU {cpu}\n"));
    }
    text.push('\n');
    let (width, shape) = (terminal::width(), Shape::here());
    let answer = I::answer(outcome, parameters, &CommandLine::own());
    text.push_str(&answer.render(shape));
    let table = I::table(&outcome.cells);
    text.push_str(&table.render_within(width));
    text.push_str(table.note());
    text.push_str(&terminal::fitted(&I::details(&outcome.cells), width));
    let notes = answer.others(&outcome.notes);
    text.push_str(&shape.section("Notes", notes.iter().map(|note| shape.item(&note.text)).collect()));
    if let Some(path) = output {
        text.push_str(&format!("samples: {}\n", path.display()));
    }
    if outcome.interrupted {
        text.push_str(&usual::interrupted());
        text.push('\n');
    }
    text
}

/// Cells that a message about a limit names at most; `--json` has all.
const NAMED_CELLS: usize = 3;

/// Reports which limits were crossed or undecided, on stderr, and gives the exit that follows.
pub(crate) fn conclude(interrupted: bool, verdicts: &[Verdict]) -> Exit {
    let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.crossed != Some(false)).collect();
    for verdict in &failed {
        let word = if verdict.crossed.is_some() { "crossed" } else { "undecided" };
        let (named, others) = verdict.cells.split_at(verdict.cells.len().min(NAMED_CELLS));
        let others = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
        message!("vtare: limit '{}' {word}: {}{others}", verdict.expression, named.join("; "));
    }
    match (interrupted, failed.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, false) => Exit::LimitCrossed,
        (false, true) => Exit::Measured,
    }
}

/// The limits over figures of instrument `I`, and whether those are asked for.
fn asked<I: Instrument>(all: &[limits::Asked]) -> Result<(Vec<Known>, bool), Failure> {
    let help = all.contains(&limits::Asked::Help);
    let limits: Vec<limits::Limit> = all
        .iter()
        .filter_map(|asked| match asked {
            limits::Asked::Limit(limit) => Some(limit.clone()),
            limits::Asked::Help => None,
        })
        .collect();
    Ok((limits::known(&limits, &figure_names::<I>(), I::MAIN)?, help))
}

/// The figures that a limit may name for instrument `I`.
pub(crate) fn figure_names<I: Instrument>() -> Vec<String> {
    limits::figures(&to_json(&I::Cell::default()), I::IDENTITY).into_keys().collect()
}

/// The cells with a label each, made of their identity: `method usleep, target_ns 1000`.
fn labelled(cells: &Value, identity: &[&str]) -> Vec<(String, Value)> {
    let label = |cell: &Value| {
        let parts = identity.iter().map(|key| format!("{key} {}", text_of(&cell[*key])));
        parts.collect::<Vec<_>>().join(", ")
    };
    cells.as_array().into_iter().flatten().map(|cell| (label(cell), cell.clone())).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A seed nobody chose, below 2^32 so that every JSON reader keeps it exactly.
pub(crate) fn fresh_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish() >> 32
}

/// Checks that this process may run on `cpu`.
///
/// # Errors
/// [`Failure::Input`] with the CPUs that it may run on.
pub(crate) fn check_cpu(cpu: Option<usize>) -> Result<(), Failure> {
    let Some(cpu) = cpu else { return Ok(()) };
    let allowed = vtare_sys::sched::allowed_cpus()?;
    if allowed.contains(&cpu) {
        return Ok(());
    }
    let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
    Err(Failure::value("cpu", cpu, format_args!("one that this process may use: {}", list.join(", "))))
}

/// Checks that a count lies between two bounds, both allowed.
///
/// # Errors
/// [`Failure::Input`] with the value and the bounds.
pub(crate) fn check_range(key: &str, value: u64, least: u64, most: u64) -> Result<(), Failure> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(Failure::value(key, value, format_args!("a whole number from {least} to {most}")))
    }
}

/// Checks that a length of time in seconds is above zero and below ten years.
///
/// # Errors
/// [`Failure::Input`] with the value.
pub(crate) fn check_seconds(key: &str, found: Option<f64>) -> Result<(), Failure> {
    match found {
        Some(seconds) if !(seconds > 0.0 && seconds < 3.2e8) => {
            Err(Failure::value(key, seconds, "a number of seconds above 0 and below 3.2e8"))
        }
        _ => Ok(()),
    }
}

/// Checks that a list names something and nothing twice.
///
/// # Errors
/// [`Failure::Input`] with what is wrong.
pub(crate) fn check_list<T: PartialEq + std::fmt::Display>(key: &str, found: &[T]) -> Result<(), Failure> {
    if found.is_empty() {
        return Err(Failure::value(key, "an empty list", "at least one entry (or leave it out for all)"));
    }
    match found.iter().enumerate().find(|(index, entry)| found[..*index].contains(entry)) {
        Some((_, twice)) => Err(Failure::Input(format!("{key} has {twice} twice: use each entry once"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let error = check_cpu(Some(4_096)).expect_err("no machine lets this process use it");
        assert!(error.to_string().contains("cpu is 4096: use one"), "{error}");
        assert_eq!(error.code(), 2);
        assert!(check_cpu(None).is_ok());
    }

    #[test]
    fn numbers_that_are_none_become_null() {
        assert_eq!(to_json(&[f64::NAN, f64::INFINITY, 1.0]), json!([null, null, 1.0]));
    }

    #[test]
    fn cells_are_labelled_by_what_identifies_them() {
        let cells = json!([{"method": "usleep", "target_ns": 1000, "cpu_fraction": 0.1}]);
        assert_eq!(labelled(&cells, &["method", "target_ns"])[0].0, "method usleep, target_ns 1000");
    }

    #[test]
    fn wall_time_that_was_set_is_noted_with_how_far_and_which_way() {
        let text = |before, after| wall_time_set(before, after).map(|note| note.text);
        let found = text((1_000, 1_200), (3_600_000_001_000, 3_600_000_001_200)).expect("set by an hour");
        assert!(found.starts_with("Wall time was set forward by 3600 s"), "{found}");
        let found = text((9_000_000, 9_000_400), (2_000_000, 2_000_400)).expect("set by 7 ms");
        assert!(found.starts_with("Wall time was set back by 7.00 ms"), "{found}");
    }

    #[test]
    fn two_readings_that_may_be_of_one_time_or_differ_by_less_than_a_step_are_no_note() {
        assert_eq!(wall_time_set((0, 9_000_000), (8_000_000, 20_000_000)), None);
        assert_eq!(wall_time_set((0, 100), (900_000, 900_100)), None);
        let now = clocks::wall_ahead_of_boottime_ns();
        assert!(now.0 <= now.1);
    }

    #[test]
    fn an_interruption_outweighs_a_limit() {
        let crossed = Verdict { expression: String::new(), crossed: Some(true), cells: Vec::new() };
        assert_eq!(conclude(true, std::slice::from_ref(&crossed)), Exit::Interrupted);
        assert_eq!(conclude(false, &[crossed]), Exit::LimitCrossed);
        let undecided = Verdict { expression: String::new(), crossed: None, cells: Vec::new() };
        assert_eq!(conclude(false, &[undecided]), Exit::LimitCrossed);
    }
}
