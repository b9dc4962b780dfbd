//! Instruments whose process is stopped for a while: the time is named as an outage, and in no figure.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::skips::{Disturbance, Judged, first_good};
use crate::common::{Outcome, VTARE, pause};

/// How long the process is stopped.
const STOPPED_MS: i64 = 600;

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill is there");
    assert!(sent.success());
}

/// A run that is stopped for [`STOPPED_MS`] once it has measured for a while.
fn stopped_run(line: &str) -> Outcome {
    let mut command = Command::new(VTARE);
    let child = command.args(line.split_whitespace()).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("it starts");
    pause(1_200);
    signal("-STOP", child.id());
    pause(STOPPED_MS);
    signal("-CONT", child.id());
    Outcome::of(child.wait_with_output().expect("it ends"))
}

/// The outages of all cells, and the text of their notes.
fn outages(document: &Value) -> (Vec<Value>, String) {
    let cells = document["cells"].as_array().expect("there are cells").iter();
    let found = cells.flat_map(|cell| cell["outages"].as_array().expect("each has the list").clone()).collect();
    let notes = document["notes"].as_array().expect("there are notes").iter();
    let named = notes.filter(|note| note["id"] == "stalled").map(|note| note["text"].to_string()).collect();
    (found, named)
}

/// Whether one outage of about the right length is named with one of these causes, and no figure below `figures` holds
/// it. Where another program had the CPU for long, the stop is not far above anything else.
fn judge(outcome: &Outcome, causes: &[&str], figures: &str, disturbance: &Disturbance) -> Judged {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let (found, named) = outages(&document);
    let [outage] = &found[..] else {
        let why = format!("{} outages", found.len());
        let stalled = disturbance.explains(STOPPED_MS.cast_unsigned() * 1_000_000 / 3);
        return if stalled { Judged::Explained(why) } else { Judged::Unexplained(why) };
    };
    let length_ms = outage["length_ns"].as_i64().expect("a number") / 1_000_000;
    assert!((STOPPED_MS - 50..STOPPED_MS + 400).contains(&length_ms), "{outage}");
    assert_eq!(outage["place"], "here", "the word of rtt");
    assert!(outage["began_ns"].as_i64().is_some_and(|began| (100_000_000..5_000_000_000).contains(&began)), "{outage}");
    assert!(causes.contains(&outage["cause"].as_str().expect("a word")), "{outage}");
    assert!(named.contains("stopped") && named.contains("No figure includes"), "{named}");
    for cell in document["cells"].as_array().expect("there are cells") {
        let most = cell[figures]["max"].as_f64().unwrap_or(0.0);
        assert!(most < outage["length_ns"].as_f64().expect("a number") * 0.9, "{figures} up to {most}");
    }
    Judged::Good
}

#[test]
fn a_stopped_noise_is_no_gap_of_other_programs() {
    let run = || stopped_run("noise --seconds 3 --cpu 0");
    first_good(3, run, |outcome, disturbance| judge(outcome, &["stopped"], "gap_ns", disturbance));
}

#[test]
fn a_stopped_sleep_is_no_late_sleep() {
    for method in ["usleep", "spin"] {
        let run = || stopped_run(&format!("sleep --method {method} --target 1ms --samples 100000 --seconds 3"));
        let causes = ["stopped", "stopped_or_machine_stalled"];
        first_good(3, run, |outcome, disturbance| judge(outcome, &causes, "miss_ns", disturbance));
    }
}

#[test]
fn a_stopped_counter_is_no_slow_call() {
    let run = || stopped_run("counter --batches 4 --calls 10 --max-exponent 3 --unit-ms 5");
    first_good(3, run, |outcome, disturbance| judge(outcome, &["stopped"], "runtime_ns", disturbance));
}

#[test]
fn a_run_that_nobody_stops_has_an_empty_list() {
    for line in ["noise --seconds 0.3 --cpu 0", "sleep --method usleep --target 1ms --samples 20"] {
        let outcome = crate::common::vtare_line(&format!("{line} --json"));
        let (found, _) = outages(&outcome.json());
        // A machine that itself stalls in just this moment is named as such.
        assert!(found.iter().all(|outage| outage["cause"] != "stopped"), "{found:?}");
    }
}
