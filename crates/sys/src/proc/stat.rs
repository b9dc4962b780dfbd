//! `/proc/stat`: what the CPUs did, in ticks of USER_HZ.

use std::collections::BTreeMap;

use vtare_units::Span;

use super::grown;

/// Ticks a second in which `/proc/stat` counts (USER_HZ, `sysconf(_SC_CLK_TCK)`): 100 nearly everywhere, whatever HZ
/// is.
#[must_use]
pub fn user_hz() -> Option<u32> {
    // SAFETY: takes a number, returns a number or -1.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u32::try_from(ticks).ok().filter(|ticks| *ticks > 0)
}

/// How a CPU spent its time since boot. Moves in steps of 1/USER_HZ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode, niced threads included.
    pub user: Span,
    /// In the kernel, without interrupts.
    pub system: Span,
    /// Idle, waiting for input or output included.
    pub idle: Span,
    /// In interrupts and softirqs, where the kernel accounts for them.
    pub interrupts: Span,
    /// Ready to run while the hypervisor ran something else, as far as the hypervisor reports it. Many do not: 0 is
    /// no proof.
    pub steal: Span,
}

impl CpuTimes {
    /// The fields of a `cpu` line behind its name; kernels before 2.6.11 have no steal, so 8 fields are wanted.
    fn parse(fields: &str, tick: Span) -> Option<Self> {
        let ticks: Vec<i64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        Some(Self {
            user: tick * user + tick * nice,
            system: tick * system,
            idle: tick * idle + tick * iowait,
            interrupts: tick * irq + tick * softirq,
            steal: tick * steal,
        })
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            user: grown(self.user, earlier.user)?,
            system: grown(self.system, earlier.system)?,
            // The kernel documents that iowait may fall (proc_stat(5)); a fall of idle time is no reason to drop the
            // rest.
            idle: grown(self.idle, earlier.idle).unwrap_or(Span::ZERO),
            interrupts: grown(self.interrupts, earlier.interrupts)?,
            steal: grown(self.steal, earlier.steal)?,
        })
    }
}

/// `/proc/stat`, as far as it explains lost time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The sum over all CPUs.
    pub total: CpuTimes,
    /// Each online CPU.
    pub cpus: BTreeMap<usize, CpuTimes>,
    /// Context switches of all CPUs since boot.
    pub context_switches: Option<u64>,
}

impl Stat {
    /// Parses `/proc/stat`, counted in ticks of 1/`user_hz`.
    #[must_use]
    pub fn parse(text: &str, user_hz: u32) -> Option<Self> {
        let tick = Span::from_nanos(1_000_000_000_i64.checked_div(i64::from(user_hz))?);
        let mut total = None;
        let mut stat = Self::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once(' ') else { continue };
            if name == "cpu" {
                total = CpuTimes::parse(rest, tick);
            } else if let Some(cpu) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
                if let Some(times) = CpuTimes::parse(rest, tick) {
                    stat.cpus.insert(cpu, times);
                }
            } else if name == "ctxt" {
                stat.context_switches = rest.trim().parse().ok();
            }
        }
        stat.total = total?;
        Some(stat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORDED: &str = "cpu  10840 5 4479 147756 1528 3 92 20 0 0\ncpu0 2762 0 1285 78196 84 0 14 4 0 0\n\
        cpu1 8078 5 3193 69559 1444 3 77 16 0 0\nintr 296414 0 0 1\nctxt 524732\nbtime 1700000000\nsoftirq 1 2 3\n";

    #[test]
    fn each_cpu_has_its_steal() {
        let stat = Stat::parse(RECORDED, 100).expect("a recorded text");
        assert_eq!(stat.total.steal, Span::from_millis(200));
        assert_eq!(stat.cpus[&0].steal, Span::from_millis(40));
        assert_eq!(stat.cpus[&1].steal, Span::from_millis(160));
        assert_eq!(stat.cpus[&1].user, Span::from_millis(80_830));
        assert_eq!(stat.cpus[&1].interrupts, Span::from_millis(800));
        assert_eq!(stat.context_switches, Some(524_732));
    }

    #[test]
    fn a_line_without_steal_gives_no_steal_of_zero() {
        assert_eq!(Stat::parse("cpu  1 2 3 4 5 6 7\n", 100), None);
    }

    #[test]
    fn a_counter_that_went_back_gives_no_difference() {
        let earlier = CpuTimes { steal: Span::from_millis(20), ..CpuTimes::default() };
        assert_eq!(CpuTimes::default().since(&earlier), None);
        assert_eq!(earlier.since(&CpuTimes::default()).map(|times| times.steal), Some(Span::from_millis(20)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(cpu[0-9]{0,3}|ctxt|intr)( \
            {1,2}-?[0-9]{0,25}){0,12}\n(.|\n){0,60}", hz: u32) {
            let _ = Stat::parse(&text, hz);
        }
    }
}
