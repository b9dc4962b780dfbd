//! What to change on this machine, each with its command, and only where it applies here.

use std::path::Path;

use serde::Serialize;
use vtare_sys::facts::MachineFacts;

use crate::answer::LOST_WORTH_A_CHANGE;
use crate::sentences::advice as words;
use crate::table::{percent, rough_percent, time};

use super::causes::Cause;
use super::figures::Measured;
use super::findings::VERDICT_TARGET_NS;
use crate::noise::NoiseCell;
use crate::timer::Source;
use vtare_clock::sleep::Method;

/// A wake later than this, in ns, is worth a change of how CPUs idle.
const LATE_WAKE_NS: f64 = 5_000.0;
/// The kernel's own default for the time that an idle CPU of a guest polls, in ns.
const HALT_POLL_NS: u32 = 200_000;

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Advice {
    /// Short and stable, for programs.
    pub(crate) id: &'static str,
    /// What it is good for, as it follows "to".
    pub(crate) purpose: String,
    /// Why, with the figure that asks for it.
    pub(crate) text: String,
    /// How.
    pub(crate) command: String,
    /// What that costs.
    pub(crate) cost: String,
}

/// What the advice depends on beside the facts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Surroundings {
    /// `/dev/cpu_dma_latency` exists.
    pub(super) dma_latency_device: bool,
    /// The kernel puts idle CPUs into states that they must wake from.
    pub(super) idle_states: bool,
    /// This is a guest whose idle CPUs could poll before they halt, but do not.
    pub(super) halts_at_once: bool,
}

impl Surroundings {
    pub(super) fn look() -> Self {
        let read = |path: &str| vtare_sys::kernel_file::text(path).unwrap_or_default();
        Self {
            dma_latency_device: Path::new("/dev/cpu_dma_latency").exists(),
            idle_states: !matches!(read("/sys/devices/system/cpu/cpuidle/current_driver").trim(), "" | "none"),
            halts_at_once: halts_at_once(
                &read("/sys/devices/system/cpu/cpuidle/current_governor"),
                &read("/sys/module/haltpoll/parameters/guest_halt_poll_ns"),
            ),
        }
    }
}

/// Whether the governor of a guest that polls before it halts is told to poll for no time.
fn halts_at_once(governor: &str, guest_halt_poll_ns: &str) -> bool {
    governor.trim() == "haltpoll" && guest_halt_poll_ns.trim() == "0"
}

/// The advice that removes a cause.
fn remedy(cause: &str) -> &'static str {
    match cause {
        "other_threads" => "busy",
        "quota" => "cpu_quota",
        "clock" => "clock_source",
        _ => "host_cpus",
    }
}

/// All that applies: what removes the greatest cause, then what helps most.
pub(super) fn advice(
    figures: &Measured,
    machine: &MachineFacts,
    around: Surroundings,
    causes: &[Cause],
) -> Vec<Advice> {
    let mut found = in_usual_order(figures, machine, around);
    let first = causes.first().map(|cause| remedy(cause.id));
    found.sort_by_key(|advice| Some(advice.id) != first);
    found
}

fn in_usual_order(figures: &Measured, machine: &MachineFacts, around: Surroundings) -> Vec<Advice> {
    [
        clock_source(figures, machine),
        busy(figures),
        quota(machine),
        sandbox(figures, machine),
        host(figures, machine),
        governor(machine),
        quiet_cpu(figures),
        isolate(figures, machine),
        slack(figures, machine),
        halt_poll(figures, around),
        dma_latency(figures, around),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn clock_source(figures: &Measured, machine: &MachineFacts) -> Option<Advice> {
    let source = machine.clock_source.as_deref()?;
    let others = machine.clock_sources_available.as_deref()?;
    // User-mode Linux has no other clock than its host's timers.
    let has_no_other = machine.hypervisor.as_deref() == Some("uml");
    if source == "tsc" || machine.architecture != "x86_64" || has_no_other {
        return None;
    }
    let cost = figures.timer(Source::ClockMonotonic).and_then(|cost| cost.median);
    let cost = cost.map(|cost| time(Some(cost)));
    let has = |flag: &str| machine.cpu_flags.as_ref().is_some_and(|flags| flags.iter().any(|found| found == flag));
    if others.iter().any(|name| name == "tsc") {
        return Some(Advice {
            id: "clock_source",
            purpose: words::to_read_time_faster(),
            text: match cost {
                Some(cost) => words::clock_source_costs(source, cost),
                None => words::clock_source(source),
            },
            command: "echo tsc | sudo tee /sys/devices/system/clocksource/*0/current_clocksource".to_owned(),
            cost: words::cost_of_tsc(),
        });
    }
    // The kernel dropped the counter, or the hypervisor hid it. Where it runs evenly, a boot parameter brings it back.
    (has("constant_tsc") && has("nonstop_tsc")).then(|| Advice {
        id: "clock_source",
        purpose: words::to_read_time_faster(),
        text: match cost {
            Some(cost) => words::clock_source_boot_costs(source, cost),
            None => words::clock_source_boot(source),
        },
        command: "kernel command line: clocksource=tsc tsc=reliable".to_owned(),
        cost: words::cost_of_boot_tsc(),
    })
}

fn busy(figures: &Measured) -> Option<Advice> {
    let share = figures.busy()?;
    Some(Advice {
        id: "busy",
        purpose: words::to_find_users(),
        text: words::busy(rough_percent(share)),
        command: "ps -eo pcpu,pid,comm --sort=-pcpu | head".to_owned(),
        cost: words::cost_of_waiting(),
    })
}

fn quota(machine: &MachineFacts) -> Option<Advice> {
    let (quota, period) = machine.cgroup.cpu_max.as_deref()?.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    let command = match machine.container.as_deref() {
        Some("docker") => "on the host: docker update --cpu-quota -1 CONTAINER",
        Some("podman") => "on the host: podman update --cpu-quota -1 CONTAINER",
        Some("systemd-nspawn") => "on the host: systemctl set-property --runtime machine-NAME.scope CPUQuota=",
        _ => "systemctl set-property --runtime UNIT CPUQuota=",
    };
    Some(Advice {
        id: "cpu_quota",
        purpose: words::to_lift_quota(),
        text: words::quota(quota / period, time(Some(period * 1e3))),
        command: command.to_owned(),
        cost: words::cost_of_no_quota(),
    })
}

fn sandbox(figures: &Measured, machine: &MachineFacts) -> Option<Advice> {
    if machine.container.as_deref() != Some("gvisor") {
        return None;
    }
    let late = figures.sleep(Method::Usleep, VERDICT_TARGET_NS)?.miss_ns.median?;
    Some(Advice {
        id: "sandbox_sleep",
        purpose: words::to_sleep_without_calls(),
        text: words::sandbox(time(Some(late))),
        command: "vtare exec -- PROGRAM".to_owned(),
        cost: words::cost_of_spinning(),
    })
}

fn host(figures: &Measured, machine: &MachineFacts) -> Option<Advice> {
    let hypervisor = machine.hypervisor.as_deref()?;
    let lost = figures.lost_fraction().filter(|lost| *lost > LOST_WORTH_A_CHANGE)?;
    let outside = figures.cause_share(|causes| causes.unattributed_ns)?;
    let stolen = figures.cause_share(|causes| causes.steal_ns)?;
    if outside + stolen < 0.5 {
        return None;
    }
    let command = match hypervisor {
        _ if machine.container.as_deref() == Some("gvisor") => "on the host: taskset -c CORES runsc run CONTAINER",
        "uml" => "on the host: taskset -c CORE linux.uml ..; keep that core free",
        _ if machine.virtual_machine == Some("firecracker") => {
            "on the host, for each thread fc_vcpu N: taskset -pc CORE THREAD"
        }
        _ if machine.virtual_machine == Some("aws-nitro") => {
            "aws ec2 run-instances --instance-type TYPE.metal, or no T type"
        }
        _ if machine.virtual_machine == Some("wsl2") => {
            "on Windows: stop other work; processors=N in .wslconfig reserves none"
        }
        "kvm" | "tcg" => "on the host, for each vCPU: virsh vcpupin DOMAIN VCPU CORE",
        "xen" => "on the host, for each vCPU: xl vcpu-pin DOMAIN VCPU CORE",
        "vmware" => "VM settings: latency sensitivity high; reserve all CPU and memory",
        "hyperv" => "on the host: Set-VMProcessor NAME -Reserve 100",
        _ => "ask the host's operator for CPUs of your own",
    };
    Some(Advice {
        id: "host_cpus",
        purpose: words::to_own_cores(),
        text: words::host(percent(Some(lost)), percent(Some((outside + stolen).min(1.0)))),
        command: command.to_owned(),
        cost: words::cost_of_own_cores(),
    })
}

fn governor(machine: &MachineFacts) -> Option<Advice> {
    let governor = machine.governor.as_deref()?;
    (governor != "performance").then(|| Advice {
        id: "governor",
        purpose: words::to_hold_speed(),
        text: words::governor(governor),
        command: "sudo cpupower frequency-set -g performance".to_owned(),
        cost: words::cost_of_speed(),
    })
}

/// The CPU with the least time lost and the share it lost.
fn quietest(noise: &[NoiseCell]) -> Option<(usize, f64)> {
    let shares = noise.iter().filter_map(|cell| Some((cell.cpu, cell.lost_fraction?)));
    shares.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn quiet_cpu(figures: &Measured) -> Option<Advice> {
    let (cpu, least) = quietest(&figures.noise)?;
    let most = figures.noise.iter().filter_map(|cell| cell.lost_fraction).max_by(f64::total_cmp)?;
    (most > LOST_WORTH_A_CHANGE && most > 1.5 * least).then(|| Advice {
        id: "pin",
        purpose: words::to_use_quiet_cpu(),
        text: words::quiet_cpu(cpu, percent(Some(least)), percent(Some(most))),
        command: format!("taskset -c {cpu} PROGRAM"),
        cost: words::cost_of_pinning(),
    })
}

fn isolate(figures: &Measured, machine: &MachineFacts) -> Option<Advice> {
    let (isolated, online) = (machine.isolated_cpus.as_deref()?, machine.cpus_online?);
    let others = figures.cause_share(|causes| causes.other_threads_ns)?;
    let lost = figures.lost_fraction()?;
    // Another CPU must be left for everything else, CPU 0 first: it takes the interrupts that have no other place.
    let cpu = figures.noise.iter().map(|cell| cell.cpu).filter(|cpu| *cpu != 0).max()?;
    (isolated.is_empty() && online > 1 && lost * others > LOST_WORTH_A_CHANGE).then(|| Advice {
        id: "isolate",
        purpose: words::to_isolate(),
        text: words::isolate(percent(Some(lost * others))),
        command: format!("kernel command line: isolcpus={cpu} nohz_full={cpu} rcu_nocbs={cpu}"),
        cost: words::cost_of_isolation(),
    })
}

fn slack(figures: &Measured, machine: &MachineFacts) -> Option<Advice> {
    let slack = machine.timer_slack_ns?;
    let late = figures.sleep(Method::Usleep, VERDICT_TARGET_NS)?.miss_ns.median?;
    (slack > 1_000 && late > slack as f64 / 2.0).then(|| Advice {
        id: "timer_slack",
        purpose: words::to_wake_earlier(),
        text: words::slack(time(Some(slack as f64)), time(Some(late))),
        command: "echo 1 | sudo tee /proc/PID/timerslack_ns".to_owned(),
        cost: words::cost_of_no_slack(),
    })
}

fn halt_poll(figures: &Measured, around: Surroundings) -> Option<Advice> {
    let late = figures.sleep(Method::ClockNanosleep, VERDICT_TARGET_NS)?.miss_ns.median?;
    (figures.busy().is_none() && around.halts_at_once && late > LATE_WAKE_NS).then(|| Advice {
        id: "guest_halt_poll",
        purpose: words::to_wake_faster(),
        text: words::halt_poll(time(Some(late))),
        command: format!("echo {HALT_POLL_NS} | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns"),
        cost: words::cost_of_polling(),
    })
}

fn dma_latency(figures: &Measured, around: Surroundings) -> Option<Advice> {
    let late = figures.sleep(Method::ClockNanosleep, VERDICT_TARGET_NS)?.miss_ns.median?;
    // On a busy machine a wake is late because another thread has the CPU, not because the CPU sleeps.
    let idle = figures.busy().is_none();
    (idle && around.dma_latency_device && around.idle_states && late > LATE_WAKE_NS).then(|| Advice {
        id: "cpu_dma_latency",
        purpose: words::to_hold_awake(),
        text: words::dma_latency(time(Some(late))),
        command: r#"sudo sh -c 'exec 3>/dev/cpu_dma_latency; printf "\0\0\0\0" >&3; PROGRAM'"#.to_owned(),
        cost: words::cost_of_awake(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Causes;
    use crate::sleep::SleepCell;
    use crate::timer::TimerCell;
    use vtare_units::figures::Figures;

    fn ids(figures: &Measured, machine: &MachineFacts, around: Surroundings) -> Vec<&'static str> {
        in_usual_order(figures, machine, around).iter().map(|advice| advice.id).collect()
    }

    fn late(method: Method, median: f64) -> SleepCell {
        let miss_ns = Figures { median: Some(median), ..Figures::default() };
        SleepCell { method: Some(method), target_ns: VERDICT_TARGET_NS, miss_ns, ..SleepCell::default() }
    }

    fn lost(cpu: usize, share: f64, others: i64, unattributed: i64) -> NoiseCell {
        let causes = Causes {
            lost_ns: 100,
            steal_ns: Some(0),
            other_threads_ns: Some(others),
            unattributed_ns: Some(unattributed),
            ..Causes::default()
        };
        NoiseCell { cpu, lost_fraction: Some(share), causes, ..NoiseCell::default() }
    }

    fn machine() -> MachineFacts {
        MachineFacts { architecture: "x86_64".to_owned(), ..MachineFacts::default() }
    }

    #[test]
    fn nothing_known_asks_for_nothing() {
        assert_eq!(ids(&Measured::default(), &MachineFacts::default(), Surroundings::default()), [] as [&str; 0]);
    }

    #[test]
    fn a_well_set_machine_asks_for_nothing() {
        let machine = MachineFacts {
            clock_source: Some("tsc".to_owned()),
            clock_sources_available: Some(vec!["tsc".to_owned(), "hpet".to_owned()]),
            governor: Some("performance".to_owned()),
            load_average_1min: Some(9.9),
            cpus_online: Some(4),
            isolated_cpus: Some(vec![3]),
            timer_slack_ns: Some(1),
            ..machine()
        };
        let figures = Measured {
            sleep: vec![late(Method::Usleep, 3_000.0), late(Method::ClockNanosleep, 3_000.0)],
            noise: vec![lost(0, 0.0001, 10, 90), lost(1, 0.0001, 10, 90)],
            ..Measured::default()
        };
        let around = Surroundings { dma_latency_device: true, idle_states: true, ..Surroundings::default() };
        assert_eq!(ids(&figures, &machine, around), [] as [&str; 0]);
    }

    #[test]
    fn the_clock_source_is_changed_at_run_time_or_at_boot_and_only_where_the_cpu_allows() {
        let sources = |available: &[&str]| MachineFacts {
            clock_source: Some("hpet".to_owned()),
            clock_sources_available: Some(available.iter().map(|&name| name.to_owned()).collect()),
            ..machine()
        };
        let timer = vec![TimerCell {
            source: Some(Source::ClockMonotonic),
            read_cost_ns: Figures { median: Some(612.0), ..Figures::default() },
            ..TimerCell::default()
        }];
        let figures = Measured { timer, ..Measured::default() };
        let found = in_usual_order(&figures, &sources(&["hpet", "tsc"]), Surroundings::default());
        assert!(found[0].text.contains("hpet and costs 612 ns") && found[0].command.contains("echo tsc"), "{found:?}");
        assert_eq!(ids(&figures, &sources(&["hpet"]), Surroundings::default()), [] as [&str; 0]);
        let flags = Some(vec!["constant_tsc".to_owned(), "nonstop_tsc".to_owned()]);
        let found = in_usual_order(
            &figures,
            &MachineFacts { cpu_flags: flags.clone(), ..sources(&["hpet"]) },
            Surroundings::default(),
        );
        assert!(found[0].command.contains("clocksource=tsc"), "{found:?}");
        let in_uml = MachineFacts { cpu_flags: flags, hypervisor: Some("uml".to_owned()), ..sources(&["timer"]) };
        assert_eq!(ids(&figures, &in_uml, Surroundings::default()), [] as [&str; 0]);
    }

    #[test]
    fn a_noisy_guest_is_sent_to_its_host_and_a_noisy_bare_machine_is_not() {
        let figures = Measured { noise: vec![lost(0, 0.02, 5, 95), lost(1, 0.021, 5, 95)], ..Measured::default() };
        let guest = MachineFacts { hypervisor: Some("kvm".to_owned()), ..machine() };
        let found = in_usual_order(&figures, &guest, Surroundings::default());
        assert!(
            found[0].id == "host_cpus" && found[0].command.contains("vcpupin") && found[0].text.contains("95.0 %"),
            "{found:?}"
        );
        assert_eq!(ids(&figures, &machine(), Surroundings::default()), [] as [&str; 0]);
    }

    #[test]
    fn a_program_in_gvisor_is_shown_the_way_around_its_system_calls_and_no_vcpu_to_pin() {
        let machine =
            MachineFacts { hypervisor: Some("kvm".to_owned()), container: Some("gvisor".to_owned()), ..machine() };
        let figures = Measured {
            noise: vec![lost(0, 0.02, 5, 95)],
            sleep: vec![late(Method::Usleep, 1_050_000.0)],
            ..Measured::default()
        };
        let found = in_usual_order(&figures, &machine, Surroundings::default());
        assert_eq!(found.iter().map(|advice| advice.id).collect::<Vec<_>>(), ["sandbox_sleep", "host_cpus"]);
        assert!(found[0].text.contains("1.05 ms") && found[0].command == "vtare exec -- PROGRAM", "{found:?}");
        assert!(found[1].command.contains("runsc"), "{found:?}");
    }

    #[test]
    fn each_layer_has_its_own_command_for_cores_on_a_line_of_80_columns() {
        let figures = Measured { noise: vec![lost(0, 0.02, 5, 95)], ..Measured::default() };
        let command = |hypervisor: &str, virtual_machine| {
            let machine = MachineFacts { hypervisor: Some(hypervisor.to_owned()), virtual_machine, ..machine() };
            let command = in_usual_order(&figures, &machine, Surroundings::default())[0].command.clone();
            assert!("Try: ".len() + command.chars().count() <= 80, "{command}");
            command
        };
        assert!(command("uml", None).contains("linux.uml"));
        assert!(command("kvm", Some("firecracker")).contains("fc_vcpu"));
        assert!(command("kvm", Some("aws-nitro")).contains("aws ec2"));
        assert!(command("hyperv", Some("wsl2")).contains(".wslconfig"));
        assert!(command("hyperv", None).contains("Set-VMProcessor"));
        assert!(command("kvm", None).contains("virsh vcpupin"));
        for (hypervisor, virtual_machine) in [("xen", None), ("vmware", None), ("other", None), ("kvm", Some("other"))]
        {
            command(hypervisor, virtual_machine);
        }
    }

    #[test]
    fn busy_neighbours_inside_the_system_are_named_pinned_away_from_and_shut_out() {
        let machine = MachineFacts {
            cpus_online: Some(2),
            isolated_cpus: Some(vec![]),
            hypervisor: Some("kvm".to_owned()),
            ..machine()
        };
        let figures = Measured {
            noise: vec![lost(0, 0.10, 90, 10), lost(1, 0.05, 90, 10)],
            sleep: vec![late(Method::ClockNanosleep, 50_000.0)],
            ..Measured::default()
        };
        let found = in_usual_order(
            &figures,
            &machine,
            Surroundings { dma_latency_device: true, idle_states: true, ..Surroundings::default() },
        );
        assert_eq!(found.iter().map(|advice| advice.id).collect::<Vec<_>>(), ["busy", "pin", "isolate"]);
        assert_eq!(found[1].command, "taskset -c 1 PROGRAM");
        assert!(found[2].command.contains("isolcpus=1"));
    }

    #[test]
    fn slack_and_idle_states_are_blamed_only_for_late_wakes() {
        let figures = Measured {
            sleep: vec![late(Method::Usleep, 80_000.0), late(Method::ClockNanosleep, 20_000.0)],
            ..Measured::default()
        };
        let slack = MachineFacts { timer_slack_ns: Some(50_000), ..machine() };
        let around = Surroundings { dma_latency_device: true, idle_states: true, ..Surroundings::default() };
        assert_eq!(ids(&figures, &slack, around), ["timer_slack", "cpu_dma_latency"]);
        assert_eq!(ids(&figures, &slack, Surroundings { idle_states: false, ..around }), ["timer_slack"]);
        assert_eq!(ids(&figures, &machine(), Surroundings::default()), [] as [&str; 0]);
    }

    #[test]
    fn a_guest_that_halts_at_once_is_shown_how_to_poll_and_what_that_costs() {
        assert!(halts_at_once("haltpoll\n", "0\n"));
        for (governor, limit) in [("haltpoll", "200000"), ("menu", "0"), ("", ""), ("haltpoll", "")] {
            assert!(!halts_at_once(governor, limit), "{governor} {limit}");
        }
        let around = Surroundings { halts_at_once: true, ..Surroundings::default() };
        let sleeping = |median| Measured { sleep: vec![late(Method::ClockNanosleep, median)], ..Measured::default() };
        let found = in_usual_order(&sleeping(68_000.0), &machine(), around);
        assert_eq!(found.iter().map(|advice| advice.id).collect::<Vec<_>>(), ["guest_halt_poll"]);
        assert!(found[0].text.contains("68.0 us") && found[0].command.starts_with("echo 200000 | "), "{found:?}");
        assert!(found[0].cost.contains("more power"), "{found:?}");
        assert_eq!(ids(&sleeping(3_000.0), &machine(), around), [] as [&str; 0]);
    }

    #[test]
    fn what_removes_the_greatest_cause_comes_first() {
        let mut machine = MachineFacts { governor: Some("powersave".to_owned()), ..machine() };
        machine.cgroup.cpu_max = Some("50000 100000".to_owned());
        let figures = Measured { noise: vec![lost(0, 0.5, 20, 0)], ..Measured::default() };
        let order = |cause| {
            let causes = [Cause { id: cause, text: String::new(), share: 0.4 }];
            let found = advice(&figures, &machine, Surroundings::default(), &causes);
            found.iter().map(|advice| advice.id).collect::<Vec<_>>()
        };
        assert_eq!(order("quota"), ["cpu_quota", "busy", "governor"]);
        assert_eq!(order("other_threads"), ["busy", "cpu_quota", "governor"]);
    }

    #[test]
    fn a_quota_and_a_saving_governor_are_named() {
        let mut slow =
            MachineFacts { governor: Some("powersave".to_owned()), container: Some("docker".to_owned()), ..machine() };
        slow.cgroup.cpu_max = Some("50000 100000".to_owned());
        let found = in_usual_order(&Measured::default(), &slow, Surroundings::default());
        assert_eq!(found.iter().map(|advice| advice.id).collect::<Vec<_>>(), ["cpu_quota", "governor"]);
        assert!(
            found[0].text.contains("0.50 CPUs")
                && found[0].text.contains("each 100 ms")
                && found[0].command.contains("docker")
        );
        slow.cgroup.cpu_max = Some("max 100000".to_owned());
        assert_eq!(ids(&Measured::default(), &slow, Surroundings::default()), ["governor"]);
    }
}
