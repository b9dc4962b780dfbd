//! What is wrong with a command line, in one line: as all other messages, with what was found and what is wanted.

use std::error::Error as _;

use clap::error::{ContextKind, ErrorKind};

use crate::nearest::{did_you_mean, nearest};

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
    .map(|(found, near)| did_you_mean(&found, near.split(", ").map(|name| name.trim_matches('\''))))
    .unwrap_or_default();
    // As it is typed: `--target <TIME>` is `--target`.
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let name = argument.split_whitespace().next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => format!("found the argument '{argument}'{near}, expected one that {help} lists"),
        ErrorKind::InvalidSubcommand => {
            let found = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let near = text(ContextKind::SuggestedSubcommand).unwrap_or_default();
            unknown_command(&found, near.split(", ").map(|name| name.trim_matches('\'')))
        }
        ErrorKind::MissingRequiredArgument => format!("found no {argument}, expected one: see {help}"),
        ErrorKind::InvalidValue => {
            let found = text(ContextKind::InvalidValue).map_or("no value".to_owned(), |value| format!("'{value}'"));
            let wanted = text(ContextKind::ValidValue).map_or("one".to_owned(), |values| format!("one of {values}"));
            format!("{name}: found {found}{near}, expected {wanted}")
        }
        ErrorKind::ValueValidation => {
            let found = text(ContextKind::InvalidValue).unwrap_or_default();
            let why = in_words(&error.source().map(ToString::to_string).unwrap_or_default());
            match why.starts_with("expected ") {
                true => format!("{name}: found '{found}', {why}"),
                false => format!("{name}: {why}"),
            }
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

/// What is wrong with a value, with what is wanted where a parser of the standard library names only what it met.
fn in_words(message: &str) -> String {
    [
        ("invalid digit found in string", "expected a whole number, 0 or more"),
        ("invalid float literal", "expected a number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "expected a smaller number"),
    ]
    .iter()
    .fold(message.to_owned(), |message, (met, wanted)| message.replace(met, wanted))
}
