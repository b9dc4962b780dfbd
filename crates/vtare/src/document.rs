//! What the JSON documents of all commands have in common.

use schemars::JsonSchema;
use serde::Serialize;
use vtare_clock::ClockInfo;
use vtare_sys::facts::MachineFacts;

/// The program that printed the document.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Program {
    name: &'static str,
    version: &'static str,
}

impl Program {
    /// This program.
    pub(crate) const OWN: Self = Self { name: "vtare", version: env!("CARGO_PKG_VERSION") };
}

/// The answer in words.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct AnswerDocument<Status, Advice> {
    /// The answer in sentences.
    pub(crate) text: String,
    /// The answer in a word; null where there is none.
    pub(crate) status: Option<Status>,
    /// What limits the answer, a sentence each.
    pub(crate) limits: Vec<String>,
    /// What to do about it.
    pub(crate) advice: Vec<Advice>,
}

/// What the documents of all measurements have.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shared<'a> {
    pub(crate) program: Program,
    /// Whether a signal ended the measurement early: the figures cover what was measured until then.
    pub(crate) interrupted: bool,
    /// Wall time of the start, ns since 1970.
    pub(crate) started_unix_ns: u64,
    /// How long it took, ns.
    pub(crate) elapsed_ns: i64,
    pub(crate) machine: &'a MachineFacts,
    pub(crate) clock: &'a ClockInfo,
}
