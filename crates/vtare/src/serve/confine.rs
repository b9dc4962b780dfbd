//! What the responder gives up before it reads the first byte from a stranger, and what it could not give up.

use serde::Serialize;
use vtare_serve::ConnectionLimits;
use vtare_sys::confine;

use crate::failure::Failure;

/// Descriptors beside the connections: standard streams, listener, probes, poll, a signal's pipe, and some to spare.
const OTHER_DESCRIPTORS: usize = 32;

/// What was given up.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Confinement {
    /// Whether the user was changed from root to nobody; false where it was not root.
    became_nobody: bool,
    /// The kernel's version of Landlock, by which no file can be opened; null where it has none.
    landlock_abi: Option<i64>,
    /// System calls that are still allowed; null where all are.
    system_calls: Option<usize>,
    /// Descriptors that may be open.
    descriptors: u64,
    /// What the system refused.
    pub(super) refusals: Vec<String>,
}

/// Gives up what a responder with open sockets does not need.
///
/// # Errors
/// Where the process is root and cannot stop being it: as root it must not serve. All else that is refused is reported.
pub(super) fn confine(connections: &ConnectionLimits, keys_locked: bool) -> Result<Confinement, Failure> {
    let descriptors = confine::limit_descriptors((connections.places().most() + OTHER_DESCRIPTORS) as u64)?;
    let became_nobody = confine::is_root();
    if became_nobody {
        confine::become_nobody()?;
    }
    let mut refusals = Vec::new();
    let mut note = |error: vtare_sys::SysError| refusals.push(error.to_string());
    confine::no_new_privileges()?;
    // After the change of user, which makes a process dumpable or not by itself.
    confine::forbid_dumps().unwrap_or_else(&mut note);
    if !keys_locked {
        refusals.push("mlock of the key's page: it may be swapped out; raise RLIMIT_MEMLOCK (ulimit -l)".to_owned());
    }
    let mut note = |error: vtare_sys::SysError| refusals.push(error.to_string());
    let landlock_abi = confine::forbid_files().map_err(&mut note).ok();
    let system_calls = confine::allow_only_serving().map_err(&mut note).ok();
    Ok(Confinement { became_nobody, landlock_abi, system_calls, descriptors, refusals })
}

impl Confinement {
    pub(super) fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if self.became_nobody {
            parts.push("user nobody".to_owned());
        }
        parts.push("no new privileges".to_owned());
        if let Some(abi) = self.landlock_abi {
            let others = if abi >= confine::SCOPES_ABI { ", signals to others or abstract sockets" } else { "" };
            parts.push(format!("no files{others} (Landlock {abi})"));
        }
        if let Some(calls) = self.system_calls {
            parts.push(format!("{calls} system calls (seccomp)"));
        }
        parts.push(format!("at most {} descriptors", self.descriptors));
        format!("confined: {}", parts.join(", "))
    }
}
