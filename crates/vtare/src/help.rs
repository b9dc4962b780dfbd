//! `vtare --help`, the eight commands in front, and `vtare help --all`, the others in groups.

use clap::Command;

use crate::failure::{Exit, Failure};
use crate::lab;
use crate::output::print;

/// What people start with.
const FRONT: [&str; 8] = ["check", "ab", "exec", "serve", "rtt", "path", "run", "report"];

/// The other commands for people.
const GROUPS: [(&str, &[&str]); 4] = [
    ("This machine", &["timer", "sleep", "counter", "noise", "torture", "load", "selftest", "doctor"]),
    ("The network", &["avb", "rpm", "rpm-serve", "throughput", "capture", "overhead", "link"]),
    (
        "Campaigns",
        &["plan", "status", "resume", "retry", "plot", "serve-report", "compare", "watch", "fleet", "verify", "clean"],
    ),
    ("Published tables", &["papers"]),
];

/// What only programs start: in no list.
#[cfg(test)]
const PLUMBING: [&str; 8] = ["measure", "agent", "link-counter", "shaper", "trials", "schema", "generate", "help"];

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
            let Some(found) = root.find_subcommand(name) else {
                let names: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
                return Err(Failure::Input(crate::usage::unknown_command(name, names)));
            };
            if found.is_disable_help_flag_set() {
                return lab::show_help(name);
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
    let commands = lines(root, &FRONT);
    format!(
        "{about}\n\nUsage: vtare COMMAND [OPTIONS]\n\n{commands}\nStart with: vtare check\n\n\
         All commands:  vtare help --all\n\
         Options:       vtare COMMAND --help\n\
         Version:       vtare --version\n"
    )
}

/// The page of `vtare help --all`.
fn all(root: &Command) -> String {
    let groups = std::iter::once(("Start with", &FRONT[..])).chain(GROUPS);
    let shown: String = groups.map(|(title, names)| format!("{title}\n{}\n", lines(root, names))).collect();
    let codes = root.get_after_help().map(ToString::to_string).unwrap_or_default();
    format!("{shown}With every command: -q, --quiet shows results and errors only.\n\n{codes}\n")
}

/// A line for each command: its name, and what it does.
fn lines(root: &Command, names: &[&str]) -> String {
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let line = |name: &&str| {
        let about = root.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        format!("  {name:<width$}  {}\n", about.unwrap_or_default())
    };
    names.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_exactly_one_group_or_is_plumbing() {
        let root = crate::cli::parser();
        let mut listed: Vec<&str> = FRONT.iter().chain(GROUPS.iter().flat_map(|(_, names)| *names)).copied().collect();
        let mut shown: Vec<&str> =
            root.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        shown.sort_unstable();
        assert_eq!(listed, shown);
        let hidden: Vec<&str> =
            root.get_subcommands().filter(|command| command.is_hide_set()).map(Command::get_name).collect();
        assert_eq!(hidden.len(), PLUMBING.len());
        assert!(PLUMBING.iter().all(|name| hidden.contains(name)), "{hidden:?}");
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

    #[test]
    fn every_command_is_in_the_list_of_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        let text = std::fs::read_to_string(page).expect("the documentation stands beside the crates");
        let root = crate::cli::parser();
        let names = root.get_subcommands().map(Command::get_name).filter(|name| !["generate", "help"].contains(name));
        let missing: Vec<&str> = names.filter(|name| !text.contains(&format!("`vtare {name}"))).collect();
        assert_eq!(missing, [""; 0]);
    }
}
