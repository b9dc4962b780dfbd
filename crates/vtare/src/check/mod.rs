//! `vtare check`: how far can time be trusted on this machine, why, and what to change (docs/methods/check.md).
//!
//! The instruments measure; pure functions turn their figures into sentences, advice and a page.

mod advice;
mod causes;
mod conditions;
mod figures;
mod findings;
mod page;
mod published;
mod resolution;
mod trust;
mod utc;

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use published::published_sleeps;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use vtare_clock::ClockInfo;
use vtare_sys::facts::MachineFacts;
use vtare_sys::{clocks, sched};
use vtare_units::{Span, Wall};

use crate::answer::Shape;
use crate::clock::witnesses;
use crate::context::Context;
use crate::counter::Counter;
use crate::document::{AnswerDocument, Program, Shared};
use crate::failure::{Exit, Failure};
use crate::instrument::{Instrument, Note, Session, conclude, fresh_seed};
use crate::lab;
use crate::limits::Verdict;
use crate::noise::{self, Noise, NoiseCell, NoiseParameters, Spin};
use crate::output::{print, print_json, to_json};
use crate::own_program::proc_note;
use crate::quantities::positive;
use crate::sentences::check as words;
use crate::sleep::Sleep;
use crate::timer::Timer;

use conditions::Condition;
use figures::{Cells, Measured};
use resolution::Resolution;
use trust::{ClockError, Trust};
use utc::UtcCheck;

/// The error that a duration may have to be called trusted.
const LEVEL: f64 = 0.01;
/// The least gap that the trust in durations counts, in ns; ten readings where those take longer.
const LEAST_GAP_NS: f64 = 300.0;
/// Most CPUs that are weighed: more would leave too little time for each.
const MOST_CPUS: usize = 4;

/// Arguments of `vtare check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArguments {
    /// Print one JSON document on stdout instead of the page
    #[arg(long)]
    json: bool,

    /// Show all reasons, advice and tables
    #[arg(long, short)]
    verbose: bool,

    /// Exit with code 1 where this is so or unknown, as in 'status worse than usable' or 'resolution_percent > 5'; may
    /// be given more than once
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,

    /// Check other machines over SSH, or those of a file of hosts, and rank them: a,me@b:2222 or hosts.toml
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["verbose", "fail_if", "seed", "witness"])]
    on: Option<String>,

    /// Instead measure what the kernel's services cost on each platform here, and write that card for `vtare weigh
    /// --card` elsewhere; needs root
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["json", "verbose", "fail_if", "on", "witness", "seconds", "seed"])]
    write: Option<PathBuf>,

    /// Also ask hosts that run `vtare serve` whether UTC is right here; of three on different hosts one may be wrong
    #[arg(long, value_name = "HOST:PORT,...")]
    witness: Option<String>,

    /// File with the key of these hosts [default: the variable VTARE_KEY]
    #[arg(long, value_name = "FILE", requires = "witness")]
    key_file: Option<PathBuf>,

    /// About how long it may take, from 5 s; a longer time makes the figures more certain
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = positive)]
    seconds: f64,

    /// Seed of every random order [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,
}

/// Measures each part, then shows what follows from it.
///
/// # Errors
/// For a time too short to measure in, and where the machine does not even have its clock.
pub(crate) fn command(arguments: &CheckArguments, context: &Context) -> Result<Exit, Failure> {
    if let Some(file) = &arguments.write {
        let mut form = OsString::from("card=");
        form.push(file);
        let quiet = context.is_quiet().then(|| OsString::from("--quiet"));
        // Ten rounds end it before, but where platforms are many and slow.
        let words = ["--write".into(), form, "--max-time".into(), "5min".into()];
        return lab::start("weigh", words.into_iter().chain(quiet));
    }
    let seconds = arguments.seconds;
    if !(5.0..=3_600.0).contains(&seconds) {
        return Err(Failure::value("--seconds", seconds, "5 to 3600"));
    }
    if let Some(hosts) = &arguments.on {
        let seconds = seconds.to_string();
        let flags = [arguments.json.then_some("--json"), context.is_quiet().then_some("--quiet")];
        let words = ["check", hosts, "--seconds", &seconds].into_iter().chain(flags.into_iter().flatten());
        return lab::start("fleet", words.map(OsString::from));
    }
    if let (Some(limit), None) = (conditions::about_utc(&arguments.fail_if), &arguments.witness) {
        return Err(Failure::Input(words::needs_witnesses(limit)));
    }
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let mut machine = MachineFacts::read();
    let clock = context.clock();
    let asked = arguments.witness.as_deref().map(|list| witnesses(list, arguments.key_file.as_deref())).transpose()?;
    let utc = asked.map(|witnesses| UtcCheck::ask(&witnesses, clock));
    let (started, from) = (clocks::now::<Wall>(), clock.now());
    let mut parts = Parts::new(context, seed);

    // About 1.4, 6, 1.5 and 8 s of the default 20.
    let timer = parts.measure::<Timer>(json!({"samples": 2_000_000, "seconds": seconds * 0.006}));
    let sleep = parts.measure::<Sleep>(json!({
        "target_ns": [findings::VERDICT_TARGET_NS, findings::OTHER_TARGETS_NS[0], findings::OTHER_TARGETS_NS[1]],
        "samples": 2_000, "seconds": seconds * 0.02,
    }));
    let batches = ((seconds * 0.4).round() as u64).max(2);
    let counter = parts.measure::<Counter>(json!({"batches": batches, "calls": 5, "max_exponent": 1, "unit_ms": 10.0}));
    let mut cells = Cells { timer, sleep, counter, noise: None };
    let clock_info = clock.info();
    let read_cost_ns = Measured::of(&clock_info, &cells, None).read_cost_ns();
    let series = parts.spin(seconds * 0.4, read_cost_ns);
    if let Some((_, noise)) = &series {
        cells.noise = Some(noise.clone());
    }
    let trust = series.and_then(|(spins, _)| weigh(&spins, &clock_info, read_cost_ns));

    let elapsed = clock.now() - from;
    machine.note_steal_after();
    let figures = Measured::of(&clock_info, &cells, trust);
    let resolution = figures.trust.as_ref().and_then(|trust| Resolution::of(&resolution::rows(trust)));
    let findings = findings::findings(&figures, resolution.as_ref());
    let causes = causes::causes(&figures, resolution.as_ref());
    let advice = advice::advice(&figures, &machine, advice::Surroundings::look(), &causes);
    let standings = published::standings(&figures);
    let first_line = findings::first_line(resolution.as_ref());
    let limits = conditions::judge(&arguments.fail_if, resolution.as_ref(), utc.as_ref());
    if arguments.json {
        let status = resolution.map(|found| found.status);
        let visible = resolution.and_then(|found| found.visible);
        print_json(&to_json(&Document {
            schema: SCHEMA,
            parameters: CheckParameters { seconds },
            seed,
            answer: AnswerDocument {
                text: first_line.clone(),
                status,
                limits: causes.iter().map(|cause| cause.text.clone()).collect(),
                advice: advice.clone(),
            },
            status,
            resolution_percent: visible.map(|(share, _)| share * 100.0),
            resolution_from_ns: visible.map(|(_, from_ns)| from_ns),
            rests_on: resolution.map(|found| found.rests_on),
            causes: &causes,
            limits: &limits,
            verdict: findings::verdict(&first_line, &findings),
            findings: &findings,
            advice: &advice,
            standings: &standings,
            utc: utc.as_ref(),
            durations: figures.trust.as_ref(),
            cells: &cells,
            notes: [&parts.notes[..], &parts.instrument_notes[..]].concat(),
            shared: Shared {
                program: Program::OWN,
                interrupted: parts.interrupted,
                started_unix_ns: started.as_nanos(),
                elapsed_ns: elapsed.as_nanos(),
                machine: &machine,
                clock: &clock.info(),
            },
        }))?;
    } else if arguments.fail_if.contains(&Condition::Help) {
        print(&conditions::listed(resolution.as_ref(), utc.as_ref()))?;
    } else {
        let page = page::Page {
            machine: &machine,
            figures: &figures,
            resolution: resolution.as_ref(),
            causes: &causes,
            findings: &findings,
            advice: &advice,
            standings: &standings,
            utc: utc.as_ref(),
            notes: &parts.notes,
            interrupted: parts.interrupted,
        };
        let shape = Shape::here();
        print(&if arguments.verbose { page.whole(shape) } else { page.short(shape) })?;
    }
    Ok(conclude(parts.interrupted, &limits))
}

pub(crate) const SCHEMA: &str = "vtare.check/1";

/// What `--json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    /// What was asked for.
    parameters: CheckParameters,
    /// Seed of every random order.
    seed: u64,
    answer: AnswerDocument<resolution::Status, advice::Advice>,
    /// How good this machine is for timings now; null where it could not be judged.
    status: Option<resolution::Status>,
    /// The smallest difference between two timings that is visible, %; null where not even 50 % is.
    resolution_percent: Option<f64>,
    /// The length of timings from which on it is visible, ns.
    resolution_from_ns: Option<i64>,
    /// The timings that limit the verdict, with their error.
    rests_on: Option<resolution::Row>,
    /// What limits the verdict, the greatest share of the time first.
    causes: &'a [causes::Cause],
    /// One entry for each `--fail-if`.
    limits: &'a [Verdict],
    /// The verdict and all findings in sentences.
    verdict: String,
    /// Each finding, with its figure.
    findings: &'a [findings::Finding],
    /// What to change on this machine.
    advice: &'a [advice::Advice],
    /// Where the figures stand among published ones.
    standings: &'a [published::Standing],
    /// UTC here beside what witnesses confirm; null without `--witness`.
    utc: Option<&'a UtcCheck>,
    /// How far durations can be trusted, by their length; null where that was not measured.
    durations: Option<&'a trust::Trust>,
    /// The figures of each instrument.
    cells: &'a Cells,
    /// Remarks on how the figures came about.
    notes: Vec<Note>,
    #[serde(flatten)]
    shared: Shared<'a>,
}

#[derive(Serialize, JsonSchema)]
struct CheckParameters {
    /// About how long it might take, s.
    seconds: f64,
}

/// The parts that are measured one after another. A part that fails leaves a note, not an end: the others are still
/// shown much.
struct Parts<'a> {
    context: &'a Context,
    seed: u64,
    /// Remarks of the check itself.
    notes: Vec<Note>,
    /// Remarks of the instruments: for the document; on the page they would outweigh the figures.
    instrument_notes: Vec<Note>,
    interrupted: bool,
}

impl<'a> Parts<'a> {
    fn new(context: &'a Context, seed: u64) -> Self {
        Self {
            context,
            seed,
            notes: proc_note().into_iter().collect(),
            instrument_notes: Vec::new(),
            interrupted: false,
        }
    }

    /// Measures with one instrument; `None` where it could not or where the user asked to stop before it.
    fn measure<I: Instrument>(&mut self, parameters: Value) -> Option<Vec<I::Cell>> {
        if self.stopped() {
            return None;
        }
        let measured = serde_json::from_value(parameters)
            .map_err(|error| Failure::Machine(error.to_string()))
            .and_then(|parameters| I::resolve(parameters, self.context))
            .and_then(|parameters| I::measure(&parameters, &mut Session::without_samples(self.context, self.seed)));
        match measured {
            Ok(outcome) => {
                self.instrument_notes.extend(outcome.notes);
                self.interrupted |= outcome.interrupted;
                Some(outcome.cells)
            }
            Err(failure) => {
                self.missing(I::NAME, &failure);
                None
            }
        }
    }

    /// Spins on some CPUs for `seconds` in all; gives every gap seen, and the noise cells for gaps as `vtare noise`
    /// counts them.
    fn spin(&mut self, seconds: f64, read_cost_ns: Option<f64>) -> Option<(Vec<Spin>, Vec<NoiseCell>)> {
        if self.stopped() {
            return None;
        }
        match self.try_spin(seconds, read_cost_ns) {
            Ok(found) => Some(found),
            Err(failure) => {
                self.missing(Noise::NAME, &failure);
                None
            }
        }
    }

    fn try_spin(&mut self, seconds: f64, read_cost_ns: Option<f64>) -> Result<(Vec<Spin>, Vec<NoiseCell>), Failure> {
        let allowed = sched::allowed_cpus()?;
        let cpus = chosen(&allowed, MOST_CPUS);
        if cpus.len() < allowed.len() {
            let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
            let text = words::some_cpus(cpus.len(), allowed.len(), list.join(", "));
            self.notes.push(Note::new("some_cpus", text));
        }
        let limit = Span::try_from_secs_f64(seconds / cpus.len() as f64).unwrap_or(Span::ZERO);
        let threshold = Span::from_nanos(LEAST_GAP_NS.max(10.0 * read_cost_ns.unwrap_or(0.0)).round() as i64);
        let reported = NoiseParameters::default().threshold_ns.cast_signed();
        let progress = self.context.progress("noise", limit.as_nanos_unsigned() * cpus.len() as u64);
        let (mut spins, mut cells) = (Vec::new(), Vec::new());
        for (index, cpu) in cpus.iter().enumerate() {
            let passed = index as u64 * limit.as_nanos_unsigned();
            let mut seen = noise::observe(*cpu, limit, threshold, self.context, |elapsed| {
                progress.set(passed + elapsed.as_nanos_unsigned());
            })?;
            spins.push(seen.spin.clone());
            seen.spin.gaps.retain(|(_, gap)| *gap >= reported);
            cells.push(noise::cell(&seen));
            self.interrupted |= seen.spin.stopped;
            if self.interrupted {
                break;
            }
        }
        Ok((spins, cells))
    }

    fn stopped(&mut self) -> bool {
        self.interrupted |= self.context.stop_requested();
        self.interrupted
    }

    fn missing(&mut self, part: &str, failure: &Failure) {
        self.notes.push(Note::new(&format!("{part}_not_measured"), words::not_measured(part, failure)));
    }
}

/// At most `most` of the CPUs, spread evenly from the first to the last.
fn chosen(cpus: &[usize], most: usize) -> Vec<usize> {
    if cpus.len() <= most {
        return cpus.to_vec();
    }
    (0..most).map(|index| cpus[index * (cpus.len() - 1) / (most - 1)]).collect()
}

/// The trust in durations; `None` where the clock does not state its own error.
fn weigh(spins: &[Spin], clock: &ClockInfo, read_cost_ns: Option<f64>) -> Option<Trust> {
    let fixed_ns = read_cost_ns? + clock.quantum_ns.unwrap_or(0.0);
    trust::weigh(spins, ClockError { fixed_ns, rate: clock.residual_ppm.unwrap_or(0.0) * 1e-6 }, LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cpus_are_all_chosen_and_many_are_spread() {
        assert_eq!(chosen(&[0, 1], 4), [0, 1]);
        assert_eq!(chosen(&(0..128).collect::<Vec<_>>(), 4), [0, 42, 84, 127]);
        assert_eq!(chosen(&[2, 3, 5, 8, 13], 4), [2, 3, 5, 13]);
    }

    #[test]
    fn without_a_cost_of_reading_no_duration_is_judged() {
        let quiet = [Spin { elapsed: 1_000_000_000, ..Spin::default() }];
        let clock = Context::without_signals().clock().info();
        let clock = ClockInfo { quantum_ns: Some(10.0), residual_ppm: Some(0.002), ..clock };
        assert!(weigh(&quiet, &clock, None).is_none());
        let found = weigh(&quiet, &clock, Some(10.0)).expect("a second is enough");
        // 20 ns of 2 us is 1 % and the rate's error comes on top.
        assert_eq!(found.least_ns, Some(5_000));
    }

    #[test]
    fn a_part_after_the_wish_to_stop_is_missing() {
        let context = Context::without_signals();
        context.stop_flag().store(true, std::sync::atomic::Ordering::Relaxed);
        let mut parts = Parts::new(&context, 1);
        assert!(parts.measure::<Timer>(json!({})).is_none());
        assert!(parts.interrupted);
        assert!(parts.spin(1.0, Some(10.0)).is_none());
    }

    #[test]
    fn a_part_that_fails_leaves_a_note_and_null() {
        let context = Context::without_signals();
        let mut parts = Parts::new(&context, 1);
        assert!(parts.measure::<Noise>(json!({"threshold_ns": 1})).is_none());
        assert_eq!(parts.notes[0].id, "noise_not_measured");
        assert!(parts.notes[0].text.contains("is 1: use"), "{}", parts.notes[0].text);
        assert!(!parts.interrupted);
    }
}
