//! `vtare throughput` through a namespace that forwards: every frame is accounted for, and what cannot be is refused.
//! Skipped, with a message, where this user may not make namespaces or load programs.

use crate::common::wire::Wire;
use crate::common::{Outcome, Place, golden};
use serde_json::Value;

/// Two ports here, a router there that has the same two flows pass.
struct Router(Wire);

impl Router {
    /// `None`, with the reason on stderr, where this cannot be.
    fn new() -> Option<Self> {
        let wire = Wire::new()?;
        let (here, there) = wire.names();
        let to = "02:00:00:00:00:02";
        wire.here(&format!(
            "ip link add va2 netns {here} address {to} type veth peer name vb2 netns {there} && ip link set va2 up && \
             ip -n {there} link set vb address 02:00:00:00:00:01 && ip -n {there} link set vb2 up"
        ))?;
        wire.there(&format!(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.vb.rp_filter=0 && \
             ip addr add 198.18.1.1/16 dev vb && ip addr add 198.19.1.1/16 dev vb2 && \
             ip neigh replace 198.19.0.1 lladdr {to} dev vb2 nud permanent && \
             ip neigh replace 198.19.0.2 lladdr {to} dev vb2 nud permanent && ethtool -K vb gro on >/dev/null"
        ))?;
        Some(Self(wire))
    }

    fn vtare(&self, more: &str) -> Outcome {
        let limit = if more.contains("--max-time") { "" } else { "--max-time 15s" };
        self.0.vtare(&format!("{LINE} {limit} {more}"))
    }
}

const LINE: &str = "throughput --tx va --rx va2 --next-hop 02:00:00:00:00:01 --flow 198.19.0.1 --flow 198.19.0.2 \
                    --searches 1 --latency-trial 50ms --others 100% --no-zero-loss --width 30% --json";
const SLOW: &str = "--trial 50ms --trial-sum 100ms --max-rate 2000 --latency-trials 2";

fn count(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} is no number in {value:#}"))
}

/// The cell of a run in which every frame is accounted for; `None`, with the reason, where the kernel refuses the
/// programs.
#[track_caller]
fn adds_up(outcome: &Outcome) -> Option<Value> {
    if outcome.code == 3 {
        eprintln!("skipped: {}", outcome.stderr);
        return None;
    }
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let cell = outcome.json()["cells"][0].clone();
    assert_eq!(count(&cell, "/sent"), count(&cell, "/received") + count(&cell, "/lost"), "{cell:#}");
    for at in cell["latencies"].as_array().expect("a list") {
        for flow in at["flows"].as_array().expect("a list") {
            assert_eq!(count(flow, "/sent"), count(flow, "/received") + count(flow, "/lost"), "{flow:#}");
            assert_eq!(count(flow, "/latency_ns/n"), count(flow, "/received"), "each frame is timed: {flow:#}");
        }
    }
    Some(cell)
}

#[test]
fn each_engine_accounts_for_every_frame_and_spreads_the_load_as_planned() {
    let Some(router) = Router::new() else { return };
    let place = Place::new();
    for engine in ["packet", "af_xdp", "xdp"] {
        let out = place.file(&format!("{engine}.parquet"));
        let outcome = router.vtare(&format!(
            "--engine {engine} --frame 64 --trial 50ms --trial-sum 100ms --loaded 1 --slight 10% --max-rate 2000 \
             --latency-trials 2 --latency-rate 1000 --seed 7 --out {}",
            out.display()
        ));
        let Some(cell) = adds_up(&outcome) else { continue };
        assert_eq!((cell["engine"].as_str(), count(&cell, "/guests"), count(&cell, "/loaded")), (Some(engine), 2, 1));
        let jain = cell["jain"].as_f64().expect("frames were sent");
        let planned = cell["jain_planned"].as_f64().expect("always");
        // 1 / (2 (0.9^2 + 0.1^2)); what was sent differs by the frames whose time had passed.
        assert!((planned - 0.609_756).abs() < 1e-6 && (jain - planned).abs() < 0.15, "{jain} for {planned}");
        assert!(cell["throughput_packet_per_s"].as_f64().is_none_or(|rate| rate > 0.0 && rate <= 2_000.0), "{cell:#}");
        assert_eq!((count(&cell, "/duplicate"), count(&cell, "/searches")), (0, 1));
        let fixed = cell["latencies"].as_array().expect("a list").iter().find(|at| at["load_share"].is_null());
        assert_eq!(fixed.map(|at| count(at, "/load_packet_per_s")), Some(1_000));
        assert!(std::fs::metadata(&out).expect("it was written").len() > 1_000);
        let keys = cell.as_object().expect("a cell").keys().map(|key| format!("{key}\n"));
        golden("tests/golden/throughput.shape", &keys.collect::<String>());
    }
}

#[test]
fn a_packet_ring_accounts_for_every_frame_of_each_size_and_sender() {
    let Some(router) = Router::new() else { return };
    let large = "for device in va va2; do ip link set $device mtu 9000; done";
    assert!(router.0.here(large).is_some() && router.0.there(&large.replace("va", "vb")).is_some());
    for (engine, frame) in [("packet", 64), ("packet", 9_000), ("af_xdp", 1_518), ("xdp", 64)] {
        let outcome = router.vtare(&format!("--analyser packet --engine {engine} --frame {frame} {SLOW} --loaded 1"));
        let Some(cell) = adds_up(&outcome) else { continue };
        assert_eq!((cell["analyser"].as_str(), cell["engine"].as_str()), (Some("packet"), Some(engine)));
        assert!(cell["engine_because"].as_str().is_some_and(|words| words.contains("counted by a packet ring")));
        assert_eq!((count(&cell, "/duplicate"), count(&cell, "/frame_byte")), (0, frame));
        assert!(count(&cell, "/received") > 0, "{cell:#}");
    }
}

#[test]
fn without_the_right_to_load_programs_it_falls_back_states_so_and_refuses_what_needs_them() {
    let Some(router) = Router::new() else { return };
    let Some(outcome) = router.0.vtare_without_programs(&format!("{LINE} --max-time 15s --frame 64 {SLOW}")) else {
        return;
    };
    let Some(cell) = adds_up(&outcome) else { return };
    assert_eq!(cell["analyser"], "packet");
    assert_ne!(cell["engine"], "xdp");
    let notes = outcome.json()["notes"].to_string();
    assert!(notes.contains("analyser_fallback") && notes.contains("engine_refused"), "{notes}");
    for what in ["--engine xdp", "--analyser xdp --engine packet"] {
        let refused = router.0.vtare_without_programs(&format!("{LINE} --max-time 15s --frame 64 {SLOW} {what}"));
        refused.expect("it ran before").refused(3, &["not permitted", "CAP_BPF"]);
    }
}

#[test]
fn time_that_is_over_ends_the_searches_with_what_is_known() {
    let Some(router) = Router::new() else { return };
    // No search of these can end so soon: its last phase alone takes 2 s.
    let more = "--engine packet --frame 64 --trial 400ms --trial-sum 8s --exceed 0% --max-rate 2000 --latency-trials \
        0 --max-time 1s";
    let Some(cell) = adds_up(&router.vtare(more)) else { return };
    assert_eq!((cell["stopped"].as_str(), count(&cell, "/out_of_time")), (Some("time_budget"), 1));
    let answered = cell["throughput_packet_per_s"].is_number();
    assert_eq!(cell["censored"].as_str(), answered.then_some("time_budget"), "{cell:#}");
    router.vtare("--frame 64 --trial 2s --max-time 1s").refused(2, &["most_ns", "--max-time"]);
}

#[test]
fn a_shaped_path_passes_no_more_than_its_rate() {
    let Some(router) = Router::new() else { return };
    // 660 frames of 1518 B (1514 without check sequence) a second.
    if router.0.there("tc qdisc add dev vb2 root tbf rate 8mbit burst 3200 limit 6000").is_none() {
        return;
    }
    let more = "--engine packet --frame 1518 --max-rate 4000 --latency-trials 0 --trial 200ms --trial-sum 200ms";
    let Some(cell) = adds_up(&router.vtare(more)) else { return };
    let found = cell["throughput_packet_per_s"].as_f64();
    assert!(found.is_none_or(|rate| rate > 0.0 && rate < 2.0 * 660.0), "{cell:#}");
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn the_longest_burst_shows_how_deep_the_queue_of_a_shaped_path_is() {
    let Some(router) = Router::new() else { return };
    // Its queue holds 66 frames of 1514 B, its bucket one more.
    if router.0.there("tc qdisc add dev vb2 root tbf rate 8mbit burst 1600 limit 100000").is_none() {
        return;
    }
    let more = "--engine packet --frame 1518 --max-rate 20000 --latency-trials 0 --trial 200ms --trial-sum 200ms \
                --bursts 3 --soak 1s --recovery 1 --overload 300ms";
    let Some(cell) = adds_up(&router.vtare(more)) else { return };
    // A load that was found is offered for a second; trials that others disturb do not count.
    if cell["throughput_packet_per_s"].is_number() {
        let soak = &cell["soak"];
        assert!((1..=10).contains(&(count(soak, "/trials") + count(soak, "/void_trials"))), "{soak:#}");
        assert!(count(soak, "/lost") <= count(soak, "/sent"), "{soak:#}");
        // A queue that drops what does not fit has room as soon as the load falls.
        let recovery = &cell["recovery"];
        assert!((1..=2).contains(&(count(recovery, "/trials") + count(recovery, "/void_trials"))), "{recovery:#}");
        assert_eq!(count(recovery, "/overload_packet_per_s") / 2, count(recovery, "/after_packet_per_s"));
        assert!(recovery["recovery_ns"]["median"].as_f64().is_none_or(|ns| ns <= 3e8), "{recovery:#}");
    }
    let bursts = &cell["back_to_back"];
    assert_eq!(count(bursts, "/frames/n") + count(bursts, "/unanswered"), 3, "{bursts:#}");
    if bursts["censored"].is_string() || count(bursts, "/unanswered") > 0 {
        return eprintln!("skipped: other work kept bursts from being sent as planned: {bursts:#}");
    }
    let longest = bursts["frames"]["median"].as_f64().expect("three answers");
    assert!((50.0..=100.0).contains(&longest), "{bursts:#}");
    // What is forwarded meanwhile is no buffer. A search that was disturbed may have no throughput.
    let buffer = bursts["buffer_frames"].as_f64();
    assert!(buffer.is_none_or(|frames| (40.0..longest).contains(&frames)), "{bursts:#}");
}

#[test]
#[ignore = "seconds of measuring: make test-all"]
fn ports_that_are_not_there_not_large_enough_or_do_not_see_each_other_are_refused() {
    let Some(router) = Router::new() else { return };
    let outcome =
        router.vtare("--engine packet --frame 64 --trial 50ms --trial-sum 50ms --max-rate 1000 --latency-trials 0");
    if adds_up(&outcome).is_none() {
        return;
    }
    router.vtare("--engine packet --frame 9000").refused(2, &["MTU of port va is 1500 B", "mtu 8982"]);
    router.vtare("--engine xdp --frame 9000").refused(2, &["use engine packet"]);
    let line = "throughput --tx va --rx nowhere --flow 02:00:00:00:00:01 --frame 64 --engine packet";
    router.0.vtare(line).refused(2, &["port nowhere", "here are", "va2"]);
    assert!(router.0.there("sysctl -qw net.ipv4.ip_forward=0").is_some());
    router.vtare("--engine packet --frame 64").refused(2, &["do not see each other", "flow 1", "198.19.0.1"]);
    // All sizes are looked at before the first is measured.
    router.vtare("--frame 64,9000").refused(2, &["MTU of port va is 1500 B"]);
    assert!(router.0.here("ip link set va2 down").is_some());
    router.vtare("--engine packet --frame 64").refused(2, &["port va2 is down"]);
}
