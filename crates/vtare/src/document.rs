//! What the JSON documents of all commands have in common, and the JSON Schema of each document: made of the struct that
//! is printed, so that both name the same keys.

use regex_lite::Regex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};
use vtare_clock::ClockInfo;
use vtare_sys::facts::MachineFacts;

use crate::instrument::{self, Instrument};
use crate::instruments::instruments;
use crate::output::to_json;
use crate::parameters::join_lines;
use crate::{avb, check, exec, failure, link, load_command, rpm, selftest, serve, torture};

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

/// The JSON Schema of each document by its name, `vtare.NAME/N`.
pub(crate) fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    macro_rules! add_instruments {
        ($($instrument:ty),*) => { $(add::<instrument::Document<'_, $instrument>>(&mut all, &instrument_name::<$instrument>());)* };
    }
    instruments!(add_instruments);
    add::<instrument::Document<'_, rpm::Rpm>>(&mut all, &instrument_name::<rpm::Rpm>());
    add::<check::Document<'_>>(&mut all, check::SCHEMA);
    add::<torture::Document<'_>>(&mut all, torture::SCHEMA);
    add::<load_command::Document<'_>>(&mut all, "vtare.load/1");
    add::<link::Document<'_>>(&mut all, link::SCHEMA);
    add::<selftest::Document<'_>>(&mut all, selftest::SCHEMA);
    add::<exec::Document<'_>>(&mut all, "vtare.exec/1");
    add::<serve::Ready<'_>>(&mut all, serve::READY_SCHEMA);
    add::<serve::Ended<'_>>(&mut all, serve::ENDED_SCHEMA);
    add::<failure::ErrorDocument>(&mut all, failure::ERROR_SCHEMA);
    add::<avb::StreamLine<'_>>(&mut all, avb::STREAM_SCHEMA);
    for key in avb::FOREIGN_NULL {
        let types = &mut all[avb::STREAM_SCHEMA]["properties"][key]["type"];
        *types = json!([types.take(), "null"]);
    }
    all
}

/// The schema name of an instrument's document.
pub(crate) fn instrument_name<I: Instrument>() -> String {
    format!("vtare.{}/1", I::NAME)
}

/// Adds the schema of the documents that `D` prints.
fn add<D: JsonSchema>(all: &mut Map<String, Value>, name: &str) {
    let mut schema =
        to_json(&SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<D>());
    join_lines(&mut schema);
    published(&mut schema, &Regex::new(r"\[`(?:\w+::)*(\w+)`\](?:\([^)]*\))?").expect("the pattern is one"));
    schema["title"] = json!(name);
    schema["properties"]["schema"] = json!({"const": name});
    all.insert(name.to_owned(), schema);
}

/// Turns the words of doc comments into those of JSON, and leaves out what is about input: defaults, and that unknown keys
/// are refused. Keys may be added to a document.
fn published(schema: &mut Value, link: &Regex) {
    match schema {
        Value::Object(map) => {
            map.remove("default");
            if map.get("additionalProperties") == Some(&json!(false)) {
                map.remove("additionalProperties");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = link.replace_all(text, "`$1`").replace("`None`", "null");
            }
            map.values_mut().for_each(|inner| published(inner, link));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| published(inner, link)),
        _ => {}
    }
}
