//! `vtare selftest`: injects known faults and shows whether each instrument finds them (docs/guide/selftest.md).
//!
//! What is measured runs as processes of this program, or on the simulated machine and path that its logic is tested
//! on. Network namespaces, where there may be some, end with the process.

mod bench;
mod finding;
mod network;
mod program;
mod simulated;
mod stolen;
mod thief;

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde::Serialize;
use vtare_sys::facts::MachineFacts;
use vtare_sys::proc::Snapshot;
use vtare_sys::{clocks, process, sched};
use vtare_units::{Monotonic, Span, Wall};

use crate::answer::{Answer, Change, Shape, VerdictLevel};
use crate::context::Context;
use crate::document::{AnswerDocument, Program};
use crate::failure::{Exit, Failure};
use crate::instrument::fresh_seed;
use crate::nearest::instead_of;
use crate::output::{print, print_json, to_json};
use crate::quantities::show_bit_rate;
use crate::sentences::selftest as words;
use crate::table::{Table, percent, time};
use crate::terminal;
use bench::Bench;
use finding::{Range, Trial};
use network::Network;

/// A machine that does other work can spoil an injection: it is then made anew, so often at most.
const ATTEMPTS: u32 = 3;
/// Where other programs use more of a CPU than this, nobody can take a known share of it.
const MOST_TAKEN: f64 = 0.2;

/// Arguments of `vtare selftest`.
#[derive(Debug, clap::Args)]
pub(crate) struct SelftestArguments {
    /// Fewer and shorter measurements: about 20 s instead of one to two minutes
    #[arg(long)]
    quick: bool,

    /// Only these faults, by the names of the table
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,

    /// Seed of all that is random, from 0 to 2^53-1 [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,

    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,

    /// Claim this fault without injecting it, which must end with exit code 1
    #[arg(long, value_name = "NAME", hide = true)]
    leave_out: Option<String>,

    /// This process has network and mount namespaces of its own
    #[arg(long, hide = true)]
    isolated: bool,
}

/// What injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    SimulatedMachine,
    SimulatedPath,
    StealingThread,
    EmulatedLink,
}

/// The unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
enum Unit {
    #[serde(rename = "ns")]
    Time,
    #[serde(rename = "share")]
    Share,
    #[serde(rename = "bit/s")]
    Rate,
    #[serde(rename = "B")]
    Size,
    #[serde(rename = "Hz")]
    Frequency,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Time => time(Some(value)),
            Self::Share => percent(Some(value)),
            Self::Rate => show_bit_rate(value),
            Self::Size => format!("{:.1} kB", value / 1e3),
            Self::Frequency => format!("{:.3} MHz", value / 1e6),
        }
    }

    fn show_range(self, range: Range) -> String {
        let [low, high] = [range.0, range.1].map(|end| self.show(end));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// A fault, what injects it and what has to find it.
struct Fault {
    name: &'static str,
    what: &'static str,
    by: By,
    instrument: &'static str,
    unit: Unit,
    /// Whether it takes too long for `--quick`.
    slow: bool,
    /// Injects and measures; `None` where the instrument gave no interval.
    inject: fn(&Bench<'_>) -> Result<Option<Trial>, Failure>,
}

/// In the order of the table.
const FAULTS: [Fault; 12] = [
    Fault {
        name: "counter-rate",
        what: "the CPU's counter does not run at the rate in its name",
        by: By::SimulatedMachine,
        instrument: "clock",
        unit: Unit::Frequency,
        slow: false,
        inject: simulated::counter_rate,
    },
    Fault {
        name: "simulated-lateness",
        what: "the kernel wakes sleepers late",
        by: By::SimulatedMachine,
        instrument: "sleep",
        unit: Unit::Time,
        slow: false,
        inject: simulated::lateness,
    },
    Fault {
        name: "simulated-delay",
        what: "round trips take longer",
        by: By::SimulatedPath,
        instrument: "rtt",
        unit: Unit::Time,
        slow: false,
        inject: simulated::delay,
    },
    Fault {
        name: "simulated-loss",
        what: "packets are lost both ways",
        by: By::SimulatedPath,
        instrument: "rtt",
        unit: Unit::Share,
        slow: false,
        inject: simulated::loss,
    },
    Fault {
        name: "simulated-bandwidth",
        what: "cross traffic fills a part of a link",
        by: By::SimulatedPath,
        instrument: "avb",
        unit: Unit::Rate,
        slow: false,
        inject: simulated::bandwidth,
    },
    Fault {
        name: "theft",
        what: "a thread takes the CPU",
        by: By::StealingThread,
        instrument: "noise",
        unit: Unit::Share,
        slow: false,
        inject: stolen::theft,
    },
    Fault {
        name: "lateness",
        what: "a thread has the CPU when sleeps end",
        by: By::StealingThread,
        instrument: "sleep",
        unit: Unit::Time,
        slow: false,
        inject: stolen::lateness,
    },
    Fault {
        name: "variation",
        what: "a thread interrupts one call in 15",
        by: By::StealingThread,
        instrument: "counter",
        unit: Unit::Share,
        slow: false,
        inject: stolen::variation,
    },
    Fault {
        name: "delay",
        what: "a link delays packets both ways",
        by: By::EmulatedLink,
        instrument: "rtt",
        unit: Unit::Time,
        slow: false,
        inject: network::delay,
    },
    Fault {
        name: "loss",
        what: "a link loses requests",
        by: By::EmulatedLink,
        instrument: "rtt",
        unit: Unit::Share,
        slow: false,
        inject: network::loss,
    },
    Fault {
        name: "bandwidth",
        what: "cross traffic fills a part of a link",
        by: By::EmulatedLink,
        instrument: "avb",
        unit: Unit::Rate,
        slow: false,
        inject: network::bandwidth,
    },
    Fault {
        name: "buffer",
        what: "a link has a short buffer",
        by: By::EmulatedLink,
        instrument: "path",
        unit: Unit::Size,
        slow: true,
        inject: network::buffer,
    },
];

/// Whether the fault was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Found,
    Missed,
    Skipped,
}

/// One row.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Row {
    /// Its name on the command line.
    name: &'static str,
    /// What is wrong.
    fault: &'static str,
    /// What injects it.
    by: By,
    /// What has to find it.
    instrument: &'static str,
    /// The unit of the values.
    unit: Unit,
    /// The least and the greatest size of what was injected; null where it was skipped.
    injected: Option<Range>,
    /// What is found without the fault.
    without: Option<f64>,
    /// What was found.
    found: Option<f64>,
    /// The interval that was stated; null where none was.
    interval: Option<Range>,
    /// Whether it was found.
    verdict: Verdict,
    /// How often it was injected.
    attempts: u32,
    /// Why it was skipped, or why there is no interval.
    reason: Option<String>,
}

pub(crate) const SCHEMA: &str = "vtare.selftest/1";

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Document<'d> {
    schema: &'static str,
    answer: AnswerDocument<VerdictLevel, Change>,
    program: Program,
    machine: &'d MachineFacts,
    /// Seed of every random order.
    seed: u64,
    /// Faults that take long were left out.
    quick: bool,
    /// Each fault.
    faults: &'d [Row],
    /// How many were found.
    found: usize,
    /// How many were missed.
    missed: usize,
    /// How many could not be injected here.
    skipped: usize,
    /// Whether a signal ended it early.
    interrupted: bool,
    /// Wall time of the start, ns since 1970.
    started_unix_ns: u64,
    /// How long it took, s.
    elapsed_s: f64,
}

/// Injects the faults. Exit code 1 where one was missed, 3 where none could be injected.
///
/// # Errors
/// For an unknown name, and where stdout cannot be written.
pub(crate) fn command(arguments: &SelftestArguments, context: &Context) -> Result<Exit, Failure> {
    let chosen = chosen(arguments)?;
    let linked = chosen.iter().any(|fault| fault.by == By::EmulatedLink);
    let mut no_network = None;
    if linked && !arguments.isolated {
        match namespaces() {
            Ok(flags) => return isolated(flags),
            Err(reason) => no_network = Some(words::no_namespaces(reason)),
        }
    }
    if arguments.isolated && !process::end_with_parent()? {
        return Ok(Exit::Interrupted);
    }
    let (started, from) = (clocks::now::<Wall>(), clocks::now::<Monotonic>());
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let progress = context.progress("selftest", chosen.len() as u64);
    // Kept until the end: the responder stops where it is dropped.
    let network = match (linked, &no_network) {
        (true, None) => Network::make().map_err(|reason| no_network = Some(reason)).ok(),
        _ => None,
    };
    let cpu = sched::allowed_cpus()?.last().copied().unwrap_or_default();
    let mut rows = Vec::new();
    for (index, fault) in chosen.iter().enumerate() {
        if context.stop_requested() {
            break;
        }
        progress.label(fault.name);
        let bench = Bench {
            context,
            quick: arguments.quick,
            repeats: if arguments.quick { 3 } else { 5 },
            cpu,
            seed,
            broken: arguments.leave_out.as_deref() == Some(fault.name),
        };
        rows.push(match &no_network {
            Some(reason) if fault.by == By::EmulatedLink => skipped(fault, reason),
            _ => attempt(fault, bench),
        });
        progress.set(index as u64 + 1);
    }
    drop((progress, network));
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let (found, missed) = (count(Verdict::Found), count(Verdict::Missed));
    let interrupted = context.stop_requested();
    let elapsed_s = (clocks::now::<Monotonic>() - from).as_secs_f64();
    if arguments.json {
        print_json(&to_json(&Document {
            schema: SCHEMA,
            answer: answer(&rows).document(),
            program: Program::OWN,
            machine: &MachineFacts::read(),
            seed,
            quick: arguments.quick,
            faults: &rows,
            found,
            missed,
            skipped: count(Verdict::Skipped),
            interrupted,
            started_unix_ns: started.as_nanos(),
            elapsed_s,
        }))?;
    } else {
        print(&page(&rows, seed, elapsed_s))?;
    }
    Ok(match (interrupted, missed, found) {
        (true, ..) => Exit::Interrupted,
        (false, 0, 0) => Exit::Reported(3),
        (false, 0, _) => Exit::Measured,
        (false, ..) => Exit::LimitCrossed,
    })
}

/// The faults that the command line names.
fn chosen(arguments: &SelftestArguments) -> Result<Vec<&'static Fault>, Failure> {
    let names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
    for name in arguments.only.iter().chain(&arguments.leave_out) {
        if !names.contains(&name.as_str()) {
            return Err(Failure::Input(format!("unknown fault '{name}'{}", instead_of(name, &names))));
        }
    }
    let wanted = |fault: &&Fault| match arguments.only.is_empty() {
        true => !(arguments.quick && fault.slow),
        false => arguments.only.iter().any(|name| name == fault.name),
    };
    Ok(FAULTS.iter().filter(wanted).collect())
}

/// The options of `unshare` by which this user gets network and mount namespaces, or why none does.
fn namespaces() -> Result<&'static [&'static str], String> {
    let mut reason = String::new();
    for flags in [&["--net", "--mount"][..], &["--user", "--map-current-user", "--keep-caps", "--net", "--mount"]] {
        let tried = Command::new("unshare").args(flags).args(["ip", "link"]).stdin(Stdio::null()).output();
        match tried {
            Ok(output) if output.status.success() => return Ok(flags),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().clone_into(&mut reason),
            Err(error) => reason = format!("unshare: {error}"),
        }
    }
    Err(format!("{reason} (root may make them, or every user where the kernel lets it)"))
}

/// This command again, in namespaces of its own.
fn isolated(flags: &[&str]) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::Machine(format!("cannot run this program anew: {error}"));
    std::io::stdout().flush().map_err(failed)?;
    let own = crate::own_program::path()?;
    let status = Command::new("unshare")
        .args(flags)
        .arg(own)
        .args(std::env::args_os().skip(1))
        .arg("--isolated")
        .status()
        .map_err(failed)?;
    Ok(Exit::Reported(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(130)))
}

fn row(fault: &Fault, verdict: Verdict, attempts: u32, reason: Option<String>) -> Row {
    Row {
        name: fault.name,
        fault: fault.what,
        by: fault.by,
        instrument: fault.instrument,
        unit: fault.unit,
        injected: None,
        without: None,
        found: None,
        interval: None,
        verdict,
        attempts,
        reason,
    }
}

fn skipped(fault: &Fault, reason: &str) -> Row {
    row(fault, Verdict::Skipped, 0, Some(reason.to_owned()))
}

/// The share of a CPU that all programs use, over half a second in which this one does nothing.
fn taken(cpu: usize) -> Option<f64> {
    let before = Snapshot::take();
    clocks::sleep_until(clocks::now::<Monotonic>() + Span::from_millis(500)).ok()?;
    let times = *Snapshot::take().since(&before).cpus?.get(&cpu)?;
    let used = (times.user + times.system + times.interrupts + times.steal).as_nanos() as f64;
    Some(used / (used + times.idle.as_nanos() as f64))
}

/// Injects a fault until it is found, as often as [`ATTEMPTS`] allows.
fn attempt(fault: &Fault, mut bench: Bench<'_>) -> Row {
    let mut last = row(fault, Verdict::Missed, 0, None);
    for attempts in 1..=ATTEMPTS {
        last = match (fault.inject)(&bench) {
            Ok(Some(Trial { not_injected: Some(why), .. })) => row(fault, Verdict::Skipped, attempts, Some(why)),
            Ok(Some(trial)) => Row {
                injected: Some(trial.injected),
                without: Some(trial.without),
                found: Some(trial.found),
                interval: Some(trial.interval),
                ..row(fault, if trial.is_found() { Verdict::Found } else { Verdict::Missed }, attempts, None)
            },
            Ok(None) => row(fault, Verdict::Missed, attempts, Some(words::no_interval())),
            Err(failure) => row(fault, Verdict::Missed, attempts, Some(failure.to_string())),
        };
        if last.verdict == Verdict::Found || bench.context.stop_requested() {
            break;
        }
        bench.seed = bench.seed.wrapping_add(1_000_003);
    }
    let taken = (last.verdict == Verdict::Missed && fault.by == By::StealingThread).then(|| taken(bench.cpu)).flatten();
    if let Some(share) = taken.filter(|share| *share > MOST_TAKEN) {
        let (cpu, share) = (bench.cpu, percent(Some(share)));
        last.verdict = Verdict::Skipped;
        last.reason = Some(words::cpu_taken(share, cpu));
    }
    last
}

/// Whether the instruments found what they should.
fn answer(rows: &[Row]) -> Answer {
    let of = |verdict| rows.iter().filter(move |row| row.verdict == verdict);
    let [found, missed, skipped] =
        [Verdict::Found, Verdict::Missed, Verdict::Skipped].map(|verdict| of(verdict).count());
    let names: Vec<&str> = of(Verdict::Missed).map(|row| row.name).collect();
    let mut answer = match (found, missed, skipped) {
        (0, 0, _) => Answer::none(words::none_injected()),
        (_, 0, 0) => Answer::new(words::all_found(found)),
        (_, 0, _) => Answer::new(words::found_but_skipped(found, skipped)),
        _ => Answer::new(words::some_missed(missed, found + missed, names.join(", "))),
    };
    for row in rows.iter().filter(|row| row.reason.is_some() || row.verdict == Verdict::Missed) {
        let reason = row.reason.clone().unwrap_or_else(words::not_held);
        answer.limit(words::reason(row.name, reason.trim_end_matches('.')));
    }
    answer
}

fn page(rows: &[Row], seed: u64, elapsed_s: f64) -> String {
    let mut table = Table::new(&["fault", "verdict", "injected", "found", "interval", "found by"], 2);
    for row in rows {
        let verdict = match (row.verdict, row.attempts) {
            (Verdict::Skipped, _) => "skipped".to_owned(),
            (Verdict::Missed, _) => "MISSED".to_owned(),
            (Verdict::Found, 1) => "found".to_owned(),
            (Verdict::Found, attempts) => format!("found ({attempts} attempts)"),
        };
        let range = |range: Option<Range>| range.map_or_else(|| "-".to_owned(), |range| row.unit.show_range(range));
        let found = row.found.map_or_else(|| "-".to_owned(), |found| row.unit.show(found));
        let (name, instrument) = (row.name.to_owned(), row.instrument.to_owned());
        table.row(vec![name, verdict, range(row.injected), found, range(row.interval), instrument]);
    }
    let answer = answer(rows);
    let mut text = answer.first_line(Shape::here()) + &table.render_within(terminal::width());
    for limit in answer.limits() {
        text.push_str(limit);
        text.push('\n');
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let [found, missed, skipped] = [Verdict::Found, Verdict::Missed, Verdict::Skipped].map(count);
    text + &words::summary(found, missed, skipped, elapsed_s, seed) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench<'a>(context: &'a Context, broken: bool) -> Bench<'a> {
        Bench { context, quick: true, repeats: 3, cpu: 0, seed: 7, broken }
    }

    fn simulated() -> impl Iterator<Item = &'static Fault> {
        FAULTS.iter().filter(|fault| matches!(fault.by, By::SimulatedMachine | By::SimulatedPath))
    }

    #[test]
    fn every_fault_of_the_simulated_machine_and_path_is_found_with_every_seed() {
        let context = Context::without_signals();
        for fault in simulated() {
            for seed in 0..5 {
                let row = attempt(fault, Bench { seed, ..bench(&context, false) });
                assert_eq!(row.verdict, Verdict::Found, "{row:?}");
            }
        }
    }

    #[test]
    fn a_fault_that_is_claimed_and_not_injected_is_missed() {
        let context = Context::without_signals();
        for fault in simulated() {
            let row = attempt(fault, bench(&context, true));
            assert_eq!((row.verdict, row.attempts), (Verdict::Missed, ATTEMPTS), "{row:?}");
        }
    }

    #[test]
    fn the_page_names_what_was_found_missed_and_skipped() {
        let fault = &FAULTS[5];
        let trial = Row {
            injected: Some(Range(0.295, 0.305)),
            found: Some(0.3012),
            interval: Some(Range(0.299, 0.3034)),
            ..row(fault, Verdict::Found, 2, None)
        };
        let text = page(&[trial, skipped(&FAULTS[8], "no network namespaces here")], 5, 1.25);
        assert!(
            text.contains("theft  found (2 attempts)  29.5 % to 30.5 %  30.1 %  29.9 % to 30.3 %     noise"),
            "{text}"
        );
        assert!(text.starts_with("Every fault that could be injected here was found (1); 1 could not be.\n"), "{text}");
        assert!(text.contains("delay: no network namespaces here.\n"), "{text}");
        assert!(text.ends_with("1 found, 0 missed, 1 skipped in 1.2 s; seed 5\n"), "{text}");
    }
}
