//! Whether time was disrupted since the last look at all that shows it: a pure decision, and the record that readers
//! share.
//!
//! There is no thread for it: whichever reader finds the last look older than [`LOOK_EVERY`] takes the next one, so a
//! stop in which the counter went on, or stepped, is met by the first reading after it. A stop in which all clocks
//! stopped together shows only in a mark that the hypervisor makes (VMClock), which every reading compares.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use serde::Serialize;
use vtare_units::{CounterTick, Monotonic, Span, Timestamp};

use crate::line::FixedRate;

/// A reading and the generation it belongs to: between two readings of one generation no disruption was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// CLOCK_MONOTONIC.
    pub at: Timestamp<Monotonic>,
    /// 1 from the first checked reading on; one more after each disruption.
    pub generation: u64,
}

/// What disrupted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Disruption {
    /// The hypervisor states that it moved, restored or stopped the guest (VMClock).
    Moved,
    /// The machine was suspended.
    Suspended,
    /// The counter and the kernel's unsteered clock disagree about the time between two looks: one of them stopped,
    /// stepped or changed its rate; or the counter was given up.
    Stepped,
    /// The kernel did not keep time for 250 ms or longer: no CPU handled a timer interrupt.
    Stalled,
    /// An outside clock (PHC, or UTC as the kernel is given it) contradicts this machine's.
    Contradicted,
}

impl Disruption {
    const ALL: [Self; 5] = [Self::Moved, Self::Suspended, Self::Stepped, Self::Stalled, Self::Contradicted];
}

/// The longest time between two looks while readings are taken. Half of the shortest stop that must be seen.
pub(crate) const LOOK_EVERY: Span = Span::from_micros(500);
/// Disagreement that is none: a quarter of the shortest stop that must be seen.
const TOLERANCE_NS: f64 = 250_000.0;
/// A kernel's page older than this was not written in time: ten ticks of the slowest timer, and a busy host beside.
pub(crate) const STALL: Span = Span::from_millis(250);
/// The same in looks.
const STALL_LOOKS: u64 = STALL.as_nanos_unsigned() / LOOK_EVERY.as_nanos_unsigned();
/// A changed rate is looked for against a look that is at most this old: what the rate's own bound allows grows with
/// it.
const LONGEST_BASE: Span = Span::from_secs(64);
/// A suspend shorter than this is none.
const SHORTEST_SUSPEND: Span = Span::from_millis(1);

/// All that shows a disruption, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The counter, or the kernel's clock where that is not trusted.
    pub(crate) tick: CounterTick,
    /// CLOCK_MONOTONIC_RAW at that tick: the least it can be, in ns.
    pub(crate) raw_ns: u64,
    /// How much more it can be.
    pub(crate) raw_width_ns: i64,
    /// Time suspended since boot.
    pub(crate) suspended_ns: i64,
    /// The hypervisor's mark, as [`mark`] writes it.
    pub(crate) mark: u64,
    /// How long ago the kernel wrote its page, in ns; 0 where it is not read.
    pub(crate) page_age_ns: i64,
    /// Whether readings came from the counter.
    pub(crate) counted: bool,
}

/// A hypervisor's mark as one number: 0 where there is none.
#[inline(always)]
pub(crate) fn mark(marker: Option<u64>) -> u64 {
    marker.map_or(0, |marker| marker.wrapping_add(1))
}

/// What a counter is known to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownRate {
    /// Its rate against CLOCK_MONOTONIC_RAW.
    pub(crate) rate: FixedRate,
    /// The greatest error of that.
    pub(crate) error_ppm: f64,
}

/// What disrupted time between the looks, if anything did. `base` is an earlier look than `last`. The
/// counter is asked where its rate is known and readings came from it.
pub(crate) fn disruption(base: &Look, last: &Look, now: &Look, known: Option<KnownRate>) -> Option<Disruption> {
    if now.mark != last.mark {
        return Some(Disruption::Moved);
    }
    if (now.suspended_ns - last.suspended_ns).abs() >= SHORTEST_SUSPEND.as_nanos() {
        return Some(Disruption::Suspended);
    }
    let known = known.filter(|_| last.counted)?;
    let disagree = |from: &Look| {
        let counted = known.rate.nanos(now.tick.since(from.tick)) as f64;
        let passed = now.raw_ns.wrapping_sub(from.raw_ns).cast_signed() as f64;
        let (least, most) = (passed - from.raw_width_ns as f64, passed + now.raw_width_ns as f64);
        let allowed = TOLERANCE_NS + known.error_ppm * 1e-6 * counted.abs();
        counted > most + allowed || counted < least - allowed
    };
    if disagree(last) || disagree(base) || !now.counted {
        return Some(Disruption::Stepped);
    }
    let stalled = |look: &Look| look.page_age_ns >= STALL.as_nanos();
    (stalled(now) && !stalled(last)).then_some(Disruption::Stalled)
}

/// A look that any number of threads read while one writes.
#[derive(Debug, Default)]
struct StoredLook {
    tick: AtomicU64,
    raw_ns: AtomicU64,
    raw_width_ns: AtomicI64,
    suspended_ns: AtomicI64,
    mark: AtomicU64,
    page_age_ns: AtomicI64,
    counted: AtomicBool,
}

impl StoredLook {
    fn store(&self, look: &Look) {
        self.tick.store(look.tick.count(), Ordering::Relaxed);
        self.raw_ns.store(look.raw_ns, Ordering::Relaxed);
        self.raw_width_ns.store(look.raw_width_ns, Ordering::Relaxed);
        self.suspended_ns.store(look.suspended_ns, Ordering::Relaxed);
        self.mark.store(look.mark, Ordering::Relaxed);
        self.page_age_ns.store(look.page_age_ns, Ordering::Relaxed);
        self.counted.store(look.counted, Ordering::Relaxed);
    }

    fn load(&self) -> Look {
        Look {
            tick: CounterTick::new(self.tick.load(Ordering::Relaxed)),
            raw_ns: self.raw_ns.load(Ordering::Relaxed),
            raw_width_ns: self.raw_width_ns.load(Ordering::Relaxed),
            suspended_ns: self.suspended_ns.load(Ordering::Relaxed),
            mark: self.mark.load(Ordering::Relaxed),
            page_age_ns: self.page_age_ns.load(Ordering::Relaxed),
            counted: self.counted.load(Ordering::Relaxed),
        }
    }
}

/// The generation, and the last look.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    generation: AtomicU64,
    /// The last disruption's place in [`Disruption::ALL`], plus 1; 0 before the first.
    cause: AtomicU8,
    /// How often the counter's ticks and the mark of the last look hold: the fields that each reading compares.
    looked_at: AtomicU64,
    looked_mark: AtomicU64,
    /// Half of the ticks for which a look holds; 0 before the first.
    holds_ticks: AtomicU64,
    /// Own readings have gone away from the kernel's clock in a disruption: checked ones come from the kernel.
    from_kernel: AtomicBool,
    /// Odd while the looks are written.
    sequence: AtomicU64,
    last: StoredLook,
    base: StoredLook,
    /// The process that writes the looks at this moment, or 0: a forked child takes over from its parent.
    writing: AtomicU32,
}

impl Watch {
    /// Starts with a first look, which holds for [`LOOK_EVERY`] at `rate`.
    pub(crate) fn start(&self, look: &Look, rate: Option<FixedRate>) {
        let ticks = rate.map_or(LOOK_EVERY.as_nanos_unsigned(), |rate| rate.ticks_for(LOOK_EVERY.as_nanos_unsigned()));
        self.holds_ticks.store(ticks, Ordering::Relaxed);
        // Another thread may have started it meanwhile.
        if self.generation.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.publish(1, look, true);
        }
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The last disruption.
    pub(crate) fn cause(&self) -> Option<Disruption> {
        let place = self.cause.load(Ordering::Relaxed).checked_sub(1)?;
        Disruption::ALL.get(usize::from(place)).copied()
    }

    #[inline(always)]
    pub(crate) fn reads_kernel(&self) -> bool {
        self.from_kernel.load(Ordering::Acquire)
    }

    pub(crate) fn set_reads_kernel(&self, kernel: bool) {
        self.from_kernel.store(kernel, Ordering::Release);
    }

    /// Whether the last look still holds at `tick`, which was read before `mark`.
    #[inline(always)]
    pub(crate) fn holds(&self, tick: CounterTick, mark: u64) -> bool {
        let holds_ticks = self.holds_ticks.load(Ordering::Relaxed);
        let looked_at = CounterTick::new(self.looked_at.load(Ordering::Acquire));
        covers(looked_at, tick, holds_ticks) && mark == self.looked_mark.load(Ordering::Acquire)
    }

    /// Whether the kernel wrote its page at most [`STALL`] ago, and not at a tick that the counter has yet to reach.
    #[inline(always)]
    pub(crate) fn page_holds(&self, page_age: i64) -> bool {
        let holds_ticks = self.holds_ticks.load(Ordering::Relaxed);
        page_age.cast_unsigned().wrapping_add(holds_ticks) <= holds_ticks.wrapping_mul(STALL_LOOKS)
    }

    /// Likewise for a look that this thread took itself.
    pub(crate) fn covered_by(&self, look: &Look, tick: CounterTick, mark: u64) -> bool {
        covers(look.tick, tick, self.holds_ticks.load(Ordering::Relaxed)) && mark == look.mark
    }

    /// The earlier look that rates are held against, and the last one; `None` while they are written.
    pub(crate) fn looks(&self) -> Option<(Look, Look)> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let looks = (self.base.load(), self.last.load());
        fence(Ordering::Acquire);
        (sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence).then_some(looks)
    }

    /// Goes on from `generation` to the next, for `cause`; another thread may have done so for the same disruption.
    pub(crate) fn disrupt(&self, generation: u64, cause: Disruption) {
        self.cause.store(cause as u8 + 1, Ordering::Relaxed);
        let next = generation.wrapping_add(1);
        let _ = self.generation.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes `look` the last one, unless the generation is no longer the one it was taken in, a later look stands
    /// there, or another thread writes. `anew`: rates are held against it from now on.
    pub(crate) fn publish(&self, generation: u64, look: &Look, anew: bool) {
        let process = std::process::id();
        let holder = self.writing.load(Ordering::Relaxed);
        if holder == process
            || self.writing.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        let last = CounterTick::new(self.last.tick.load(Ordering::Relaxed));
        if self.generation() == generation && (anew || look.tick.since(last) > 0) {
            let sequence = self.sequence.load(Ordering::Relaxed) | 1;
            self.sequence.store(sequence, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let base_raw_ns = self.base.raw_ns.load(Ordering::Relaxed);
            if anew || look.raw_ns.wrapping_sub(base_raw_ns) >= LONGEST_BASE.as_nanos_unsigned() {
                self.base.store(look);
            }
            self.last.store(look);
            self.looked_mark.store(look.mark, Ordering::Release);
            self.looked_at.store(look.tick.count(), Ordering::Release);
            self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
        }
        self.writing.store(0, Ordering::Release);
    }
}

/// Whether a reading lies where the kernel's last timer tick allows: not before it, and at most [`STALL`] after it.
#[inline(always)]
pub(crate) fn near_tick(ns: u64, tick: Timestamp<Monotonic>) -> bool {
    let early = LOOK_EVERY.as_nanos_unsigned();
    ns.wrapping_sub(tick.as_nanos()).wrapping_add(early) <= early + STALL.as_nanos_unsigned()
}

/// Whether a check made at the tick `looked_at` is still valid at `tick`: at most `holds_ticks` lie between them,
/// in either direction. An unordered reading of another CPU may lie a little before the check; a counter that fell
/// back lies further.
#[inline(always)]
fn covers(looked_at: CounterTick, tick: CounterTick, holds_ticks: u64) -> bool {
    tick.since(looked_at).cast_unsigned().wrapping_add(holds_ticks) <= holds_ticks.wrapping_mul(2)
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
