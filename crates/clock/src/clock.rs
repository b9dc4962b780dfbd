//! The clock: CLOCK_MONOTONIC read from the CPU's counter, or from the kernel where the counter cannot be trusted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use vtare_sys::{counter, cpu, sched, vmclock};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp, Wall};

use crate::bounds::{Triple, offset_bounds};
use crate::calibrate::{Calibration, CalibrationOptions, calibrate, triple};
use crate::cross_core;
use crate::info::{ClockInfo, Comparison, Event, Events, ReadPath};
use crate::line::{BentLine, FixedRate, LineRead, SharedLine};
use crate::renew::{Anchor, Renewal, Situation, renew};
use crate::source::{System, TimeSource};
use crate::trust::{Evidence, Trust, judge};
use crate::vvar::{self, KernelRecords};

/// Which clock to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The counter where it can be trusted, else the operating system's clock.
    #[default]
    Auto,
    /// The operating system's clock.
    Os,
}

/// How to start a [`Clock`].
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// Which clock to read.
    pub source: SourceChoice,
    /// How to calibrate.
    pub calibration: CalibrationOptions,
    /// Read the kernel's own time page where it proves right.
    pub kernel_page: bool,
    /// Test the counters of all allowed CPUs (16 at most) against each other, for at most this long a pair. `None` skips the test: the
    /// kernel's own stands.
    pub cross_core: Option<Span>,
}

impl Default for ClockOptions {
    fn default() -> Self {
        Self {
            source: SourceChoice::Auto,
            calibration: CalibrationOptions::default(),
            kernel_page: true,
            cross_core: Some(Span::from_millis(5)),
        }
    }
}

impl ClockOptions {
    /// Starts in well under a millisecond where the kernel's own time page can be read, in about 1.2 ms else: no cross-core test.
    #[must_use]
    pub fn fast() -> Self {
        Self { cross_core: None, ..Self::default() }
    }
}

/// A clock in the domain of CLOCK_MONOTONIC.
///
/// Reading it takes as long as reading the bare counter (see `bench/clock`). About once a second one reader, whichever comes
/// first, compares it with the kernel's clock (1 us) and bends its rate so that it follows; it never steps back. Where the counter
/// turns out not to be trusted, at start or later, readings come from the kernel's vDSO and [`Clock::info`] says why.
///
/// ```
/// use vtare_clock::{Clock, ClockOptions};
/// let clock = Clock::start(&ClockOptions::fast());
/// let before = clock.now_ordered();
/// let after = clock.now_ordered();
/// assert!(after >= before);
/// println!("{} for the work between", after - before);
/// ```
#[derive(Debug)]
pub struct Clock<S: TimeSource = System> {
    line: SharedLine,
    /// The line before: readers that meet a write read this one, which is true until the bend, and the bend is yet to come.
    previous: SharedLine,
    control: Control,
    /// The kernel's own records: where they can be read, no line is needed.
    records: Option<KernelRecords>,
    begun: OnceLock<Begun>,
    source: S,
}

/// What only a renewal touches.
#[derive(Debug)]
struct Control {
    /// The tick at which a renewal was begun (odd), or 0.
    renewing: AtomicU64,
    anchor_at: AtomicU64,
    anchor_low_ns: AtomicU64,
    anchor_width_bits: AtomicU64,
    lifetime_ticks: AtomicU64,
    raw_rate_bits: AtomicU64,
    suspended_ns: AtomicI64,
    /// The hypervisor's disruption marker; 0 where there is none.
    marker: AtomicU64,
    error_ns: AtomicI64,
    renewals: AtomicU64,
    /// Readings of the kernel's clock never go below this: the last that the counter's line may have given.
    floor_ns: AtomicU64,
    events: Events,
}

/// What was found at start.
#[derive(Debug)]
struct Begun {
    trust: Trust,
    evidence: Evidence,
    calibration: Option<Calibration>,
    read_cost_ns: f64,
}

/// Triples that one renewal takes.
const ANCHOR_TRIPLES: usize = 16;
/// How far ahead of now a bend is put: far longer than a reader takes from the record to the counter.
const AHEAD: Span = Span::from_micros(20);
/// The longest time between renewals.
const LONGEST_LIFETIME: Span = Span::from_secs(1);
/// The first time between renewals: the kernel's steering is not yet known then. Doubled each time.
const FIRST_LIFETIME: Span = Span::from_millis(16);
/// How far the kernel's steering can put a line ahead within its lifetime: 1 s, and 1 s more while it is stale, at twice the limit.
const MOST_AHEAD_NS: u64 = 5_000_000;
/// The clock source is asked for at every so many renewals: it is a file.
const CLOCK_SOURCE_EVERY: u64 = 8;

impl Clock {
    /// Starts a clock on this machine.
    ///
    /// Takes about 1.2 ms with [`ClockOptions::fast`], a few more with the cross-core test, up to 30 ms and 5 ms a CPU on a
    /// loaded machine. Never fails: without a counter that can be trusted it reads the kernel's clock and says why.
    #[must_use]
    pub fn start(options: &ClockOptions) -> Self {
        vmclock::open();
        let features = cpu::Features::read();
        let evidence = Evidence {
            available: counter::AVAILABLE,
            permitted: cpu::counter_permitted(),
            invariant: features.invariant_tsc,
            clock_source: System.clock_source(),
            hypervisor: features.hypervisor_name(),
            cross_core: None,
            calibration_error: None,
            page_contradicted: false,
            declined: options.source == SourceChoice::Os,
        };
        let test = options.cross_core;
        let cross = |ns_per_tick| {
            let mut cpus = sched::allowed_cpus().ok()?;
            cpus.truncate(16);
            cross_core::measure(&cpus, ns_per_tick, test?)
        };
        Self::with_source(System, evidence, options, cross)
    }
}

impl<S: TimeSource> Clock<S> {
    /// Starts a clock on any source. `cross_core` is called with the ns per tick once they are known.
    pub fn with_source(
        source: S,
        mut evidence: Evidence,
        options: &ClockOptions,
        cross_core: impl FnOnce(f64) -> Option<crate::trust::CrossCore>,
    ) -> Self {
        let mut clock = Self {
            line: SharedLine::empty(),
            previous: SharedLine::empty(),
            control: Control::new(),
            records: None,
            begun: OnceLock::new(),
            source,
        };
        let mut calibration = None;
        // The counter is calibrated wherever it may be read at all: a timing instrument wants its ticks converted even where
        // the clock itself does not rest on it.
        if evidence.available && evidence.permitted {
            calibration = clock.find_rate(&mut evidence, options);
            if let Some(found) = &calibration {
                evidence.cross_core = cross_core(found.rate.ns_per_tick());
            }
        }
        let trust = judge(&evidence);
        if !trust.trusted {
            clock.records = None;
        } else if let (None, Some(found)) = (&clock.records, &calibration) {
            clock.first_line(found);
        }
        let read_cost_ns = clock.read_cost_ns();
        let begun = Begun { trust, evidence, calibration, read_cost_ns };
        // A new cell is empty.
        let _ = clock.begun.set(begun);
        clock
    }

    /// CLOCK_MONOTONIC now, in ns.
    ///
    /// Unordered: the CPU may carry the read out among the instructions around it, by some ten nanoseconds either way. For
    /// timestamps of events; for timing a piece of code use [`Clock::now_ordered`] or the fenced pair.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Timestamp<Monotonic> {
        if let Some(ns) = self.records.as_ref().and_then(|kernel| kernel.steered.monotonic_ns(|| self.source.tick())) {
            return Timestamp::from_nanos(ns);
        }
        match self.line.ns(|| self.source.tick()) {
            LineRead::Fresh(ns) => Timestamp::from_nanos(ns),
            LineRead::Stale(_) | LineRead::Dead | LineRead::None => self.slow(),
        }
    }

    /// CLOCK_MONOTONIC now, in ns, read after all earlier instructions and loads have completed. Of two such readings, the one that
    /// happened later is never the smaller, in any thread.
    #[inline(always)]
    #[must_use]
    pub fn now_ordered(&self) -> Timestamp<Monotonic> {
        if let Some(ns) =
            self.records.as_ref().and_then(|kernel| kernel.steered.monotonic_ns(|| self.source.tick_ordered()))
        {
            return Timestamp::from_nanos(ns);
        }
        match self.line.ns(|| self.source.tick_ordered()) {
            LineRead::Fresh(ns) => Timestamp::from_nanos(ns),
            LineRead::Stale(_) | LineRead::Dead | LineRead::None => self.slow(),
        }
    }

    /// CLOCK_REALTIME now, read from the counter, identical to the kernel's through steps and slews; `None` where the kernel's own time page
    /// cannot be read: ask the kernel then. Unordered, or ordered as [`Clock::now_ordered`] is.
    #[inline(always)]
    #[must_use]
    pub fn wall(&self, ordered: bool) -> Option<Timestamp<Wall>> {
        let kernel = self.records.as_ref()?;
        let tick = || if ordered { self.source.tick_ordered() } else { self.source.tick() };
        kernel.steered.realtime_ns(tick).map(Timestamp::from_nanos)
    }

    /// CLOCK_MONOTONIC_RAW now, likewise.
    #[inline(always)]
    #[must_use]
    pub fn raw(&self, ordered: bool) -> Option<Timestamp<MonotonicRaw>> {
        let kernel = self.records.as_ref()?;
        let tick = || if ordered { self.source.tick_ordered() } else { self.source.tick() };
        kernel.raw.raw_ns(tick).map(Timestamp::from_nanos)
    }

    /// Whether readings come from the counter at this moment.
    #[inline]
    #[must_use]
    pub fn reads_counter(&self) -> bool {
        self.path() != ReadPath::Vdso
    }

    /// How readings are made at this moment.
    #[must_use]
    pub fn path(&self) -> ReadPath {
        // The kernel writes its record for a moment each tick; a second look tells that from a record that has ended.
        let shown = |kernel: &KernelRecords| (0..64).any(|_| kernel.steered.scale().is_some());
        if self.records.as_ref().is_some_and(shown) {
            ReadPath::KernelPage
        } else if self.line.line().is_some() || self.previous.line().is_some() {
            ReadPath::Line
        } else {
            ReadPath::Vdso
        }
    }

    /// Whether counter ticks can be read and converted to time, be it by a clock that itself rests on the kernel.
    #[must_use]
    pub fn counter_usable(&self) -> bool {
        self.calibration().is_some()
    }

    /// `ticks` of the counter in ns, rounded down; zero where the counter is not usable ([`Clock::counter_usable`]).
    #[inline]
    #[must_use]
    pub fn span_of(&self, ticks: i64) -> Span {
        self.calibration().map_or(Span::ZERO, |found| Span::from_nanos(found.rate.nanos(ticks)))
    }

    /// `ticks` of the counter in ps, to the nearest; zero where the counter is not usable.
    #[must_use]
    pub fn picos_of(&self, ticks: i64) -> i64 {
        self.calibration().map_or(0, |found| found.rate.picos(ticks))
    }

    /// The tick at which this clock will show `deadline`; `None` where readings do not come from the counter.
    #[must_use]
    pub fn tick_at(&self, deadline: Timestamp<Monotonic>) -> Option<CounterTick> {
        if let Some((tick, ns, ns_per_tick)) = self.records.as_ref().and_then(|kernel| vvar::point(&kernel.steered)) {
            let ahead = deadline.as_nanos().saturating_sub(ns) as f64 / ns_per_tick;
            return Some(CounterTick::new(tick.count().wrapping_add(ahead.ceil() as u64)));
        }
        // A read first: it renews an old line.
        let _ = self.now();
        self.line.line().or_else(|| self.previous.line()).map(|line| line.tick_at(deadline.as_nanos()))
    }

    /// The counter's calibration, where it could be calibrated.
    #[must_use]
    pub fn calibration(&self) -> Option<&Calibration> {
        self.begun.get().and_then(|begun| begun.calibration.as_ref())
    }

    /// Where the time comes from, how far it can be off, and why.
    #[must_use]
    pub fn info(&self) -> ClockInfo {
        let ticks = self.line.line().map(|line| self.source.tick().since(line.at));
        let rate = self.calibration().map(|found| found.rate);
        let begun = self.begun.get();
        let comparison = Comparison {
            age: ticks.zip(rate).map(|(ticks, rate)| Span::from_nanos(rate.nanos(ticks))),
            half_width_ns: f64::from_bits(self.control.anchor_width_bits.load(Ordering::Relaxed)) / 2.0,
            error_ns: self.control.error_ns.load(Ordering::Relaxed),
            count: self.control.renewals.load(Ordering::Relaxed),
        };
        ClockInfo::new(
            self.path(),
            begun.map(|begun| (&begun.trust, &begun.evidence, begun.read_cost_ns)),
            self.calibration(),
            comparison,
            &self.control.events,
        )
    }

    /// The counter's rate: what the kernel states of it where that can be read, else what measurement bounds. A thorough start does both
    /// and holds one against the other.
    fn find_rate(&mut self, evidence: &mut Evidence, options: &ClockOptions) -> Option<Calibration> {
        let records = if options.kernel_page { self.source.kernel_records() } else { None };
        let stated = records.and_then(|records| Calibration::stated(&self.source, &records.raw));
        let thorough = options.cross_core.is_some();
        let measured = if stated.is_some() && !thorough {
            None
        } else {
            match calibrate(&self.source, &options.calibration) {
                Ok(found) => Some(found),
                Err(error) => {
                    evidence.calibration_error = Some(error.to_string());
                    return None;
                }
            }
        };
        match (stated, measured) {
            (Some(stated), Some(measured)) if !measured.allows(&stated) => {
                evidence.page_contradicted = true;
                Some(measured)
            }
            (Some(stated), _) => {
                self.records = records;
                Some(stated)
            }
            (None, measured) => measured,
        }
    }

    fn first_line(&self, found: &Calibration) {
        let raw = found.rate.ns_per_tick();
        let control = &self.control;
        control.raw_rate_bits.store(raw.to_bits(), Ordering::Relaxed);
        control.suspended_ns.store(self.source.suspended().as_nanos(), Ordering::Relaxed);
        control.marker.store(self.source.disruption_marker().unwrap_or(0), Ordering::Relaxed);
        control.lifetime_ticks.store(found.rate.ticks_for(FIRST_LIFETIME.as_nanos_unsigned()), Ordering::Relaxed);
        let anchor = self.anchor(raw);
        self.keep(anchor);
        self.seat(anchor, found.rate, 0);
    }

    /// Reads the kernel's clock, within bounds.
    fn anchor(&self, ns_per_tick: f64) -> Anchor {
        let first = triple(&self.source, || self.source.monotonic());
        let mut triples: [Triple; ANCHOR_TRIPLES] = [first; ANCHOR_TRIPLES];
        for slot in triples.iter_mut().skip(1) {
            *slot = triple(&self.source, || self.source.monotonic());
        }
        let at = triples[ANCHOR_TRIPLES - 1].after;
        let origin = first.clock_ns;
        let (low, high) = offset_bounds(&triples, at, origin, ns_per_tick).unwrap_or((0.0, 0.0));
        Anchor { at, low_ns: origin.wrapping_add_signed(low.floor() as i64), width_ns: (high - low.floor()).max(0.0) }
    }

    fn keep(&self, anchor: Anchor) {
        self.control.anchor_at.store(anchor.at.count(), Ordering::Relaxed);
        self.control.anchor_low_ns.store(anchor.low_ns, Ordering::Relaxed);
        self.control.anchor_width_bits.store(anchor.width_ns.to_bits(), Ordering::Relaxed);
    }

    fn seat(&self, anchor: Anchor, rate: FixedRate, given_ns: u64) {
        // At the upper bound: a reading of the kernel's own clock that came before is then never the greater. Nor one of
        // the line before.
        let ns = anchor.low_ns.saturating_add(anchor.width_ns.ceil() as u64).max(given_ns);
        let line = BentLine { at: anchor.at, ns, fraction: 0, before: rate, after: rate };
        let lifetime = self.control.lifetime_ticks.load(Ordering::Relaxed);
        self.line.publish(lifetime, || line);
        self.previous.publish(lifetime, || line);
    }

    /// The way of a reading that found no fresh line.
    #[cold]
    #[inline(never)]
    fn slow(&self) -> Timestamp<Monotonic> {
        if self.records.is_some() {
            // The kernel is writing its record, or has left the counter; the vDSO waits for the one and copes with the other.
            return self.source.monotonic();
        }
        for _ in 0..2 {
            match self.line.ns(|| self.source.tick_ordered()) {
                LineRead::Fresh(ns) => return Timestamp::from_nanos(ns),
                LineRead::Stale(ns) => {
                    if !self.try_renew() {
                        // Another thread is at it. Its bend goes on from this line, so the line's own time is right.
                        return Timestamp::from_nanos(ns);
                    }
                }
                LineRead::Dead => {
                    if !self.try_renew() {
                        break;
                    }
                }
                LineRead::None => match self.previous.ns(|| self.source.tick_ordered()) {
                    LineRead::Fresh(ns) | LineRead::Stale(ns) => return Timestamp::from_nanos(ns),
                    LineRead::Dead | LineRead::None => break,
                },
            }
        }
        let floor = self.control.floor_ns.load(Ordering::Acquire);
        Timestamp::from_nanos(self.source.monotonic().as_nanos().max(floor))
    }

    /// Renews the line, unless another thread does. False where it did nothing.
    fn try_renew(&self) -> bool {
        let control = &self.control;
        let mark = self.source.tick().count() | 1;
        let holder = control.renewing.load(Ordering::Relaxed);
        let stolen_after = control.lifetime_ticks.load(Ordering::Relaxed).saturating_mul(4);
        // A renewal takes microseconds. One that has lasted seconds belongs to a thread that a fork left behind.
        if holder != 0 && mark.wrapping_sub(holder) < stolen_after {
            return false;
        }
        if control.renewing.compare_exchange(holder, mark, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.renew_now();
        control.renewing.store(0, Ordering::Release);
        true
    }

    fn renew_now(&self) {
        let control = &self.control;
        let Some(line) = self.line.line() else { return };
        let count = control.renewals.fetch_add(1, Ordering::Relaxed) + 1;
        let raw = f64::from_bits(control.raw_rate_bits.load(Ordering::Relaxed));
        let lifetime_ticks = control.lifetime_ticks.load(Ordering::Relaxed);
        let suspended = self.source.suspended().as_nanos();
        let slept_ns = suspended - control.suspended_ns.swap(suspended, Ordering::Relaxed);
        let slept = slept_ns.abs() > 1_000_000;
        if slept {
            control.events.record(Event::Suspended);
        }
        let marker = self.source.disruption_marker().unwrap_or(0);
        let moved = control.marker.swap(marker, Ordering::Relaxed) != marker;
        if moved {
            control.events.record(Event::Migrated);
        }
        if count.is_multiple_of(CLOCK_SOURCE_EVERY) && self.clock_source_left() {
            control.events.record(Event::ClockSourceChanged);
            return self.give_up(line, lifetime_ticks);
        }
        let now = self.anchor(line.after.ns_per_tick());
        let last = Anchor {
            at: CounterTick::new(control.anchor_at.load(Ordering::Relaxed)),
            low_ns: control.anchor_low_ns.load(Ordering::Relaxed),
            width_ns: f64::from_bits(control.anchor_width_bits.load(Ordering::Relaxed)),
        };
        let next =
            renew(&Situation { line, lifetime_ticks, last, now, raw_ns_per_tick: raw, disrupted: slept || moved });
        self.keep(now);
        let longer = lifetime_ticks.saturating_mul(2).min(line.after.ticks_for(LONGEST_LIFETIME.as_nanos_unsigned()));
        control.lifetime_ticks.store(longer, Ordering::Relaxed);
        match next {
            Renewal::Slew { rate, error_ns } => {
                control.error_ns.store(error_ns as i64, Ordering::Relaxed);
                let ahead = rate.ticks_for(AHEAD.as_nanos_unsigned());
                let published = self.line.publish(longer, || {
                    line.bent_at(CounterTick::new(self.source.tick().count().wrapping_add(ahead)), rate)
                });
                self.previous.publish(longer, || published);
            }
            Renewal::Seat { rate } => {
                control.events.record(Event::Seated);
                let age = now.at.since(line.at);
                let live = -(lifetime_ticks as i64)..=lifetime_ticks.saturating_mul(2) as i64;
                let given = if live.contains(&age) {
                    // The line was still read, by ticks of after a jump or a sleep too: what it gave, far ahead or not, stands.
                    line.ns_at(now.at)
                } else {
                    // The counter's own rate: over a long sleep the line's, with what it was working off, would be far out.
                    let slept_ticks = (slept_ns as f64 / raw) as i64;
                    let given = last_given_ns(line, now.at, lifetime_ticks, slept_ticks);
                    // Steering within one lifetime cannot have put the line further ahead; more means a counter that jumped.
                    let kernel = now.low_ns.saturating_add(now.width_ns as u64);
                    given.filter(|given| *given < kernel + MOST_AHEAD_NS).unwrap_or(0)
                };
                self.seat(now, rate, given);
            }
            Renewal::Distrust { error_ns } => {
                control.error_ns.store(error_ns as i64, Ordering::Relaxed);
                control.events.record(Event::RateBroken);
                self.give_up(line, lifetime_ticks);
            }
        }
    }

    /// Whether the kernel has turned away from the counter since the start.
    fn clock_source_left(&self) -> bool {
        let then = self.begun.get().and_then(|begun| begun.evidence.clock_source.as_deref());
        then.and_then(|name| self.source.clock_source_is(name)) == Some(false)
    }

    /// From now on readings come from the kernel, and never below what the line has given.
    fn give_up(&self, line: BentLine, lifetime_ticks: u64) {
        let kernel = self.source.monotonic().as_nanos();
        let lead = self.control.error_ns.load(Ordering::Relaxed).unsigned_abs().min(MOST_AHEAD_NS);
        let given = last_given_ns(line, self.source.tick(), lifetime_ticks, 0);
        self.control.floor_ns.store(given.unwrap_or(kernel + lead), Ordering::Release);
        self.line.withdraw();
        self.previous.withdraw();
        self.control.events.record(Event::GivenUp);
    }

    /// The cost of one [`Clock::now`], the least of some batches, in ns.
    fn read_cost_ns(&self) -> f64 {
        const READS: u32 = 256;
        let batch = || {
            let begun = self.source.raw();
            for _ in 0..READS {
                std::hint::black_box(self.now());
            }
            (self.source.raw() - begun).as_nanos() as f64 / f64::from(READS)
        };
        (0..8).map(|_| batch()).fold(f64::INFINITY, f64::min)
    }
}

/// The greatest time that readers of `line` can have been given by `tick`, `slept_ticks` of which passed in suspend; `None` where
/// the counter fell back, so that its present reading says nothing.
fn last_given_ns(line: BentLine, tick: CounterTick, lifetime_ticks: u64, slept_ticks: i64) -> Option<u64> {
    let age = tick.since(line.at).saturating_sub(slept_ticks);
    let oldest = lifetime_ticks.saturating_mul(2) as i64;
    let backward = -(lifetime_ticks as i64);
    (age >= backward).then(|| line.ns_at(CounterTick::new(line.at.count().wrapping_add_signed(age.min(oldest)))))
}

impl Control {
    const fn new() -> Self {
        Self {
            renewing: AtomicU64::new(0),
            anchor_at: AtomicU64::new(0),
            anchor_low_ns: AtomicU64::new(0),
            anchor_width_bits: AtomicU64::new(0),
            lifetime_ticks: AtomicU64::new(0),
            raw_rate_bits: AtomicU64::new(0),
            suspended_ns: AtomicI64::new(0),
            marker: AtomicU64::new(0),
            error_ns: AtomicI64::new(0),
            renewals: AtomicU64::new(0),
            floor_ns: AtomicU64::new(0),
            events: Events::new(),
        }
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
