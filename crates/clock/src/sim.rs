//! A simulated machine: a counter, kernel clocks derived from it, and a kernel that wakes sleepers late.
//!
//! Time moves only when something reads it or sleeps, so simulated minutes pass in microseconds and every run repeats.

use std::cell::Cell;

use vtare_sys::OutsideUtc;
use vtare_units::{CounterTick, Monotonic, MonotonicRaw, Span, Timestamp};

use crate::kernel_rate::KernelRate;
use crate::source::{TimeSource, stated_utc};
use crate::utc::UtcStatement;

/// A simulated counter at a whole number of kHz with the kernel clocks that Linux would make of it.
///
/// ```
/// use vtare_clock::{sim::SimClock, source::TimeSource};
/// let machine = SimClock::new(2_596_132);
/// let before = machine.raw();
/// machine.advance_ns(1_000_000.0);
/// assert!(((machine.raw() - before).as_nanos() - 1_000_000).abs() < 200);
/// ```
#[derive(Debug)]
pub struct SimClock {
    rate: KernelRate,
    /// True position of the counter, in ticks; fractions are kept.
    position: Cell<f64>,
    start: u64,
    /// Spacing of the values that the counter shows, in ticks; need not be whole.
    lattice: f64,
    /// Share of readings that show one tick more than the lattice has.
    deferred: f64,
    /// The greatest reading on the present CPU: a deferred one is never followed by a smaller one.
    last_shown: Cell<f64>,
    /// How far the counter of each CPU is ahead of the first one's, in ticks.
    cores: Vec<f64>,
    core: Cell<usize>,
    /// The thread moves to the next CPU after this many readings.
    moves_after: u64,
    steer_ppm: Cell<f64>,
    /// MONOTONIC at the last change of steering, and the tick of that change.
    steered_ns: Cell<f64>,
    steered_tick: Cell<f64>,
    /// Ticks that the counter jumped, which the kernel's clocks did not count.
    skipped: Cell<f64>,
    /// By how much the kernel's clocks run faster than the multiplier, in ppm, and the tick since which they do.
    faster: Cell<(f64, f64)>,
    /// The kernel's clocks are off by up to this many ns at random.
    erratic_ns: Cell<f64>,
    noise: Cell<u64>,
    /// What each reading takes more than the quickest one, in ns.
    slower_ns: f64,
    /// The reader is descheduled at every nth reading, for so long: n and ns.
    pause: Cell<Option<(u64, f64)>>,
    readings: Cell<u64>,
    suspended: Cell<Span>,
    /// Time that passed outside only.
    stopped: Cell<Span>,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns; UTC at the start.
    wall_ahead_ns: Cell<f64>,
    /// maxerror as the NTP daemon last stated it, and when; `None` where there is no daemon.
    stated: Cell<Option<(Span, f64)>>,
    /// Whether a stop changes the disruption marker.
    stops_are_seen: Cell<bool>,
    /// A PTP clock: its stated error, or none for the host's, whose error nobody states.
    phc: Cell<Option<Option<Span>>>,
    /// By how much true time is ahead of what the counter's position shows, in ns: jumps of the counter pass no time.
    jumped_ns: Cell<f64>,
    clock_source: Cell<&'static str>,
    disruptions: Cell<u64>,
}

impl SimClock {
    /// A machine whose counter runs at `khz` kHz.
    ///
    /// # Panics
    /// Where `khz` is 0: there is no such counter.
    #[must_use]
    pub fn new(khz: u32) -> Self {
        Self {
            rate: KernelRate::of_khz(khz).expect("a counter has a frequency above 0"),
            position: Cell::new(0.0),
            start: 1 << 44,
            lattice: 1.0,
            deferred: 0.0,
            last_shown: Cell::new(f64::NEG_INFINITY),
            cores: vec![0.0],
            core: Cell::new(0),
            moves_after: u64::MAX,
            steer_ppm: Cell::new(0.0),
            steered_ns: Cell::new(0.0),
            steered_tick: Cell::new(0.0),
            skipped: Cell::new(0.0),
            faster: Cell::new((0.0, 0.0)),
            erratic_ns: Cell::new(0.0),
            slower_ns: 0.0,
            noise: Cell::new(0x9e37_79b9_7f4a_7c15),
            pause: Cell::new(None),
            readings: Cell::new(0),
            suspended: Cell::new(Span::ZERO),
            stopped: Cell::new(Span::ZERO),
            wall_ahead_ns: Cell::new(1.7e18),
            stated: Cell::new(None),
            stops_are_seen: Cell::new(true),
            phc: Cell::new(None),
            jumped_ns: Cell::new(0.0),
            clock_source: Cell::new("tsc"),
            disruptions: Cell::new(1),
        }
    }

    /// The same machine with a counter that only shows multiples of `ticks` (at least 1), rounded down to whole ticks.
    /// A hypervisor that scales the counter makes lattices that are not whole: at 24.5 ticks the counter moves by 24
    /// and 25 in turn.
    #[must_use]
    pub fn with_lattice(mut self, ticks: f64) -> Self {
        self.lattice = ticks.max(1.0);
        self
    }

    /// The same machine, where this share of readings shows one tick more than the lattice has, as some CPUs do so that
    /// no two readings are equal.
    #[must_use]
    pub fn with_deferred(mut self, share: f64) -> Self {
        self.deferred = share;
        self
    }

    /// The same machine, where each reading takes `nanos` ns more.
    #[must_use]
    pub fn with_slower_readings(mut self, nanos: f64) -> Self {
        self.slower_ns = nanos;
        self
    }

    /// The same machine with several CPUs, whose counters are ahead of the first one's by `offsets_ns`. After every
    /// `readings` readings the kernel moves the reading thread to the next CPU, which takes 2 us.
    #[must_use]
    pub fn with_cores(mut self, offsets_ns: &[f64], readings: u64) -> Self {
        self.cores = offsets_ns.iter().map(|ns| ns / self.rate.ns_per_tick()).collect();
        self.moves_after = readings.max(1);
        self
    }

    /// The same machine, whose random bracket widths follow `seed`.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.noise.set(seed ^ 0x9e37_79b9_7f4a_7c15);
        self
    }

    /// The same machine under load: after every `readings` readings the reader loses the CPU for `span`.
    #[must_use]
    pub fn with_pauses(self, readings: u64, span: Span) -> Self {
        self.pause.set(Some((readings.max(1), span.as_nanos() as f64)));
        self
    }

    /// The rate that the simulated kernel uses.
    #[must_use]
    pub fn rate(&self) -> KernelRate {
        self.rate
    }

    /// Lets `nanos` ns pass.
    pub fn advance_ns(&self, nanos: f64) {
        self.position.set(self.position.get() + nanos / self.rate.ns_per_tick());
    }

    /// From now on CLOCK_MONOTONIC runs `ppm` parts per million faster than by the counter, as NTP steers it.
    pub fn steer(&self, ppm: f64) {
        let tick = self.shown(self.position.get());
        self.steered_ns.set(self.monotonic_at(tick));
        self.steered_tick.set(tick);
        self.steer_ppm.set(ppm);
    }

    /// From now on the kernel's clocks run `ppm` parts per million faster against the counter than by the multiplier,
    /// as where a hypervisor changes the counter's scale.
    pub fn rescale(&self, ppm: f64) {
        self.steer(self.steer_ppm.get() + ppm);
        self.faster.set((ppm, self.shown(self.position.get()) - self.skipped.get()));
    }

    /// From now on the kernel's clocks are off by up to `nanos` ns, at random: they are no function of the counter any
    /// more.
    pub fn make_erratic(&self, nanos: f64) {
        self.erratic_ns.set(nanos);
    }

    /// The counter jumps by `ticks` (a migration, a suspend); the kernel clocks do not notice it, as where they re-read
    /// their base.
    pub fn jump(&self, ticks: i64) {
        let tick = self.shown(self.position.get());
        let now = self.monotonic_at(tick);
        self.position.set(self.position.get() + ticks as f64);
        self.skipped.set(self.skipped.get() + ticks as f64);
        self.jumped_ns.set(self.jumped_ns.get() + ticks as f64 * self.rate.ns_per_tick());
        let tick = self.shown(self.position.get());
        self.steered_ns.set(now);
        self.steered_tick.set(tick);
    }

    /// The machine sleeps for `span`: the counter goes on, CLOCK_MONOTONIC stalls.
    pub fn suspend(&self, span: Span) {
        let ticks = span.as_nanos() as f64 / self.rate.ns_per_tick();
        self.jump(ticks as i64);
        self.suspended.set(self.suspended.get() + span);
        self.jumped_ns.set(self.jumped_ns.get() - span.as_nanos() as f64);
    }

    /// The hypervisor stops the guest for `span`: all clocks stop, and only the disruption marker shows it.
    pub fn stop(&self, span: Span) {
        self.stopped.set(self.stopped.get() + span);
        if self.stops_are_seen.get() {
            self.disruptions.set(self.disruptions.get() + 1);
        }
    }

    /// From now on there is no VMClock.
    pub fn hide_stops(&self) {
        self.stops_are_seen.set(false);
    }

    /// From now on there is a PTP clock that shows UTC, to within half of this error if it states one, to 10 us else.
    pub fn show_phc(&self, max_error: Option<Span>) {
        self.phc.set(Some(max_error));
    }

    /// Somebody steps CLOCK_REALTIME; the kernel then takes it for unsynchronized.
    pub fn step_wall(&self, span: Span) {
        self.wall_ahead_ns.set(self.wall_ahead_ns.get() + span.as_nanos() as f64);
        self.stated.set(None);
    }

    /// An NTP daemon measures UTC, steps CLOCK_REALTIME to within half of `max_error` of it, and states that.
    pub fn daemon_states(&self, max_error: Span) {
        let off_ns = (self.random(1.0) - 0.5) * max_error.as_nanos() as f64;
        let monotonic = 1e6 + self.monotonic_at(self.shown(self.position.get()));
        self.wall_ahead_ns.set(self.utc_ns() + off_ns - monotonic);
        self.stated.set(Some((max_error, monotonic)));
    }

    /// The NTP daemon ends.
    pub fn lose_daemon(&self) {
        self.stated.set(None);
    }

    /// UTC, in ns since 1970.
    #[must_use]
    pub fn utc_ns(&self) -> f64 {
        1.7e18 + self.true_ns() - self.jumped_ns.get() + self.stopped.get().as_nanos() as f64
    }

    /// The hypervisor moves the guest: the counter jumps by `ticks`, the kernel's clocks go on, and the disruption
    /// marker changes.
    pub fn migrate(&self, ticks: i64) {
        self.jump(ticks);
        self.disruptions.set(self.disruptions.get() + 1);
    }

    /// The kernel changes its clock source.
    pub fn change_clock_source(&self, name: &'static str) {
        self.clock_source.set(name);
    }

    /// True time since the start, in ns, at the counter's own rate.
    #[must_use]
    pub fn true_ns(&self) -> f64 {
        self.position.get() * self.rate.ns_per_tick()
    }

    fn random(&self, below: f64) -> f64 {
        // xorshift64*: enough to vary brackets, and the same in every run.
        let mut x = self.noise.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.noise.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64 * below
    }

    fn shown(&self, position: f64) -> f64 {
        ((position / self.lattice).floor() * self.lattice).floor()
    }

    fn monotonic_at(&self, tick: f64) -> f64 {
        let rate = self.rate.ns_per_tick() * (1.0 + self.steer_ppm.get() * 1e-6);
        self.steered_ns.get() + (tick - self.steered_tick.get()) * rate
    }

    /// Passes the time that one reading takes and gives the tick it saw.
    fn step(&self, least_ns: f64, most_ns: f64) -> f64 {
        self.readings.set(self.readings.get() + 1);
        if let Some((every, span)) = self.pause.get()
            && self.readings.get().is_multiple_of(every)
        {
            self.advance_ns(span);
        }
        if self.readings.get().is_multiple_of(self.moves_after) {
            self.advance_ns(2_000.0);
            self.core.set((self.core.get() + 1) % self.cores.len());
            self.last_shown.set(f64::NEG_INFINITY);
        }
        // Mostly the same few cycles, as real code takes; one time in eight a cache or a branch was not ready.
        let extra = if self.random(8.0) < 1.0 { self.random(most_ns - least_ns) } else { self.random(0.4) };
        self.advance_ns(self.slower_ns + least_ns + extra);
        let put_off = if self.deferred > 0.0 && self.random(1.0) < self.deferred { 1.0 } else { 0.0 };
        let shown = self.shown(self.position.get() + self.cores[self.core.get()]) + put_off;
        // The kernel may have jumped the counter backwards; only a deferral by one tick is held against the reading
        // before.
        let shown = if self.last_shown.get() == shown + 1.0 { shown + 1.0 } else { shown };
        self.last_shown.set(shown);
        shown
    }
}

impl TimeSource for SimClock {
    fn tick(&self) -> CounterTick {
        CounterTick::new(self.start.wrapping_add_signed(self.step(4.0, 12.0) as i64))
    }
    fn tick_ordered(&self) -> CounterTick {
        CounterTick::new(self.start.wrapping_add_signed(self.step(8.0, 22.0) as i64))
    }
    fn spin(&self, turns: u32) {
        self.advance_ns(1.7 * f64::from(turns));
    }
    fn raw(&self) -> Timestamp<MonotonicRaw> {
        let tick = self.step(6.0, 20.0) - self.skipped.get();
        let ns = (tick as u128 * u128::from(self.rate.mult)) >> self.rate.shift;
        let (ppm, since) = self.faster.get();
        let more = (tick - since) * self.rate.ns_per_tick() * ppm * 1e-6 + self.random(self.erratic_ns.get());
        Timestamp::from_nanos((1_000_000 + ns as u64).wrapping_add_signed(more as i64))
    }
    fn monotonic(&self) -> Timestamp<Monotonic> {
        let tick = self.step(6.0, 20.0);
        let erratic_ns = self.random(self.erratic_ns.get());
        Timestamp::from_nanos(1_000_000 + (self.monotonic_at(tick) + erratic_ns) as u64)
    }
    fn coarse(&self) -> Option<Timestamp<Monotonic>> {
        let now = 1_000_000 + self.monotonic_at(self.shown(self.position.get())) as u64;
        Some(Timestamp::from_nanos(now - now % 4_000_000))
    }
    fn cpu(&self) -> Option<usize> {
        Some(self.core.get())
    }
    fn suspended(&self) -> Span {
        self.suspended.get()
    }
    fn clock_source(&self) -> Option<String> {
        Some(self.clock_source.get().to_owned())
    }
    fn disruption_marker(&self) -> Option<u64> {
        Some(self.disruptions.get())
    }
    fn utc_statement(&self) -> Option<UtcStatement> {
        let outside = self.phc.get().map(|max_error| {
            let at = self.monotonic();
            let off_ns = (self.random(1.0) - 0.5) * max_error.unwrap_or(Span::from_micros(20)).as_nanos() as f64;
            let utc = Timestamp::from_nanos((self.utc_ns() + off_ns) as u64);
            (at, OutsideUtc { utc, max_error, leap: false }, Span::from_nanos(600))
        });
        stated_utc(outside, self.kernel_utc(), self.stops_are_seen.get())
    }
    fn clock_source_is(&self, name: &str) -> Option<bool> {
        Some(self.clock_source.get() == name)
    }
}

impl SimClock {
    fn kernel_utc(&self) -> Option<UtcStatement> {
        let at = self.monotonic();
        let now_ns = at.as_nanos() as f64;
        let (max_error, since_ns) = self.stated.get().unwrap_or((Span::from_secs(16), now_ns));
        // The kernel adds 500 us once a second.
        let added = Span::from_micros(500) * ((now_ns - since_ns) / 1e9) as i64;
        Some(UtcStatement {
            at,
            wall: Timestamp::from_nanos((now_ns + self.wall_ahead_ns.get()) as u64),
            width: Span::from_nanos(600),
            synchronized: self.stated.get().is_some(),
            max_error: max_error + added,
            drift_ppm: 500.0,
            leap: false,
            stops_are_seen: false,
            outside: false,
            host_ahead_ns: None,
        })
    }
}
