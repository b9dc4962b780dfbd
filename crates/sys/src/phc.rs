//! A PTP clock (`/dev/ptp0`, ..) that shows UTC from outside of this machine: the host's clock as KVM and Hyper-V pass
//! it on, or that of a network card that states its error.
//!
//! Other cards' clocks run in TAI or from an arbitrary start: they are left alone.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;

use vtare_units::{Span, Timestamp};

use crate::kernel_file;
use crate::outside::OutsideUtc;

/// Names of the clocks that pass the host's CLOCK_REALTIME on.
//= Linux drivers/ptp/ptp_kvm_common.c; drivers/hv/hv_util.c
const OF_THE_HOST: [&str; 2] = ["KVM virtual PTP", "hyperv"];

/// An open clock. Opened once in a process and kept.
#[derive(Debug)]
struct Phc {
    file: File,
    error: Option<Span>,
}

static PHC: OnceLock<Option<Phc>> = OnceLock::new();

/// Whether the clock in this directory of `/sys/class/ptp` shows UTC, and its greatest error.
//= Amazon's ENA driver and ClockBound: phc_error_bound, in ns, beside the card's other files.
fn shows_utc(directory: &Path) -> Option<Option<Span>> {
    let stated = kernel_file::text(directory.join("device/phc_error_bound"));
    if let Some(ns) = stated.and_then(|text| text.trim().parse::<u32>().ok()) {
        return Some(Some(Span::from_nanos(i64::from(ns))));
    }
    let name = kernel_file::text(directory.join("clock_name"))?;
    OF_THE_HOST.contains(&name.trim()).then_some(None)
}

/// The clock's device and error: one that states its error before one that does not.
fn choose(class: &Path) -> Option<(String, Option<Span>)> {
    let mut found: Vec<(String, Option<Span>)> = fs::read_dir(class)
        .ok()?
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, shows_utc(&entry.path())?)))
        .collect();
    found.sort_by_key(|(name, error)| (error.is_none(), name.clone()));
    found.into_iter().next()
}

/// Opens the clock that this machine has, if it is one that shows UTC and may be read. Called when a clock starts: it
/// takes system calls and memory.
pub fn open() {
    PHC.get_or_init(|| {
        let (name, error) = choose(Path::new("/sys/class/ptp"))?;
        Some(Phc { file: File::open(Path::new("/dev").join(name)).ok()?, error })
    });
}

/// What the clock shows now; `None` where there is none, or [`open`] was not called. One system call, which traps into
/// the hypervisor where the clock is the host's.
#[must_use]
pub fn utc() -> Option<OutsideUtc> {
    let phc = PHC.get()?.as_ref()?;
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    //= Linux include/linux/posix-timers_types.h: a clock that is a descriptor
    let id = (!phc.file.as_raw_fd() << 3) | 3;
    // SAFETY: `at` is a live timespec; the descriptor is open as long as the process.
    if unsafe { libc::clock_gettime(id, &raw mut at) } != 0 {
        return None;
    }
    let ns = u64::try_from(at.tv_sec).ok()?.checked_mul(1_000_000_000)?.checked_add(at.tv_nsec.cast_unsigned())?;
    Some(OutsideUtc { utc: Timestamp::from_nanos(ns), max_error: phc.error, leap: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/sys/class/ptp` with these clocks: name, and what the card states.
    fn class(clocks: &[(&str, Option<&str>)]) -> std::path::PathBuf {
        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("vtare-{}-ptp-{number}", std::process::id()));
        for (at, (name, error)) in clocks.iter().enumerate() {
            let clock = directory.join(format!("ptp{at}"));
            fs::create_dir_all(clock.join("device")).unwrap();
            fs::write(clock.join("clock_name"), format!("{name}\n")).unwrap();
            if let Some(error) = error {
                fs::write(clock.join("device/phc_error_bound"), error).unwrap();
            }
        }
        directory
    }

    fn chosen(clocks: &[(&str, Option<&str>)]) -> Option<(String, Option<Span>)> {
        let directory = class(clocks);
        let found = choose(&directory);
        if directory.exists() {
            fs::remove_dir_all(&directory).unwrap();
        }
        found
    }

    #[test]
    fn a_clock_with_a_stated_error_comes_before_the_host_s_and_others_are_left_alone() {
        let card = ("ena-ptp-05", Some("24000\n"));
        let host = ("KVM virtual PTP", None);
        assert_eq!(chosen(&[host, card]), Some(("ptp1".into(), Some(Span::from_micros(24)))));
        assert_eq!(chosen(&[("e1000e-ptp", None), host]), Some(("ptp1".into(), None)));
        assert_eq!(chosen(&[("e1000e-ptp", None), ("ena-ptp-05", Some("unknown"))]), None);
        assert_eq!(chosen(&[]), None);
    }
}
