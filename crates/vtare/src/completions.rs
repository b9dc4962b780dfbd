//! `vtare completions SHELL`: what makes a shell complete commands, options, plans, stores and files, of both halves.
//!
//! The shell then starts this program at each TAB, with [`VARIABLE`] set.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Command, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::failure::{Exit, Failure};
use crate::{commands, lab_tree, output};

/// Names the shell that asks.
const VARIABLE: &str = "VTARE_COMPLETE";

/// Arguments of `vtare completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
        }
    }

    /// Where packages put its file, below `share`.
    fn file(self) -> &'static str {
        match self {
            Self::Bash => "vtare.bash",
            Self::Zsh => "_vtare",
            Self::Fish => "vtare.fish",
        }
    }

    /// What the shell reads.
    fn script(self) -> Vec<u8> {
        let mut script = Vec::new();
        // Into memory: it cannot fail.
        let _ = self.completer().write_registration(VARIABLE, "vtare", "vtare", "vtare", &mut script);
        script
    }
}

/// The file of each shell: name and contents.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    Shell::value_variants().iter().map(|shell| (shell.file().to_owned(), shell.script())).collect()
}

/// Prints what a shell reads.
///
/// # Errors
/// Where stdout cannot be written.
pub(crate) fn command(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    output::print(&String::from_utf8_lossy(&arguments.shell.script()))?;
    Ok(Exit::Measured)
}

/// Prints the completions that a shell asks for at TAB; `None` if no shell asks.
pub(crate) fn answer(parser: fn() -> Command) -> Option<ExitCode> {
    let name = std::env::var_os(VARIABLE)?;
    let shell = Shell::from_str(&name.to_string_lossy(), false).ok()?;
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let here = std::env::current_dir().ok();
    Some(match complete(shell, &parser(), words, here.as_deref()) {
        Ok(answer) => {
            output::print(&String::from_utf8_lossy(&answer)).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        Err(_) => ExitCode::FAILURE,
    })
}

fn complete(shell: Shell, root: &Command, words: Vec<OsString>, here: Option<&Path>) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    shell.completer().write_complete(&mut parser_for(root, &words), words, here, &mut answer)?;
    Ok(answer)
}

/// The commands of both halves. The lab is asked for its options only where one of its commands is typed.
fn parser_for(root: &Command, words: &[OsString]) -> Command {
    let typed = words.iter().skip(1).filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
    let wants_lab = typed.is_some_and(commands::is_of_lab);
    let help = root.find_subcommand("help").cloned().map(|help| {
        let names: Vec<&str> = commands::shown().map(|command| command.name.as_str()).collect();
        help.hide(false).mut_arg("command", |name| name.value_parser(PossibleValuesParser::new(names)))
    });
    lab_tree::with_lab(root, wants_lab.then(lab_tree::read).flatten().as_ref()).subcommands(help)
}

/// Candidates of `line`, the last word of which is not finished.
#[cfg(test)]
fn candidates(parser: &mut Command, line: &[&str]) -> Vec<String> {
    let words: Vec<OsString> = line.iter().map(OsString::from).collect();
    let last = words.len() - 1;
    let found = clap_complete::engine::complete(parser, words, last, None).expect("the line can be completed");
    found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_both_halves_are_completed_and_plumbing_is_not() {
        let mut parser = lab_tree::with_lab(&crate::cli::parser(), None);
        assert_eq!(candidates(&mut parser, &["vtare", "rep"]), ["report"]);
        assert_eq!(candidates(&mut parser, &["vtare", "rt"]), ["rtt"]);
        let all = candidates(&mut parser, &["vtare", ""]);
        for name in ["measure", "agent", "generate", "plot", "rpm-serve", "torture"] {
            assert!(!all.contains(&name.to_owned()), "{all:?}");
        }
        for command in commands::shown() {
            assert!(all.contains(&command.name), "{all:?}");
        }
        assert_eq!(candidates(&mut parser, &["vtare", "timer", "--all"]), ["--all-cpus"]);
    }

    #[test]
    fn options_choices_and_plans_of_the_lab_are_completed() {
        let mut parser = lab_tree::with_lab(&crate::cli::parser(), Some(&lab_tree::example()));
        assert_eq!(candidates(&mut parser, &["vtare", "report", "--for"]), ["--format"]);
        assert_eq!(candidates(&mut parser, &["vtare", "report", "--format", "h"]), ["html"]);
        assert_eq!(candidates(&mut parser, &["vtare", "report", "ki"]), ["kirova-timers"]);
        assert_eq!(candidates(&mut parser, &["vtare", "report", "week"]), ["weekly"]);
    }
}
