//! `vtare schema`: the contract in checked form, as this binary holds it.

use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};
use crate::instruments::{self, Described};
use crate::output;
use crate::run_file::{RUN_ID_PATTERN, RUN_SCHEMA};
use crate::{lab, link, link_counter, load_net};

/// Arguments of `vtare schema`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchemaArguments {
    /// The columns of the samples of each instrument and of the logs, instead of the schema of run.json
    #[arg(long)]
    columns: bool,
    /// The schema of this JSON document, such as vtare.rtt/1; all prints those of all
    #[arg(value_name = "NAME", conflicts_with = "columns")]
    name: Option<String>,
}

/// Prints the schema of run.json or of documents, or the columns. The lab has the schemas of documents as files.
///
/// # Errors
/// Where stdout cannot be written, and for a document where the lab is not installed.
pub(crate) fn command(arguments: &SchemaArguments) -> Result<Exit, Failure> {
    if let Some(name) = &arguments.name {
        let Some(schema) = of_document(name) else { return lab::start("--schema", [name.into()]) };
        output::print_json(&schema)?;
        return Ok(Exit::Measured);
    }
    let described = instruments::described();
    output::print_json(&if arguments.columns { columns(described) } else { run_schema(described) })?;
    Ok(Exit::Measured)
}

/// The schema of a document of this program, or of all; the optimized program has none.
#[cfg(debug_assertions)]
fn of_document(name: &str) -> Option<Value> {
    let mut all = crate::document_schemas::schemas();
    if name == "all" { Some(Value::Object(all)) } else { all.remove(name) }
}

#[cfg(not(debug_assertions))]
fn of_document(_: &str) -> Option<Value> {
    None
}

/// The columns of each instrument, and those of the files that helpers of a run leave (`link --log`, `load net --out`,
/// `link-counter`).
fn columns(described: Vec<Described>) -> Value {
    let instruments: Map<String, Value> =
        described.into_iter().map(|instrument| (instrument.name.to_owned(), instrument.columns)).collect();
    let logs = json!({"link": link::COLUMNS, "link-counter": link_counter::COLUMNS, "load net": load_net::COLUMNS});
    json!({"schema": "vtare.columns/1", "instruments": instruments, "logs": logs})
}

/// JSON Schema of run.json: one alternative for each instrument.
fn run_schema(described: Vec<Described>) -> Value {
    let names: Vec<&str> = described.iter().map(|instrument| instrument.name).collect();
    let branches: Vec<Value> = described
        .iter()
        .map(|instrument| {
            let mut parameters = instrument.parameters.clone();
            if let Some(schema) = parameters.as_object_mut() {
                schema.remove("$schema");
            }
            json!({
                "if": {"properties": {"instrument": {"const": instrument.name}}},
                "then": {"properties": {"parameters": parameters}},
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": RUN_SCHEMA,
        "description": "One resolved run, carried out by `vtare measure`.",
        "type": "object",
        "required": ["schema", "instrument", "seed"],
        "additionalProperties": false,
        "properties": {
            "schema": {"const": RUN_SCHEMA},
            "run_id": {
                "type": ["string", "null"], "pattern": RUN_ID_PATTERN, "description": "The lab's name for the run."
            },
            "instrument": {"enum": names},
            "seed": {"type": "integer", "minimum": 0, "description": "Seed of every random order."},
            "output": {"type": ["string", "null"], "description": "Where the samples go; null for nowhere."},
            "parameters": {"type": "object"},
        },
        "allOf": branches,
    })
}
