//! Giving up what a process that talks to strangers does not need: user, files, system calls, descriptors.
//!
//! All of this holds for the calling thread and the threads it starts afterwards: call it before there are others.

mod landlock;
mod seccomp;

use crate::SysError;

pub use landlock::{SCOPES_ABI, forbid_files};
pub use seccomp::allow_only_serving;

/// The user and the group that own nothing, on every Linux: `nobody`, `nogroup`; the kernel's own overflow ids.
pub const NOBODY: u32 = 65534;

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// No program started from here on gains privileges (setuid bits, file capabilities), and this process keeps none to
/// give.
///
/// # Errors
/// Never on Linux since 3.5; the kernel's word is passed on all the same.
pub fn no_new_privileges() -> Result<(), SysError> {
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(SysError::last("prctl(PR_SET_NO_NEW_PRIVS)", ""))
    }
}

/// Becomes the user [`NOBODY`] for good: supplementary groups, group and user, real, effective and saved. With the user
/// goes every capability. For a process that runs as root. One that was to end with its parent (`PR_SET_PDEATHSIG`)
/// still does: the kernel takes that request back with each change of user.
///
/// # Errors
/// In user namespaces that do not map the user.
pub fn become_nobody() -> Result<(), SysError> {
    let mut with_parent: libc::c_int = 0;
    // SAFETY: `with_parent` is a live int, which this request fills in.
    if unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut with_parent) } != 0 {
        return Err(SysError::last("prctl(PR_GET_PDEATHSIG)", ""));
    }
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() };
    let remedy = ": this user namespace does not map user 65534; start as that user, or as root of the host";
    // SAFETY: no groups, so the pointer is not read.
    if unsafe { libc::setgroups(0, std::ptr::null()) } != 0 {
        return Err(SysError::last("setgroups()", remedy));
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) } != 0 {
        return Err(SysError::last("setresgid(65534)", remedy));
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) } != 0 {
        return Err(SysError::last("setresuid(65534)", remedy));
    }
    if with_parent == 0 {
        return Ok(());
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, with_parent as libc::c_ulong) } != 0 {
        return Err(SysError::last("prctl(PR_SET_PDEATHSIG)", ""));
    }
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::getppid() } != parent {
        // It died in between, and nobody will send the signal any more.
        // SAFETY: a signal's number, sent to this process, whose kernel gave it.
        unsafe { libc::raise(with_parent) };
    }
    Ok(())
}

/// No core file and no debugger of the same user: keys stay in this process.
///
/// # Errors
/// Where the kernel refuses.
pub fn forbid_dumps() -> Result<(), SysError> {
    limit(libc::RLIMIT_CORE, 0, "setrlimit(RLIMIT_CORE, 0)")?;
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(SysError::last("prctl(PR_SET_DUMPABLE, 0)", ""))
    }
}

/// Bounds the descriptors that this process may have open, within the hard limit of the system; gives the bound in
/// force.
///
/// # Errors
/// Where the kernel refuses.
pub fn limit_descriptors(most: u64) -> Result<u64, SysError> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut now) } != 0 {
        return Err(SysError::last("getrlimit(RLIMIT_NOFILE)", ""));
    }
    let bound = most.min(now.rlim_max);
    limit(libc::RLIMIT_NOFILE, bound, "setrlimit(RLIMIT_NOFILE)")?;
    Ok(bound)
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Sets the soft and the hard limit: what was given up cannot be taken back.
fn limit(resource: Resource, value: u64, call: &str) -> Result<(), SysError> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the structure is live.
    if unsafe { libc::setrlimit(resource, &raw const limit) } == 0 { Ok(()) } else { Err(SysError::last(call, "")) }
}

#[cfg(test)]
mod tests;
