//! `vtare generate man|completions DIR`: man pages and shell completions, made from the command line itself (for `make
//! install`).

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Command, ValueEnum};
use clap_mangen::Man;

use crate::failure::{Exit, Failure};
use crate::{completions, lab_tree};
use vtare_sys::whole_file::WholeFile;

/// Arguments of `vtare generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArguments {
    /// What to make
    #[arg(value_enum)]
    what: What,

    /// Where to put it; made where it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// vtare.1 and a page for each subcommand, vtare-NAME.1
    Man,
    /// vtare.bash, _vtare (zsh) and vtare.fish
    Completions,
}

/// Writes the files.
///
/// # Errors
/// Where the directory cannot be made or written.
pub(crate) fn command(arguments: &GenerateArguments, root: &Command) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
    let files = match arguments.what {
        What::Man => pages(root).map_err(|error| failure(directory, &error))?,
        What::Completions => completions::files(),
    };
    for (name, contents) in files {
        let path = directory.join(name);
        write(&path, &contents).map_err(|error| failure(&path, &error))?;
    }
    Ok(Exit::Measured)
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let file = WholeFile::create(path)?;
    file.handle()?.write_all(contents)?;
    file.keep()
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::Input(format!("cannot write {}: {error}: choose a directory that is writable", path.display()))
}

/// The page of the program and one for each subcommand, of both halves: name and contents.
fn pages(root: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = lab_tree::with_lab(root, lab_tree::read().as_ref());
    whole.build();
    let exit_status = root.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut all = vec![whole];
    let mut at = 0;
    while let Some(command) = all.get(at) {
        let below: Vec<Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
        all.extend(below);
        at += 1;
    }
    all.into_iter()
        .map(|command| {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
            let page = page(command, &name, &exit_status)?;
            Ok((format!("{name}.1"), page))
        })
        .collect()
}

fn page(command: Command, name: &str, exit_status: &str) -> io::Result<Vec<u8>> {
    let has_commands = command.has_subcommands();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command)
        .title(name.to_uppercase())
        .source(concat!("vtare ", env!("CARGO_PKG_VERSION")))
        .manual("vtare");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some((_, examples)) = after.split_once("Examples:\n") {
        write!(page, ".SH EXAMPLES\n.nf\n{}\n.fi\n", plain(examples))?;
    }
    write!(page, ".SH EXIT STATUS\n{}\n", plain(exit_status))?;
    if name != "vtare" {
        write!(page, ".SH SEE ALSO\n\\fBvtare\\fR(1)\n")?;
    }
    Ok(page)
}

/// Text as roff takes it: its own signs escaped.
fn plain(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
