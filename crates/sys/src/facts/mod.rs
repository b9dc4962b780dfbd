//! Facts about the machine that decide how its time figures are to be read.
//!
//! Every parser here is a pure function over the text the kernel shows; [`MachineFacts::read`] alone opens files. A
//! fact the system does not state is `None` and stays so in every file: missing is never zero.

mod cgroup;
mod container;
mod cpuinfo;
mod preempt;
mod tick;
mod virtual_machine;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;

pub use cgroup::{CgroupLimits, Throttled};
pub use cpuinfo::parse_cpu_list;
pub use tick::tick_period;

use crate::{cpu, kernel_file, proc, sched};

/// The facts of one machine: the `machine` object of every document vtare writes (docs/internals/contract.md).
/// The default is a machine of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineFacts {
    /// The host name, as this namespace sees it.
    pub hostname: Option<String>,
    /// The kernel's release, such as `6.1.0-13-amd64`.
    pub kernel: Option<String>,
    /// The instruction set of this binary: `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// The processor's name. On ARM, which has none, implementer and part numbers.
    pub cpu_model: Option<String>,
    /// The revision of the CPU's microcode, as the kernel shows it (x86): a guest's is what its hypervisor states.
    pub microcode: Option<String>,
    /// How many CPUs the kernel runs on.
    pub cpus_online: Option<usize>,
    /// The CPUs this process may use, in rising order.
    pub cpus_allowed: Option<Vec<usize>>,
    /// The CPU's flags that bear on time, of those the kernel shows.
    pub cpu_flags: Option<Vec<String>>,
    /// Memory of the machine, in bytes (`MemTotal`).
    pub memory_byte: Option<u64>,
    /// The hypervisor below this kernel: `kvm`, `xen`, `vmware`, `uml` (user-mode Linux), ...; `None` where none shows
    /// itself.
    pub hypervisor: Option<String>,
    /// The product that runs this virtual machine: `firecracker`, `aws-nitro`, `azure`, `wsl2`; `None` where none
    /// shows itself.
    pub virtual_machine: Option<&'static str>,
    /// What closes the memory of this virtual machine to its host: `sev-snp`, `sev-snp-secure-tsc` (its counter too),
    /// `tdx` (likewise); `None` where nothing shows itself.
    pub confidential: Option<&'static str>,
    /// The container around this process: `docker`, `podman`, `lxc`, `kubernetes`, `gvisor`, `bubblewrap`, ...; `None`
    /// where none shows itself.
    pub container: Option<String>,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `hpet`, ...
    pub clock_source: Option<String>,
    /// The clock sources the kernel could use.
    pub clock_sources_available: Option<Vec<String>>,
    /// Timer ticks in a second (not USER_HZ).
    pub hz: Option<u32>,
    /// The frequency governor of the CPUs; several are joined with a comma. Guests usually have none.
    pub governor: Option<String>,
    /// Whether two threads share a core somewhere on this machine.
    pub smt: Option<bool>,
    /// The identity of this boot.
    pub boot_id: Option<String>,
    /// How much later than asked the kernel may wake this thread, in ns.
    pub timer_slack_ns: Option<i64>,
    /// The limits of the control groups around this process.
    pub cgroup: CgroupLimits,
    /// Time stolen from all CPUs since boot when the facts were read, in ns. Moves in steps of 1/USER_HZ.
    pub steal_ns_before: Option<u64>,
    /// The same at the end of the measurement; see [`MachineFacts::note_steal_after`].
    pub steal_ns_after: Option<u64>,
    /// Load average over one minute, in threads.
    pub load_average_1min: Option<f64>,
    /// The CPUs the scheduler leaves alone (`isolcpus=`); an empty list where there are none.
    pub isolated_cpus: Option<Vec<usize>>,
    /// How the kernel may be interrupted: `none`, `voluntary`, `full`, `lazy`, `rt`; `dynamic` where it can be chosen
    /// at boot and the choice is unknown.
    pub preempt_model: Option<String>,
}

impl MachineFacts {
    /// Reads the facts of this machine as they are now. Takes about a millisecond.
    ///
    /// ```
    /// let facts = vtare_sys::facts::MachineFacts::read();
    /// assert!(!facts.architecture.is_empty());
    /// ```
    #[must_use]
    pub fn read() -> Self {
        let features = cpu::Features::read();
        let mut facts = Self::read_tree(&Tree { root: PathBuf::from("/") }, features.hypervisor_name());
        facts.cpus_allowed = sched::allowed_cpus().ok();
        facts.hz = tick_period().and_then(tick::hz_of);
        facts.timer_slack_ns = sched::timer_slack().map(vtare_units::Span::as_nanos);
        facts
    }

    /// Adds the stolen time at the end of a measurement, beside the one at its start.
    pub fn note_steal_after(&mut self) {
        self.steal_ns_after = Tree { root: PathBuf::from("/") }.steal_ns();
    }

    /// The facts that come from files, below `tree`, and the hypervisor that CPUID names.
    fn read_tree(tree: &Tree, cpuid_names: Option<String>) -> Self {
        let machine = tree.virtual_machine_signs(cpuid_names);
        let cpuinfo = tree.text("proc/cpuinfo");
        let kernel_version = tree.line("proc/sys/kernel/version");
        let clock_sources = "sys/devices/system/clocksource/clocksource0";
        Self {
            hostname: tree.line("proc/sys/kernel/hostname"),
            kernel: tree.line("proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_model: cpuinfo.as_deref().and_then(cpuinfo::model),
            microcode: cpuinfo.as_deref().and_then(|text| cpuinfo::value(text, "microcode")).map(str::to_owned),
            cpus_online: tree
                .line("sys/devices/system/cpu/online")
                .and_then(|text| parse_cpu_list(&text))
                .map(|cpus| cpus.len()),
            cpus_allowed: None,
            cpu_flags: cpuinfo.as_deref().and_then(cpuinfo::time_flags),
            memory_byte: tree.text("proc/meminfo").as_deref().and_then(cpuinfo::memory_byte),
            hypervisor: virtual_machine::hypervisor(&machine),
            virtual_machine: virtual_machine::product(&machine),
            confidential: virtual_machine::confidential(&machine),
            container: container::name(&tree.container_signs()),
            clock_source: tree.line(&format!("{clock_sources}/current_clocksource")),
            clock_sources_available: tree
                .line(&format!("{clock_sources}/available_clocksource"))
                .map(|text| text.split_whitespace().map(str::to_owned).collect()),
            hz: None,
            governor: tree.governors(),
            smt: tree.line("sys/devices/system/cpu/smt/active").and_then(|text| match text.as_str() {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            }),
            boot_id: tree.line("proc/sys/kernel/random/boot_id"),
            timer_slack_ns: None,
            cgroup: tree.cgroup_limits(),
            steal_ns_before: tree.steal_ns(),
            steal_ns_after: None,
            load_average_1min: tree
                .text("proc/loadavg")
                .as_deref()
                .and_then(proc::LoadAverage::parse)
                .map(|load| load.minutes_1),
            // The kernel writes an empty line where no CPU is isolated: an answer, not a gap.
            isolated_cpus: tree.text("sys/devices/system/cpu/isolated").and_then(|text| parse_cpu_list(text.trim())),
            preempt_model: preempt::model(
                tree.line("sys/kernel/debug/sched/preempt").as_deref(),
                tree.line("sys/kernel/realtime").as_deref(),
                kernel_version.as_deref(),
                tree.line("proc/cmdline").as_deref(),
            ),
        }
    }
}

/// The files of a machine below one directory: `/`, or a recorded tree in tests.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn text(&self, path: &str) -> Option<String> {
        kernel_file::text(self.root.join(path))
    }

    /// The file's text without the space around it; `None` where nothing is left.
    fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A register of the first CPU, as the module msr shows it to root.
    fn register(&self, number: u64) -> Option<u64> {
        let mut value = [0; 8];
        let file = fs::File::open(self.root.join("dev/cpu/0/msr")).ok()?;
        file.read_exact_at(&mut value, number).ok()?;
        Some(u64::from_le_bytes(value))
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn steal_ns(&self) -> Option<u64> {
        let stat = proc::Stat::parse(&self.text("proc/stat")?, proc::user_hz()?)?;
        Some(stat.total.steal.as_nanos_unsigned())
    }

    fn virtual_machine_signs(&self, cpuid_names: Option<String>) -> virtual_machine::Signs {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let acpi = kernel_file::bytes(self.root.join("sys/firmware/acpi/tables/FACP"));
        virtual_machine::Signs {
            kernel_names: self.line("sys/hypervisor/type"),
            cpuid_names,
            cpu_vendor: cpuinfo::value(&cpuinfo, "vendor_id").map(str::to_owned),
            kernel_release: self.line("proc/sys/kernel/osrelease"),
            dmi_vendor: self.line("sys/class/dmi/id/sys_vendor"),
            dmi_asset_tag: self.line("sys/class/dmi/id/chassis_asset_tag"),
            acpi_maker: acpi.and_then(|table| Some(String::from_utf8_lossy(table.get(10..16)?).into_owned())),
            sev_snp: self.exists("dev/sev-guest") || self.exists("sys/devices/system/cpu/sev/vmpl"),
            sev_status: self.register(0xc001_0131),
            tdx: self.exists("dev/tdx_guest")
                || cpuinfo::value(&cpuinfo, "flags")
                    .is_some_and(|flags| flags.split(' ').any(|one| one == "tdx_guest")),
        }
    }

    fn container_signs(&self) -> container::Signs {
        container::Signs {
            cgroup_of_init: self.text("proc/1/cgroup"),
            environment_of_init: self.text("proc/1/environ").or_else(|| self.text("proc/self/environ")),
            systemd_says: self.line("run/systemd/container").or_else(|| self.line("run/host/container-manager")),
            podman_file: self.exists("run/.containerenv"),
            docker_file: self.exists(".dockerenv"),
            bubblewrap_is_init: self.line("proc/1/comm").as_deref() == Some("bwrap"),
            gvisor_kernel: self.exists("proc/gvisor")
                || self.line("proc/sys/kernel/osrelease").is_some_and(|release| release.ends_with("-gvisor"))
                // Those before 2023 have neither, and a build of their kernel that never changes.
                || self.line("proc/version").is_some_and(|line| line.ends_with("#1 SMP Sun Jan 10 15:06:54 PST 2016")),
            kubernetes_secret: self.exists("run/secrets/kubernetes.io") || self.exists("var/run/secrets/kubernetes.io"),
        }
    }

    fn governors(&self) -> Option<String> {
        let entries = fs::read_dir(self.root.join("sys/devices/system/cpu")).ok()?;
        let mut found: Vec<String> = entries
            .flatten()
            .filter_map(|entry| {
                let file = entry.path().join("cpufreq/scaling_governor");
                Some(kernel_file::text(file)?.trim().to_owned())
            })
            .filter(|governor| !governor.is_empty())
            .collect();
        found.sort();
        found.dedup();
        (!found.is_empty()).then(|| found.join(","))
    }

    fn cgroup_limits(&self) -> CgroupLimits {
        let read = |path: &Path| self.line(&path.strip_prefix("/").unwrap_or(path).to_string_lossy());
        let places = self.text("proc/self/cgroup").zip(self.text("proc/self/mountinfo"));
        places.map_or_else(CgroupLimits::default, |(own, mounts)| cgroup::limits(&own, &mounts, read))
    }

    fn throttled(&self, mounts: &str) -> Option<Throttled> {
        let read = |path: &Path| self.text(&path.strip_prefix("/").unwrap_or(path).to_string_lossy());
        cgroup::throttled(&self.text("proc/self/cgroup")?, mounts, read)
    }
}

/// What CPU quotas did to this process so far; `None` where the system keeps no account of it.
#[must_use]
pub fn throttled() -> Option<Throttled> {
    // Read once: the kernel writes a line for each mount, and control groups are not mounted anew meanwhile.
    static MOUNTS: OnceLock<Option<String>> = OnceLock::new();
    let tree = Tree { root: PathBuf::from("/") };
    tree.throttled(MOUNTS.get_or_init(|| tree.text("proc/self/mountinfo")).as_deref()?)
}

#[cfg(test)]
mod tests;
