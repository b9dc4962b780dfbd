//! `vtare selftest`: its exit codes and its document. That real faults are found is tests/test_selftest.py.

use std::process::Command;

use crate::common::{Outcome, VTARE, vtare_line};

#[test]
fn the_document_shows_what_was_injected_and_what_was_found() {
    let outcome = vtare_line("selftest --quick --only counter-rate,simulated-loss --seed 7 --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let document = outcome.json();
    assert_eq!((&document["found"], &document["missed"]), (&2.into(), &0.into()));
    let loss = &document["faults"][1];
    let number = |path: &str| loss.pointer(path).and_then(serde_json::Value::as_f64).expect("it is there");
    // 2 % each way, each by itself.
    assert!((number("/injected/0") - 0.0396).abs() < 1e-9, "{loss}");
    assert!(number("/interval/0") <= 0.0396 && 0.0396 <= number("/interval/1"), "{loss}");
}

#[test]
fn a_fault_that_is_claimed_and_not_injected_ends_with_exit_code_1() {
    let outcome = vtare_line("selftest --quick --only simulated-delay,simulated-loss --leave-out simulated-delay");
    assert_eq!(outcome.code, 1, "{}{}", outcome.stdout, outcome.stderr);
    let verdict = |name: &str| {
        let mut rows = outcome.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.find(|row| row.first() == Some(&name)).expect("a row")[1].to_owned()
    };
    assert_eq!((verdict("simulated-delay").as_str(), verdict("simulated-loss").as_str()), ("MISSED", "found"));
    assert!(outcome.stdout.contains("1 found, 1 missed, 0 skipped"), "{}", outcome.stdout);
}

#[test]
fn what_an_ordinary_user_cannot_inject_is_skipped_and_not_missed() {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", VTARE]);
    let output = command.args(["selftest", "--quick", "--only", "lateness"]).output();
    let Some(outcome) = output.ok().map(Outcome::of).filter(|it| !it.stderr.starts_with("setpriv:")) else {
        eprintln!("skipped: setpriv cannot make this an ordinary user here");
        return;
    };
    assert!(!outcome.stdout.contains("MISSED"), "{}{}", outcome.stdout, outcome.stderr);
    assert!(matches!(outcome.code, 0 | 3), "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn where_nothing_can_be_injected_the_reason_is_named_with_exit_code_3() {
    // There is no `unshare` there.
    let mut command = Command::new(VTARE);
    command.args(["selftest", "--only", "loss"]).env("PATH", "/nonexistent");
    let outcome = Outcome::of(command.output().expect("the binary is there"));
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("loss: no network namespaces here: unshare: No such file"), "{}", outcome.stdout);
}

#[test]
fn an_unknown_fault_is_refused_with_the_nearest_name() {
    let outcome = vtare_line("selftest --only thefd");
    outcome.refused(2, &["unknown fault 'thefd'. Did you mean 'theft'? Use one of counter-rate, "]);
}
