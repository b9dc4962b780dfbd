//! [`MachineFacts`] over a recorded tree of files.

use super::*;

/// A directory of recorded files that is removed at the end of the test.
struct Recorded {
    tree: Tree,
}

impl Recorded {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("vtare-facts-{name}-{}", std::process::id()));
        for (path, text) in files {
            let file = root.join(path);
            fs::create_dir_all(file.parent().expect("files stand in directories"))
                .expect("the temporary directory is writable");
            fs::write(file, text).expect("the temporary directory is writable");
        }
        Self { tree: Tree { root } }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.tree.root);
    }
}

#[test]
fn a_paravirtual_guest_of_xen_is_not_taken_for_one_of_the_hypervisor_below_xen() {
    let recorded = Recorded::new("xen", &[("sys/hypervisor/type", "xen\n")]);
    let found = MachineFacts::read_tree(&recorded.tree, Some("tcg".to_owned()));
    assert_eq!(found.hypervisor.as_deref(), Some("xen"));
}

#[test]
fn recorded_guests_are_named_by_the_product_that_runs_them() {
    type Files<'f> = &'f [(&'f str, &'f str)];
    // The header of a table as Firecracker 1.x writes it.
    let firecracker = "FACP\u{14}\u{1}\0\0\u{6}fFIRECKFCVMFADT\0\0\0\0FCAT\0\0\0\u{1}";
    let cases: &[(&str, Files<'_>, [Option<&str>; 3])] = &[
        ("firecracker", &[("sys/firmware/acpi/tables/FACP", firecracker)], [Some("kvm"), Some("firecracker"), None]),
        (
            "nitro-snp",
            &[("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("dev/sev-guest", "")],
            [Some("kvm"), Some("aws-nitro"), Some("sev-snp")],
        ),
        (
            "kvm-tdx",
            &[("sys/class/dmi/id/sys_vendor", "QEMU\n"), ("proc/cpuinfo", "flags\t\t: tsc tdx_guest hypervisor\n")],
            [Some("kvm"), None, Some("tdx")],
        ),
        ("uml", &[("proc/cpuinfo", "vendor_id\t: User Mode Linux\n")], [Some("uml"), None, None]),
    ];
    for (name, files, expected) in cases {
        let recorded = Recorded::new(name, files);
        let found = MachineFacts::read_tree(&recorded.tree, Some("kvm".to_owned()));
        assert_eq!([found.hypervisor.as_deref(), found.virtual_machine, found.confidential], *expected, "{name}");
    }
}

#[test]
fn a_secure_tsc_is_known_by_the_register_that_states_it() {
    use std::os::unix::fs::FileExt as _;
    let recorded = Recorded::new("secure-tsc", &[("dev/sev-guest", ""), ("dev/cpu/0/msr", "")]);
    // A sparse file: what the module msr shows is read at the register's number.
    let registers = fs::File::options().write(true).open(recorded.tree.root.join("dev/cpu/0/msr")).unwrap();
    registers.write_all_at(&0x807_u64.to_le_bytes(), 0xc001_0131).unwrap();
    let found = MachineFacts::read_tree(&recorded.tree, Some("kvm".to_owned()));
    assert_eq!(found.confidential, Some("sev-snp-secure-tsc"));
}

#[test]
fn an_older_gvisor_is_known_by_the_build_of_its_kernel() {
    let version = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n";
    let recorded = Recorded::new("older-gvisor", &[("proc/version", version)]);
    assert_eq!(MachineFacts::read_tree(&recorded.tree, None).container.as_deref(), Some("gvisor"));
}

#[test]
fn gvisor_is_known_by_its_kernel_although_it_shows_the_hosts_mark_of_docker() {
    let files = [("proc/sys/kernel/osrelease", "4.19.0-gvisor\n"), (".dockerenv", "")];
    let recorded = Recorded::new("gvisor", &files);
    assert_eq!(MachineFacts::read_tree(&recorded.tree, None).container.as_deref(), Some("gvisor"));
}

#[test]
fn a_recorded_guest_is_read_in_full() {
    let recorded = Recorded::new(
        "guest",
        &[
            ("proc/sys/kernel/hostname", "guest-7\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-13-cloud-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1\n"),
            ("proc/sys/kernel/random/boot_id", "1b2c3d4e-0000-4000-8000-000000000001\n"),
            ("proc/cmdline", "root=/dev/vda1 isolcpus=2-3 quiet\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: QEMU Virtual CPU\nmicrocode\t: 0xa101154\n\
                 flags\t\t: tsc constant_tsc hypervisor sse2\n",
            ),
            ("proc/meminfo", "MemTotal:        1000000 kB\n"),
            ("proc/loadavg", "0.52 0.58 0.59 1/467 11213\n"),
            ("proc/stat", "cpu  10 0 10 100 0 0 0 25 0 0\ncpu0 10 0 10 100 0 0 0 25 0 0\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "29 22 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/isolated", "2-3\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm \n"),
        ],
    );
    let facts = MachineFacts::read_tree(&recorded.tree, None);
    assert_eq!(facts.hostname.as_deref(), Some("guest-7"));
    assert_eq!(facts.kernel.as_deref(), Some("6.1.0-13-cloud-amd64"));
    assert_eq!(facts.cpu_model.as_deref(), Some("QEMU Virtual CPU"));
    assert_eq!(facts.microcode.as_deref(), Some("0xa101154"));
    assert_eq!(facts.cpus_online, Some(4));
    assert_eq!(facts.cpu_flags.as_deref(), Some(&["constant_tsc", "hypervisor", "tsc"].map(str::to_owned)[..]));
    assert_eq!(facts.memory_byte, Some(1_024_000_000));
    assert_eq!(facts.clock_source.as_deref(), Some("kvm-clock"));
    assert_eq!(facts.clock_sources_available.as_deref(), Some(&["kvm-clock", "tsc", "acpi_pm"].map(str::to_owned)[..]));
    assert_eq!(facts.governor, None, "guests have no governor");
    assert_eq!(facts.smt, Some(false));
    assert_eq!(facts.isolated_cpus, Some(vec![2, 3]));
    assert_eq!(facts.preempt_model.as_deref(), Some("dynamic"));
    assert_eq!(facts.load_average_1min, Some(0.52));
    assert_eq!(facts.cgroup.cpu_max.as_deref(), Some("200000 100000"));
    assert_eq!(facts.container, None);
    // 25 ticks of USER_HZ, which is 100 on every architecture in use.
    assert_eq!(facts.steal_ns_before, Some(250_000_000));
    assert_eq!(facts.steal_ns_after, None, "the end of the measurement has not come");
}

#[test]
fn governors_that_differ_are_all_named() {
    let recorded = Recorded::new(
        "governors",
        &[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
        ],
    );
    assert_eq!(recorded.tree.governors().as_deref(), Some("performance,powersave"));
}

#[test]
fn no_isolated_cpu_is_an_empty_list_and_no_file_is_no_answer() {
    let recorded = Recorded::new("isolated", &[("sys/devices/system/cpu/isolated", "\n")]);
    assert_eq!(MachineFacts::read_tree(&recorded.tree, None).isolated_cpus, Some(vec![]));
    let silent = Recorded::new("silent", &[("proc/version", "x")]);
    let facts = MachineFacts::read_tree(&silent.tree, None);
    assert_eq!(
        (facts.isolated_cpus, facts.steal_ns_before, facts.hostname, facts.cpus_online),
        (None, None, None, None)
    );
}

#[test]
fn the_document_has_exactly_the_keys_of_the_contract() {
    let contract = include_str!("../../../../docs/internals/contract.md");
    let sentence = contract.split_once("`machine`:").expect("the contract names the facts").1;
    let sentence =
        sentence.split_once("preempt_model`").expect("preempt_model is the last fact").0.to_owned() + "preempt_model`";
    let text = serde_json::to_value(MachineFacts::read()).expect("facts are plain data");
    let document = text.as_object().expect("facts are an object");
    for key in document.keys() {
        assert!(sentence.contains(key.as_str()), "{key} is not in docs/internals/contract.md");
    }
    let named: Vec<&str> = sentence
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|list| list.split(|symbol: char| !(symbol.is_ascii_alphanumeric() || symbol == '_')))
        .filter(|word| !word.is_empty())
        .collect();
    for key in ["cpu_max", "cpuset", "memory_max"] {
        assert!(document["cgroup"].get(key).is_some(), "{key} is not in the document");
    }
    for key in named.iter().filter(|key| !["cpu_max", "cpuset", "memory_max"].contains(key)) {
        assert!(document.contains_key(*key), "{key} is in docs/internals/contract.md but not in the document");
    }
}
