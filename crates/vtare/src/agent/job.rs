//! Commands that the agent has started.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use super::files::Reach;
use super::frame::Kind;
use super::kernel_log::KernelLog;
use super::messages::{COMMANDS, Exited, SignalName, Start, StreamTotals};
use super::port::Output;

/// Commands that run at the same time at most.
const MOST_JOBS: usize = 64;
/// Bytes of a command's output that are passed on at a time.
const PIECE_BYTE: usize = 8 << 10;

/// What runs, by the number of its job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs(Arc<Mutex<HashMap<u32, Pid>>>);

impl Jobs {
    /// Starts a command of this binary and answers on `output` once it runs; its output and its end follow.
    ///
    /// # Errors
    /// In words, where it is none of [`COMMANDS`] or cannot be started.
    pub(crate) fn start(&self, job: u32, start: &Start, reach: &Reach, output: &Output) -> Result<(), String> {
        let named = start.arguments.first().map_or("nothing", String::as_str);
        if !COMMANDS.contains(&named) {
            return Err(format!("arguments: '{named}' is no command of an agent: use one of {}", COMMANDS.join(", ")));
        }
        let directory = reach.check(&start.directory)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| format!("directory: {}: {error}", directory.display()))?;
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&job) {
            return Err(format!("job {job} runs already: give each a number of its own"));
        }
        if running.len() >= MOST_JOBS {
            return Err(format!("{MOST_JOBS} commands run already, which is the most"));
        }
        let program = crate::own_program::path().map_err(|failure| failure.to_string())?;
        let mut command = Command::new(program);
        command.args(&start.arguments).current_dir(directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (started, starting) = std::sync::mpsc::channel();
        let (jobs, writer) = (self.clone(), output.clone());
        // The thread that starts a command stays until its end: some ask the kernel to end them with it.
        let work = move || match (KernelLog::from_now(), command.spawn()) {
            (log, Ok(child)) => {
                let _ = started.send(Ok(Pid::from_child(&child)));
                jobs.see_out(job, child, log, &writer);
            }
            (_, Err(error)) => {
                let _ = started.send(Err(format!("cannot start a process: {error}")));
            }
        };
        thread::Builder::new().spawn(work).map_err(|error| format!("cannot start a thread: {error}"))?;
        let pid = starting.recv().unwrap_or_else(|_| Err("the thread that starts it has ended".to_owned()))?;
        running.insert(job, pid);
        // Under the lock: the end is reported only after the start.
        output.send_json(Kind::Answer, job, &serde_json::json!({ "pid": pid.as_raw_nonzero().get() }));
        Ok(())
    }

    /// Passes on what a command writes until it has ended, then how it ended.
    fn see_out(&self, job: u32, mut child: Child, log: Option<KernelLog>, output: &Output) {
        let pipes = (child.stdout.take(), child.stderr.take());
        let (status, stdout, stderr) = thread::scope(|scope| {
            let stdout = scope.spawn(|| pass_on(pipes.0, Kind::Stdout, job, output));
            let stderr = scope.spawn(|| pass_on(pipes.1, Kind::Stderr, job, output));
            (child.wait(), stdout.join(), stderr.join())
        });
        // Taken off the list first: once the end is reported, the number may be used again.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
        let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        let kernel = signal.and(log).and_then(KernelLog::reports);
        output.send_json(Kind::Exited, job, &Exited { code, signal, stdout, stderr, kernel });
    }

    /// Sends a signal to a command and all it started.
    ///
    /// # Errors
    /// In words, where no such command runs.
    pub(crate) fn signal(&self, job: u32, signal: SignalName) -> Result<(), String> {
        // Under the lock: the number cannot pass to another process before the command is taken off the list.
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = running.get(&job).ok_or_else(|| format!("job {job} does not run"))?;
        let signal = match signal {
            SignalName::Int => Signal::INT,
            SignalName::Term => Signal::TERM,
            SignalName::Kill => Signal::KILL,
        };
        kill_process_group(*pid, signal).map_err(|error| format!("job {job}: {error}"))
    }

    /// Kills all that runs.
    pub(crate) fn kill_all(&self) {
        for pid in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = kill_process_group(*pid, Signal::KILL);
        }
    }
}

/// Passes on what a command writes, until it has closed the pipe; gives the totals.
fn pass_on(pipe: Option<impl Read>, kind: Kind, job: u32, output: &Output) -> StreamTotals {
    let mut totals = StreamTotals::default();
    let Some(mut pipe) = pipe else { return totals };
    let mut bytes = [0; PIECE_BYTE];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return totals,
            Ok(got) => {
                totals.add(&bytes[..got]);
                output.send(kind, job, &bytes[..got]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                totals.error = Some(error.to_string());
                return totals;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;

    use super::super::frame::{Decoder, Frame};
    use super::*;

    /// What a stream becomes on the line, and its totals at the end.
    fn passed_on(name: &str, pipe: impl Read) -> (Vec<u8>, StreamTotals) {
        let path = std::env::temp_dir().join(format!("vtare-job-{}-{name}", std::process::id()));
        let output = Output::to(File::create(&path).expect("the temporary directory is writable"));
        let totals = pass_on(Some(pipe), Kind::Stdout, 7, &output);
        let line = fs::read(&path).expect("it was just written");
        fs::remove_file(path).expect("it is ours");
        (line, totals)
    }

    /// What the other end counts, and how many bytes were no frame for it.
    fn received(line: &[u8]) -> (StreamTotals, u64) {
        let (mut decoder, mut received) = (Decoder::default(), StreamTotals::default());
        for Frame { kind, job, payload } in decoder.take(line) {
            assert_eq!((kind, job), (Kind::Stdout, 7));
            received.add(&payload);
        }
        (received, decoder.skipped_byte)
    }

    #[test]
    fn what_is_stated_at_the_end_shows_a_lost_and_a_damaged_frame_from_a_whole_stream() {
        let written: Vec<u8> = (0..PIECE_BYTE * 2 + 100).map(|number| (number % 251) as u8).collect();
        let (line, totals) = passed_on("whole", written.as_slice());
        assert_eq!((totals.byte, &totals.error), (written.len() as u64, &None));
        assert_eq!(received(&line), (totals, 0));
        let (_, totals) = passed_on("again", written.as_slice());

        let frame_byte = Frame::encode(Kind::Stdout, 7, &written[..PIECE_BYTE]).len();
        let dropped = [&line[..frame_byte], &line[frame_byte * 2..]].concat();
        let (counted, skipped_byte) = received(&dropped);
        assert_eq!((counted.byte, skipped_byte), (totals.byte - PIECE_BYTE as u64, 0));
        // Frames of one length in another order: the same bytes by number, not by their check.
        let swapped = [&line[frame_byte..frame_byte * 2], &line[..frame_byte], &line[frame_byte * 2..]].concat();
        let (counted, _) = received(&swapped);
        assert!(counted.byte == totals.byte && counted.crc32 != totals.crc32);
        let mut damaged = line;
        damaged[frame_byte + 1000] ^= 1;
        let (counted, skipped_byte) = received(&damaged);
        assert_eq!((counted.byte, skipped_byte), (totals.byte - PIECE_BYTE as u64, frame_byte as u64));
    }

    #[test]
    fn a_stream_that_cannot_be_read_is_reported() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("no more"))
            }
        }
        let (line, totals) = passed_on("broken", b"begun".chain(Broken));
        assert_eq!((totals.byte, totals.error.as_deref()), (5, Some("no more")));
        assert_eq!(received(&line).0.byte, 5);
    }
}
