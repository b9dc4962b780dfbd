//! What the kernel tells of a VM generation ID: that this guest was restored from a snapshot, or copied.
//!
//! The hypervisor changes the ID when it starts a guest from a state that it had before. Linux shows the ID to no
//! program, but gives its random numbers a new seed and says so in its log (5.18 and later).

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use vtare_units::{Monotonic, Timestamp};

use crate::clocks;

/// Bytes of a record at most.
const MOST_BYTE: usize = 8192;
const MARK: &str = "crng reseeded due to virtual machine fork";

/// The kernel's log from now on, in which restores of this guest are told.
#[derive(Debug)]
pub struct Restores(File);

impl Restores {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where this process may not read the log.
    pub fn listen() -> io::Result<Self> {
        let mut log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
        log.seek(SeekFrom::End(0))?;
        Ok(Self(log))
    }

    /// Whether this guest was restored since the last call: reads all records that have come.
    #[must_use]
    pub fn happened(&self) -> bool {
        let mut restored = false;
        let mut record = [0_u8; MOST_BYTE];
        loop {
            match (&self.0).read(&mut record) {
                Ok(0) => return restored,
                Ok(byte) => restored |= tells_of_restore(&String::from_utf8_lossy(&record[..byte])),
                // Records were overwritten before they were read: the kernel goes on with the oldest that is left.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(_) => return restored,
            }
        }
    }

    /// Sleeps until a time, or shorter where this guest was restored; returns whether it was. A signal ends it.
    #[must_use]
    pub fn sleep_until(&self, until: Timestamp<Monotonic>) -> bool {
        loop {
            let left = (until - clocks::now::<Monotonic>()).as_nanos();
            if left <= 0 {
                return self.happened();
            }
            let timeout = libc::timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
            let mut waited = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live structure, a live timeout and no mask of signals.
            let ready = unsafe { libc::ppoll(&raw mut waited, 1, &raw const timeout, std::ptr::null()) };
            let restored = ready > 0 && self.happened();
            if restored || ready < 0 {
                return restored;
            }
        }
    }
}

/// Whether a record says so: `PRIORITY,NUMBER,TIME,FLAGS;TEXT`, with a priority below 8 where the kernel itself wrote
/// it. What programs write has a facility, and with it a greater number.
fn tells_of_restore(record: &str) -> bool {
    let Some((head, text)) = record.split_once(';') else { return false };
    let priority = head.split(',').next().and_then(|number| number.parse::<u32>().ok());
    let first = text.lines().next().unwrap_or_default();
    priority.is_some_and(|priority| priority < 8) && first.ends_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernel_itself_tells_of_a_restore() {
        assert!(tells_of_restore("5,1187,90211233,-;random: crng reseeded due to virtual machine fork\n"));
        // What a program wrote into the log; what the kernel quotes; another text; records that are none.
        for other in [
            "13,1187,90211233,-;random: crng reseeded due to virtual machine fork\n",
            "5,1187,90211233,-;device\n NAME=random: crng reseeded due to virtual machine fork\n",
            "5,1187,90211233,-;random: crng init done\n",
            ",,;random: crng reseeded due to virtual machine fork",
            "",
        ] {
            assert!(!tells_of_restore(other), "{other:?}");
        }
    }

    #[test]
    fn a_sleep_without_a_restore_ends_at_its_time() {
        let Ok(restores) = Restores::listen() else { return eprintln!("skipped: the log is not readable") };
        let until = clocks::now::<Monotonic>() + vtare_units::Span::from_millis(20);
        assert!(!restores.sleep_until(until));
        assert!(clocks::now::<Monotonic>() >= until);
    }
}
