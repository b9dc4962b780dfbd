//! The counter's rate against CLOCK_MONOTONIC_RAW, with bounds that hold.

use vtare_units::{Clock, CounterTick, MonotonicRaw, Span, Timestamp};

use crate::bounds::{LineBounds, Triple, line_bounds};
use crate::kernel_rate::{KernelRate, kernel_rate_within};
use crate::lattice::{agreeing_rate, step_ticks};
use crate::line::FixedRate;
use crate::source::TimeSource;

/// How long to look and how closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// The first window. Default 1 ms; doubled while the rate is not yet narrow enough.
    pub window: Span,
    /// Triples at each end of a window. Default 1000.
    pub triples: usize,
    /// No window ends later than this after the start, unless the machine took the CPU away at its end: see
    /// [`calibrate`]. Default 30 ms.
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
    /// The kernel's own multiplier, where the bounds leave just one; the rate is then exact.
    pub exact: Option<KernelRate>,
    /// The hard bounds against CLOCK_MONOTONIC_RAW.
    pub bounds: LineBounds,
    /// The spacing of the values that the counter shows, in ticks: its lattice. Need not be whole; 1 where it shows
    /// every tick.
    pub quantum_ticks: f64,
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
        self.quantum_ticks * self.rate.ns_per_tick()
    }
}

impl Calibration {
    /// What the kernel itself states of the counter, in its record of CLOCK_MONOTONIC_RAW. Takes some 5 us and is
    /// exact. `None` where the record cannot be read, or is being written each time it is tried.
    #[must_use]
    pub fn stated(source: &impl TimeSource, raw: &vtare_sys::vvar::Record) -> Option<Self> {
        let begun = source.raw();
        let scale = patiently(|| raw.scale())?;
        let exact = KernelRate::stated(scale.mult, scale.shift);
        let rate = FixedRate::new(exact.ns_per_tick())?;
        let at = source.tick();
        let clock_ns = patiently(|| raw.raw_ns(|| at))?;
        let bounds = LineBounds {
            rate_low: exact.ns_per_tick(),
            rate_high: exact.ns_per_tick(),
            at,
            clock_ns,
            clock_fraction_ns: 0.5,
            half_width_ns: 0.5,
            inconsistency_ns: 0.0,
        };
        let quantum_ticks = step_ticks(source);
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
    /// It stalls or runs backwards.
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
        "CLOCK_MONOTONIC_RAW departs by {inconsistency_ns:.0} ns from every line through the counter (at most \
         {limit_ns:.0} ns is accepted): the kernel keeps time by something else, or the counter's rate changes"
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

/// Tries `read` until it succeeds, for some milliseconds at most: the kernel writes its record for some 100 ns at each
/// timer tick, and for longer where a hypervisor takes the CPU away meanwhile.
fn patiently<T>(read: impl Fn() -> Option<T>) -> Option<T> {
    (0..1_000).find_map(|_| {
        let value = read();
        if value.is_none() {
            (0..64).for_each(|_| std::hint::spin_loop());
        }
        value
    })
}

/// Calibrates the counter against CLOCK_MONOTONIC_RAW.
///
/// Takes one window (1 ms) and the time for its triples, and doubles the window up to [`CalibrationOptions::limit`]
/// until the bounds leave one kernel multiplier or are below 0.01 ppm. Triples count for the CPU on which they were
/// taken; the CPU with the longest window decides, so that an offset between the counters of two CPUs is never taken
/// for time. A window whose triples contradict each other is begun again.
///
/// # Errors
/// Where the counter does not count, or the clock is not a function of it.
pub fn calibrate(source: &impl TimeSource, options: &CalibrationOptions) -> Result<Calibration, CalibrationError> {
    // Only a kernel that keeps time by this very counter, at a whole number of kHz, has a multiplier of the form that
    // is looked for.
    let kernel_multiplier = source.clock_source().is_some_and(|name| name == "tsc");
    let begun = source.raw();
    let mut window = Window::begin(source, options);
    let quantum_ticks = step_ticks(source);
    loop {
        window.extend(source, options, begun);
        let elapsed = source.raw() - begun;
        let last = elapsed >= options.limit && (!window.late || window.blocks >= MOST_BLOCKS);
        let triples = window.triples.longest();
        let bounds = match line_bounds(triples) {
            Some(bounds) => bounds,
            None if last => return Err(not_counting(triples)),
            None => continue,
        };
        if bounds.inconsistency_ns > 0.0 && elapsed < options.limit {
            window = Window::begin(source, options);
            continue;
        }
        if bounds.inconsistency_ns > INCONSISTENCY_LIMIT_NS {
            return Err(CalibrationError::NoLine {
                inconsistency_ns: bounds.inconsistency_ns,
                limit_ns: INCONSISTENCY_LIMIT_NS,
            });
        }
        let exact = if kernel_multiplier && bounds.inconsistency_ns == 0.0 {
            kernel_rate_within(bounds.rate_low, bounds.rate_high)
                .or_else(|| agreeing_rate(triples, &bounds, quantum_ticks))
        } else {
            None
        };
        if exact.is_some() || bounds.half_width_ppm() < 0.01 || last {
            let rate = exact.map_or(bounds.rate(), KernelRate::ns_per_tick);
            let rate = FixedRate::new(rate).ok_or_else(|| not_counting(triples))?;
            return Ok(Calibration { rate, exact, bounds, quantum_ticks, elapsed });
        }
    }
}

/// Blocks that a window has at most where the machine keeps taking the CPU away.
const MOST_BLOCKS: u32 = 12;
/// The block after a late one comes this many first windows later: far enough to separate neighbouring kernel
/// multipliers apart ([`agreeing_rate`]), near enough that a whole step of the lattice is not taken for none.
const AFTER_LATE: i64 = 7;

/// A window that grows by blocks of triples.
struct Window {
    begun: Timestamp<MonotonicRaw>,
    length: Span,
    triples: TriplesByCpu,
    blocks: u32,
    /// The last block came later, or took longer, than it was meant to.
    late: bool,
}

impl Window {
    fn begin(source: &impl TimeSource, options: &CalibrationOptions) -> Self {
        let begun = source.raw();
        let mut triples = TriplesByCpu::default();
        triples.take_block(source, options.triples);
        Self { begun, length: options.window, triples, blocks: 1, late: false }
    }

    /// Waits for the window's end and takes a block there. The next one lies as far beyond it as it lies beyond the
    /// first, within the limit on the time since `started`; or soon after, where this one was late.
    fn extend(&mut self, source: &impl TimeSource, options: &CalibrationOptions, started: Timestamp<MonotonicRaw>) {
        let until = if self.late {
            source.raw() + options.window * AFTER_LATE
        } else {
            (self.begun + self.length).min(started + options.limit)
        };
        while source.raw() < until {
            source.spin(256);
        }
        let from = source.raw();
        self.triples.take_block(source, options.triples);
        let to = source.raw();
        // A block takes a small part of a window, on an emulated CPU two windows.
        self.late = from - until > options.window || to - from > options.window * 3;
        self.blocks += 1;
        self.length = (to - self.begun) * 2;
    }
}

/// Triples, apart for each CPU on which they were taken.
#[derive(Default)]
struct TriplesByCpu(Vec<(Option<usize>, Vec<Triple>)>);

impl TriplesByCpu {
    /// Takes `count` triples; those during which the thread changed its CPU are not kept. A thread that left its CPU
    /// and came back within one triple needed two context switches, which take longer than any offset between counters
    /// that a kernel accepts.
    fn take_block(&mut self, source: &impl TimeSource, count: usize) {
        // The first readings of a block meet cold caches.
        for _ in 0..count / 20 {
            std::hint::black_box(triple(source, || source.raw()));
        }
        let mut cpu = source.cpu();
        let mut group = self.group(cpu);
        for _ in 0..count {
            let taken = triple(source, || source.raw());
            let now_on = source.cpu();
            if now_on == cpu {
                self.0[group].1.push(taken);
            } else {
                cpu = now_on;
                group = self.group(cpu);
            }
        }
    }

    fn group(&mut self, cpu: Option<usize>) -> usize {
        self.0.iter().position(|(of, _)| *of == cpu).unwrap_or_else(|| {
            self.0.push((cpu, Vec::new()));
            self.0.len() - 1
        })
    }

    /// The triples of the CPU on which they span the longest time.
    fn longest(&self) -> &[Triple] {
        let span = |triples: &[Triple]| match triples {
            [first, .., last] => last.after.since(first.before),
            _ => 0,
        };
        self.0.iter().map(|(_, triples)| triples.as_slice()).max_by_key(|triples| span(triples)).unwrap_or_default()
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

#[cfg(test)]
#[path = "calibrate_tests.rs"]
mod tests;
