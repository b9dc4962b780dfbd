//! What is wrong with a command line, in one line: the value, and what to type instead.

use std::error::Error as _;

use clap::error::{ContextKind, ErrorKind};

use crate::nearest::nearest;
use crate::quantities::not;

/// The message of a command line that cannot be read; `command` is its subcommand, where it has one.
pub(crate) fn message(error: &clap::Error, command: Option<&str>) -> String {
    let text = |kind| error.get(kind).map(ToString::to_string).filter(|text| !text.is_empty());
    let help = match command {
        Some(command) => format!("`vtare {command} --help`"),
        None => "`vtare --help`".to_owned(),
    };
    // clap may name several.
    let near = [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ]
    .into_iter()
    .find_map(|(found, near)| Some((text(found)?, text(near)?)))
    .and_then(|(found, near)| nearest(&found, near.split(", ").map(|name| name.trim_matches('\''))).map(str::to_owned));
    // As it is typed: `--target <TIME>` is `--target`.
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let name = argument.split_whitespace().next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let what = if argument.starts_with('-') { "unknown option" } else { "unexpected argument" };
            match near.as_deref() {
                Some(near) => format!("{what} '{argument}'. Did you mean '{near}'?"),
                None => format!("{what} '{argument}': see {help}"),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let found = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = text(ContextKind::SuggestedSubcommand).unwrap_or_default();
            unknown_command(&found, near.split(", ").map(|name| name.trim_matches('\'')))
        }
        ErrorKind::MissingRequiredArgument => format!("{argument} is missing: see {help}"),
        ErrorKind::InvalidValue => {
            let values = text(ContextKind::ValidValue).map(|values| format!("one of {values}"));
            let near = near.map(|near| format!(". Did you mean '{near}'?")).unwrap_or_default();
            match (text(ContextKind::InvalidValue), values) {
                (Some(value), Some(values)) => format!("{name}: '{value}' is not {values}{near}"),
                (Some(value), None) => format!("{name}: '{value}' cannot be used: see {help}"),
                (None, values) => format!("{name} takes {}", values.unwrap_or_else(|| "a value".to_owned())),
            }
        }
        ErrorKind::ValueValidation => {
            let found = text(ContextKind::InvalidValue).unwrap_or_default();
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{name}: {}", in_words(&found, &why))
        }
        _ => {
            let plain = error.render().to_string();
            let first: Vec<&str> = plain.split("\n\n").next().unwrap_or_default().split_whitespace().collect();
            format!("{}: see {help}", first.join(" ").trim_start_matches("error: "))
        }
    }
}

/// The message of a command that does not exist, with the nearest of `names`.
pub(crate) fn unknown_command<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    match nearest(found, names) {
        Some(name) => format!("unknown command '{found}'. Did you mean '{name}'?"),
        None => format!("unknown command '{found}'. `vtare help --all` lists the commands"),
    }
}

/// What is wrong with a value, with what it must be where a parser of the standard library names only what it met.
fn in_words(value: &str, message: &str) -> String {
    [
        ("invalid digit found in string", "a whole number, 0 or more"),
        ("invalid float literal", "a number"),
        ("cannot parse integer from empty string", "a whole number"),
        ("number too large to fit in target type", "a number that fits here"),
    ]
    .iter()
    .fold(message.to_owned(), |message, (met, wanted)| message.replace(met, &not(value, wanted)))
}
