//! `vtare avb` against real responders: over loopback, and over a veth pair whose far end is a token bucket.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::skips::{Judged, first_good};
use crate::common::wire::{Responder, Wire, new_key};
use crate::common::{Outcome, Place, VTARE, accepted, golden, schema, vtare_line};
use serde_json::Value;

/// What the shaper lets through, bit/s of IP.
const SHAPED: f64 = 50e6;
/// A standstill that leaves no train to measure with, ns.
const STOOD_STILL_NS: u64 = 20_000_000;

/// A wire whose way to the far end is shaped, and its responder; `None`, with the reason on stderr, where this cannot
/// be.
struct Shaped {
    wire: Wire,
    place: Place,
    responder: Responder,
}

impl Shaped {
    fn new() -> Option<Self> {
        let (wire, place) = (Wire::new()?, Place::new());
        // Bytes of the Ethernet header are not the path's to give.
        wire.here(
            "tc qdisc add dev va root handle 1: stab overhead -14 tbf rate 50mbit burst 3200 latency 100ms 2>&1",
        )?;
        new_key(&place.file("key"));
        let responder = wire.responder(&place.file("key"), "10.111.0.2:8462");
        Some(Self { wire, place, responder })
    }

    fn key(&self) -> String {
        self.place.file("key").display().to_string()
    }

    fn avb(&self, more: &str) -> Outcome {
        accepted(|| self.wire.vtare(&format!("avb 10.111.0.2 --key-file {} {more}", self.key())))
    }

    /// Starts it, and gives it once it has printed `lines` lines.
    fn started(&self, more: &str, lines: usize) -> (Child, Vec<Value>) {
        let (here, _) = self.wire.names();
        let line = format!("avb 10.111.0.2 --key-file {} {more}", self.key());
        let mut child = Command::new("ip")
            .args(["netns", "exec", here, VTARE])
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip was there before");
        let mut shown = Vec::new();
        let out = BufReader::new(child.stdout.as_mut().expect("it is piped"));
        for line in out.lines().take(lines) {
            shown.push(serde_json::from_str(&line.expect("it is text")).expect("each line is a document"));
        }
        (child, shown)
    }
}

fn measured(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    outcome.json()
}

/// Of the right order: a machine that is disturbed by others may be far off. How exact methods are is tested on the
/// simulated path.
#[track_caller]
fn roughly(found: &Value, truth: f64) {
    let value = found.as_f64().unwrap_or_else(|| panic!("no rate: {found}"));
    assert!(value > truth / 20.0 && value < truth * 20.0, "{value} is not near {truth}");
}

/// The first of some runs that has an answer; `None`, reported and counted, where the machine stalled in all of
/// them.
#[track_caller]
fn answered(shaped: &Shaped, more: &str) -> Option<Value> {
    let run = || measured(&shaped.avb(more));
    first_good(7, run, |document, disturbance| {
        let cell = &document["cells"][0];
        let why = format!("no answer: {}", cell["stopped"]);
        match cell["avb_bit_per_s"].is_null() {
            false => Judged::Good,
            true if disturbance.still_ns >= STOOD_STILL_NS => Judged::Explained(why),
            true => Judged::Unexplained(why),
        }
    })
}

#[test]
fn a_shaped_path_is_measured_and_the_document_is_as_agreed() {
    let Some(shaped) = Shaped::new() else { return };
    let out = shaped.place.file("avb.parquet");
    let Some(document) = answered(&shaped, &format!("--json --seed 7 --out {}", out.display())) else { return };
    let cell = &document["cells"][0];
    roughly(&cell["avb_bit_per_s"], SHAPED);
    roughly(&cell["capacity_bit_per_s"], SHAPED);
    let [low, high] = [0, 1].map(|end| cell["interval_bit_per_s"][end].as_f64().expect("an end"));
    let value = cell["avb_bit_per_s"].as_f64().expect("a rate");
    assert!(low <= value && value <= high, "{cell:#}");
    assert_eq!((&cell["direction"], &cell["layer"], &cell["estimates"]), (&"forward".into(), &"ip".into(), &1.into()));
    assert!(cell["probe_byte"].as_u64() > Some(1_500) && cell["extra_byte"].as_u64() > Some(0), "{cell:#}");
    assert_eq!(cell["packet_byte"], 1_500);
    let keys = cell.as_object().expect("an object").keys().map(|key| format!("{key}\n"));
    golden("tests/golden/avb.shape", &keys.collect::<String>());
    golden("tests/golden/help_avb.txt", &vtare_line("avb --help").stdout);
    // One row an estimate, with the window on the clock that all programs of this host share.
    let row = &rows(&out)[0];
    let at = |name: &str| *row.get(name).unwrap_or_else(|| panic!("{name} in {row:?}"));
    assert!(at("began_ns") > 0 && at("elapsed_ns") > 0, "{row:?}");
    // Where the time ended before a train could measure, there is no window.
    if row.contains_key("window_from_ns") {
        assert!(at("began_ns") <= at("window_from_ns") && at("window_from_ns") < at("window_to_ns"), "{row:?}");
    }
    assert_eq!(at("probe_byte").cast_unsigned(), cell["probe_byte"].as_u64().expect("a count"));
}

/// The numbers of each row; what is null is not there.
fn rows(path: &Path) -> Vec<BTreeMap<String, i64>> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(std::fs::File::open(path).expect("it was written")).expect("it is Parquet");
    let rows = reader.get_row_iter(None).expect("rows are readable");
    let number = |(name, field): (&String, &Field)| match field {
        Field::Long(number) => Some((name.clone(), *number)),
        _ => None,
    };
    rows.map(|row| row.expect("readable").get_column_iter().filter_map(number).collect()).collect()
}

#[test]
#[ignore = "each method in turn: make test-all"]
fn every_method_runs_over_a_real_path() {
    let Some(shaped) = Shaped::new() else { return };
    let listed = vtare_line("avb --method help").stdout;
    let named = listed.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    // Another program's is tested by itself.
    let names: Vec<&str> = named.filter(|name| *name != "program").collect();
    assert!(names.len() > 10 && names.contains(&"abacus"), "{names:?}");
    for name in names {
        // More time where the machine let nothing be sent.
        let runs = [1_500, 1_500, 10_000].map(|millis| format!("--method {name} --max-time {millis}ms --json"));
        let sent = |document: &Value| document["cells"][0]["probe_byte"].as_u64() > Some(0);
        let document = runs.iter().map(|run| measured(&shaped.avb(run))).find(sent).expect("one of three runs sends");
        let cell = &document["cells"][0];
        assert_eq!((&cell["method"], &cell["estimates"]), (&name.into(), &1.into()), "{cell:#}");
        assert!(cell["probe_byte"].as_u64() > Some(0) && cell["stopped"].is_string(), "{name}: {cell:#}");
    }
}

#[test]
fn the_way_back_is_measured_from_here() {
    let Some(shaped) = Shaped::new() else { return };
    let queued = shaped
        .wire
        .there("tc qdisc add dev vb root handle 1: stab overhead -14 tbf rate 20mbit burst 3200 latency 100ms 2>&1");
    if queued.is_none() {
        return;
    }
    let Some(document) = answered(&shaped, "--reverse --json") else { return };
    let cell = &document["cells"][0];
    assert_eq!(cell["direction"], "reverse");
    roughly(&cell["avb_bit_per_s"], 20e6);
    let [low, high] = [0, 1].map(|end| cell["interval_bit_per_s"][end].as_f64().expect("an end"));
    assert!(low <= high, "{cell:#}");
    // What came back had to be earned: a responder sends no more than it got.
    assert!(cell["extra_byte"].as_u64() >= cell["probe_byte"].as_u64(), "{cell:#}");
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn following_shows_an_estimate_a_line() {
    let Some(shaped) = Shaped::new() else { return };
    let outcome = shaped.avb("--follow --seconds 3 --json-stream");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!lines.is_empty());
    for (number, line) in lines.iter().enumerate() {
        assert_eq!((&line["schema"], &line["estimate_number"]), (&"vtare.avb.estimate/1".into(), &number.into()));
    }
    // For people a line each, and then the table.
    let outcome = shaped.avb("--follow --seconds 2 -v");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let shown = outcome.stdout.lines().take_while(|line| !line.starts_with("vtare avb")).count();
    assert!(shown >= 1 && outcome.stdout.contains("estimates"), "{}", outcome.stdout);
    let last = lines.last().expect("there is one");
    schema::hold(last);
    if !last["avb_bit_per_s"].is_null() {
        roughly(&last["avb_bit_per_s"], SHAPED);
    }
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn the_time_asked_for_is_spent_on_one_answer_for_all_of_it() {
    let Some(shaped) = Shaped::new() else { return };
    let Some(one) = answered(&shaped, "--json") else { return };
    let Some(all) = answered(&shaped, "--json --seconds 3") else { return };
    let (one, all) = (&one["cells"][0], &all["cells"][0]);
    let number = |cell: &Value, name: &str| cell[name].as_f64().unwrap_or_else(|| panic!("{name}: {cell:#}"));
    let ends = |cell: &Value, name: &str| [0, 1].map(|end| cell[name][end].as_f64().expect("an end"));
    assert_eq!(one["estimates"], 1, "{one:#}");
    // One estimate takes less than a second: several fit, and the answer is for the time from the first to the last.
    assert!(number(all, "estimates") >= 2.0 && number(all, "span_s") >= 1.0, "{all:#}");
    for cell in [one, all] {
        let ([low, high], [least, most]) = (ends(cell, "interval_bit_per_s"), ends(cell, "long_run_bit_per_s"));
        assert!(least <= low && high <= most, "{cell:#}");
    }
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn the_screen_gives_the_length_of_the_window_and_what_to_expect_of_longer_times() {
    let Some(shaped) = Shaped::new() else { return };
    let screen = |more: &str| {
        first_good(
            7,
            || shaped.avb(more),
            |outcome, disturbance| match outcome.stdout.contains("the value is the mean of ")
                && outcome.stdout.contains("is free on")
            {
                true => Judged::Good,
                false if disturbance.still_ns >= STOOD_STILL_NS => Judged::Explained(outcome.stdout.clone()),
                false => Judged::Unexplained(outcome.stdout.clone()),
            },
        )
    };
    // Sentences are broken into lines at spaces.
    let words = |outcome: &Outcome| outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(one) = screen("-v").as_ref().map(words) else { return };
    assert!(one.contains("is free on the way to 10.111.0.2 over "), "{one}");
    assert!(one.contains("; the mean of a longer time lies from "), "{one}");
    let Some(all) = screen("-v --seconds 3").as_ref().map(words) else { return };
    assert!(all.contains(" estimates within "), "{all}");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let Some(shaped) = Shaped::new() else { return };
    let out = shaped.place.file("avb.parquet");
    // The program under `ip netns exec` is the same process.
    let (mut child, shown) = shaped.started(&format!("--follow --json-stream --out {}", out.display()), 2);
    assert_eq!(shown.len(), 2);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    // Lines that are on their way must not fill the pipe.
    std::io::copy(child.stdout.as_mut().expect("it is piped"), &mut std::io::sink()).expect("it ends");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(rows(&out).len() >= 2);
}

#[test]
fn a_reader_that_went_away_ends_the_run_and_what_was_measured_is_kept() {
    let Some(shaped) = Shaped::new() else { return };
    let out = shaped.place.file("avb.parquet");
    let (mut child, shown) = shaped.started(&format!("--follow --json-stream --out {}", out.display()), 1);
    assert_eq!(shown.len(), 1);
    // As `| head -1` does it.
    drop(child.stdout.take());
    let outcome = child.wait_with_output().expect("it ends");
    assert_eq!(outcome.status.code(), Some(0), "{}", String::from_utf8_lossy(&outcome.stderr));
    assert!(rows(&out).len() >= 2, "the one that was read, and the one that nobody read");
}

#[test]
fn a_peer_that_dies_ends_the_run_and_what_was_measured_is_kept() {
    let Some(shaped) = Shaped::new() else { return };
    let out = shaped.place.file("avb.parquet");
    let (mut child, shown) = shaped.started(&format!("--follow --json-stream --out {}", out.display()), 1);
    assert_eq!(shown.len(), 1);
    drop(shaped.responder);
    std::io::copy(child.stdout.as_mut().expect("it is piped"), &mut std::io::sink()).expect("it ends");
    let outcome = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.status.code(), Some(4), "{errors}");
    assert!(errors.contains("10.111.0.2"), "{errors}");
    assert!(!rows(&out).is_empty());
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn packets_that_vanish_for_their_size_are_found_out() {
    let Some(shaped) = Shaped::new() else { return };
    let rules = "nft add table ip vtare && nft 'add chain ip vtare in { type filter hook prerouting priority 0; }' && \
                 nft add rule ip vtare in udp length gt 1208 drop";
    if shaped.wire.there(rules).is_none() {
        return;
    }
    // 1208 B of UDP, header included, and 20 B of IP; found to 8 B. Where the machine stalled a packet that came was
    // taken for vanished.
    let found = (0..5).map(|_| measured(&shaped.avb("--json"))).find(|document| {
        let size = document["cells"][0]["packet_byte"].as_u64().expect("a size");
        assert!(size <= 1_228, "larger ones do not come: {size}");
        size >= 1_220
    });
    let Some(document) = found else { return crate::common::skips::spoiled("this machine stalled in each of 5 runs") };
    let notes = document["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note["id"] == "path_mtu"), "{notes:?}");
    shaped.avb("--size 1400").refused(2, &["size_byte: ", "packets of 1400 B vanish on the way", "Use --size "]);
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let responder = Responder::on_loopback();
    let at = &responder.address;
    let avb = |more: &str| vtare_line(&format!("avb {more}"));
    avb(&format!("{at} --method yazz")).refused(2, &["method is yazz. Did you mean 'yaz'?", "abacus"]);
    avb(&format!("{at} --set intreval_share=1"))
        .refused(2, &["'intreval_share' is no setting of abacus. Did you mean 'interval_share'?"]);
    avb(&format!("{at} --set interval_share=-1")).refused(2, &["interval_share is -1", "more than 0"]);
    avb(&format!("{at} --reverse --method assolo")).refused(2, &["assolo", "measure from there"]);
    avb("127.0.0.1:9 --json").refused(4, &["127.0.0.1:9"]);
    let place = Place::new();
    new_key(&place.file("key"));
    new_key(&place.file("other"));
    let listen = ["serve", "--json", "--listen", "127.0.0.1:0", "--key-file"];
    let keyed = Responder::start(Command::new(VTARE).args(listen).arg(place.file("key")));
    let wrong = avb(&format!("{} --key-file {}", keyed.address, place.file("other").display()));
    wrong.refused(2, &["key"]);
    assert!(wrong.stdout.is_empty());
}

/// Estimates of a shell script in place of a program.
fn by_script(script: &str, more: &str) -> Outcome {
    let line = format!("avb 127.0.0.1 --method program:script --clock os --sleep usleep {more} --json --command sh -c");
    let words: Vec<&str> = line.split_whitespace().chain([script]).collect();
    crate::common::vtare(words)
}

#[test]
fn another_program_estimates_by_what_it_prints() {
    let place = Place::new();
    let samples = place.file("samples.parquet").display().to_string();
    let more = format!("--count 2 --pause 1ms --pattern ([0-9.]+).Mbit --out {samples}");
    let document = by_script("echo 1 Mbit; echo {peer} has 95.5 Mbit/s >&2", &more).json();
    let cell = &document["cells"][0];
    assert_eq!((&cell["avb_bit_per_s"], &cell["method"]), (&Value::from(95.5e6), &Value::from("program:script")));
    assert_eq!((&cell["estimates"], &cell["layer"]), (&Value::from(2), &Value::from("program")));
    for unknown in ["probe_byte", "extra_byte", "packet_byte", "occupied_bit_per_s", "interval_bit_per_s"] {
        assert_eq!(cell[unknown], Value::Null, "{unknown}");
    }
    let rows = rows(Path::new(&samples));
    assert_eq!(rows.iter().map(|row| row["avb_bit_per_s"]).collect::<Vec<_>>(), [95_500_000, 95_500_000]);
    assert!(rows.iter().all(|row| !row.contains_key("probe_byte") && row["elapsed_ns"] > 0), "{rows:?}");
}

#[test]
fn a_program_without_an_estimate_states_why_and_leaves_nothing_running() {
    let place = Place::new();
    let pid = place.file("pid").display().to_string();
    let slow = format!("sleep 600 & echo $! >{pid}; sleep 600");
    for (script, more, stopped, why) in [
        ("echo nothing here", "--pattern [0-9]+", "gave_up", "nothing matches the pattern; its last words: \"nothing"),
        ("echo 12; echo no route; exit 4", "--pattern [0-9]+", "gave_up", "exit status: 4; its last words: \"no route"),
        ("yes", "--pattern [0-9]+", "gave_up", "printed more than 1048576 B"),
        (&slow, "--pattern [0-9]+ --max-time 500ms", "time_budget", "did not end within 0.5 s"),
    ] {
        let document = by_script(script, more).json();
        let (cell, notes) = (&document["cells"][0], document["notes"].to_string());
        assert_eq!((&cell["avb_bit_per_s"], &cell["stopped"]), (&Value::Null, &Value::from(stopped)), "{script}");
        assert!(notes.contains(&why.replace('"', "\\\"")), "{script}: {notes}");
    }
    let left = std::fs::read_to_string(&pid).expect("it began");
    crate::common::until("what it has started is gone", || !Path::new("/proc").join(left.trim()).exists());
}

#[test]
fn what_cannot_be_asked_of_a_program_is_refused() {
    by_script("true", "--pattern (").refused(2, &["regular expression such as"]);
    by_script("true", "--pattern x --reverse").refused(2, &["reverse: the program sends"]);
    by_script("true", "").refused(2, &["pattern is missing"]);
    vtare_line("avb 127.0.0.1 --method program --pattern x").refused(2, &["command is missing"]);
    vtare_line("avb 127.0.0.1 --pattern x").refused(2, &["pattern belongs to method program, not to abacus"]);
    let missing = "avb 127.0.0.1 --method program --pattern x --json --command /nonexistent/tool";
    vtare_line(missing).refused(3, &["/nonexistent/tool"]);
}

#[test]
fn a_size_above_what_the_interface_takes_is_refused() {
    let Some(shaped) = Shaped::new() else { return };
    shaped.avb("--size 4000").refused(2, &["size_byte is 4000", "1500"]);
}

#[test]
fn losses_at_the_receivers_buffer_are_not_the_paths() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    new_key(&place.file("key"));
    // 9000 packets of 9000 B are more than twice what the responder's buffer holds.
    if wire.here("ip link set va mtu 9000").is_none() || wire.there("ip link set vb mtu 9000").is_none() {
        return;
    }
    let responder = wire.responder(&place.file("key"), "10.111.0.2:8462");
    let (here, _) = wire.names();
    let line = format!(
        "avb 10.111.0.2 --key-file {} --method adr --set packets=9000 --json --count 3",
        place.file("key").display()
    );
    #[allow(clippy::disallowed_methods, reason = "waits for no condition: this is how long the responder stalls")]
    let overloaded = |stopped: Duration| {
        let mut child = Command::new("ip")
            .args(["netns", "exec", here, VTARE])
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip was there before");
        // The responder stalls again and again while trains come in.
        while child.try_wait().expect("it is ours").is_none() {
            responder.signal("STOP");
            std::thread::sleep(stopped);
            responder.signal("CONT");
            std::thread::sleep(stopped / 2);
        }
        let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
        // A far end that stalled for too long does not answer: that is an error, and the run is repeated.
        if outcome.code != 0 {
            assert_eq!(outcome.code, 4, "{}", outcome.stderr);
            return false;
        }
        let document = measured(&outcome);
        let cell = &document["cells"][0];
        assert!(cell["receiver_drops"].is_u64(), "the responder counts them: {cell:#}");
        let notes = document["notes"].as_array().expect("notes");
        let noted = notes.iter().find(|note| note["id"] == "receiver_overloaded");
        let drops = cell["receiver_drops"].as_u64().filter(|&drops| drops > 0);
        assert_eq!(noted.is_some(), drops.is_some(), "{cell:#}");
        let (Some(noted), Some(drops)) = (noted, drops) else { return false };
        assert!(noted["text"].as_str().is_some_and(|text| text.starts_with(&drops.to_string())), "{noted}");
        true
    };
    // On a machine that sends slowly it has to stall for longer.
    let tries = [100, 200, 300, 400, 500, 600, 700, 800, 300, 600];
    assert!(tries.into_iter().any(|ms| overloaded(Duration::from_millis(ms))), "no try overran the receiver");
}
