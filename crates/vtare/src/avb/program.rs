//! The method `program`: another program's estimates, read from what it prints. It runs as it is, or under `vtare exec`
//! on vtare's clock and sleeps: `clock` and `sleep` choose, as for vtare's own methods.

use std::io::{self, PipeReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use regex_lite::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use vtare_clock::sleep::Method as SleepMethod;
use vtare_methods::avb::{Estimate, Layer, Spent, Stopped};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span};
use vtare_wire::DEFAULT_PORT;

use super::cell::AvbCell;
use super::parameters::{ClockChoice, Parameters, RateUnit};
use super::repeat::{LOOK_EVERY, Made, repeat};
use super::run::TimedEstimate;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Note, Outcome, Session};
use crate::peers::{self, Sign};
use crate::rtt::conditions;
use crate::sentences::avb as words;

/// In the words of the command: the far end's address.
const PEER: &str = "{peer}";
/// Time of an estimate where none is named.
const LONGEST: Span = Span::from_secs(60);
/// What a program may print for an estimate.
const MOST_BYTE: usize = 1 << 20;
/// What is quoted of it.
const SHOWN_CHARACTERS: usize = 200;
/// From the request to end to the end by force.
const GRACE: Span = Span::from_secs(2);
/// What `vtare exec` ends with where it cannot start the program.
const NOT_STARTED: [i32; 2] = [126, 127];

/// What the parameters ask for, checked.
#[derive(Debug)]
pub(super) struct Settings {
    words: Vec<String>,
    pattern: Regex,
    unit: RateUnit,
    /// The words of `vtare exec` in front of the program's.
    timing: Vec<&'static str>,
}

impl Settings {
    /// # Errors
    /// [`Failure::Input`] with the value found and what is wanted.
    pub(super) fn of(parameters: &Parameters) -> Result<Self, Failure> {
        let wrong = |text: String| Failure::Input(format!("method {}: {text}", parameters.method));
        let words = parameters.command.clone().filter(|words| words.iter().all(|word| !word.contains('\0')));
        let words = words.filter(|words| words.first().is_some_and(|program| !program.is_empty()));
        let words = words.ok_or_else(|| wrong("command is missing: use the program and its words".to_owned()))?;
        let Some(pattern) = parameters.pattern.as_deref().filter(|pattern| !pattern.is_empty()) else {
            return Err(wrong("pattern is missing: use a regular expression that finds the value".to_owned()));
        };
        let pattern = Regex::new(pattern).map_err(|error| {
            wrong(format!("pattern is {pattern:?}: use a regular expression such as '([0-9.]+) Mbits' ({error})"))
        })?;
        for (name, given) in [
            ("reverse", parameters.reverse),
            ("size_byte", parameters.size_byte.is_some()),
            ("most_byte", parameters.most_byte.is_some()),
            ("set", parameters.set.as_ref().is_some_and(|set| !set.is_empty())),
        ] {
            if given {
                return Err(wrong(format!(
                    "{name}: the program sends what it sends: leave it out, or name it in command"
                )));
            }
        }
        let timing = timing(parameters.clock, parameters.sleep).ok_or_else(|| {
            let found = parameters.sleep;
            wrong(format!(
                "sleep is {found}: use one that vtare exec has: spin, adaptive, two_phase, clock_nanosleep or usleep"
            ))
        })?;
        Ok(Self { words, pattern, unit: parameters.unit, timing })
    }

    /// The value in what a program printed: of its last match, the first group, else all of it.
    fn value(&self, printed: &str) -> Result<f64, String> {
        let found = self.pattern.captures_iter(printed).last().and_then(|found| found.get(1).or_else(|| found.get(0)));
        let Some(found) = found else {
            return Err(format!("nothing matches the pattern; its last words: {}", end_of(printed)));
        };
        let value = found.as_str().trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| format!("{:?} is not a number, 0 or more", shown(found.as_str())))?;
        Ok(value * self.unit.bit_per_s())
    }
}

/// How `vtare exec` runs the program: as it is, or on which clock and sleeps; `None` for a sleep that it does not have.
fn timing(clock: ClockChoice, sleep: SleepMethod) -> Option<Vec<&'static str>> {
    let sleep = match sleep {
        SleepMethod::Spin => "spin",
        SleepMethod::Adaptive => "adaptive",
        SleepMethod::TwoPhase | SleepMethod::TwoPhaseCapped => "two_phase",
        SleepMethod::ClockNanosleep | SleepMethod::Usleep => "os",
        SleepMethod::Cheap | SleepMethod::NeverEarly => return None,
    };
    Some(match (clock, sleep) {
        (ClockChoice::Os, "os") => vec!["--plain"],
        (ClockChoice::Os, sleep) => vec!["--clock", "os", "--sleep", sleep],
        (ClockChoice::Vtare, sleep) => vec!["--clock", "unordered", "--sleep", sleep],
    })
}

/// The end of what was printed, for a message.
fn end_of(printed: &str) -> String {
    let last = printed.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(|| "none".to_owned(), |line| format!("{:?}", shown(line.trim())))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS).collect()
}

/// Runs the method.
///
/// # Errors
/// [`Failure::Input`] for what cannot be asked of it; [`Failure::Machine`] where the program is missing.
pub(super) fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<AvbCell>, Failure> {
    let mut notes = conditions::take(parameters.cpu, parameters.fifo, false)?;
    let _held = conditions::hold_latency(parameters.dma_latency_ns, &mut notes);
    let settings = Settings::of(parameters)?;
    let address = peers::reach(&parameters.peer, DEFAULT_PORT, Sign::Route)?;
    let peer = match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => address.ip().to_string(),
    };
    let words: Vec<String> = settings.words.iter().map(|word| word.replace(PEER, &peer)).collect();
    let ran = format!("vtare exec {} -- {}", settings.timing.join(" "), shown(&words.join(" ")));
    notes.push(Note::new("program", words::program(ran)));
    let cell = AvbCell {
        peer: parameters.peer.clone(),
        address: address.to_string(),
        method: parameters.method.clone(),
        direction: "forward",
        foreign: true,
        ..AvbCell::default()
    };
    let longest = parameters.most_ns.map_or(LONGEST, Span::from_unsigned_nanos);
    let context = session.context;
    repeat(parameters, session, cell, notes, &mut |_| {
        let began = clocks::now::<Monotonic>();
        let mut running = Running::start(&settings.timing, &words)?;
        let ended = running
            .follow(longest, context)
            .map_err(|error| Failure::Machine(format!("method {}: {error}", parameters.method)))?;
        let printed = String::from_utf8_lossy(&running.printed).into_owned();
        let spent = Spent { began: Some(began), now: Some(clocks::now()), ..Spent::default() };
        let none = |stopped, why: String| {
            let mut estimate = Estimate::none(&spent, stopped);
            estimate.notes.push(format!("no estimate: {why}"));
            estimate
        };
        let mut estimate = match ended {
            Ended::Stopped => none(Stopped::Running, "interrupted".to_owned()),
            Ended::TooLong => {
                none(Stopped::TimeBudget, format!("the program did not end within {} s", longest.as_secs_f64()))
            }
            Ended::TooMuch => none(Stopped::GaveUp, format!("the program printed more than {MOST_BYTE} B")),
            Ended::With(status) if status.code().is_some_and(|code| NOT_STARTED.contains(&code)) => {
                return Err(Failure::Machine(format!("method {}: {}", parameters.method, end_of(&printed))));
            }
            Ended::With(status) if !status.success() => {
                none(Stopped::GaveUp, format!("the program ended with {status}; its last words: {}", end_of(&printed)))
            }
            Ended::With(_) => match settings.value(&printed) {
                Ok(value) => Estimate::of(&spent, Stopped::Converged, value),
                Err(why) => none(Stopped::GaveUp, why),
            },
        };
        // What it sent is not known, nor what it counts.
        estimate.occupied_bit_per_s = None;
        estimate.layer = Layer::Program;
        let timed = TimedEstimate { began, estimate, extra_byte: 0 };
        Ok(Made { timed, stopped: matches!(ended, Ended::Stopped), lost: None })
    })
}

/// How a program came to its end.
enum Ended {
    With(ExitStatus),
    Stopped,
    TooLong,
    TooMuch,
}

/// A program that runs, in a process group of its own, which is killed when this is dropped.
struct Running {
    child: Child,
    output: PipeReader,
    printed: Vec<u8>,
}

impl Running {
    fn start(timing: &[&str], words: &[String]) -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::Machine(format!("cannot start a program: {error}"));
        let own = crate::own_program::path()?;
        let (output, input) = io::pipe().map_err(cannot)?;
        let mut command = Command::new(own);
        command.args(["exec", "--with-parent"]).args(timing).arg("--").args(words);
        command.stdin(Stdio::null()).stdout(input.try_clone().map_err(cannot)?).stderr(input).process_group(0);
        let child = command.spawn().map_err(cannot)?;
        Ok(Self { child, output, printed: Vec::new() })
    }

    /// Reads what it prints until it has ended, or must.
    fn follow(&mut self, longest: Span, context: &Context) -> io::Result<Ended> {
        let until = clocks::now::<Monotonic>() + longest;
        loop {
            if self.has_ended()? {
                // What it has started goes with it; itself it is not reaped yet, so its number is still its own.
                let _ = kill_process_group(self.group(), Signal::KILL);
                let status = self.child.wait()?;
                while self.read(Span::ZERO)? {}
                return Ok(Ended::With(status));
            }
            self.read(LOOK_EVERY)?;
            if context.stop_requested() {
                return Ok(Ended::Stopped);
            }
            if self.printed.len() > MOST_BYTE {
                return Ok(Ended::TooMuch);
            }
            if clocks::now::<Monotonic>() >= until {
                return Ok(Ended::TooLong);
            }
        }
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.group()), options)?.is_some())
    }

    /// Reads what there is, and waits so long for it; whether something came.
    fn read(&mut self, patience: Span) -> io::Result<bool> {
        let patience = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() };
        let mut ends = [PollFd::new(&self.output, PollFlags::IN)];
        if poll(&mut ends, Some(&patience))? == 0 || self.printed.len() > MOST_BYTE {
            return Ok(false);
        }
        let mut bytes = [0; 1 << 16];
        let got = self.output.read(&mut bytes)?;
        self.printed.extend_from_slice(&bytes[..got]);
        if got == 0 {
            // It has closed its output and goes on.
            let _ = clocks::sleep_until(clocks::now::<Monotonic>() + LOOK_EVERY);
        }
        Ok(got > 0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = kill_process_group(self.group(), Signal::TERM);
        let until = clocks::now::<Monotonic>() + GRACE;
        while matches!(self.has_ended(), Ok(false)) && clocks::now::<Monotonic>() < until {
            let _ = clocks::sleep_until(clocks::now::<Monotonic>() + LOOK_EVERY);
        }
        let _ = kill_process_group(self.group(), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(change: impl FnOnce(&mut Parameters)) -> Parameters {
        let mut parameters = Parameters {
            peer: "10.0.0.2".to_owned(),
            method: "program:tool".to_owned(),
            command: Some(vec!["tool".to_owned(), PEER.to_owned()]),
            pattern: Some(r"is ([0-9.]+) Mbit".to_owned()),
            ..Parameters::default()
        };
        change(&mut parameters);
        parameters
    }

    #[test]
    fn the_last_match_gives_the_value_in_its_unit() {
        let settings = Settings::of(&parameters(|_| ())).expect("good");
        assert_eq!(settings.value("at 1 s it is 90 Mbit\nit is 285.5 Mbit/s\n"), Ok(285.5e6));
        assert!(settings.value("no route\n\n").expect_err("nothing").contains("its last words: \"no route\""));
        let whole = parameters(|it| (it.pattern, it.unit) = (Some("[0-9]+$".to_owned()), RateUnit::KiloByte));
        assert_eq!(Settings::of(&whole).expect("good").value("about 12"), Ok(96_000.0));
        let any = parameters(|it| it.pattern = Some("is (.*)".to_owned()));
        for wrong in ["is -1", "is NaN", "is inf", "is many"] {
            let error = Settings::of(&any).expect("good").value(wrong).expect_err(wrong);
            assert!(error.contains("is not a number"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_asked_of_a_program_is_refused() {
        let refused = |change: fn(&mut Parameters)| Settings::of(&parameters(change)).expect_err("refused").to_string();
        for (found, wanted) in [
            (refused(|it| it.command = None), "command is missing"),
            (refused(|it| it.command = Some(vec![String::new()])), "command is missing"),
            (refused(|it| it.pattern = Some("(".to_owned())), "regular expression such as"),
            (refused(|it| it.pattern = None), "pattern is missing"),
            (refused(|it| it.reverse = true), "reverse: the program sends"),
            (refused(|it| it.set = Some(vec!["a=b".to_owned()])), "set: the program sends"),
        ] {
            assert!(found.contains(wanted) && found.contains("program:tool"), "{found}");
        }
    }

    #[test]
    fn clock_and_sleep_choose_how_exec_runs_it() {
        for (clock, sleep, words) in [
            (ClockChoice::Os, SleepMethod::Usleep, vec!["--plain"]),
            (ClockChoice::Vtare, SleepMethod::Spin, vec!["--clock", "unordered", "--sleep", "spin"]),
            (ClockChoice::Vtare, SleepMethod::Usleep, vec!["--clock", "unordered", "--sleep", "os"]),
            (ClockChoice::Os, SleepMethod::TwoPhaseCapped, vec!["--clock", "os", "--sleep", "two_phase"]),
        ] {
            assert_eq!(timing(clock, sleep), Some(words));
        }
        for sleep in [SleepMethod::Cheap, SleepMethod::NeverEarly] {
            assert_eq!(timing(ClockChoice::Vtare, sleep), None, "exec has no such sleep, and no other takes its place");
        }
    }
}
