//! `vtare link-counter`: what passes between namespaces is counted byte by byte, and what it cannot do is refused or
//! recorded.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::wire::Wire;
use crate::common::{Outcome, Place, VTARE, vtare};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::{Value, json};

/// A port of cross traffic, and another one.
const CROSS_PORT: u16 = 5001;
const OTHER_PORT: u16 = 5002;
/// Headers of UDP over IPv4.
const HEADERS_BYTE: i64 = 28;

/// Starts a link counter and waits until it writes `ready`.
fn ready(job: &Path) -> Child {
    let mut child = Command::new(VTARE)
        .arg("link-counter")
        .arg(job)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().expect("it is piped")).read_line(&mut line).expect("stderr is readable");
    assert_eq!(line, "ready\n");
    child
}

fn end(child: Child) {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill is there");
    assert!(status.success());
    let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", ""));
}

fn write_job(place: &Place, came: (&str, &str), left: (&str, &str)) -> std::path::PathBuf {
    let tap = |at: (&str, &str), port: Value| json!({"namespace": at.0, "device": at.1, "port": port});
    let taps = json!({
        "came": tap(came, Value::Null), "cross": tap(came, CROSS_PORT.into()), "left": tap(left, Value::Null),
    });
    let path = place.path().join("job.json");
    std::fs::write(&path, json!({"taps": taps, "bin_ns": 50_000}).to_string()).expect("the directory is writable");
    path
}

fn document(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path().join("link_counter.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn bytes_of_ip_are_counted_where_and_when_they_come_in() {
    let Some(wire) = Wire::new() else { return };
    let (here, there) = wire.names();
    let place = Place::new();
    let counter = ready(&write_job(&place, (there, "vb"), (here, "va")));
    // Three datagrams of 1000 B to the port of cross traffic, one of 200 B to another.
    let send = |port: u16, byte: usize, number: usize| {
        format!("for i in $(seq {number}); do head -c {byte} /dev/zero >/dev/udp/10.111.0.2/{port}; done")
    };
    let script = format!("{}; {}", send(CROSS_PORT, 1000, 3), send(OTHER_PORT, 200, 1));
    let sent = wire.here(&format!("bash -c '{script}'"));
    end(counter);
    assert!(sent.is_some(), "bash sends datagrams");
    let stated = document(&place);
    assert_eq!(stated["schema"], "vtare.link_counter/1");
    if stated["counted"] == false {
        return eprintln!("skipped: {}", stated["reason"]);
    }
    let file = File::open(place.path().join("link_counter.parquet")).expect("it counted");
    let log = SerializedFileReader::new(file).expect("it is Parquet");
    let footer = log.metadata().file_metadata().key_value_metadata().expect("it has a footer");
    let facts: Value = footer
        .iter()
        .find(|entry| entry.key == "vtare")
        .and_then(|entry| serde_json::from_str(entry.value.as_deref()?).ok())
        .expect("the footer is JSON");
    assert_eq!((&facts["schema"], &facts["bin_ns"]), (&"vtare.link_counter/1".into(), &50_000.into()));
    assert!(facts["from_monotonic_ns"].as_u64().is_some_and(|from_ns| from_ns > 0), "{facts}");
    let mut sums = [0; 3];
    for row in log.get_row_iter(None).expect("it has rows") {
        let row = row.expect("a row is readable");
        for (column, sum) in sums.iter_mut().enumerate() {
            *sum += row.get_long(column).expect("it is an int64");
        }
    }
    let [came, cross, left] = sums;
    assert_eq!(cross, 3 * (1000 + HEADERS_BYTE));
    // Besides: address resolution, and what IPv6 sends by itself.
    let beside = came - cross - (200 + HEADERS_BYTE);
    assert!((0..4_000).contains(&beside), "{came} came, of which {cross} are cross traffic");
    // Nobody listens there: the answers are ICMP messages that quote at most the whole datagram.
    assert!(left > 0 && left < came + 4 * 64 + 4_000, "{left} left, {came} came");
}

#[test]
fn a_counter_that_cannot_count_records_why_and_ends_on_a_signal() {
    let place = Place::new();
    let nowhere = ("vtare-test-no-such-namespace", "none0");
    end(ready(&write_job(&place, nowhere, nowhere)));
    let stated = document(&place);
    assert_eq!(stated["counted"], false);
    assert!(stated["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{stated}");
    assert!(!place.files().iter().any(|name| name == "link_counter.parquet"));
}

#[test]
fn a_bad_job_is_refused_with_the_key_and_what_is_wanted() {
    let place = Place::new();
    let good = write_job(&place, ("vtare-test-none", "none0"), ("vtare-test-none", "none0"));
    let text = std::fs::read_to_string(&good).expect("it was written");
    for (bad, parts) in [
        (text.replace("50000", "5"), ["bin_ns", "is 5: use", "10000 to 10000000"]),
        (text.replace("5001", "70000"), ["taps.cross.port", "70000", "u16"]),
        (text.replace("\"left\"", "\"gone\""), ["taps.gone", "unknown field", "`left`"]),
        (text.replace("vtare-test-none", "../../proc/1/ns"), ["namespace", "../../proc/1/ns", "ip netns"]),
        (text[..20].to_owned(), ["job.json", "the document", "EOF"]),
        (format!("{text} {text}"), ["job.json", "more after the end of the document", "one JSON document"]),
    ] {
        std::fs::write(&good, bad).expect("it is writable");
        vtare(["link-counter".as_ref(), good.as_os_str()]).refused(2, &parts);
    }
    let missing = place.path().join("none.json");
    let shown = missing.display().to_string();
    vtare(["link-counter".as_ref(), missing.as_os_str()]).refused(2, &["cannot read", &shown, "link counter"]);
    assert_eq!(place.files(), ["job.json"], "nothing is written for a bad job");
}
