//! `vtare measure RUN.json`: one resolved run, for the lab.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use vtare_sys::named_file;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument, RunHeader, Showing};
use crate::instruments::instruments;
use crate::limits::Asked;
use crate::nearest::instead_of;
use crate::quantities;
use crate::run_file::{self, LARGEST_BYTE};

/// Arguments of `vtare measure`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MeasureArguments {
    /// The run to carry out, as docs/internals/contract.md describes it
    #[arg(value_name = "RUN.json")]
    run: PathBuf,

    /// Print the result as one JSON document on stdout (else nothing is printed)
    #[arg(long)]
    json: bool,

    /// Exit with code 1 where a figure crosses a limit, as in 'p99 > 5ms'; repeatable; 'help' lists the figures
    #[arg(long, value_name = "EXPRESSION")]
    fail_if: Vec<Asked>,
}

/// Carries out the run in the file.
///
/// # Errors
/// [`Failure::Input`] where the file cannot be read or understood; else what the instrument meets.
pub(crate) fn command(arguments: &MeasureArguments, context: &Context) -> Result<Exit, Failure> {
    let path = &arguments.run;
    let run = run_file::parse(&read(path, "run.json")?).map_err(|why| wrong(path, &why))?;
    let header = RunHeader { run_id: run.run_id, output: run.output, seed: run.seed };
    let showing = Showing { json: arguments.json, quiet: true, verbose: false, limits: &arguments.fail_if };
    macro_rules! choose {
        ($($instrument:ty),*) => {
            match run.instrument.as_str() {
                $(<$instrument>::NAME => carry_out::<$instrument>(run.parameters, path, &header, showing, context),)*
                other => {
                    let known = [$(<$instrument>::NAME),*];
                    Err(wrong(path, &format!("instrument is \"{other}\"{}", instead_of(other, &known))))
                }
            }
        };
    }
    instruments!(choose)
}

fn carry_out<I: Instrument>(
    parameters: Map<String, Value>,
    path: &Path,
    header: &RunHeader,
    showing: Showing<'_>,
    context: &Context,
) -> Result<Exit, Failure> {
    let parameters =
        serde_path_to_error::deserialize::<_, I::Parameters>(Value::Object(parameters)).map_err(|error| {
            let key = match error.path().to_string() {
                root if root == "." => "parameters".to_owned(),
                inner => format!("parameters.{inner}"),
            };
            wrong(path, &format!("{key}: {}", error.into_inner()))
        })?;
    instrument::carry_out::<I>(parameters, header, showing, context)
}

/// The text of a `kind` of file, as run.json.
pub(crate) fn read(path: &Path, kind: &str) -> Result<String, Failure> {
    let text = named_file::text(path, LARGEST_BYTE).map_err(|error| {
        Failure::Input(format!("cannot read {}: {error}: give the path of a {kind}", path.display()))
    })?;
    Ok(quantities::without_mark(&text).to_owned())
}

/// The error that names the file; `why` names the key, what was found there and what is wanted.
pub(crate) fn wrong(path: &Path, why: &str) -> Failure {
    Failure::Input(format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What somebody may write where a number, a list or a name is expected.
    fn hostile() -> Vec<Value> {
        let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
        let mut values =
            vec![json!(null), json!(true), json!(""), json!("../../x"), json!("\0"), json!("x".repeat(5_000)), deep];
        values.extend([0, 1, 2, i64::MAX, -1, i64::MIN].map(Value::from));
        values.extend([u64::MAX, 1 << 32, 1 << 53].map(Value::from));
        values.extend([0.5, 1e-300, 1e300, -0.0, f64::MAX].map(Value::from));
        values.extend([json!([]), json!({}), json!([[]]), json!([null])]);
        let lists: Vec<Value> = values.iter().map(|value| json!([value, value])).collect();
        values.extend(lists);
        values
    }

    fn survives<I: Instrument>(context: &Context) -> usize {
        let usual = crate::output::to_json(&I::Parameters::default());
        let keys: Vec<&String> = usual.as_object().expect("parameters are an object").keys().collect();
        let mut refused = 0;
        for key in &keys {
            for value in hostile() {
                let mut parameters = usual.clone();
                parameters[key.as_str()] = value;
                let parsed = serde_path_to_error::deserialize::<_, I::Parameters>(parameters);
                refused += usize::from(parsed.map_or(true, |parameters| I::resolve(parameters, context).is_err()));
            }
        }
        assert!(refused >= keys.len(), "{}: {refused} refusals of {} parameters", I::NAME, keys.len());
        refused
    }

    #[test]
    fn any_value_of_any_parameter_is_taken_or_refused_and_never_a_panic() {
        let context = Context::without_signals();
        macro_rules! all {
            ($($instrument:ty),*) => { [$(survives::<$instrument>(&context)),*] };
        }
        assert!(instruments!(all).iter().sum::<usize>() > 1_000);
    }
}
