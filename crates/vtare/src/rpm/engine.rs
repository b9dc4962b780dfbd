//! `vtare-rpm`, which carries out what `vtare rpm` asks for: found as the lab is, one job in, an event a line out.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use vtare_methods::rpm::{RpmEvent, RpmJob};

use crate::failure::{Exit, Failure};
use crate::lab;
use crate::output::to_json;

/// The program.
const ENGINE: &str = "vtare-rpm";

/// The program under way.
pub(super) struct Engine {
    child: Child,
    events: Receiver<Result<RpmEvent, String>>,
}

/// What came next.
pub(super) enum Next {
    Event(RpmEvent),
    /// Nothing for now.
    Silence,
    /// Nothing more.
    End,
}

fn program() -> Result<PathBuf, Failure> {
    lab::program(ENGINE).map_err(|place| {
        Failure::Machine(format!(
            "responsiveness is measured by {ENGINE}, which is neither in {place} nor on PATH: 'make install' puts it \
             beside vtare"
        ))
    })
}

fn command(job: &RpmJob) -> Result<Command, Failure> {
    let mut command = Command::new(program()?);
    command.arg(to_json(job).to_string());
    Ok(command)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::Machine(format!("cannot start {ENGINE}: {error}"))
}

/// Replaces this process by it.
///
/// # Errors
/// [`Failure::Machine`] where it is not there.
pub(super) fn replace(job: &RpmJob) -> Result<Exit, Failure> {
    Err(failed(&command(job)?.exec()))
}

impl Engine {
    /// Starts it. It ends when its input does, so also when this process is killed.
    ///
    /// # Errors
    /// [`Failure::Machine`] where it is not there.
    pub(super) fn start(job: &RpmJob) -> Result<Self, Failure> {
        let mut command = command(job)?;
        // Ctrl-C in a terminal reaches this process, which asks it to stop and takes what it has.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).map_err(|error| format!("{error} in '{line}'"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, events })
    }

    /// What comes within this time.
    ///
    /// # Errors
    /// [`Failure::Machine`] for a line that is no event.
    pub(super) fn next(&self, within: Duration) -> Result<Next, Failure> {
        match self.events.recv_timeout(within) {
            Ok(Ok(event)) => Ok(Next::Event(event)),
            Ok(Err(error)) => Err(Failure::Machine(format!("{ENGINE} sent no event: {error}"))),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Silence),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
        }
    }

    /// Asks it to end with what it has.
    pub(super) fn stop(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It has ended, or nobody wants what it measures.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
