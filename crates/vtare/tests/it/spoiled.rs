//! What may make a test skip: a disturbance of the machine that was measured, and never a loss that nothing explains.

use crate::common::skips::{Disturbance, Judged, attempted, queue_drops, stolen};
use crate::common::whole;
use serde_json::{Value, json};

/// A run of 100 packets a second with these losses.
fn cell(lost_by: &Value, too_late: u64, longest_ns: u64) -> Value {
    let lost: u64 = lost_by.as_object().expect("classes").values().filter_map(Value::as_u64).sum();
    json!({
        "scheduled": 100, "sent": 100 - too_late, "received": 100 - too_late - lost, "lost_by": lost_by,
        "unsent": {"too_late": too_late, "no_room": 0}, "intended_packet_per_s": 100.0,
        "canary": {"longest_ns": longest_ns, "involuntary_switches": 0},
    })
}

fn is_explained(cell: &Value, disturbance: Disturbance) -> Option<bool> {
    match whole(cell, &json!({"timeout_ns": 2_000_000_000_u64}), &disturbance) {
        Judged::Good => None,
        Judged::Explained(_) => Some(true),
        Judged::Unexplained(_) => Some(false),
    }
}

const STILL: Disturbance = Disturbance { still_ns: 0, stolen_ticks: 0, queue_drops: 0 };

#[test]
fn packets_that_vanish_on_a_path_without_losses_are_a_fault() {
    for class in ["forward", "reverse", "unattributed"] {
        let cell = cell(&json!({class: 1}), 0, 900_000_000);
        assert_eq!(is_explained(&cell, Disturbance { still_ns: 3_000_000_000, ..STILL }), Some(false), "{class}");
        assert_eq!(is_explained(&cell, Disturbance { queue_drops: 1, ..STILL }), Some(true), "{class}");
    }
}

#[test]
fn packets_that_a_full_buffer_dropped_are_the_machines() {
    for class in ["responder_rx", "local_rx", "local_tx"] {
        assert_eq!(is_explained(&cell(&json!({class: 3}), 0, 0), STILL), Some(true), "{class}");
    }
    assert_eq!(is_explained(&cell(&json!({}), 0, 0), STILL), None);
}

#[test]
fn what_is_late_must_have_been_held_up_for_long_enough() {
    let passed = |longest_ns| cell(&json!({}), 1, longest_ns);
    assert_eq!(is_explained(&passed(1_000_000), STILL), Some(false), "slots pass after 100 ms");
    assert_eq!(is_explained(&passed(90_000_000), STILL), Some(true));
    assert_eq!(is_explained(&passed(0), Disturbance { stolen_ticks: 1, ..STILL }), Some(true));
    let late = cell(&json!({"late": 1}), 0, 90_000_000);
    assert_eq!(is_explained(&late, Disturbance { still_ns: 20_000_000, ..STILL }), Some(false), "2 s are awaited");
    assert_eq!(is_explained(&late, Disturbance { still_ns: 500_000_000, ..STILL }), Some(true));
}

#[test]
fn the_first_good_run_counts_and_runs_that_are_all_explained_state_why() {
    let mut runs = 0;
    let found = attempted(
        6,
        || {
            runs += 1;
            runs
        },
        |run, _| if *run < 3 { Judged::Unexplained("lost".to_owned()) } else { Judged::Good },
    );
    assert_eq!(found, Ok(3));
    let spoiled = attempted(6, || (), |(), _| Judged::Explained("it stalled".to_owned()));
    assert_eq!(spoiled, Err("this machine spoiled each of 6 runs; the last: it stalled".to_owned()));
}

#[test]
#[should_panic(expected = "nothing that was measured on this machine explains 6")]
fn runs_that_nothing_explains_are_a_failure() {
    let _never = attempted(6, || (), |(), _| Judged::Unexplained("lost".to_owned()));
}

#[test]
fn the_kernels_own_counts_are_read() {
    assert_eq!(stolen("cpu  10 0 20 300 4 0 1 77 0 0\ncpu0 1 0 2 3 4 0 1 9 0 0\n"), 77);
    assert_eq!(queue_drops("0000a001 00000002 00000000\n00000001 0000000a 00000000\n"), 12);
    assert_eq!((stolen(""), queue_drops("")), (0, 0));
}
