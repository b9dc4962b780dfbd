//! Commands of the lab, carried out by `vtare-lab` as git carries out its own: found beside this binary, then on PATH.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands;
use crate::failure::{Exit, Failure};
use crate::usage::unknown_command;

/// The program that knows plans, campaigns and reports.
pub(crate) const LAB: &str = "vtare-lab";

/// Replaces this process by `vtare-lab SUBCOMMAND ARGUMENTS`, with the arguments as they were typed.
///
/// # Errors
/// [`Failure::Input`] where there is no such command, [`Failure::Machine`] where the lab is not installed, with the
/// command that installs it.
pub(crate) fn hand_over(typed: &[OsString], quiet: bool, root: &clap::Command) -> Result<Exit, Failure> {
    let name = typed.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !commands::is_of_lab(&name) {
        return Err(Failure::Input(unknown_command(&name, commands::all_names(root))));
    }
    let quiet = quiet.then(|| OsString::from("--quiet"));
    start(&name, quiet.into_iter().chain(typed.iter().skip(1).cloned()))
}

/// Replaces this process by the help of a command of the lab.
///
/// # Errors
/// As [`hand_over`].
pub(crate) fn show_help(subcommand: &str) -> Result<Exit, Failure> {
    start(subcommand, ["--help".into()])
}

/// Replaces this process by a command of the lab.
///
/// # Errors
/// [`Failure::Machine`] where the lab is not installed.
pub(crate) fn start(subcommand: &str, arguments: impl IntoIterator<Item = OsString>) -> Result<Exit, Failure> {
    let lab = program(LAB).map_err(|place| {
        Failure::Machine(format!(
            "'vtare {subcommand}' is carried out by {LAB}, which is neither in {place} nor on PATH: install it \
             with 'make install' in a clone of vtare (the instruments work without it)"
        ))
    })?;
    let error = Command::new(&lab).arg(subcommand).args(arguments).exec();
    Err(Failure::Machine(format!("cannot start {}: {error}", lab.display())))
}

/// A program that is found beside this one, else on PATH.
///
/// # Errors
/// The directory where it is not.
pub(crate) fn program(name: &str) -> Result<PathBuf, String> {
    let beside = crate::own_program::path().ok().and_then(|own| own.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    find(name, beside.as_deref(), &path).ok_or_else(|| match beside {
        Some(place) => place.display().to_string(),
        None => "the directory of vtare (unknown, since /proc is not mounted: 'mount -t proc proc /proc')".to_owned(),
    })
}

/// The first executable of that name beside the binary or in a directory of `path`.
fn find(name: &str, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let executable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let directories = beside.map(Path::to_owned).into_iter().chain(std::env::split_paths(path));
    directories.map(|directory| directory.join(name)).find(executable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lab_beside_the_binary_comes_first_and_must_be_executable() {
        let root = std::env::temp_dir().join(format!("vtare-lab-find-{}", std::process::id()));
        let (beside, on_path) = (root.join("beside"), root.join("path"));
        for place in [&beside, &on_path] {
            fs::create_dir_all(place).expect("the temporary directory is writable");
            fs::write(place.join(LAB), "#!/bin/sh\n").expect("a file is written");
        }
        let allow = |place: &Path| fs::set_permissions(place.join(LAB), fs::Permissions::from_mode(0o755));
        let found = || find(LAB, Some(&beside), on_path.as_os_str());
        assert_eq!(found(), None);
        allow(&on_path).expect("it is our file");
        assert_eq!(found(), Some(on_path.join(LAB)));
        allow(&beside).expect("it is our file");
        assert_eq!(found(), Some(beside.join(LAB)));
        fs::remove_dir_all(root).expect("the place was ours");
    }
}
