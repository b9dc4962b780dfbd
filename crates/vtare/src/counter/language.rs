//! The languages of the counter function, and how a program in each is built and started.
//!
//! The sources (`counters/`) are part of this binary, so that it needs nothing but the language's own tools.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::image;
use super::tools::{Place, java_tool, missing_compiler, run};
use crate::failure::Failure;
use vtare_sys::whole_file::WholeFile;

/// A language of the counter function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Language {
    /// vtare's own, in this process
    #[default]
    Rust,
    /// Compiled by the machine's C compiler
    C,
    /// On a Java virtual machine
    Java,
    /// In the CPython interpreter
    Python,
}

impl Language {
    /// Its name in parameters, samples and cells.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
            Self::Java => "java",
            Self::Python => "python",
        }
    }

    /// The source of its program; none for the one in this binary.
    fn source(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Rust => None,
            Self::C => Some(("counter.c", include_str!("../../counters/counter.c"))),
            Self::Java => Some(("Counter.java", include_str!("../../counters/Counter.java"))),
            Self::Python => Some(("counter.py", include_str!("../../counters/counter.py"))),
        }
    }

    /// What runs a program of this language, and the package that has it.
    fn runtime(self) -> (PathBuf, &'static str) {
        match self {
            Self::Java => (java_tool("java"), "default-jre-headless"),
            Self::Python => (PathBuf::from("python3"), "python3-minimal"),
            Self::Rust | Self::C => (PathBuf::new(), ""),
        }
    }

    /// The command that starts `program`, which [`build`] made.
    pub(super) fn command(self, program: &Path) -> Command {
        let (runtime, _) = self.runtime();
        match self {
            Self::Rust | Self::C => Command::new(program),
            Self::Java => {
                let mut command = image::runtime_beside(program).unwrap_or_else(|| Command::new(runtime));
                command.args(["-Xbatch", "-XX:+UseSerialGC", "-jar"]).arg(program);
                command
            }
            Self::Python => {
                let mut command = Command::new(runtime);
                // Isolated: neither the user's modules nor those beside the program are imported.
                command.args(["-I", "-S", "-B"]).arg(program);
                command
            }
        }
    }

    /// Why a program that cannot be started cannot, and the way out.
    pub(super) fn cannot_start(self, program: &Path, error: &io::Error) -> Failure {
        let (runtime, package) = self.runtime();
        let name = self.name();
        if self == Self::C {
            let hint = match error.kind() {
                io::ErrorKind::NotFound if program.exists() => {
                    ": it wants a dynamic linker that is not here; build it statically, which needs libc6-dev"
                }
                _ => "",
            };
            return Failure::Machine(format!("language c: cannot start {}: {error}{hint}", program.display()));
        }
        if error.kind() == io::ErrorKind::NotFound {
            let wanted = runtime.display();
            let brought = if self == Self::Java { ", bring one along (`--build FILE --with-runtime`)" } else { "" };
            return Failure::Machine(format!(
                "language {name}: found no {wanted} here; install it with `apt-get install {package}`{brought}, or \
                 leave this language out"
            ));
        }
        Failure::Machine(format!("language {name}: cannot start {}: {error}", runtime.display()))
    }
}

/// Builds the program of a language into a temporary place, where it stays until that is dropped.
///
/// # Errors
/// [`Failure::Machine`] where the tools are missing, with the command that installs them.
pub(super) fn build(language: Language) -> Result<(Place, PathBuf), Failure> {
    let Some((name, text)) = language.source() else {
        return Err(Failure::Input("language rust is in this binary: use c, java or python".to_owned()));
    };
    let place = Place::make(&std::env::temp_dir())?;
    let source = place.path().join(name);
    fs::write(&source, text).map_err(|error| Failure::Machine(format!("{}: {error}", source.display())))?;
    let program = match language {
        Language::C => compile_c(&source, place.path())?,
        Language::Java => compile_java(&source, place.path())?,
        Language::Rust | Language::Python => source,
    };
    Ok((place, program))
}

/// Builds the program of a language into `file`, for other machines, containers and guests; `with_runtime`, with a
/// virtual machine that runs it.
///
/// # Errors
/// As [`build`]; [`Failure::Input`] where the file cannot be written.
pub(super) fn build_into(language: Language, file: &Path, with_runtime: bool) -> Result<(), Failure> {
    if with_runtime && language != Language::Java {
        let found = language.name();
        return Err(Failure::Input(format!("--with-runtime: language {found} brings no runtime: use java")));
    }
    let (place, mut program) = build(language)?;
    if with_runtime {
        program = image::pack(&program, place.path())?;
    }
    let keep = || -> io::Result<()> {
        let content = fs::read(&program)?;
        let whole = WholeFile::create(file)?;
        let mut handle: File = whole.handle()?;
        handle.write_all(&content)?;
        handle.set_permissions(fs::Permissions::from_mode(0o755))?;
        whole.keep()
    };
    keep().map_err(|error| Failure::Input(format!("--build: cannot write {}: {error}", file.display())))
}

fn compile_c(source: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let program = place.join("counter");
    let own = std::env::var_os("CC").filter(|compiler| !compiler.is_empty());
    let compilers = own.into_iter().chain(["cc", "gcc", "clang"].map(Into::into));
    let mut why = None;
    for compiler in compilers {
        // Static where the C library allows it, so that it runs in containers and guests that have none.
        for linked in [&["-static"][..], &[]] {
            let mut command = Command::new(&compiler);
            command.args(["-O2", "-o"]).arg(&program).args(linked).arg(source);
            match run(&mut command) {
                Ok(Ok(_)) => return Ok(program),
                Ok(Err(words)) => why = Some(format!("{} reports: {words}", compiler.to_string_lossy())),
                Err(_) => break,
            }
        }
    }
    let why = why.unwrap_or_else(|| "found no C compiler (cc, gcc or clang)".to_owned());
    Err(Failure::Machine(format!("language c: {why}; install one with `apt-get install gcc libc6-dev`")))
}

fn compile_java(source: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let jar = place.join("counter.jar");
    let mut compiler = Command::new(java_tool("javac"));
    compiler.args(["--release", "11", "-d"]).arg(place).arg(source);
    let mut packer = Command::new(java_tool("jar"));
    packer.args(["--create", "--main-class", "Counter", "--file"]).arg(&jar);
    packer.arg("-C").arg(place).arg("Counter.class");
    for command in [&mut compiler, &mut packer] {
        let why = match run(command) {
            Ok(Ok(_)) => continue,
            Ok(Err(words)) => format!("{} reports: {words}", command.get_program().to_string_lossy()),
            Err(_) => format!("found no {} (of Java 11 or later)", command.get_program().to_string_lossy()),
        };
        return Err(missing_compiler(&why));
    }
    Ok(jar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_language_has_no_program_to_build() {
        let error = build(Language::Rust).err().expect("there is none");
        assert!(error.to_string().contains("use c, java or python"), "{error}");
    }

    #[test]
    fn the_source_for_python_is_built_by_copying_it() {
        let (place, program) = build(Language::Python).expect("the temporary directory is writable");
        assert_eq!(fs::read_to_string(&program).ok().as_deref(), Language::Python.source().map(|(_, text)| text));
        let directory = place.path().to_owned();
        drop(place);
        assert!(!directory.exists());
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        let error = Language::Python.cannot_start(Path::new("counter.py"), &io::ErrorKind::NotFound.into());
        assert!(error.to_string().contains("apt-get install python3-minimal"), "{error}");
        assert_eq!(error.code(), 3);
    }
}
