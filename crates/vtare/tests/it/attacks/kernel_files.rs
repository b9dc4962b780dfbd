//! Commands over a `/proc` and `/sys` that somebody else has made, as a container may have them: empty, garbage, huge,
//! numbers beyond all bounds, pipes that nobody writes, devices without an end, or nothing at all.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use vtare_units::Random;

use super::daemon::survived;
use crate::common::{Outcome, Place, VTARE};

/// What the commands read, and some that they do not.
const FILES: [&str; 33] = [
    "proc/stat",
    "proc/interrupts",
    "proc/softirqs",
    "proc/loadavg",
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/version",
    "proc/meminfo",
    "proc/uptime",
    "proc/pressure/cpu",
    "proc/pressure/io",
    "proc/self/stat",
    "proc/self/status",
    "proc/self/maps",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/environ",
    "proc/thread-self/schedstat",
    "proc/thread-self/status",
    "proc/1/cgroup",
    "proc/1/environ",
    "proc/1/comm",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/random/boot_id",
    "proc/sys/kernel/sched_autogroup_enabled",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/kernel/realtime",
    "sys/class/dmi/id/sys_vendor",
];

/// What is in the place of each file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Empty,
    Garbage,
    Huge,
    Numbers,
    Pipe,
    Endless,
}

fn lay(root: &Path, content: Content) {
    for (number, file) in FILES.iter().enumerate() {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the place is writable");
        let bytes = match content {
            Content::Garbage => {
                let mut random = Random::new(number as u64 + 1);
                (0..3_000).map(|_| random.bits() as u8).collect()
            }
            Content::Numbers => {
                let numbers = format!(" {} -1 1e999 {}", u64::MAX, "9".repeat(400)).repeat(5);
                let lines = ["cpu", "cpu0", "cpu1", " 0:", "SigIgn:", "voluntary_ctxt_switches:", "some avg10="];
                lines.iter().map(|start| format!("{start}{numbers}\n")).collect::<String>().into_bytes()
            }
            Content::Empty | Content::Huge => Vec::new(),
            // glibc reads it before main; the static binary that is shipped has another C library.
            Content::Pipe | Content::Endless if *file == "proc/self/maps" => continue,
            Content::Pipe | Content::Endless => {
                let made = match content {
                    Content::Pipe => Command::new("mkfifo").arg(&path).status(),
                    _ => Command::new("mknod").arg(&path).args(["c", "1", "5"]).status(),
                };
                assert!(made.expect("it is installed").success(), "{file}");
                continue;
            }
        };
        let file = std::fs::write(&path, bytes).and_then(|()| std::fs::File::options().write(true).open(&path));
        if content == Content::Huge {
            file.expect("it is writable").set_len(8 << 30).expect("it is sparse");
        }
    }
}

/// Runs the binary where `script` has made the mounts; `None`, with the reason, where this user may not.
fn in_mounts(script: &str, root: &Path, line: &str) -> Option<Outcome> {
    let script = format!("set -e; {script}; exec timeout 60 \"$1\" {line}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(root).arg(VTARE);
    let output = command.stdin(Stdio::null()).output().expect("unshare is installed");
    let outcome = Outcome::of(output);
    if outcome.stderr.contains("unshare failed") || outcome.stderr.contains("mount: ") {
        eprintln!("skipped: no mounts of one's own here: {}", outcome.stderr.trim());
        return None;
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert_ne!(outcome.code, 124, "{line} did not end in 60 s");
    Some(outcome)
}

const BIND: &str = "mount --bind \"$0/proc\" /proc; mount --bind \"$0/sys\" /sys";
const NONE: &str = "mount -t tmpfs none /proc; mount -t tmpfs none /sys";

/// What only the kernel's files tell must be missing where they tell nothing, and never 0.
fn nothing_is_known(line: &str, document: &Value) {
    let machine = &document["machine"];
    for fact in ["kernel", "cpu_model", "memory_byte", "steal_ns_before", "load_average_1min", "boot_id"] {
        assert_eq!(machine[fact], Value::Null, "{line}: {fact}");
    }
    for cell in document["cells"].as_array().into_iter().flatten() {
        let Some(causes) = cell.get("causes") else { continue };
        for cause in ["steal_ns", "interrupts", "softirqs", "other_threads_ns", "cpu_pressure_ns"] {
            assert_eq!(causes.get(cause).unwrap_or(&Value::Null), &Value::Null, "{line}: {cause}");
        }
    }
}

#[test]
#[ignore = "18 commands: make test-all"]
fn attack_kernel_files_that_are_none() {
    let lines = ["noise --seconds 0.3 --json", "timer --samples 200 --json", "sleep --samples 3 --json"];
    for content in [Content::Empty, Content::Garbage, Content::Huge, Content::Numbers, Content::Pipe, Content::Endless]
    {
        let place = Place::new();
        lay(place.path(), content);
        for line in lines {
            let Some(outcome) = in_mounts(BIND, place.path(), line) else { return };
            assert_eq!(outcome.code, 0, "{content:?}, {line}: {}", outcome.stderr);
            let document = outcome.json();
            if !matches!(content, Content::Garbage | Content::Numbers) {
                nothing_is_known(line, &document);
            }
        }
    }
    survived("kernel_files", format!("hung 0 of {}", 6 * lines.len()));
}

#[test]
#[ignore = "vtare check takes 5 s, three times: make test-all"]
fn attack_check_over_kernel_files_that_are_none() {
    for content in [Content::Empty, Content::Garbage, Content::Pipe] {
        let place = Place::new();
        lay(place.path(), content);
        let Some(outcome) = in_mounts(BIND, place.path(), "check --seconds 5 --json") else { return };
        assert_eq!(outcome.code, 0, "{content:?}: {}", outcome.stderr);
        assert!(outcome.json()["schema"].is_string());
    }
    survived("kernel_files_check", "hung 0 of 3");
}

#[test]
fn attack_no_proc_at_all_is_named_with_the_command_that_mounts_it() {
    let place = Place::new();
    let fix = "mount -t proc proc /proc";
    for line in ["noise --seconds 0.3 --json", "timer --samples 200 --json", "sleep --samples 3 --json"] {
        let Some(outcome) = in_mounts(NONE, place.path(), line) else { return };
        assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
        nothing_is_known(line, &outcome.json());
        let notes = outcome.json()["notes"].to_string();
        assert!(notes.contains("proc_missing") && notes.contains(fix), "{line}: {notes}");
    }
    for line in ["exec true", "selftest", "doctor"] {
        let Some(outcome) = in_mounts(NONE, place.path(), line) else { return };
        outcome.refused(3, &["/proc", fix]);
    }
    survived("no_proc", "messages without the fix 0");
}
