//! `vtare capture`: at both ends of a veth pair between two namespaces, and out of files that tcpdump writes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::skips::{first_good, spoiled};
use crate::common::wire::{Wire, new_key};
use crate::common::{Outcome, Place, VTARE, accepted, golden, undisturbed, until, vtare_line, whole};
use serde_json::Value;

/// One row of the samples: texts and numbers by column.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, i64>,
}

impl Row {
    fn number(&self, name: &str) -> i64 {
        *self.numbers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

fn rows(path: &Path) -> Vec<Row> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let file = std::fs::File::open(path).expect("it was written");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let rows = reader.get_row_iter(None).expect("rows are readable");
    rows.map(|row| {
        let mut found = Row::default();
        for (name, field) in row.expect("readable").get_column_iter() {
            match field {
                Field::Str(text) => drop(found.texts.insert(name.clone(), text.clone())),
                Field::Long(number) => drop(found.numbers.insert(name.clone(), *number)),
                _ => {}
            }
        }
        found
    })
    .collect()
}

/// `when it was captured` by session and number, of one kind and direction; every one once.
#[track_caller]
fn captured(rows: &[Row], kind: &str, direction: &str) -> BTreeMap<(i64, i64), i64> {
    let mut found = BTreeMap::new();
    for row in rows.iter().filter(|row| row.texts["kind"] == kind) {
        assert_eq!(row.texts["direction"], direction, "{row:?}");
        let before = found.insert((row.number("session"), row.number("sequence")), row.number("captured_ns"));
        assert_eq!(before, None, "twice: {row:?}");
    }
    found
}

/// A capture that runs, ended by SIGINT.
struct Running(Child, BufReader<std::process::ChildStderr>);

impl Running {
    /// Starts `vtare capture LINE` in a namespace and waits until its hook is in place; `None`, with a message, where
    /// that is refused.
    fn start(namespace: &str, line: &str) -> Option<Self> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, VTARE, "capture"]).args(line.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip was there before");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut first = String::new();
        stderr.read_line(&mut first).expect("it reports that it is ready");
        if first != "ready\n" {
            child.wait().expect("it has ended");
            assert!(first.contains("not permitted") || first.contains("not supported"), "{first}");
            eprintln!("skipped: {first}");
            return None;
        }
        Some(Self(child, stderr))
    }

    /// Ends it and gives its messages.
    fn end(self) -> Outcome {
        self.signal("INT");
        self.wait()
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill is there");
        assert!(sent.success());
    }

    fn wait(mut self) -> Outcome {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("text");
        self.1.read_to_string(&mut stderr).expect("text");
        let code = self.0.wait().expect("it ended").code().expect("it was not killed");
        Outcome { code, stdout, stderr }
    }
}

impl Wire {
    fn rtt(&self, key: &Path, more: &str, out: &Path) -> Value {
        let line = format!("rtt 10.111.0.2:8462 --key-file {} --json --out {} {more}", key.display(), out.display());
        let outcome = accepted(|| self.vtare(&line));
        assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
        outcome.json()
    }

    /// As [`Wire::rtt`], with all packets sent and answered; `None`, with a message and counted, where the machine
    /// spoils each of seven runs.
    #[track_caller]
    fn rtt_whole(&self, key: &Path, more: &str, out: &Path) -> Option<Value> {
        let run = || self.rtt(key, more, out);
        first_good(7, run, |probed, disturbance| whole(&probed["cells"][0], &probed["parameters"], disturbance))
    }
}

#[test]
fn every_probe_is_seen_at_both_ends_by_both_hooks_between_its_sending_and_its_arrival() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "10.111.0.2:8462");
    let (here, there) = wire.names();
    let mut taps = Vec::new();
    for (namespace, device) in [(here, "va"), (there, "vb")] {
        for hook in ["tc", "packet"] {
            let out = place.file(&format!("{device}-{hook}.parquet"));
            let line = format!("{device} --hook {hook} --json --out {}", out.display());
            let Some(tap) = Running::start(namespace, &line) else { return };
            taps.push((device, hook, out, tap));
        }
    }
    let samples = place.file("rtt.parquet");
    // A packet that is lost is in no capture behind the place: such a run is no test.
    let Some(probed) = wire.rtt_whole(&key, "--count 2000 --rate 1000 --timeout 5s", &samples) else { return };
    let cell = &probed["cells"][0];
    let name = cell["session"].clone();
    let origin = cell["origin_monotonic_ns"].as_i64().expect("something was due");
    let mut sent = BTreeMap::new();
    for row in rows(&samples).into_iter().filter(|row| row.texts["fate"] == "received") {
        let name = (row.number("session"), row.number("sequence"));
        sent.insert(name, (origin + row.number("sent_ns"), origin + row.number("arrived_ns")));
    }
    assert_eq!(sent.len() as u64, cell["sent"].as_u64().expect("a count"));

    let mut seen = BTreeMap::new();
    for (device, hook, out, tap) in taps {
        let outcome = tap.end();
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let document = outcome.json();
        let cell = &document["cells"][0];
        assert_eq!((&cell["hook"], &cell["lost"]), (&Value::from(hook), &Value::from(0)), "{cell:#}");
        assert_eq!(cell["stamp_clock"], "monotonic");
        let flows = cell["flows"].as_array().expect("a list");
        let flow = flows.iter().find(|flow| flow["session"] == name).unwrap_or_else(|| panic!("{name} in {cell:#}"));
        assert_eq!(flow["rtt_ns"]["n"], sent.len(), "{cell:#}");
        assert_eq!((&flow["requests"], &flow["replies"]), (&sent.len().into(), &sent.len().into()), "{cell:#}");
        let (asks, answers) = if device == "va" { ("tx", "rx") } else { ("rx", "tx") };
        let own = sent.keys().next().map(|(session, _)| *session);
        let rows: Vec<Row> = rows(&out).into_iter().filter(|row| Some(row.number("session")) == own).collect();
        let (requests, replies) = (captured(&rows, "request", asks), captured(&rows, "reply", answers));
        assert!(requests.keys().eq(sent.keys()) && replies.keys().eq(sent.keys()), "{device} {hook}");
        seen.insert((device, hook), (requests, replies));
    }
    // In the order of the way there and back. Between stamps of one clock of the kernel that is exact; between clocks
    // it is as exact as a machine that may be delayed between two readings.
    const NEARLY: i64 = 100_000_000;
    for (name, (sent, arrived)) in &sent {
        for first in ["tc", "packet"] {
            for second in ["tc", "packet"] {
                let (near, far) = (&seen[&("va", first)], &seen[&("vb", second)]);
                let way = [*sent, near.0[name], far.0[name], far.1[name], near.1[name], *arrived];
                assert!(way.is_sorted_by(|a, b| *a <= b + NEARLY), "{first} {second} {name:?}: {way:?}");
                assert!((first, second) != ("tc", "tc") || way[1..5].is_sorted(), "{name:?}: {way:?}");
            }
        }
    }
}

#[test]
#[ignore = "every form in turn: make test-all"]
fn all_forms_and_large_packets_are_captured_and_join_with_the_senders_samples() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "10.111.0.2:8462");
    for hook in ["tc", "packet"] {
        let out = place.file(&format!("{hook}.parquet"));
        let line = format!("va --hook {hook} --icmp --json --out {}", out.display());
        let Some(tap) = Running::start(wire.names().0, &line) else { return };
        let runs =
            [("full", "--count 300 --size 200"), ("short", "--count 300 --size 20"), ("icmp", "--icmp --count 200")];
        // Faster than single sends can be: some are due together, and leave as large packets where the kernel cuts them
        // up. Nothing is sent where this machine stalls for 5 ms.
        let dense = ("full", "--count 4000 --rate 1000000 --timeout 5s --engine socket");
        let mut expected = BTreeMap::new();
        let mut together = 0;
        for (at, (form, more)) in runs.into_iter().chain([dense; 5]).enumerate() {
            if together > 0 {
                break;
            }
            let samples = place.file(&format!("{hook}-{at}.parquet"));
            let far = if form == "icmp" { "10.111.0.2" } else { "10.111.0.2:8462" };
            let key_words = if form == "icmp" { String::new() } else { format!("--key-file {}", key.display()) };
            let line = format!("rtt {far} {key_words} {more} --json --out {}", samples.display());
            let outcome = accepted(|| wire.vtare(&line));
            assert!([0, 4].contains(&outcome.code), "{}", outcome.stderr);
            let mut before = None;
            for row in rows(&samples).iter().filter(|row| row.numbers.contains_key("sent_ns")) {
                expected.insert((form.to_string(), row.number("session"), row.number("sequence")), ());
                let sent = before.replace(row.number("sent_ns"));
                together += u64::from(more == dense.1 && sent == before);
            }
        }
        let outcome = tap.end();
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let cell = &outcome.json()["cells"][0];
        assert_eq!(cell["lost"], 0, "{cell:#}");
        assert_eq!((&cell["unsplit"], &cell["unread"]), (&Value::from(0), &Value::from(0)), "{cell:#}");
        if together > 0 {
            assert!(cell["merged"].as_u64().is_some_and(|merged| merged > 0), "{together} left together: {cell:#}");
        } else {
            spoiled("large packets: this machine sent each packet by itself");
        }
        let asked = rows(&out);
        let asked = asked.iter().filter(|row| row.texts["direction"] == "tx").map(|row| {
            assert!(["request", "echo_request"].contains(&row.texts["kind"].as_str()), "{row:?}");
            ((row.texts["form"].clone(), row.number("session"), row.number("sequence")), ())
        });
        assert!(asked.collect::<BTreeMap<_, _>>() == expected, "{hook}: {cell:#}");
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "10.111.0.2:8462");
    for hook in ["tc", "packet"] {
        let line = format!("va --hook {hook} --ring-byte 8192 --json");
        let Some(tap) = Running::start(wire.names().0, &line) else { return };
        // While the reader is stopped, more comes than the ring holds.
        tap.signal("STOP");
        let line = format!("rtt 10.111.0.2:8462 --key-file {} --json --count 500 --rate 2000", key.display());
        let mut crossed = [0; 2];
        let probed = undisturbed(|| {
            let outcome = accepted(|| wire.vtare(&line));
            let document = outcome.json();
            for (sum, key) in crossed.iter_mut().zip(["sent", "received"]) {
                *sum += document["cells"][0][key].as_u64().unwrap_or(0);
            }
            outcome
        });
        tap.signal("CONT");
        if probed.is_none() {
            return;
        }
        let crossed = (crossed[0], crossed[1]);
        let outcome = tap.end();
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let document = outcome.json();
        let cell = &document["cells"][0];
        let count = |key: &str| cell[key].as_u64().unwrap_or_else(|| panic!("{key} in {cell:#}"));
        assert!(count("lost") > 0, "{hook}: {cell:#}");
        // Replies that came too late for the sender crossed the interface all the same. tc counts probes; the ring
        // counts packets, of which a large one of the responder's holds several.
        let least = if hook == "tc" { crossed.0 + crossed.1 } else { 1 };
        let most = 2 * crossed.0;
        let accounted = count("packets") + count("unread") + count("lost");
        assert!((least..=most).contains(&accounted), "{hook} {crossed:?}: {cell:#}");
        assert!(document["notes"].to_string().contains("capture_lost"), "{document:#}");
    }
}

#[test]
fn a_capture_ends_by_count_and_by_seconds_and_leaves_no_program_behind() {
    let Some(wire) = Wire::new() else { return };
    let (here, _) = wire.names();
    for hook in ["tc", "packet"] {
        let line = format!("va --hook {hook} --icmp --count 6 --json");
        let Some(mut tap) = Running::start(here, &line) else { return };
        // On a machine that stalls it may take more than one run until six have crossed.
        until("six packets were captured", || {
            wire.vtare("rtt 10.111.0.2 --icmp --count 20 --json");
            tap.0.try_wait().expect("it is ours").is_some()
        });
        let outcome = tap.wait();
        let document = outcome.json();
        assert_eq!((outcome.code, &document["cells"][0]["packets"]), (0, &Value::from(6)), "{hook} {document:#}");
        let tap = Running::start(here, &format!("va --hook {hook} --seconds 0.05 --json")).expect("as before");
        let outcome = tap.wait();
        assert_eq!((outcome.code, &outcome.json()["cells"][0]["packets"]), (0, &Value::from(0)), "{hook}");
        // A signal before the time that was asked for is an early end.
        let tap = Running::start(here, &format!("va --hook {hook} --seconds 60 --json")).expect("as before");
        let outcome = tap.end();
        assert_eq!((outcome.code, &outcome.json()["interrupted"]), (130, &Value::from(true)), "{hook}");
    }
    let mut killed = Running::start(here, "va --hook tc").expect("as before");
    let links = links(killed.0.id());
    assert_eq!(links.len(), 2, "one for each side");
    let there = |link: &String| Command::new("bpftool").args(["link", "show", "id", link]).output();
    let before: Result<Vec<_>, _> = links.iter().map(there).collect();
    killed.0.kill().expect("it runs");
    killed.0.wait().expect("it ended");
    match before {
        Err(error) => eprintln!("skipped: whether a killed capture leaves its programs: no bpftool here: {error}"),
        Ok(before) => {
            assert!(before.iter().all(|shown| shown.status.success()), "{before:?}");
            // The kernel takes them away in the background.
            until("the links are gone", || links.iter().all(|link| there(link).is_ok_and(|it| !it.status.success())));
        }
    }
}

/// The numbers of the kernel program links that a process holds.
fn links(process: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{process}/fdinfo")).expect("it runs");
    let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    texts
        .filter_map(|text| Some(text.lines().find_map(|line| line.strip_prefix("link_id:"))?.trim().to_owned()))
        .collect()
}

#[test]
fn what_cannot_be_captured_is_refused_in_words() {
    vtare_line("capture").refused(2, &["is missing", "IFACE", "--read"]);
    vtare_line("capture nosuch0 --seconds 1")
        .refused(2, &["no interface 'nosuch0' in this network namespace; there are ", "lo"]);
    vtare_line("capture lo --ring-byte 9999").refused(2, &["ring_byte is 9999: use a power of two, such as 16384"]);
    vtare_line("capture lo --read x.pcap").refused(2, &["cannot be used with"]);
    vtare_line("capture --read /nonexistent.pcap").refused(2, &["cannot read /nonexistent.pcap"]);
    let place = Place::new();
    let text = place.with("notes.pcap", "this is a text");
    vtare_line(&format!("capture --read {}", text.display()))
        .refused(2, &["74 68 69 73", "is not a pcap or pcapng file"]);
    if let Some(wire) = Wire::new() {
        wire.here("ip link set va down").expect("it was up");
        wire.vtare("capture va").refused(3, &["the interface va is down: ip link set va up"]);
    }
}

#[test]
fn a_file_of_tcpdump_gives_the_same_probes_and_one_cut_short_states_so() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let (key, file) = (place.file("key"), place.file("va.pcap"));
    new_key(&key);
    let _responder = wire.responder(&key, "10.111.0.2:8462");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", wire.names().0, "tcpdump", "-i", "va", "-w"]).arg(&file);
    command.args(["-U", "--immediate-mode", "--time-stamp-precision=nano", "-Z", "root", "udp port 8462"]);
    let Ok(mut tcpdump) = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() else {
        return eprintln!("skipped: no ip here");
    };
    let mut stderr = BufReader::new(tcpdump.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        if stderr.read_line(&mut line).expect("text") == 0 {
            tcpdump.wait().expect("it ended");
            return eprintln!("skipped: no tcpdump that works here");
        }
    }
    let probed = wire.rtt(&key, "--count 500 --rate 1000", &place.file("rtt.parquet"));
    let sent = probed["cells"][0]["sent"].as_u64().expect("a count");
    // The file's own head has 24 B.
    until("tcpdump has written", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 24));
    Command::new("kill").args(["-INT", &tcpdump.id().to_string()]).status().expect("kill is there");
    tcpdump.wait().expect("it ended");
    let mut counted = String::new();
    stderr.read_to_string(&mut counted).expect("text");
    let mut words = counted.split_whitespace();
    // It may leave out what it had not read when it was asked to end.
    let written: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{counted}"));
    assert!(written > 0, "{counted}");

    let out = place.file("file.parquet");
    let outcome = vtare_line(&format!("capture --read {} --json --out {}", file.display(), out.display()));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let cell = &document["cells"][0];
    assert_eq!((&cell["hook"], &cell["stamp_clock"]), (&Value::from("file"), &Value::from("realtime")));
    assert_eq!(cell["file"]["frames"], written, "{cell:#}");
    let packets = cell["packets"].as_u64().expect("a count");
    // The responder may have sent several replies as one large packet.
    assert!((written..=2 * sent).contains(&packets), "{cell:#}");
    assert!(cell["rtt_ns"]["n"].as_u64() > Some(0) || written < sent, "{cell:#}");
    assert_eq!((&cell["lost"], &cell["file"]["cut_at_byte"]), (&Value::Null, &Value::Null));
    let read = rows(&out);
    assert!(
        read.iter()
            .all(|row| !row.texts.contains_key("direction") && row.number("captured_ns") > 1_500_000_000_000_000_000)
    );

    let whole = std::fs::read(&file).expect("tcpdump wrote it");
    std::fs::write(&file, &whole[..whole.len() - 10]).expect("ours");
    let outcome = vtare_line(&format!("capture --read {} --json", file.display()));
    let document = outcome.json();
    let cell = &document["cells"][0];
    assert_eq!((outcome.code, &cell["file"]["frames"]), (0, &Value::from(written - 1)));
    assert!(cell["packets"].as_u64() < Some(packets) && cell["file"]["cut_at_byte"].is_u64(), "{cell:#}");
    assert!(document["notes"].to_string().contains("ends within a packet"), "{document:#}");
}

/// A capture file with echo requests 0, 1, ... and replies 250 us later; the last is not answered.
fn echoes(requests: u16) -> Vec<u8> {
    let message = |reply: bool, sequence: u16| {
        let (from, to) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 1, 0, 0]);
        frame.extend(if reply { [to, from] } else { [from, to] }.concat());
        frame.extend([if reply { 0 } else { 8 }, 0, 0, 0, 0x12, 0x34]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([7; 8]);
        frame
    };
    let mut file: Vec<u8> =
        [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    for sequence in 0..requests {
        for reply in [false, true].into_iter().take(if sequence + 1 == requests { 1 } else { 2 }) {
            let frame = message(reply, sequence);
            let part = u32::from(sequence) * 1_000_000 + u32::from(reply) * 250_000;
            let words = [1_700_000_000, part, frame.len() as u32, frame.len() as u32];
            file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            file.extend(frame);
        }
    }
    file
}

#[test]
fn a_run_of_the_lab_reads_a_file_into_rows_and_round_trips() {
    let place = Place::new();
    let (file, out) = (place.file("echo.pcap"), place.file("samples.parquet"));
    std::fs::write(&file, echoes(400)).expect("the place is writable");
    let run = serde_json::json!({
        "schema": "vtare.run/1", "run_id": null, "instrument": "capture", "seed": 1, "output": out,
        "parameters": {"read": file, "icmp": true},
    });
    let run = place.with("run.json", &run.to_string());
    let outcome = vtare_line(&format!("measure {} --json", run.display()));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let cell = &document["cells"][0];
    assert_eq!((&cell["packets"], &cell["lost"]), (&Value::from(799), &Value::Null));
    assert_eq!((&cell["rtt_ns"]["n"], &cell["rtt_ns"]["median"]), (&Value::from(399), &Value::from(250_000.0)));
    assert_eq!(cell["rtt_ns"]["p99"], 250_000.0);
    let flow = &cell["flows"][0];
    assert_eq!((&flow["session"], &flow["requests"], &flow["replies"]), (&"1234".into(), &400.into(), &399.into()));
    let rows = rows(&out);
    let row = &rows[1];
    let texts = [("kind", "echo_reply"), ("form", "icmp"), ("source", "10.0.0.2"), ("destination", "10.0.0.1")];
    assert_eq!(row.texts, texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    let numbers = [("captured_ns", 1_700_000_000_000_250_000), ("sequence", 0), ("session", 0x1234), ("size_byte", 36)];
    assert_eq!(row.numbers, numbers.map(|(name, number)| (name.to_owned(), number)).into());
    assert_eq!(rows.len(), 799);

    let table = vtare_line(&format!("capture --read {} --icmp -v", file.display()));
    for part in
        ["icmp  1234     10.0.0.1  10.0.0.2", "400      399", "250 us", "799 probes: 399 echo_reply, 400 echo_request"]
    {
        assert!(table.stdout.contains(part), "{part} is missing in:\n{}", table.stdout);
    }
    let none = vtare_line(&format!("capture --read {}", file.display()));
    assert!(none.code == 0 && none.stdout.starts_with("No probe passed "), "{}", none.stdout);
    assert!(none.stdout.contains("Frames passed over: 799 ICMP echo (read with --icmp)."), "{}", none.stdout);
}

#[test]
fn an_interface_that_goes_away_ends_the_capture_with_what_it_had() {
    let Some(wire) = Wire::new() else { return };
    for hook in ["tc", "packet"] {
        // The far end of a pair of its own, so that the wire stays.
        if wire.here("ip link add gone0 type veth peer name gone1 && ip link set gone0 up").is_none() {
            return;
        }
        let Some(tap) = Running::start(wire.names().0, &format!("gone0 --hook {hook} --json")) else { return };
        wire.here("ip link del gone0").expect("it was there");
        let outcome = tap.wait();
        let document = outcome.json();
        assert_eq!((outcome.code, &document["cells"][0]["packets"]), (0, &Value::from(0)), "{}", outcome.stderr);
        let notes = document["notes"].to_string();
        assert!(notes.contains("interface_gone") || notes.contains("capture_ended"), "{notes}");
    }
}

#[test]
fn the_help_is_as_agreed() {
    golden("tests/golden/help_capture.txt", &vtare_line("capture --help").stdout);
}
