//! The commands of the lab as commands of clap, by what `vtare-lab --commands` prints: for completions and man pages.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Stdio;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use serde::Deserialize;

use crate::{commands, lab};

/// What the lab prints.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tree {
    /// Kind of value -> words that may stand for it.
    words: BTreeMap<String, Vec<String>>,
    commands: Vec<LabCommand>,
}

#[derive(Clone, Debug, Deserialize)]
struct LabCommand {
    name: String,
    about: String,
    details: String,
    hidden: bool,
    examples: Vec<(String, String)>,
    parameters: Vec<Parameter>,
    commands: Vec<LabCommand>,
}

/// An option, or an argument where `options` is empty.
#[derive(Clone, Debug, Deserialize)]
struct Parameter {
    name: String,
    options: Vec<String>,
    /// The name of its value; none of a flag.
    value: Option<String>,
    kind: Option<String>,
    choices: Vec<String>,
    help: String,
    default: Option<String>,
    required: bool,
    repeatable: bool,
    hidden: bool,
}

/// Asks the lab; `None` where it is not installed, or is of a version that cannot answer.
pub(crate) fn read() -> Option<Tree> {
    let program = lab::program(lab::LAB).ok()?;
    let asked =
        std::process::Command::new(program).arg("--commands").stdin(Stdio::null()).stderr(Stdio::null()).output();
    serde_json::from_slice(&asked.ok()?.stdout).ok()
}

/// The commands that people are shown, of both halves; of those of the lab the names and words alone without its tree.
pub(crate) fn with_lab(root: &Command, tree: Option<&Tree>) -> Command {
    let own = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let global = root.get_arguments().filter(|argument| argument.is_global_set()).cloned();
    let of_lab = commands::shown().filter(|command| command.lab).map(|command| {
        let described = tree.and_then(|tree| Some((tree, tree.commands.iter().find(|one| one.name == command.name)?)));
        let described = described.map(|(tree, one)| one.to_clap(&tree.words));
        described.unwrap_or_else(|| Command::new(&command.name)).about(&command.about)
    });
    Command::new("vtare")
        .version(env!("CARGO_PKG_VERSION"))
        .about(root.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .args(global)
        .subcommands(own)
        .subcommands(of_lab)
}

impl LabCommand {
    fn to_clap(&self, words: &BTreeMap<String, Vec<String>>) -> Command {
        let examples: Vec<String> =
            self.examples.iter().map(|(line, what)| format!("  vtare {line}\n      {what}")).collect();
        // The root has it for all commands.
        let parameters = self.parameters.iter().filter(|parameter| parameter.name != "quiet");
        let made = Command::new(&self.name)
            .about(&self.about)
            .hide(self.hidden)
            .disable_help_subcommand(true)
            .args(parameters.map(|parameter| parameter.to_clap(words)))
            .subcommands(self.commands.iter().map(|one| one.to_clap(words)));
        let made =
            if self.details.is_empty() { made } else { made.long_about(format!("{}\n\n{}", self.about, self.details)) };
        if examples.is_empty() { made } else { made.after_help(format!("Examples:\n{}", examples.join("\n"))) }
    }
}

impl Parameter {
    fn to_clap(&self, words: &BTreeMap<String, Vec<String>>) -> Arg {
        let named = self.options.iter().fold(Arg::new(&self.name), |argument, option| {
            let bare = option.trim_start_matches('-');
            match (option.starts_with("--"), bare.chars().next()) {
                (false, Some(letter)) => argument.short(letter),
                _ => argument.long(bare.to_owned()),
            }
        });
        let help = match &self.default {
            Some(default) => format!("{} [default: {default}]", self.help),
            None => self.help.clone(),
        };
        let named = named.help(help).required(self.required).hide(self.hidden);
        let Some(value) = &self.value else { return named.action(ArgAction::SetTrue) };
        let named = named.value_name(value);
        let named = match (self.repeatable, self.options.is_empty()) {
            (true, true) => named.num_args(1..),
            (true, false) => named.action(ArgAction::Append),
            (false, _) => named,
        };
        self.with_values(named, words)
    }

    /// With what may stand for its value.
    fn with_values(&self, argument: Arg, words: &BTreeMap<String, Vec<String>>) -> Arg {
        let kind = self.kind.as_deref().unwrap_or_default();
        if !self.choices.is_empty() {
            return argument.value_parser(PossibleValuesParser::new(&self.choices));
        }
        match (kind, words.get(kind)) {
            ("plan", known) => {
                let known = known.cloned().unwrap_or_default();
                argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
                    let files = PathCompleter::file().complete(typed);
                    let plans = known.iter().filter(|plan| begins(plan, typed)).map(CompletionCandidate::new);
                    plans.chain(files).collect::<Vec<_>>()
                }))
            }
            (_, Some(known)) => argument.value_parser(PossibleValuesParser::new(known)),
            ("file" | "fleet", None) => argument.value_hint(ValueHint::FilePath),
            ("store" | "directory", None) => argument.value_hint(ValueHint::DirPath),
            _ => argument,
        }
    }
}

/// Whether a word begins with what is typed.
fn begins(word: &str, typed: &OsStr) -> bool {
    typed.to_str().is_some_and(|typed| word.starts_with(typed))
}

/// A tree with one command.
#[cfg(test)]
pub(crate) fn example() -> Tree {
    let parameter = |name: &str, options: &[&str], kind: &str, choices: &[&str]| Parameter {
        name: name.to_owned(),
        options: options.iter().map(ToString::to_string).collect(),
        value: Some(name.to_uppercase()),
        kind: Some(kind.to_owned()),
        choices: choices.iter().map(ToString::to_string).collect(),
        help: "What it is".to_owned(),
        default: None,
        required: false,
        repeatable: false,
        hidden: false,
    };
    let report = LabCommand {
        name: "report".to_owned(),
        about: "Write it".to_owned(),
        details: "More of it.".to_owned(),
        hidden: false,
        examples: vec![("report store".to_owned(), "write it there".to_owned())],
        parameters: vec![
            parameter("plan", &[], "plan", &[]),
            parameter("format", &["--format", "-f"], "choice", &["html", "json"]),
        ],
        commands: vec![],
    };
    let words = BTreeMap::from([("plan".to_owned(), vec!["kirova-timers".to_owned(), "weekly".to_owned()])]);
    Tree { words, commands: vec![report] }
}
