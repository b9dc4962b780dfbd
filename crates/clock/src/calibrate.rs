//! The counter's rate against CLOCK_MONOTONIC_RAW, with bounds that hold.

use vtare_units::{Clock, CounterTick, Span, Timestamp};

use crate::bounds::{LineBounds, Triple, line_bounds};
use crate::line::FixedRate;
use crate::sharp::{SharpRate, sharp_rates};
use crate::snap::{KernelRate, kernel_rate_within};
use crate::source::TimeSource;

/// How long to look and how closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// The first window. Default 1 ms; doubled while the rate is not yet narrow enough.
    pub window: Span,
    /// Triples at each end of a window. Default 1000.
    pub triples: usize,
    /// The longest time to spend in all. Default 30 ms.
    pub limit: Span,
}

impl Default for CalibrationOptions {
    fn default() -> Self {
        Self { window: Span::from_millis(1), triples: 1_000, limit: Span::from_millis(30) }
    }
}

/// What the counter turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The rate to convert with.
    pub rate: FixedRate,
    /// The kernel's own multiplier, where the bounds left just one; the rate is then exact.
    pub exact: Option<KernelRate>,
    /// The hard bounds against CLOCK_MONOTONIC_RAW.
    pub bounds: LineBounds,
    /// The smallest step that the counter was seen to make, in ticks: its lattice.
    pub quantum_ticks: u64,
    /// How long it took.
    pub elapsed: Span,
}

impl Calibration {
    /// The counter's frequency in Hz.
    #[must_use]
    pub fn frequency_hz(&self) -> f64 {
        1e9 / self.rate.ns_per_tick()
    }

    /// By how much the rate may be wrong at most, in ppm: 0 where it is the kernel's own multiplier.
    #[must_use]
    pub fn residual_ppm(&self) -> f64 {
        if self.exact.is_some() {
            return 0.0;
        }
        let rate = self.rate.ns_per_tick();
        let off = (self.bounds.rate_high - rate).max(rate - self.bounds.rate_low);
        off / rate * 1e6
    }

    /// By how much CLOCK_MONOTONIC_RAW may differ from the converted counter, `after` the calibration, in ns.
    #[must_use]
    pub fn bound_ns(&self, after: Span) -> f64 {
        // One more for rounding down on either side.
        self.bounds.half_width_ns + 1.0 + self.residual_ppm() * 1e-6 * after.as_nanos() as f64
    }

    /// CLOCK_MONOTONIC_RAW at `tick` by this calibration, in ns.
    #[must_use]
    pub fn raw_ns(&self, tick: CounterTick) -> u64 {
        let whole =
            i128::from(self.rate.picos(tick.since(self.bounds.at))) + (self.bounds.clock_fraction_ns * 1e3) as i128;
        self.bounds.clock_ns.wrapping_add_signed(whole.div_euclid(1_000) as i64)
    }

    /// The lattice in ns.
    #[must_use]
    pub fn quantum_ns(&self) -> f64 {
        self.quantum_ticks as f64 * self.rate.ns_per_tick()
    }
}

impl Calibration {
    /// What the kernel itself states of the counter, in its record of CLOCK_MONOTONIC_RAW. Takes some 5 us and is exact. `None` where the
    /// record cannot be read.
    #[must_use]
    pub fn stated(source: &impl TimeSource, raw: &vtare_sys::vvar::Record) -> Option<Self> {
        let begun = source.raw();
        let scale = raw.scale()?;
        let exact = KernelRate::stated(scale.mult, scale.shift);
        let rate = FixedRate::new(exact.ns_per_tick())?;
        let at = source.tick();
        let clock_ns = raw.raw_ns(|| at)?;
        let bounds = LineBounds {
            rate_low: exact.ns_per_tick(),
            rate_high: exact.ns_per_tick(),
            at,
            clock_ns,
            clock_fraction_ns: 0.5,
            half_width_ns: 0.5,
            inconsistency_ns: 0.0,
        };
        let quantum_ticks = quantum(source);
        Some(Self { rate, exact: Some(exact), bounds, quantum_ticks, elapsed: source.raw() - begun })
    }

    /// Whether another calibration's rate lies inside this one's bounds.
    #[must_use]
    pub fn allows(&self, other: &Self) -> bool {
        let rate = other.rate.ns_per_tick();
        (self.bounds.rate_low * (1.0 - 1e-12)..=self.bounds.rate_high * (1.0 + 1e-12)).contains(&rate)
    }
}

/// Why a counter could not be calibrated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// It stands still or runs backwards.
    #[error(
        "the counter went from {first} to {last} while the clock moved on by {clock_ns} ns: it does not count time here"
    )]
    NotCounting {
        /// Its first reading.
        first: u64,
        /// Its last reading.
        last: u64,
        /// The time that passed.
        clock_ns: u64,
    },
    /// The kernel's clock is not a function of the counter.
    #[error(
        "CLOCK_MONOTONIC_RAW departs by {inconsistency_ns:.0} ns from every line through the counter (at most {limit_ns:.0} ns \
         is accepted): the kernel keeps time by something else, or the counter's rate changes"
    )]
    NoLine {
        /// By how much.
        inconsistency_ns: f64,
        /// What would be accepted.
        limit_ns: f64,
    },
}

/// The greatest departure from a straight line that is still taken for one, in ns.
const INCONSISTENCY_LIMIT_NS: f64 = 50.0;

/// One bracketed reading of a clock.
#[inline(always)]
pub(crate) fn triple<C: Clock>(source: &impl TimeSource, clock: impl Fn() -> Timestamp<C>) -> Triple {
    let before = source.tick();
    let clock_ns = clock().as_nanos();
    // Ordered: else this reading may slip ahead of the one inside the clock.
    let after = source.tick_ordered();
    Triple { before, clock_ns, after }
}

/// Calibrates the counter against CLOCK_MONOTONIC_RAW.
///
/// Takes one window (1 ms) plus 0.1 ms where the machine is quiet, up to [`CalibrationOptions::limit`] where it is not: the
/// window is doubled until the bounds leave one kernel multiplier or are below 0.01 ppm.
///
/// # Errors
/// Where the counter does not count, or the clock is not a function of it.
pub fn calibrate(source: &impl TimeSource, options: &CalibrationOptions) -> Result<Calibration, CalibrationError> {
    let begun = source.raw();
    let mut triples = Vec::with_capacity(options.triples * 6);
    block(source, options.triples, &mut triples);
    let quantum_ticks = quantum(source);
    let mut window = options.window;
    loop {
        let until = begun + window;
        while source.raw() < until {
            std::hint::spin_loop();
        }
        block(source, options.triples, &mut triples);
        let elapsed = source.raw() - begun;
        let bounds = line_bounds(&triples).ok_or_else(|| not_counting(&triples))?;
        if bounds.inconsistency_ns > INCONSISTENCY_LIMIT_NS {
            return Err(CalibrationError::NoLine {
                inconsistency_ns: bounds.inconsistency_ns,
                limit_ns: INCONSISTENCY_LIMIT_NS,
            });
        }
        let exact = if bounds.inconsistency_ns == 0.0 {
            kernel_rate_within(bounds.rate_low, bounds.rate_high).or_else(|| chosen(&triples, options.triples, &bounds))
        } else {
            None
        };
        if exact.is_some() || bounds.half_width_ppm() < 0.01 || elapsed >= options.limit {
            let rate = exact.map_or(bounds.rate(), KernelRate::ns_per_tick);
            let rate = FixedRate::new(rate).ok_or_else(|| not_counting(&triples))?;
            return Ok(Calibration { rate, exact, bounds, quantum_ticks, elapsed });
        }
        // The next block lies as far beyond the last as that lay beyond the first.
        window = elapsed * 2;
    }
}

/// The kernel rate inside the hard bounds that the sharp estimate singles out, with the next candidate clearly further away. The last block is
/// held against each earlier one; all that decide must agree.
fn chosen(triples: &[Triple], block: usize, bounds: &LineBounds) -> Option<KernelRate> {
    let mut blocks = triples.rchunks(block.max(1));
    let last = blocks.next()?;
    let mut found: Option<KernelRate> = None;
    for first in blocks {
        if let Some(rate) = singled_out(first, last, bounds) {
            if found.is_some_and(|other| other != rate) {
                return None;
            }
            found = Some(rate);
        }
    }
    found
}

fn singled_out(first: &[Triple], last: &[Triple], bounds: &LineBounds) -> Option<KernelRate> {
    let mut found: Option<KernelRate> = None;
    for sharp in sharp_rates(first, last, bounds.rate()) {
        if let Some(rate) = nearest_kernel_rate(&sharp, bounds) {
            if found.is_some_and(|other| other != rate) {
                return None;
            }
            found = Some(rate);
        }
    }
    found
}

fn nearest_kernel_rate(sharp: &SharpRate, bounds: &LineBounds) -> Option<KernelRate> {
    // Below this share the brackets of this width are no constant code path, and the estimate means little.
    if sharp.agreement < 0.6 {
        return None;
    }
    // A third of the distance between neighbours: beyond that the choice would be a guess.
    let khz = 1e6 / sharp.rate;
    let reach = sharp.rate / khz / 3.0;
    if sharp.half_width * sharp.rate > reach / 2.0 {
        return None;
    }
    let low = (sharp.rate - reach).max(bounds.rate_low);
    let high = (sharp.rate + reach).min(bounds.rate_high);
    kernel_rate_within(low, high)
}

fn block(source: &impl TimeSource, count: usize, out: &mut Vec<Triple>) {
    // The first readings of a block meet cold caches.
    for _ in 0..count / 20 {
        std::hint::black_box(triple(source, || source.raw()));
    }
    for _ in 0..count {
        out.push(triple(source, || source.raw()));
    }
}

fn not_counting(triples: &[Triple]) -> CalibrationError {
    let (first, last) = (triples.first(), triples.last());
    CalibrationError::NotCounting {
        first: first.map_or(0, |t| t.before.count()),
        last: last.map_or(0, |t| t.after.count()),
        clock_ns: last.zip(first).map_or(0, |(l, f)| l.clock_ns.saturating_sub(f.clock_ns)),
    }
}

/// The lattice of the counter: the greatest common divisor of the steps that it usually makes.
fn quantum(source: &impl TimeSource) -> u64 {
    const READS: usize = 400;
    let mut last = source.tick();
    let mut steps = Vec::with_capacity(READS);
    for _ in 0..READS {
        let now = source.tick();
        steps.push(now.since(last).unsigned_abs());
        last = now;
    }
    steps.sort_unstable();
    // Rare steps are interrupts, moves to another CPU, and on some CPUs a reading put off by one tick so that no two are equal.
    let usual = steps.chunk_by(|a, b| a == b).filter(|run| run.len() > READS / 8).map(|run| run[0]);
    usual.reduce(gcd).unwrap_or_else(|| steps.iter().copied().reduce(gcd).unwrap_or(1)).max(1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;

    fn drift_after_a_minute(machine: &SimClock) -> (f64, f64) {
        let calibration = calibrate(machine, &CalibrationOptions::default()).expect("a sane machine");
        machine.advance_ns(60e9);
        let sample = triple(machine, || machine.raw());
        let (low, high) = (calibration.raw_ns(sample.before), calibration.raw_ns(sample.after));
        let clock = sample.clock_ns as f64;
        let off = (low as f64 - clock).max(clock - high as f64).max(0.0);
        (off, calibration.bound_ns(Span::from_secs(60)))
    }

    #[test]
    fn drift_over_a_minute_stays_inside_the_stated_bound() {
        for seed in 0..200 {
            let machine = SimClock::new(2_596_118).with_lattice(26).with_seed(seed);
            let (off, bound) = drift_after_a_minute(&machine);
            assert!(off <= bound, "seed {seed}: {off} ns off, {bound} ns stated");
        }
    }

    #[test]
    fn drift_stays_inside_the_bound_under_load_too() {
        for seed in 0..50 {
            let machine = SimClock::new(3_000_021).with_seed(seed).with_pauses(300 + seed, Span::from_millis(4));
            let (off, bound) = drift_after_a_minute(&machine);
            assert!(off <= bound, "seed {seed}: {off} ns off, {bound} ns stated");
        }
    }

    #[test]
    fn a_quiet_machine_gives_the_kernels_own_multiplier_in_a_millisecond() {
        for seed in 0..100 {
            let machine = SimClock::new(2_596_118).with_lattice(26).with_seed(seed);
            let calibration = calibrate(&machine, &CalibrationOptions::default()).expect("a sane machine");
            assert_eq!(calibration.exact, Some(machine.rate()), "seed {seed}");
            assert_eq!(calibration.residual_ppm(), 0.0);
            assert_eq!(calibration.quantum_ticks, 26);
            assert!(calibration.elapsed < Span::from_millis(2), "{}", calibration.elapsed);
        }
    }

    #[test]
    fn a_counter_that_stands_still_is_refused() {
        struct Still(SimClock);
        impl TimeSource for Still {
            fn tick(&self) -> CounterTick {
                CounterTick::new(7)
            }
            fn tick_ordered(&self) -> CounterTick {
                CounterTick::new(7)
            }
            fn raw(&self) -> Timestamp<vtare_units::MonotonicRaw> {
                self.0.raw()
            }
            fn monotonic(&self) -> Timestamp<vtare_units::Monotonic> {
                self.0.monotonic()
            }
            fn suspended(&self) -> Span {
                self.0.suspended()
            }
            fn clock_source(&self) -> Option<String> {
                self.0.clock_source()
            }
            fn clock_source_is(&self, name: &str) -> Option<bool> {
                self.0.clock_source_is(name)
            }
        }
        let error =
            calibrate(&Still(SimClock::new(1_000_000)), &CalibrationOptions::default()).expect_err("it stands still");
        assert!(matches!(error, CalibrationError::NotCounting { first: 7, last: 7, .. }), "{error}");
    }
}
