//! The names, the words and the groups of all commands, of both halves: `python/src/vtare/data/commands.json`.

use std::sync::LazyLock;

use clap::Command;
use serde::Deserialize;

/// The file, which the lab reads too.
#[derive(Debug, Deserialize)]
pub(crate) struct Table {
    /// What `vtare help --all` lists.
    pub(crate) groups: Vec<Group>,
    /// Old names, which keep working.
    pub(crate) replaced: Vec<Entry>,
}

/// Commands that belong together.
#[derive(Debug, Deserialize)]
pub(crate) struct Group {
    /// Its heading.
    pub(crate) title: String,
    /// Its commands.
    pub(crate) commands: Vec<Entry>,
}

/// One command.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    /// As it is typed.
    pub(crate) name: String,
    /// What it does, in one line.
    pub(crate) about: String,
    /// Whether the lab carries it out.
    #[serde(default)]
    pub(crate) lab: bool,
    /// What replaced it.
    #[serde(default)]
    by: String,
    /// Its page of the documentation.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "docs/reference/commands.md is made from it"))]
    page: String,
}

/// The table.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let text = include_str!("../../../python/src/vtare/data/commands.json");
        serde_json::from_str(text).expect("a test reads this file")
    });
    &TABLE
}

/// The commands that people are shown.
pub(crate) fn shown() -> impl Iterator<Item = &'static Entry> + Clone {
    table().groups.iter().flat_map(|group| &group.commands)
}

/// The tables of docs/reference/commands.md.
#[cfg(test)]
fn tables() -> String {
    let row = |one: &Entry| format!("| [`vtare {}`]({}) | {} |\n", one.name, one.page, one.about);
    let group = |group: &Group| {
        let rows: String = group.commands.iter().map(row).collect();
        format!("## {}\n\n| command | what it does |\n|---|---|\n{rows}\n", group.title)
    };
    let old = |one: &Entry| format!("| `vtare {}` | `vtare {}` |\n", one.name, one.by);
    let groups: String = table().groups.iter().map(group).collect();
    let old: String = table().replaced.iter().map(old).collect();
    format!("{groups}## Old names, which keep working\n\n| old | new |\n|---|---|\n{old}")
}

fn all() -> impl Iterator<Item = &'static Entry> {
    shown().chain(&table().replaced)
}

/// Whether the lab has a command of this name.
pub(crate) fn is_of_lab(name: &str) -> bool {
    all().any(|command| command.lab && command.name == name)
}

/// The names of all commands, with those of `root`, the parser of the binary.
pub(crate) fn all_names(root: &Command) -> Vec<&str> {
    let own = root.get_subcommands().map(Command::get_name);
    own.chain(all().filter(|command| command.lab).map(|command| command.name.as_str())).collect()
}

/// What to write where an old name of the binary was typed.
pub(crate) fn replaced(name: &str) -> Option<String> {
    let old = table().replaced.iter().find(|command| !command.lab && command.name == name)?;
    Some(format!("`vtare {name}` is now `vtare {}`", old.by))
}

/// The parser of the binary with the words of its commands.
pub(crate) fn with_words(root: Command) -> Command {
    all().filter(|command| !command.lab).fold(root, |root, command| {
        root.mut_subcommand(&command.name, |own| own.about(command.about.as_str()).long_about(None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `VTARE_BLESS=1 cargo test -p vtare tables_of_the_documentation` writes them.
    #[test]
    fn the_tables_of_the_documentation_are_those_of_the_commands() {
        let (begin, end) = ("<!-- made from the commands -->\n\n", "\n<!-- end -->");
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        let page = std::fs::read_to_string(place).expect("the documentation stands beside the crates");
        let (before, rest) = page.split_once(begin).expect("the tables have a beginning");
        let (shown, after) = rest.split_once(end).expect("the tables have an end");
        if std::env::var_os("VTARE_BLESS").is_some() {
            std::fs::write(place, format!("{before}{begin}{}{end}{after}", tables())).expect("the page is writable");
        } else {
            assert_eq!(shown, tables());
        }
    }
}
