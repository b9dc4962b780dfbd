//! run.json (docs/internals/contract.md), before its instrument has read the parameters. Pure: text in, a checked run
//! or an error message out.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The schema of run.json.
pub(crate) const RUN_SCHEMA: &str = "vtare.run/1";
/// Bytes of a run.json at most; those of the lab have less than 10 kB.
pub(crate) const LARGEST_BYTE: u64 = 1 << 20;
/// What a run id looks like, as a regular expression.
pub(crate) const RUN_ID_PATTERN: &str = "^[0-9a-f]{16}$";

/// One resolved run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFile {
    /// [`RUN_SCHEMA`].
    pub(crate) schema: String,
    /// The lab's name for the run, 16 lower-case hexadecimal digits; null where a person started it.
    pub(crate) run_id: Option<String>,
    /// The instrument's name, which may be unknown.
    pub(crate) instrument: String,
    /// The seed of every random order.
    pub(crate) seed: u64,
    /// Where the samples go; null for nowhere.
    #[serde(default)]
    pub(crate) output: Option<PathBuf>,
    /// The instrument's parameters, not checked yet.
    #[serde(default)]
    pub(crate) parameters: Map<String, Value>,
}

/// Reads one JSON document with nothing but white space behind it.
///
/// # Errors
/// With the key, what was found there and what is wanted.
pub(crate) fn parse_document<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let document: T = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let key = error.path().to_string();
        // "?": within a key that does not end.
        let key = if matches!(key.as_str(), "." | "?") { "the document" } else { &key };
        format!("{key}: {}", error.into_inner())
    })?;
    deserializer.end().map_err(|error| {
        format!("there is more after the end of the document: use one JSON document and nothing else ({error})")
    })?;
    Ok(document)
}

/// Reads a run.json.
///
/// # Errors
/// As [`parse_document`], and for another schema or a run id that is none.
pub(crate) fn parse(text: &str) -> Result<RunFile, String> {
    let run: RunFile = parse_document(text)?;
    if run.schema != RUN_SCHEMA {
        return Err(format!("schema is {:?}: use \"{RUN_SCHEMA}\"", run.schema));
    }
    match &run.run_id {
        Some(id) if !is_run_id(id) => {
            Err(format!("run_id is {id:?}: use 16 hexadecimal digits in lower case, or null"))
        }
        _ => Ok(run),
    }
}

/// Whether `text` can be the name of a run, and so of its directory.
fn is_run_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
