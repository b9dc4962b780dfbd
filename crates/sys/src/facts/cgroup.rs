//! The limits of the control groups around this process, in version 1, version 2 and hybrid hierarchies.

use std::path::{Path, PathBuf};

use serde::Serialize;
use vtare_units::Span;

/// The limits, in the words of version 2. `None` where no controller states one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CgroupLimits {
    /// CPU time and period in us, `max 100000` or `50000 100000`; the tightest of this group and all above it.
    pub cpu_max: Option<String>,
    /// The CPUs the group may use, as a list: `0-1`.
    pub cpuset: Option<String>,
    /// The most memory in bytes, or `max`; the tightest of this group and all above it.
    pub memory_max: Option<String>,
}

/// Reads the limits. `own` is `/proc/self/cgroup`, `mounts` is `/proc/self/mountinfo`, `read` gives a file's trimmed
/// text.
pub(super) fn limits(own: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> CgroupLimits {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    CgroupLimits {
        cpu_max: groups(own, &mounts, "cpu").and_then(|groups| tightest_cpu(&groups, &read)),
        cpuset: groups(own, &mounts, "cpuset").and_then(|groups| nearest_cpuset(&groups, &read)),
        memory_max: groups(own, &mounts, "memory").and_then(|groups| tightest_memory(&groups, &read)),
    }
}

/// What CPU quotas did to the control groups around this process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which the quota was used up.
    pub periods: u64,
    /// Time that threads waited for the next period, of all CPUs together.
    pub time: Span,
}

impl Throttled {
    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let periods = self.periods.checked_sub(earlier.periods)?;
        (self.time >= earlier.time).then(|| Self { periods, time: self.time - earlier.time })
    }

    /// `cpu.stat` of one group, in version 1 (ns) or 2 (us).
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok()
        };
        let ns = value("throttled_time").or_else(|| value("throttled_usec")?.checked_mul(1_000))?;
        Some(Self { periods: value("nr_throttled")?, time: Span::from_nanos(i64::try_from(ns).ok()?) })
    }
}

/// Reads what the quotas of this group and of all above it did, added up; `None` where no group keeps an account.
pub(super) fn throttled(own: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Throttled> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let directories = groups(own, &mounts, "cpu")?.directories;
    let found = directories.iter().filter_map(|directory| Throttled::parse(&read(&directory.join("cpu.stat"))?));
    found.reduce(|sum, one| Throttled { periods: sum.periods + one.periods, time: sum.time + one.time })
}

/// One mounted hierarchy.
struct Mount {
    /// The group that the mount point shows.
    root: String,
    point: PathBuf,
    /// The controllers of a version 1 hierarchy; `None` for version 2.
    controllers: Option<Vec<String>>,
}

impl Mount {
    /// proc_pid_mountinfo(5): `36 35 98:0 ROOT POINT OPTIONS [TAG ...] - TYPE SOURCE SUPER_OPTIONS`.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (unescape(before.next()?), PathBuf::from(unescape(before.next()?)));
        let mut after = after.split(' ');
        let controllers = match after.next()? {
            "cgroup2" => None,
            "cgroup" => Some(after.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Self { root, point, controllers })
    }
}

/// mountinfo writes space, tab, newline and backslash as `\040` and the like.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The directories of a controller's groups, from this process's own up to the mount point.
struct Groups {
    version: u8,
    directories: Vec<PathBuf>,
}

fn groups(own: &str, mounts: &[Mount], controller: &str) -> Option<Groups> {
    let entries: Vec<(&str, &str)> = own
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    // A controller that a version 1 hierarchy holds is not in version 2 (hybrid systems mount both).
    let first = entries.iter().find(|(names, _)| names.split(',').any(|name| name == controller));
    let (version, path) = match first {
        Some((_, path)) => (1, *path),
        None => (2, entries.iter().find(|(names, _)| names.is_empty())?.1),
    };
    let mount = mounts.iter().find(|mount| match &mount.controllers {
        Some(held) => version == 1 && held.iter().any(|name| name == controller),
        None => version == 2,
    })?;
    // Inside a container the mount may show the container's own group as its root.
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let below = if below.components().any(|part| part.as_os_str() == "..") { Path::new("") } else { below };
    let own_directory = mount.point.join(below);
    let directories = own_directory
        .ancestors()
        .take_while(|directory| directory.starts_with(&mount.point))
        .map(Path::to_path_buf)
        .collect();
    Some(Groups { version, directories })
}

fn tightest_cpu(groups: &Groups, read: impl Fn(&Path) -> Option<String>) -> Option<String> {
    let limits = groups.directories.iter().filter_map(|directory| {
        let text = if groups.version == 2 {
            read(&directory.join("cpu.max"))?
        } else {
            let quota = read(&directory.join("cpu.cfs_quota_us"))?;
            let period = read(&directory.join("cpu.cfs_period_us"))?;
            let quota = if quota.starts_with('-') { "max".to_owned() } else { quota };
            format!("{quota} {period}")
        };
        let (quota, period) = text.split_once(' ')?;
        let period: f64 = period.trim().parse().ok().filter(|period| *period > 0.0)?;
        let share = if quota == "max" { f64::INFINITY } else { quota.parse::<f64>().ok()? / period };
        Some((share, text))
    });
    limits.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, text)| text)
}

fn nearest_cpuset(groups: &Groups, read: impl Fn(&Path) -> Option<String>) -> Option<String> {
    let files: &[&str] =
        if groups.version == 2 { &["cpuset.cpus.effective"] } else { &["cpuset.effective_cpus", "cpuset.cpus"] };
    groups
        .directories
        .iter()
        .find_map(|directory| files.iter().find_map(|file| read(&directory.join(file)).filter(|text| !text.is_empty())))
}

fn tightest_memory(groups: &Groups, read: impl Fn(&Path) -> Option<String>) -> Option<String> {
    // Version 1 writes "no limit" as the highest multiple of a page below 2^63.
    const UNLIMITED_BYTE: u64 = (1 << 63) - (1 << 16);
    let file = if groups.version == 2 { "memory.max" } else { "memory.limit_in_bytes" };
    let limits = groups.directories.iter().filter_map(|directory| {
        let text = read(&directory.join(file))?;
        if text == "max" { Some(u64::MAX) } else { text.parse().ok() }
    });
    limits.min().map(|byte| if byte >= UNLIMITED_BYTE { "max".to_owned() } else { byte.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn with_files(own: &str, mounts: &str, files: &[(&str, &str)]) -> CgroupLimits {
        let files: HashMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        limits(own, mounts, |path| files.get(path).cloned())
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    const V2_MOUNT: &str = "29 22 0:25 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn what_quotas_did_is_added_up_over_the_groups_in_both_versions() {
        let files = |files: &[(&str, &str)]| {
            let files: HashMap<PathBuf, String> =
                files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
            move |path: &Path| files.get(path).cloned()
        };
        let v2 = files(&[
            ("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_periods 20\nnr_throttled 7\nthrottled_usec 1500\n"),
            ("/sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_periods 20\nnr_throttled 1\nthrottled_usec 500\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
        ]);
        let found = throttled("0::/a/b\n", V2_MOUNT, v2).expect("two groups have an account");
        assert_eq!(found, Throttled { periods: 8, time: Span::from_micros(2_000) });
        let v1_mount = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let v1 = files(&[("/sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 77\n")]);
        let later = throttled("3:cpu,cpuacct:/a\n", v1_mount, v1).expect("it has an account");
        assert_eq!(later, Throttled { periods: 2, time: Span::from_nanos(77) });
        assert_eq!(later.since(&Throttled::default()), Some(later));
        assert_eq!(later.since(&found), None, "another group");
        assert_eq!(throttled("0::/a\n", V2_MOUNT, |_: &Path| None), None);
        for damaged in ["", "nr_throttled x\nthrottled_time 1", "nr_throttled 1", "throttled_usec 99999999999999999999"]
        {
            assert_eq!(Throttled::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn version_2_gives_the_tightest_limit_of_the_group_and_those_above() {
        let found = with_files(
            "0::/user.slice/user-1000.slice/job.scope\n",
            &format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{V2_MOUNT}"),
            &[
                ("/sys/fs/cgroup/user.slice/user-1000.slice/job.scope/cpu.max", "max 100000"),
                ("/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "150000 100000"),
                ("/sys/fs/cgroup/user.slice/cpu.max", "200000 100000"),
                ("/sys/fs/cgroup/user.slice/user-1000.slice/job.scope/memory.max", "1073741824"),
                ("/sys/fs/cgroup/user.slice/memory.max", "max"),
                ("/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-3"),
                ("/sys/fs/cgroup/cpuset.cpus.effective", "0-7"),
            ],
        );
        assert_eq!(
            found,
            CgroupLimits { cpu_max: text("150000 100000"), cpuset: text("0-3"), memory_max: text("1073741824") }
        );
    }

    #[test]
    fn a_container_with_its_own_cgroup_namespace_finds_its_limits_at_the_mount() {
        let found = with_files(
            "0::/\n",
            V2_MOUNT,
            &[("/sys/fs/cgroup/cpu.max", "50000 100000"), ("/sys/fs/cgroup/memory.max", "max")],
        );
        assert_eq!(found, CgroupLimits { cpu_max: text("50000 100000"), cpuset: None, memory_max: text("max") });
    }

    #[test]
    fn version_1_is_shown_in_the_words_of_version_2() {
        let found = with_files(
            "11:cpuset:/docker/3f1a\n4:memory:/docker/3f1a\n3:cpu,cpuacct:/docker/3f1a\n1:name=systemd:/docker/3f1a\n",
            "30 25 0:26 /docker/3f1a /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
             31 25 0:27 /docker/3f1a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             32 25 0:28 /docker/3f1a /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
            &[
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ("/sys/fs/cgroup/cpuset/cpuset.cpus", "0,2"),
            ],
        );
        assert_eq!(found, CgroupLimits { cpu_max: text("max 100000"), cpuset: text("0,2"), memory_max: text("max") });
    }

    #[test]
    fn a_hybrid_system_takes_each_controller_where_it_is() {
        let found = with_files(
            "9:name=systemd:/\n4:memory:/job/1\n3:cpuset:/\n1:cpu:/\n0::/\n",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            &[
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000"),
                ("/sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "4096"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
                ("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1"),
                ("/sys/fs/cgroup/unified/cpu.max", "1 100000"),
            ],
        );
        assert_eq!(found, CgroupLimits { cpu_max: text("25000 50000"), cpuset: text("0-1"), memory_max: text("4096") });
    }

    #[test]
    fn without_control_groups_there_is_no_limit_to_state() {
        assert_eq!(with_files("", "", &[]), CgroupLimits::default());
        assert_eq!(with_files("0::/\n", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", &[]), CgroupLimits::default());
    }

    #[test]
    fn a_path_that_climbs_out_of_the_namespace_ends_at_the_mount() {
        let found = with_files("0::/../other\n", V2_MOUNT, &[("/sys/fs/cgroup/cpu.max", "max 100000")]);
        assert_eq!(found.cpu_max, text("max 100000"));
    }

    #[test]
    fn spaces_in_mount_points_are_kept() {
        let mount = "29 22 0:25 / /a\\040b rw - cgroup2 cgroup2 rw\n";
        assert_eq!(with_files("0::/\n", mount, &[("/a b/cpu.max", "max 100000")]).cpu_max, text("max 100000"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(own in "[0-9:,a-z/.\n]{0,120}", mounts in "[0-9:a-z/ \\-,\n]{0,200}", file: String) {
            let _ = limits(&own, &mounts, |_| Some(file.clone()));
            let _ = limits(&own, V2_MOUNT, |_| Some(file.clone()));
        }
    }
}
