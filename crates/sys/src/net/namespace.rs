//! Network namespaces.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::SysError;

/// Moves the calling thread into the network namespace at `path` (`/run/netns/NAME`, `/proc/PID/ns/net`). Sockets that
/// the thread opens from then on belong there; other threads stay where they are, and `/sys` still shows the namespace
/// it was mounted in.
///
/// # Errors
/// Where there is no such namespace, or without CAP_SYS_ADMIN.
pub fn enter(path: &Path) -> Result<(), SysError> {
    let file = File::open(path).map_err(|source| SysError::File { path: path.to_owned(), source })?;
    // SAFETY: the descriptor is open; the kernel checks that it is a network namespace.
    if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(SysError::last(format!("setns to {}", path.display()), ": run as root"))
    }
}
