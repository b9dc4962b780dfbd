//! Memory for secrets, and the files they come from.

use std::io;
use std::ptr::NonNull;

/// Bytes on a page of their own, which is not swapped out (`mlock`), is in no core file (`MADV_DONTDUMP`), and is
/// overwritten before it is given back. Zero at first.
pub struct LockedBytes {
    at: NonNull<u8>,
    length: usize,
    locked: bool,
}

// SAFETY: the bytes belong to this value alone, as those of a `Box<[u8]>` do.
unsafe impl Send for LockedBytes {}
// SAFETY: as above; a shared reference only reads them.
unsafe impl Sync for LockedBytes {}

impl LockedBytes {
    /// A mapping of `length` bytes, at least 1.
    ///
    /// # Errors
    /// Where the kernel has no memory. Where it only does not lock it, [`LockedBytes::is_locked`] answers so.
    pub fn new(length: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        let found = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast::<u8>()) };
        let at = found.ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the mapping was made above with this length.
        let locked = unsafe { libc::mlock(at.as_ptr().cast(), length) } == 0;
        // Where the kernel does not know the advice, the limit of core files still holds (`confine::forbid_dumps`).
        // SAFETY: as above; the advice does not change the bytes.
        unsafe { libc::madvise(at.as_ptr().cast(), length, libc::MADV_DONTDUMP) };
        Ok(Self { at, length, locked })
    }

    /// Whether the kernel keeps them in memory (RLIMIT_MEMLOCK).
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.locked
    }
}

impl std::ops::Deref for LockedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, lives as long as `self`, and was zero at first, so all of it is
        // initialized.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }
}

impl std::ops::DerefMut for LockedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.length) }
    }
}

impl Drop for LockedBytes {
    fn drop(&mut self) {
        for byte in &mut **self {
            // SAFETY: a byte of the mapping. Volatile: the compiler must not leave it out because nobody reads it
            // afterwards.
            unsafe { std::ptr::write_volatile(byte, 0) };
        }
        // SAFETY: made in `new` with this length; nobody has a reference any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

impl std::fmt::Debug for LockedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockedBytes(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_bytes_are_zero_at_first_and_keep_what_is_written() {
        let mut bytes = LockedBytes::new(40).expect("a page can be mapped");
        assert_eq!(*bytes, [0; 40]);
        bytes[39] = 7;
        assert_eq!((bytes.len(), bytes[39]), (40, 7));
        assert_eq!(format!("{bytes:?}"), "LockedBytes(..)");
    }
}
