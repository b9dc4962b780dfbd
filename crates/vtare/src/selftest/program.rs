//! vtare's own commands as processes: what is tested is the program that people run.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use vtare_sys::sched;

use crate::failure::Failure;

/// The program, in a network namespace where one is named.
fn command(line: &str, inside: Option<&str>) -> Result<Command, Failure> {
    let own = crate::own_program::path()?;
    let mut command = match inside {
        None => Command::new(own),
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(own);
            command
        }
    };
    command.args(line.split_whitespace()).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

fn failed(line: &str, why: &str) -> Failure {
    Failure::Machine(format!("vtare {line}: {}", why.trim()))
}

/// Runs a command to its end at a nice level, and gives its document.
pub(super) fn measured(line: &str, inside: Option<&str>, nice: i32) -> Result<Value, Failure> {
    let mut command = command(line, inside)?;
    // A thread of its own: what it starts has its nice level, and the level of an ordinary user's never falls again.
    let output = std::thread::scope(|scope| {
        let run = || {
            let _ = sched::set_nice(nice);
            command.stderr(Stdio::piped()).output()
        };
        scope.spawn(run).join()
    });
    let output = output.map_err(|_| failed(line, "not started"))?.map_err(|error| failed(line, &error.to_string()))?;
    if !output.status.success() {
        return Err(failed(line, &String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(line, &error.to_string()))
}

/// A number of a document, by its path.
pub(super) fn number(document: &Value, path: &str) -> Result<f64, Failure> {
    let found = document.pointer(path).and_then(Value::as_f64);
    found.ok_or_else(|| Failure::Machine(format!("the document of a command has no number {path}")))
}

/// A command that runs in the background; killed where it is dropped.
pub(super) struct Background {
    line: String,
    child: Child,
}

impl Background {
    /// Starts it and waits until it is ready.
    pub(super) fn start(line: &str, inside: Option<&str>) -> Result<Self, Failure> {
        let mut child =
            command(line, inside)?.stderr(Stdio::piped()).spawn().map_err(|error| failed(line, &error.to_string()))?;
        let mut all = String::new();
        let errors = child.stderr.take().expect("it is piped");
        let started = Self { line: line.to_owned(), child };
        let mut lines = BufReader::new(errors);
        loop {
            let mut next = String::new();
            if lines.read_line(&mut next).unwrap_or(0) == 0 {
                return Err(failed(line, &all));
            }
            // `vtare serve` logs, the others write this word.
            if next.trim() == "ready" || next.contains("listening on") {
                break;
            }
            all.push_str(&next);
        }
        // Read on, so that it never waits for its reader.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(started)
    }

    /// Ends it, and gives its document.
    pub(super) fn end(mut self) -> Result<Value, Failure> {
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM).map_err(|error| failed(&self.line, &error.to_string()))?;
        }
        let mut text = String::new();
        let mut out = self.child.stdout.take().expect("it is piped");
        std::io::Read::read_to_string(&mut out, &mut text).map_err(|error| failed(&self.line, &error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(&self.line, &error.to_string()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
