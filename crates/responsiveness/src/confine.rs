//! What the far end gives up before it reads the first byte from a stranger.

use vtare_sys::SysError;
use vtare_sys::confine;

use crate::RpmError;

/// Descriptors beside the connections: standard streams, listener, poll, signals, and some to spare.
const OTHER_DESCRIPTORS: u64 = 32;

/// What was given up, and what the system refused, in words.
#[derive(Debug, Default)]
pub struct Confinement {
    given_up: Vec<String>,
    refused: Vec<String>,
}

impl Confinement {
    /// Gives up the user root, files, new privileges, and descriptors beyond those of the connections. For a process
    /// that has its listener, and no other threads yet: those that it starts inherit this.
    ///
    /// # Errors
    /// Where the process is root and cannot stop being it. All else that is refused is reported.
    pub fn before_threads(connections: usize) -> Result<Self, RpmError> {
        let machine = |error: SysError| RpmError::Machine(error.to_string());
        let mut found = Self::default();
        let descriptors = confine::limit_descriptors(connections as u64 + OTHER_DESCRIPTORS).map_err(machine)?;
        found.given_up.push(format!("at most {descriptors} descriptors"));
        if confine::is_root() {
            confine::become_nobody().map_err(machine)?;
            found.given_up.push("user nobody".to_owned());
        }
        confine::no_new_privileges().map_err(machine)?;
        found.given_up.push("no new privileges".to_owned());
        found.note(confine::forbid_dumps(), |()| "no dumps".to_owned());
        found.note(confine::forbid_files(), |abi| format!("no files (Landlock {abi})"));
        Ok(found)
    }

    /// Gives up all system calls but those of serving, for the calling thread, which has all its sockets.
    #[must_use]
    pub fn and_system_calls(mut self) -> Self {
        self.note(confine::allow_only_serving(), |calls| format!("{calls} system calls (seccomp)"));
        self
    }

    fn note<T>(&mut self, done: Result<T, SysError>, words: impl FnOnce(T) -> String) {
        match done {
            Ok(value) => self.given_up.push(words(value)),
            Err(error) => self.refused.push(error.to_string()),
        }
    }
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "confined: {}", self.given_up.join(", "))?;
        if self.refused.is_empty() { Ok(()) } else { write!(f, "; not: {}", self.refused.join("; ")) }
    }
}
