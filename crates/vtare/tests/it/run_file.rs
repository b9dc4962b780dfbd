//! `vtare measure RUN.json`, as the lab starts it.

use std::os::unix::fs::PermissionsExt;

use crate::common::wire::new_key;
use crate::common::{Outcome, Place, golden, vtare, vtare_line};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};

fn measure(place: &Place, run: &Value) -> Outcome {
    let path = place.with("run.json", &run.to_string());
    vtare([std::ffi::OsStr::new("measure"), path.as_os_str()])
}

fn run(instrument: &str, parameters: Value, output: &std::path::Path) -> Value {
    json!({
        "schema": "vtare.run/1", "run_id": "9f2c1a7be0d45512", "instrument": instrument, "seed": 7,
        "output": output, "parameters": parameters,
    })
}

fn footer(path: &std::path::Path) -> Value {
    let reader = SerializedFileReader::new(std::fs::File::open(path).expect("it was written")).expect("it is Parquet");
    let pairs = reader.metadata().file_metadata().key_value_metadata().expect("there is a footer").clone();
    let entry = pairs.into_iter().find(|pair| pair.key == "vtare").expect("it is vtare's");
    serde_json::from_str(&entry.value.expect("it has a value")).expect("it is JSON")
}

#[test]
fn a_run_leaves_samples_whose_footer_states_how_they_came_about_and_prints_nothing() {
    let place = Place::new();
    let out = place.file("samples.parquet");
    let sleep = json!({"method": ["usleep"], "target_ns": [1000], "samples": 7, "seconds": null});
    let outcome = measure(&place, &run("sleep", sleep, &out));
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", ""));
    assert_eq!(place.files(), ["run.json", "samples.parquet"]);
    let footer = footer(&out);
    assert_eq!(footer["schema"], "vtare.samples/1");
    assert_eq!((&footer["run"]["run_id"], &footer["run"]["seed"]), (&json!("9f2c1a7be0d45512"), &json!(7)));
    assert_eq!(footer["run"]["parameters"]["lambda_ns"], 2_000_000, "defaults are filled in");
    assert_eq!(footer["run"]["parameters"]["seconds"], Value::Null, "null is no default");
    assert_eq!(footer["result"]["cells"][0]["miss_ns"]["n"], 7);
    for key in ["program", "interrupted", "started_unix_ns", "elapsed_ns", "machine", "clock", "notes"] {
        assert!(footer.get(key).is_some(), "{key}");
    }
}

#[test]
fn files_that_people_write_may_begin_with_a_byte_order_mark() {
    let place = Place::new();
    let made = place.file("made");
    new_key(&made);
    let marked = |name: &str, text: &str| place.with(name, &format!("\u{feff}{text}"));
    let sleep = json!({"method": ["spin"], "target_ns": [1000], "samples": 3});
    let plan = marked("run.json", &run("sleep", sleep, &place.file("samples.parquet")).to_string());
    let outcome = vtare([std::ffi::OsStr::new("measure"), plan.as_os_str()]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let key = marked("key", &std::fs::read_to_string(&made).expect("it is there"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let peers = marked("peers", "127.0.0.1:1\n");
    // Nobody listens there: both files were read.
    vtare_line(&format!("rtt --peers {} --key-file {} --count 1 -q", peers.display(), key.display()))
        .refused(4, &["cannot reach 127.0.0.1:1"]);
    let steps = marked("steps", "2G:10s\n");
    vtare_line(&format!("link nothere0 nothere1 --rate-steps {}", steps.display())).refused(2, &["nothere0"]);
}

#[test]
fn every_instrument_runs_from_a_file() {
    for (instrument, parameters, rows) in [
        ("timer", json!({"source": ["gettimeofday"], "samples": 500}), None),
        ("sleep", json!({"method": ["spin"], "target_ns": [1000, 2000], "samples": 3}), Some(6)),
        ("counter", json!({"batches": 2, "calls": 2, "max_exponent": 1, "unit_ms": 0.05}), Some(8)),
        ("noise", json!({"seconds": 0.01, "threshold_ns": 1_000_000_000}), Some(0)),
    ] {
        let place = Place::new();
        let out = place.file("samples.parquet");
        let outcome = measure(&place, &run(instrument, parameters, &out));
        assert_eq!(outcome.code, 0, "{instrument}: {}", outcome.stderr);
        let reader = SerializedFileReader::new(std::fs::File::open(&out).expect("written")).expect("it is Parquet");
        if let Some(rows) = rows {
            assert_eq!(reader.metadata().file_metadata().num_rows(), rows, "{instrument}");
        }
        let (found, names) = crate::common::found_and_stated_columns(&out, "instruments", instrument);
        assert_eq!(found, names, "{instrument}");
    }
}

#[test]
fn the_figures_of_a_timer_run_follow_from_its_samples() {
    use parquet::record::RowAccessor;
    let place = Place::new();
    let out = place.file("samples.parquet");
    let outcome = measure(&place, &run("timer", json!({"source": ["vtare"], "samples": 100_000}), &out));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let reader = SerializedFileReader::new(std::fs::File::open(&out).expect("written")).expect("it is Parquet");
    let (mut n, mut sum, mut max) = (0, 0_i128, i64::MIN);
    for row in reader.get_row_iter(None).expect("readable") {
        let row = row.expect("readable");
        let (cost, count) = (row.get_long(2).expect("cost_ps"), row.get_long(3).expect("count"));
        n += count;
        sum += i128::from(cost) * i128::from(count);
        max = max.max(cost);
        if let Ok(index) = row.get_long(1) {
            assert!(cost > 1_000_000 && count == 1 && (0..100_000).contains(&index));
        } else {
            assert!(cost <= 1_000_000, "slow readings keep their position");
        }
    }
    let footer = footer(&out);
    let cost = &footer["result"]["cells"][0]["cost_ns"];
    assert_eq!((n, &cost["n"]), (100_000, &json!(100_000)));
    let near = |found: &Value, wanted: f64| (found.as_f64().expect("a number") - wanted).abs() <= 1e-9 * wanted.abs();
    assert!(near(&cost["mean"], sum as f64 / n as f64 / 1e3) && near(&cost["max"], max as f64 / 1e3), "{cost}");
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_key() {
    let place = Place::new();
    let out = place.file("samples.parquet");
    let good = |parameters| run("sleep", parameters, &out);
    let with = |key: &str, value: Value| {
        let mut run = good(json!({}));
        run[key] = value;
        run
    };
    for (run, parts) in [
        (good(json!({"sampels": 5})), vec!["run.json: parameters", "unknown field `sampels`", "`samples`"]),
        (good(json!({"samples": "many"})), vec!["parameters.samples: ", "string \"many\"", "expected u64"]),
        (good(json!({"samples": -4})), vec!["parameters.samples: ", "-4", "expected u64"]),
        (good(json!({"target_ns": [1000, "1ms"]})), vec!["parameters.target_ns[1]: ", "\"1ms\"", "expected u64"]),
        (good(json!({"method": ["nap"]})), vec!["parameters.method[0]: ", "`nap`", "`clock_nanosleep`"]),
        (good(json!({"method": []})), vec!["method is an empty list"]),
        (good(json!({"samples": 0})), vec!["samples is 0: use a whole number from 1"]),
        (good(json!({"cpu": 4000})), vec!["cpu is 4000: use one that this process may use"]),
        (good(json!({"fifo": 0})), vec!["fifo is 0: use a whole number from 1 to 99"]),
        (good(json!({"fifo": "10"})), vec!["parameters.fifo: ", "string \"10\"", "expected u8"]),
        (good(json!({"tolerance_ns": -1})), vec!["parameters.tolerance_ns: ", "-1", "expected u64"]),
        (with("instrument", json!("nap")), vec!["instrument is \"nap\": use one of timer, sleep, counter, noise"]),
        (with("schema", json!("vtare.run/9")), vec!["schema is \"vtare.run/9\": use \"vtare.run/1\""]),
        (with("seed", json!("x")), vec!["seed: ", "string \"x\""]),
        (with("factors", json!({})), vec!["unknown field `factors`", "`parameters`"]),
    ] {
        measure(&place, &run).refused(2, &parts);
        assert_eq!(place.files(), ["run.json"], "nothing is written: {run}");
    }
    place.with("run.json", "{\"schema\": ");
    vtare([place.file("run.json")].iter().fold(vec!["measure".into()], |mut all, path| {
        all.push(path.clone().into_os_string());
        all
    }))
    .refused(2, &["run.json", "EOF"]);
    vtare_line("measure /nonexistent/run.json").refused(2, &["cannot read /nonexistent/run.json", "No such file"]);
}

#[test]
fn a_file_with_more_than_one_document_a_path_for_a_run_id_or_a_list_for_parameters_is_refused() {
    let place = Place::new();
    // Nowhere, so that the columns in the messages are the same on every machine.
    let mut whole = run("sleep", json!({"samples": 1}), std::path::Path::new(""));
    whole["output"] = Value::Null;
    let with = |key: &str, value: Value| {
        let mut run = whole.clone();
        run[key] = value;
        run.to_string()
    };
    let cases = [
        format!("{whole}{whole}"),
        format!("{whole}\n]"),
        format!("{whole}\0"),
        with("run_id", json!("../../x")),
        with("run_id", json!("")),
        with("run_id", json!("9F2C1A7BE0D45512")),
        with("run_id", json!(["9f2c1a7be0d45512"])),
        with("parameters", json!([])),
        with("parameters", json!("samples")),
        with("parameters", Value::Null),
    ];
    let mut answers = String::new();
    for text in cases {
        let path = place.with("run.json", &text);
        let outcome = vtare([std::ffi::OsStr::new("measure"), path.as_os_str()]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{text}: {}", outcome.stderr);
        assert_eq!(place.files(), ["run.json"], "nothing is written: {text}");
        answers.push_str(&outcome.stderr.replace(&format!("{}/", path.parent().expect("a directory").display()), ""));
    }
    golden("tests/golden/run_file_refused.txt", &answers);
    vtare_line("measure /dev/zero").refused(2, &["cannot read /dev/zero: it is a device, not a regular file"]);
    let large = place.with("run.json", &" ".repeat((1 << 20) + 1));
    let outcome = vtare([std::ffi::OsStr::new("measure"), large.as_os_str()]);
    assert!(outcome.code == 2 && outcome.stderr.contains("longer than 1048576 B"), "{}", outcome.stderr);
    let padded = place.with("run.json", &format!(" {whole}\n\t "));
    let outcome = vtare([std::ffi::OsStr::new("measure"), padded.as_os_str()]);
    assert_eq!(outcome.code, 0, "white space is no second document: {}", outcome.stderr);
}

#[test]
fn the_contract_holds_what_this_binary_emits() {
    for (line, file) in [("schema", "run.schema.json"), ("schema --columns", "columns.json")] {
        let outcome = vtare_line(line);
        assert_eq!(outcome.code, 0);
        golden(&format!("../../python/src/vtare/data/{file}"), &outcome.stdout);
    }
}
