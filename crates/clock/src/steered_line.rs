//! The line that the clock reads: it starts at the kernel's time, whichever reader comes first renews it about once a
//! second so that it follows CLOCK_MONOTONIC, and it ends where the counter and the kernel contradict each other.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use vtare_units::{Clock as Domain, CounterTick, Monotonic, Span, Timestamp};

use crate::bounds::{Triple, offset_bounds};
use crate::calibrate::{Calibration, triple};
use crate::info::{Comparison, Event, Events};
use crate::line::{FixedRate, LineRead, SharedLine, SlewedLine};
use crate::renew::{Anchor, Renewal, STEER_LIMIT_PPM, Situation, renew};
use crate::source::TimeSource;

/// Triples that one renewal takes.
const ANCHOR_TRIPLES: usize = 16;
/// The same while the thread keeps changing its CPU.
const MOST_TRIPLES: usize = 64;
/// Tries after readings that contradict each other: a machine that is moved or resumed between two of them does that
/// once.
const ANCHOR_TRIES: usize = 4;
/// How far ahead of now a change of rate is put: far longer than a reader takes from the record to the counter.
const AHEAD: Span = Span::from_micros(20);
/// The longest time between renewals.
const LONGEST_LIFETIME: Span = Span::from_secs(1);
/// The first time between renewals: the kernel's steering is not yet known then. Doubled each time.
const FIRST_LIFETIME: Span = Span::from_millis(16);
/// How far the kernel's steering can put a line ahead within its lifetime: 1 s, and 1 s more while it is stale, at
/// twice the limit.
const MOST_AHEAD_NS: u64 = 5_000_000;
/// The clock source is asked for once in this number of renewals: it is a file.
const CLOCK_SOURCE_EVERY: u64 = 8;

/// CLOCK_MONOTONIC by the counter, kept close to the kernel's clock by its own readers.
#[derive(Debug)]
pub(crate) struct SteeredLine<S> {
    pub(crate) line: SharedLine,
    /// The line before: readers that meet a write read this one, which is true until the change of rate, and that is
    /// yet to come.
    previous: SharedLine,
    pub(crate) renewals: Renewals,
    pub(crate) source: S,
}

/// What only a renewal changes.
#[derive(Debug)]
pub(crate) struct Renewals {
    /// The process that renews at this moment, or 0.
    pub(crate) renewing: AtomicU32,
    pub(crate) count: AtomicU64,
    /// The first comparison with CLOCK_MONOTONIC_RAW since the start or the last disruption.
    raw: StoredAnchor,
    /// The rate that was calibrated and its bound; 0 before the first line.
    raw_rate_bits: AtomicU64,
    residual_ppm_bits: AtomicU64,
    /// The error of the calibrated rate, in ppm, that comparisons have shown to be possible at least; 0 while they
    /// agree with it.
    contradicted_ppm_bits: AtomicU64,
    /// The last comparison with CLOCK_MONOTONIC.
    anchor: StoredAnchor,
    lifetime_ticks: AtomicU64,
    suspended_ns: AtomicI64,
    /// The hypervisor's disruption marker; 0 where there is none.
    marker: AtomicU64,
    /// The kernel's clock source at the start, where it is known.
    clock_source: Option<String>,
    error_ns: AtomicI64,
    /// Readings of the kernel's clock never go below this: the last that the counter's line may have given.
    floor_ns: AtomicU64,
    events: Events,
}

/// An [`Anchor`] that only the renewing thread writes; others may read it torn, for information.
#[derive(Debug)]
struct StoredAnchor {
    at: AtomicU64,
    low_ns: AtomicU64,
    width_bits: AtomicU64,
}

impl StoredAnchor {
    const fn new() -> Self {
        Self { at: AtomicU64::new(0), low_ns: AtomicU64::new(0), width_bits: AtomicU64::new(0) }
    }

    fn store(&self, anchor: Anchor) {
        self.at.store(anchor.at.count(), Ordering::Relaxed);
        self.low_ns.store(anchor.low_ns, Ordering::Relaxed);
        self.width_bits.store(anchor.width_ns.to_bits(), Ordering::Relaxed);
    }

    fn load(&self) -> Anchor {
        Anchor {
            at: CounterTick::new(self.at.load(Ordering::Relaxed)),
            low_ns: self.low_ns.load(Ordering::Relaxed),
            width_ns: f64::from_bits(self.width_bits.load(Ordering::Relaxed)),
        }
    }
}

impl<S: TimeSource> SteeredLine<S> {
    /// No line yet: readings come from the kernel.
    pub(crate) const fn new(source: S) -> Self {
        let renewals = Renewals {
            renewing: AtomicU32::new(0),
            count: AtomicU64::new(0),
            raw: StoredAnchor::new(),
            raw_rate_bits: AtomicU64::new(0),
            residual_ppm_bits: AtomicU64::new(0),
            contradicted_ppm_bits: AtomicU64::new(0),
            anchor: StoredAnchor::new(),
            lifetime_ticks: AtomicU64::new(0),
            suspended_ns: AtomicI64::new(0),
            marker: AtomicU64::new(0),
            clock_source: None,
            error_ns: AtomicI64::new(0),
            floor_ns: AtomicU64::new(0),
            events: Events::new(),
        };
        Self { line: SharedLine::empty(), previous: SharedLine::empty(), renewals, source }
    }

    /// Starts the first line, at the rate that was found while the kernel's clock source was `clock_source`.
    pub(crate) fn start(&mut self, found: &Calibration, clock_source: Option<&str>) {
        self.renewals.clock_source = clock_source.map(str::to_owned);
        let raw = found.rate.ns_per_tick();
        let renewals = &self.renewals;
        renewals.raw_rate_bits.store(raw.to_bits(), Ordering::Relaxed);
        renewals.residual_ppm_bits.store(found.residual_ppm().to_bits(), Ordering::Relaxed);
        renewals.suspended_ns.store(self.source.suspended().as_nanos(), Ordering::Relaxed);
        renewals.marker.store(self.source.disruption_marker().unwrap_or(0), Ordering::Relaxed);
        renewals.lifetime_ticks.store(found.rate.ticks_for(FIRST_LIFETIME.as_nanos_unsigned()), Ordering::Relaxed);
        let anchor = self.anchor(raw);
        if anchor.width_ns < 0.0 {
            renewals.events.record(Event::RateBroken);
            renewals.events.record(Event::GivenUp);
            return;
        }
        renewals.anchor.store(anchor);
        renewals.raw.store(self.raw_anchor(raw));
        self.publish(anchor, found.rate, 0);
    }

    /// What the line shows at a tick that `tick` reads.
    #[inline(always)]
    pub(crate) fn ns(&self, tick: impl Fn() -> CounterTick) -> LineRead {
        self.line.ns(tick)
    }

    /// The line in use; `None` where readings come from the kernel.
    pub(crate) fn current(&self) -> Option<SlewedLine> {
        self.line.line().or_else(|| self.previous.line())
    }

    /// How the comparisons with the kernel's clock went, at the calibrated `rate`.
    pub(crate) fn comparison(&self, rate: Option<FixedRate>) -> Comparison {
        let renewals = &self.renewals;
        let ticks = self.line.line().map(|line| self.source.tick().since(line.at));
        let contradicted_ppm = f64::from_bits(renewals.contradicted_ppm_bits.load(Ordering::Relaxed));
        Comparison {
            age: ticks.zip(rate).map(|(ticks, rate)| Span::from_nanos(rate.nanos(ticks))),
            half_width_ns: renewals.anchor.load().width_ns / 2.0,
            contradicted_ppm: Some(contradicted_ppm).filter(|ppm| *ppm > 0.0),
            error_ns: renewals.error_ns.load(Ordering::Relaxed),
            count: renewals.count.load(Ordering::Relaxed),
        }
    }

    /// What happened since the start.
    pub(crate) const fn events(&self) -> &Events {
        &self.renewals.events
    }

    /// Reads CLOCK_MONOTONIC, within bounds. `ns_per_tick` is the unsteered rate; all steering between two readings is
    /// allowed for.
    fn anchor(&self, ns_per_tick: f64) -> Anchor {
        self.compare(|| self.source.monotonic(), ns_per_tick, STEER_LIMIT_PPM * 1e-6)
    }

    /// Reads CLOCK_MONOTONIC_RAW, within bounds.
    fn raw_anchor(&self, ns_per_tick: f64) -> Anchor {
        // The rate is what is to be tested: between two readings a thousandth of it does no harm.
        self.compare(|| self.source.raw(), ns_per_tick, 1e-3)
    }

    fn compare<C: Domain>(&self, clock: impl Fn() -> Timestamp<C>, ns_per_tick: f64, rate_slack: f64) -> Anchor {
        let mut anchor = self.compare_once(&clock, ns_per_tick, rate_slack);
        for _ in 1..ANCHOR_TRIES {
            if anchor.width_ns >= 0.0 {
                break;
            }
            anchor = self.compare_once(&clock, ns_per_tick, rate_slack);
        }
        anchor
    }

    /// One comparison, from readings on one CPU.
    fn compare_once<C: Domain>(&self, clock: &impl Fn() -> Timestamp<C>, ns_per_tick: f64, rate_slack: f64) -> Anchor {
        let mut cpu = self.source.cpu();
        let first = triple(&self.source, clock);
        let mut triples: [Triple; ANCHOR_TRIPLES] = [first; ANCHOR_TRIPLES];
        let mut taken = 0;
        for _ in 0..MOST_TRIPLES {
            let next = triple(&self.source, clock);
            let now_on = self.source.cpu();
            // After a move the new CPU's counter decides; a triple in which the thread moved counts for neither.
            taken = if now_on == cpu { taken + 1 } else { 0 };
            cpu = now_on;
            if taken > 0 {
                triples[taken - 1] = next;
            }
            if taken == ANCHOR_TRIPLES {
                break;
            }
        }
        let triples = &triples[..taken.max(1)];
        let (at, origin) = (triples[triples.len() - 1].after, triples[0].clock_ns);
        let (low, high) = offset_bounds(triples, at, origin, ns_per_tick, rate_slack).unwrap_or((0.0, 0.0));
        Anchor { at, low_ns: origin.wrapping_add_signed(low.floor() as i64), width_ns: high - low.floor() }
    }

    fn publish(&self, anchor: Anchor, rate: FixedRate, given_ns: u64) {
        // At the upper bound: a reading of the kernel's own clock that came before is then never the greater. Nor one
        // of the line before.
        let ns = anchor.low_ns.saturating_add(anchor.width_ns.ceil() as u64).max(given_ns);
        let line = SlewedLine { at: anchor.at, ns, fraction: 0, before: rate, after: rate };
        let lifetime = self.renewals.lifetime_ticks.load(Ordering::Relaxed);
        self.line.publish(|| (lifetime, line));
        self.previous.publish(|| (lifetime, line));
    }

    /// The way of a reading that found no fresh line.
    #[cold]
    #[inline(never)]
    pub(crate) fn slow(&self) -> Timestamp<Monotonic> {
        // Without a line, now or ever, there is nothing to look for: readings are the kernel's.
        if self.line.is_absent() && self.previous.is_absent() {
            let floor = self.renewals.floor_ns.load(Ordering::Acquire);
            return Timestamp::from_nanos(self.source.monotonic().as_nanos().max(floor));
        }
        for _ in 0..2 {
            match self.line.ns(|| self.source.tick_ordered()) {
                LineRead::Fresh(ns) => return Timestamp::from_nanos(ns),
                LineRead::Stale(ns) => {
                    if !self.try_renew() {
                        // Another thread is at it. Its change of rate goes on from this line, so the line's own time is
                        // right.
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
        // A line that is too old may have been ahead of the kernel: what it gave stands.
        let lifetime = self.renewals.lifetime_ticks.load(Ordering::Relaxed);
        let given = self.current().and_then(|line| last_given_ns(line, self.source.tick(), lifetime, 0));
        let floor = self.renewals.floor_ns.load(Ordering::Acquire).max(given.unwrap_or(0));
        Timestamp::from_nanos(self.source.monotonic().as_nanos().max(floor))
    }

    /// Renews the line at once, where there is one: something disrupted time.
    pub(crate) fn follow_disruption(&self) {
        if self.line.line().is_some() {
            self.try_renew();
        }
    }

    /// Renews the line, unless another thread does. False where it did nothing.
    fn try_renew(&self) -> bool {
        let renewals = &self.renewals;
        // A thread may be kept from running for any time in the middle of a renewal (a throttled cgroup, SIGSTOP) and
        // is never joined by a second writer. Only a thread of another process will not go on: a fork left it behind.
        let process = std::process::id();
        let holder = renewals.renewing.load(Ordering::Relaxed);
        if holder == process {
            return false;
        }
        if renewals.renewing.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.renew_now();
        renewals.renewing.store(0, Ordering::Release);
        true
    }

    fn renew_now(&self) {
        let renewals = &self.renewals;
        let Some(line) = self.line.line() else { return };
        let count = renewals.count.fetch_add(1, Ordering::Relaxed) + 1;
        let raw = f64::from_bits(renewals.raw_rate_bits.load(Ordering::Relaxed));
        let lifetime_ticks = renewals.lifetime_ticks.load(Ordering::Relaxed);
        let suspended = self.source.suspended().as_nanos();
        let slept_ns = suspended - renewals.suspended_ns.swap(suspended, Ordering::Relaxed);
        let slept = slept_ns.abs() > 1_000_000;
        if slept {
            renewals.events.record(Event::Suspended);
        }
        let marker = self.source.disruption_marker().unwrap_or(0);
        let moved = renewals.marker.swap(marker, Ordering::Relaxed) != marker;
        if moved {
            renewals.events.record(Event::Migrated);
        }
        if count.is_multiple_of(CLOCK_SOURCE_EVERY) && self.clock_source_left() {
            renewals.events.record(Event::ClockSourceChanged);
            return self.give_up(line, lifetime_ticks);
        }
        let now = self.anchor(raw);
        let last = renewals.anchor.load();
        let disrupted = slept || moved;
        let next = renew(&Situation { line, lifetime_ticks, last, now, raw_ns_per_tick: raw, disrupted });
        renewals.anchor.store(now);
        if disrupted {
            renewals.raw.store(self.raw_anchor(raw));
        } else {
            self.check_rate(raw);
        }
        let longer = lifetime_ticks.saturating_mul(2).min(line.after.ticks_for(LONGEST_LIFETIME.as_nanos_unsigned()));
        renewals.lifetime_ticks.store(longer, Ordering::Relaxed);
        match next {
            Renewal::Slew { rate, error_ns } => {
                renewals.error_ns.store(error_ns as i64, Ordering::Relaxed);
                let ahead = rate.ticks_for(AHEAD.as_nanos_unsigned());
                let published = self.line.publish(|| {
                    let tick = self.source.tick();
                    if tick.since(line.at) > lifetime_ticks.saturating_mul(2) as i64 {
                        // This thread did not run for so long that others have read the kernel's clock: the next
                        // renewal starts anew.
                        return (lifetime_ticks, line);
                    }
                    (longer, line.slewed_at(CounterTick::new(tick.count().wrapping_add(ahead)), rate))
                });
                self.previous.publish(|| published);
            }
            Renewal::Step { rate } => {
                renewals.events.record(Event::Seated);
                let age = now.at.since(line.at);
                let live = -(lifetime_ticks as i64)..=lifetime_ticks.saturating_mul(2) as i64;
                let given = if live.contains(&age) {
                    // The line was still read, by ticks of after a jump or a sleep too: what it gave, far ahead or not,
                    // stands.
                    line.ns_at(now.at)
                } else {
                    // The counter's own rate: over a long sleep the line's, with what it was working off, would be far
                    // out.
                    let slept_ticks = (slept_ns as f64 / raw) as i64;
                    let given = last_given_ns(line, now.at, lifetime_ticks, slept_ticks);
                    // Steering within one lifetime cannot have put the line further ahead; more means a counter that
                    // jumped.
                    let kernel = now.low_ns.saturating_add(now.width_ns as u64);
                    given.filter(|given| *given < kernel + MOST_AHEAD_NS).unwrap_or(0)
                };
                self.publish(now, rate, given);
            }
            Renewal::Distrust { error_ns } => {
                renewals.error_ns.store(error_ns as i64, Ordering::Relaxed);
                renewals.events.record(Event::RateBroken);
                self.give_up(line, lifetime_ticks);
            }
        }
    }

    /// Holds the calibrated rate against CLOCK_MONOTONIC_RAW since the first comparison: a rate outside of what both
    /// leave is no longer called exact, and its bound grows.
    fn check_rate(&self, rate: f64) {
        let (first, now) = (self.renewals.raw.load(), self.raw_anchor(rate));
        let ticks = now.at.since(first.at) as f64;
        if ticks <= 0.0 || first.width_ns < 0.0 || now.width_ns < 0.0 {
            return;
        }
        let passed = now.low_ns.wrapping_sub(first.low_ns).cast_signed() as f64;
        let (low, high) = ((passed - first.width_ns) / ticks, (passed + now.width_ns) / ticks);
        let stated =
            rate * f64::from_bits(self.renewals.residual_ppm_bits.load(Ordering::Relaxed)) * 1e-6 + 1e-12 * rate;
        if rate + stated < low || rate - stated > high {
            let possible = (high - rate).max(rate - low) / rate * 1e6;
            let before = f64::from_bits(self.renewals.contradicted_ppm_bits.load(Ordering::Relaxed));
            self.renewals.contradicted_ppm_bits.store(possible.max(before).to_bits(), Ordering::Relaxed);
            self.renewals.events.record(Event::RateContradicted);
        }
    }

    /// Whether the kernel has turned away from the counter since the start.
    fn clock_source_left(&self) -> bool {
        self.renewals.clock_source.as_deref().and_then(|name| self.source.clock_source_is(name)) == Some(false)
    }

    /// From now on readings come from the kernel, and never below what the line has given.
    fn give_up(&self, line: SlewedLine, lifetime_ticks: u64) {
        let kernel = self.source.monotonic().as_nanos();
        let lead = self.renewals.error_ns.load(Ordering::Relaxed).unsigned_abs().min(MOST_AHEAD_NS);
        let given = last_given_ns(line, self.source.tick(), lifetime_ticks, 0);
        self.renewals.floor_ns.store(given.unwrap_or(kernel + lead), Ordering::Release);
        self.line.withdraw();
        self.previous.withdraw();
        self.renewals.events.record(Event::GivenUp);
    }
}

/// The greatest time that readers of `line` can have been given by `tick`, `slept_ticks` of which passed in suspend;
/// `None` where the counter fell back, so that its present reading shows nothing.
fn last_given_ns(line: SlewedLine, tick: CounterTick, lifetime_ticks: u64, slept_ticks: i64) -> Option<u64> {
    let age = tick.since(line.at).saturating_sub(slept_ticks);
    let oldest = lifetime_ticks.saturating_mul(2) as i64;
    let backward = -(lifetime_ticks as i64);
    (age >= backward).then(|| line.ns_at(CounterTick::new(line.at.count().wrapping_add_signed(age.min(oldest)))))
}
