//! Where the time went: what the system accounts for of the gaps, and what it does not.

use std::collections::BTreeMap;

use serde::Serialize;
use vtare_sys::proc::Difference;

/// What the system accounts for of the time lost on one CPU. Times in ns; `None` where it keeps no account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Causes {
    /// The sum of all gaps.
    pub(crate) lost_ns: i64,
    /// Time that the hypervisor reports it took from this CPU. Moves in steps of 10 ms, and many hypervisors report
    /// nothing: 0 is no proof that nothing was taken.
    pub(crate) steal_ns: Option<i64>,
    /// Time that a CPU quota of the control group kept this program from running.
    pub(crate) quota_ns: Option<i64>,
    /// Time that the spinning thread was ready while other threads of this system ran.
    pub(crate) other_threads_ns: Option<i64>,
    /// What neither of these explains: interrupts of this system, and time taken by the host that it does not state.
    pub(crate) unattributed_ns: Option<i64>,
    /// `unattributed_ns` as a share of `lost_ns`.
    pub(crate) unattributed_fraction: Option<f64>,
    /// Times that the thread was switched away although it could have run on.
    pub(crate) involuntary_switches: Option<u64>,
    /// Interrupts that this CPU took.
    pub(crate) interrupts: Option<u64>,
    /// The same by line of `/proc/interrupts`; the five with most.
    pub(crate) interrupts_by_line: BTreeMap<String, u64>,
    /// Softirqs that this CPU ran.
    pub(crate) softirqs: Option<u64>,
    /// Gaps for which there was no interrupt and no switch on this CPU, at least: they came from outside this system.
    pub(crate) gaps_from_outside_min: Option<u64>,
    /// The least time that those gaps can have taken.
    pub(crate) outside_ns_min: Option<i64>,
    /// Time in which some thread of this system waited for a CPU (PSI; all CPUs together).
    pub(crate) cpu_pressure_ns: Option<i64>,
    /// Time in which some thread of this system waited for input or output (PSI; all CPUs together).
    pub(crate) io_pressure_ns: Option<i64>,
    /// What took most: `steal`, `quota`, `other_threads`, `outside`, `unattributed`, or null where no time was lost.
    pub(crate) dominant_cause: Option<String>,
}

impl Causes {
    /// Attributes the `gaps` (lengths in ns) of `cpu` to what `gained` accounts for of that time.
    pub(crate) fn of(cpu: usize, gaps: &[i64], lost_ns: i64, gained: &Difference) -> Self {
        let steal_ns = gained.steal_on(cpu).map(|steal| steal.as_nanos());
        // A thread that is out of quota counts as one that waits for its turn.
        let waited_ns = gained.schedstat.map(|scheduled| scheduled.waited.as_nanos());
        let quota_ns = gained.throttled.map(|throttled| {
            let ns = throttled.time.as_nanos();
            waited_ns.map_or(ns, |waited| ns.min(waited))
        });
        let other_threads_ns = waited_ns.map(|waited| waited - quota_ns.unwrap_or(0));
        // Without either number the share that is explained is unknown, so the rest is unknown too. A stated time can
        // exceed the gaps (steps of 10 ms; waits below the threshold): then nothing is left to explain.
        let stated = [steal_ns, other_threads_ns, quota_ns];
        let unattributed_ns =
            stated.iter().any(Option::is_some).then(|| (lost_ns - stated.iter().flatten().sum::<i64>()).max(0));
        let interrupts = gained.interrupts.as_ref().and_then(|counts| counts.total_on(cpu));
        let switches = gained.switches.map(|switches| switches.involuntary);
        let outside = interrupts.zip(switches).map(|(interrupts, switches)| {
            // Each interrupt and each switch explains at most one gap, and at best the longest ones.
            let explained = interrupts.saturating_add(switches);
            let rest = (gaps.len() as u64).saturating_sub(explained);
            let mut sorted = gaps.to_vec();
            sorted.sort_unstable();
            (rest, sorted.iter().take(usize::try_from(rest).unwrap_or(usize::MAX)).sum::<i64>())
        });
        let by_line = gained.interrupts.as_ref().map(|counts| {
            counts
                .busiest_on(cpu)
                .into_iter()
                .take(5)
                .map(|(line, count)| (label(&line.name, &line.description), count))
                .collect()
        });
        let mut causes = Self {
            lost_ns,
            steal_ns,
            quota_ns,
            other_threads_ns,
            unattributed_ns,
            unattributed_fraction: unattributed_ns.filter(|_| lost_ns > 0).map(|rest| rest as f64 / lost_ns as f64),
            involuntary_switches: switches,
            interrupts,
            interrupts_by_line: by_line.unwrap_or_default(),
            softirqs: gained.softirqs.as_ref().and_then(|counts| counts.total_on(cpu)),
            gaps_from_outside_min: outside.map(|(gaps, _)| gaps),
            outside_ns_min: outside.map(|(_, nanos)| nanos),
            cpu_pressure_ns: gained.cpu_pressure.map(|pressure| pressure.some.as_nanos()),
            io_pressure_ns: gained.io_pressure.map(|pressure| pressure.some.as_nanos()),
            dominant_cause: None,
        };
        causes.dominant_cause = causes.dominant().map(str::to_owned);
        causes
    }

    fn dominant(&self) -> Option<&'static str> {
        if self.lost_ns <= 0 {
            return None;
        }
        // "outside" is the proven part of what nobody states, so it is named only where it outweighs half of that.
        let unattributed = self.unattributed_ns.unwrap_or(self.lost_ns);
        let unstated = if self.outside_ns_min.is_some_and(|outside| outside > unattributed / 2) {
            "outside"
        } else {
            "unattributed"
        };
        let candidates = [
            ("steal", self.steal_ns.unwrap_or(0)),
            ("quota", self.quota_ns.unwrap_or(0)),
            ("other_threads", self.other_threads_ns.unwrap_or(0)),
            (unstated, unattributed),
        ];
        candidates.into_iter().max_by_key(|(_, nanos)| *nanos).map(|(name, _)| name)
    }
}

/// A line's name for people: its own where that is a name, with the device where it is only a number.
fn label(name: &str, description: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        let device = description.split(' ').next_back().unwrap_or("");
        return format!("{name} {device}").trim_end().to_owned();
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_sys::facts::Throttled;
    use vtare_sys::proc::{CpuTimes, PerCpuCounts, Schedstat, Switches};
    use vtare_units::Span;

    fn gained(steal_ms: i64, waited_us: i64, interrupts: u64, switches: u64) -> Difference {
        let times = CpuTimes { steal: Span::from_millis(steal_ms), ..CpuTimes::default() };
        let text = format!(
            "     CPU0   CPU1\n 36:   0   1   PCI-MSI 1-edge virtio1-req.0\nLOC:  9   {interrupts}   Local timer\n"
        );
        Difference {
            cpus: Some(BTreeMap::from([(1, times)])),
            interrupts: PerCpuCounts::parse(&text),
            schedstat: Some(Schedstat { ran: Span::from_secs(1), waited: Span::from_micros(waited_us), turns: 3 }),
            switches: Some(Switches { voluntary: 0, involuntary: switches }),
            ..Difference::default()
        }
    }

    #[test]
    fn what_steal_and_other_threads_do_not_explain_is_unattributed() {
        let causes = Causes::of(1, &[20_000_000, 5_000_000, 5_000_000], 30_000_000, &gained(20, 4_000, 1, 1));
        assert_eq!((causes.steal_ns, causes.other_threads_ns), (Some(20_000_000), Some(4_000_000)));
        assert_eq!(causes.unattributed_ns, Some(6_000_000));
        assert_eq!(causes.unattributed_fraction, Some(0.2));
        assert_eq!(causes.dominant_cause.as_deref(), Some("steal"));
    }

    #[test]
    fn what_a_quota_took_is_not_laid_on_other_threads() {
        let throttled = Some(Throttled { periods: 20, time: Span::from_micros(3_500) });
        let causes = Causes::of(1, &[4_000_000], 4_000_000, &Difference { throttled, ..gained(0, 4_000, 1, 1) });
        assert_eq!((causes.quota_ns, causes.other_threads_ns), (Some(3_500_000), Some(500_000)));
        assert_eq!((causes.unattributed_ns, causes.dominant_cause.as_deref()), (Some(0), Some("quota")));
        // The account is of all threads of the group: this one can have lost no more than it waited.
        let throttled = Some(Throttled { periods: 20, time: Span::from_secs(9) });
        let causes = Causes::of(1, &[4_000_000], 4_000_000, &Difference { throttled, ..gained(0, 4_000, 1, 1) });
        assert_eq!((causes.quota_ns, causes.other_threads_ns), (Some(4_000_000), Some(0)));
    }

    #[test]
    fn more_gaps_than_events_prove_an_outside_cause_of_at_least_the_shortest_gaps() {
        // Two interrupts (LOC and 36) and one switch explain three gaps at most, at best the longest.
        let causes = Causes::of(1, &[70, 10, 50, 20, 60], 210, &gained(0, 0, 1, 1));
        assert_eq!(
            (causes.interrupts, causes.gaps_from_outside_min, causes.outside_ns_min),
            (Some(2), Some(2), Some(30))
        );
        assert_eq!(causes.dominant_cause.as_deref(), Some("unattributed"), "30 of 210 is proven, not most of it");
        let blind = Causes::of(1, &[100; 90], 9_000, &gained(0, 0, 1, 1));
        assert_eq!(blind.dominant_cause.as_deref(), Some("outside"));
    }

    #[test]
    fn a_silent_system_leaves_everything_unsaid() {
        let causes = Causes::of(0, &[10, 20], 30, &Difference::default());
        assert_eq!((causes.steal_ns, causes.unattributed_ns, causes.interrupts), (None, None, None));
        assert_eq!((causes.gaps_from_outside_min, causes.unattributed_fraction), (None, None));
        assert_eq!(causes.dominant_cause.as_deref(), Some("unattributed"));
    }

    #[test]
    fn stated_time_beyond_the_gaps_leaves_nothing_to_explain() {
        assert_eq!(Causes::of(1, &[5], 5, &gained(10, 0, 0, 0)).unattributed_ns, Some(0));
    }

    #[test]
    fn no_gap_has_no_cause() {
        let causes = Causes::of(1, &[], 0, &gained(0, 0, 4, 0));
        assert_eq!((causes.dominant_cause, causes.unattributed_fraction), (None, None));
    }

    #[test]
    fn a_numbered_line_carries_its_device() {
        let causes = Causes::of(1, &[5], 5, &gained(0, 0, 7, 0));
        let lines: Vec<_> = causes.interrupts_by_line.keys().map(String::as_str).collect();
        assert_eq!(lines, ["36 virtio1-req.0", "LOC"]);
    }
}
