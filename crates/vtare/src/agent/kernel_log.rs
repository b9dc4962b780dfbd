//! What the kernel reported while a command ran. Why it was killed (no memory left, a fault) stands nowhere else.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

const PLACE: &str = "/dev/kmsg";
/// The longest record that the kernel gives (`CONSOLE_EXT_LOG_MAX` of Linux 4.0, `PRINTK_MESSAGE_MAX` later).
const RECORD_BYTE: usize = 8 << 10;
/// The last reports alone are of use.
const MOST_REPORTS: usize = 12;

/// The kernel's log from a moment on.
#[derive(Debug)]
pub(super) struct KernelLog(File);

impl KernelLog {
    /// From now on; None where it may not be read.
    pub(super) fn from_now() -> Option<Self> {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
        let mut log = OpenOptions::new().read(true).custom_flags(nonblocking).open(PLACE).ok()?;
        log.seek(SeekFrom::End(0)).ok()?;
        Some(Self(log))
    }

    /// The last reports since, one a line; None where there are none.
    pub(super) fn reports(mut self) -> Option<String> {
        let mut reports = Vec::new();
        let mut record = [0; RECORD_BYTE];
        loop {
            match self.0.read(&mut record) {
                Ok(byte) if byte > 0 => reports.extend(text_of(&record[..byte])),
                // Records were overwritten before they were read: those that are left follow.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                _ => break,
            }
        }
        let last = reports.split_off(reports.len().saturating_sub(MOST_REPORTS));
        (!last.is_empty()).then(|| last.join("\n"))
    }
}

/// The text of a record: "priority,number,time,flags;TEXT", then lines of properties.
fn text_of(record: &[u8]) -> Option<String> {
    let record = String::from_utf8_lossy(record);
    let (_, text) = record.lines().next()?.split_once(';')?;
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_record_s_text_is_what_the_kernel_reported() {
        let record = b"3,339,5140900,-;Out of memory: Killed process 71 (vtare)\n SUBSYSTEM=acpi\n";
        assert_eq!(text_of(record).as_deref(), Some("Out of memory: Killed process 71 (vtare)"));
        assert_eq!(text_of(b"no record"), None);
    }

    #[test]
    fn only_what_comes_later_is_reported() {
        let word = format!("vtare-test-{}", std::process::id());
        if fs::write(PLACE, format!("<7>{word} before\n")).is_err() {
            return println!("skipped: {PLACE} cannot be written here");
        }
        let log = KernelLog::from_now().expect("what can be written can be read by root");
        fs::write(PLACE, format!("<7>{word} after\n")).expect("it was written a moment ago");
        let reports = log.reports().expect("one was made");
        assert!(reports.contains(&format!("{word} after")) && !reports.contains("before"), "{reports}");
    }
}
