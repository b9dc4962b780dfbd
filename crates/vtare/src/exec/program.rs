//! Which file will run, and what of vtare can reach it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use vtare_sys::named_file;

use super::elf::{Elf, Image, inspect};

/// How many scripts may name each other as interpreter; the kernel follows four.
const MOST_SCRIPTS: usize = 5;

/// Why a program cannot be started. The messages and codes are those that shells use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 127
    NotFound(String),
    /// 126
    NotExecutable(String),
}

/// The program that will run.
#[derive(Debug)]
pub(super) struct Program {
    /// The file that is started.
    pub(super) file: PathBuf,
    /// Why vtare's clock and sleeps do not reach it, where they do not.
    pub(super) limit: Option<Limit>,
    /// What the sentence about the limit is about: the file, or the interpreter that runs it.
    pub(super) run_by: PathBuf,
}

/// Why the library cannot be put under a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// No dynamic linker.
    Static,
    /// Made by Go, which makes its own system calls.
    Go,
    /// 32-bit.
    Narrow,
    /// Linked against another C library, by this dynamic linker.
    OtherLinker(String),
    /// Runs with the rights of this user id or group id.
    SetId(&'static str, u32),
    /// Runs with capabilities of its own.
    Capabilities,
}

impl Limit {
    /// What this means for the user, and what still helps.
    pub(super) fn sentence(&self, program: &Path) -> String {
        let program = program.display();
        let slack = "The timer slack still helps: the kernel wakes it earlier";
        match self {
            Self::Static => format!(
                "{program} is a static program: no library can be put under it, so its clock and sleeps stay the \
                 system's. {slack}. A dynamically linked build of it gets everything"
            ),
            Self::Go => format!(
                "{program} is a Go program: it reads the clock and sleeps without the C library, so both stay its own. \
                 Timer slack does not help either, since the Go runtime waits in other calls"
            ),
            Self::Narrow => format!(
                "{program} is a 32-bit program: the library is 64-bit, so its clock and sleeps stay the system's. \
                 {slack}"
            ),
            Self::OtherLinker(linker) => format!(
                "{program} uses another C library ({linker}): the library is for glibc, so its clock and sleeps stay \
                 the system's. {slack}"
            ),
            Self::SetId(what, id) => format!(
                "{program} runs with the rights of {what} {id}: the dynamic linker ignores preloaded libraries there, \
                 so its clock and sleeps stay the system's. {slack}. Started by that user it gets everything"
            ),
            Self::Capabilities => format!(
                "{program} has file capabilities: the dynamic linker ignores preloaded libraries there, so its clock \
                 and sleeps stay the system's. {slack}. Started by root it gets everything"
            ),
        }
    }

    /// Whether the dynamic linker would complain about the library on every start.
    pub(super) fn rejects_library(&self) -> bool {
        matches!(self, Self::Narrow | Self::OtherLinker(_))
    }
}

/// Finds the program as `execvp` would and looks at what will run.
pub(super) fn find(name: &OsStr, path: &OsStr) -> Result<Program, Refusal> {
    let file = locate(name, path)?;
    let (run_by, limit) = look(&file, path, 0)?;
    Ok(Program { file, limit, run_by })
}

fn locate(name: &OsStr, path: &OsStr) -> Result<PathBuf, Refusal> {
    let shown = name.to_string_lossy();
    if name.is_empty() {
        return Err(Refusal::NotFound("the program name is empty: use a file or a name on PATH".to_owned()));
    }
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Refusal::NotExecutable(format!("{shown}: permission denied")))
            }
            Err(error) => Err(Refusal::NotFound(format!("{shown}: cannot be started: {error}"))),
            Ok(facts) if facts.is_dir() => {
                Err(Refusal::NotExecutable(format!("{shown}: is a directory, not a program")))
            }
            Ok(facts) if facts.permissions().mode() & 0o111 == 0 => {
                Err(Refusal::NotExecutable(format!("{shown}: is not executable: chmod +x makes it so")))
            }
            Ok(_) => Ok(file),
        };
    }
    let mut not_executable = None;
    for directory in std::env::split_paths(path) {
        let file = directory.join(name);
        match fs::metadata(&file) {
            Ok(facts) if facts.is_file() && facts.permissions().mode() & 0o111 != 0 => return Ok(file),
            Ok(facts) if facts.is_file() => not_executable = Some(file),
            _ => {}
        }
    }
    Err(match not_executable {
        Some(file) => Refusal::NotExecutable(format!("{}: is not executable: chmod +x makes it so", file.display())),
        None => Refusal::NotFound(format!("{shown} is in no directory of PATH: name it with its path, or install it")),
    })
}

fn look(file: &Path, path: &OsStr, depth: usize) -> Result<(PathBuf, Option<Limit>), Refusal> {
    let shown = file.display();
    // A program may be executable and not readable: then nothing can be known of it, and nothing is claimed.
    let opened = match named_file::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok((file.to_owned(), None)),
        Err(error) => return Err(Refusal::NotFound(format!("{shown}: cannot be read: {error}"))),
    };
    let image =
        inspect(&opened).map_err(|error| Refusal::NotExecutable(format!("{shown}: cannot be read: {error}")))?;
    match image {
        Image::Other => Err(Refusal::NotExecutable(format!(
            "{shown}: is neither a program for this machine nor a script that names its interpreter in a first line \
             `#!/...`"
        ))),
        Image::Elf(elf) if elf.wide && !elf.native => {
            Err(Refusal::NotExecutable(format!("{shown}: is a program for another processor")))
        }
        Image::Elf(elf) => {
            let limit = limit(&elf, file, &opened);
            Ok((file.to_owned(), limit))
        }
        Image::Script { .. } if depth == MOST_SCRIPTS => Err(Refusal::NotExecutable(format!(
            "{shown}: more than {MOST_SCRIPTS} scripts name each other as interpreter"
        ))),
        Image::Script { interpreter, argument } => {
            let interpreter = PathBuf::from(interpreter);
            if !interpreter.exists() {
                return Err(Refusal::NotFound(format!(
                    "{shown}: its interpreter {} is not there: install it or correct the first line",
                    interpreter.display()
                )));
            }
            // `env` starts another program in turn.
            let behind = argument.as_deref().filter(|_| interpreter.ends_with("env")).and_then(started_by_env);
            match behind.and_then(|name| locate(OsStr::new(name), path).ok()) {
                Some(behind) => look(&behind, path, depth + 1),
                None => look(&interpreter, path, depth + 1),
            }
        }
    }
}

/// The program in the arguments of `env`: the first that is no option and no assignment.
fn started_by_env(arguments: &str) -> Option<&str> {
    arguments.split_whitespace().find(|word| !word.starts_with('-') && !word.contains('='))
}

fn limit(elf: &Elf, file: &Path, opened: &File) -> Option<Limit> {
    if !elf.wide {
        return Some(Limit::Narrow);
    }
    if elf.go {
        return Some(Limit::Go);
    }
    let is_linker = file.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"));
    match &elf.linker {
        None if is_linker => None,
        None => Some(Limit::Static),
        Some(linker) if !linker.contains("/ld-linux") => Some(Limit::OtherLinker(linker.clone())),
        Some(_) => other_rights(opened),
    }
}

/// Whether the program runs with other rights than the caller's, so that the kernel starts the linker in secure
/// mode (AT_SECURE).
fn other_rights(opened: &File) -> Option<Limit> {
    let facts = opened.metadata().ok()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if facts.mode() & 0o4000 != 0 && facts.uid() != user {
        return Some(Limit::SetId("user id", facts.uid()));
    }
    if facts.mode() & 0o2010 == 0o2010 && facts.gid() != group {
        return Some(Limit::SetId("group id", facts.gid()));
    }
    let mut value = [0_u8; 64];
    let capable = rustix::fs::fgetxattr(opened, "security.capability", &mut value).is_ok();
    // Root has all capabilities already.
    (capable && user != 0).then_some(Limit::Capabilities)
}

/// The search path for programs, or the system's default.
pub(super) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_behind_env_is_found_past_options_and_assignments() {
        assert_eq!(started_by_env("python3"), Some("python3"));
        assert_eq!(started_by_env("-S LANG=C python3 -u"), Some("python3"));
        assert_eq!(started_by_env("-i"), None);
    }

    #[test]
    fn each_limit_names_the_program_and_what_still_helps() {
        let program = Path::new("/opt/tool");
        for limit in [
            Limit::Static,
            Limit::Go,
            Limit::Narrow,
            Limit::OtherLinker("/lib/ld-musl-x86_64.so.1".to_owned()),
            Limit::SetId("user id", 0),
            Limit::Capabilities,
        ] {
            let text = limit.sentence(program);
            assert!(text.starts_with("/opt/tool ") && text.contains("slack"), "{text}");
        }
    }

    #[test]
    fn a_go_program_is_go_whether_static_or_not() {
        let file = File::open("/proc/self/exe").expect("it runs");
        let elf = Elf { wide: true, native: true, linker: None, go: true };
        assert_eq!(limit(&elf, Path::new("a"), &file), Some(Limit::Go));
        let elf = Elf { linker: Some("/lib64/ld-linux-x86-64.so.2".to_owned()), ..elf };
        assert_eq!(limit(&elf, Path::new("a"), &file), Some(Limit::Go));
    }

    #[test]
    fn the_dynamic_linker_itself_is_not_taken_for_a_static_program() {
        let file = File::open("/proc/self/exe").expect("it runs");
        let elf = Elf { wide: true, native: true, linker: None, go: false };
        assert_eq!(limit(&elf, Path::new("/lib64/ld-linux-x86-64.so.2"), &file), None);
        assert_eq!(limit(&elf, Path::new("/bin/busybox"), &file), Some(Limit::Static));
        let elf = Elf { linker: Some("/lib/ld-musl-x86_64.so.1".to_owned()), ..elf };
        assert!(matches!(limit(&elf, Path::new("a"), &file), Some(Limit::OtherLinker(_))));
    }
}
