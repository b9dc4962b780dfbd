//! Definitions of RFC 9971 as the reference library has them: what it finds in lists of trials that were drawn at
//! random (`bench/mlrsearch`; the Python package MLRsearch 1.2.1).

use serde::Deserialize;
use vtare_methods::throughput::{Class, Goal, Measured, classify, conditional_throughput};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    packet_per_s: u64,
    goal: Goal,
    /// Duration, ns, and share of frames lost.
    trials: Vec<(u64, f64)>,
    class: String,
    throughput_packet_per_s: f64,
}

#[test]
fn classes_and_conditional_throughputs_are_those_of_the_reference_library() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("reference/mlrsearch.json")).expect("it was written so");
    let mut lower = 0;
    for case in &cases {
        let of = |&(duration_ns, loss_ratio): &(u64, f64)| Measured { duration_ns, loss_ratio };
        let trials: Vec<Measured> = case.trials.iter().map(of).collect();
        let class = classify(&trials, &case.goal);
        let name = match class {
            Class::Lower => "lower",
            Class::Upper => "upper",
            Class::Undecided => "undecided",
        };
        assert_eq!(name, case.class, "{:?} {trials:?}", case.goal);
        if class == Class::Lower {
            lower += 1;
            let found = conditional_throughput(case.packet_per_s, &trials, &case.goal);
            let off = (found - case.throughput_packet_per_s).abs();
            assert!(off <= 1e-9 * case.packet_per_s as f64, "{found} {}", case.throughput_packet_per_s);
        }
    }
    assert!(lower > 20 && cases.len() > 2 * lower, "{lower} lower bounds of {} show little", cases.len());
}
