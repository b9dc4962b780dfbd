//! A signal ends a measurement early; what was measured is kept and labelled.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::common::{Outcome, Place, VTARE};
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Waits until some thread beside the main one has slept several times: then there are samples.
fn wait_for_samples(child: &mut Child) {
    let tasks = format!("/proc/{}/task", child.id());
    loop {
        let slept = fs::read_dir(&tasks).into_iter().flatten().flatten().any(|task| {
            let main = task.file_name().to_string_lossy() == child.id().to_string();
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            !main && switches.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 10)
        });
        if slept {
            return;
        }
        assert!(child.try_wait().expect("the child is ours").is_none(), "it ended before it was interrupted");
        std::thread::yield_now();
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(status.expect("kill is there").success());
}

#[test]
fn an_interrupted_run_keeps_its_samples_and_labels_them() {
    for name in ["INT", "TERM"] {
        let place = Place::new();
        let out = place.file("s.parquet");
        let mut child = Command::new(VTARE)
            .args(["sleep", "--method", "usleep", "--target", "1ms", "--samples", "10000000", "--json", "--out"])
            .arg(&out)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        wait_for_samples(&mut child);
        signal(&child, name);
        let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
        assert_eq!(outcome.code, 130, "SIG{name}: {}", outcome.stderr);
        let document = outcome.json();
        assert_eq!(document["interrupted"], true);
        let n = document["cells"][0]["miss_ns"]["n"].as_i64().expect("a count");
        assert!(n > 0, "it had slept");
        assert_eq!(place.files(), ["s.parquet"]);
        let reader = SerializedFileReader::new(fs::File::open(&out).expect("there")).expect("it is Parquet");
        let facts = reader.metadata().file_metadata();
        assert_eq!(facts.num_rows(), n);
        let pairs = facts.key_value_metadata().expect("there is a footer");
        let footer = pairs.iter().find(|pair| pair.key == "vtare").and_then(|pair| pair.value.as_deref());
        let footer: serde_json::Value = serde_json::from_str(footer.expect("it is vtare's")).expect("it is JSON");
        assert_eq!(footer["interrupted"], true);
    }
}

#[test]
fn a_killed_run_leaves_nothing_where_files_can_be_unnamed() {
    let place = Place::new();
    if vtare_sys::process::nameless_file(place.path(), 0o600).expect("the place is writable").is_none() {
        eprintln!("skipped: this file system has no unnamed files");
        return;
    }
    let mut child = Command::new(VTARE)
        .args(["sleep", "--method", "usleep", "--target", "1ms", "--samples", "10000000", "--out"])
        .arg(place.file("s.parquet"))
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    wait_for_samples(&mut child);
    signal(&child, "KILL");
    assert!(child.wait().expect("it ends").code().is_none(), "a signal ended it");
    assert!(place.files().is_empty(), "{:?}", place.files());
}
