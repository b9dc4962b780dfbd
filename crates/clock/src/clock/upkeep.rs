//! The upkeep of the clock's line: its first one, its renewal about once a second by whichever reader comes first, and its end.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use vtare_units::{CounterTick, Monotonic, Span, Timestamp};

use super::Clock;
use crate::bounds::{Triple, offset_bounds};
use crate::calibrate::{Calibration, triple};
use crate::info::{Event, Events};
use crate::line::{BentLine, FixedRate, LineRead};
use crate::renew::{Anchor, Renewal, Situation, renew};
use crate::source::TimeSource;

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

/// What only a renewal touches.
#[derive(Debug)]
pub(super) struct Control {
    /// The tick at which a renewal was begun (odd), or 0.
    pub(super) renewing: AtomicU64,
    anchor_at: AtomicU64,
    anchor_low_ns: AtomicU64,
    pub(super) anchor_width_bits: AtomicU64,
    lifetime_ticks: AtomicU64,
    raw_rate_bits: AtomicU64,
    suspended_ns: AtomicI64,
    /// The hypervisor's disruption marker; 0 where there is none.
    marker: AtomicU64,
    pub(super) error_ns: AtomicI64,
    pub(super) renewals: AtomicU64,
    /// Readings of the kernel's clock never go below this: the last that the counter's line may have given.
    floor_ns: AtomicU64,
    pub(super) events: Events,
}

impl Control {
    pub(super) const fn new() -> Self {
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

impl<S: TimeSource> Clock<S> {
    /// The line that the clock begins with, at the rate that was found.
    pub(super) fn first_line(&self, found: &Calibration) {
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
    pub(super) fn slow(&self) -> Timestamp<Monotonic> {
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
}

/// The greatest time that readers of `line` can have been given by `tick`, `slept_ticks` of which passed in suspend; `None` where
/// the counter fell back, so that its present reading says nothing.
fn last_given_ns(line: BentLine, tick: CounterTick, lifetime_ticks: u64, slept_ticks: i64) -> Option<u64> {
    let age = tick.since(line.at).saturating_sub(slept_ticks);
    let oldest = lifetime_ticks.saturating_mul(2) as i64;
    let backward = -(lifetime_ticks as i64);
    (age >= backward).then(|| line.ns_at(CounterTick::new(line.at.count().wrapping_add_signed(age.min(oldest)))))
}
