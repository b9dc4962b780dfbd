//! The parameters of an instrument, declared once: clap reads the struct from the command line, serde from run.json,
//! schemars writes its schema, and the bounds in that schema are checked wherever the values come from.

use std::fmt::Debug;

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::arguments::CommonArguments;
use crate::failure::Failure;
use crate::output::to_json;

/// The parameters of one instrument. A doc comment of a field is both its help and its description in the schema; the
/// default values are those of [`Default`]; the name of the field is the key in run.json.
pub(crate) trait Parameters: Clone + Debug + Default + Serialize + DeserializeOwned + JsonSchema + Args {
    /// Changes what follows from the options that were given on the command line; `given` takes the name of a field.
    fn imply(&mut self, _given: &dyn Fn(&str) -> bool) {}
}

/// The command line of an instrument: its parameters, and the arguments that instruments share.
#[derive(Clone, Debug)]
pub(crate) struct Arguments<P> {
    /// The parameters: defaults, changed by the options that were given.
    pub(crate) parameters: P,
    /// The arguments that instruments share.
    pub(crate) common: CommonArguments,
}

impl<P: Parameters> Args for Arguments<P> {
    fn augment_args(command: Command) -> Command {
        let defaults = to_json(&P::default());
        // As in an update: what is not given keeps its value, here the default.
        let command = P::augment_args_for_update(command).mut_args(|argument| with_default(argument, &defaults));
        CommonArguments::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Parameters> FromArgMatches for Arguments<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let on_the_command_line = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let given: Vec<String> = matches.ids().map(|id| id.to_string()).filter(|id| on_the_command_line(id)).collect();
        let mut parameters = P::default();
        parameters.update_from_arg_matches_mut(matches)?;
        parameters.imply(&|key| given.iter().any(|id| id == key));
        Ok(Self { parameters, common: CommonArguments::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The argument with its default value in its help, as a person would type it. An option whose default is an empty
/// text or list must be given: it names what is measured.
fn with_default(argument: Arg, defaults: &Value) -> Arg {
    let default = &defaults[argument.get_id().as_str()];
    let empty = default.as_str() == Some("") || default.as_array().is_some_and(Vec::is_empty);
    if empty && !argument.is_positional() {
        return argument.required(true);
    }
    let unit = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let shown = typed(default, unit);
    match (argument.get_help().cloned(), shown) {
        (Some(help), Some(shown)) => argument.help(format!("{help} [default: {shown}]")),
        _ => argument,
    }
}

/// A value as a person would type it, where `unit` is the value name of the argument; `None` for a flag, and where
/// there is no value.
fn typed(value: &Value, unit: &str) -> Option<String> {
    let number = value.as_f64();
    match (value, unit) {
        (Value::Null | Value::Bool(_) | Value::Object(_), _) => None,
        (Value::Array(list), _) => {
            let list: Vec<String> = list.iter().filter_map(|entry| typed(entry, unit)).collect();
            (!list.is_empty()).then(|| list.join(","))
        }
        (Value::String(text), _) => (!text.is_empty()).then(|| text.clone()),
        (Value::Number(_), "TIME") => value.as_u64().map(duration),
        (Value::Number(_), "PERCENT") => number.map(|share| format!("{}%", (share * 1e8).round() / 1e6)),
        (Value::Number(whole), _) if !whole.is_f64() => Some(whole.to_string()),
        (Value::Number(_), _) => number.map(|number| number.to_string()),
    }
}

/// A duration in the largest unit that gives a whole number: `2700ms`.
fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let fitting = units.into_iter().find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
    fitting.map_or_else(|| "0".to_owned(), |(size, unit)| format!("{}{unit}", ns / size))
}

/// The schema of the parameters.
pub(crate) fn schema_of<P: Parameters>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = to_json(&settings.into_generator().into_root_schema_for::<P>());
    join_lines(&mut schema);
    schema
}

/// Joins the lines of all descriptions: where a comment is wrapped is a matter of the source.
pub(crate) fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(join_lines);
        }
        Value::Array(list) => list.iter_mut().for_each(join_lines),
        _ => {}
    }
}

/// Checks every value against the bounds that the schema states for its key: `minimum`, `maximum`,
/// `exclusiveMinimum` of numbers and of the numbers in lists, and `maxItems`.
///
/// # Errors
/// [`Failure::Input`] with the key, the option where that has another name, the value, and the bounds.
pub(crate) fn check_bounds<P: Parameters>(parameters: &P) -> Result<(), Failure> {
    let (schema, values) = (schema_of::<P>(), to_json(parameters));
    let rules = schema["properties"].as_object().into_iter().flatten();
    for (key, rule) in rules {
        let refused = |value: &str, instead: String| Err(Failure::value(named::<P>(key), value, instead));
        let (rule, numbers) = match &values[key] {
            Value::Array(list) => match rule["maxItems"].as_u64() {
                Some(most) if list.len() as u64 > most => {
                    let key = named::<P>(key);
                    return Err(Failure::Input(format!("{key} has {} entries: use {most} or fewer", list.len())));
                }
                _ => (&rule["items"], list.as_slice()),
            },
            one => (rule, std::slice::from_ref(one)),
        };
        let Some(rule) = rule.as_object() else { continue };
        for value in numbers {
            match value {
                Value::Number(number) if number.as_f64().is_some_and(|number| !within(number, rule)) => {
                    return refused(&typed(value, "").unwrap_or_default(), wanted(rule));
                }
                // JSON has no "not a number": it is null there.
                Value::Null if rule["type"] == "number" => return refused("not a number", wanted(rule)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A bound of a rule; `None` where it states none.
fn bound(rule: &Map<String, Value>, name: &str) -> Option<f64> {
    rule.get(name).and_then(Value::as_f64)
}

fn within(number: f64, rule: &Map<String, Value>) -> bool {
    bound(rule, "minimum").is_none_or(|least| number >= least)
        && bound(rule, "exclusiveMinimum").is_none_or(|below| number > below)
        && bound(rule, "maximum").is_none_or(|most| number <= most)
}

/// The bounds of a rule in words.
fn wanted(rule: &Map<String, Value>) -> String {
    let whole = rule["type"] == "integer" || rule["type"].as_array().is_some_and(|types| types[0] == "integer");
    let kind = if whole { "a whole number" } else { "a number" };
    match (bound(rule, "exclusiveMinimum"), bound(rule, "minimum"), bound(rule, "maximum")) {
        (Some(below), _, Some(most)) => format!("{kind} above {below} and at most {most}"),
        (Some(below), _, None) => format!("{kind} above {below}"),
        (None, Some(least), Some(most)) => format!("{kind} from {least} to {most}"),
        (None, Some(least), None) => format!("{kind}, {least} or more"),
        (None, None, Some(most)) => format!("{kind}, at most {most}"),
        (None, None, None) => kind.to_owned(),
    }
}

/// The key in run.json, followed by its option where that has another name.
fn named<P: Parameters>(key: &str) -> String {
    let command = P::augment_args(Command::new("parameters"));
    let option = command.get_arguments().find(|argument| argument.get_id() == key).and_then(Arg::get_long);
    match option {
        Some(long) if long.replace('-', "_") != key => format!("{key} (--{long})"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize, JsonSchema, Args)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        /// How often, which is
        /// a number.
        #[arg(long = "count", value_name = "N")]
        #[schemars(range(min = 1, max = 9))]
        samples: u64,
        /// How long; without it, no limit.
        #[arg(long, value_name = "S", value_parser = crate::quantities::positive)]
        #[schemars(extend("exclusiveMinimum" = 0))]
        seconds: Option<f64>,
        /// Pauses.
        #[arg(
            long = "pause", value_name = "TIME", value_delimiter = ',', value_parser = crate::quantities::nanoseconds
        )]
        #[schemars(length(max = 3), inner(range(min = 10)))]
        pause_ns: Vec<u64>,
        #[arg(long = "no-gso", action = clap::ArgAction::SetFalse, help = "Single sends")]
        gso: bool,
    }

    impl Default for Example {
        fn default() -> Self {
            Self { samples: 5, seconds: Some(2.5), pause_ns: vec![1_000_000, 2_700_000], gso: true }
        }
    }

    impl Parameters for Example {
        fn imply(&mut self, given: &dyn Fn(&str) -> bool) {
            if given("samples") && !given("seconds") {
                self.seconds = None;
            }
        }
    }

    fn parsed(line: &str) -> Example {
        let command = Arguments::<Example>::augment_args(Command::new("example"));
        let matches = command.try_get_matches_from(format!("example {line}").split_whitespace()).expect("it is right");
        Arguments::<Example>::from_arg_matches(&matches).expect("it is right").parameters
    }

    #[test]
    fn what_is_not_given_keeps_its_default_and_what_is_given_replaces_it() {
        assert_eq!(parsed(""), Example::default());
        assert_eq!(parsed("--count 3"), Example { samples: 3, seconds: None, ..Example::default() });
        assert_eq!(parsed("--count 3 --seconds 1").seconds, Some(1.0));
        assert_eq!(parsed("--pause 5us --no-gso"), Example { pause_ns: vec![5_000], gso: false, ..Example::default() });
    }

    #[test]
    fn the_help_shows_the_defaults_as_a_person_types_them() {
        let help = Arguments::<Example>::augment_args(Command::new("example")).render_help().to_string();
        for part in [
            "How often, which is a number [default: 5]",
            "without it, no limit [default: 2.5]",
            "[default: 1ms,2700us]",
        ] {
            assert!(help.contains(part), "{help}");
        }
        assert!(help.contains("Single sends\n"), "{help}");
        assert_eq!(schema_of::<Example>()["properties"]["samples"]["description"], "How often, which is a number.");
        assert_eq!((typed(&json!(0.005), "PERCENT"), duration(0)), (Some("0.5%".to_owned()), "0".to_owned()));
    }

    #[test]
    fn a_value_outside_the_bounds_of_the_schema_is_refused_with_them() {
        assert!(check_bounds(&Example::default()).is_ok());
        let found = |change: fn(&mut Example)| {
            let mut example = Example::default();
            change(&mut example);
            check_bounds(&example).expect_err("it is outside").to_string()
        };
        assert_eq!(found(|it| it.samples = 10), "samples (--count) is 10: use a whole number from 1 to 9");
        assert_eq!(found(|it| it.seconds = Some(-1.0)), "seconds is -1: use a number above 0");
        assert_eq!(found(|it| it.pause_ns = vec![10, 9]), "pause_ns (--pause) is 9: use a whole number, 10 or more");
        assert_eq!(found(|it| it.pause_ns = vec![10; 4]), "pause_ns (--pause) has 4 entries: use 3 or fewer");
    }
}
