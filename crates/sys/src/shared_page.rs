//! A page of memory that one process writes and others read, by the name of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes of a page and of its file.
const LENGTH: usize = 4096;
/// Rights of others than the owner to write.
const OTHERS_WRITE: u32 = 0o022;

/// A mapped page of which `N` words are used. It stays mapped as long as the process.
#[derive(Debug)]
pub struct SharedPage<const N: usize> {
    at: NonNull<[AtomicU64; N]>,
    /// Holds the lock of the one that writes.
    _file: Option<File>,
}

// SAFETY: the words are atomic and stay mapped.
unsafe impl<const N: usize> Send for SharedPage<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for SharedPage<N> {}

impl<const N: usize> SharedPage<N> {
    /// The page at `path`, for reading. The file must belong to root or to this user, who alone may write it.
    ///
    /// # Errors
    /// Where there is none, or others could write or shorten it.
    pub fn read(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        check(&file)?;
        Self::map(&file, libc::PROT_READ, None)
    }

    /// The page at `path`, for writing by this process alone; made where there is none. All users may read it.
    ///
    /// # Errors
    /// Where the file cannot be made, belongs to somebody else, or another process writes it.
    pub fn write(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut options = File::options();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(flags).open(path)?;
        let facts = file.metadata()?;
        // What is something else is left as it is.
        if !facts.is_file() || ![0, LENGTH as u64].contains(&facts.len()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no page of vtare clock"));
        }
        // SAFETY: a live descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => io::Error::other("another vtare clock keeps it"),
                error => error,
            });
        }
        file.set_len(LENGTH as u64)?;
        check(&file)?;
        let kept = file.try_clone()?;
        Self::map(&file, libc::PROT_READ | libc::PROT_WRITE, Some(kept))
    }

    fn map(file: &File, protection: libc::c_int, kept: Option<File>) -> io::Result<Self> {
        const { assert!(N * 8 <= LENGTH) };
        // SAFETY: a new mapping of a live descriptor at an address of the kernel's choice; the result is checked.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        let found = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) };
        Ok(Self { at: found.ok_or_else(io::Error::last_os_error)?, _file: kept })
    }

    /// The words. Those of a page for reading are not to be stored to.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64; N] {
        // SAFETY: the mapping is page-aligned, as long as the words, is never unmapped, and its file is shortened by
        // nobody but its owner.
        unsafe { self.at.as_ref() }
    }
}

fn check(file: &File) -> io::Result<()> {
    let facts = file.metadata()?;
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !facts.is_file() || facts.len() < LENGTH as u64 {
        return refused("it is no page of vtare clock");
    }
    if facts.uid() != 0 && facts.uid() != own {
        return refused("it belongs to another user");
    }
    if facts.mode() & OTHERS_WRITE != 0 {
        return refused("others than its owner may write it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    fn place(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("vtare-page-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_one_writes_others_read_and_a_second_writer_is_refused() {
        let path = place("words");
        let _ = std::fs::remove_file(&path);
        assert!(SharedPage::<4>::read(&path).is_err());
        let written = SharedPage::<4>::write(&path).expect("the temporary directory is writable");
        let read = SharedPage::<4>::read(&path).expect("it is ours");
        written.words()[3].store(77, Ordering::Release);
        assert_eq!(read.words()[3].load(Ordering::Acquire), 77);
        assert!(SharedPage::<4>::write(&path).is_err(), "two processes write");
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn attack_a_page_that_others_may_write_a_link_and_a_short_file_are_refused() {
        let path = place("open");
        std::fs::write(&path, vec![0; LENGTH]).expect("the temporary directory is writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("it is ours");
        assert!(SharedPage::<4>::read(&path).is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
        assert!(SharedPage::<4>::read(&path).is_ok());
        let link = place("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&path, &link).expect("the temporary directory is writable");
        assert!(SharedPage::<4>::read(&link).is_err());
        std::fs::write(&path, "short").expect("it is ours");
        assert!(SharedPage::<4>::read(&path).is_err());
        assert!(SharedPage::<4>::write(&path).is_err());
        assert_eq!(std::fs::read(&path).expect("it is ours"), b"short", "a file of somebody's is left as it is");
        std::fs::remove_file(&path).expect("it is ours");
        std::fs::remove_file(&link).expect("it is ours");
    }
}
