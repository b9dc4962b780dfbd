//! `vtare avb --method tcp` as a person starts it: over loopback, and over a shaped path whose rate is known.

use crate::common::wire::{Responder, Wire, new_key};
use crate::common::{Place, VTARE, vtare_line};
use serde_json::Value;
use std::process::{Command, Stdio};

fn line(peer: &str, rest: &str) -> String {
    format!("avb {peer} --method tcp {rest}")
}

#[test]
fn it_gives_a_rate_with_what_the_kernel_states_of_it() {
    let far = Responder::on_loopback();
    let place = Place::new();
    let out = place.file("samples.parquet");
    let settings = "--set seconds=0.4 --set omit_s=0.1 --set streams=2 --set congestion=reno --count 2 --pause 0ns";
    let outcome = vtare_line(&line(&far.address, &format!("{settings} --json --out {}", out.display())));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let cell = &document["cells"][0];
    assert_eq!((cell["congestion"].as_str(), cell["estimates"].as_u64()), (Some("reno"), Some(2)));
    assert_eq!((cell["layer"].as_str(), cell["direction"].as_str()), (Some("ip"), Some("forward")));
    assert!(cell["avb_bit_per_s"].as_f64().expect("loopback carries") > 0.0);
    assert_eq!((cell["at_least"].as_bool(), &cell["interval_bit_per_s"]), (Some(false), &Value::Null));
    assert_eq!((&cell["send_cost_ns"], &cell["receiver_drops"]), (&Value::Null, &Value::Null));
    assert!(cell["probe_byte"].as_u64().expect("a count") > 0);
    let notes = document["notes"].to_string();
    assert!(notes.contains("fills the path") && notes.contains("congestion control reno, as asked for"), "{notes}");
    assert!(out.exists());
}

#[test]
fn bytes_end_it_where_they_are_named_and_are_not_exceeded() {
    let far = Responder::on_loopback();
    let outcome = vtare_line(&line(&far.address, "--set omit_s=0 --max-bytes 20MB --json"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let cell = &document["cells"][0];
    let byte = cell["probe_byte"].as_u64().expect("a count");
    assert!((19_000_000..=20_000_000).contains(&byte), "{byte}");
    assert_eq!(cell["stopped"], "byte_budget");
}

#[test]
fn each_estimate_is_a_line_where_a_stream_is_asked_for_and_time_may_be_shortened() {
    let far = Responder::on_loopback();
    let outcome = vtare_line(&line(&far.address, "--set omit_s=0.1 --max-time 300ms --count 2 --json-stream"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    for (number, line) in (0_u64..).zip(&lines) {
        assert_eq!((line["estimate_number"].as_u64(), line["stopped"].as_str()), (Some(number), Some("time_budget")));
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let far = Responder::on_loopback();
    vtare_line(&line(&far.address, "--set congestion=none-such"))
        .refused(2, &["none-such", "this kernel allows", "reno"]);
    vtare_line(&line(&far.address, "--set streams=17")).refused(2, &["17 streams asked", "allows 1 to 16"]);
    vtare_line(&line(&far.address, "--reverse")).refused(2, &["run vtare there"]);
    vtare_line(&line(&far.address, "--set omit_s=20")).refused(2, &["omit_s", "less than the 10 seconds"]);
    vtare_line(&line("127.0.0.1:1", "")).refused(4, &["127.0.0.1:1"]);
    let help = vtare_line("avb --method help");
    assert!(help.stdout.contains("tcp        ") && help.stdout.contains("congestion=\"system\""), "{}", help.stdout);
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    let far = Responder::on_loopback();
    let mut child = Command::new(VTARE)
        .args(["avb", &far.address, "--method", "tcp", "--set", "omit_s=0", "--set", "seconds=600", "--json-stream"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // How far it came is not asserted.
    crate::common::until("it takes signals", || crate::common::takes_interrupts(child.id()));
    std::thread::park_timeout(std::time::Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn over_a_shaped_path_it_finds_about_the_rate() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    let key = place.file("lab.key");
    new_key(&key);
    if wire.here("tc qdisc add dev va root tbf rate 50mbit burst 15000 latency 50ms").is_none() {
        return;
    }
    // Segments as they are on a wire.
    let _offload = wire.here("ethtool -K va tso off gso off");
    let _far = wire.responder(&key, "0.0.0.0:8462");
    let outcome = wire.vtare(&format!(
        "avb 10.111.0.2 --key-file {} --method tcp --set seconds=3 --set omit_s=0.5 --json",
        key.display()
    ));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document = outcome.json();
    let rate = document["cells"][0]["avb_bit_per_s"].as_f64().expect("an answer");
    // Wide: a machine that stalls moves bytes into the window or out of it. Without the bucket it would be some
    // Gbit/s.
    assert!((1e6..500e6).contains(&rate), "{rate}");
    assert_eq!(document["cells"][0]["packet_byte"], 1_500);
}
