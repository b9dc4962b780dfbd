//! Pipes and devices in place of the files that commands are given: none is waited for or read for ever.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::daemon::survived;
use super::frames;
use crate::common::{Outcome, Place, VTARE};

/// Each option and argument that names a file, with a command line in which `@` stands for that file.
const LINES: &[(&str, &str)] = &[
    ("avb --key-file", "avb 127.0.0.1:9 --key-file @"),
    ("capture --out", "capture lo --seconds 1 --out @"),
    ("capture --read", "capture --read @"),
    ("check --key-file", "check --witness 127.0.0.1:9 --key-file @"),
    ("clock --key-file", "clock --witness 127.0.0.1:9 --key-file @"),
    ("clock --page", "clock --witness 127.0.0.1:9 --page @"),
    ("counter --build", "counter --language python --build @"),
    ("counter --out", "counter --calls 1 --batches 1 --out @"),
    ("counter --program", "counter --language c --program @"),
    ("exec --report", "exec --report=@ true"),
    ("exec PROGRAM", "exec @"),
    ("link --log", "link lo lo --log @"),
    ("link --ab-rate-steps", "link lo lo --ab-rate-steps @"),
    ("link --ba-rate-steps", "link lo lo --ba-rate-steps @"),
    ("link --rate-steps", "link lo lo --rate-steps @"),
    ("link-counter JOB.json", "link-counter @"),
    ("load --out", "load net --to 127.0.0.1:9 --rate 1M --seconds 1 --out @"),
    ("measure RUN.json", "measure @"),
    ("noise --out", "noise --seconds 0.1 --out @"),
    ("path --key-file", "path 127.0.0.1:9 --key-file @"),
    ("path --out", "path 127.0.0.1:9 --out @"),
    ("rtt --key-file", "rtt 127.0.0.1:9 --key-file @"),
    ("rtt --out", "rtt 127.0.0.1:9 --out @"),
    ("rtt --peers", "rtt --peers @"),
    ("avb --out", "avb 127.0.0.1:9 --out @"),
    ("rpm --out", "rpm 127.0.0.1:9 --out @"),
    ("serve --key-file", "serve --key-file @"),
    ("serve --new-key", "serve --new-key @"),
    ("serve --stamp-key-file", "serve --stamp 127.0.0.1:0 --stamp-key-file @"),
    ("shaper --log", "shaper JOB --log @"),
    ("shaper JOB.json", "shaper @ --log LOG"),
    ("sleep --out", "sleep --samples 1 --out @"),
    ("throughput --out", "throughput --tx lo --rx lo --flow 02:00:00:00:00:01 --out @"),
    ("timer --out", "timer --out @"),
];

/// Names that are no file that is opened: directories, a port of virtio, a language, ways of reading, instruments. What
/// a link counter has counted, and a card, goes into a file that is made at its end and replaces what stands there.
const NO_FILES: &[&str] = &[
    "agent --directory",
    "agent --port",
    "check --write",
    "counter --language",
    "generate DIR",
    "link-counter --out",
    "load --dir",
    "schema NAME",
    "selftest --only",
    "serve --limit",
    "timer --path",
    "torture --path",
];

/// All commands; `python/tests/lab/test_named_files.py` has the files of those that the lab carries out.
const COMMANDS: &str = include_str!("../../../../../python/src/vtare/data/commands.json");

/// What no list for people names.
const PLUMBING: [&str; 8] = ["measure", "agent", "link-counter", "shaper", "trials", "requests", "schema", "generate"];

/// What names a file, a directory or a program in the help of a command.
fn named_in_help(command: &str) -> Vec<String> {
    let help = Command::new(VTARE).args([command, "--help"]).output().expect("it starts");
    let help = String::from_utf8(help.stdout).expect("help is text");
    let mut found = Vec::new();
    for line in help.lines().map(str::trim).filter(|line| line.starts_with(['-', '<', '['])) {
        let Some((before, rest)) = line.split_once(['<', '[']) else { continue };
        let name = rest.split(['>', ']']).next().unwrap_or_default();
        let words = ["FILE", "DIR", "PROGRAM", "json", "PATH", "NAME"];
        if !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let option = before.split([',', ' ']).rfind(|word| word.starts_with("--"));
        found.push(format!("{command} {}", option.unwrap_or(name)));
    }
    found
}

/// `vtare` with this line, which must end by itself.
fn ended(line: &str, file: &Path, place: &Place) -> Outcome {
    let words = line.split_whitespace().map(|word| match word {
        "JOB" | "LOG" => place.file(word).display().to_string(),
        word => word.replace('@', &file.to_string_lossy()),
    });
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "20", VTARE]).args(words).stdin(Stdio::null());
    Outcome::of(command.output().expect("it is installed"))
}

#[test]
fn attack_pipes_and_devices_in_place_of_files() {
    let place = Place::new();
    let pipe = place.file("pipe");
    frames::pipe(&pipe);
    let job = r#"{"steps": [{"bit_per_s": 1, "duration_ns": 1, "words": ["true"]}]}"#;
    std::fs::write(place.file("JOB"), job).expect("the place is writable");
    let mut wrong = Vec::new();
    for (name, line) in LINES {
        for file in [pipe.as_path(), Path::new("/dev/zero")] {
            let outcome = ended(line, file, &place);
            // Programs are looked at or started, and not read; the codes of `exec` are those of shells.
            let refused = match *name {
                "exec PROGRAM" => matches!(outcome.code, 126 | 127),
                "counter --program" => outcome.code == 3,
                _ => outcome.code == 2,
            };
            if !refused || !outcome.stderr.contains(&*file.to_string_lossy()) {
                wrong.push(format!("{name}: {}: {} {}", file.display(), outcome.code, outcome.stderr.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    survived("pipes_and_devices", format!("commands that hung 0 of {}", 2 * LINES.len()));
}

#[test]
fn every_file_on_the_command_line_has_its_line_here() {
    let table: Value = serde_json::from_str(COMMANDS).expect("it is JSON");
    let list = |value: &Value| value.as_array().cloned().expect("it is a list");
    let groups = list(&table["groups"]).into_iter().flat_map(|group| list(&group["commands"]));
    let all: Vec<Value> = groups.chain(list(&table["replaced"])).collect();
    let own = all.iter().filter(|command| command["lab"] != true).filter_map(|command| command["name"].as_str());
    let commands = own.chain(PLUMBING);
    let found: BTreeSet<String> = commands.flat_map(named_in_help).collect();
    let known = LINES.iter().map(|(name, _)| *name).chain(NO_FILES.iter().copied());
    assert_eq!(found, known.map(str::to_owned).collect());
}
