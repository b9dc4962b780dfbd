//! The clock: CLOCK_MONOTONIC read from the CPU's counter, or from the kernel where the counter cannot be trusted.

use std::cell::Cell;
use std::sync::OnceLock;

use vtare_sys::{counter, cpu, phc, sched, vmclock};
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp, Wall};

use crate::calibrate::{Calibration, CalibrationOptions, calibrate};
use crate::cross_core;
use crate::info::{ClockInfo, ReadPath};
use crate::line::LineRead;
use crate::options::{ClockOptions, SourceChoice};
use crate::read_loop::reads_per_loop;
use crate::source::{System, TimeSource};
use crate::steered_line::SteeredLine;
use crate::trust::{Evidence, Trust, judge};
use crate::utc::UtcRecord;
use crate::vvar::{self, KernelRecords};
use crate::watch::Watch;

/// A clock in the domain of CLOCK_MONOTONIC.
///
/// Reading it takes as long as reading the bare counter (see `bench/clock`). About once a second one reader, whichever
/// comes first, compares it with the kernel's clock (1 us) and changes its rate so that it follows; it never steps
/// back. Where the counter turns out not to be trusted, at start or later, readings come from the kernel's vDSO and
/// [`Clock::info`] gives the reason.
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
    pub(crate) line: SteeredLine<S>,
    /// The kernel's own records: where they can be read, no line is needed.
    pub(crate) records: Option<KernelRecords>,
    pub(crate) begun: OnceLock<Begun>,
    pub(crate) watch: Watch,
    pub(crate) utc: UtcRecord,
}

/// What was found at start.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) trust: Trust,
    evidence: Evidence,
    pub(crate) calibration: Option<Calibration>,
    read_cost_ns: f64,
}

impl Clock {
    /// Starts a clock on this machine.
    ///
    /// Takes about 1.2 ms with [`ClockOptions::fast`], a few more with the cross-core test, up to 30 ms and 5 ms a CPU
    /// on a loaded machine. Never fails: without a counter that can be trusted it reads the kernel's clock and
    /// reports why.
    #[must_use]
    pub fn start(options: &ClockOptions) -> Self {
        vmclock::open();
        phc::open();
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
            line: SteeredLine::new(source),
            records: None,
            begun: OnceLock::new(),
            watch: Watch::default(),
            utc: UtcRecord::default(),
        };
        let mut calibration = None;
        // The counter is calibrated wherever it may be read at all: a timing instrument wants its ticks converted even
        // where the clock itself does not rest on it.
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
            clock.line.start(found, evidence.clock_source.as_deref());
        }
        let read_cost_ns = clock.read_cost_ns();
        let begun = Begun { trust, evidence, calibration, read_cost_ns };
        // A new cell is empty.
        let _ = clock.begun.set(begun);
        clock
    }

    /// CLOCK_MONOTONIC now, in ns.
    ///
    /// Unordered: the CPU may carry the read out among the instructions around it, by some ten nanoseconds either way.
    /// For timestamps of events; for timing a piece of code use [`Clock::now_ordered`] or the fenced pair.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Timestamp<Monotonic> {
        if let Some(ns) =
            self.records.as_ref().and_then(|kernel| kernel.steered.monotonic_ns(|| self.line.source.tick()))
        {
            return Timestamp::from_nanos(ns);
        }
        match self.line.ns(|| self.line.source.tick()) {
            LineRead::Fresh(ns) => Timestamp::from_nanos(ns),
            LineRead::Stale(_) | LineRead::Dead | LineRead::None => self.slow(),
        }
    }

    /// CLOCK_MONOTONIC as the counter showed `tick`, a moment ago, in ns, rounded up; `None` where this moment's
    /// readings do not come from the counter.
    #[inline]
    #[must_use]
    pub fn at(&self, tick: CounterTick) -> Option<Timestamp<Monotonic>> {
        let read = Cell::new(tick);
        let counter = || {
            read.set(self.line.source.tick());
            read.get()
        };
        let ns = match self.records.as_ref().and_then(|kernel| kernel.steered.monotonic_ns(counter)) {
            Some(ns) => ns,
            None => match self.line.ns(counter) {
                LineRead::Fresh(ns) => ns,
                LineRead::Stale(_) | LineRead::Dead | LineRead::None => return None,
            },
        };
        // Both roundings are downwards by less than 1 ns: one of the reading, one of the span.
        Some(Timestamp::from_nanos(ns + 1) - self.span_of(read.get().since(tick)))
    }

    /// CLOCK_MONOTONIC now, in ns, read after all earlier instructions and loads have completed. Of two such readings,
    /// the one that happened later is never the smaller, in any thread.
    #[inline(always)]
    #[must_use]
    pub fn now_ordered(&self) -> Timestamp<Monotonic> {
        if let Some(ns) =
            self.records.as_ref().and_then(|kernel| kernel.steered.monotonic_ns(|| self.line.source.tick_ordered()))
        {
            return Timestamp::from_nanos(ns);
        }
        match self.line.ns(|| self.line.source.tick_ordered()) {
            LineRead::Fresh(ns) => Timestamp::from_nanos(ns),
            LineRead::Stale(_) | LineRead::Dead | LineRead::None => self.slow(),
        }
    }

    /// CLOCK_REALTIME now, read from the counter, identical to the kernel's through steps and slews; `None` where the
    /// kernel's own time page cannot be read: ask the kernel then. Unordered, or ordered as [`Clock::now_ordered`] is.
    #[inline(always)]
    #[must_use]
    pub fn wall(&self, ordered: bool) -> Option<Timestamp<Wall>> {
        let kernel = self.records.as_ref()?;
        let tick = || if ordered { self.line.source.tick_ordered() } else { self.line.source.tick() };
        kernel.steered.realtime_ns(tick).map(Timestamp::from_nanos)
    }

    /// CLOCK_MONOTONIC_RAW now, likewise.
    #[inline(always)]
    #[must_use]
    pub fn raw(&self, ordered: bool) -> Option<Timestamp<MonotonicRaw>> {
        let kernel = self.records.as_ref()?;
        let tick = || if ordered { self.line.source.tick_ordered() } else { self.line.source.tick() };
        kernel.raw.raw_ns(tick).map(Timestamp::from_nanos)
    }

    /// The way of a reading for which there is neither a record of the kernel nor a fresh line.
    #[cold]
    #[inline(never)]
    fn slow(&self) -> Timestamp<Monotonic> {
        if self.records.is_some() {
            // The kernel is writing its record, or has left the counter; the vDSO waits for the one and copes with the
            // other.
            return self.line.source.monotonic();
        }
        self.line.slow()
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
        // The kernel writes its record for a moment each tick; a second try separates that from a record that has
        // ended.
        let shown = |kernel: &KernelRecords| (0..64).any(|_| kernel.steered.scale().is_some());
        if self.records.as_ref().is_some_and(shown) {
            ReadPath::KernelPage
        } else if self.line.current().is_some() {
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
        self.line.current().map(|line| line.tick_at(deadline.as_nanos()))
    }

    /// The counter's calibration, where it could be calibrated.
    #[must_use]
    pub fn calibration(&self) -> Option<&Calibration> {
        self.begun.get().and_then(|begun| begun.calibration.as_ref())
    }

    /// Where the time comes from, how far it can be off, and why.
    #[must_use]
    pub fn info(&self) -> ClockInfo {
        let begun = self.begun.get();
        ClockInfo::new(
            self.path(),
            begun.map(|begun| (&begun.trust, &begun.evidence, begun.read_cost_ns)),
            self.calibration(),
            self.line.comparison(self.calibration().map(|found| found.rate)),
            self.line.events(),
        )
    }

    /// The counter's rate: what the kernel states of it where that can be read, else what measurement bounds. A
    /// thorough start holds what is stated against one window's bounds.
    fn find_rate(&mut self, evidence: &mut Evidence, options: &ClockOptions) -> Option<Calibration> {
        let mut measure = |limit| {
            calibrate(&self.line.source, &CalibrationOptions { limit, ..options.calibration })
                .map_err(|error| evidence.calibration_error = Some(error.to_string()))
                .ok()
        };
        let records = if options.kernel_page { self.line.source.kernel_records() } else { None };
        let stated = records.and_then(|records| Calibration::stated(&self.line.source, &records.raw));
        if let Some(stated) = stated {
            let thorough = options.cross_core.is_some();
            if !thorough || measure(options.calibration.window)?.allows(&stated) {
                self.records = records;
                return Some(stated);
            }
            evidence.page_contradicted = true;
        }
        measure(options.calibration.limit)
    }

    /// The cost of one [`Clock::now`], the least of some batches, in ns.
    fn read_cost_ns(&self) -> f64 {
        let batch = |reads| {
            let begun = self.line.source.raw();
            for _ in 0..reads {
                std::hint::black_box(self.now());
            }
            self.line.source.raw() - begun
        };
        let reads = reads_per_loop(256, batch);
        (0..8).map(|_| batch(reads).as_nanos() as f64 / reads as f64).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
