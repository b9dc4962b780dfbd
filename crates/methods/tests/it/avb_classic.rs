//! The published methods over simulated paths: they find what their publications state, with the biases that are known
//! of them.

use crate::avb_sim::cells::{Cell, Model};
use crate::avb_sim::{Outcome, SimRunner, ability};
use proptest::prelude::*;
use vtare_methods::avb::{Budget, METHODS, Settings, Setup, Stopped};
use vtare_pathsim::{Detour, Duplication, HopSpec, LossModel, PathSpec, Pause, PeerClock, Traffic};
use vtare_probe::sim::TrainSpec;

const MBIT: u64 = 1_000_000;

fn path(capacity_mbit: u64, cross_mbit: u64) -> TrainSpec {
    let hop = HopSpec::new(capacity_mbit * MBIT, 2_000_000, 100_000);
    let hop = hop.with_cross(Traffic::Fluid { rate_bit_per_s: cross_mbit * MBIT });
    let path = PathSpec { hops: vec![hop], ..PathSpec::default() };
    let mut spec = TrainSpec { path, answer_ns: 100_000, ..TrainSpec::default() };
    spec.sender.call_ns = 1_000.0;
    spec
}

fn run_within(name: &str, spec: &TrainSpec, most_packet_byte: u32, budget: Budget, seed: u64) -> Outcome {
    let setup = Setup { ability: ability(spec, most_packet_byte), budget, seed };
    let mut method = Settings::named(name).and_then(|it| it.method(setup)).expect("a listed method");
    SimRunner::new(spec, 10_000_000).run(method.as_mut())
}

fn run(name: &str, spec: &TrainSpec, most_packet_byte: u32) -> Outcome {
    run_within(name, spec, most_packet_byte, Budget::default(), 1)
}

fn names() -> Vec<String> {
    let published = METHODS.iter().filter(|entry| entry.name != "abacus");
    let all = published.flat_map(|entry| {
        let presets = entry.presets.iter().map(|preset| format!("{}:{}", entry.name, preset.name));
        std::iter::once(entry.name.to_owned()).chain(presets)
    });
    all.collect()
}

/// Available bandwidth that a method finds, Mbit/s.
fn found(name: &str, capacity_mbit: u64, cross_mbit: u64) -> f64 {
    let outcome = run(name, &path(capacity_mbit, cross_mbit), 1500);
    let estimate = outcome.estimate;
    let from = estimate.avb_bit_per_s.unwrap_or_else(|| panic!("{name}: {estimate:?}"));
    from / 1e6
}

/// Lowest and highest answer at 100/0 and at 100/50, Mbit/s, and why.
const SMOOTH: &[(&str, [f64; 2], [f64; 2])] = &[
    // A resolution of 500 kbit/s in whole us: it stops a little above. Seen with capture stamps: +3 %.
    ("yaz", [99.0, 103.0], [50.0, 52.0]),
    ("yaz:kachan-default", [99.0, 103.0], [50.0, 52.0]),
    ("yaz:kachan-optimized", [99.0, 103.0], [50.0, 52.0]),
    ("yaz:kirova-1g", [99.0, 103.0], [50.0, 52.0]),
    ("yaz:small-spacing", [99.5, 101.0], [50.0, 51.0]),
    // 1 % of the gap may be added: at 100/50 that is up to 1 Mbit/s too much.
    ("kite", [99.0, 101.0], [49.5, 51.0]),
    ("kite:kachan-default", [99.0, 101.0], [49.5, 51.0]),
    ("kite:kachan-optimized", [99.0, 101.5], [49.5, 51.5]),
    // 5 % of the gap.
    ("kite2", [99.0, 101.0], [49.5, 52.5]),
    ("kite2:kachan-default", [99.0, 101.0], [49.5, 52.5]),
    ("kite2:kachan-optimized", [99.0, 101.0], [49.5, 52.5]),
    ("kite2:packet-train", [99.0, 101.0], [49.5, 52.5]),
    // The middle of a range of at most 2 % of the first rate. Seen: +3 %.
    ("pathload", [98.5, 103.0], [48.5, 51.5]),
    // The first rate of the chirp above the truth: up to a factor of 1.2. Seen: +98 % and more under bursts.
    ("pathchirp", [100.0, 120.0], [50.0, 60.0]),
    // Finer in the middle, 105: up to 8 Mbit/s at 50. Seen at 100: -3 %.
    ("assolo", [99.0, 102.0], [50.0, 58.0]),
    // The turning point is found 5 us early. Seen at 100: -1.5 %.
    ("igi", [99.0, 101.0], [50.0, 54.0]),
    ("ptr", [98.0, 101.0], [50.0, 54.0]),
    // Right where pairs meet the tight link at its capacity. Seen: +2.5 % and more.
    ("spruce", [99.0, 101.0], [49.0, 52.0]),
    // Pairs back to back from a fast card let nothing smooth come between them: it gives the capacity.
    ("abing", [99.0, 101.0], [98.0, 101.0]),
    // It keeps the link full, so it takes more than was free: seen +9 to +68 %.
    ("udpst", [99.0, 101.0], [50.0, 60.0]),
    ("udpst:type-c", [99.0, 101.0], [50.0, 84.0]),
    // An upper bound.
    ("adr", [99.9, 100.1], [98.0, 100.1]),
];

#[test]
fn every_method_finds_on_an_idle_and_on_a_smoothly_loaded_link_what_is_known_of_it() {
    for &(name, idle, loaded) in SMOOTH {
        let (at_0, at_50) = (found(name, 100, 0), found(name, 100, 50));
        assert!((idle[0]..=idle[1]).contains(&at_0), "{name}: {at_0} of 100, expected {idle:?}");
        assert!((loaded[0]..=loaded[1]).contains(&at_50), "{name}: {at_50} of 50, expected {loaded:?}");
    }
    let missing: Vec<_> = names().into_iter().filter(|name| !SMOOTH.iter().any(|row| row.0 == name)).collect();
    assert_eq!(missing, ["pathrate", "pathrate:short"], "every other method has a row");
}

#[test]
fn pathrate_finds_the_capacity_beneath_smooth_and_bursty_cross_traffic() {
    let capacity = |outcome: Outcome| outcome.estimate.capacity_bit_per_s.expect("an answer") / 1e6;
    for cross in [0, 50, 90] {
        let found = capacity(run("pathrate", &path(100, cross), 1500));
        assert!((found / 100.0 - 1.0).abs() < 0.02, "{found}");
    }
    for (load, model) in [(30, Model::Poisson), (60, Model::Poisson), (60, Model::Pareto)] {
        let cell = Cell { capacity: 1000 * MBIT, load, model, hops: 3 };
        let found = capacity(run("pathrate:short", &cell.spec(3), 1500));
        assert!((found / 1000.0 - 1.0).abs() < 0.05, "{found} at {load} % {model:?}");
    }
}

/// Median of the relative error of five runs against the long-run truth.
fn median_error(name: &str, cell: Cell) -> f64 {
    let error = |seed| {
        let spec = cell.spec(seed);
        let outcome = run_within(name, &spec, 1500, Budget::default(), seed);
        outcome.estimate.avb_bit_per_s.map_or(f64::NAN, |found| found / outcome.nominal - 1.0)
    };
    let mut errors: Vec<f64> = (1..=5).map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors[2]
}

#[test]
fn known_biases_under_poisson_cross_traffic_are_those_of_the_originals() {
    let cell = |capacity: u64| Cell { capacity: capacity * MBIT, load: 60, model: Model::Poisson, hops: 1 };
    let hundred = cell(100);
    // Seen on real links at 300/150: Pathload +19 %, ASSOLO +63 %, PTR -17 %; pathChirp +98 to +245 %.
    for (name, low, high) in [
        ("pathload", -0.15, 0.3),
        ("pathchirp", 0.1, 2.5),
        ("assolo", 0.1, 1.0),
        ("ptr", -0.5, 0.0),
        ("spruce", -0.2, 0.4),
        ("yaz", -0.5, 0.3),
    ] {
        let error = median_error(name, hundred);
        assert!((low..=high).contains(&error), "{name}: {error}");
    }
    // 500 B at 1 Gbit/s are 4 us, less than the 5 us that PTR tolerates: it turns at once. Seen: garbage.
    assert!(median_error("ptr", cell(1000)) > 0.5);
}

#[test]
fn a_sender_at_its_limit_states_at_least() {
    // Stock Yaz ends at 1500 B every 40 us.
    let yaz = run("yaz", &path(1000, 0), 1500).estimate;
    assert_eq!((yaz.stopped, yaz.at_least, yaz.avb_bit_per_s), (Stopped::SenderLimited, true, Some(3e8)));
    // 20 us a call: 600 Mbit/s with 1500 B, 400 Mbit/s with 1000 B.
    let mut slow = path(10_000, 0);
    slow.sender.call_ns = 20_000.0;
    for name in ["yaz:small-spacing", "kite", "kite2:packet-train", "pathload", "pathchirp", "assolo"] {
        let estimate = run(name, &slow, 1500).estimate;
        assert!(estimate.at_least, "{name}: {estimate:?}");
        assert_eq!(estimate.stopped, Stopped::SenderLimited, "{name}");
        assert!(estimate.avb_bit_per_s.is_some_and(|found| found <= 605e6), "{name}: {estimate:?}");
    }
}

#[test]
fn one_percent_loss_reordering_and_copies_leave_an_answer_or_a_refusal() {
    let mut spec = path(100, 50);
    spec.path.hops[0].loss = LossModel::Random { probability: 0.01 };
    spec.path.detour = Detour { probability: 0.05, extra_ns: 700_000 };
    spec.path.duplication = Duplication { probability: 0.01, after_ns: 50_000 };
    for name in names() {
        let estimate = run(&name, &spec, 1500).estimate;
        let answered = estimate.avb_bit_per_s.or(estimate.capacity_bit_per_s).is_some();
        let refused = matches!(estimate.stopped, Stopped::Lossy | Stopped::GaveUp | Stopped::Reordered);
        assert!(answered || refused, "{name}: {estimate:?}");
        assert!(serde_json::to_string(&estimate).expect("plain").contains("stopped"));
    }
}

#[test]
fn a_path_that_carries_nothing_is_no_answer_after_ten_trains() {
    let mut spec = path(100, 0);
    spec.path.hops[0].loss = LossModel::Random { probability: 1.0 };
    for name in names().into_iter().filter(|name| name != "adr") {
        let estimate = run(&name, &spec, 1500).estimate;
        assert_eq!(estimate.avb_bit_per_s.or(estimate.capacity_bit_per_s), None, "{name}");
        assert!(matches!(estimate.stopped, Stopped::NoAnswer | Stopped::Lossy), "{name}: {estimate:?}");
        assert!(estimate.trains <= 12, "{name}: {estimate:?}");
    }
}

#[test]
fn budgets_of_bytes_and_time_hold_for_every_method() {
    for name in names() {
        let bytes = Budget { most_byte: Some(100_000), ..Budget::default() };
        let estimate = run_within(&name, &path(100, 50), 1500, bytes, 1).estimate;
        assert!(estimate.probe_byte <= 100_000, "{name}: {estimate:?}");
        let time = Budget { most_ns: Some(200_000_000), ..Budget::default() };
        let estimate = run_within(&name, &path(100, 50), 1500, time, 1).estimate;
        // The last train may wait in the queue of 2 MB, 160 ms, and then its answer comes.
        assert!(estimate.elapsed_s < 0.37, "{name}: {estimate:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn every_method_ends_on_any_path(
        capacity_mbit in prop_oneof![1_u64..20, 20_u64..2_000], load in 0_u64..130,
        buffer_byte in 1_u64..500_000, loss in 0.0_f64..0.6,
        detour in 0.0_f64..1.0, extra_ns in 0_u64..20_000_000, call_ns in 1.0_f64..50_000.0,
        pause_ns in 0_u64..50_000_000,
        coalesce_ns in 0_u64..300_000, skew_ppm in -500_i64..500, bucket_byte in 0_u64..200_000,
        polices in any::<bool>(), seed in any::<u64>(),
    ) {
        let hop = HopSpec::new(capacity_mbit * MBIT, buffer_byte, 100_000);
        let cross = Traffic::Poisson { rate_bit_per_s: (capacity_mbit * MBIT * load / 100).max(1), size_byte: 1000 };
        let mut hop = hop.with_cross(cross);
        (hop.bucket_byte, hop.polices) = (bucket_byte, polices && bucket_byte > 0);
        hop.loss = LossModel::Random { probability: loss };
        let detour = Detour { probability: detour, extra_ns };
        let path = PathSpec { hops: vec![hop], detour, ..PathSpec::default() };
        let mut spec = TrainSpec { path, answer_ns: 100_000, seed, ..TrainSpec::default() };
        spec.sender.call_ns = call_ns;
        spec.sender.noise.pauses = vec![Pause { at_ns: 30_000_000, span_ns: pause_ns }];
        spec.receiver.coalesce_ns = coalesce_ns;
        spec.receiver_clock = PeerClock { skew_ppb: skew_ppm * 1_000, ..PeerClock::default() };
        let budget = Budget { most_byte: Some(3_000_000), most_ns: Some(3_000_000_000), ..Budget::default() };
        for name in names() {
            let estimate = run_within(&name, &spec, 1500, budget, seed).estimate;
            prop_assert!(estimate.probe_byte <= 3_000_000, "{name}: {estimate:?}");
            prop_assert!(estimate.stopped != Stopped::Running, "{name}: {estimate:?}");
            let figures = [estimate.avb_bit_per_s, estimate.capacity_bit_per_s];
            prop_assert!(figures.into_iter().flatten().all(|figure| figure.is_finite() && figure >= 0.0), "{name}");
        }
    }
}
