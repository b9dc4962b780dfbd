//! Readings: of the clock and of the bare counter.

use core::sync::atomic::{AtomicU8, Ordering};

use clock::Checked;
use vtare_sys::{clocks, counter, cpu};
use vtare_units::{CounterTick, Monotonic};

use crate::{process, thread};

/// CLOCK_MONOTONIC in ns, unordered.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_now_ns() -> u64 {
    match process::running() {
        Some(clock) => clock.now().as_nanos(),
        None => first(),
    }
}

/// CLOCK_MONOTONIC in ns, read after all earlier instructions and loads.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_now_ordered_ns() -> u64 {
    match process::running() {
        Some(clock) => clock.now_ordered().as_nanos(),
        None => first(),
    }
}

/// CLOCK_MONOTONIC in ns, unordered, and the generation that it belongs to.
///
/// # Safety
/// `generation` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_now_checked(generation: *mut u64) -> u64 {
    let found = match process::running().or_else(process::started) {
        Some(clock) => clock.now_checked(),
        // Another thread is starting the clock.
        None => Checked { at: clocks::now::<Monotonic>(), generation: 0 },
    };
    // SAFETY: the caller states that it is null or may be written.
    if let Some(to) = unsafe { generation.as_mut() } {
        *to = found.generation;
    }
    found.at.as_nanos()
}

/// A reading that finds no clock yet.
#[cold]
#[inline(never)]
fn first() -> u64 {
    if let Some(clock) = process::started() {
        return clock.now_ordered().as_nanos();
    }
    let kernel = clocks::now::<Monotonic>().as_nanos();
    // Where the clock came up meanwhile, others may have readings of it that lie some ns above the kernel's.
    process::running().map_or(kernel, |clock| clock.now_ordered().as_nanos())
}

/// Whether the counter can be read: asked once, since the answer must not change within a pair of readings.
#[inline(always)]
fn counted() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    static COUNTED: AtomicU8 = AtomicU8::new(UNKNOWN);
    #[cold]
    fn ask(answer: &AtomicU8) -> bool {
        let permitted = counter::AVAILABLE && cpu::counter_permitted();
        answer.store(if permitted { YES } else { NO }, Ordering::Relaxed);
        permitted
    }
    match COUNTED.load(Ordering::Relaxed) {
        UNKNOWN => ask(&COUNTED),
        known => known == YES,
    }
}

/// The counter's count, or the kernel's ns where user code may not read the counter.
#[inline(always)]
fn tick(read: impl Fn() -> CounterTick) -> u64 {
    if counted() { read().count() } else { clocks::now::<Monotonic>().as_nanos() }
}

/// The counter, unordered.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_tick() -> u64 {
    tick(counter::read)
}

/// The counter at the start of timed work.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_tick_start() -> u64 {
    tick(counter::read_start)
}

/// The counter at the end of timed work.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_tick_stop() -> u64 {
    tick(counter::read_stop)
}

/// A difference of two ticks in ns; `INT64_MIN` where the counter could not be calibrated.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_ticks_to_ns(ticks: i64) -> i64 {
    if !counted() {
        return ticks;
    }
    let clock = process::ready();
    if clock.counter_usable() {
        return clock.span_of(ticks).as_nanos();
    }
    let text = format_args!("the counter could not be calibrated, so its ticks have no length: use vtare_now_ns");
    thread::fail(libc::ENOTSUP, text);
    i64::MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_lie_between_the_kernels_before_and_after_within_the_stated_bound() {
        let clock = process::ready();
        for _ in 0..10_000 {
            let before = clocks::now::<Monotonic>().as_nanos();
            let ours = vtare_now_ordered_ns();
            let after = clocks::now::<Monotonic>().as_nanos();
            let bound = crate::info::error_bound_ns(&clock.info()).ceil() as u64;
            assert!((before - bound..=after + bound).contains(&ours), "{before} {ours} {after} +- {bound}");
        }
    }

    #[test]
    fn ticks_become_nanoseconds_and_keep_their_sign() {
        assert_eq!(vtare_ticks_to_ns(0), 0);
        let (start, stop) = (vtare_tick_start(), vtare_tick_stop());
        assert!(stop >= start);
        let second = vtare_ticks_to_ns(3_000_000_000);
        assert!(second > 0);
        assert!((vtare_ticks_to_ns(-3_000_000_000) + second).abs() <= 1);
    }
}
