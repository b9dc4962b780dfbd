//! `vtare exec` as people meet it: what it refuses, and with which exit code. What runs under the library is tested in
//! tests/preload.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Outcome, Place, VTARE};

/// `vtare exec` with an empty file in the library's place: the dynamic linker names it and goes on, which is enough
/// here.
fn exec(place: &Place, words: &[&str]) -> Outcome {
    let library = place.with("libvtare_preload.so", "");
    let mut command = Command::new(VTARE);
    command.arg("exec").args(words).env("VTARE_PRELOAD", library).env("PATH", "/usr/bin:/bin").env_remove("LD_PRELOAD");
    Outcome::of(command.output().expect("the binary starts"))
}

fn executable(place: &Place, name: &str, content: &str) -> String {
    let file = place.with(name, content);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    file.to_str().expect("plain").to_owned()
}

#[test]
fn the_exit_code_and_the_arguments_are_the_programs() {
    let place = Place::new();
    let outcome = exec(&place, &["--", "sh", "-c", "echo $0 $1; exit 7", "--report", "-x"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (7, "--report -x\n"), "{}", outcome.stderr);
    let outcome = exec(&place, &["--report", "sh", "-c", "exit 7"]);
    assert_eq!(outcome.code, 7, "{}", outcome.stderr);
}

#[test]
fn a_plain_program_has_neither_the_library_nor_the_slack() {
    let script = "echo ${LD_PRELOAD:-none} $(cat /proc/self/timerslack_ns)";
    let mut command = Command::new(VTARE);
    // Nothing is in the library's place: it is not looked for.
    command.args(["exec", "--plain", "--with-parent", "--", "sh", "-c", script]);
    command.env("VTARE_PRELOAD", "/nonexistent").env_remove("LD_PRELOAD");
    // Read in a child: the kernel shows that of the main thread only to the main thread itself, or to root.
    let own = Command::new("cat").arg("/proc/self/timerslack_ns").output().expect("cat runs").stdout;
    let own = String::from_utf8(own).expect("it is a number");
    let outcome = Outcome::of(command.output().expect("the binary starts"));
    assert_eq!((outcome.code, outcome.stdout), (0, format!("none {own}")), "{}", outcome.stderr);
    exec(&Place::new(), &["--plain", "--sleep", "spin", "true"]).refused(2, &["--plain", "--sleep"]);
}

#[test]
fn a_program_that_a_signal_ended_under_a_report_gives_128_and_the_signal() {
    let outcome = exec(&Place::new(), &["--report", "sh", "-c", "kill -9 $$"]);
    assert_eq!(outcome.code, 137, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no process loaded the library"), "{}", outcome.stderr);
}

#[test]
fn a_missing_library_is_named_with_the_places_and_exits_with_3() {
    let place = Place::new();
    let mut command = Command::new(VTARE);
    command.args(["exec", "true"]).env("VTARE_PRELOAD", place.file("none.so"));
    Outcome::of(command.output().expect("the binary starts"))
        .refused(3, &["libvtare_preload.so is missing", "none.so"]);
}

#[test]
fn what_cannot_be_started_exits_as_a_shell_does() {
    let place = Place::new();
    exec(&place, &["no-such-program"]).refused(127, &["no-such-program", "PATH"]);
    exec(&place, &["./no/such/program"]).refused(127, &["./no/such/program"]);
    let plain = place.with("plain", "#!/bin/sh\n");
    exec(&place, &[plain.to_str().expect("plain")]).refused(126, &["not executable", "chmod"]);
    exec(&place, &["/"]).refused(126, &["is a directory"]);
    exec(&place, &[&executable(&place, "text", "hello\n")]).refused(126, &["neither a program", "#!"]);
    let orphan = executable(&place, "orphan", "#!/no/such/interpreter\n");
    exec(&place, &[&orphan]).refused(127, &["orphan", "/no/such/interpreter"]);
    let looped = place.file("looped");
    executable(&place, "looped", &format!("#!{}\n", looped.display()));
    exec(&place, &[looped.to_str().expect("plain")]).refused(126, &["name each other"]);
}

#[test]
fn a_script_is_judged_by_what_runs_it() {
    let place = Place::new();
    // This binary is dynamic in tests and static as shipped; busybox is static wherever it is the Debian one.
    let script = executable(&place, "script", "#!/usr/bin/env -S sh\nexit 4\n");
    let outcome = exec(&place, &[&script]);
    assert_eq!(outcome.code, 4);
    assert!(!outcome.stderr.contains("static"), "{}", outcome.stderr);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_program_starts() {
    let place = Place::new();
    let mark = place.file("mark");
    let touch = format!("touch {}", mark.display());
    exec(&place, &["--report=/no/such/directory/r.json", "sh", "-c", &touch])
        .refused(2, &["/no/such/directory/r.json"]);
    assert!(!mark.exists());
    let report = place.file("r.json");
    let outcome = exec(&place, &[&format!("--report={}", report.display()), "true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).expect("it was written")).expect("it is JSON");
    assert_eq!((&document["schema"], &document["processes"]), (&"vtare.exec/1".into(), &0.into()));
}
