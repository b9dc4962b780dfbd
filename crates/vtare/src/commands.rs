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
