//! All counters at one moment, and what lies between two moments.

use std::collections::BTreeMap;

use vtare_units::Span;

use crate::facts::{self, Throttled};
use crate::kernel_file::text;
use crate::sched;

use super::{CpuTimes, LoadAverage, PerCpuCounts, Pressure, Schedstat, Stat, Switches, user_hz};

/// The kernel's counters at one moment, as the calling thread sees them. Taking one costs some 100 us: never inside a
/// measurement.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    stat: Option<Stat>,
    interrupts: Option<PerCpuCounts>,
    softirqs: Option<PerCpuCounts>,
    cpu_pressure: Option<Pressure>,
    io_pressure: Option<Pressure>,
    schedstat: Option<Schedstat>,
    switches: Option<Switches>,
    throttled: Option<Throttled>,
    /// Load average at the moment of the snapshot.
    pub load: Option<LoadAverage>,
}

/// What the counters gained between two [`Snapshot`]s of one thread. `None` where the system does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// How each CPU spent the time.
    pub cpus: Option<BTreeMap<usize, CpuTimes>>,
    /// Interrupts by line and CPU.
    pub interrupts: Option<PerCpuCounts>,
    /// Softirqs by kind and CPU. They run inside or after interrupts and are not in their counts.
    pub softirqs: Option<PerCpuCounts>,
    /// Time in which threads of this system waited for a CPU.
    pub cpu_pressure: Option<Pressure>,
    /// Time in which threads of this system waited for input or output.
    pub io_pressure: Option<Pressure>,
    /// How the scheduler treated the thread.
    pub schedstat: Option<Schedstat>,
    /// Context switches of the thread.
    pub switches: Option<Switches>,
    /// What CPU quotas did to the control groups around this process.
    pub throttled: Option<Throttled>,
}

impl Snapshot {
    /// Reads all counters now, those of a thread for the calling one.
    #[must_use]
    pub fn take() -> Self {
        Self {
            interrupts: text("/proc/interrupts").and_then(|text| PerCpuCounts::parse(&text)),
            softirqs: text("/proc/softirqs").and_then(|text| PerCpuCounts::parse(&text)),
            schedstat: text("/proc/thread-self/schedstat").and_then(|text| Schedstat::parse(&text)),
            // Without /proc the same counters come from getrusage.
            switches: text("/proc/thread-self/status").and_then(|text| Switches::parse(&text)).or_else(|| {
                let used = sched::thread_usage();
                Some(Switches { voluntary: used.voluntary_switches, involuntary: used.involuntary_switches })
            }),
            load: text("/proc/loadavg").and_then(|text| LoadAverage::parse(&text)),
            ..Self::of_machine()
        }
    }

    /// Reads what CPUs did and what programs waited for, without interrupts, load and what the thread did.
    #[must_use]
    pub fn of_machine() -> Self {
        Self {
            stat: text("/proc/stat").zip(user_hz()).and_then(|(text, hz)| Stat::parse(&text, hz)),
            cpu_pressure: text("/proc/pressure/cpu").and_then(|text| Pressure::parse(&text)),
            io_pressure: text("/proc/pressure/io").and_then(|text| Pressure::parse(&text)),
            throttled: facts::throttled(),
            ..Self::default()
        }
    }

    /// What the counters gained since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Difference {
        fn both<T>(now: Option<&T>, then: Option<&T>, since: impl Fn(&T, &T) -> Option<T>) -> Option<T> {
            since(now?, then?)
        }
        let cpus = self.stat.as_ref().zip(earlier.stat.as_ref()).map(|(now, then)| {
            let gained = now.cpus.iter().filter_map(|(cpu, times)| Some((*cpu, times.since(then.cpus.get(cpu)?)?)));
            gained.collect()
        });
        Difference {
            cpus,
            interrupts: both(self.interrupts.as_ref(), earlier.interrupts.as_ref(), PerCpuCounts::since),
            softirqs: both(self.softirqs.as_ref(), earlier.softirqs.as_ref(), PerCpuCounts::since),
            cpu_pressure: both(self.cpu_pressure.as_ref(), earlier.cpu_pressure.as_ref(), Pressure::since),
            io_pressure: both(self.io_pressure.as_ref(), earlier.io_pressure.as_ref(), Pressure::since),
            schedstat: both(self.schedstat.as_ref(), earlier.schedstat.as_ref(), Schedstat::since),
            switches: both(self.switches.as_ref(), earlier.switches.as_ref(), Switches::since),
            throttled: both(self.throttled.as_ref(), earlier.throttled.as_ref(), Throttled::since),
        }
    }
}

impl Difference {
    /// Time that the hypervisor reports to have taken from `cpu`; `None` where the CPU is not known. Steps of
    /// 1/USER_HZ.
    #[must_use]
    pub fn steal_on(&self, cpu: usize) -> Option<Span> {
        self.cpus.as_ref()?.get(&cpu).map(|times| times.steal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_without_files_differs_by_nothing_known() {
        let silent = Snapshot::default();
        assert_eq!(silent.since(&silent), Difference::default());
        assert_eq!(silent.since(&Snapshot::take()), Difference::default());
        assert_eq!(Difference::default().steal_on(0), None);
    }

    #[test]
    fn steal_is_the_gain_of_that_cpu_alone() {
        let at = |text: &str| Snapshot { stat: Stat::parse(text, 100), ..Snapshot::default() };
        let earlier = at("cpu 0 0 0 0 0 0 0 3\ncpu0 0 0 0 0 0 0 0 1\ncpu1 0 0 0 0 0 0 0 2\n");
        let later = at("cpu 0 0 0 0 0 0 0 9\ncpu0 0 0 0 0 0 0 0 1\ncpu1 0 0 0 0 0 0 0 8\n");
        let gained = later.since(&earlier);
        assert_eq!(
            (gained.steal_on(0), gained.steal_on(1), gained.steal_on(2)),
            (Some(Span::ZERO), Some(Span::from_millis(60)), None)
        );
    }
}
