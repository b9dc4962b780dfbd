//! The far end as a process: what it reports to have given up is what the kernel reports of each of its threads, and
//! it serves all the same.

mod common;

use std::process::Command;

use common::Serving;
use vtare_methods::rpm::{RpmEvent, RpmLimits, RpmSettings};
use vtare_responsiveness::measure;

/// This field of the status of each thread that has not ended meanwhile.
fn of_threads(id: u32, field: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let text = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(thread.expect("it is listed").path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:"))).expect("Linux has it");
        Some(line.trim().to_owned())
    };
    threads.filter_map(text).collect()
}

/// The same, once `all` of them are so. The kernel passes over a thread that is just ending when it confines the
/// others, and lists it for some time.
async fn of_threads_once(id: u32, field: &str, all: impl Fn(&[String]) -> bool) -> Result<(), Vec<String>> {
    let mut found = Vec::new();
    for _ in 0..200 {
        found = of_threads(id, field);
        if all(&found) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Err(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_thread_is_confined_as_reported_and_both_directions_are_served() {
    let mut serving = Serving::with(RpmLimits::default());
    let (id, confined, address) = (serving.child.id(), serving.confined.clone(), serving.address.to_string());
    println!("{address}\n{confined}");

    for (field, wanted) in [("NoNewPrivs", "1"), ("CapEff", "0000000000000000")] {
        assert_eq!(of_threads_once(id, field, |all| all.iter().all(|value| value == wanted)).await, Ok(()), "{field}");
    }
    if confined.contains("(seccomp)") {
        let confined = |modes: &[String]| modes.len() > 1 && modes.iter().all(|mode| mode == "2");
        assert_eq!(of_threads_once(id, "Seccomp", confined).await, Ok(()));
    }
    if confined.contains("user nobody") {
        let users = of_threads(id, "Uid");
        assert!(users.iter().all(|user| user.split_whitespace().all(|one| one == "65534")), "{users:?}");
    }

    let settings = RpmSettings { most_ns: 2_000_000_000, ..RpmSettings::default() };
    let (keep, stopped) = tokio::sync::watch::channel(false);
    let mut events = Vec::new();
    measure::measure(&address, 1, settings, stopped, &mut |event: &RpmEvent| events.push(event.clone()))
        .await
        .expect("it serves");
    drop(keep);
    let served = |event: &&RpmEvent| matches!(event, RpmEvent::Direction { lost: None, failed_probes: 0, .. });
    assert_eq!(events.iter().filter(served).count(), 2, "{:?}", events.last());

    let ended = Command::new("kill").args(["-TERM", &id.to_string()]).status().expect("it starts");
    assert!(ended.success());
    let code = serving.child.wait().expect("it ends");
    assert_eq!(code.code(), Some(0), "SIGTERM is its ordinary end");
}
