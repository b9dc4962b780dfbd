//! The documents that other programs read: valid, one, and of the agreed shape.

use std::collections::BTreeSet;

use crate::common::{golden, vtare, vtare_line};
use serde_json::Value;

/// Each instrument in its smallest form.
const SMALL: [(&str, &str); 4] = [
    ("timer", "timer --source clock_monotonic,vtare --samples 3000 --seed 11 --json"),
    ("sleep", "sleep --method usleep,adaptive --target 1us --samples 5 --seed 11 --json"),
    ("counter", "counter --batches 2 --calls 2 --max-exponent 1 --unit-ms 0.05 --seed 11 --json"),
    ("noise", "noise --seconds 0.01 --seed 11 --json"),
];

/// What other crates' documents hold inside, or what depends on the machine's devices.
const OPAQUE: [&str; 3] = ["machine", "clock", "cells[].causes.interrupts_by_line"];

/// The paths of all keys, `cells[].cost_ns.median`, but for those inside [`OPAQUE`].
fn shape(value: &Value) -> String {
    fn walk(path: &str, value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) if !OPAQUE.contains(&path) => {
                for (key, value) in members {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(&format!("{path}{dot}{key}"), value, found);
                }
            }
            Value::Array(entries) if path == "cells" => {
                for entry in entries {
                    walk(&format!("{path}[]"), entry, found);
                }
            }
            _ => {
                found.insert(path.to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk("", value, &mut found);
    found.into_iter().map(|path| path + "\n").collect()
}

#[test]
fn each_document_has_the_agreed_shape_and_names_its_schema() {
    for (instrument, line) in SMALL {
        let outcome = vtare_line(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line}");
        let document = outcome.json();
        assert_eq!(document["schema"], format!("vtare.{instrument}/1"));
        assert_eq!((&document["seed"], &document["interrupted"]), (&Value::from(11), &Value::from(false)));
        for key in ["kernel", "cpus_allowed", "clock_source", "steal_ns_before", "steal_ns_after"] {
            assert!(document["machine"].get(key).is_some(), "machine.{key}");
        }
        for key in ["source", "trusted", "reasons", "residual_ppm", "quantum_ns"] {
            assert!(document["clock"].get(key).is_some(), "clock.{key}");
        }
        golden(&format!("tests/golden/{instrument}.shape"), &shape(&document));
    }
}

#[test]
fn the_documents_of_loads_and_torture_are_as_their_schemas_state() {
    for line in ["load io --threads 2 --seconds 0.05 --json", "torture clock --seconds 0.05 --json"] {
        let outcome = vtare_line(line);
        assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
        assert!(outcome.json()["schema"].is_string());
    }
}

#[test]
fn tail_quantiles_of_few_readings_are_null() {
    let cell = &vtare_line(SMALL[1].1).json()["cells"][0];
    assert_eq!(cell["miss_ns"]["n"], 5);
    assert!(cell["miss_ns"]["p99"].is_null() && cell["miss_ns"]["median"].is_number());
    let timer = vtare_line(SMALL[0].1).json();
    assert!(timer["cells"][0]["cost_ns"]["p999"].is_number(), "3000 readings suffice");
}

#[test]
fn parameters_are_shown_resolved() {
    let document = vtare_line("timer --samples 200 --json").json();
    let sources = document["parameters"]["source"].as_array().expect("all means a list").len();
    assert_eq!(document["cells"].as_array().expect("cells").len(), sources);
    assert!(sources >= 7, "the kernel's clocks and vtare's are everywhere");
    assert_eq!(document["parameters"]["tail_ns"], 1_000);
}

#[test]
fn a_real_time_priority_is_stated_to_be_held_or_refused_for_every_method() {
    let line = "sleep --method usleep,spin --target 1us --samples 5 --fifo 5 --tolerance 2us";
    let document = vtare_line(&format!("{line} --json")).json();
    assert_eq!((&document["parameters"]["fifo"], &document["parameters"]["tolerance_ns"]), (&5.into(), &2_000.into()));
    let notes = document["notes"].as_array().expect("a list");
    let found: Vec<&str> = notes
        .iter()
        .filter(|note| note["id"] == "fifo_set" || note["id"] == "fifo_refused")
        .map(|note| note["text"].as_str().expect("text"))
        .collect();
    assert!(found.len() == 1 && found[0].contains("priority 5") && found[0].contains("usleep, spin"), "{notes:?}");
    let shown = vtare_line(&format!("{line} -v")).stdout;
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains("- Real-time priority 5 "), "people see it too: {shown}");
}

#[test]
fn limits_are_in_the_document_and_change_nothing_else() {
    let arguments =
        ["timer", "--source", "clock_monotonic", "--samples", "400", "--json", "--fail-if", "cost_p999_ns > 1"];
    let outcome = vtare(arguments);
    assert_eq!(outcome.code, 1);
    let limit = &outcome.json()["limits"][0];
    assert_eq!((&limit["expression"], &limit["crossed"]), (&Value::from("cost_p999_ns > 1"), &Value::Null));
    assert_eq!(limit["cells"].as_array().expect("a list").len(), 1);
}

#[test]
fn an_error_is_one_json_document_too() {
    for (line, code) in [
        ("timer --json --cpu 4000", 2),
        ("timer --json --samples many", 2),
        ("measure --json /nonexistent.json", 2),
        ("nonsense --json", 2),
    ] {
        let outcome = vtare_line(line);
        assert_eq!(outcome.code, code, "{line}");
        let document = outcome.json();
        assert_eq!((&document["schema"], &document["exit_code"]), (&Value::from("vtare.error/1"), &Value::from(code)));
        assert!(!document["error"].as_str().expect("text").is_empty());
        assert!(!outcome.stderr.is_empty());
    }
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = || {
        let place = crate::common::Place::new();
        let out = place.file("s.parquet");
        let line =
            format!("counter --batches 2 --calls 4 --max-exponent 2 --unit-ms 0.05 --seed 3 --out {}", out.display());
        assert_eq!(vtare_line(&line).code, 0);
        use parquet::file::reader::FileReader;
        use parquet::record::RowAccessor;
        let file = std::fs::File::open(&out).expect("it was written");
        let reader = parquet::file::reader::SerializedFileReader::new(file).expect("it is Parquet");
        let rows = reader.get_row_iter(None).expect("rows are readable");
        rows.map(|row| row.expect("readable").get_long(3).expect("the argument")).collect::<Vec<_>>()
    };
    let first = order();
    assert_eq!(first.len(), 24);
    assert_eq!(first, order());
    assert!(!first.is_sorted(), "the arguments come in random order");
}
