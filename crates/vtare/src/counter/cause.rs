//! Where the variance of the run time comes from, as far as figures decide it.
//!
//! Each call's run time is split into three parts that add up to it: time without the CPU in calls that the scheduler
//! interrupted, other gaps between chunks, and the rest, which varies with the speed of the CPU. A part's share is its
//! covariance with the run time over the variance of the run time; the shares add up to 1.

use serde::Serialize;
use vtare_sys::proc::{Difference, PerCpuCounts};
use vtare_units::Span;

use super::function::Call;
use crate::sentences::counter as words;

/// A part must make up this share of the variance to be called its cause.
const DECIDES: f64 = 0.5;

/// What most of the variance comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// Other threads had the CPU: involuntary switches and missing CPU time agree.
    OtherThreads,
    /// The CPU quota of a control group: involuntary switches, and the group's account of throttled time.
    Quota,
    /// Gaps that the kernel's steal counter accounts for.
    Steal,
    /// Gaps that the kernel's interrupt and softirq time accounts for.
    Interrupts,
    /// Gaps from outside the kernel, so the hypervisor or the firmware: even if each interrupt and switch made one of
    /// the longest gaps, half of the time in gaps or more is left.
    Outside,
    /// Gaps that no counter of the kernel accounts for: the hypervisor, the firmware, or interrupts whose time is not
    /// kept.
    UnaccountedGaps,
    /// The CPU ran at another speed: its frequency, a neighbour on the same core, or the caches.
    CpuSpeed,
    /// The figures do not decide it.
    NotAttributable,
}

impl Cause {
    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::OtherThreads => "other threads",
            Self::Quota => "CPU quota",
            Self::Steal => "steal",
            Self::Interrupts => "interrupts",
            Self::Outside => "hypervisor or firmware",
            Self::UnaccountedGaps => "unaccounted gaps",
            Self::CpuSpeed => "CPU speed",
            Self::NotAttributable => "not attributable",
        }
    }
}

/// Shares of the variance of the run time; `None` where there is no variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct CauseShares {
    /// Time without the CPU in calls with involuntary switches.
    pub(crate) other_threads: Option<f64>,
    /// Other gaps.
    pub(crate) gaps: Option<f64>,
    /// The rest.
    pub(crate) cpu_speed: Option<f64>,
}

/// The three parts of one call, in ns.
fn parts(call: &Call) -> [f64; 3] {
    let away = (call.wall_ns - call.cpu_ns).max(0);
    // Kernels that account for interrupts and steal take them off the CPU time as well: only a switch shows a thread.
    let preempted = if call.involuntary_switches > 0 { away } else { 0 };
    let gaps = (call.gap_ns - preempted).max(0);
    [preempted as f64, gaps as f64, (call.wall_ns - preempted - gaps) as f64]
}

impl CauseShares {
    /// The shares over all calls of one argument.
    pub(super) fn of(calls: &[&Call]) -> Self {
        let n = calls.len() as f64;
        let wall: Vec<f64> = calls.iter().map(|call| call.wall_ns as f64).collect();
        let mean = wall.iter().sum::<f64>() / n;
        let variance: f64 = wall.iter().map(|wall| (wall - mean).powi(2)).sum();
        if calls.len() < 2 || variance <= 0.0 {
            return Self::default();
        }
        // The sum of deviations of the run time is 0, so the parts need not be centred.
        let share = |part: usize| {
            let covariance: f64 = calls.iter().zip(&wall).map(|(call, wall)| (wall - mean) * parts(call)[part]).sum();
            Some(covariance / variance)
        };
        Self { other_threads: share(0), gaps: share(1), cpu_speed: share(2) }
    }
}

/// The time in gaps that is left when the `events` longest of them, given as `(ns, count)`, are taken away.
fn beyond(events: u64, gaps: &[(i64, u64)]) -> Span {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let mut explained = events;
    let left = sorted.into_iter().map(|(ns, count)| {
        let taken = count.min(explained);
        explained -= taken;
        Span::from_nanos(ns) * (count - taken).cast_signed()
    });
    left.fold(Span::ZERO, |sum, span| sum + span)
}

/// What the kernel's counters show of the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Whether the counters are those of the one CPU that the thread ran on.
    pinned: bool,
    wall: Span,
    gaps: Span,
    preempted: Span,
    involuntary_switches: u64,
    interrupts: Option<u64>,
    interrupt_time: Option<Span>,
    /// Time in gaps that is left when each interrupt and switch is taken to have made one of the longest.
    outside: Option<Span>,
    steal: Option<Span>,
    pressure: Option<Span>,
    /// Time that a CPU quota took from the control group.
    throttled: Option<Span>,
}

impl Evidence {
    /// Gathers the evidence: `counters` of the kernel over the run, on `cpu` or on all CPUs, and the single gaps as
    /// `(ns, count)`.
    pub(super) fn gather(counters: &Difference, calls: &[&Call], cpu: Option<usize>, gaps: &[(i64, u64)]) -> Self {
        let sum = |value: fn(&Call) -> f64| Span::from_nanos(calls.iter().map(|call| value(call)).sum::<f64>() as i64);
        let on = |found: usize| cpu.is_none_or(|cpu| cpu == found);
        let cpus = counters.cpus.as_ref();
        let time = |value: fn(&vtare_sys::proc::CpuTimes) -> Span| {
            let times = cpus?.iter().filter(|(found, _)| on(**found)).map(|(_, times)| value(times));
            Some(times.fold(Span::ZERO, |sum, time| sum + time))
        };
        let count = |counts: &PerCpuCounts| -> u64 {
            counts.cpus.iter().filter(|found| on(**found)).filter_map(|found| counts.total_on(*found)).sum()
        };
        let interrupts = counters.interrupts.as_ref().map(count);
        let involuntary_switches = calls.iter().map(|call| call.involuntary_switches).sum();
        let events = interrupts
            .zip(counters.softirqs.as_ref().map(count))
            .map(|(interrupts, softirqs)| interrupts + softirqs + involuntary_switches);
        Self {
            pinned: cpu.is_some(),
            wall: sum(|call| call.wall_ns as f64),
            gaps: sum(|call| parts(call)[1]),
            preempted: sum(|call| parts(call)[0]),
            involuntary_switches,
            interrupts,
            interrupt_time: time(|times| times.interrupts),
            outside: events.map(|events| beyond(events, gaps)),
            steal: time(|times| times.steal),
            pressure: counters.cpu_pressure.map(|pressure| pressure.some),
            throttled: counters.throttled.map(|throttled| throttled.time),
        }
    }

    /// The cause that makes up most of the variance; `None` where there is no variance to explain.
    pub(super) fn dominant(&self, shares: &CauseShares) -> Option<Cause> {
        let (threads, gaps, speed) = (shares.other_threads?, shares.gaps?, shares.cpu_speed?);
        Some(if threads >= DECIDES {
            let throttled = self.throttled.unwrap_or(Span::ZERO);
            if throttled > Span::ZERO && throttled * 2 >= self.preempted { Cause::Quota } else { Cause::OtherThreads }
        } else if gaps >= DECIDES {
            self.cause_of_gaps()
        } else if speed >= DECIDES {
            Cause::CpuSpeed
        } else {
            Cause::NotAttributable
        })
    }

    /// Whose counter, if any, accounts for half or more of the time in gaps.
    fn cause_of_gaps(&self) -> Cause {
        let covers = |time: Option<Span>| time.is_some_and(|time| time * 2 >= self.gaps && time > Span::ZERO);
        match (covers(self.steal), covers(self.interrupt_time)) {
            // Counters of other CPUs may be those of gaps that the thread never met.
            _ if !self.pinned && (covers(self.steal) || covers(self.interrupt_time)) => Cause::NotAttributable,
            (true, false) => Cause::Steal,
            (false, true) => Cause::Interrupts,
            (true, true) => Cause::NotAttributable,
            // Without the counters it is unknown whether the kernel saw the gaps.
            (false, false) if self.steal.is_none() || self.interrupt_time.is_none() => Cause::NotAttributable,
            (false, false) if covers(self.outside) => Cause::Outside,
            (false, false) => Cause::UnaccountedGaps,
        }
    }

    /// The evidence in words.
    pub(super) fn text(&self) -> String {
        let or_unknown = |found: Option<Span>| found.map_or_else(words::not_stated, |span| span.to_string());
        words::evidence(
            self.wall,
            self.preempted,
            self.involuntary_switches,
            self.gaps,
            self.interrupts.map_or_else(words::unknown_number, |count| count.to_string()),
            or_unknown(self.interrupt_time),
            or_unknown(self.steal),
            or_unknown(self.pressure),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(wall_ns: i64, cpu_ns: i64, gap_ns: i64, involuntary_switches: u64) -> Call {
        Call { wall_ns, cpu_ns, gap_ns, involuntary_switches }
    }

    fn dominant(calls: &[Call], evidence: &Evidence) -> Option<Cause> {
        evidence.dominant(&CauseShares::of(&calls.iter().collect::<Vec<_>>()))
    }

    fn silent() -> Evidence {
        Evidence {
            pinned: true,
            gaps: Span::from_micros(30),
            steal: Some(Span::ZERO),
            interrupt_time: Some(Span::ZERO),
            ..Evidence::default()
        }
    }

    #[test]
    fn shares_add_up_to_one() {
        let calls = [call(100, 100, 0, 0), call(180, 130, 60, 1), call(150, 149, 40, 0), call(111, 111, 3, 0)];
        let shares = CauseShares::of(&calls.iter().collect::<Vec<_>>());
        let sum = shares.other_threads.unwrap() + shares.gaps.unwrap() + shares.cpu_speed.unwrap();
        assert!((sum - 1.0).abs() < 1e-12, "{shares:?}");
    }

    #[test]
    fn preemption_is_known_by_switches_and_missing_cpu_time() {
        let calls = [call(10_000, 10_000, 0, 0), call(14_000, 10_000, 4_000, 1), call(10_010, 10_010, 0, 0)];
        let preempted = Evidence { preempted: Span::from_micros(4), ..silent() };
        assert_eq!(dominant(&calls, &preempted), Some(Cause::OtherThreads));
        let throttled = Evidence { throttled: Some(Span::from_micros(3)), ..preempted };
        assert_eq!(dominant(&calls, &throttled), Some(Cause::Quota));
    }

    #[test]
    fn a_gap_without_a_switch_is_unaccounted_unless_a_counter_explains_it() {
        let calls = [call(10_000, 10_000, 0, 0), call(40_000, 40_000, 30_000, 0), call(10_010, 10_010, 0, 0)];
        assert_eq!(dominant(&calls, &silent()), Some(Cause::UnaccountedGaps));
        let stolen = Evidence { steal: Some(Span::from_micros(20)), ..silent() };
        assert_eq!(dominant(&calls, &stolen), Some(Cause::Steal));
        let interrupted = Evidence { interrupt_time: Some(Span::from_micros(20)), ..silent() };
        assert_eq!(dominant(&calls, &interrupted), Some(Cause::Interrupts));
        assert_eq!(dominant(&calls, &Evidence { steal: None, ..silent() }), Some(Cause::NotAttributable));
        let outside = Evidence { outside: Some(Span::from_micros(15)), ..silent() };
        assert_eq!(dominant(&calls, &outside), Some(Cause::Outside));
        let elsewhere = Evidence { pinned: false, ..interrupted };
        assert_eq!(
            dominant(&calls, &elsewhere),
            Some(Cause::NotAttributable),
            "another CPU may have had the interrupts"
        );
        assert_eq!(dominant(&calls, &Evidence { pinned: false, ..silent() }), Some(Cause::UnaccountedGaps));
    }

    #[test]
    fn more_gaps_than_events_prove_that_some_came_from_outside() {
        let gaps = [(2_000, 10), (50_000, 3), (5_000, 2)];
        assert_eq!(beyond(0, &gaps), Span::from_micros(180));
        assert_eq!(beyond(4, &gaps), Span::from_micros(25));
        assert_eq!(beyond(15, &gaps), Span::ZERO);
        assert_eq!(beyond(99, &gaps), Span::ZERO);
    }

    #[test]
    fn a_change_without_gaps_is_the_speed_of_the_cpu() {
        let calls = [call(10_000, 10_000, 0, 0), call(12_000, 12_000, 0, 0), call(10_010, 10_010, 5, 0)];
        assert_eq!(dominant(&calls, &silent()), Some(Cause::CpuSpeed));
    }

    #[test]
    fn equal_parts_are_not_attributable_and_no_variance_has_no_cause() {
        let calls = [call(100, 100, 0, 0), call(130, 120, 20, 1), call(130, 130, 10, 0), call(130, 130, 0, 0)];
        let shares = CauseShares { other_threads: Some(0.4), gaps: Some(0.35), cpu_speed: Some(0.25) };
        assert_eq!(silent().dominant(&shares), Some(Cause::NotAttributable));
        assert!(CauseShares::of(&calls.iter().collect::<Vec<_>>()).gaps.is_some());
        assert_eq!(dominant(&[call(5, 5, 0, 0), call(5, 5, 0, 0)], &silent()), None);
        assert_eq!(dominant(&[call(5, 5, 0, 0)], &silent()), None);
    }
}
