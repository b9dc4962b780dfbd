use core::arch::asm;

use vtare_units::CounterTick;

/// Whether this architecture has a counter that user code may read.
pub const AVAILABLE: bool = true;
/// Whether [`read_rdtscp`] is an instruction of its own here.
pub const HAS_RDTSCP: bool = false;
/// The instruction behind [`read`].
pub const NAME: &str = "cntvct";
/// The instructions behind [`read_ordered`].
pub const ORDERED_NAME: &str = "isb_cntvct";

/// Reads the virtual counter without any ordering.
#[inline(always)]
#[must_use]
pub fn read() -> CounterTick {
    let count: u64;
    // SAFETY: Linux lets user code read CNTVCT_EL0; it touches neither memory nor flags.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    CounterTick::new(count)
}

#[inline(always)]
fn barrier() {
    // SAFETY: ISB only waits.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// Reads the virtual counter after all earlier instructions have completed.
#[inline(always)]
#[must_use]
pub fn read_ordered() -> CounterTick {
    // Arm ARM D11.2.2: a counter read may be speculated; ISB before it forbids that.
    barrier();
    read()
}

/// The ordered read: aarch64 has no RDTSCP.
#[inline(always)]
#[must_use]
pub fn read_rdtscp() -> CounterTick {
    read_ordered()
}

/// Reads the counter at the start of timed work: earlier work is done, the work has not begun.
#[inline(always)]
#[must_use]
pub fn read_start() -> CounterTick {
    let count = read_ordered();
    barrier();
    count
}

/// Reads the counter at the end of timed work: the work is done, what follows has not begun.
#[inline(always)]
#[must_use]
pub fn read_stop() -> CounterTick {
    read_start()
}

/// Nothing here: the hint is worth something only where it was measured.
#[inline(always)]
pub(super) fn fetch_code_ahead() {}

#[inline(always)]
pub(super) fn fetch_code_at(_address: *const u8) {}

pub(super) fn stated_frequency_hz() -> Option<u64> {
    let frequency: u64;
    // SAFETY: CNTFRQ_EL0 is readable at EL0 whenever CNTVCT_EL0 is.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
    (frequency != 0).then_some(frequency)
}
