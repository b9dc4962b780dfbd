//! The samples file: refused early, whole or absent, small.

use std::process::{Command, Stdio};

use crate::common::{Outcome, Place, VTARE, vtare, vtare_line};
use parquet::file::reader::{FileReader, SerializedFileReader};

#[test]
fn an_output_that_cannot_be_written_is_refused_before_measuring() {
    // The published counter run takes hours: an answer at all means that nothing was measured.
    let outcome = vtare_line("counter --out /nonexistent-directory/s.parquet");
    outcome.refused(
        2,
        &["cannot write samples to /nonexistent-directory/s.parquet", "No such file", "directory that exists"],
    );
    let place = Place::new();
    vtare([std::ffi::OsStr::new("counter"), "--out".as_ref(), place.path().as_os_str()]).refused(2, &["directory"]);
    let file = place.with("file", "");
    vtare([std::ffi::OsStr::new("counter"), "--out".as_ref(), file.join("s.parquet").as_os_str()])
        .refused(2, &["Not a directory"]);
}

/// Runs `vtare ARGUMENTS --out FILE` on a disk of `size` in a mount namespace of its own, which goes away with the
/// process; what `ls` finds there afterwards is the last of stdout. `None`, with the reason on stderr, where that
/// cannot be done here.
fn on_small_disk(size: &str, arguments: &str) -> Option<Outcome> {
    let script = format!(
        "mount -t tmpfs -o size={size} none \"$1\" || exit 99
        \"$2\" {arguments} --out \"$1/s.parquet\"; code=$?
        echo; echo left: $(ls -A \"$1\"); exit $code"
    );
    let place = Place::new();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .args([place.path().as_os_str(), VTARE.as_ref()])
        .output();
    match output {
        Ok(output) => {
            let refused = output.status.code() == Some(99) || output.stderr.starts_with(b"unshare:");
            if refused {
                eprintln!("skipped: no mount namespace here: {}", String::from_utf8_lossy(&output.stderr));
            }
            (!refused).then(|| Outcome::of(output))
        }
        Err(error) => {
            eprintln!("skipped: unshare (util-linux) is not there: {error}");
            None
        }
    }
}

#[test]
fn a_disk_that_fills_up_while_measuring_ends_it_and_nothing_is_left() {
    // All readings are slow here, so the first row group of some 100 KiB does not fit.
    let line = "timer --source clock_monotonic --samples 400000 --tail-ns 1";
    let Some(outcome) = on_small_disk("64k", line) else { return };
    outcome.refused(3, &["s.parquet: No space left on device", "B or more were needed", "nothing was left behind"]);
    assert_eq!(outcome.stdout, "\nleft:\n", "neither figures nor files");
}

#[test]
fn a_disk_that_is_full_at_the_end_costs_the_samples_but_not_the_figures() {
    let line = "sleep --method spin --target 1us --samples 5000 --json";
    let Some(outcome) = on_small_disk("4k", line) else { return };
    outcome.refused(3, &["s.parquet: No space left on device", "nothing was left behind"]);
    let (document, left) = outcome.stdout.split_once("\n\n").expect("the document and the list");
    assert_eq!(left, "left:\n");
    let document: serde_json::Value = serde_json::from_str(document).expect("one document");
    assert_eq!(document["cells"][0]["miss_ns"]["n"], 5_000);
    assert!(document["output"].is_null() && document["notes"].to_string().contains("samples_lost"));
}

/// Runs `vtare LINE` with stdout and stderr as given; the exit code.
fn code_with(line: &str, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Option<i32> {
    let mut start = Command::new(VTARE);
    start.args(line.split_whitespace()).stdout(stdout).stderr(stderr).status().expect("the binary starts").code()
}

/// A pipe whose reader has gone.
fn unread() -> Stdio {
    std::io::pipe().expect("there are descriptors").1.into()
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let lines = ["--help", "avb --help", "--version", "schema", "avb --method help", "timer --samples 100 --json"];
    for line in lines {
        assert_eq!(code_with(line, unread(), Stdio::null()), Some(0), "vtare {line} | head -0");
    }
}

#[test]
fn nobody_who_hears_remarks_and_errors_changes_nothing() {
    assert_eq!(code_with("load idle --seconds 0.01", Stdio::null(), unread()), Some(0));
    assert_eq!(code_with("avb 127.0.0.1 --method yazz", Stdio::null(), unread()), Some(2));
    assert_eq!(code_with("avb 127.0.0.1 --set x=y=z --json", unread(), unread()), Some(2));
}

#[test]
fn an_existing_file_is_replaced_as_a_whole() {
    let place = Place::new();
    let out = place.with("s.parquet", "something else");
    let line = format!("timer --source vtare --samples 100 --out {}", out.display());
    assert_eq!(vtare_line(&line).code, 0);
    assert_eq!(place.files(), ["s.parquet"]);
    let file = std::fs::File::open(&out).expect("it is there");
    assert!(SerializedFileReader::new(file).is_ok());
}

#[test]
fn a_million_readings_cost_a_few_bytes_for_each_distinct_value() {
    let place = Place::new();
    let out = place.file("s.parquet");
    let line = format!("timer --source clock_monotonic --samples 1000000 --tail-ns 1000000 --out {}", out.display());
    assert_eq!(vtare_line(&line).code, 0);
    let bytes = std::fs::metadata(&out).expect("it is there").len();
    let reader = SerializedFileReader::new(std::fs::File::open(&out).expect("there")).expect("it is Parquet");
    let rows = reader.metadata().file_metadata().num_rows().unsigned_abs();
    // The footer, the schema and four column chunks take some 10 KB.
    assert!(bytes < 20_000 + 20 * rows, "{bytes} B for {rows} rows");
    assert!(rows < 200_000, "{rows} rows: equal readings share one");
}

#[test]
fn a_closed_standard_output_is_refused_and_the_answer_not_lost_in_silence() {
    for line in ["timer --samples 100 -q", "timer --samples 100 -q --json", "--version"] {
        let script = format!("exec {VTARE} {line} >&-");
        let outcome = Outcome::of(Command::new("sh").args(["-c", &script]).output().expect("there is a shell"));
        outcome.refused(2, &["standard output is closed", "> FILE"]);
    }
    let script = format!("exec {VTARE} timer --samples 100 -q > /dev/null");
    assert!(Command::new("sh").args(["-c", &script]).status().expect("there is a shell").success());
}

#[test]
fn the_screen_of_sleeps_is_the_answer_alone_and_all_figures_with_verbose() {
    let line = "sleep --target 100us,1ms --samples 20 --seed 3";
    let (short, whole) = (vtare_line(line), vtare_line(&format!("{line} -v")));
    assert_eq!((short.code, whole.code), (0, 0), "{}{}", short.stderr, whole.stderr);
    let widest = short.stdout.lines().filter(|line| !line.starts_with("Try: ")).map(|line| line.chars().count()).max();
    assert!(short.stdout.lines().count() <= 10 && widest <= Some(80), "{}", short.stdout);
    assert!(short.stdout.starts_with("For sleeps of 100 us to 1.00 ms, "), "{}", short.stdout);
    assert!(short.stdout.trim_end().ends_with("ll figures: add -v"), "{}", short.stdout);
    assert!(
        whole.stdout.starts_with("vtare sleep, clock ") && whole.stdout.contains("median miss"),
        "{}",
        whole.stdout
    );
}
