//! The counter function in other languages: the same documents, equal work, and a clear word where a language is
//! missing.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{Outcome, Place, VTARE, until, vtare, vtare_line};
use serde_json::Value;

const SMALL: &str = "--batches 2 --calls 2 --max-exponent 1 --unit-ms 0.05 --seed 11 --json";
/// The states after 1000 and 3000 steps from 1, found by an interpreter of another language than all of these.
const STATES: [&str; 2] = ["11424263524947540013", "9177069493069954373"];

/// Whether this machine lacks the language: then the error shows how to install it.
fn missing(language: &str, outcome: &Outcome) -> bool {
    if outcome.code != 3 {
        return false;
    }
    let prefix = format!("language {language}: ");
    assert!(outcome.stderr.contains(&prefix) && outcome.stderr.contains("apt-get install"), "{}", outcome.stderr);
    eprintln!("skipped: {}", outcome.stderr.trim());
    true
}

#[test]
#[ignore = "compiles five languages: make test-all"]
fn every_language_gives_the_document_of_the_own_one() {
    let own = vtare_line(&format!("counter {SMALL}")).json();
    let keys = |document: &Value| document["cells"][0].as_object().expect("a cell").keys().cloned().collect::<Vec<_>>();
    for language in ["c", "java", "python"] {
        let outcome = vtare_line(&format!("counter --language {language} {SMALL}"));
        if missing(language, &outcome) {
            continue;
        }
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{language}");
        let document = outcome.json();
        assert_eq!(keys(&document), keys(&own), "{language}");
        let note = document["notes"].as_array().expect("notes").iter().find(|note| note["id"] == "program");
        assert!(note.expect("it names what ran")["text"].as_str().is_some_and(|text| text.contains(language)));
        for (cell, argument) in document["cells"].as_array().expect("cells").iter().zip([1, 2]) {
            assert_eq!((&cell["language"], &cell["argument"]), (&Value::from(language), &Value::from(argument)));
            let runtime = &cell["runtime_ns"];
            assert_eq!(runtime["n"], 4, "{language}");
            assert!(runtime["min"].as_f64() > Some(0.0) && runtime["min"].as_f64() <= runtime["max"].as_f64());
        }
        let steps = |index: usize| document["cells"][index]["steps"].as_u64().expect("steps");
        assert_eq!(steps(1), 2 * steps(0), "{language}");
    }
}

#[test]
#[ignore = "compiles five languages: make test-all"]
fn programs_in_all_languages_count_to_the_same_states() {
    let place = Place::new();
    for (language, runner) in [("c", vec![]), ("java", vec!["java", "-jar"]), ("python", vec!["python3"])] {
        let file = place.file(&format!("counter-{language}"));
        let built = vtare(["counter", "--language", language, "--build", file.to_str().expect("UTF-8")]);
        if missing(language, &built) {
            continue;
        }
        assert_eq!(built.code, 0, "{}", built.stderr);
        let words: Vec<&str> = runner.into_iter().chain([file.to_str().expect("UTF-8")]).collect();
        let mut command = Command::new(words[0]);
        let child = command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: {} is missing", words[0]);
            continue;
        };
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"1000 3\n1 3\n3\n").expect("it listens");
        drop(input);
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().collect::<Result<Vec<_>, _>>();
        assert!(child.wait().expect("it ends").success(), "{language}");
        let lines = lines.expect("text");
        let hello: Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!((&hello["schema"], &hello["language"]), (&"vtare.counter-program/1".into(), &language.into()));
        assert!(hello["steps_per_ms"].as_f64() > Some(1.0), "{hello}");
        let answers: Vec<Vec<&str>> = lines[1..].iter().map(|line| line.split(' ').collect()).collect();
        let found: Vec<(&str, usize)> = answers.iter().map(|answer| (answer[0], answer.len() - 3)).collect();
        assert_eq!(found, [(STATES[0], 1), (STATES[1], 3), (STATES[1], 3)], "{language}");
        assert!(answers.iter().flatten().all(|word| word.parse::<u64>().is_ok()), "{answers:?}");
    }
}

/// A program in the shell that prints what `script` prints.
fn pretender(place: &Place, script: &str) -> PathBuf {
    let hello =
        r#"echo '{"schema": "vtare.counter-program/1", "language": "c", "runtime": "sh", "steps_per_ms": 100000.0}'"#;
    let file = place.with("pretender", &format!("#!/bin/sh\n{hello}\nread size\n{script}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    file
}

#[test]
fn a_program_that_does_not_do_its_work_is_found_out() {
    let place = Place::new();
    let cases = [
        ("read calls; echo 1 100 0 10000 10000 10000 10000 10000; cat >/dev/null", "counted to state 1 instead of "),
        ("read calls; echo 1 100 0 10000; cat >/dev/null", "is not 5 lengths of time"),
        ("read calls; echo nonsense; cat >/dev/null", "is not STATE CPU_NS SWITCHES"),
        ("exit 7", "it ended (exit status: 7) before it had answered"),
    ];
    for (script, why) in cases {
        let file = pretender(&place, script);
        let file = file.to_str().expect("UTF-8");
        let line =
            format!("counter --language c --program {file} --batches 1 --calls 1 --max-exponent 0 --unit-ms 0.05");
        vtare_line(&line).refused(126, &["the counter program in c", why]);
    }
}

#[test]
fn a_wish_to_stop_ends_the_program_and_keeps_what_was_measured() {
    let place = Place::new();
    let marker = place.file("asked");
    let script = format!("read calls; touch {}; exec sleep 600", marker.display());
    let file = pretender(&place, &script);
    let line = format!("counter --language c --program {} --unit-ms 0.05 --json", file.display());
    let mut command = Command::new(VTARE);
    let child = command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the binary starts");
    until("the program is asked for calls", || marker.exists());
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill is there").success());
    let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, 130, "{}", outcome.stderr);
    assert_eq!(outcome.json()["interrupted"], Value::from(true));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    vtare_line("counter --language cobol").refused(2, &["cobol"]);
    vtare_line("counter --program x").refused(2, &["--language"]);
    vtare_line("counter --language rust --program x")
        .refused(2, &["program is x, but language rust is in this binary"]);
    vtare_line("counter --language rust --build x").refused(2, &["use c, java or python"]);
    vtare_line("counter --language c --program /nonexistent/x").refused(2, &["/nonexistent/x", "--build FILE"]);
    vtare_line("counter --language c --build x --with-runtime").refused(2, &["language c brings no runtime: use java"]);
    vtare_line("counter --language java --with-runtime").refused(2, &["--build"]);
    vtare_line("counter --language python --build /nonexistent/x").refused(2, &["cannot write /nonexistent/x"]);
}

#[test]
fn a_missing_language_is_named_with_the_command_that_installs_it() {
    for (language, package) in [("c", "gcc libc6-dev"), ("java", "default-jdk-headless"), ("python", "python3-minimal")]
    {
        let mut command = Command::new(VTARE);
        command.args(["counter", "--language", language, "--batches", "1"]).env("PATH", "/nonexistent");
        command.env_remove("JAVA_HOME").env_remove("CC");
        let outcome = Outcome::of(command.output().expect("the binary starts"));
        outcome.refused(3, &[&format!("language {language}: found no"), &format!("apt-get install {package}")]);
    }
}
