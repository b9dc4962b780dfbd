//! What a VMClock device shows: the hypervisor's own mark for "this guest was moved or restored", and UTC by the
//! counter.
//!
//! A live migration or a snapshot brings the guest to a counter with another rate or value. A hypervisor that offers a
//! VMClock (QEMU, cloud providers) changes a number in a page that Linux shows as `/dev/vmclock0` (Linux 6.13 and
//! later). Without the device there is no such word, and the clock relies on what else it checks. Some hypervisors also
//! state which UTC belongs to a value of the counter, with the greatest error of that; others leave it out.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use vtare_units::{CounterTick, Span, Timestamp, Wall};

use crate::outside::OutsideUtc;

/// "VCLK", little endian.
const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
/// Bytes of the page that are read.
const LENGTH: usize = 4096;
//= VMClock specification (also Linux include/uapi/linux/vmclock-abi.h), structure vmclock_abi: offsets in bytes.
const SEQUENCE_AT: usize = 12;
const MARKER_AT: usize = 16;
/// Bits in the word before it: version (16), counter's kind (8), kind of time (8).
const KINDS_AT: usize = 8;
const FLAGS_AT: usize = 24;
/// Padding (16 bits), status (8), hint on smearing (8), offset of TAI (16), leap (8), shift of the period (8).
const STATUS_AT: usize = 32;
const COUNTER_AT: usize = 40;
const PERIOD_AT: usize = 48;
const PERIOD_ERROR_AT: usize = 64;
const SECONDS_AT: usize = 72;
const FRACTION_AT: usize = 80;
const ERROR_AT: usize = 96;
const RESTORED_AT: usize = 104;
/// Without this flag there is no count of restores.
const RESTORED_IS_COUNTED: u64 = 1 << 8;

/// The counter that this machine's programs read, by the specification's number.
const COUNTER_KIND: u64 = if cfg!(target_arch = "aarch64") { 0 } else { 1 };
/// The flags without which no error is stated: the period's greatest error and the time's are valid.
const ERRORS_ARE_VALID: u64 = 1 << 4 | 1 << 6;
const TAI_OFFSET_IS_VALID: u64 = 1;
/// Kinds of time that can be turned into UTC. Smeared ones cannot.
const UTC: u64 = 0;
const TAI: u64 = 1;
/// The clock's status: synchronized, or running free; in both the errors hold.
const HELD: core::ops::RangeInclusive<u64> = 2..=3;

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
            let marker = u64::from_le(self.word(MARKER_AT).load(Ordering::Relaxed));
            let counted = u64::from_le(self.word(FLAGS_AT).load(Ordering::Relaxed)) & RESTORED_IS_COUNTED != 0;
            let restored = if counted { u64::from_le(self.word(RESTORED_AT).load(Ordering::Relaxed)) } else { 0 };
            fence(Ordering::Acquire);
            if u32::from_le(sequence) & 1 == 0 && self.half(SEQUENCE_AT).load(Ordering::Relaxed) == sequence {
                // Of two numbers that are compared with their last values only, another sum for either change.
                return Some(marker.wrapping_add(restored.rotate_left(32)));
            }
        }
        None
    }

    /// The whole page, unless the hypervisor is writing it.
    fn words(&self) -> Option<[u64; 13]> {
        for _ in 0..16 {
            let sequence = self.half(SEQUENCE_AT).load(Ordering::Acquire);
            let words = core::array::from_fn(|at| u64::from_le(self.word(8 * at).load(Ordering::Relaxed)));
            fence(Ordering::Acquire);
            if u32::from_le(sequence) & 1 == 0 && self.half(SEQUENCE_AT).load(Ordering::Relaxed) == sequence {
                return Some(words);
            }
        }
        None
    }
}

/// UTC at `tick`, as a page of these words states it; `None` where it states no time, or not how wrong that can be.
fn utc_of(words: &[u64; 13], tick: CounterTick) -> Option<OutsideUtc> {
    let word = |at: usize| words[at / 8];
    let byte = |at: usize, shift: u32| word(at) >> shift & 0xff;
    let (counter_kind, time_kind) = (byte(KINDS_AT, 16), byte(KINDS_AT, 24));
    let (status, leap, shift) = (byte(STATUS_AT, 16), byte(STATUS_AT, 48), byte(STATUS_AT, 56));
    let flags = word(FLAGS_AT);
    let known = counter_kind == COUNTER_KIND && HELD.contains(&status) && flags & ERRORS_ARE_VALID == ERRORS_ARE_VALID;
    let ahead_of_utc_s = match time_kind {
        UTC => 0,
        TAI if flags & TAI_OFFSET_IS_VALID != 0 => i128::from((word(STATUS_AT) >> 32) as u16 as i16),
        _ => return None,
    };
    let ticks = tick.since(CounterTick::new(word(COUNTER_AT)));
    if !known || ticks < 0 || shift > 60 {
        return None;
    }
    // In 2^-64 s: 64 bits of ticks times 64 bits of a period are 128 bits.
    let passed = u128::from(ticks.cast_unsigned()).checked_mul(u128::from(word(PERIOD_AT)))? >> shift;
    let error = u128::from(ticks.cast_unsigned()).checked_mul(u128::from(word(PERIOD_ERROR_AT)))? >> shift;
    let seconds = i128::from(word(SECONDS_AT)) - ahead_of_utc_s + (passed >> 64) as i128;
    let fraction = u128::from(word(FRACTION_AT)) + (passed & u128::from(u64::MAX));
    let ns = seconds.checked_mul(1_000_000_000)? + ((fraction * 1_000_000_000) >> 64) as i128;
    let error_ns = u64::try_from((error.checked_mul(1_000_000_000)? >> 64) + 2).ok()?.checked_add(word(ERROR_AT))?;
    Some(OutsideUtc {
        utc: Timestamp::<Wall>::from_nanos(u64::try_from(ns).ok()?),
        max_error: Some(Span::from_nanos(i64::try_from(error_ns).ok()?)),
        leap: leap != 0,
    })
}

/// UTC at `tick` of this machine's counter; `None` where there is no VMClock, it states no time, or not how wrong that
/// can be.
#[must_use]
pub fn utc(tick: CounterTick) -> Option<OutsideUtc> {
    utc_of(&PAGE.get()?.as_ref()?.words()?, tick)
}

/// Maps the page where there is one. Called when a clock starts: it takes a system call and memory.
pub fn open() {
    PAGE.get_or_init(Page::map);
}

/// The disruption marker and the count of restores: another value than before means that the guest was moved or
/// restored. `None` where there is
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
    const fn page(sequence: u64) -> [AtomicU64; 512] {
        let mut words = [const { AtomicU64::new(0) }; 512];
        words[0] = AtomicU64::new(MAGIC as u64);
        words[1] = AtomicU64::new(sequence << 32);
        words[2] = AtomicU64::new(77);
        words
    }

    #[test]
    fn the_marker_is_read_from_its_place_and_not_while_it_is_written() {
        static QUIET: [AtomicU64; 512] = page(4);
        static WRITING: [AtomicU64; 512] = page(5);
        let marker = |words: &'static [AtomicU64; 512]| Page { address: core::ptr::from_ref(words) as usize }.marker();
        assert_eq!(marker(&QUIET), Some(77));
        assert_eq!(marker(&WRITING), None);
        static RESTORED: [AtomicU64; 512] = page(4);
        RESTORED[13].store(3, Ordering::Relaxed);
        assert_eq!(marker(&RESTORED), Some(77), "not flagged as there");
        RESTORED[3].store(RESTORED_IS_COUNTED, Ordering::Relaxed);
        assert_eq!(marker(&RESTORED), Some(77 + (3 << 32)));
    }

    /// 2 s of 2.5 GHz after the page was written, at 1.7e9 s and a quarter, within 1,000 ns and 1 ppm.
    fn written(kinds: u64, flags: u64, status: u64) -> [u64; 13] {
        let period = (1_u128 << 64) as f64 / 2.5e9;
        let mut words = [0; 13];
        words[KINDS_AT / 8] = 1 | COUNTER_KIND << 16 | kinds << 24;
        words[FLAGS_AT / 8] = flags;
        words[STATUS_AT / 8] = status << 16 | 37 << 32 | 4 << 56;
        words[COUNTER_AT / 8] = 1_000;
        words[PERIOD_AT / 8] = (period * 16.0) as u64;
        words[PERIOD_ERROR_AT / 8] = (period * 16.0 * 1e-6) as u64;
        words[SECONDS_AT / 8] = 1_700_000_000;
        words[FRACTION_AT / 8] = 1 << 62;
        words[ERROR_AT / 8] = 1_000;
        words
    }

    #[test]
    fn utc_is_carried_on_by_the_counter_and_its_error_grows() {
        let tick = CounterTick::new(1_000 + 5_000_000_000);
        let found = utc_of(&written(UTC, ERRORS_ARE_VALID, 2), tick).unwrap();
        assert!(found.utc.as_nanos().abs_diff(1_700_000_002_250_000_000) <= 2, "{found:?}");
        let error_ns = found.max_error.unwrap().as_nanos();
        assert!((2_998..=3_004).contains(&error_ns) && !found.leap, "{found:?}");
        let tai = utc_of(&written(TAI, ERRORS_ARE_VALID | TAI_OFFSET_IS_VALID, 3), tick).unwrap();
        assert_eq!(found.utc - tai.utc, Span::from_secs(37));
    }

    #[test]
    fn a_page_without_errors_without_time_or_ahead_of_the_counter_states_no_utc() {
        let tick = CounterTick::new(2_000);
        assert_eq!(utc_of(&written(UTC, 1 << 4, 2), tick), None);
        assert_eq!(utc_of(&written(TAI, ERRORS_ARE_VALID, 2), tick), None);
        assert_eq!(utc_of(&written(4, ERRORS_ARE_VALID, 2), tick), None);
        assert_eq!(utc_of(&written(UTC, ERRORS_ARE_VALID, 4), tick), None);
        assert_eq!(utc_of(&written(UTC, ERRORS_ARE_VALID, 2), CounterTick::new(999)), None);
    }

    #[test]
    fn without_a_device_there_is_no_marker() {
        open();
        if !std::path::Path::new("/dev/vmclock0").exists() {
            assert_eq!(disruption_marker(), None);
        }
    }
}
