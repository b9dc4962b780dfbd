//! Readers of `/proc/cpuinfo`, `/proc/meminfo` and CPU lists.

/// The flags of a CPU that bear on time; the rest is noise in a record of measurements.
const TIME_FLAGS: [&str; 17] = [
    "aperfmperf",
    "arat",
    "art",
    "constant_tsc",
    "evtstrm",
    "hypervisor",
    "monitor",
    "mwaitx",
    "nonstop_tsc",
    "nonstop_tsc_s3",
    "rdtscp",
    "tsc",
    "tsc_adjust",
    "tsc_deadline_timer",
    "tsc_known_freq",
    "tsc_reliable",
    "waitpkg",
];

/// The value of the first `key : value` line of `/proc/cpuinfo` with this key, where it is not empty.
pub(super) fn value<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
    })
}

/// The processor's name.
pub(super) fn model(cpuinfo: &str) -> Option<String> {
    // x86; MIPS; POWER; RISC-V; s390 writes no such line.
    if let Some(name) = ["model name", "cpu model", "cpu", "uarch"].iter().find_map(|key| value(cpuinfo, key)) {
        return Some(name.to_owned());
    }
    let implementer = value(cpuinfo, "CPU implementer")?;
    let part = value(cpuinfo, "CPU part")?;
    Some(format!("implementer {implementer} part {part}"))
}

/// The flags that bear on time, sorted; `None` where no flags are shown.
pub(super) fn time_flags(cpuinfo: &str) -> Option<Vec<String>> {
    let shown = value(cpuinfo, "flags").or_else(|| value(cpuinfo, "Features"))?;
    let mut found: Vec<String> =
        shown.split_whitespace().filter(|flag| TIME_FLAGS.contains(flag)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Some(found)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub(super) fn memory_byte(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibyte: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibyte.checked_mul(1024)
}

/// The CPUs of a kernel list such as `0-3,8`, in rising order. An empty text is the empty list; anything that is no
/// list, or names a CPU above 65,535, is `None`.
///
/// ```
/// use vtare_sys::facts::parse_cpu_list;
/// assert_eq!(parse_cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
/// assert_eq!(parse_cpu_list(""), Some(vec![]));
/// assert_eq!(parse_cpu_list("3-1"), None);
/// ```
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    const HIGHEST_CPU: usize = 65_535;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > HIGHEST_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\
        cpu MHz\t\t: 2596.118\n\
        flags\t\t: fpu vme tsc msr constant_tsc rep_good nonstop_tsc tsc_known_freq pni rdtscp hypervisor arat\n";
    const ARM: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes cpuid\n\
        CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n";

    #[test]
    fn an_x86_cpu_has_a_name_and_an_arm_cpu_its_numbers() {
        assert_eq!(model(X86).as_deref(), Some("AMD EPYC"));
        assert_eq!(model(ARM).as_deref(), Some("implementer 0x41 part 0xd0c"));
        assert_eq!(model("processor\t: 0\n"), None);
    }

    #[test]
    fn only_flags_about_time_are_kept() {
        let expected = ["arat", "constant_tsc", "hypervisor", "nonstop_tsc", "rdtscp", "tsc", "tsc_known_freq"];
        assert_eq!(time_flags(X86).expect("flags are shown"), expected);
        assert_eq!(time_flags(ARM).expect("features are shown"), ["evtstrm"]);
        assert_eq!(time_flags("processor : 0\n"), None);
    }

    #[test]
    fn memory_is_shown_in_bytes() {
        assert_eq!(memory_byte("MemTotal:       24684092 kB\nMemFree: 1 kB\n"), Some(25_276_510_208));
        assert_eq!(memory_byte("MemTotal: lots\n"), None);
    }

    proptest! {
        #[test]
        fn a_cpu_list_survives_its_own_text(cpus in proptest::collection::btree_set(0_usize..4_096, 0..40)) {
            let text = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_cpu_list(&text), Some(cpus.into_iter().collect()));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "[-0-9a-z,: \t\n]{0,200}") {
            let _ = (parse_cpu_list(&text), model(&text), time_flags(&text), memory_byte(&text));
        }
    }
}
