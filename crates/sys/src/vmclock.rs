//! The hypervisor's own mark for "this guest was moved or restored": the disruption marker of a VMClock device.
//!
//! A live migration or a snapshot brings the guest to a counter with another rate or value. A hypervisor that offers a
//! VMClock (QEMU, cloud providers) changes a number in a page that Linux shows as `/dev/vmclock0` (Linux 6.13 and
//! later). Without the device there is no such word, and the clock relies on what else it checks.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// "VCLK", little endian.
const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
/// Bytes of the page that are read.
const LENGTH: usize = 4096;
//= VMClock specification (also Linux include/uapi/linux/vmclock-abi.h), structure vmclock_abi: offsets in bytes.
const SEQUENCE_AT: usize = 12;
const MARKER_AT: usize = 16;

/// A mapped VMClock page. Mapped once in a process and kept.
#[derive(Debug)]
struct Page {
    address: usize,
}

static PAGE: OnceLock<Option<Page>> = OnceLock::new();

impl Page {
    fn map() -> Option<Self> {
        let file = File::open("/dev/vmclock0").ok()?;
        // SAFETY: a new read-only mapping of a live descriptor; the kernel chooses the address and the result is
        // checked.
        let address = unsafe {
            libc::mmap(core::ptr::null_mut(), LENGTH, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let page = Self { address: address as usize };
        (u32::from_le(page.half(0).load(Ordering::Relaxed)) == MAGIC).then_some(page)
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= LENGTH);
        // SAFETY: the page stays mapped as long as the process, and is only read; the offset is aligned and inside.
        unsafe { &*((self.address + offset) as *const AtomicU32) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= LENGTH);
        // SAFETY: as in `half`.
        unsafe { &*((self.address + offset) as *const AtomicU64) }
    }

    fn marker(&self) -> Option<u64> {
        // The hypervisor writes for a moment at a migration; a few looks are enough, and a torn one must not be taken
        // for a change.
        for _ in 0..16 {
            let sequence = self.half(SEQUENCE_AT).load(Ordering::Acquire);
            let marker = self.word(MARKER_AT).load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if u32::from_le(sequence) & 1 == 0 && self.half(SEQUENCE_AT).load(Ordering::Relaxed) == sequence {
                return Some(u64::from_le(marker));
            }
        }
        None
    }
}

/// Maps the page where there is one. Called when a clock starts: it takes a system call and memory.
pub fn open() {
    PAGE.get_or_init(Page::map);
}

/// The disruption marker: another value than before means that the guest was moved or restored. `None` where there is
/// no VMClock, or [`open`] was not called. Takes no memory, no lock and no system call.
#[inline(always)]
#[must_use]
pub fn disruption_marker() -> Option<u64> {
    PAGE.get()?.as_ref()?.marker()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as a hypervisor would write it.
    fn page(words: &'static [u64; 512]) -> Page {
        Page { address: core::ptr::from_ref(words) as usize }
    }

    #[test]
    fn the_marker_is_read_from_its_place_and_not_while_it_is_written() {
        static QUIET: [u64; 512] = {
            let mut words = [0; 512];
            words[0] = MAGIC as u64;
            words[1] = 4 << 32;
            words[2] = 77;
            words
        };
        static WRITING: [u64; 512] = {
            let mut words = QUIET;
            words[1] = 5 << 32;
            words
        };
        assert_eq!(page(&QUIET).marker(), Some(77));
        assert_eq!(page(&WRITING).marker(), None);
    }

    #[test]
    fn without_a_device_there_is_no_marker() {
        open();
        if !std::path::Path::new("/dev/vmclock0").exists() {
            assert_eq!(disruption_marker(), None);
        }
    }
}
