//! The JSON Schema of each document, made of the struct that is printed, so that both name the same keys.
//!
//! No part of the optimized program, which would be 1.7 MB larger: `tools/build` links this one beside it
//! (docs/internals/packaging.md).

use regex_lite::Regex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::instrument::instrument_name;
use crate::instruments::instruments;
use crate::output::to_json;
use crate::parameters::join_lines;
use crate::{avb, check, exec, failure, instrument, link, load_command, rpm, selftest, serve, torture};

/// The JSON Schema of each document by its name, `vtare.NAME/N`.
pub(crate) fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    macro_rules! add_instruments {
        ($($instrument:ty),*) => {
            $(add::<instrument::Document<'_, $instrument>>(&mut all, &instrument_name::<$instrument>());)*
        };
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
    add::<avb::StreamDocument<'_>>(&mut all, avb::STREAM_SCHEMA);
    for key in avb::FOREIGN_NULL {
        let types = &mut all[avb::STREAM_SCHEMA]["properties"][key]["type"];
        *types = json!([types.take(), "null"]);
    }
    all
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

/// Turns the words of doc comments into those of JSON, and leaves out what is about input: defaults, and that unknown
/// keys are refused. Keys may be added to a document.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed.
    #[derive(serde::Serialize, JsonSchema)]
    struct Printed {
        schema: &'static str,
        /// How many; `None` without [`Printed`].
        count: Option<u32>,
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        part: Part,
    }

    #[derive(Default, serde::Serialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        share: f64,
    }

    #[test]
    fn a_schema_has_the_keys_that_are_printed_and_all_are_required() {
        let mut all = Map::new();
        add::<Printed>(&mut all, "vtare.test/1");
        let schema = &all["vtare.test/1"];
        let printed = to_json(&Printed { schema: "vtare.test/1", count: None, kind: "a", part: Part { share: 0.5 } });
        let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        assert_eq!(keys(&schema["properties"]), keys(&printed));
        assert_eq!(schema["required"].as_array().map(Vec::len), Some(4), "{schema:#}");
        let count = &schema["properties"]["count"];
        assert_eq!(count["description"], "How many; null without `Printed`.");
        assert_eq!(count["type"], json!(["integer", "null"]));
        assert_eq!(
            (&schema["properties"]["schema"], schema.get("additionalProperties")),
            (&json!({"const": "vtare.test/1"}), None)
        );
    }
}
