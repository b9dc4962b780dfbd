//! The payloads of frames: JSON, with unknown keys refused.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::frame::check_on;

/// The commands that the agent starts: those that measure or load, and the far end.
pub(crate) const COMMANDS: [&str; 5] = ["measure", "load", "serve", "capture", "check"];

/// Start a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// Its arguments, the command's own name first.
    pub(crate) arguments: Vec<String>,
    /// Where it runs.
    pub(crate) directory: PathBuf,
}

/// Send a signal to a command and all it started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    /// Which.
    pub(crate) signal: SignalName,
}

/// The signals that are passed on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SignalName {
    /// SIGINT
    Int,
    /// SIGTERM
    Term,
    /// SIGKILL
    Kill,
}

/// Which file or directory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Its path.
    pub(crate) path: PathBuf,
}

/// How long a file is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Whole {
    /// Bytes.
    pub(crate) byte: u64,
}

/// How a command ended: just one of code and signal is not null. The totals of what it wrote let the lab check whether
/// it received all.
#[derive(Debug, Serialize)]
pub(crate) struct Exited {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// What was passed on of its stdout.
    pub(crate) stdout: StreamTotals,
    /// What was passed on of its stderr.
    pub(crate) stderr: StreamTotals,
    /// What the kernel reported while it ran, where a signal ended it.
    pub(crate) kernel: Option<String>,
}

/// What was passed on of a stream.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StreamTotals {
    /// Bytes.
    pub(crate) byte: u64,
    /// Their CRC-32, as zlib's.
    pub(crate) crc32: u32,
    /// Why the rest could not be read.
    pub(crate) error: Option<String>,
}

impl StreamTotals {
    /// Counts what follows.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.byte += bytes.len() as u64;
        self.crc32 = check_on(self.crc32, bytes);
    }
}

/// The agent's first words.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hello {
    /// The version of the channel.
    pub(crate) schema: &'static str,
    /// The version of the binary.
    pub(crate) version: &'static str,
    /// Whether it is the first process of its machine.
    pub(crate) init: bool,
    /// What went wrong while it set the guest up; the guest may still serve.
    pub(crate) problems: Vec<String>,
}

impl Hello {
    /// The words of this binary.
    pub(crate) fn of(init: bool, problems: Vec<String>) -> Self {
        Self { schema: "vtare.agent/1", version: env!("CARGO_PKG_VERSION"), init, problems }
    }
}
