//! Whether the CPU's counter can be trusted as a clock on this machine: a pure decision over evidence.

use serde::Serialize;

/// What is known about the counter and about who keeps time here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The architecture has a counter that user code may read.
    pub available: bool,
    /// This process may read it (`PR_GET_TSC`).
    pub permitted: bool,
    /// The CPU declares that the rate never changes (x86-64); `None` where the architecture guarantees it.
    pub invariant: Option<bool>,
    /// The kernel's clock source; `None` where it could not be read.
    pub clock_source: Option<String>,
    /// The hypervisor, by its common name.
    pub hypervisor: Option<String>,
    /// Offsets between the CPUs' counters, where they were tested.
    pub cross_core: Option<CrossCore>,
    /// Why calibration failed, if it did.
    pub calibration_error: Option<String>,
    /// The kernel's time page states a rate that the measurement rules out; the page is then not used.
    pub page_contradicted: bool,
    /// The user asked for the operating system's clock.
    pub declined: bool,
}

/// The certified range of the offsets between the counters of the CPUs tested, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossCore {
    /// How many CPUs were tested against the first one.
    pub cpus: usize,
    /// The least offset that any pair may have.
    pub low_ns: f64,
    /// The greatest offset that any pair may have.
    pub high_ns: f64,
    /// Whether some pair's range excludes 0: those two counters certainly differ.
    pub apart: bool,
}

/// One reason for or against the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// A stable name for programs.
    pub id: &'static str,
    /// The reason in words, with the figure found and, where there is one, the way out.
    pub text: String,
    /// Whether this alone rules the counter out.
    pub against: bool,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// Whether the counter is used.
    pub trusted: bool,
    /// Why, most important first.
    pub reasons: Vec<Reason>,
}

/// A cross-core range wider than this decides nothing, in ns.
const WIDE_NS: f64 = 2_000.0;

/// Clock sources that are the counter itself or a stable function of it.
const COUNTER_SOURCES: [&str; 5] =
    ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "hyperv_clocksource"];

/// Decides from the evidence. Every rule against the counter states what would lift it.
#[must_use]
pub fn judge(evidence: &Evidence) -> Trust {
    let mut reasons = Vec::new();
    let mut say = |against: bool, id: &'static str, text: String| reasons.push(Reason { id, text, against });
    if evidence.declined {
        say(true, "declined", "the operating system's clock was asked for".to_owned());
    }
    if !evidence.available {
        say(true, "no_counter", "this architecture has no counter that a program may read".to_owned());
    } else if !evidence.permitted {
        say(
            true,
            "not_permitted",
            "reading the counter raises SIGSEGV in this process: prctl(PR_SET_TSC, PR_TSC_ENABLE) allows it".to_owned(),
        );
    } else {
        judge_counter(evidence, &mut say);
    }
    let trusted = !reasons.iter().any(|reason| reason.against);
    reasons.sort_by_key(|reason| !reason.against);
    Trust { trusted, reasons }
}

fn judge_counter(evidence: &Evidence, say: &mut impl FnMut(bool, &'static str, String)) {
    match evidence.invariant {
        Some(true) => {
            say(false, "invariant", "the CPU declares its counter invariant: one rate in all power states".to_owned())
        }
        Some(false) => {
            let way_out = match evidence.hypervisor.as_deref() {
                Some("kvm" | "tcg") => ": show it to the guest (QEMU: -cpu host,+invtsc)",
                Some(_) => ": ask the host to show an invariant TSC to this guest",
                None => "",
            };
            say(
                true,
                "not_invariant",
                format!("the CPU does not declare its counter invariant, so its rate may change{way_out}"),
            );
        }
        None => {}
    }
    match evidence.clock_source.as_deref() {
        Some(source) if COUNTER_SOURCES.contains(&source) => {
            say(false, "clock_source", format!("the kernel itself keeps time by the counter (clock source {source})"));
        }
        Some(source) => say(
            true,
            "clock_source",
            format!(
                "the kernel keeps time by {source}, not by the counter: it found the counter unfit, or was configured \
                 so. Boot with clocksource=tsc if the machine allows it"
            ),
        ),
        None => {
            say(false, "clock_source_unknown", "the kernel's clock source cannot be read here (no /sys)".to_owned())
        }
    }
    match evidence.cross_core {
        Some(CrossCore { apart: true, low_ns, high_ns, cpus }) => say(
            true,
            "cores_apart",
            format!(
                "the counters of {cpus} CPUs differ: their offsets lie between {low_ns:+.0} and {high_ns:+.0} ns, and \
                 some pair's range excludes 0"
            ),
        ),
        Some(CrossCore { low_ns, high_ns, cpus, .. }) if high_ns - low_ns <= WIDE_NS => say(
            false,
            "cores_agree",
            format!("the counters of {cpus} CPUs agree: offsets certified between {low_ns:+.0} and {high_ns:+.0} ns"),
        ),
        Some(CrossCore { low_ns, high_ns, cpus, .. }) => say(
            false,
            "cores_undecided",
            format!(
                "the counters of {cpus} CPUs could only be compared to {low_ns:+.0} .. {high_ns:+.0} ns (busy \
                 machine); the kernel's own test stands"
            ),
        ),
        None => {}
    }
    if evidence.hypervisor.as_deref() == Some("tcg") {
        say(
            false,
            "emulated",
            "the CPU is emulated in software (TCG): the counter is a function call, and all figures are the emulator's"
                .to_owned(),
        );
    }
    if evidence.page_contradicted {
        say(
            false,
            "page_contradicted",
            "the kernel's time page was left alone: measurement rules its rate out".to_owned(),
        );
    }
    if let Some(error) = &evidence.calibration_error {
        say(true, "calibration", error.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Evidence {
        Evidence {
            available: true,
            permitted: true,
            invariant: Some(true),
            clock_source: Some("tsc".to_owned()),
            hypervisor: Some("kvm".to_owned()),
            cross_core: Some(CrossCore { cpus: 2, low_ns: -70.0, high_ns: 70.0, apart: false }),
            ..Evidence::default()
        }
    }

    fn against(evidence: &Evidence) -> Vec<&'static str> {
        let trust = judge(evidence);
        assert_eq!(trust.trusted, trust.reasons.iter().all(|r| !r.against));
        trust.reasons.iter().filter(|r| r.against).map(|r| r.id).collect()
    }

    #[test]
    fn an_invariant_counter_that_the_kernel_uses_is_trusted() {
        assert!(judge(&good()).trusted);
        assert!(judge(&Evidence { cross_core: None, ..good() }).trusted);
        assert!(
            judge(&Evidence { invariant: None, clock_source: Some("arch_sys_counter".to_owned()), ..good() }).trusted
        );
    }

    #[test]
    fn each_defect_alone_rules_the_counter_out() {
        assert_eq!(against(&Evidence { available: false, ..good() }), ["no_counter"]);
        assert_eq!(against(&Evidence { permitted: false, ..good() }), ["not_permitted"]);
        assert_eq!(against(&Evidence { invariant: Some(false), ..good() }), ["not_invariant"]);
        assert_eq!(against(&Evidence { clock_source: Some("hpet".to_owned()), ..good() }), ["clock_source"]);
        assert_eq!(against(&Evidence { clock_source: Some("xen".to_owned()), ..good() }), ["clock_source"]);
        let apart = CrossCore { cpus: 4, low_ns: 900.0, high_ns: 1_100.0, apart: true };
        assert_eq!(against(&Evidence { cross_core: Some(apart), ..good() }), ["cores_apart"]);
        assert_eq!(against(&Evidence { calibration_error: Some("no line".to_owned()), ..good() }), ["calibration"]);
        assert_eq!(against(&Evidence { declined: true, ..good() }), ["declined"]);
    }

    #[test]
    fn a_wide_cross_core_range_is_stated_and_decides_nothing() {
        let wide = CrossCore { cpus: 2, low_ns: -9_000.0, high_ns: 30_000.0, apart: false };
        let trust = judge(&Evidence { cross_core: Some(wide), ..good() });
        assert!(trust.trusted);
        assert!(trust.reasons.iter().any(|r| r.id == "cores_undecided"));
    }

    #[test]
    fn a_reason_against_comes_first_and_names_the_way_out() {
        let trust = judge(&Evidence { invariant: Some(false), ..good() });
        assert_eq!(trust.reasons[0].id, "not_invariant");
        assert!(trust.reasons[0].text.contains("invtsc"));
    }
}
