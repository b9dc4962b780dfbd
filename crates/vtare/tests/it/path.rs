//! `vtare path` against real responders: over loopback, and over a veth pair whose ways are token buckets of known
//! depth.

use crate::common::skips::{Disturbance, Judged, first_good};
use crate::common::wire::{Responder, Wire, new_key};
use crate::common::{Outcome, Place, accepted, golden, vtare_line};
use serde_json::Value;

/// The depths of the shapers up and down, bytes of IP, and their rates, bit/s.
const UP: (f64, f64) = (150_000.0, 50e6);
const DOWN: (f64, f64) = (60_000.0, 40e6);
/// A standstill that makes a train too late to show a queue, ns.
const STOOD_STILL_NS: u64 = 2_000_000;

#[test]
fn the_help_is_as_agreed() {
    golden("tests/golden/help_path.txt", &vtare_line("path --help").stdout);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    vtare_line("path").refused(2, &["the peer is missing. Name a host"]);
    vtare_line("path 127.0.0.1 --max-bytes 1000").refused(2, &["most_byte", "1000", "500000"]);
    vtare_line("path 127.0.0.1 --cpu 4096").refused(2, &["cpu is 4096"]);
    vtare_line("path 127.0.0.1:1").refused(4, &["127.0.0.1:1"]);
    vtare_line("path 127.0.0.1 --fail-if rtt_at_1110_ns>1").refused(2, &["rtt_at_1110_ns", "rtt_at_110_ns"]);
}

fn cells(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let document = outcome.json();
    document["cells"].as_array().expect("it has cells").clone()
}

#[test]
fn over_loopback_both_directions_and_their_sum_are_there() {
    let responder = Responder::on_loopback();
    // Loopback carries packets of 9 kB: those of the soundings alone are 1.3 MB.
    let line = format!("path {} --json --max-bytes 8MB", responder.address);
    let cells = cells(&accepted(|| vtare_line(&line)));
    let directions: Vec<&str> = cells.iter().filter_map(|cell| cell["direction"].as_str()).collect();
    assert_eq!(directions, ["up", "down", "both"]);
    let idle = cells[0]["idle_rtt_ns"].as_f64().expect("both ways were sent");
    assert!((1e3..5e7).contains(&idle), "{idle}");
    let bytes = |cell: &Value| cell["probe_byte"].as_u64().unwrap_or(0) + cell["extra_byte"].as_u64().unwrap_or(0);
    assert!(bytes(&cells[2]) <= 8_000_000 + 1_000_000, "what trains down need is sent up: {}", cells[2]);
}

/// Within a fifth of the truth, that of a shaper; a machine that is disturbed by others may be farther off, and then
/// it is tried again.
fn near(cell: &Value, key: &str, truth: f64) -> bool {
    cell[key].as_f64().is_some_and(|value| (value / truth - 1.0).abs() < 0.2)
}

#[test]
fn token_buckets_of_known_depth_are_found_in_both_directions() {
    let Some(wire) = Wire::new() else { return };
    let place = Place::new();
    // Bytes of the Ethernet header are not the path's to give.
    let shaper = |dev: &str, (depth, rate): (f64, f64)| {
        format!(
            "tc qdisc add dev {dev} root handle 1: stab overhead -14 tbf rate {rate}bit burst 3200 limit {depth} 2>&1"
        )
    };
    let (up, down) = (wire.here(&shaper("va", UP)), wire.there(&shaper("vb", DOWN)));
    if up.is_none() || down.is_none() {
        return;
    }
    new_key(&place.file("key"));
    let responder = wire.responder(&place.file("key"), "10.111.0.2:8462");
    let line = format!("path 10.111.0.2 --json --key-file {}", place.file("key").display());
    let judge = |cells: &Vec<Value>, disturbance: &Disturbance| {
        let [up, down, _both] = &cells[..] else { panic!("{cells:?}") };
        let found = [("depth_byte", UP.0, DOWN.0), ("depth_ns", UP.0 * 8e9 / UP.1, DOWN.0 * 8e9 / DOWN.1)];
        let right = found.iter().all(|(key, up_is, down_is)| near(up, key, *up_is) && near(down, key, *down_is));
        let tail = [up, down].iter().all(|cell| cell["queue"] == "drop_tail");
        match right && tail {
            true => Judged::Good,
            false if disturbance.still_ns >= STOOD_STILL_NS => Judged::Explained(format!("{up}\n{down}")),
            false => Judged::Unexplained(format!("{up}\n{down}")),
        }
    };
    let _found = first_good(7, || cells(&accepted(|| wire.vtare(&line))), judge);
    drop(responder);
}
