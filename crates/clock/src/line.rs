//! Ticks to nanoseconds without a division, and the record that many threads read at once.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use vtare_units::CounterTick;

/// A rate in ns per tick as a fixed-point number with 48 binary places: one multiplication and one shift convert.
///
/// Covers counters from 16 kHz up; exact to 4e-15 ns per tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRate(u64);

impl FixedRate {
    /// Binary places.
    pub const SHIFT: u32 = 48;

    /// The nearest fixed-point rate to `ns_per_tick`; `None` where that is not above 0 or does not fit.
    #[must_use]
    pub fn new(ns_per_tick: f64) -> Option<Self> {
        let scaled = (ns_per_tick * 2_f64.powi(Self::SHIFT.cast_signed())).round();
        // Below 2^63, so that a signed product of tick and rate fits 128 bits.
        (scaled >= 1.0 && scaled < 2_f64.powi(63)).then_some(Self(scaled as u64))
    }

    /// The rate in ns per tick.
    #[must_use]
    pub fn ns_per_tick(self) -> f64 {
        self.0 as f64 / 2_f64.powi(Self::SHIFT.cast_signed())
    }

    /// `ticks` in ns, rounded towards minus infinity; saturates at the range of `i64`.
    #[inline(always)]
    #[must_use]
    pub fn nanos(self, ticks: i64) -> i64 {
        let wide = (i128::from(ticks) * i128::from(self.0)) >> Self::SHIFT;
        // Only ticks of years at a low-frequency counter get here; a plain cast would wrap.
        wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// `ticks` in ps, rounded to the nearest; saturates at the range of `i64`.
    #[must_use]
    pub fn picos(self, ticks: i64) -> i64 {
        let wide = i128::from(ticks) * i128::from(self.0);
        let picos = wide.saturating_mul(1_000).saturating_add(1 << (Self::SHIFT - 1)) >> Self::SHIFT;
        picos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The ticks that `nanos` take, rounded up; saturates.
    #[must_use]
    pub fn ticks_for(self, nanos: u64) -> u64 {
        let ticks = (u128::from(nanos) << Self::SHIFT).div_ceil(u128::from(self.0));
        ticks.min(u64::MAX.into()) as u64
    }
}

/// A line through time whose rate changes once: before `at` the clock runs at one rate, from then on at another.
///
/// The change lies a little in the future when it is published, so that every reader, whichever version it sees,
/// computes the same time for the same tick. A new line therefore never makes the clock step, in any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlewedLine {
    /// The tick of the change of rate.
    pub at: CounterTick,
    /// The clock at the change: whole ns.
    pub ns: u64,
    /// The clock at the change: the rest, in units of 2^-48 ns.
    pub fraction: u64,
    /// The rate up to the change.
    pub before: FixedRate,
    /// The rate from the change on.
    pub after: FixedRate,
}

impl SlewedLine {
    /// The clock at `tick`, in ns rounded down.
    #[inline(always)]
    #[must_use]
    pub fn ns_at(&self, tick: CounterTick) -> u64 {
        let ticks = tick.since(self.at);
        let rate = if ticks < 0 { self.before } else { self.after };
        let wide = i128::from(ticks) * i128::from(rate.0) + i128::from(self.fraction);
        self.ns.wrapping_add_signed((wide >> FixedRate::SHIFT) as i64)
    }

    /// The first tick, by the rate from the change on, at which the clock shows `ns` or more. For times after the
    /// change.
    #[must_use]
    pub fn tick_at(&self, ns: u64) -> CounterTick {
        let ahead = u128::from(ns.saturating_sub(self.ns)) << FixedRate::SHIFT;
        let ticks = ahead.saturating_sub(u128::from(self.fraction)).div_ceil(u128::from(self.after.0));
        CounterTick::new(self.at.count().wrapping_add(ticks.min(i64::MAX as u128) as u64))
    }

    /// The line that goes on from this one at `at` (not before the present change of rate) with a new rate.
    #[must_use]
    pub fn slewed_at(&self, at: CounterTick, after: FixedRate) -> Self {
        let wide = i128::from(at.since(self.at)) * i128::from(self.after.0) + i128::from(self.fraction);
        Self {
            at,
            ns: self.ns.wrapping_add_signed((wide >> FixedRate::SHIFT) as i64),
            fraction: (wide & ((1 << FixedRate::SHIFT) - 1)) as u64,
            before: self.after,
            after,
        }
    }
}

/// A [`SlewedLine`] in one cache line that any number of threads read while one writes.
///
/// A sequence lock (odd while being written). [`SharedLine::ns`] never waits: where it meets a write it reports that,
/// and the caller reads the line before, which is still true, from a second record.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct SharedLine {
    sequence: AtomicU64,
    at: AtomicU64,
    ns: AtomicU64,
    fraction: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
    /// Ticks after `at` beyond which the line wants to be renewed; 0 where there is no line.
    lifetime: AtomicU64,
}

/// What a reader of a [`SharedLine`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineRead {
    /// The clock, in ns.
    Fresh(u64),
    /// The clock, in ns, by a line that has outlived its lifetime by at most as much again.
    Stale(u64),
    /// The line is too old, or the counter fell back behind it: it gives nothing for this tick.
    Dead,
    /// There is no line, or it is being written at this moment.
    None,
}

impl LineRead {
    /// The clock, from a line that needs no renewal.
    #[inline(always)]
    pub(crate) fn fresh(self) -> Option<u64> {
        if let Self::Fresh(ns) = self { Some(ns) } else { None }
    }
}

impl SharedLine {
    pub(crate) const fn empty() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            at: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            fraction: AtomicU64::new(0),
            before: AtomicU64::new(0),
            after: AtomicU64::new(0),
            lifetime: AtomicU64::new(0),
        }
    }

    /// The clock at the tick that `tick` reads.
    #[inline(always)]
    pub(crate) fn ns(&self, tick: impl Fn() -> CounterTick) -> LineRead {
        let sequence = self.sequence.load(Ordering::Acquire);
        let line = self.fields();
        let lifetime = self.lifetime.load(Ordering::Relaxed);
        // Where there is no line the counter is not read at all: that would cost as much as the kernel's clock.
        if lifetime == 0 {
            return LineRead::None;
        }
        let now = tick();
        fence(Ordering::Acquire);
        if sequence & 1 != 0 || self.sequence.load(Ordering::Relaxed) != sequence {
            return LineRead::None;
        }
        let ns = line.ns_at(now);
        // One comparison for both sides: a counter that fell back is as suspect as one that ran ahead.
        let age = now.since(line.at).cast_unsigned().wrapping_add(lifetime);
        if age <= 2 * lifetime {
            LineRead::Fresh(ns)
        } else if age <= 3 * lifetime {
            LineRead::Stale(ns)
        } else {
            LineRead::Dead
        }
    }

    /// Whether there is no line, and none is being written.
    #[inline]
    pub(crate) fn is_absent(&self) -> bool {
        let sequence = self.sequence.load(Ordering::Acquire);
        let absent = self.lifetime.load(Ordering::Relaxed) == 0;
        fence(Ordering::Acquire);
        absent && sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence
    }

    /// The line itself, or `None` where there is none or it is being written.
    pub(crate) fn line(&self) -> Option<SlewedLine> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let line = self.fields();
        let lifetime = self.lifetime.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let whole = sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence && lifetime != 0;
        whole.then_some(line)
    }

    #[inline(always)]
    fn fields(&self) -> SlewedLine {
        SlewedLine {
            at: CounterTick::new(self.at.load(Ordering::Relaxed)),
            ns: self.ns.load(Ordering::Relaxed),
            fraction: self.fraction.load(Ordering::Relaxed),
            before: FixedRate(self.before.load(Ordering::Relaxed)),
            after: FixedRate(self.after.load(Ordering::Relaxed)),
        }
    }

    /// Publishes the line that `make` gives, with its lifetime in ticks. `make` is called inside the write so that no
    /// time passes between its choice of the change and the moment readers see it. Only one thread may write at a time
    /// (the caller holds the renewal right).
    pub(crate) fn publish(&self, make: impl FnOnce() -> (u64, SlewedLine)) -> (u64, SlewedLine) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence | 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let (lifetime_ticks, line) = make();
        self.at.store(line.at.count(), Ordering::Relaxed);
        self.ns.store(line.ns, Ordering::Relaxed);
        self.fraction.store(line.fraction, Ordering::Relaxed);
        self.before.store(line.before.0, Ordering::Relaxed);
        self.after.store(line.after.0, Ordering::Relaxed);
        self.lifetime.store(lifetime_ticks, Ordering::Relaxed);
        self.sequence.store((sequence | 1).wrapping_add(1), Ordering::Release);
        (lifetime_ticks, line)
    }

    /// Takes the line away: readers get [`LineRead::None`] from now on.
    pub(crate) fn withdraw(&self) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence | 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.lifetime.store(0, Ordering::Relaxed);
        self.sequence.store((sequence | 1).wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(ns_per_tick: f64) -> FixedRate {
        FixedRate::new(ns_per_tick).expect("a sane rate")
    }

    #[test]
    fn the_shared_record_fills_one_cache_line() {
        assert_eq!(size_of::<SharedLine>(), 64);
        assert_eq!(align_of::<SharedLine>(), 64);
    }

    #[test]
    fn a_rate_that_is_no_rate_is_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6] {
            assert_eq!(FixedRate::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_year_of_ticks_converts_without_overflow() {
        // 2.6 GHz for a year, and the 24 MHz counter of a small aarch64 board.
        let year_ns = 365.25 * 86_400e9;
        for ns_per_tick in [1.0 / 2.596_132, 1_000.0 / 24.0] {
            let nanos = rate(ns_per_tick).nanos((year_ns / ns_per_tick) as i64);
            assert!((nanos as f64 / year_ns - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_shared_line_is_seen_only_after_it_was_published_and_until_it_is_withdrawn() {
        let shared = SharedLine::empty();
        let at = |tick: u64| move || CounterTick::new(tick);
        assert_eq!(shared.ns(at(5)), LineRead::None);
        let one = rate(1.0);
        let line = SlewedLine { at: CounterTick::new(100), ns: 7_000, fraction: 0, before: one, after: one };
        shared.publish(|| (1_000, line));
        assert_eq!(shared.ns(at(150)), LineRead::Fresh(7_050));
        assert_eq!(shared.ns(at(50)), LineRead::Fresh(6_950));
        assert_eq!(shared.ns(at(1_100)), LineRead::Fresh(8_000));
        assert_eq!(shared.ns(at(1_101)), LineRead::Stale(8_001));
        assert_eq!(shared.ns(at(2_101)), LineRead::Dead);
        let far = CounterTick::new(100_u64.wrapping_sub(1_001));
        assert_eq!(shared.ns(|| far), LineRead::Dead);
        shared.withdraw();
        assert_eq!(shared.ns(at(150)), LineRead::None);
    }

    proptest! {
        #[test]
        fn conversion_is_within_a_nanosecond_of_exact_arithmetic(
            ticks in -(1_i64 << 55)..1 << 55,
            khz in 1_000_000_u32..5_000_000,
        ) {
            let exact = ticks as f64 * (1e6 / f64::from(khz));
            let fixed = rate(1e6 / f64::from(khz)).nanos(ticks) as f64;
            prop_assert!((fixed - exact).abs() <= 1.0 + exact.abs() * 1e-12);
        }

        #[test]
        fn ticks_for_a_span_reach_it_and_one_less_does_not(nanos in 1_u64..1 << 50, khz in 1_000_000_u32..5_000_000) {
            let rate = rate(1e6 / f64::from(khz));
            let ticks = rate.ticks_for(nanos);
            prop_assert!(rate.nanos(ticks as i64) >= nanos as i64);
            prop_assert!(rate.nanos(ticks as i64 - 1) < nanos as i64);
        }

        #[test]
        fn picoseconds_agree_with_nanoseconds(ticks in -(1_i64 << 40)..1 << 40) {
            let rate = rate(1.0 / 2.596_118);
            prop_assert!((rate.picos(ticks) - rate.nanos(ticks) * 1_000 - 500).abs() <= 501);
        }

        #[test]
        fn the_tick_of_a_time_is_the_first_that_shows_it(ahead in 0_u64..1 << 45, fraction in 0_u64..1 << 48) {
            let rate = rate(1.0 / 2.596_118);
            let line = SlewedLine { at: CounterTick::new(1 << 50), ns: 1 << 50, fraction, before: rate, after: rate };
            let tick = line.tick_at(line.ns + ahead);
            prop_assert!(line.ns_at(tick) >= line.ns + ahead);
            if tick > line.at {
                prop_assert!(line.ns_at(CounterTick::new(tick.count() - 1)) < line.ns + ahead);
            }
        }

        #[test]
        fn a_change_of_rate_neither_steps_nor_turns_time_back(
            start in 1_u64 << 40..1 << 60,
            steps in prop::collection::vec((1_i64..1 << 32, -5e-4_f64..5e-4), 1..20),
            probe in 0_i64..40,
        ) {
            let nominal = 1.0 / 2.596_118;
            let (at, before, after) = (CounterTick::new(start), rate(nominal), rate(nominal));
            let mut line = SlewedLine { at, ns: 1 << 50, fraction: 0, before, after };
            for (ahead, slew) in steps {
                let at = CounterTick::new(line.at.count().wrapping_add_signed(ahead));
                let next = line.slewed_at(at, rate(nominal * (1.0 + slew)));
                for around in -probe..=probe {
                    let tick = CounterTick::new(at.count().wrapping_add_signed(around));
                    let later = CounterTick::new(tick.count() + 1);
                    // An old reader before a new one, and the reverse.
                    prop_assert!(next.ns_at(later) >= next.ns_at(tick));
                    if around < 0 {
                        prop_assert_eq!(next.ns_at(tick), line.ns_at(tick));
                    }
                }
                prop_assert_eq!(next.ns_at(at), line.ns_at(at));
                line = next;
            }
        }
    }
}
