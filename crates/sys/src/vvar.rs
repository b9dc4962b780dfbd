//! The kernel's own time page: the numbers behind the vDSO's `clock_gettime`, read without the call.
//!
//! Linux maps a page named `[vvar]` into each process: a sequence count, the counter value at the last tick,
//! multiplier, shift and the clocks' values at that tick. Reading it gives exactly what the kernel would answer,
//! steered and stepped with it. The layout is no stable interface, so nothing here assumes where the numbers lie:
//! [`Page::candidates`] looks for places that have the right form, and the caller must prove a candidate against
//! `clock_gettime` before using it (`vtare_clock::vvar`).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

use vtare_units::CounterTick;

use crate::kernel_file;

/// The kernel's mark for "the counter, read directly" (`VDSO_CLOCKMODE_TSC` on x86, `_ARCHTIMER` on arm64).
const MODE_COUNTER: i32 = 1;
/// Bytes of the page that are searched.
const SEARCHED: usize = 4096;
/// Places of the clocks in a record: their clock ids.
const REALTIME: usize = 0;
const MONOTONIC: usize = 1;
const MONOTONIC_RAW: usize = 4;

/// The `[vvar]` mapping of this process.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    address: usize,
}

/// The place of one clock record in the page: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sequence count (u32), odd while the kernel writes; the clock mode (i32) follows it.
    pub sequence: usize,
    /// Counter at the last tick (u64).
    pub last: usize,
    /// Multiplier (u32); the shift (u32) follows it.
    pub mult: usize,
    /// The clocks' values at the last tick: pairs of seconds (u64) and shifted nanoseconds (u64), by clock id.
    pub base: usize,
}

/// What a record holds besides the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Counter at the last tick.
    pub last: CounterTick,
    /// Multiplier.
    pub mult: u32,
    /// Shift.
    pub shift: u32,
}

impl Page {
    /// Finds the mapping; `None` where the kernel offers none, or /proc is not there.
    #[must_use]
    pub fn find() -> Option<Self> {
        let maps = kernel_file::text("/proc/self/maps")?;
        parse_maps(&maps).map(|address| Self { address })
    }

    fn word(self, offset: usize) -> &'static AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= SEARCHED);
        // SAFETY: the kernel maps this page readable into every process until exit or exec; offsets stay within its
        // first 4096 bytes and are aligned; it is only ever loaded from.
        unsafe { &*((self.address + offset) as *const AtomicU64) }
    }

    fn half(self, offset: usize) -> &'static AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= SEARCHED);
        // SAFETY: as in `word`.
        unsafe { &*((self.address + offset) as *const AtomicU32) }
    }

    /// Places that look like a clock record: an even sequence count, the counter's mode, a plausible last tick before
    /// `now`, and a multiplier and shift whose rate lies between the two given (ns per tick).
    #[must_use]
    pub fn candidates(self, now: CounterTick, rate_low: f64, rate_high: f64) -> Vec<Layout> {
        let mut found = Vec::new();
        for sequence in (0..SEARCHED - 512).step_by(8) {
            let mode = (self.word(sequence).load(Ordering::Relaxed) >> 32) as u32;
            if mode != MODE_COUNTER.cast_unsigned() {
                continue;
            }
            let last = sequence + 8;
            // Kernels put up to two words (max_cycles, mask) between the last tick and the multiplier.
            for mult in [last + 8, last + 16, last + 24] {
                let scale = self.scale_at(last, mult);
                let rate = f64::from(scale.mult) / 2_f64.powi(scale.shift.cast_signed());
                let age = now.since(scale.last);
                // A tickless kernel may leave the record alone for seconds, not for minutes.
                let plausible = (-1_000_000..600_000_000_000).contains(&age) && (1..=32).contains(&scale.shift);
                if plausible && (rate_low..=rate_high).contains(&rate) {
                    found.push(Layout { sequence, last, mult, base: mult + 8 });
                }
            }
        }
        found
    }

    fn scale_at(self, last: usize, mult: usize) -> Scale {
        Scale {
            last: CounterTick::new(self.word(last).load(Ordering::Relaxed)),
            mult: self.half(mult).load(Ordering::Relaxed),
            shift: self.half(mult + 4).load(Ordering::Relaxed),
        }
    }

    /// The record at `layout`, ready to be read.
    #[must_use]
    pub fn record(self, layout: Layout) -> Record {
        let pair = |id: usize| (self.word(layout.base + 16 * id), self.word(layout.base + 16 * id + 8));
        Record {
            sequence: self.half(layout.sequence),
            mode: self.mode(layout.sequence + 4),
            last: self.word(layout.last),
            scale: self.word(layout.mult),
            monotonic: pair(MONOTONIC),
            realtime: pair(REALTIME),
            raw: pair(MONOTONIC_RAW),
        }
    }

    fn mode(self, offset: usize) -> &'static AtomicI32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= SEARCHED);
        // SAFETY: as in `word`.
        unsafe { &*((self.address + offset) as *const AtomicI32) }
    }
}

fn parse_maps(maps: &str) -> Option<usize> {
    let line = maps.lines().find(|line| line.ends_with("[vvar]"))?;
    let (start, rest) = line.split_once('-')?;
    let readable = rest.split(' ').nth(1)?.starts_with('r');
    readable.then(|| usize::from_str_radix(start, 16).ok()).flatten().filter(|address| address % 4096 == 0)
}

/// A clock record of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    sequence: &'static AtomicU32,
    mode: &'static AtomicI32,
    last: &'static AtomicU64,
    /// Multiplier in the low half, shift in the high half.
    scale: &'static AtomicU64,
    monotonic: (&'static AtomicU64, &'static AtomicU64),
    realtime: (&'static AtomicU64, &'static AtomicU64),
    raw: (&'static AtomicU64, &'static AtomicU64),
}

impl Record {
    /// CLOCK_MONOTONIC in ns at the tick that `tick` reads; `None` while the kernel writes (for some 100 ns, each timer
    /// tick) or where it has turned away from the counter.
    #[inline(always)]
    #[must_use]
    pub fn monotonic_ns(&self, tick: impl Fn() -> CounterTick) -> Option<u64> {
        self.ns(self.monotonic, tick).map(|(ns, _)| ns)
    }

    /// The same, and the ticks since the kernel wrote the record: negative where the counter shows less than it did
    /// then.
    #[inline(always)]
    #[must_use]
    pub fn monotonic_ns_and_age(&self, tick: impl Fn() -> CounterTick) -> Option<(u64, i64)> {
        self.ns(self.monotonic, tick)
    }

    /// CLOCK_REALTIME in ns since 1970, likewise.
    #[inline(always)]
    #[must_use]
    pub fn realtime_ns(&self, tick: impl Fn() -> CounterTick) -> Option<u64> {
        self.ns(self.realtime, tick).map(|(ns, _)| ns)
    }

    /// CLOCK_MONOTONIC_RAW in ns, likewise. The kernel keeps it in a record of its own, whose other clocks are not set.
    #[inline(always)]
    #[must_use]
    pub fn raw_ns(&self, tick: impl Fn() -> CounterTick) -> Option<u64> {
        self.ns(self.raw, tick).map(|(ns, _)| ns)
    }

    /// Whether the kernel keeps time by the counter, also while it writes the record.
    #[must_use]
    pub fn by_counter(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == MODE_COUNTER
    }

    /// Multiplier, shift and last tick, read as one.
    #[must_use]
    pub fn scale(&self) -> Option<Scale> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let scale = self.scale.load(Ordering::Relaxed);
        let last = CounterTick::new(self.last.load(Ordering::Relaxed));
        self.holds(sequence).then_some(Scale { last, mult: scale as u32, shift: (scale >> 32) as u32 })
    }

    #[inline(always)]
    fn holds(&self, sequence: u32) -> bool {
        let mode = self.mode.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        sequence & 1 == 0 && mode == MODE_COUNTER && self.sequence.load(Ordering::Relaxed) == sequence
    }

    #[inline(always)]
    fn ns(&self, base: (&AtomicU64, &AtomicU64), tick: impl Fn() -> CounterTick) -> Option<(u64, i64)> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let last = self.last.load(Ordering::Relaxed);
        let scale = self.scale.load(Ordering::Relaxed);
        let seconds = base.0.load(Ordering::Relaxed);
        let shifted = base.1.load(Ordering::Relaxed);
        let ticks = tick().count().wrapping_sub(last).cast_signed();
        if !self.holds(sequence) {
            return None;
        }
        // 128 bits: a tickless kernel may leave `last` alone for long. Negative ticks (the read slipped before the
        // kernel's) are right too.
        let wide = i128::from(ticks) * i128::from(scale as u32) + i128::from(shifted);
        let nanos = (wide >> ((scale >> 32) as u32 & 63)) as i64;
        Some((seconds.wrapping_mul(1_000_000_000).wrapping_add_signed(nanos), ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_found_by_name_and_only_where_it_can_be_read() {
        let maps = "7f00-7f01 r-xp 0 00:00 0 [vdso]\n7fd5e9823000-7fd5e9827000 r--p 00000000 00:00 0                  \
                    [vvar]\n";
        assert_eq!(parse_maps(maps), Some(0x7fd5_e982_3000));
        assert_eq!(parse_maps("7fd5e9823000-7fd5e9827000 ---p 00000000 00:00 0 [vvar]\n"), None);
        assert_eq!(parse_maps("zz-7fd5e9827000 r--p 00000000 00:00 0 [vvar]\n"), None);
        assert_eq!(parse_maps(""), None);
    }

    #[test]
    fn an_impossible_rate_finds_no_record() {
        if let Some(page) = Page::find() {
            assert_eq!(page.candidates(crate::counter::read(), 1e6, 2e6), []);
        }
    }
}
