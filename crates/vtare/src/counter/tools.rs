//! The tools of languages, and a directory for what they make.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// `$JAVA_HOME/bin/NAME` where that is set, else the one on PATH.
pub(super) fn java_tool(name: &str) -> PathBuf {
    match std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => PathBuf::from(name),
    }
}

/// A directory for this process alone, gone when dropped.
pub(super) struct Place(PathBuf);

impl Place {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// [`Failure::Machine`] where that cannot be written.
    pub(super) fn make(parent: &Path) -> Result<Self, Failure> {
        let cannot = |error: io::Error| {
            Failure::Machine(format!("cannot make a directory in {}: {error}: TMPDIR names another", parent.display()))
        };
        for attempt in 0..100 {
            let path = parent.join(format!("vtare-counter-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)).map_err(cannot),
            }
        }
        Err(cannot(io::ErrorKind::AlreadyExists.into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It lies in the temporary directory: nothing more can be done about it.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The error of a machine whose JDK lacks something.
pub(super) fn missing_compiler(why: &str) -> Failure {
    Failure::Machine(format!("language java: {why}; install a compiler with `apt-get install default-jdk-headless`"))
}

/// Runs a tool to its end and returns what it prints: `Err` where it cannot be started, `Ok(Err)` with its first words
/// where it fails.
pub(super) fn run(command: &mut Command) -> io::Result<Result<String, String>> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    // Some tools report on stdout.
    let reported = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let words = String::from_utf8_lossy(reported).into_owned();
    let line = words.lines().find(|line| !line.trim().is_empty());
    Ok(Err(line.map_or_else(|| output.status.to_string(), str::to_owned)))
}
