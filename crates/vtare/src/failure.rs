//! Why a command did not measure, and the exit code for it.

use std::fmt::Display;

use serde::Serialize;

use crate::samples::SamplesError;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was measured: 0.
    Measured,
    /// It was measured, but a limit of `--fail-if` was crossed or could not be decided: 1.
    LimitCrossed,
    /// It was measured and shown, but the samples could not be written: 3.
    SamplesLost,
    /// It was measured as far as it went, but a far end did not answer or went away: 4.
    PeerLost,
    /// A signal ended it early; what was measured is kept and labelled: 130.
    Interrupted,
    /// Another program was run; this was its exit code.
    Program(u8),
    /// It failed, and that has been reported already: the code of the failure.
    Reported(u8),
}

impl Exit {
    /// The code that the process returns.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Measured => 0,
            Self::LimitCrossed => 1,
            Self::SamplesLost => 3,
            Self::PeerLost => 4,
            Self::Interrupted => 130,
            Self::Program(code) | Self::Reported(code) => code,
        }
    }
}

/// Why a command could not do its work. The message names what was found, what is wanted, and how to fix it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Bad usage or input: exit code 2.
    #[error("{0}")]
    Input(String),
    /// This machine cannot do it: exit code 3.
    #[error("{0}")]
    Machine(String),
    /// Another program could not be run; the code is the one that shells use: 126 or 127.
    #[error("{message}")]
    Program {
        /// The exit code.
        code: u8,
        /// What is wrong and how to fix it.
        message: String,
    },
    /// The far end does not answer: exit code 4.
    #[error("{0}")]
    Peer(String),
}

/// The message about a value that cannot be used: `KEY is VALUE: use WHAT`.
pub(crate) fn bad_value(key: impl Display, value: impl Display, instead: impl Display) -> String {
    format!("{key} is {value}: use {instead}")
}

impl Failure {
    /// A value that cannot be used, with what to use instead.
    pub(crate) fn value(key: impl Display, value: impl Display, instead: impl Display) -> Self {
        Self::Input(bad_value(key, value, instead))
    }

    /// The code that the process returns.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Machine(_) => 3,
            Self::Program { code, .. } => *code,
            Self::Peer(_) => 4,
        }
    }
}

pub(crate) const ERROR_SCHEMA: &str = "vtare.error/1";

/// What `--json` prints where nothing could be measured.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct ErrorDocument {
    schema: &'static str,
    /// The message, as on stderr.
    error: String,
    /// What the process returns.
    exit_code: u8,
}

/// What `--json` prints where nothing could be measured.
pub(crate) fn error_document(message: &impl Display, exit_code: u8) -> serde_json::Value {
    let error = message.to_string().trim_end().to_owned();
    serde_json::to_value(ErrorDocument { schema: ERROR_SCHEMA, error, exit_code })
        .expect("a text and a number are JSON")
}

impl From<vtare_sys::SysError> for Failure {
    fn from(error: vtare_sys::SysError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl From<SamplesError> for Failure {
    fn from(error: SamplesError) -> Self {
        match error {
            SamplesError::Refused { .. } => Self::Input(error.to_string()),
            SamplesError::Write { .. } | SamplesError::Encode { .. } => Self::Machine(error.to_string()),
        }
    }
}
