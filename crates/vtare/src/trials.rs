//! `vtare trials`: runs programs one at a time or at once and measures each, for `vtare ab` (docs/guide/change.md).
//!
//! The first line on stdout states the machine; then one JSON document a line on stdin asks for one trial, and one line
//! on stdout answers it. The program that starts the others is small and does nothing else, so that neither the memory
//! nor the wake-ups of an interpreter are in what is measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufRead as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, test_kill_process_group, wait, waitid,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vtare_sys::facts::MachineFacts;
use vtare_sys::perf::Counts;
use vtare_sys::proc::{Difference, Schedstat, Snapshot};
use vtare_sys::{clocks, kernel_file, process, sched};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::context::Context;
use crate::events::{Events, Happened};
use crate::failure::{Exit, Failure};
use crate::output::{print_on, to_json};

/// How long a request to stop may go unseen while programs run.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What this program may be late by without being stopped itself.
const STALL: Span = Span::from_millis(200);

/// How long processes that a program started may go on after its end.
const GRACE: Span = Span::from_millis(50);
/// After which nothing is waited for that a signal does not end.
const LONGEST_END: Span = Span::from_secs(2);
const LOOK_AT_GROUP_EVERY: Span = Span::from_millis(5);

/// Arguments of `vtare trials`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrialsArguments {
    /// Carry out this one trial (a JSON document); what its programs print as errors goes to stderr
    #[arg(long, value_name = "JSON")]
    request: Option<String>,
}

/// Programs that run at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    programs: Vec<Program>,
    /// What runs longer is killed.
    most_s: f64,
    /// What prints more into one of its files is killed; none named: it may print any amount.
    #[serde(default)]
    most_printed_byte: Option<u64>,
    /// Whether what its programs ask of the kernel is counted, which slows system calls.
    #[serde(default)]
    counts: bool,
    /// What its programs print as errors goes to this program's stderr.
    #[serde(skip)]
    shows_errors: bool,
}

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    words: Vec<String>,
    /// CPUs that it may use; none named: all.
    #[serde(default)]
    cpus: Vec<usize>,
    /// Its whole environment; none named: that of this program.
    environment: Option<BTreeMap<String, String>>,
    /// Files that take what it prints; none named: it is thrown away.
    stdout: Option<PathBuf>,
    stderr: Option<PathBuf>,
}

/// What a program did.
#[derive(Debug, Serialize)]
struct Measured {
    /// On CLOCK_MONOTONIC.
    begin_ns: u64,
    /// From the call that starts it until its end is seen.
    wall_ns: u64,
    user_ns: u64,
    system_ns: u64,
    /// Ready to run while its first thread had no CPU; `None` where the kernel does not keep it.
    waited_ns: Option<u64>,
    most_resident_byte: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// `None` where a signal ended it.
    exit_code: Option<i32>,
    signal: Option<i32>,
    /// It ran for longer than was allowed, and was killed.
    timed_out: bool,
    /// It printed more than was allowed, and was killed where that was seen while it ran.
    printed_too_much: bool,
    /// Processes of its group that still ran when it had ended, and were killed then: its time is not that of its work.
    left_behind: usize,
    /// Time in which it was seen stopped (SIGSTOP, a debugger), or in which this program itself did not go on although
    /// it waited for no CPU (a frozen control group, a stalled machine); seen from 250 ms on.
    stopped_ns: u64,
    /// How often each kind of event happened, or why nobody knows; absent where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counted>,
}

/// What a program asked of the kernel.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Counted {
    Happened(Happened),
    Missing(String),
}

/// Why a program did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    ByItself,
    TooLate,
    PrintedTooMuch,
}

/// What went on beside the programs, all CPUs together. `None` where the system does not report it.
#[derive(Debug, Serialize)]
struct Beside {
    steal_ns: Option<u64>,
    /// CPU time of all programs of the machine, those of the trial as well.
    busy_ns: Option<u64>,
    cpu_pressure_ns: Option<u64>,
    io_pressure_ns: Option<u64>,
    /// Time that a CPU quota kept threads of the control group from running.
    quota_ns: Option<u64>,
    span_ns: u64,
}

/// Carries out trials until stdin ends.
///
/// # Errors
/// For a request that is no trial, and where programs cannot be started or waited for.
pub(crate) fn command(arguments: &TrialsArguments, context: &Context) -> Result<Exit, Failure> {
    // What leaves its group by a session of its own becomes a child of this process. gVisor offers that to the first
    // process of a sandbox alone.
    match set_child_subreaper(Some(getpid())) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(Failure::Machine(format!("cannot take over processes that programs leave: {error}"))),
    }
    if !process::end_with_parent()? {
        return Ok(Exit::Interrupted);
    }
    let all = sched::allowed_cpus()?;
    if let Some(request) = &arguments.request {
        return print_on(&format!("{}\n", answer(request, true, &all, context)?)).map(|_| Exit::Measured);
    }
    if print_on(&format!("{}\n", json!({"machine": to_json(&MachineFacts::read())})))?.is_break() {
        return Ok(Exit::Measured);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::Machine(format!("cannot read standard input: {error}")))?;
        let answer = answer(&line, false, &all, context)?;
        if context.stop_requested() {
            return Ok(Exit::Interrupted);
        }
        if print_on(&format!("{answer}\n"))?.is_break() {
            break;
        }
    }
    Ok(Exit::Measured)
}

/// Carries out the trial of a request; what its programs print as errors goes to stderr where `shows_errors`.
fn answer(request: &str, shows_errors: bool, all: &[usize], context: &Context) -> Result<Value, Failure> {
    let mut trial: Trial = serde_json::from_str(request)
        .map_err(|error| Failure::Input(format!("trials: {error}; write one trial a line")))?;
    trial.shows_errors = shows_errors;
    let carried_out = carry_out(&trial, all, context);
    let strays = end_strays();
    match carried_out {
        Ok((mut measured, beside)) => {
            // Of programs that ran at once nobody knows whose they are.
            measured.iter_mut().for_each(|one| one.left_behind += strays);
            Ok(json!({"programs": measured, "beside": to_json(&beside), "least_byte": most_resident_byte()}))
        }
        Err(Failure::Program { code, message }) => Ok(json!({"error": message, "exit_code": code})),
        Err(failure) => Err(failure),
    }
}

/// The most memory that this program held: the kernel counts no program that it started with less.
fn most_resident_byte() -> Option<u64> {
    let status = kernel_file::text("/proc/self/status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: u64| kib * 1024)
}

/// `all` are the CPUs that this program may use.
fn carry_out(trial: &Trial, all: &[usize], context: &Context) -> Result<(Vec<Measured>, Beside), Failure> {
    if trial.programs.is_empty() || trial.most_s.is_nan() || trial.most_s <= 0.0 {
        return Err(Failure::Input("trials: a trial lacks its program or time: write both".to_owned()));
    }
    let together = Barrier::new(trial.programs.len());
    let (before, began) = (Snapshot::of_machine(), clocks::now::<Monotonic>());
    // The first one runs on this thread: alone it needs no other.
    let (first, others) = trial.programs.split_first().expect("there is one");
    let measured: Vec<_> = std::thread::scope(|scope| {
        let together = &together;
        let one = |program| scope.spawn(move || measure(program, trial, all, together, context));
        let threads: Vec<_> = others.iter().map(one).collect();
        let first = measure(first, trial, all, together, context);
        let ended = threads.into_iter().map(|thread| thread.join().expect("no thread of this program panics"));
        std::iter::once(first).chain(ended).collect()
    });
    let span = clocks::now::<Monotonic>() - began;
    let measured = measured.into_iter().collect::<Result<_, _>>()?;
    Ok((measured, Beside::of(&Snapshot::of_machine().since(&before), span)))
}

impl Beside {
    fn of(gained: &Difference, span: Span) -> Self {
        let all = |part: fn(&vtare_sys::proc::CpuTimes) -> Span| {
            Some(gained.cpus.as_ref()?.values().map(|times| part(times).as_nanos_unsigned()).sum())
        };
        Self {
            steal_ns: all(|times| times.steal),
            busy_ns: all(|times| times.user + times.system + times.interrupts),
            cpu_pressure_ns: gained.cpu_pressure.map(|it| it.some.as_nanos_unsigned()),
            io_pressure_ns: gained.io_pressure.map(|it| it.some.as_nanos_unsigned()),
            quota_ns: gained.throttled.map(|it| it.time.as_nanos_unsigned()),
            span_ns: span.as_nanos_unsigned(),
        }
    }
}

/// Starts a program on this thread, whose CPUs it inherits, and measures it.
fn measure(
    program: &Program,
    trial: &Trial,
    all: &[usize],
    together: &Barrier,
    context: &Context,
) -> Result<Measured, Failure> {
    let prepared = prepare(program, trial.shows_errors, all);
    // Reached whatever happened: the others wait.
    together.wait();
    let mut prepared = prepared?;
    // Of this thread, which starts the program.
    let events = trial.counts.then(|| Events::open(Counts::FromExec));
    let began = clocks::now::<Monotonic>();
    let child = prepared.spawn().map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Failure::Program { code, message: format!("{}: cannot be started: {error}", program.words[0]) }
    })?;
    // Longer than the clock reaches: without a limit.
    let until = Span::try_from_secs_f64(trial.most_s).and_then(|most| began.checked_add(most));
    let too_much = || trial.most_printed_byte.is_some_and(|most| program.printed_byte() > most);
    let (ended, stopped) = wait_for(&child, until, too_much, context)?;
    let wall = clocks::now::<Monotonic>() - began;
    // Its record is there until it is reaped.
    let waited = kernel_file::text(format!("/proc/{}/schedstat", child.id()));
    let waited_ns = waited.and_then(|text| Schedstat::parse(&text)).map(|it| it.waited.as_nanos_unsigned());
    let (status, used) = process::reap(&child)?;
    let left_behind = end_leftovers(&child);
    let counts = events.map(|events| match events.and_then(|it| it.read().map_err(|error| error.to_string())) {
        Ok(happened) => Counted::Happened(happened),
        Err(reason) => Counted::Missing(reason),
    });
    Ok(Measured {
        begin_ns: began.as_nanos(),
        wall_ns: wall.as_nanos_unsigned(),
        user_ns: used.user.as_nanos_unsigned(),
        system_ns: used.system.as_nanos_unsigned(),
        waited_ns,
        most_resident_byte: used.most_resident_byte,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
        exit_code: status.code(),
        signal: status.signal(),
        timed_out: ended == Ended::TooLate,
        printed_too_much: ended == Ended::PrintedTooMuch || too_much(),
        left_behind,
        stopped_ns: stopped.as_nanos_unsigned(),
        counts,
    })
}

impl Program {
    /// The size of the larger one of the files that take what it prints.
    fn printed_byte(&self) -> u64 {
        let files = [&self.stdout, &self.stderr].into_iter().flatten();
        files.filter_map(|file| std::fs::metadata(file).ok()).map(|facts| facts.len()).max().unwrap_or(0)
    }
}

fn prepare(program: &Program, shows_errors: bool, all: &[usize]) -> Result<Command, Failure> {
    let Some((name, rest)) = program.words.split_first() else {
        return Err(Failure::Input("trials: a program has no words: write its name".to_owned()));
    };
    sched::pin_to(if program.cpus.is_empty() { all } else { &program.cpus })?;
    let into = |file: Option<&Path>| match file {
        None => Ok(Stdio::null()),
        Some(file) => File::create(file)
            .map(Stdio::from)
            .map_err(|error| Failure::Input(format!("trials: cannot write {}: {error}", file.display()))),
    };
    let mut command = Command::new(name);
    // A group of its own: what it leaves behind can be ended with it.
    command.args(rest).process_group(0).stdin(Stdio::null());
    if let Some(environment) = &program.environment {
        command.env_clear().envs(environment);
    }
    command.stdout(into(program.stdout.as_deref())?);
    command.stderr(if shows_errors { Stdio::inherit() } else { into(program.stderr.as_deref())? });
    Ok(command)
}

/// Waits for a program's end, and returns for how long it was stopped; kills it, with its group, where it takes too
/// long, prints too much, or this program is to stop.
fn wait_for(
    child: &Child,
    until: Option<Timestamp<Monotonic>>,
    too_much: impl Fn() -> bool,
    context: &Context,
) -> Result<(Ended, Span), Failure> {
    let failed = |error| Failure::Machine(format!("cannot wait for a program: {error}: needs Linux 5.3 or later"));
    let end = end_of(child).map_err(failed)?;
    let mut stopped = Span::ZERO;
    let mut looked = Look::take();
    loop {
        let polled = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&LOOK_EVERY));
        let has_ended = matches!(polled, Ok(1..));
        // What ends at its first look was not stopped for long: then there is nothing to read.
        if !has_ended || clocks::now::<Monotonic>() - looked.at >= STALL {
            let look = Look::take();
            stopped += look.stopped_since(&looked, !has_ended && is_stopped(child));
            looked = look;
        }
        match polled {
            Ok(1..) => return Ok((Ended::ByItself, stopped)),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        let late = context.stop_requested() || until.is_some_and(|until| clocks::now::<Monotonic>() >= until);
        if late || too_much() {
            end_group(child);
            return Ok((if late { Ended::TooLate } else { Ended::PrintedTooMuch }, stopped));
        }
    }
}

/// What is readable, or closed, once a program has ended.
///
/// gVisor before 2023 knows no descriptors of processes: there a thread waits for the end.
fn end_of(child: &Child) -> Result<OwnedFd, rustix::io::Errno> {
    let id = Pid::from_child(child);
    match pidfd_open(id, PidfdFlags::empty()) {
        Err(rustix::io::Errno::NOSYS) => {}
        opened => return opened,
    }
    let (end, held) = pipe_with(PipeFlags::CLOEXEC)?;
    std::thread::spawn(move || {
        // It stays to be reaped by the thread that started it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(id), options), Err(rustix::io::Errno::INTR)) {}
        drop(held);
    });
    Ok(end)
}

/// When this thread looked at a program, and how long it had waited for a CPU until then.
struct Look {
    at: Timestamp<Monotonic>,
    waited: Option<Span>,
}

impl Look {
    fn take() -> Self {
        let stat = kernel_file::text("/proc/thread-self/schedstat");
        let waited = stat.and_then(|text| Schedstat::parse(&text)).map(|it| it.waited);
        Self { at: clocks::now(), waited }
    }

    /// For how long the program was stopped since an earlier look: all of the time where it `is_stopped`, else what
    /// this thread slept beyond its turn without waiting for a CPU.
    fn stopped_since(&self, earlier: &Self, is_stopped: bool) -> Span {
        let since = self.at - earlier.at;
        if is_stopped {
            return since;
        }
        let waited = self.waited.zip(earlier.waited).map_or(since, |(now, before)| now - before);
        let beyond = since - Span::from_millis(LOOK_EVERY.tv_nsec / 1_000_000) - waited;
        if beyond >= STALL { beyond } else { Span::ZERO }
    }
}

fn is_stopped(child: &Child) -> bool {
    let stat = kernel_file::text(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

fn end_group(child: &Child) {
    // It may have ended meanwhile.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Kills what is left of the group of a program that has ended, and returns how many processes that were. What is about
/// to end by itself (the last program of a pipe that nobody waits for) gets [`GRACE`] for it.
fn end_leftovers(child: &Child) -> usize {
    let group = Pid::from_child(child);
    let until = clocks::now::<Monotonic>() + GRACE;
    while test_kill_process_group(group).is_ok() {
        let left = running_in(group.as_raw_nonzero().get());
        let now = clocks::now::<Monotonic>();
        if left == 0 {
            break;
        }
        if now >= until || clocks::sleep_until(now + LOOK_AT_GROUP_EVERY).is_err() {
            end_group(child);
            return left;
        }
    }
    0
}

/// Ends what programs left behind outside their groups, and returns how many processes that were.
///
/// No program runs any more: whoever is a child of this process was left to it.
fn end_strays() -> usize {
    let began = clocks::now::<Monotonic>();
    let mut ended = 0;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let now = clocks::now::<Monotonic>();
                if now >= began + GRACE {
                    let strays = children();
                    ended += strays.len();
                    for stray in strays {
                        // It may have ended meanwhile.
                        let _ = kill_process(stray, Signal::KILL);
                    }
                }
                // What no signal ends, the kernel holds.
                if now >= began + LONGEST_END || clocks::sleep_until(now + LOOK_AT_GROUP_EVERY).is_err() {
                    return ended;
                }
            }
            // There is no child.
            Err(_) => return ended,
        }
    }
}

/// The running children of this process.
fn children() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = getpid().as_raw_nonzero().get();
    let is_own = |path: &Path| running(&path.join("stat")).is_some_and(|(parent, _)| parent == own);
    entries
        .flatten()
        .filter(|entry| is_own(&entry.path()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}

/// How many processes of a group run; those that have ended and wait for their parent do not.
fn running_in(group: i32) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        // Without /proc nobody counts them: the group exists.
        return 1;
    };
    entries.flatten().filter(|entry| running(&entry.path().join("stat")).is_some_and(|(_, of)| of == group)).count()
}

/// Parent and group of a process that has not ended.
fn running(stat: &Path) -> Option<(i32, i32)> {
    // The name in parentheses may hold anything: what follows its end is state, parent, group.
    let text = kernel_file::text(stat)?;
    let mut words = text.rsplit(')').next()?.split_whitespace();
    let state = words.next()?;
    let (parent, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some((parent, group))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::events;

    fn trial(scripts: &[&str], most_s: f64) -> Trial {
        let program = |script: &&str| Program {
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cpus: Vec::new(),
            environment: None,
            stdout: None,
            stderr: None,
        };
        Trial {
            programs: scripts.iter().map(program).collect(),
            most_s,
            most_printed_byte: None,
            counts: false,
            shows_errors: false,
        }
    }

    fn all() -> Vec<usize> {
        sched::allowed_cpus().expect("the kernel keeps them")
    }

    #[test]
    fn programs_run_at_once_and_each_is_measured() {
        let context = Context::without_signals();
        let (measured, beside) =
            carry_out(&trial(&["sleep 0.3", "sleep 0.3; exit 4"], 10.0), &all(), &context).expect("they ran");
        let codes: Vec<_> = measured.iter().map(|it| it.exit_code).collect();
        assert_eq!(codes, [Some(0), Some(4)]);
        let walls: u64 = measured.iter().map(|it| it.wall_ns).sum();
        assert!(measured.iter().all(|it| it.wall_ns >= 300_000_000), "{measured:?}");
        // What it waited for a CPU is part of its time; without CONFIG_SCHED_INFO it is not known.
        assert!(measured.iter().filter_map(|it| it.waited_ns).all(|waited| waited < 10_000_000_000), "{measured:?}");
        assert!(beside.span_ns < walls, "one after the other: {beside:?} {measured:?}");
    }

    #[test]
    fn a_program_that_is_stopped_for_a_while_is_known_to_have_been() {
        let script = "(sleep 0.1; kill -STOP $$; sleep 0.9; kill -CONT $$) & wait";
        let (measured, _) = carry_out(&trial(&[script], 30.0), &all(), &Context::without_signals()).expect("it ran");
        assert!(measured[0].stopped_ns >= 400_000_000, "{measured:?}");
        let (measured, _) =
            carry_out(&trial(&["sleep 0.6"], 30.0), &all(), &Context::without_signals()).expect("it ran");
        assert_eq!(measured[0].stopped_ns, 0, "{measured:?}");
    }

    #[test]
    fn a_program_has_the_environment_that_is_named_for_it_alone() {
        let mut asked = trial(&["test \"$ONE\" = 1 && test -z \"$CARGO_MANIFEST_DIR$HOME\""], 10.0);
        for (environment, code) in [(None, 1), (Some(vec![("ONE", "1"), ("PATH", "/usr/bin:/bin")]), 0)] {
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            asked.programs[0].environment = environment.map(|all| all.into_iter().map(owned).collect());
            let (measured, _) = carry_out(&asked, &all(), &Context::without_signals()).expect("it ran");
            assert_eq!(measured[0].exit_code, Some(code));
        }
    }

    #[test]
    fn what_takes_too_long_is_killed_with_all_that_it_started() {
        // A pipe ends with the last program that could write into it: the test waits for that, however long it takes.
        let (mut output, input) = std::io::pipe().expect("there are descriptors");
        let mut asked = trial(&["(sleep 77; echo alive) & sleep 77"], 0.1);
        asked.programs[0].stdout = Some(format!("/proc/self/fd/{}", input.as_raw_fd()).into());
        let (measured, _) = carry_out(&asked, &all(), &Context::without_signals()).expect("it ran");
        assert!(measured[0].timed_out && measured[0].signal == Some(9), "{measured:?}");
        drop(input);
        let mut printed = String::new();
        output.read_to_string(&mut printed).expect("it is a pipe");
        assert_eq!(printed, "");
    }

    #[test]
    fn what_a_program_leaves_in_the_background_is_counted_and_ended() {
        let (mut output, input) = std::io::pipe().expect("there are descriptors");
        let mut asked = trial(&["sleep 77 & sleep 78 &"], 10.0);
        asked.programs[0].stdout = Some(format!("/proc/self/fd/{}", input.as_raw_fd()).into());
        let (measured, _) = carry_out(&asked, &all(), &Context::without_signals()).expect("it ran");
        assert!(measured[0].left_behind == 2 && measured[0].exit_code == Some(0), "{measured:?}");
        drop(input);
        let mut printed = String::new();
        // Ends with the last process that holds the other end.
        output.read_to_string(&mut printed).expect("it is a pipe");
        let waited = trial(&["sleep 0.1 & sleep 0.1 & wait"], 10.0);
        let (measured, _) = carry_out(&waited, &all(), &Context::without_signals()).expect("it ran");
        assert_eq!(measured[0].left_behind, 0, "{measured:?}");
        // What ends by itself at the same moment is nothing that was left behind.
        let (measured, _) =
            carry_out(&trial(&["sleep 0.02 &"], 10.0), &all(), &Context::without_signals()).expect("it ran");
        assert_eq!(measured[0].left_behind, 0, "{measured:?}");
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        let file = std::env::temp_dir().join(format!("vtare-trials-{}", std::process::id()));
        let mut asked = trial(&["exec yes"], 60.0);
        asked.programs[0].stdout = Some(file.clone());
        asked.most_printed_byte = Some(1 << 20);
        let (measured, _) = carry_out(&asked, &all(), &Context::without_signals()).expect("it ran");
        std::fs::remove_file(&file).expect("it was written");
        assert!(measured[0].printed_too_much && !measured[0].timed_out, "{measured:?}");
    }

    #[test]
    fn what_a_program_asks_of_the_kernel_is_counted_where_the_kernel_lets_it() {
        let mut asked = trial(&["sleep 0.01; sleep 0.01; exec true"], 10.0);
        asked.counts = true;
        let (measured, _) = carry_out(&asked, &all(), &Context::without_signals()).expect("it ran");
        let happened = match measured[0].counts.as_ref().expect("they were asked for") {
            Counted::Happened(happened) => happened,
            Counted::Missing(reason) => return eprintln!("skipped: {reason}"),
        };
        // The shell itself, and three programs.
        assert_eq!((happened[events::PROGRAM], happened[events::SLEEP]), (4, 2), "{happened:?}");
        let several = [events::SYSTEM_CALL, events::PAGE_FAULT, events::MAPPING, events::OPEN, events::READ];
        assert!(several.iter().all(|kind| happened[kind] > 3), "{happened:?}");
        // For two programs.
        assert!((2..20).contains(&happened[events::WAKE_UP]), "{happened:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let mut asked = trial(&["true"], 1.0);
        asked.programs[0].words = vec!["/nonexistent/program".to_owned()];
        let failure = carry_out(&asked, &all(), &Context::without_signals()).expect_err("there is no such program");
        assert_eq!(failure.code(), 127);
        assert!(failure.to_string().contains("/nonexistent/program"), "{failure}");
    }
}
