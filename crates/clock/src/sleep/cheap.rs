//! How early to ask the kernel to wake us where sleeping may take no more than a share of a CPU: a pure policy.
//!
//! A *balance* of CPU time grows by the share of the time slept, and falls by what sleeps cost: the spin, and the
//! kernel's part, which is measured now and then. What a sleep of length `d` may cost is `share x d` and a part of the
//! balance. Of that, what the kernel's part does not take is left for spinning: the margin is the greatest `m` whose
//! mean spin over the last overshoots `o`, mean of max(0, m - o), is no more than that.
//!
//! Where nothing is left for spinning, the margin is the least overshoot: the kernel is then asked to wake the thread
//! just as early as never makes it spin. The deadline is missed by what the wake-up varies.

use vtare_units::Span;

use super::SleepOptions;
use super::overshoots::{Overshoots, RANGES, range_of};

/// The greatest margin, ns.
const MARGIN_MAX: f64 = 1e6;
/// The kernel's part has this much of the time asked for at least: it wakes nobody without having slept.
const KERNEL_LEAST_NS: f64 = 1_000.0;
/// A little above the greatest overshoot is as good as any greater margin, ns.
const ABOVE_ALL_NS: f64 = 500.0;
/// Most of the balance: what the share gives in this time, ns. So that sleeps that had little to spin are not followed
/// by long spins.
const BALANCE_OF_NS: f64 = 250e6;
/// The part of the balance that one sleep may take or has to make up for.
const BALANCE_PART: f64 = 1.0 / 16.0;
/// The kernel's part is measured in one sleep of this number.
const MEASURE_EVERY: u32 = 16;
/// What the kernel's part is taken to cost before it is measured, ns.
const KERNEL_FIRST_NS: f64 = 6_000.0;

/// The policy's state. Fixed size, no allocation after creation.
#[derive(Clone, Debug)]
pub struct Cheap {
    share: f64,
    ranges: [Overshoots; RANGES],
    /// CPU time that may be spent, ns; below 0 where more was spent than the share allows.
    balance_ns: f64,
    /// What the kernel's part of a sleep costs, ns.
    kernel_ns: f64,
    sleeps: u32,
}

impl Cheap {
    /// A policy that spends [`SleepOptions::cpu_share`] of a CPU.
    #[must_use]
    pub fn new(options: &SleepOptions) -> Self {
        Self {
            share: options.cpu_share,
            ranges: [const { Overshoots::new() }; RANGES],
            balance_ns: 0.0,
            kernel_ns: KERNEL_FIRST_NS,
            sleeps: 0,
        }
    }

    /// How long before its deadline the kernel is to wake a sleep of `duration`; `duration` itself where all of it may
    /// be spun.
    #[must_use]
    pub fn margin(&mut self, duration: Span) -> Span {
        self.sleeps = self.sleeps.wrapping_add(1);
        let length = duration.as_nanos().max(0) as f64;
        let allowed = self.share * length + BALANCE_PART * self.balance_ns;
        if allowed >= length {
            return duration;
        }
        let known = self.ranges[range_of(duration)].sorted();
        let margin = margin_for(known, (allowed - self.kernel_ns).max(0.0));
        Span::from_nanos(margin.min(length - KERNEL_LEAST_NS).max(0.0) as i64)
    }

    /// Whether the CPU time of this sleep's kernel part is to be measured.
    #[must_use]
    pub fn wants_kernel_part(&self) -> bool {
        self.sleeps % MEASURE_EVERY == 1
    }

    /// Learns how much later than asked the kernel woke a sleep of `duration`.
    pub fn learn(&mut self, duration: Span, overshoot: Span) {
        self.ranges[range_of(duration)].push(overshoot);
    }

    /// Learns the CPU time of one kernel part.
    pub fn learn_kernel_part(&mut self, cpu: Span) {
        self.kernel_ns += (cpu.as_nanos() as f64 - self.kernel_ns) / 4.0;
    }

    /// Takes note of how long a sleep lasted and what it cost: its spin, and the kernel's part where there was one.
    pub fn ended(&mut self, lasted: Span, spin: Span, in_kernel: bool) {
        let cost = spin.as_nanos() as f64 + if in_kernel { self.kernel_ns } else { 0.0 };
        let most = self.share * BALANCE_OF_NS;
        self.balance_ns = (self.balance_ns + self.share * lasted.as_nanos() as f64 - cost).clamp(-most, most);
    }
}

/// The greatest margin whose mean spin over `sorted` is at most `spin_ns`; 0 where nothing is known.
fn margin_for(sorted: &[u32], spin_ns: f64) -> f64 {
    let Some(greatest) = sorted.last() else { return 0.0 };
    let total = spin_ns * sorted.len() as f64;
    let mut sum = 0.0;
    for (rank, overshoot) in sorted.iter().enumerate() {
        let overshoot = f64::from(*overshoot);
        // The margin up to which the overshoots so far are spun for: beyond the next one it grows more slowly.
        if rank > 0 && rank as f64 * overshoot - sum > total {
            return ((total + sum) / rank as f64).min(MARGIN_MAX);
        }
        sum += overshoot;
    }
    ((total + sum) / sorted.len() as f64).min(f64::from(*greatest) + ABOVE_ALL_NS).min(MARGIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS_10: Span = Span::from_millis(10);

    /// Sleeps of `duration` one after another under a kernel that overshoots as `overshoot` draws: the share of time
    /// spent, and the misses in ns.
    fn sleeps(share: f64, duration: Span, kernel_ns: f64, overshoot: impl Fn(u64) -> i64) -> (f64, Vec<i64>) {
        let mut policy = Cheap::new(&SleepOptions { cpu_share: share, ..SleepOptions::default() });
        let (mut lasted, mut spent, mut misses) = (0.0, 0.0, Vec::new());
        for sleep in 0..4_000_u64 {
            let margin = policy.margin(duration);
            let in_kernel = margin < duration;
            let late = if in_kernel { Span::from_nanos(overshoot(sleep)) } else { Span::ZERO };
            if in_kernel {
                policy.learn(duration, late);
                if policy.wants_kernel_part() {
                    policy.learn_kernel_part(Span::from_nanos(kernel_ns as i64));
                }
            }
            let spin = (margin - late).max(Span::ZERO);
            let miss = (late - margin).max(Span::ZERO);
            policy.ended(duration + miss, spin, in_kernel);
            spent += spin.as_nanos() as f64 + if in_kernel { kernel_ns } else { 0.0 };
            lasted += (duration + miss).as_nanos() as f64;
            misses.push(miss.as_nanos());
        }
        misses.sort_unstable();
        (spent / lasted, misses)
    }

    /// Overshoots as idle machines have them: some 40 us, now and then far more.
    fn usual(sleep: u64) -> i64 {
        let draw = (sleep.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64;
        if draw % 50 == 0 { 400_000 } else { 30_000 + draw % 20_000 }
    }

    #[test]
    fn a_share_that_is_enough_ends_most_sleeps_on_time() {
        let (spent, misses) = sleeps(0.01, MS_10, 6_000.0, usual);
        assert!((0.0..0.0105).contains(&spent), "{spent}");
        assert_eq!(misses[misses.len() * 9 / 10], 0);
    }

    #[test]
    fn a_share_that_is_too_small_is_kept_and_the_deadline_is_missed_by_what_the_wake_up_varies() {
        // 1 us of spinning a sleep: the margin ends at a third of the overshoots.
        let (spent, misses) = sleeps(0.0007, MS_10, 6_000.0, usual);
        assert!((0.00063..0.00077).contains(&spent), "{spent}");
        assert!((1..20_000).contains(&misses[misses.len() / 2]), "{}", misses[misses.len() / 2]);
    }

    #[test]
    fn where_the_kernel_alone_costs_more_than_the_share_nothing_is_spun() {
        let (spent, misses) = sleeps(0.001, Span::from_millis(1), 6_000.0, usual);
        // The kernel's part alone: 6 us of 1 ms.
        assert!((0.005..0.0066).contains(&spent), "{spent}");
        assert!(misses[misses.len() / 2] < 20_000);
    }

    #[test]
    fn a_whole_cpu_spins_all_the_way() {
        let (spent, misses) = sleeps(1.0, MS_10, 6_000.0, usual);
        assert!(spent > 0.99, "{spent}");
        assert_eq!(misses[misses.len() - 1], 0);
    }

    #[test]
    fn sleeps_that_had_nothing_to_spin_are_not_followed_by_a_long_spin() {
        let mut policy = Cheap::new(&SleepOptions { cpu_share: 0.01, ..SleepOptions::default() });
        for _ in 0..300 {
            let _ = policy.margin(MS_10);
            policy.learn(MS_10, Span::from_micros(900));
            policy.ended(MS_10, Span::ZERO, false);
        }
        // 100 us for this sleep and a sixteenth of 2.5 ms, less the kernel's part.
        let margin = policy.margin(MS_10);
        assert!(margin < Span::from_micros(900 + 100 + 157), "{margin}");
    }

    proptest! {
        #[test]
        fn the_margin_spins_what_is_allowed_and_no_greater_one_does(
            mut values in prop::collection::vec(1_000_u32..400_000, 1..256),
            allowed in 0.0_f64..100_000.0,
        ) {
            values.sort_unstable();
            let spin = |margin: f64| {
                values.iter().map(|value| (margin - f64::from(*value)).max(0.0)).sum::<f64>() / values.len() as f64
            };
            let margin = margin_for(&values, allowed);
            prop_assert!(spin(margin) <= allowed + 1e-6);
            let greatest = f64::from(*values.last().expect("not empty"));
            prop_assert!(margin >= greatest + ABOVE_ALL_NS - 1e-6 || margin >= MARGIN_MAX
                || spin(margin + 1.0) > allowed - 1e-6 || margin >= greatest);
        }
    }
}
