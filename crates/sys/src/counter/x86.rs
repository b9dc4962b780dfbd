use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

use vtare_units::CounterTick;

/// Whether this architecture has a counter that user code may read.
pub const AVAILABLE: bool = true;
/// Whether [`read_rdtscp`] is an instruction of its own here.
pub const HAS_RDTSCP: bool = true;
/// The instruction behind [`read`].
pub const NAME: &str = "rdtsc";
/// The instructions behind [`read_ordered`].
pub const ORDERED_NAME: &str = "lfence_rdtsc";

/// Reads the TSC without any ordering.
#[inline(always)]
#[must_use]
pub fn read() -> CounterTick {
    // SAFETY: RDTSC is in every x86-64 CPU; `cpu::counter_permitted` checks that PR_SET_TSC does not
    // forbid it.
    CounterTick::new(unsafe { _rdtsc() })
}

/// Reads the TSC after all earlier instructions and loads have completed.
#[inline(always)]
#[must_use]
pub fn read_ordered() -> CounterTick {
    // lfence first: else the read may slip ahead of the work being timed.
    // SAFETY: LFENCE is part of SSE2, which every x86-64 CPU has.
    unsafe { _mm_lfence() };
    read()
}

/// Reads the TSC with RDTSCP, which waits for earlier instructions and loads by itself.
#[inline(always)]
#[must_use]
pub fn read_rdtscp() -> CounterTick {
    let mut aux = 0;
    // SAFETY: RDTSCP is in every x86-64 CPU since 2006 (`cpu::Features::rdtscp`); `aux` outlives the call.
    CounterTick::new(unsafe { __rdtscp(&raw mut aux) })
}

/// Reads the TSC at the start of timed work: earlier work is done, the work has not begun.
#[inline(always)]
#[must_use]
pub fn read_start() -> CounterTick {
    let count = read_ordered();
    // The second fence keeps the timed work from starting before the read.
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    count
}

/// Reads the TSC at the end of timed work: the work is done, what follows has not begun.
#[inline(always)]
#[must_use]
pub fn read_stop() -> CounterTick {
    let count = read_rdtscp();
    // RDTSCP lets later instructions start before it; the fence does not.
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    count
}

#[inline(always)]
pub(super) fn fetch_code_ahead() {
    let here: *const i8;
    // SAFETY: takes the address of the next instruction; touches neither memory nor flags.
    unsafe { core::arch::asm!("lea {}, [rip]", out(reg) here, options(nomem, nostack, preserves_flags)) };
    // A compiler may lay what follows before as well as after.
    fetch_lines(here, -8..32);
}

#[inline(always)]
pub(super) fn fetch_code_at(address: *const u8) {
    fetch_lines(address.cast(), 0..4);
}

#[inline(always)]
fn fetch_lines(from: *const i8, lines: core::ops::Range<isize>) {
    for line in lines {
        let at = from.wrapping_offset(line * 64);
        // SAFETY: a prefetch of any address is allowed: one that is not mapped is ignored.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at) };
    }
}

pub(super) fn stated_frequency_hz() -> Option<u64> {
    None
}
