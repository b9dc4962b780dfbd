use vtare_sys::proc::Schedstat;

use super::*;

fn observed(gaps: &[(i64, i64)], elapsed: i64) -> Observed {
    let spin = Spin { gaps: gaps.to_vec(), elapsed, ..Spin::default() };
    Observed { cpu: 1, spin, gained: Difference::default(), suspended: Span::ZERO, outages: Vec::new() }
}

#[test]
fn time_lost_is_the_sum_of_the_gaps_over_the_time_watched() {
    let found = cell(&observed(&[(100, 20_000), (500_000, 30_000)], 1_000_000_000));
    assert_eq!(found.lost_fraction, Some(0.000_05));
    assert_eq!((found.gaps, found.gaps_per_s), (2, Some(2.0)));
    assert_eq!((found.gap_ns.median, found.gap_ns.max), (Some(25_000.0), Some(30_000.0)));
    assert_eq!(found.gap_ns.p99, None, "two gaps have no p99");
}

#[test]
fn a_quiet_cpu_lost_nothing_and_an_unwatched_one_is_unknown() {
    let quiet = cell(&observed(&[], 1_000));
    assert_eq!((quiet.lost_fraction, quiet.gaps_per_s, quiet.gap_ns.median), (Some(0.0), Some(0.0), None));
    assert!(attribution(&quiet).is_none());
    assert_eq!(cell(&observed(&[], 0)).lost_fraction, None);
}

#[test]
fn gaps_without_room_are_stated_and_counted() {
    let mut seen = observed(&[(0, 10)], 1_000);
    (seen.spin.beyond, seen.spin.lost_beyond) = (3, 90);
    let found = cell(&seen);
    assert_eq!((found.gaps, found.lost_fraction), (4, Some(0.1)));
    assert!(
        remarks(&found, &seen.spin).iter().any(|note| note.id == "gaps_beyond_room" && note.text.contains("3 gaps"))
    );
}

#[test]
fn the_sentence_names_only_what_the_system_reported() {
    let mut found = cell(&observed(&[(0, 40_000), (1, 60_000)], 1_000_000));
    let text = attribution(&found).expect("time was lost").text;
    assert_eq!(text, "CPU 1 lost 100 us: this system keeps no account of where it went.");
    found.causes = Causes {
        lost_ns: 100_000,
        steal_ns: Some(0),
        other_threads_ns: Some(25_000),
        unattributed_ns: Some(75_000),
        unattributed_fraction: Some(0.75),
        interrupts: Some(9),
        interrupts_by_line: [("CAL", 2), ("LOC", 6), ("RES", 1)].map(|(line, count)| (line.to_owned(), count)).into(),
        cpu_pressure_ns: Some(2_000_000),
        involuntary_switches: Some(0),
        gaps_from_outside_min: Some(1),
        outside_ns_min: Some(40_000),
        ..Causes::default()
    };
    let text = attribution(&found).expect("time was lost").text;
    for part in [
        "25.0 % went to other threads",
        "75.0 % is unexplained",
        "9 interrupts (LOC 6, CAL 2)",
        "2.00 ms for a CPU",
        "at least 1 of 2 gaps (40.0 us)",
        "no proof",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn parameters_out_of_range_are_refused_with_the_range() {
    for (parameters, part) in [
        (
            NoiseParameters { seconds: 0.0, ..NoiseParameters::default() },
            "seconds is 0: use a number above 0 and at most 86400",
        ),
        (
            NoiseParameters { seconds: f64::NAN, ..NoiseParameters::default() },
            "seconds is not a number: use a number above 0",
        ),
        (
            NoiseParameters { threshold_ns: 99, ..NoiseParameters::default() },
            "threshold_ns (--threshold) is 99: use a whole number from 100",
        ),
        (NoiseParameters { cpu: Some(vec![]), ..NoiseParameters::default() }, "empty list"),
        (NoiseParameters { cpu: Some(vec![4_096]), ..NoiseParameters::default() }, "cpu is 4096"),
    ] {
        let error = Noise::resolve(parameters, &Context::without_signals()).expect_err(part);
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains(part), "{error}");
    }
    let cpu = sched::allowed_cpus().expect("affinity is readable")[0];
    let twice = NoiseParameters { cpu: Some(vec![cpu, cpu]), ..NoiseParameters::default() };
    assert!(
        Noise::resolve(twice, &Context::without_signals()).expect_err("twice the same").to_string().contains("twice")
    );
}

#[test]
fn all_cpus_are_named_once_resolved() {
    let resolved =
        Noise::resolve(NoiseParameters::default(), &Context::without_signals()).expect("the defaults are in range");
    assert_eq!(resolved.cpu, Some(sched::allowed_cpus().expect("affinity is readable")));
}

#[test]
fn a_short_watch_ends_by_itself_and_its_gaps_lie_inside_it() {
    let context = Context::without_signals();
    let cpu = sched::allowed_cpus().expect("affinity is readable")[0];
    let seen = observe(cpu, Span::from_millis(5), Span::from_micros(1), &context, |_| {}).expect("the CPU is allowed");
    assert!(!seen.spin.stopped);
    assert!(seen.spin.elapsed >= 4_990_000, "{}", seen.spin.elapsed);
    assert!(seen.spin.gaps.iter().all(|(at, gap)| *at >= 0 && *gap >= 999 && at + gap <= seen.spin.elapsed + 2));
    assert!(seen.spin.gaps.is_sorted());
}

#[test]
fn the_cell_has_the_figures_of_the_contract() {
    let document = crate::output::to_json(&NoiseCell::default());
    for key in ["cpu", "gap_ns", "gaps", "lost_fraction", "gaps_per_s", "causes"] {
        assert!(document.get(key).is_some(), "{key}");
    }
    assert!(document["lost_fraction"].is_null());
}

#[test]
fn a_stop_is_found_beside_waits_for_a_cpu_that_are_gaps_of_their_own() {
    let waits: Vec<(i64, i64)> = (0..40).map(|at| (at * 100_000_000, 50_000_000)).collect();
    let stopped = Schedstat { ran: Span::from_secs(1), waited: Span::from_secs(2), turns: 41 };
    let mut seen = observed(&[waits.clone(), vec![(1_500_000_000, 1_000_000_000)]].concat(), 4_000_000_000);
    seen.gained.schedstat = Some(stopped);
    let found = seen.without_outages();
    assert_eq!(found.outages.iter().map(|one| one.length_ns).collect::<Vec<_>>(), [1_000_000_000]);
    assert_eq!((found.spin.gaps.len(), found.spin.elapsed), (40, 3_000_000_000));
    // The same gap that was a wait for a CPU is none.
    let mut seen = observed(&[waits, vec![(1_500_000_000, 1_000_000_000)]].concat(), 4_000_000_000);
    seen.gained.schedstat = Some(Schedstat { waited: Span::from_secs(3), ..stopped });
    assert_eq!(seen.without_outages().outages, []);
}
