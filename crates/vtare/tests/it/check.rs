//! `vtare check` as people and programs start it.

use std::process::{Command, Stdio};

use crate::common::{Outcome, VTARE, vtare, vtare_line};
use serde_json::Value;

#[test]
fn a_short_check_states_its_verdict_in_sentences_with_figures() {
    let outcome = vtare_line("check --seconds 5 --seed 3 --json");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stderr, "", "nothing is drawn where stderr is no terminal");
    let document = outcome.json();
    assert_eq!((&document["schema"], &document["seed"]), (&"vtare.check/1".into(), &3.into()));
    let findings = document["findings"].as_array().expect("a list");
    assert!(!findings.is_empty());
    for finding in findings {
        assert!(
            finding["figure"].is_number() && finding["text"].as_str().is_some_and(|text| text.ends_with('.')),
            "{finding}"
        );
        assert!(["ns", "1"].iter().any(|unit| finding["unit"] == *unit), "{finding}");
    }
    let verdict = document["verdict"].as_str().expect("a text");
    let carried = |id: &str| {
        findings.iter().any(|finding| finding["id"] == id && verdict.contains(finding["text"].as_str().unwrap_or("-")))
    };
    // On a machine so busy that half of the sleeps were not made there is no median to state.
    let cells = document["cells"]["sleep"].as_array().expect("a list").iter();
    let stated = cells.filter(|cell| cell["target_ns"] == 50_000 && cell["asked_median_ns"].is_number());
    let told = stated.filter(|cell| ["usleep", "adaptive"].iter().any(|method| cell["method"] == *method)).count();
    assert!(carried("durations") && (carried("sleep_50us") || told == 0), "{verdict}");
    for part in ["timer", "sleep", "counter", "noise"] {
        assert!(document["cells"][part].as_array().is_some_and(|cells| !cells.is_empty()), "{part}");
    }
    assert!(verdict.starts_with(document["answer"]["text"].as_str().expect("a text")), "{verdict}");
    assert_eq!(document["answer"]["status"], document["status"]);
    assert!(["good", "usable", "not_now"].iter().any(|status| document["status"] == *status), "{verdict}");
    assert!(document["answer"]["advice"] == document["advice"]);
    let causes = document["causes"].as_array().expect("a list");
    assert_eq!(causes.len(), document["answer"]["limits"].as_array().expect("a list").len());
    assert!(causes.iter().all(|cause| cause["share"].as_f64().is_some_and(|share| share > 0.0)), "{causes:?}");
    let points = document["durations"]["points"].as_array().expect("a list");
    let rests_on = &document["rests_on"];
    let row = points.iter().find(|point| point["duration_ns"] == rests_on["duration_ns"]);
    let row = row.map_or(&document["durations"]["longer"]["median"], |point| &point["error_p95"]["median"]);
    assert_eq!(row, &rests_on["error"], "the row that the verdict rests on is in the table");
    for standing in document["standings"].as_array().expect("a list") {
        assert!(
            standing["worse"].as_u64() <= standing["published"].as_array().map(|rows| rows.len() as u64),
            "{standing}"
        );
    }
}

#[test]
fn the_screen_has_at_most_8_lines_of_80_columns_and_a_condition_decides_the_exit_code() {
    let outcome = vtare([
        "check",
        "--seconds",
        "5",
        "--fail-if",
        "resolution_from_ns >= 0",
        "--fail-if",
        "status worse than good",
    ]);
    let first = outcome.stdout.lines().next().expect("a first line");
    outcome.refused(1, &["limit 'resolution_from_ns >= 0' "]);
    assert_eq!(
        outcome.stderr.contains("limit 'status worse than good' crossed"),
        !first.starts_with("GOOD: "),
        "{first}"
    );
    let (count, widest) =
        (outcome.stdout.lines().count(), outcome.stdout.lines().map(|line| line.chars().count()).max());
    assert!((4..=8).contains(&count) && widest <= Some(80), "{}", outcome.stdout);
    assert!(outcome.stdout.ends_with("More: vtare check -v\n"), "{}", outcome.stdout);
}

#[test]
fn witnesses_that_answer_nothing_leave_utc_unconfirmed_on_a_short_screen() {
    // Nobody listens on the discard port.
    let outcome = vtare_line("check --seconds 5 --witness 127.0.0.1:9");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // The verdict in front of it may take two lines.
    let said = outcome.stdout.find("\nUTC is not confirmed: too few hosts stated UTC: 0, needed 1");
    assert!(said.is_some(), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().count() <= 8, "{}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    vtare_line("check --witness ,").refused(2, &["--witness", "0 witnesses"]);
    vtare_line("check --key-file key").refused(2, &["--witness"]);
    vtare_line("check --fail-if utc_error>5ms").refused(2, &["utc_error_ns > 5000000", "--witness"]);
}

#[test]
fn an_interrupted_check_keeps_one_valid_document() {
    let child = Command::new(VTARE)
        .args(["check", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // Signals before the handlers stand would end it without a word: wait until both are caught.
    let caught = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        u64::from_str_radix(&mask, 16).ok().map(|mask| mask >> 1 & 1 == 1 && mask >> 14 & 1 == 1)
    };
    while !std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok().and_then(caught).unwrap_or(false) {
        std::thread::yield_now();
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, 130, "{}", outcome.stderr);
    let document = outcome.json();
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["cells"]["noise"], Value::Null);
}

#[test]
fn a_time_too_short_to_measure_in_is_refused() {
    vtare_line("check --seconds 1").refused(2, &["--seconds is 1: use 5 to 3600"]);
    vtare(["check", "--fail-if", "status worse than usble"]).refused(2, &["Did you mean 'usable'"]);
    vtare(["check", "--fail-if", "resolutoin > 5"]).refused(2, &["resolution_percent"]);
    vtare_line("check --write card.json --json").refused(2, &["--write", "--json"]);
    vtare_line("check --seconds never").refused(2, &["'never' is not"]);
}
