//! `vtare rtt` against real responders: over loopback, and over a veth pair between two namespaces with injected
//! losses.

use crate::common::skips::spoiled;
use crate::common::wire::{Responder, Wire, new_key};
use crate::common::{Outcome, Place, accepted, golden, pause, undisturbed, until, vtare_line};
use serde_json::Value;

/// One row of the samples.
#[derive(Debug, Default)]
struct Row {
    peer: String,
    fate: String,
    numbers: std::collections::BTreeMap<String, i64>,
}

fn rows(path: &std::path::Path) -> Vec<Row> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let file = std::fs::File::open(path).expect("it was written");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let rows = reader.get_row_iter(None).expect("rows are readable");
    let row = |row: parquet::record::Row| {
        let mut found = Row::default();
        for (name, field) in row.get_column_iter() {
            match (name.as_str(), field) {
                ("peer", Field::Str(text)) => found.peer.clone_from(text),
                ("fate", Field::Str(text)) => found.fate.clone_from(text),
                (_, Field::Long(number)) => {
                    found.numbers.insert(name.clone(), *number);
                }
                _ => {}
            }
        }
        found
    };
    rows.map(|found| row(found.expect("readable"))).collect()
}

fn count(cell: &Value, key: &str) -> u64 {
    let path = format!("/{}", key.replace('.', "/"));
    cell.pointer(&path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key} is no number in {cell:#}"))
}

/// What holds for every cell of every run.
#[track_caller]
fn adds_up(cell: &Value) {
    assert_eq!(count(cell, "sent"), count(cell, "received") + count(cell, "lost"), "{cell:#}");
    let unsent = count(cell, "unsent.too_late") + count(cell, "unsent.no_room");
    assert_eq!(count(cell, "scheduled"), count(cell, "sent") + unsent);
    let classes = ["late", "local_tx", "forward", "responder_rx", "responder", "reverse", "local_rx", "unattributed"];
    let sorted: u64 = classes.iter().filter_map(|class| cell["lost_by"][class].as_u64()).sum();
    assert_eq!(sorted, count(cell, "lost"), "{cell:#}");
    assert_eq!(count(cell, "rtt_ns.n"), count(cell, "received"));
}

/// Every packet was sent and answered.
#[track_caller]
fn all_answered(cell: &Value, scheduled: u64) {
    let counts = ["scheduled", "sent", "received"].map(|key| count(cell, key));
    assert_eq!(counts, [scheduled; 3], "{cell:#}");
}

/// As [`measured`], of a run in which the machine did not stall; `None`, with a message, where it always does.
fn measured_in_time(run: impl FnMut() -> Outcome) -> Option<Value> {
    undisturbed(run).as_ref().map(measured)
}

fn measured(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let document = outcome.json();
    document["cells"].as_array().expect("cells").iter().for_each(adds_up);
    document
}

/// Far above what placing a stamp on another clock costs in precision, far below what separates two clocks that were
/// mistaken for each other, ns.
const NEARLY: i64 = 100_000_000;

#[test]
fn each_packet_is_a_row_and_its_stamps_follow_each_other() {
    let (responder, place) = (Responder::on_loopback(), Place::new());
    let out = place.file("rtt.parquet");
    let line = format!("rtt {} --count 200 --rate 2000 --seed 11 --json --out {}", responder.address, out.display());
    let Some(document) = measured_in_time(|| vtare_line(&line)) else { return };
    let cell = &document["cells"][0];
    all_answered(cell, 200);
    assert_eq!(cell["lost_by"]["attribution"], "counters");
    let rows = rows(&out);
    assert_eq!(rows.len(), 200);
    assert!(cell["link"]["stamp_error_ns"].as_i64().is_some_and(|error| error > 0), "stamps were converted: {cell:#}");
    let mut stamped = 0;
    for row in &rows {
        assert_eq!((row.fate.as_str(), row.peer.as_str()), ("received", responder.address.as_str()));
        let at = |name: &str| row.numbers.get(name).copied();
        let (scheduled, sent, arrived) = (at("scheduled_ns"), at("sent_ns"), at("arrived_ns"));
        assert!(scheduled <= sent && sent < arrived, "{row:?}");
        assert_eq!(at("rtt_ns"), arrived.zip(sent).map(|(arrived, sent)| arrived - sent));
        assert_eq!(at("rtt_scheduled_ns"), arrived.zip(scheduled).map(|(arrived, scheduled)| arrived - scheduled));
        if let (Some(sent), Some(tx), Some(rx), Some(arrived)) = (sent, at("kernel_tx_ns"), at("kernel_rx_ns"), arrived)
        {
            stamped += 1;
            // On the program's clock, as exact as a machine that may be delayed between two readings.
            assert!(sent <= tx + NEARLY && tx < rx && rx <= arrived + NEARLY, "{row:?}");
            assert!(at("turnaround_ns").is_some_and(|turnaround| turnaround > 0 && turnaround < rx - tx + NEARLY));
        }
    }
    // The kernel turns its stamps on in the background: the first packets may have none.
    assert!(stamped > 0, "none of 200 is stamped");
}

#[test]
fn the_document_has_the_agreed_shape() {
    let responder = Responder::on_loopback();
    let line = format!("rtt {} --count 5 --seed 11 --json", responder.address);
    let Some(document) = measured_in_time(|| vtare_line(&line)) else { return };
    assert_eq!(document["schema"], "vtare.rtt/1");
    let mut keys = Vec::new();
    fn walk(path: &str, value: &Value, keys: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(key, value)| walk(&format!("{path}.{key}"), value, keys));
            }
            _ => keys.push(format!("{path}\n")),
        }
    }
    walk("cells[]", &document["cells"][0], &mut keys);
    golden("tests/golden/rtt.shape", &keys.concat());
    golden("tests/golden/help_rtt.txt", &vtare_line("rtt --help").stdout);
}

#[test]
fn a_short_datagram_and_a_fast_one_are_measured_too() {
    let responder = Responder::on_loopback();
    let at = &responder.address;
    let line = format!("rtt {at} --size 18 --count 100 --json");
    let Some(short) = measured_in_time(|| vtare_line(&line)) else { return };
    all_answered(&short["cells"][0], 100);
    // Whatever this machine reaches: every slot is accounted for.
    let fast = accepted(|| vtare_line(&format!("rtt {at} --rate 1000000 --seconds 0.1 --json")));
    let cell = &fast.json()["cells"][0];
    adds_up(cell);
    assert_eq!(count(cell, "scheduled"), 100_000);
    assert!(cell["link"]["capabilities"]["tx_stamp_every"] == 64);
}

#[test]
fn waiting_in_the_kernel_and_flooding_account_for_every_packet() {
    let responder = Responder::on_loopback();
    for way in ["--blocking --count 50", "--flood --count 500", "--poisson --count 100", "--gap 120us --count 100"] {
        let line = format!("rtt {} {way} --json", responder.address);
        let Some(document) = measured_in_time(|| vtare_line(&line)) else { return };
        let wanted: u64 = way.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count");
        all_answered(&document["cells"][0], wanted);
    }
}

#[test]
fn a_host_without_responder_answers_icmp() {
    let Some(outcome) = undisturbed(|| vtare_line("rtt 127.0.0.1 --icmp --count 20 --json")) else { return };
    if outcome.code == 3 {
        return eprintln!("skipped: {}", outcome.stderr);
    }
    let document = measured(&outcome);
    let cell = &document["cells"][0];
    all_answered(cell, 20);
    assert_eq!(cell["lost_by"]["attribution"], "none");
    assert!(cell["lost_by"]["forward"].is_null(), "nobody counts there: missing, not 0");
}

#[test]
fn stamp_is_measured_against_our_own_reflector() {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--stamp", "127.0.0.1:0", "--json"];
    let responder = Responder::start(std::process::Command::new(crate::common::VTARE).args(arguments));
    let (place, at) = (Place::new(), responder.stamp.as_deref().expect("it was asked for"));
    let out = place.file("stamp.parquet");
    let line = format!("rtt {at} --stamp --count 200 --rate 400 --seed 11 --json --out {}", out.display());
    let Some(document) = measured_in_time(|| vtare_line(&line)) else { return };
    let cell = &document["cells"][0];
    all_answered(cell, 200);
    assert_eq!(cell["lost_by"]["attribution"], "none", "STAMP counts nothing for its sender");
    assert_eq!(count(cell, "foreign"), 0);
    for row in rows(&out).iter().filter(|row| row.fate == "received") {
        let at = |name: &str| row.numbers.get(name).copied();
        let turnaround = at("turnaround_ns").expect("both times of the reflector came");
        assert_eq!(at("peer_replied_ns").zip(at("peer_received_ns")).map(|(out, came)| out - came), Some(turnaround));
        assert!(turnaround > 0 && Some(turnaround) < at("rtt_ns"), "{row:?}");
    }
}

/// Sends a signal to a process.
fn signal(process: u32, name: &str) {
    let words = [format!("-{name}"), process.to_string()];
    assert!(std::process::Command::new("kill").args(words).status().expect("kill is there").success());
}

#[test]
fn a_process_that_is_stopped_stalled_and_is_not_called_too_slow() {
    let responder = Responder::on_loopback();
    for (at_far_end, id) in [(false, "stalled"), (true, "nothing_came_back")] {
        let line = format!("rtt {} --rate 100 --seconds 1.6 --blocking --json", responder.address);
        let mut command = std::process::Command::new(crate::common::VTARE);
        command.args(line.split(' ')).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("the binary starts");
        let stop = |name: &str| if at_far_end { responder.signal(name) } else { signal(child.id(), name) };
        pause(700);
        stop("STOP");
        pause(500);
        stop("CONT");
        let document = measured(&Outcome::of(child.wait_with_output().expect("it ends")));
        let notes: Vec<&str> =
            document["notes"].as_array().expect("a list").iter().filter_map(|note| note["id"].as_str()).collect();
        assert!(notes.contains(&id), "{notes:?}");
        assert!(!notes.contains(&"rate_not_reached"), "{notes:?}");
        let cell = &document["cells"][0];
        let place = if at_far_end { "beyond" } else { "here" };
        let outages = cell["outages"].as_array().expect("a list");
        let longest = outages.iter().filter(|one| one["place"] == place).filter_map(|one| one["length_ns"].as_u64());
        assert!(longest.max().is_some_and(|ns| ns >= 400_000_000), "{outages:?}");
        assert!(cell["steady_rtt_ns"]["n"].as_u64().is_some_and(|n| n > 0 && n < 160), "{cell:#}");
    }
}

/// Every fourth packet is lost on the way there, every fifth reply on the way back.
#[test]
fn an_authenticated_stamp_reflector_states_where_packets_were_lost_and_bounds_one_way_delays() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let mut serve = std::process::Command::new("ip");
    serve.args(["netns", "exec", wire.names().1, crate::common::VTARE, "serve", "--listen", "127.0.0.1:0", "--json"]);
    serve.args(["--stamp", "10.111.0.2:862", "--stamp-key-file"]).arg(&key);
    let responder = Responder::start(&mut serve);
    let rule = |port: &str, each: u32| {
        format!(
            "nft add table ip t && nft add chain ip t c '{{ type filter hook input priority 0; }}' && \
             nft add rule ip t c udp {port} 862 numgen inc mod {each} 0 drop"
        )
    };
    if wire.there(&rule("dport", 4)).is_none() || wire.here(&rule("sport", 5)).is_none() {
        return;
    }
    let at = responder.stamp.as_deref().expect("it was asked for");
    let tlv = "location,timestamps,class,direct,follow_up";
    let line = format!(
        "rtt {at} --stamp --key-file {} --stamp-tlv {tlv} --dscp 10 --count 400 --timeout 300ms --json",
        key.display()
    );
    let Some(outcome) = undisturbed(|| wire.vtare(&line)) else { return };
    let document = measured(&outcome);
    let cell = &document["cells"][0];
    adds_up(cell);
    // 100 of 400 there, 60 of the 300 replies.
    assert_eq!((count(cell, "lost_by.forward"), count(cell, "lost_by.reverse")), (100, 60), "{cell:#}");
    let stamp = &cell["stamp"];
    assert_eq!((&stamp["authenticated"], &stamp["stateful"]), (&true.into(), &true.into()), "{stamp:#}");
    assert_eq!(
        (&stamp["dscp"], &stamp["dscp_kept"], &stamp["unanswered"]),
        (&10.into(), &true.into(), &Value::Array(vec![]))
    );
    assert_eq!(stamp["reached_at"], at);
    assert!(stamp["seen_as"].as_str().is_some_and(|seen| seen.starts_with("10.111.0.1:")), "{stamp:#}");
    assert_eq!(stamp["sender_ttl"], 64);
    // One host, one clock: the true delays of both ways are within their bounds, which 0 is not above.
    let median = |name: &str| cell["one_way"][name]["median"].as_f64().expect("both ends state their times");
    for way in ["there", "back"] {
        let (low, high) = (median(&format!("{way}_low_ns")), median(&format!("{way}_high_ns")));
        assert!(low <= high && high > 0.0, "{way}: {low} to {high}");
    }
    // Without the key there is no answer, and the sender learns that.
    let line = format!("rtt {at} --stamp --count 3 --timeout 300ms --json");
    wire.vtare(&line).refused(4, &["no reply to 3 packets"]);
}

#[test]
fn nobody_there_is_exit_code_4_and_bad_input_2() {
    vtare_line("rtt 127.0.0.1:9 --count 300").refused(4, &["127.0.0.1:9", "start `vtare serve`"]);
    let unanswered = undisturbed(|| vtare_line("rtt 127.0.0.1:9 --stamp --count 300 --json"));
    if let Some(unanswered) = unanswered {
        unanswered.refused(4, &["peer lost", "127.0.0.1:9"]);
    }
    vtare_line("rtt").refused(2, &["<PEER>"]);
    vtare_line("rtt 127.0.0.1 --size 17").refused(2, &["size_byte (--size) is 17: use a whole number from 18"]);
    vtare_line("rtt 127.0.0.1 --cpu 4000").refused(2, &["cpu is 4000"]);
    vtare_line("rtt 127.0.0.1 --peers /nonexistent").refused(2, &["/nonexistent"]);
    let responder = Responder::on_loopback();
    let place = Place::new();
    new_key(&place.file("key"));
    let line = format!("rtt {} --key-file {}", responder.address, place.file("key").display());
    accepted(|| vtare_line(&line)).refused(2, &["has no key"]);
}

#[test]
fn a_spinning_sender_has_no_real_time_priority_where_the_kernel_would_stop_it() {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse::<i64>().ok();
    let limited =
        read("sched_rt_runtime_us").zip(read("sched_rt_period_us")).is_some_and(|(of, all)| 0 <= of && of < all);
    let responder = Responder::on_loopback();
    let line = format!("rtt {} --count 5 --fifo 10", responder.address);
    if limited {
        vtare_line(&line).refused(2, &["--fifo 10: the kernel stops", "add --blocking"]);
    }
    assert_eq!(vtare_line(&format!("{line} --blocking")).code, 0);
}

#[test]
fn a_limit_that_is_crossed_is_exit_code_1() {
    let responder = Responder::on_loopback();
    for (limit, code) in [("rtt_median_ns > 1", 1), ("lost > 0", 0), ("lost_by_forward > 0", 0)] {
        let words = ["rtt", &responder.address, "--count", "10", "--json", "--fail-if", limit];
        let Some(outcome) = undisturbed(|| crate::common::vtare(words)) else { return };
        assert_eq!(outcome.code, code, "{limit}: {}", outcome.stderr);
    }
}

#[test]
fn a_responder_that_goes_away_is_exit_code_4_and_what_was_measured_is_kept() {
    let place = Place::new();
    let out = place.file("rtt.parquet");
    // On a machine that is slow to start a program the responder has gone before a packet was sent: it stays longer,
    // then.
    for seconds in [1, 4, 16] {
        let responder = Responder::on_loopback();
        let arguments = ["rtt", &responder.address, "--seconds", "60", "--timeout", "100ms", "--json", "--out"];
        let child = std::process::Command::new(crate::common::VTARE)
            .args(arguments)
            .arg(&out)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the binary starts");
        until("it takes signals", || crate::common::takes_interrupts(child.id()));
        std::thread::park_timeout(std::time::Duration::from_secs(seconds));
        drop(responder);
        let outcome = Outcome::of(child.wait_with_output().expect("it ends"));
        assert_eq!(outcome.code, 4, "{}", outcome.stderr);
        let document = outcome.json();
        let cell = &document["cells"][0];
        if cell["received"].as_u64().is_none_or(|received| received == 0) {
            continue;
        }
        adds_up(cell);
        assert!(count(cell, "sent") < 60_000, "{cell:#}");
        return assert_eq!(rows(&out).len() as u64, count(cell, "scheduled"));
    }
    spoiled("this machine stalled for 16 s");
}

#[test]
fn many_peers_share_one_thread_and_have_a_cell_each() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    new_key(&place.file("key"));
    let _responders = ["2", "3", "4"].map(|last| wire.responder(&place.file("key"), &format!("10.111.0.{last}:8462")));
    let peers = place.with("peers", "10.111.0.2 # first\n10.111.0.3\n\n10.111.0.4\n");
    let line = format!(
        "rtt --peers {} --key-file {} --count 100 --rate 500 --json --out {}",
        peers.display(),
        place.file("key").display(),
        place.file("rtt.parquet").display()
    );
    let Some(document) = measured_in_time(|| wire.vtare(&line)) else { return };
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 3);
    for (cell, peer) in cells.iter().zip(["10.111.0.2", "10.111.0.3", "10.111.0.4"]) {
        assert_eq!(cell["peer"], peer);
        all_answered(cell, 100);
        assert!(cell["rtt_kernel_ns"]["n"].as_u64() > Some(0), "each has its departures");
    }
    assert_eq!(rows(&place.file("rtt.parquet")).len(), 300);
}

/// The datagrams of 64 B that the rules of one chain dropped. The filter counts a large send as one packet: its
/// bytes give the number of datagrams in it.
fn dropped(rules: &str) -> u64 {
    let words: Vec<&str> = rules.split_whitespace().collect();
    let sum = |name: &str| -> u64 {
        let counts = words.windows(2).filter(|pair| pair[0] == name);
        counts.map(|pair| pair[1].parse::<u64>().expect("a count")).sum()
    };
    let payload = sum("bytes") - 28 * sum("packets");
    assert!(payload.is_multiple_of(64), "{rules}");
    payload / 64
}

#[test]
fn random_drops_in_both_directions_are_accounted_for_to_the_packet() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    let rule = |port: &str, modulus: u32| {
        format!(
            "nft add table inet t && nft add chain inet t c '{{ type filter hook input priority 0; }}' && \
             nft add rule inet t c udp {port} 8462 numgen random mod {modulus} == 0 counter drop"
        )
    };
    if wire.there(&rule("dport", 7)).is_none() || wire.here(&rule("sport", 11)).is_none() {
        return;
    }
    let line = format!("rtt 10.111.0.2 --key-file {} --count 4000 --rate 4000 --json", key.display());
    let counted = || {
        let rules = [wire.there("nft list ruleset"), wire.here("nft list ruleset")];
        rules.map(|rules| dropped(&rules.expect("they were made")))
    };
    let mut before = [0; 2];
    let Some(document) = measured_in_time(|| {
        before = counted();
        wire.vtare(&line)
    }) else {
        return;
    };
    let cell = &document["cells"][0];
    let after = counted();
    let (there, back) = (after[0] - before[0], after[1] - before[1]);
    assert!(there > 0 && back > 0, "nothing was dropped: the test tests nothing");
    assert_eq!(count(cell, "lost"), there + back, "{cell:#}");
    assert_eq!((count(cell, "lost_by.forward"), count(cell, "lost_by.reverse")), (there, back));
    assert_eq!((count(cell, "lost_by.late"), count(cell, "lost_by.unattributed")), (0, 0));
}

#[test]
fn drops_of_a_token_bucket_are_accounted_for_to_the_packet() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    let _responder = wire.responder(&key, "0.0.0.0:8462");
    // 64 B of payload make frames of 106 B: 4000 a second are 3.4 Mbit/s.
    // Only UDP goes through the bucket: what it drops of the control connection or of ARP is no probe.
    let bucket = |device: &str, rate: &str| {
        format!(
            "tc qdisc add dev {device} root handle 1: prio && \
             tc qdisc add dev {device} parent 1:3 handle 30: tbf rate {rate} burst 2000 limit 3000 && \
             tc filter add dev {device} parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:3"
        )
    };
    if wire.here(&bucket("va", "2.5mbit")).is_none() || wire.there(&bucket("vb", "1.5mbit")).is_none() {
        return;
    }
    // `packets` counts what went through, each datagram of a large send; `drops` counts a large send once.
    let counted = |device: &str, show: Option<String>| -> (u64, u64) {
        let queues: Value = serde_json::from_str(&show.expect("it was made")).expect("tc speaks JSON");
        let queue = queues.as_array().expect("a list").iter().find(|queue| queue["kind"] == "tbf").cloned();
        let queue = queue.unwrap_or_else(|| panic!("no tbf on {device}"));
        (queue["packets"].as_u64().expect("a count"), queue["drops"].as_u64().expect("a count"))
    };
    let both = || {
        let there = counted("va", wire.here("tc -s -j qdisc show dev va"));
        let back = counted("vb", wire.there("tc -s -j qdisc show dev vb"));
        [there.0, there.1, back.0, back.1]
    };
    let line = format!("rtt 10.111.0.2 --key-file {} --count 4000 --rate 4000 --json", key.display());
    let mut before = [0; 4];
    let Some(document) = measured_in_time(|| {
        before = both();
        wire.vtare(&line)
    }) else {
        return;
    };
    let cell = &document["cells"][0];
    let mut since = both();
    since.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
    let [passed_there, dropped_there, passed_back, dropped_back] = since;
    assert!(dropped_there > 0 && dropped_back > 0, "nothing was dropped: the test tests nothing");
    assert_eq!(count(cell, "received"), passed_back, "{cell:#}");
    let there = count(cell, "lost_by.forward") + count(cell, "lost_by.local_tx") + count(cell, "lost_by.responder_rx");
    assert_eq!(there, count(cell, "sent") - passed_there, "{cell:#}");
    let back = count(cell, "lost_by.reverse") + count(cell, "lost_by.local_rx");
    assert_eq!(back, passed_there - passed_back, "{cell:#}");
    assert_eq!((count(cell, "lost_by.late"), count(cell, "lost_by.responder")), (0, 0));
}

#[test]
fn without_a_route_every_command_ends_with_one_message_and_one_code() {
    let Some(wire) = Wire::new() else { return };
    let said = ["rtt", "avb", "rtt --icmp", "rtt --stamp"].map(|command| {
        let outcome = wire.vtare(&format!("{command} 203.0.113.9:862"));
        outcome.refused(4, &["cannot reach 203.0.113.9", "Network is unreachable", "is there a route (`ip route`)?"]);
        outcome.stderr
    });
    // An echo request has no port.
    let wanted = said[0].replace(":862", "");
    assert!(said.iter().all(|text| text.replace(":862", "").replace(":0", "") == wanted), "{said:?}");
}
