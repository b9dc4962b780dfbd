//! `vtare exec`: another program on vtare's clock and sleeps (docs/guide/exec.md).

mod elf;
mod library;
mod program;
mod report;
// Shared with the library's crate, which this binary must not link: it would have its own C functions replaced.
#[path = "../../../preload/src/settings.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod settings;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use vtare_sys::facts::MachineFacts;
use vtare_sys::{kernel_file, process, sched};
use vtare_units::Span;

use crate::answer::{Change, VerdictLevel};
use crate::document::AnswerDocument;
use crate::failure::{Exit, Failure};
use crate::output::to_json;
use program::{Program, Refusal};
use report::{Counts, Report};
use settings::{ClockChoice, Settings, SleepChoice};
use vtare_sys::whole_file::WholeFile;

/// Arguments of `vtare exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit code is the program's own; 128 + N where signal N ended it and --report was given,\n\
    126 where it is not a program that can be started, 127 where it is not found.")]
pub(crate) struct ExecArguments {
    /// Who answers the clock functions
    #[arg(long, value_enum, default_value_t)]
    clock: ClockChoice,

    /// How sleeps are slept
    #[arg(long, value_enum, default_value_t)]
    sleep: SleepChoice,

    /// Timer slack of the program in ns: how late the kernel may wake it to save wake-ups; 0 for the system's own
    #[arg(
        long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000)
    )]
    slack_ns: i64,

    /// Count calls, time spent and lateness; print them on stderr at the end, or into FILE (as JSON where it ends in
    /// .json)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    report: Option<PathBuf>,

    /// Start the program as it is, without any of this: what the others are compared with
    #[arg(long, conflicts_with_all = ["clock", "sleep", "slack_ns", "report"])]
    plain: bool,

    /// End the program (SIGTERM) when what started it ends
    #[arg(long)]
    with_parent: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl ValueEnum for ClockChoice {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Auto => "The CPU's counter where the kernel's clock costs a system call, else the kernel",
            Self::Ordered => "The counter, ordered as the kernel's own reading is",
            Self::Unordered => {
                "The counter, unordered: half the cost, within some 10 ns of its place among the instructions"
            }
            Self::Os => "The kernel",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for SleepChoice {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Adaptive => "In the kernel until a learned margin before the deadline, then spinning",
            Self::TwoPhase => "In the kernel until one timer tick before the deadline, then spinning",
            Self::Spin => "Spinning, for the last 10 ms at most",
            Self::Os => "In the kernel",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

/// Starts the program. Without a report this process becomes it; with one it waits for it.
///
/// # Errors
/// Where the program or the library is missing, or the program cannot be started.
pub(crate) fn command(arguments: &ExecArguments) -> Result<Exit, Failure> {
    let (name, rest) = arguments.program.split_first().expect("clap wants one word at least");
    let program = program::find(name, &program::search_path())
        .map_err(|refusal| with_hint(Failure::from(refusal), arguments.report.as_deref()))?;
    if arguments.with_parent && !process::end_with_parent()? {
        return Ok(Exit::Measured);
    }
    if arguments.plain {
        return Err(not_started(&program, &Command::new(&program.file).arg0(name).args(rest).exec()));
    }
    let own = crate::own_program::path()?;
    let library = library::find(std::env::var_os(library::VARIABLE).as_deref(), &own).map_err(Failure::Machine)?;
    if let Some(limit) = &program.limit {
        message!("vtare: {}", limit.sentence(&program.run_by));
    }
    let sink = arguments.report.as_deref().map(Sink::open).transpose()?;
    let counts = arguments.report.as_ref().map(|_| Counts::create()).transpose();
    let counts = counts.map_err(|error| Failure::Machine(format!("cannot make a file to count in: {error}")))?;
    let settings =
        Settings { clock: arguments.clock, sleep: arguments.sleep, report: counts.as_ref().map(Counts::path) };
    // Kept by the kernel across fork and exec: every thread of the program begins with it.
    if let Err(error) = sched::set_timer_slack(Span::from_nanos(arguments.slack_ns)) {
        message!("vtare: {error}");
    }
    let mut start = Command::new(&program.file);
    start.arg0(name).args(rest).env(settings::VARIABLE, settings.to_string());
    if !program.limit.as_ref().is_some_and(program::Limit::rejects_library) {
        let present = std::env::var_os("LD_PRELOAD");
        start.env("LD_PRELOAD", library::preload_list(&library, present.as_deref()));
    }
    match (counts, sink) {
        (Some(counts), Some(to)) => run_and_report(start, &program, &counts, to),
        _ => Err(not_started(&program, &start.exec())),
    }
}

fn not_started(program: &Program, error: &std::io::Error) -> Failure {
    let message = format!("{}: cannot be started: {error}", program.file.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::NotFound(message).into(),
        _ => Refusal::NotExecutable(message).into(),
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(message) => Self::Program { code: 127, message },
            Refusal::NotExecutable(message) => Self::Program { code: 126, message },
        }
    }
}

fn run_and_report(mut start: Command, program: &Program, counts: &Counts, to: Sink) -> Result<Exit, Failure> {
    // Before the start, so that no signal finds this process without its handlers; the program gets the default ones.
    let mut signals =
        Signals::new(heeded()).map_err(|error| Failure::Machine(format!("cannot listen for signals: {error}")))?;
    let mut child = start.spawn().map_err(|error| not_started(program, &error))?;
    let handle = signals.handle();
    let pid = rustix::process::Pid::from_child(&child);
    let forwarder = std::thread::spawn(move || {
        for signal in signals.forever() {
            // A terminal sends SIGINT and SIGQUIT to the program too; twice would be once too often.
            if let Some(signal) =
                rustix::process::Signal::from_named_raw(signal).filter(|_| ![SIGINT, SIGQUIT].contains(&signal))
            {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    });
    let status = wait(&mut child)?;
    handle.close();
    forwarder.join().map_err(|_| Failure::Machine("the thread that forwards signals has failed".to_owned()))?;
    let report = counts.read().map_err(|error| Failure::Machine(format!("cannot read the counts: {error}")))?;
    warn_if_empty(&report, program);
    to.write(&report)?;
    Ok(Exit::Program(code_of(status)))
}

/// The signals that are caught while the program runs: those that this process does not ignore, so that the program,
/// which inherits what is ignored (nohup), keeps it.
fn heeded() -> Vec<i32> {
    let status = kernel_file::text("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok())
        .unwrap_or_default();
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    all.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    child.wait().map_err(|error| Failure::Machine(format!("cannot wait for the program: {error}")))
}

/// The exit code as shells report it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// A program that was not found may be the file that was meant for the report.
fn with_hint(failure: Failure, report: Option<&Path>) -> Failure {
    match failure {
        Failure::Program { code: 127, message } if report == Some(Path::new("-")) => Failure::Program {
            code: 127,
            message: format!("{message}; the file of --report stands behind an '=': --report=FILE"),
        },
        other => other,
    }
}

/// Where the report goes.
enum Sink {
    /// Standard error.
    Terminal,
    /// A file, and whether as JSON.
    File(WholeFile, bool),
}

impl Sink {
    /// Opens it before the program is started: a wrong path is refused while nothing has been done yet.
    fn open(to: &Path) -> Result<Self, Failure> {
        if to.as_os_str() == "-" {
            return Ok(Self::Terminal);
        }
        let file = WholeFile::create(to).map_err(|error| {
            Failure::Input(format!(
                "--report: cannot write {}: {error}: name a file in a directory that takes it",
                to.display()
            ))
        })?;
        Ok(Self::File(file, to.extension().is_some_and(|extension| extension == "json")))
    }

    fn write(self, report: &Report) -> Result<(), Failure> {
        let (file, json) = match self {
            Self::Terminal => {
                crate::message::on_stderr(format_args!("{}", report.text()));
                return Ok(());
            }
            Self::File(file, json) => (file, json),
        };
        let text = if json {
            format!(
                "{:#}\n",
                to_json(&Document { report, answer: report.answer().document(), machine: MachineFacts::read() })
            )
        } else {
            report.text()
        };
        let target = file.target().display().to_string();
        let written = file.handle().and_then(|mut handle| handle.write_all(text.as_bytes())).and_then(|()| file.keep());
        written.map_err(|error| Failure::Machine(format!("cannot write the report {target}: {error}")))
    }
}

/// The report for programs.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    answer: AnswerDocument<VerdictLevel, Change>,
    machine: MachineFacts,
}

fn warn_if_empty(report: &Report, program: &Program) {
    if report.is_empty() {
        let why =
            if program.limit.is_some() { "" } else { ": messages of the dynamic linker (ld.so) above give the reason" };
        message!("vtare: no process loaded the library, so nothing was counted{why}");
    }
}
