//! `vtare --help`, the eight commands in front, and `vtare help --all`, the others in groups.

use clap::Command;

use crate::commands::{self, Group};
use crate::failure::{Exit, Failure};
use crate::lab;
use crate::output::print;

/// Arguments of `vtare help`.
#[derive(Debug, clap::Args)]
pub(crate) struct HelpArguments {
    /// List all commands
    #[arg(long)]
    all: bool,

    /// Show the options of this command
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    command: Option<String>,
}

/// Prints the help that was asked for.
///
/// # Errors
/// For a command that does not exist, and where stdout cannot be written.
pub(crate) fn command(arguments: &HelpArguments, root: &Command) -> Result<Exit, Failure> {
    let text = match &arguments.command {
        None if arguments.all => all(root),
        None => front(root),
        Some(name) => {
            if commands::is_of_lab(name) {
                return lab::show_help(name);
            }
            if root.find_subcommand(name).is_none() {
                return Err(Failure::Input(crate::usage::unknown_command(name, commands::all_names(root))));
            }
            let mut root = root.clone();
            root.build();
            root.find_subcommand_mut(name).map(|found| found.render_help().to_string()).unwrap_or_default()
        }
    };
    print(&text).map(|()| Exit::Measured)
}

/// The page of `vtare` and `vtare --help`: at most 24 lines of 80 columns.
pub(crate) fn front(root: &Command) -> String {
    let about = root.get_about().map(ToString::to_string).unwrap_or_default();
    let commands = commands::table().groups.first().map(lines).unwrap_or_default();
    format!(
        "{about}\n\nUsage: vtare COMMAND [OPTIONS]\n\n{commands}\nStart with: vtare check\n\n\
         All commands:  vtare help --all\n\
         Options:       vtare COMMAND --help\n\
         Version:       vtare --version\n"
    )
}

/// The page of `vtare help --all`.
fn all(root: &Command) -> String {
    let group = |group: &Group| format!("{}\n{}\n", group.title, lines(group));
    let shown: String = commands::table().groups.iter().map(group).collect();
    let codes = root.get_after_help().map(ToString::to_string).unwrap_or_default();
    format!("{shown}With every command: -q, --quiet shows results and errors only.\n\n{codes}\n")
}

/// A line for each command of a group: its name, and what it does.
fn lines(group: &Group) -> String {
    let width = group.commands.iter().map(|command| command.name.len()).max().unwrap_or(0);
    group.commands.iter().map(|command| format!("  {:<width$}  {}\n", command.name, command.about)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What only programs start: in no list.
    const PLUMBING: [&str; 10] =
        ["measure", "agent", "link-counter", "shaper", "trials", "costs", "requests", "schema", "generate", "help"];

    #[test]
    fn every_command_is_in_exactly_one_group_or_is_plumbing_or_replaced() {
        let root = crate::cli::parser();
        let (shown, replaced) = (commands::shown(), &commands::table().replaced);
        let listed: BTreeSet<&str> = shown.clone().map(|command| command.name.as_str()).collect();
        assert_eq!(listed.len(), shown.clone().count());
        let own = |hidden: bool| root.get_subcommands().filter(move |one| one.is_hide_set() == hidden);
        let of_binary = shown.filter(|command| !command.lab).map(|command| command.name.as_str());
        assert_eq!(of_binary.collect::<BTreeSet<_>>(), own(false).map(Command::get_name).collect());
        let old = replaced.iter().filter(|command| !command.lab).map(|command| command.name.as_str());
        assert_eq!(old.chain(PLUMBING).collect::<BTreeSet<_>>(), own(true).map(Command::get_name).collect());
    }

    #[test]
    fn the_front_page_fits_on_a_terminal_of_24_lines_and_80_columns() {
        let text = front(&crate::cli::parser());
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("\nStart with: vtare check\n"));
        for page in [text, all(&crate::cli::parser())] {
            assert_eq!(page.lines().filter(|line| line.chars().count() > 80).collect::<Vec<_>>(), [""; 0]);
            assert!(PLUMBING.iter().all(|name| !page.contains(&format!("\n  {name} "))), "{page}");
        }
    }
}
