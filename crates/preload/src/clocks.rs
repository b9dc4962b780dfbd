//! The clock functions answered from the counter.

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use libc::{CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME, clockid_t, timespec, timeval};
use vtare_clock::source::{System, TimeSource};
use vtare_clock::trust::Evidence;
use vtare_clock::vvar::KernelRecords;
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::{counter, cpu};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp, Wall};

use crate::real;

/// The machine, with the kernel's clocks read past the hooks: else a clock that asks the kernel would ask itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastHooks;

impl PastHooks {
    #[inline]
    fn kernel(id: clockid_t) -> u64 {
        let mut at = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `at` is live, and the clocks asked for exist on every Linux this builds for.
        unsafe { real::CLOCK_GETTIME.get()(id, &raw mut at) };
        at.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec.cast_unsigned())
    }
}

impl TimeSource for PastHooks {
    #[inline(always)]
    fn tick(&self) -> CounterTick {
        counter::read()
    }
    #[inline(always)]
    fn tick_ordered(&self) -> CounterTick {
        counter::read_ordered()
    }
    fn raw(&self) -> Timestamp<MonotonicRaw> {
        Timestamp::from_nanos(Self::kernel(CLOCK_MONOTONIC_RAW))
    }
    fn monotonic(&self) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(Self::kernel(CLOCK_MONOTONIC))
    }
    fn cpu(&self) -> Option<usize> {
        System.cpu()
    }
    fn suspended(&self) -> Span {
        let monotonic = Self::kernel(CLOCK_MONOTONIC);
        Span::from_nanos(Self::kernel(libc::CLOCK_BOOTTIME).wrapping_sub(monotonic).cast_signed())
    }
    fn clock_source(&self) -> Option<String> {
        System.clock_source()
    }
    /// Never asked while the program runs: reading a file is a cancellation point, which clock_gettime is not, and a
    /// sandbox may end a program for it. A counter that the kernel has left shows in the comparison with the
    /// kernel's clock, and at once in the kernel's own page.
    fn clock_source_is(&self, _name: &str) -> Option<bool> {
        None
    }
    fn kernel_records(&self) -> Option<KernelRecords> {
        System.kernel_records()
    }
}

static CLOCK: OnceLock<Clock<PastHooks>> = OnceLock::new();

/// Starts the clock behind the hooks. False where the counter cannot be trusted.
pub(crate) fn start() -> bool {
    let features = cpu::Features::read();
    let evidence = Evidence {
        available: counter::AVAILABLE,
        permitted: cpu::counter_permitted(),
        invariant: features.invariant_tsc,
        clock_source: PastHooks.clock_source(),
        hypervisor: features.hypervisor_name(),
        ..Evidence::default()
    };
    let clock = Clock::with_source(PastHooks, evidence, &ClockOptions::fast(), |_| None);
    CLOCK.get_or_init(|| clock).reads_counter()
}

/// The kernel's time of clock `id`, read from the counter; `None` where only the kernel knows.
#[inline(always)]
fn nanos<const ORDERED: bool>(id: clockid_t) -> Option<u64> {
    let clock = CLOCK.get()?;
    match id {
        CLOCK_MONOTONIC if ORDERED => Some(clock.now_ordered().as_nanos()),
        CLOCK_MONOTONIC => Some(clock.now().as_nanos()),
        CLOCK_REALTIME => clock.wall(ORDERED).map(Timestamp::<Wall>::as_nanos),
        CLOCK_MONOTONIC_RAW => clock.raw(ORDERED).map(Timestamp::as_nanos),
        _ => None,
    }
}

/// clock_gettime.
pub(crate) unsafe extern "C-unwind" fn clock_gettime<const ORDERED: bool>(id: clockid_t, at: *mut timespec) -> c_int {
    let Some(nanos) = nanos::<ORDERED>(id) else {
        // SAFETY: the arguments are the caller's, who keeps to clock_gettime(2).
        return unsafe { real::CLOCK_GETTIME.get()(id, at) };
    };
    let (seconds, nanos) = Timestamp::<Monotonic>::from_nanos(nanos).split();
    // SAFETY: the caller gave the address of a timespec.
    unsafe { at.write(timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.into() }) };
    0
}

/// gettimeofday. A time zone, or no time, is asked of the kernel.
pub(crate) unsafe extern "C-unwind" fn gettimeofday<const ORDERED: bool>(at: *mut timeval, zone: *mut c_void) -> c_int {
    let plain = !at.is_null() && zone.is_null();
    let Some(nanos) = plain.then(|| nanos::<ORDERED>(CLOCK_REALTIME)).flatten() else {
        // SAFETY: the arguments are the caller's, who keeps to gettimeofday(2).
        return unsafe { real::GETTIMEOFDAY.get()(at, zone) };
    };
    let (seconds, nanos) = Timestamp::<Wall>::from_nanos(nanos).split();
    // SAFETY: the caller gave the address of a timeval.
    unsafe { at.write(timeval { tv_sec: seconds.cast_signed(), tv_usec: (nanos / 1_000).into() }) };
    0
}

/// timespec_get. Any base but TIME_UTC is the C library's.
pub(crate) unsafe extern "C-unwind" fn timespec_get<const ORDERED: bool>(at: *mut timespec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    if base != TIME_UTC {
        // SAFETY: the arguments are the caller's, who keeps to C11 7.27.2.5.
        return unsafe { real::TIMESPEC_GET.get()(at, base) };
    }
    // SAFETY: the caller gave the address of a timespec.
    if unsafe { clock_gettime::<ORDERED>(CLOCK_REALTIME, at) } == 0 { base } else { 0 }
}

/// The least cost of a reading of `read`, of some batches, in ns by the kernel's own clock.
pub(crate) fn cost_ns(mut read: impl FnMut()) -> f64 {
    const READS: u32 = 64;
    let batch = |read: &mut dyn FnMut()| {
        let begun = PastHooks.monotonic();
        (0..READS).for_each(|_| read());
        (PastHooks.monotonic() - begun).as_nanos() as f64 / f64::from(READS)
    };
    (0..3).map(|_| batch(&mut read)).fold(f64::INFINITY, f64::min)
}

/// The cost of an ordered reading of the counter's clock, in ns.
pub(crate) fn counter_cost_ns() -> f64 {
    cost_ns(|| {
        std::hint::black_box(nanos::<true>(CLOCK_MONOTONIC));
    })
}

/// The cost of the kernel's clock_gettime, in ns.
pub(crate) fn kernel_cost_ns() -> f64 {
    cost_ns(|| {
        std::hint::black_box(PastHooks.monotonic());
    })
}
