//! `vtare measure RUN.json`: one resolved run, for the lab.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::avb::Avb;
use crate::capture::Capture;
use crate::context::Context;
use crate::counter::Counter;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument, RUN_SCHEMA, RunHeader, Showing};
use crate::limits::Limit;
use crate::noise::Noise;
use crate::rtt::Rtt;
use crate::schema::Described;
use crate::sleep::Sleep;
use crate::throughput::Throughput;
use crate::timer::Timer;

/// Arguments of `vtare measure`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeasureArguments {
    /// The run to carry out, as contract/README.md describes it
    #[arg(value_name = "RUN.json")]
    run: PathBuf,

    /// Print the result as one JSON document on stdout (else nothing is printed)
    #[arg(long)]
    json: bool,

    /// Exit with code 1 where a figure crosses a limit, as in 'miss_p99_ns > 5000'; may be given more than once
    #[arg(long, value_name = "EXPRESSION")]
    fail_if: Vec<Limit>,
}

/// run.json before its instrument has read the parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    schema: String,
    run_id: Option<String>,
    instrument: String,
    seed: u64,
    #[serde(default)]
    output: Option<PathBuf>,
    #[serde(default = "no_parameters")]
    parameters: Value,
}

fn no_parameters() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The instruments that run.json can name: the one list of them.
macro_rules! instruments {
    ($do:ident) => {
        $do!(Timer, Sleep, Counter, Noise, Rtt, Avb, Throughput, Capture)
    };
}

/// Each instrument as the schemas describe it.
pub(crate) fn described() -> Vec<Described> {
    macro_rules! describe {
        ($($instrument:ty),*) => { vec![$(Described::of::<$instrument>()),*] };
    }
    instruments!(describe)
}

/// Carries out the run in the file.
///
/// # Errors
/// [`Failure::Input`] where the file cannot be read or understood; else what the instrument meets.
pub(crate) fn command(arguments: &MeasureArguments, context: &Context) -> Result<Exit, Failure> {
    let path = &arguments.run;
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Input(format!("cannot read {}: {error}: give the path of a run.json", path.display()))
    })?;
    let run: RunFile = parse(&text, path)?;
    let header = RunHeader { run_id: run.run_id, output: run.output, seed: run.seed };
    if run.schema != RUN_SCHEMA {
        let found = run.schema;
        return Err(wrong(path, "schema", &format!("found \"{found}\", want \"{RUN_SCHEMA}\"")));
    }
    let showing = Showing { json: arguments.json, quiet: true, limits: &arguments.fail_if };
    macro_rules! choose {
        ($($instrument:ty),*) => {
            match run.instrument.as_str() {
                $(<$instrument>::NAME => carry_out::<$instrument>(run.parameters, path, &header, showing, context),)*
                other => {
                    let known = [$(<$instrument>::NAME),*].join(", ");
                    Err(wrong(path, "instrument", &format!("found \"{other}\", want one of {known}")))
                }
            }
        };
    }
    instruments!(choose)
}

fn carry_out<I: Instrument>(
    parameters: Value,
    path: &Path,
    header: &RunHeader,
    showing: Showing<'_>,
    context: &Context,
) -> Result<Exit, Failure> {
    let parameters = serde_path_to_error::deserialize::<_, I::Parameters>(parameters).map_err(|error| {
        let key = match error.path().to_string() {
            root if root == "." => "parameters".to_owned(),
            inner => format!("parameters.{inner}"),
        };
        wrong(path, &key, &error.into_inner().to_string())
    })?;
    instrument::carry_out::<I>(parameters, header, showing, context)
}

fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, Failure> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let key = error.path().to_string();
        wrong(path, if key == "." { "the document" } else { &key }, &error.into_inner().to_string())
    })
}

/// The error that names the file, the key, what was found there and what is wanted.
fn wrong(path: &Path, key: &str, why: &str) -> Failure {
    Failure::Input(format!("{}: {key}: {why}", path.display()))
}
