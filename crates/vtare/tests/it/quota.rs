//! In a control group with a CPU quota each instrument names the quota, and blames no other program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::wire::Responder;
use crate::common::{Outcome, VTARE, pause};

/// A control group that may use a tenth of a CPU; removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Makes it; `None`, with the reason on stderr, where this user or machine cannot.
    fn new() -> Option<Self> {
        let name = format!("vtare-test-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        let (place, file, quota) = match version_1.exists() {
            true => (version_1.join(name), "cpu.cfs_quota_us", "10000"),
            false => (Path::new("/sys/fs/cgroup").join(name), "cpu.max", "10000 100000"),
        };
        let made = std::fs::create_dir(&place).and_then(|()| std::fs::write(place.join(file), quota));
        let group = Self(place);
        made.map_err(|error| eprintln!("skipped: no control group here: {error}")).ok().map(|()| group)
    }

    fn vtare(&self, line: &str) -> Outcome {
        let script = format!("echo $$ > {}/cgroup.procs && exec {VTARE} {line}", self.0.display());
        Outcome::of(Command::new("sh").args(["-c", &script]).output().expect("there is a shell"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of ended processes a moment after they are gone.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            pause(20);
        }
    }
}

#[test]
fn every_instrument_names_the_quota_and_no_other_program() {
    let Some(group) = Group::new() else { return };
    let responder = Responder::on_loopback();
    for line in [
        "noise --seconds 1".to_owned(),
        "sleep --method spin --target 1ms --samples 200".to_owned(),
        "counter --batches 2 --calls 5 --max-exponent 4 --unit-ms 1".to_owned(),
        format!("rtt {} --rate 200 --seconds 1", responder.address),
    ] {
        let outcome = group.vtare(&line);
        assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
        let words = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("CPU quota") && words.contains("0.10 CPUs"), "{line}: {words}");
        for blamed in ["Other work", "vtare noise --cpu", "what is using"] {
            assert!(!words.contains(blamed), "{line}: {words}");
        }
    }
    let document = group.vtare("noise --seconds 1 --json").json();
    let causes = &document["cells"][0]["causes"];
    // On a busy machine others take their share, too.
    let ns = |name: &str| causes[name].as_f64().unwrap_or_else(|| panic!("{name} in {causes:#}"));
    assert!(ns("quota_ns") > 0.1 * ns("lost_ns"), "{causes:#}");
    assert!(ns("quota_ns") + ns("other_threads_ns") <= 1.2 * ns("lost_ns"), "{causes:#}");
}
