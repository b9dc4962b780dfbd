//! How early to ask the kernel to wake us: a pure policy that learns the kernel's lateness.
//!
//! The kernel is asked to wake the thread a *margin* before the deadline; the rest is spun. A wake-up that overshoots
//! by no more than the margin ends the sleep on time. With `F` the distribution of the last overshoots, the margin `m`
//! maximises `F(m) - m / lambda`: one more microsecond of spinning must buy `1 us / lambda` more sleeps on time.
//! There is one margin for each range of durations.
//!
//! A short sleep can also be spun whole: on time for sure, at the price of its duration. That is chosen where
//! `1 - duration / lambda` is more than the best margin is worth. Nothing is learned from such a sleep, so the first
//! few and then one in `PROBE_EVERY` leave half of their duration to the kernel.
//!
//! A guard watches for an oversubscribed machine. There, spinning spends the thread's fair share, and the next wake-up
//! waits for it: 50 to 200 ms under a hundred busy threads. It keeps spins short for a while (a wake-up as quick as
//! usual still ends on time) when a spin was interrupted for a millisecond or more, and when more than a quarter of the
//! sleeps come late.

use vtare_units::Span;

use super::SleepOptions;
use super::overshoots::{Overshoots, RANGES, range_of};

/// The least and the greatest margin.
const MARGIN_MIN: u32 = 1_000;
const MARGIN_MAX: u32 = 1_000_000;
/// A margin before anything is learned.
const MARGIN_START: u32 = 60_000;
/// The greatest margin while spins are kept short, and the part of the sleep that it is at most: what the usual
/// wake-up takes on a busy machine, at no more than 3 % of a CPU. More is paid for by the next wake-ups: with twenty
/// other threads a CPU, a thread's fair share is 5 %.
const MARGIN_HELD: Span = Span::from_micros(60);
const HELD_PART: i64 = 32;
/// A sleep is spun whole only after this many overshoots of its range are known.
const PROBES_FIRST: usize = 8;
/// Of the sleeps that are spun whole, one in this many is left to the kernel for half of its duration.
const PROBE_EVERY: u32 = 256;
/// A gap within a spin longer than this means that the CPU was taken away: the sleep counts as disturbed.
pub const GAP: Span = Span::from_micros(100);
/// A gap longer than this means that another thread had a turn of its own: the machine is oversubscribed. Shorter ones
/// are the kernel's own threads and interrupts, which come and go under IO without any thread being owed a share; they
/// count as late sleeps only.
const LONG_GAP: Span = Span::from_millis(1);
/// A miss above this is late.
pub const LATE: Span = Span::from_micros(100);
/// How many sleeps go with short spins at first; doubled while it goes on, up to the second figure.
const HOLD: u32 = 8;
const HOLD_MAX: u32 = 512;
/// From this share of late sleeps on the machine is taken for oversubscribed.
const MOSTLY_LATE: f32 = 0.25;
/// Undisturbed sleeps after which the next disturbance counts as the first again.
const CLEAN: u32 = 64;

/// The policy's state. Fixed size, no allocation after creation.
#[derive(Clone, Debug)]
pub struct Adaptive {
    lambda_ns: f64,
    tolerance_ns: u32,
    ranges: [Range; RANGES],
    guard: Guard,
}

/// Whether to spin at all.
#[derive(Clone, Copy, Debug)]
struct Guard {
    /// Sleeps left with short spins.
    held_back: u32,
    /// How many the next hold lasts.
    hold: u32,
    /// Sleeps in time since the last late one.
    clean: u32,
    /// Share of late sleeps among the last some dozen with spinning.
    late: f32,
}

impl Guard {
    const fn new() -> Self {
        Self { held_back: 0, hold: HOLD, clean: 0, late: 0.0 }
    }

    /// Whether spins are kept short: the guard holds, or it did lately and has yet to see [`CLEAN`] sleeps.
    const fn is_wary(&self) -> bool {
        self.held_back > 0 || self.hold > HOLD
    }

    fn hold_back(&mut self, sleeps: u32) {
        self.held_back = sleeps;
        self.hold = (self.hold * 2).min(HOLD_MAX);
        self.clean = 0;
    }

    fn ended(&mut self, miss: Span, longest_gap: Span) {
        if self.held_back > 0 {
            self.held_back -= 1;
            return;
        }
        let late = if miss > LATE { 1.0 } else { 0.0 };
        self.late += (late - self.late) / 16.0;
        if longest_gap > LONG_GAP || self.late > MOSTLY_LATE {
            self.hold_back(self.hold);
            // The next spins are judged by themselves; half way, so that two late ones in a row are enough.
            self.late = self.late.min(MOSTLY_LATE / 2.0);
        }
        if miss <= LATE {
            self.clean += 1;
            if self.clean >= CLEAN {
                self.hold = HOLD;
            }
        } else {
            self.clean = 0;
        }
    }
}

impl Adaptive {
    /// A policy that pays by [`SleepOptions::lambda`] and forgives [`SleepOptions::tolerance`].
    #[must_use]
    pub fn new(options: &SleepOptions) -> Self {
        Self {
            lambda_ns: options.lambda.as_nanos().max(1) as f64,
            tolerance_ns: u32::try_from(options.tolerance.as_nanos_unsigned()).unwrap_or(u32::MAX),
            ranges: [const { Range::new() }; RANGES],
            guard: Guard::new(),
        }
    }

    /// Whether the guard holds spinning back for the next sleep.
    #[must_use]
    pub fn held_back(&self) -> bool {
        self.guard.held_back > 0
    }

    /// Whether spins are kept short because the machine is, or lately was, oversubscribed.
    #[must_use]
    pub fn is_wary(&self) -> bool {
        self.guard.is_wary()
    }

    /// How long before the deadline the kernel is to wake the next sleep, of `duration`; `duration` itself where all
    /// of it is to be spun. Short while the guard holds spinning back.
    #[must_use]
    pub fn margin(&mut self, duration: Span) -> Span {
        let wary = self.guard.is_wary();
        let range = &mut self.ranges[range_of(duration)];
        let margin = Span::from_nanos(range.margin.into());
        if wary {
            return margin.min(MARGIN_HELD).min(duration / HELD_PART);
        }
        let worth_whole = 1.0 - duration.as_nanos() as f64 / self.lambda_ns;
        let whole = duration <= Span::from_nanos(MARGIN_MAX.into()) && worth_whole > range.worth;
        if margin < duration && !whole {
            return margin;
        }
        range.spun_whole = range.spun_whole.wrapping_add(1);
        if range.known.sorted().len() < PROBES_FIRST || range.spun_whole.is_multiple_of(PROBE_EVERY) {
            return duration / 2;
        }
        duration
    }

    /// Learns how much later than asked the kernel woke a sleep of `duration`. Takes some 100 ns, now and then 500: to
    /// be called where nobody waits for it, that is while time is left to spin, or before the next sleep.
    pub fn learn(&mut self, duration: Span, overshoot: Span) {
        let range = &mut self.ranges[range_of(duration)];
        range.known.push(overshoot);
        // While little is known each sleep counts; later one in four is soon enough.
        if range.known.sorted().len() < 32 || range.known.position().is_multiple_of(4) {
            (range.margin, range.worth) = best_margin(range.known.sorted(), self.lambda_ns, self.tolerance_ns);
        }
    }

    /// Takes note of how a sleep ended: its miss, and the longest gap between two clock readings while spinning
    /// (zero where nothing was spun). Takes some nanoseconds.
    pub fn ended(&mut self, miss: Span, longest_gap: Span) {
        self.guard.ended(miss, longest_gap);
    }
}

/// What is known of one range of durations.
#[derive(Clone, Debug)]
struct Range {
    known: Overshoots,
    /// The best margin, and the share of sleeps on time that it leaves after its price.
    margin: u32,
    worth: f64,
    /// Sleeps that were to be spun whole.
    spun_whole: u32,
}

impl Range {
    const fn new() -> Self {
        // Before anything is learned the first margin is taken to be enough.
        Self { known: Overshoots::new(), margin: MARGIN_START, worth: 1.0, spun_whole: 0 }
    }
}

/// The margin with the best `F(m + tolerance) - m / lambda`, and that. Only the overshoots themselves can be it:
/// between two of them F does not rise.
fn best_margin(sorted: &[u32], lambda_ns: f64, tolerance_ns: u32) -> (u32, f64) {
    let count = sorted.len() as f64;
    // Spinning not at all is a choice too.
    let mut best = (0.0, MARGIN_MIN);
    for (rank, overshoot) in sorted.iter().enumerate() {
        let margin = overshoot.saturating_sub(tolerance_ns);
        let value = (rank + 1) as f64 / count - f64::from(margin) / lambda_ns;
        if value >= best.0 {
            // A little above the overshoot, so that one like it still ends on time.
            best = (value, margin.saturating_add(500));
        }
    }
    (best.1.clamp(MARGIN_MIN, MARGIN_MAX), best.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DURATION: Span = Span::from_millis(1);

    fn policy_at(lambda_ms: i64) -> Adaptive {
        Adaptive::new(&SleepOptions { lambda: Span::from_millis(lambda_ms), ..SleepOptions::default() })
    }

    #[test]
    fn a_miss_that_is_tolerated_is_not_spun_for() {
        let options = SleepOptions { tolerance: Span::from_micros(10), ..SleepOptions::default() };
        let mut policy = Adaptive::new(&options);
        for i in 0..300 {
            quiet(&mut policy, DURATION, 14_000 + i % 7 * 300);
        }
        assert!((5_800..7_000).contains(&policy.margin(DURATION).as_nanos()), "{}", policy.margin(DURATION));
    }

    fn quiet(policy: &mut Adaptive, duration: Span, overshoot_ns: i64) {
        policy.learn(duration, Span::from_nanos(overshoot_ns));
        policy.ended(IN_TIME, IN_TIME);
    }

    #[test]
    fn the_margin_covers_a_steady_overshoot_and_little_more() {
        let mut policy = policy_at(2);
        for i in 0..300 {
            quiet(&mut policy, DURATION, 14_000 + i % 7 * 300);
        }
        let margin = policy.margin(DURATION);
        assert!((15_800..17_000).contains(&margin.as_nanos()), "{margin}");
    }

    #[test]
    fn rare_long_overshoots_are_not_paid_for() {
        let mut policy = policy_at(2);
        for i in 0..512 {
            quiet(&mut policy, DURATION, if i % 100 == 0 { 900_000 } else { 14_000 });
        }
        // 1 % more sleeps on time would cost 0.9 ms of spinning each; at 2 ms the price is 20 us.
        assert!(policy.margin(DURATION) < Span::from_micros(20));
        let mut lavish = policy_at(200);
        for i in 0..512 {
            quiet(&mut lavish, DURATION, if i % 100 == 0 { 900_000 } else { 14_000 });
        }
        assert!(lavish.margin(DURATION) > Span::from_micros(900));
    }

    #[test]
    fn durations_learn_apart() {
        let mut policy = policy_at(2);
        for _ in 0..300 {
            quiet(&mut policy, Span::from_micros(50), 10_000);
            quiet(&mut policy, Span::from_millis(20), 40_000);
        }
        assert!(policy.margin(Span::from_micros(50)) < Span::from_micros(12));
        assert!(policy.margin(Span::from_millis(20)) > Span::from_micros(39));
    }

    const IN_TIME: Span = Span::from_nanos(40);
    const MUCH: Span = Span::from_millis(4);

    /// Ends sleeps with short spins until the hold is over; how many there were.
    fn sit_out(policy: &mut Adaptive) -> usize {
        let mut sleeps = 0;
        while policy.held_back() {
            assert_eq!(policy.margin(DURATION), DURATION / HELD_PART);
            policy.ended(Span::from_micros(20), Span::ZERO);
            sleeps += 1;
        }
        sleeps
    }

    #[test]
    fn an_interrupted_spin_stops_spinning_for_a_while_and_longer_when_it_goes_on() {
        let mut policy = policy_at(2);
        let held = |policy: &mut Adaptive| {
            policy.ended(MUCH, MUCH);
            sit_out(policy)
        };
        assert_eq!([held(&mut policy), held(&mut policy), held(&mut policy)], [8, 16, 32]);
        for _ in 0..64 {
            policy.ended(IN_TIME, IN_TIME);
        }
        assert_eq!(held(&mut policy), 8);
    }

    #[test]
    fn an_oversubscribed_machine_is_spun_on_for_what_the_usual_wake_up_takes_and_three_percent_at_most() {
        let mut policy = policy_at(2);
        for _ in 0..300 {
            quiet(&mut policy, DURATION, 21_000);
        }
        policy.ended(MUCH, MUCH);
        let mut short = 0;
        while policy.is_wary() {
            assert!((21_000..23_000).contains(&policy.margin(DURATION).as_nanos()), "{}", policy.margin(DURATION));
            // Nothing is known of these ranges, and a sleep that would be spun whole on a quiet machine is not.
            assert_eq!(policy.margin(Span::from_micros(64)), Span::from_micros(2));
            assert_eq!(policy.margin(Span::from_millis(100)), MARGIN_HELD);
            policy.ended(IN_TIME, IN_TIME);
            short += 1;
        }
        // The hold itself, then until as many sleeps in time have shown that the machine is quiet again.
        assert_eq!(short, HOLD + CLEAN);
    }

    #[test]
    fn a_machine_where_many_sleeps_come_late_is_hardly_spun_on() {
        let mut policy = policy_at(2);
        let mut spun = 0;
        for sleep in 0..4_000 {
            spun += usize::from(!policy.held_back());
            policy.ended(if sleep % 2 == 0 { Span::from_millis(1) } else { IN_TIME }, IN_TIME);
        }
        assert!(spun < 200, "{spun} of 4000");
    }

    #[test]
    fn a_late_sleep_now_and_then_is_no_reason_not_to_spin() {
        let mut policy = policy_at(2);
        for sleep in 0..4_000 {
            assert!(!policy.held_back(), "sleep {sleep}");
            policy.ended(if sleep % 10 == 9 { Span::from_millis(1) } else { IN_TIME }, IN_TIME);
        }
    }

    proptest! {
        #[test]
        fn the_margin_is_as_good_as_any_other(
            values in prop::collection::vec(1_000_u32..400_000, 1..256),
            lambda_us in 50_i64..50_000,
        ) {
            let sorted = {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted
            };
            let lambda = lambda_us as f64 * 1e3;
            let gain = |margin: u32| {
                let covered = values.iter().filter(|v| **v <= margin).count() as f64;
                covered / values.len() as f64 - f64::from(margin) / lambda
            };
            let chosen = gain(best_margin(&sorted, lambda, 0).0);
            // The half microsecond on top is the only loss allowed.
            for other in values.iter().chain([&MARGIN_MIN]) {
                prop_assert!(chosen >= gain(*other) - 1_500.0 / lambda - 1e-12);
            }
        }
    }
}
