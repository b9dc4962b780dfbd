//! The counter function in another language: a program that vtare starts, asks for calls, and holds to its work.
//!
//! Their protocol stands in `counters/README.md`. A piece of work is sent, then this process sleeps
//! until it is answered: it never runs beside what it measures.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Deserialize;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use super::function::{Call, Size, fold, jump};
use super::image;
use super::language::{self, Language};
use super::parameters::Parameters;
use super::tools::Place;
use crate::context::Context;
use crate::failure::Failure;
use crate::sentences::counter as words;

/// The words that both ends know.
const SCHEMA: &str = "vtare.counter-program/1";
/// Calls of about this many ms are asked for at a time: work in between is rare, and a signal is soon noticed.
const PIECE_MS: f64 = 1_000.0;
/// Bytes read at a time.
const PIECE_BYTE: usize = 1 << 16;

/// The first line of a program.
#[derive(Debug, Deserialize)]
struct Hello {
    schema: String,
    language: String,
    runtime: String,
    steps_per_ms: f64,
}

/// A running program.
pub(super) struct Program {
    language: Language,
    /// What runs it, in its own words.
    pub(super) runtime: String,
    /// How its calls are cut.
    pub(super) size: Size,
    unit_ms: f64,
    /// The last state of each argument 2^0, 2^1, ...: what the work must lead to.
    states: Vec<u64>,
    line: Line,
    /// The virtual machine that runs it, where one was brought along; removed after the program has ended.
    _image: Option<Place>,
    answers: VecDeque<(u64, Answer)>,
}

/// One answered call.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    call: Call,
    state: u64,
    chunks: Vec<i64>,
}

impl Program {
    /// Starts the program of a language and waits until it has warmed up and knows its speed; `None` where a request to
    /// stop came first.
    ///
    /// # Errors
    /// [`Failure::Machine`] where the language's tools are missing; [`Failure::Program`] where the program does not do
    /// as agreed.
    pub(super) fn start(parameters: &Parameters, context: &Context) -> Result<Option<Self>, Failure> {
        let language = parameters.language;
        let (place, program) = match &parameters.program {
            Some(file) => {
                let unpacked = if language == Language::Java { image::unpacked(file)? } else { None };
                unpacked.map_or_else(|| (None, file.clone()), |(place, program)| (Some(place), program))
            }
            None => {
                let (place, program) = language::build(language)?;
                (Some(place), program)
            }
        };
        let mut line = Line::open(language, &program)?;
        let Some(words) = line.receive(context)? else { return Ok(None) };
        let hello: Hello =
            serde_json::from_str(&words).map_err(|error| line.broken(&format!("{error} in {words:?}")))?;
        if hello.schema != SCHEMA || hello.language != language.name() || !hello.steps_per_ms.is_normal() {
            return Err(line.broken(&format!("{hello:?} is not {SCHEMA} in {}", language.name())));
        }
        let size = Size::new(hello.steps_per_ms, parameters.unit_ms, parameters.max_exponent);
        line.send(&format!("{} {}\n", size.chunk_steps, size.most_chunks))?;
        Ok(Some(Self {
            language,
            runtime: hello.runtime,
            size,
            unit_ms: parameters.unit_ms,
            states: (0..=parameters.max_exponent).map(|exponent| jump(1, size.steps(1 << exponent))).collect(),
            line,
            // A program built for this run is gone once it is up: it stays nowhere if this process is killed later.
            _image: place.filter(|_| parameters.program.is_some()),
            answers: VecDeque::new(),
        }))
    }

    /// Makes the first of the `upcoming` calls and gives each gap to `on_gap`; `None` where a request to stop came
    /// first.
    ///
    /// # Errors
    /// [`Failure::Program`] where the program ends, or did not count as far as it should have.
    pub(super) fn call(
        &mut self,
        upcoming: impl Iterator<Item = u64>,
        context: &Context,
        on_gap: impl FnMut(i64),
    ) -> Result<Option<Call>, Failure> {
        if self.answers.is_empty() && !self.ask(upcoming, context)? {
            return Ok(None);
        }
        let Some((argument, answer)) = self.answers.pop_front() else { return Ok(None) };
        let (found, wanted) = (answer.state, self.states[argument.trailing_zeros() as usize]);
        if found != wanted {
            let why = format!("argument {argument}: counted to state {found} instead of {wanted}");
            return Err(self.line.broken(&why));
        }
        let (wall_ns, gap_ns) = fold(answer.chunks, on_gap);
        Ok(Some(Call { wall_ns, gap_ns, ..answer.call }))
    }

    /// Asks for the next piece and waits for its answers; false where a request to stop came first.
    fn ask(&mut self, upcoming: impl Iterator<Item = u64>, context: &Context) -> Result<bool, Failure> {
        let mut asked = Vec::new();
        let mut length_ms = 0.0;
        for argument in upcoming {
            length_ms += argument as f64 * self.unit_ms;
            if length_ms > PIECE_MS && !asked.is_empty() {
                break;
            }
            asked.push(argument);
        }
        let words: Vec<String> = asked.iter().map(|argument| self.size.chunks(*argument).to_string()).collect();
        self.line.send(&format!("{}\n", words.join(" ")))?;
        for argument in asked {
            let Some(words) = self.line.receive(context)? else { return Ok(false) };
            let answer = read(&words, self.size.chunks(argument)).map_err(|why| self.line.broken(&why))?;
            self.answers.push_back((argument, answer));
        }
        Ok(true)
    }

    /// What ran, for the notes.
    pub(super) fn described(&self) -> String {
        words::program(self.language.name(), &self.runtime)
    }
}

/// Reads `STATE CPU_NS SWITCHES CHUNK_NS...` of a call of that number of chunks.
fn read(words: &str, chunks: usize) -> Result<Answer, String> {
    let shown = || words.chars().take(60).collect::<String>();
    let mut numbers = words.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let (Some(state), Some(cpu_ns), Some(involuntary_switches)) = (next(), next(), next()) else {
        return Err(format!("{:?} is not STATE CPU_NS SWITCHES", shown()));
    };
    let spans: Option<Vec<i64>> = numbers.map(|word| word.parse::<i64>().ok().filter(|found| *found >= 0)).collect();
    let spans = spans.filter(|spans| spans.len() == chunks && !spans.is_empty());
    let spans = spans.ok_or_else(|| format!("{:?}... is not {chunks} lengths of time in ns", shown()))?;
    let cpu_ns = cpu_ns.cast_signed();
    Ok(Answer { call: Call { wall_ns: 0, cpu_ns, gap_ns: 0, involuntary_switches }, state, chunks: spans })
}

/// A program and the two pipes to it. It is killed when this is dropped.
struct Line {
    language: Language,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    received: Vec<u8>,
    /// Becomes readable with the signal to stop, so that no wait has to read a clock.
    wake: UnixStream,
    signals: Vec<SigId>,
}

impl Line {
    fn open(language: Language, program: &Path) -> Result<Self, Failure> {
        let cannot = |error: io::Error| language.cannot_start(program, &error);
        let facts = program.metadata().map_err(|error| {
            let found = program.display();
            Failure::Input(format!("program: {found}: {error}: `vtare counter --language NAME --build FILE` makes one"))
        })?;
        // A channel that carries files need not carry their modes.
        if language == Language::C && facts.permissions().mode() & 0o100 == 0 {
            std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o700)).map_err(cannot)?;
        }
        let (wake, waker) = UnixStream::pair().map_err(cannot)?;
        let mut command = language.command(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot(io::ErrorKind::BrokenPipe.into()));
        };
        let mut line = Self { language, child, input, output, received: Vec::new(), wake, signals: Vec::new() };
        for signal in [SIGINT, SIGTERM] {
            let waker = waker.try_clone().map_err(cannot)?;
            line.signals.push(low_level::pipe::register(signal, waker).map_err(cannot)?);
        }
        Ok(line)
    }

    fn send(&mut self, words: &str) -> Result<(), Failure> {
        match self.input.write_all(words.as_bytes()) {
            Ok(()) => Ok(()),
            // Why it has ended is reported where its next line is missing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    /// The next line; `None` where a request to stop comes first.
    fn receive(&mut self, context: &Context) -> Result<Option<String>, Failure> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(searched + end + 1);
                let words = std::mem::replace(&mut self.received, rest);
                return Ok(Some(String::from_utf8_lossy(&words).trim_end().to_owned()));
            }
            searched = self.received.len();
            let mut ends = [PollFd::new(&self.output, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut ends, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(self.broken(&error.to_string())),
            }
            if context.stop_requested() {
                return Ok(None);
            }
            if ends[0].revents().is_empty() {
                continue;
            }
            let mut bytes = [0; PIECE_BYTE];
            match rustix::io::read(&self.output, &mut bytes) {
                // What stops this process stops the program, too.
                Ok(0) if context.stop_requested() => return Ok(None),
                Ok(0) => return Err(self.gone()?),
                Ok(got) => self.received.extend_from_slice(&bytes[..got]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    /// The error of a program that has closed its output.
    fn gone(&mut self) -> Result<Failure, Failure> {
        let status = self.child.wait().map_err(|error| self.broken(&error.to_string()))?;
        // Its own words for a machine that cannot do it, as vtare's.
        if status.code() == Some(3) {
            return Ok(Failure::Machine(format!(
                "language {}: this machine cannot run it, see above",
                self.language.name()
            )));
        }
        Ok(self.broken(&format!("it ended ({status}) before it had answered")))
    }

    fn broken(&self, why: &str) -> Failure {
        let message = format!("the counter program in {}: {why}", self.language.name());
        Failure::Program { code: 126, message }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for signal in self.signals.drain(..) {
            low_level::unregister(signal);
        }
        // Where it has ended already, there is nothing to kill.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_refused() {
        let found = read("7 100 2 40 50", 2).expect("it is whole");
        assert_eq!((found.state, found.call.cpu_ns, found.call.involuntary_switches), (7, 100, 2));
        assert_eq!(found.chunks, [40, 50]);
        for (wrong, why) in [
            ("7 100", "is not STATE"),
            ("7 x 2 40 50", "is not STATE"),
            ("7 100 2 40", "is not 2 lengths"),
            ("7 100 2 40 -5", "is not 2"),
        ] {
            let error = read(wrong, 2).expect_err(wrong);
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(read(&format!("{} 1 0 5", u64::MAX), 1).map(|answer| answer.state), Ok(u64::MAX));
    }
}
