//! Remarks on how the figures of a result came about.

use serde::Serialize;

/// The id of the note of a run that a CPU quota stopped.
pub(crate) const CPU_QUOTA: &str = "cpu_quota";

/// A remark on how the figures came about: what was missing, kept or capped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Note {
    /// Short and stable, for programs.
    pub(crate) id: String,
    /// A sentence, for people.
    pub(crate) text: String,
}

impl Note {
    /// A note.
    pub(crate) fn new(id: &str, text: impl Into<String>) -> Self {
        Self { id: id.to_owned(), text: text.into() }
    }
}
