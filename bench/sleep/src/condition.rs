//! What else the machine does meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A background load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Idle,
    Cpu,
    Io,
}

/// A running load; ended when dropped.
pub struct Load(Option<Child>);

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It has no state to lose.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Condition {
    pub const ALL: [Self; 3] = [Self::Idle, Self::Cpu, Self::Io];

    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "idle" => Ok(Self::Idle),
            "cpu" => Ok(Self::Cpu),
            "io" => Ok(Self::Io),
            _ => Err(format!("unknown condition `{name}`: choose from idle, cpu, io")),
        }
    }

    pub fn describe(self, threads: u32) -> String {
        match self {
            Self::Idle => "nothing else runs".to_owned(),
            Self::Cpu => format!("vtare load cpu: {threads} threads of square roots"),
            Self::Io => "vtare load io: files and loopback sockets".to_owned(),
        }
    }

    /// Starts the load and waits until it works.
    pub fn start(self, threads: u32) -> Result<Load, String> {
        let kind = match self {
            Self::Idle => return Ok(Load(None)),
            Self::Cpu => "cpu",
            Self::Io => "io",
        };
        let mut command = Command::new("vtare");
        command.args(["load", kind, "--json"]);
        if self == Self::Cpu {
            command.args(["--threads", &threads.to_string()]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("`vtare load {kind}` does not start: {error} (use make bench)"))?;
        let stderr = child.stderr.take();
        let load = Load(Some(child));
        let ready = stderr
            .is_some_and(|pipe| BufReader::new(pipe).lines().map_while(Result::ok).any(|line| line.contains("ready")));
        if ready { Ok(load) } else { Err(format!("`vtare load {kind}` ended before it was ready")) }
    }
}
