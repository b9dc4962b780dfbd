use proptest::prelude::*;
use vtare_units::{Monotonic, Timestamp};

use crate::{Cross, Detour, Duplication, Fate, HopSpec, LossModel, Path, PathSpec, PeerClock, Step, Traffic};

fn at(ns: u64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(ns)
}

fn path(hops: Vec<HopSpec>) -> Path {
    Path::new(&PathSpec { hops, ..PathSpec::default() }, 1).expect("a good path")
}

const MBIT: u64 = 1_000_000;

/// Arrival times of `count` packets of 1500 B sent every `gap_ns` from `from_ns` on.
fn train(path: &mut Path, from_ns: u64, gap_ns: u64, count: u64) -> Vec<u64> {
    let sent = (0..count).map(|n| path.send(at(from_ns + n * gap_ns), 1500).arrived);
    sent.map(|arrived| arrived.expect("no loss here").as_nanos()).collect()
}

#[test]
fn packets_leave_a_queue_at_its_capacity() {
    let mut path = path(vec![HopSpec::new(100 * MBIT, 1_000_000, 0)]);
    let arrived = train(&mut path, 0, 0, 100);
    assert_eq!(arrived[0], 120_000);
    assert!(arrived.windows(2).all(|pair| pair[1] - pair[0] == 120_000));
}

#[test]
fn a_capacity_that_does_not_divide_a_second_does_not_drift() {
    // 1500 B at 7 Mbit/s take 1714285.714... ns; a million of them exactly 1714285.714285... s.
    let mut path = path(vec![HopSpec::new(7 * MBIT, u64::MAX / 8, 0)]);
    let last = (0..1_000_000).filter_map(|_| path.send(at(0), 1500).arrived).last().expect("sent");
    assert_eq!(last.as_nanos(), (12_000_u128 * 1_000_000 * 1_000_000_000).div_ceil(7_000_000) as u64);
}

/// The equation of the literature: under fluid cross traffic the delay of an overloaded train grows by (R - A)/C.
#[test]
fn delay_grows_with_the_overload_as_the_fluid_model_states() {
    let hop =
        HopSpec::new(300 * MBIT, 100_000_000, 1_000_000).with_cross(Traffic::Fluid { rate_bit_per_s: 150 * MBIT });
    assert_eq!(hop.available_at(0), 150 * MBIT);
    // R = 200 Mbit/s: a gap of 60 us.
    let arrived = train(&mut path(vec![hop]), 0, 60_000, 1_001);
    let delay = |n: usize| arrived[n] - n as u64 * 60_000;
    let slope = (delay(1_000) - delay(0)) as f64 / (1_000.0 * 60_000.0);
    assert!((slope - 50.0 / 300.0).abs() < 1e-6, "{slope}");
}

#[test]
fn below_the_available_rate_delay_does_not_grow() {
    let hop = HopSpec::new(300 * MBIT, 100_000_000, 0).with_cross(Traffic::Fluid { rate_bit_per_s: 150 * MBIT });
    let arrived = train(&mut path(vec![hop]), 0, 100_000, 1_000);
    assert!(arrived.iter().enumerate().all(|(n, &there)| there - n as u64 * 100_000 == 40_000));
}

#[test]
fn packet_cross_traffic_takes_the_rate_it_was_asked_to_take() {
    let size_byte = 1_000;
    let kinds = [
        (Traffic::Constant { rate_bit_per_s: 40 * MBIT, size_byte }, 0.001),
        (Traffic::Poisson { rate_bit_per_s: 40 * MBIT, size_byte }, 0.02),
        (
            Traffic::ParetoOnOff {
                rate_bit_per_s: 40 * MBIT,
                peak_bit_per_s: 200 * MBIT,
                size_byte,
                on_ns: 1_000_000,
                shape: 1.9,
            },
            0.15,
        ),
        (Traffic::Trace { packets: vec![(100_000, 500), (100_000, 500)] }, 0.001),
    ];
    for (traffic, tolerance) in kinds {
        let cross = Cross::always(traffic);
        let mut path = path(vec![HopSpec { cross: vec![cross.clone()], ..HopSpec::new(1_000 * MBIT, 10_000_000, 0) }]);
        path.run_until(at(20_000_000_000));
        let found = path.counts().next().expect("one hop").cross_byte as f64 * 8.0 / 20.0;
        let want = cross.mean_bit_per_s() as f64;
        assert!((found / want - 1.0).abs() < tolerance, "{cross:?}: {found} for {want}");
    }
}

#[test]
fn cross_traffic_comes_and_goes_and_capacity_changes_in_steps() {
    let second = 1_000_000_000;
    let cross =
        Cross { traffic: Traffic::Fluid { rate_bit_per_s: 60 * MBIT }, from_ns: second, until_ns: Some(2 * second) };
    let steps = vec![Step { at_ns: 3 * second, capacity_bit_per_s: 50 * MBIT }];
    let hop = HopSpec { cross: vec![cross], steps, ..HopSpec::new(100 * MBIT, 100_000_000, 0) };
    let truth: Vec<u64> = [0, 1, 2, 3].map(|s| hop.available_at(s * second) / MBIT).into();
    assert_eq!(truth, [100, 40, 100, 50]);
    let mut path = path(vec![hop]);
    // What 10 ms of packets at 200 Mbit/s find: the growth of delay is (R - A)/C in each second.
    for (start, want) in [(0, 1.0), (1, 1.6), (2, 1.0), (3, 3.0)] {
        let arrived = train(&mut path, start * second + 500_000_000, 60_000, 167);
        let slope = (arrived[166] - arrived[0]) as f64 / (166.0 * 60_000.0) - 1.0;
        assert!((slope - want).abs() < 1e-3, "second {start}: {slope}");
    }
}

#[test]
fn a_packet_that_is_served_across_a_change_of_capacity_is_served_at_both() {
    // 12,000 bit: half at 100 Mbit/s until 60 us, half at 10 Mbit/s: 600 us more.
    let steps = vec![Step { at_ns: 60_000, capacity_bit_per_s: 10 * MBIT }];
    let mut hop = HopSpec { steps, ..HopSpec::new(100 * MBIT, 3_000, 0) };
    assert_eq!(path(vec![hop.clone()]).send(at(0), 1500).arrived, Some(at(660_000)));
    hop.steps[0].capacity_bit_per_s = 0;
    assert_eq!(path(vec![hop.clone()]).send(at(0), 1500).fate, Fate::Dropped(0), "an outage for ever");
    hop.steps.push(Step { at_ns: 1_000_000, capacity_bit_per_s: 100 * MBIT });
    assert_eq!(path(vec![hop]).send(at(0), 1500).arrived, Some(at(1_060_000)));
}

#[test]
fn a_full_buffer_drops_and_an_empty_one_always_takes() {
    let mut path = path(vec![HopSpec::new(10 * MBIT, 3_000, 0)]);
    let fates: Vec<Fate> = (0..3).map(|_| path.send(at(0), 1500).fate).collect();
    assert_eq!(fates, [Fate::Arrived, Fate::Arrived, Fate::Dropped(0)]);
    assert_eq!(path.send(at(1_000_000_000), 9000).fate, Fate::Arrived, "larger than the buffer, but alone");
    let count = path.counts().next().expect("one hop");
    assert_eq!((count.probes, count.dropped, count.lost), (4, 1, 0));
}

#[test]
fn losses_are_as_likely_and_as_bursty_as_asked() {
    let lost = |loss, n: u64| -> Vec<bool> {
        let mut path = path(vec![HopSpec { loss, ..HopSpec::new(1_000 * MBIT, 1_000_000, 0) }]);
        (0..n).map(|i| path.send(at(i * 1_000_000), 100).fate == Fate::Lost(0)).collect()
    };
    let share = |lost: &[bool]| lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64;
    let random = lost(LossModel::Random { probability: 0.01 }, 200_000);
    // 5 standard errors of a binomial share.
    assert!((share(&random) - 0.01).abs() < 5.0 * (0.01_f64 * 0.99 / 200_000.0).sqrt());
    // Mean burst 1/leave = 10 packets; share enter/(enter + leave) = 1/11.
    let bursty = lost(LossModel::Bursty { enter: 0.01, leave: 0.1, lost_inside: 1.0 }, 200_000);
    assert!((share(&bursty) - 1.0 / 11.0).abs() < 0.01, "{}", share(&bursty));
    let bursts = bursty.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let mean = share(&bursty) * 200_000.0 / bursts as f64;
    assert!((mean - 10.0).abs() < 1.0, "{mean}");
}

#[test]
fn a_detour_takes_longer_and_a_copy_comes_after_its_first() {
    let detour = Detour { probability: 1.0, extra_ns: 7_000 };
    let duplication = Duplication { probability: 1.0, after_ns: 500 };
    let spec = PathSpec { hops: vec![HopSpec::new(12_000 * MBIT, 9_000, 0)], detour, duplication };
    let passage = Path::new(&spec, 1).expect("a good path").send(at(0), 1500);
    assert_eq!((passage.fate, passage.arrived, passage.copy), (Fate::Arrived, Some(at(8_000)), Some(at(8_500))));
}

#[test]
fn bad_paths_are_refused_by_name() {
    let refused = |hop: HopSpec| {
        Path::new(&PathSpec { hops: vec![hop], ..PathSpec::default() }, 1).expect_err("cannot be").to_string()
    };
    let good = HopSpec::new(MBIT, 3_000, 0);
    let loss = LossModel::Random { probability: 1.5 };
    assert_eq!(refused(HopSpec { loss, ..good.clone() }), "loss is 1.5: use a probability from 0 to 1");
    assert_eq!(refused(HopSpec { buffer_byte: 0, ..good.clone() }), "buffer of a hop is 0: use more");
    let pareto = |shape, peak_bit_per_s| Traffic::ParetoOnOff {
        rate_bit_per_s: MBIT,
        peak_bit_per_s,
        size_byte: 100,
        on_ns: 1_000,
        shape,
    };
    assert!(refused(good.clone().with_cross(pareto(1.0, 2 * MBIT))).starts_with("Pareto shape is 1"));
    assert!(refused(good.clone().with_cross(pareto(1.5, MBIT))).contains("use a mean below the peak"));
    assert_eq!(refused(good.with_cross(Traffic::Trace { packets: vec![] })), "sum of gaps in a trace is 0: use more");
}

#[test]
fn a_clock_that_runs_fast_gains_its_parts_per_billion() {
    let clock = PeerClock { offset_ns: -5, skew_ppb: 1_000 };
    assert_eq!(clock.at(at(1_000_000_000)).as_nanos(), 1_000_000_995);
    assert_eq!(clock.at(at(0)).as_nanos(), 0);
}

proptest! {
    #[test]
    fn queues_keep_the_order_and_nothing_arrives_before_it_can(
        capacities in proptest::collection::vec(1_u64..2_000, 1..4),
        gaps in proptest::collection::vec(0_u64..200_000, 1..200), seed in any::<u64>(),
    ) {
        let hops: Vec<HopSpec> = capacities.iter().map(|&mbit| {
            let poisson = Traffic::Poisson { rate_bit_per_s: mbit * MBIT / 2 + 1, size_byte: 700 };
            HopSpec::new(mbit * MBIT, 50_000, 1_000).with_cross(poisson)
        }).collect();
        let least: u64 = capacities.iter().map(|mbit| 12_000_u64.div_ceil(*mbit) + 1_000).sum();
        let mut path = Path::new(&PathSpec { hops, ..PathSpec::default() }, seed).expect("a good path");
        let (mut now, mut last, mut arrived) = (0, 0, 0);
        for gap in &gaps {
            now += gap;
            if let Some(there) = path.send(at(now), 1500).arrived {
                let there = there.as_nanos();
                // Each hop rounds up to a nanosecond.
                prop_assert!(there >= last && there + 4 >= now + least);
                last = there;
                arrived += 1;
            }
        }
        let counts: Vec<_> = path.counts().collect();
        prop_assert_eq!(counts[0].probes, gaps.len() as u64);
        prop_assert_eq!(arrived + counts.iter().map(|count| count.dropped).sum::<u64>(), gaps.len() as u64);
    }
}

#[test]
fn a_token_bucket_passes_its_depth_at_once_and_then_sends_at_its_rate() {
    let hop = HopSpec { bucket_byte: 3_000, ..HopSpec::new(100 * MBIT, 100_000, 0) };
    let mut path = path(vec![hop]);
    let mut arrive = |us: u64| path.send(at(us * 1_000), 1_000).arrived.map(|at| at.as_nanos() / 1_000);
    // 1000 B are 80 us of tokens.
    assert_eq!([arrive(0), arrive(0), arrive(0), arrive(0), arrive(0)], [0, 0, 0, 80, 160].map(Some));
    // 3 of the 5 packets have been paid for: one more may pass.
    assert_eq!([arrive(240), arrive(240)], [240, 320].map(Some));
}

#[test]
fn a_policer_drops_what_exceeds_its_bucket_and_delays_nothing() {
    let hop = HopSpec { bucket_byte: 2_000, polices: true, ..HopSpec::new(100 * MBIT, 100_000, 0) };
    let mut path = path(vec![hop]);
    let fates: Vec<_> = (0..4).map(|_| path.send(at(0), 1_000).fate).collect();
    assert_eq!(fates, [Fate::Arrived, Fate::Arrived, Fate::Dropped(0), Fate::Dropped(0)]);
    assert_eq!(path.send(at(80_000), 1_000).arrived, Some(at(80_000)));
}
