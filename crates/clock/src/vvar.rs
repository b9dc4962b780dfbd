//! The kernel's own time page, after it has proved itself.
//!
//! A candidate place in `[vvar]` is used only when its rate is possible and its readings lie between `clock_gettime`
//! before and after, many times. From then on the kernel's own marks guard each reading: a sequence count against torn
//! reads and a mode that changes when the kernel turns away from the counter. A reading then equals the kernel's,
//! steering and all.

use vtare_sys::vvar::{Page, Record};
use vtare_sys::{clocks, counter};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Wall};

/// How often a candidate must agree with the kernel.
const PROOFS: u32 = 32;
/// Rates that any counter may have, in ns per tick: 1 MHz to 20 GHz.
const POSSIBLE: (f64, f64) = (0.05, 1_000.0);

/// The kernel's two records, each proved.
#[derive(Clone, Copy, Debug)]
pub struct KernelRecords {
    /// CLOCK_MONOTONIC and CLOCK_REALTIME, steered.
    pub steered: Record,
    /// CLOCK_MONOTONIC_RAW: the counter's own rate, never steered.
    pub raw: Record,
}

/// Finds and proves the kernel's records. `None` where there are none: no such page, another layout, a time namespace,
/// or a kernel that keeps time by something else. Takes some 30 us.
#[must_use]
pub fn kernel_records() -> Option<KernelRecords> {
    if !counter::AVAILABLE {
        return None;
    }
    let page = Page::find()?;
    let candidates = page.candidates(counter::read(), POSSIBLE.0, POSSIBLE.1);
    let records: Vec<Record> = candidates.into_iter().map(|layout| page.record(layout)).collect();
    let read = || counter::read_start();
    let steered = records.iter().copied().find(|record| {
        agrees(|| clocks::now::<Monotonic>().as_nanos(), || record.monotonic_ns(read))
            && agrees(|| clocks::now::<Wall>().as_nanos(), || record.realtime_ns(read))
    })?;
    let raw = records
        .iter()
        .copied()
        .find(|record| agrees(|| clocks::now::<MonotonicRaw>().as_nanos(), || record.raw_ns(read)))?;
    Some(KernelRecords { steered, raw })
}

/// Whether readings always lie between the kernel's own before and after.
fn agrees(kernel: impl Fn() -> u64, ours: impl Fn() -> Option<u64>) -> bool {
    let mut proofs = 0;
    // The kernel writes about once a tick; a few readings may meet that.
    for _ in 0..PROOFS * 2 {
        let before = kernel();
        let Some(between) = ours() else { continue };
        let after = kernel();
        // Wall time may be stepped between two readings: that proves nothing either way.
        if after < before {
            continue;
        }
        if !(before..=after).contains(&between) {
            return false;
        }
        proofs += 1;
        if proofs == PROOFS {
            return true;
        }
    }
    false
}

/// The steered record's rate and one of its points: a tick and CLOCK_MONOTONIC there.
pub(crate) fn point(record: &Record) -> Option<(CounterTick, u64, f64)> {
    let scale = record.scale()?;
    let tick = counter::read();
    let ns = record.monotonic_ns(|| tick)?;
    Some((tick, ns, f64::from(scale.mult) / 2_f64.powi(scale.shift.cast_signed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proven_records_keep_agreeing_with_the_kernel() {
        let Some(records) = kernel_records() else { return };
        for _ in 0..20_000 {
            let before = clocks::now::<Monotonic>().as_nanos();
            let Some(ours) = records.steered.monotonic_ns(counter::read_start) else { continue };
            let after = clocks::now::<Monotonic>().as_nanos();
            assert!((before..=after).contains(&ours), "{before} {ours} {after}");
        }
    }

    #[test]
    fn readings_that_differ_from_the_kernels_or_never_come_prove_nothing() {
        let kernel = || clocks::now::<Monotonic>().as_nanos();
        assert!(agrees(kernel, || Some(kernel())));
        assert!(!agrees(kernel, || Some(kernel() + 10_000_000)));
        assert!(!agrees(kernel, || None));
    }
}
