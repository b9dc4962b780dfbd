//! Observations that no path makes: every method ends, with a reason, and each value it gives is a number.

use proptest::prelude::*;
use vtare_methods::avb::{Ability, Budget, METHODS, Observation, Packet, Random, Settings, Setup, Step, Train};
use vtare_units::Timestamp;

/// What becomes of a train.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Silence,
    /// All times anywhere in 64 bits.
    Chaos,
    /// As sent, over a receiver whose clock runs this many times as fast.
    Skewed(f64),
    /// All at one time.
    Frozen,
    /// The last first.
    Backwards,
    /// Received, though never sent.
    Unsent,
    /// No packets at all.
    Empty,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Silence),
        1 => Just(Kind::Chaos),
        4 => prop_oneof![Just(0.0), Just(1.0), Just(-1.0), 0.5_f64..3.0, Just(1e9)].prop_map(Kind::Skewed),
        1 => Just(Kind::Frozen),
        1 => Just(Kind::Backwards),
        1 => Just(Kind::Unsent),
        1 => Just(Kind::Empty),
    ]
}

fn observation(train: &Train, now_ns: u64, kind: Kind, loss: f64, random: &mut Random) -> Observation {
    let offsets = train.offsets_ns();
    let last = offsets.last().copied().unwrap_or(0.0);
    let packet = |(index, &offset): (u32, &f64)| {
        let sent = now_ns.saturating_add(offset as u64);
        let arrived = match kind {
            Kind::Silence | Kind::Empty => None,
            Kind::Chaos => Some(random.bits()),
            Kind::Skewed(factor) => Some((5e15 + offset * factor).max(0.0) as u64),
            Kind::Frozen => Some(7),
            Kind::Backwards => Some((5e15 + last - offset) as u64),
            Kind::Unsent => Some(5),
        };
        let arrived = arrived.filter(|_| random.unit() > loss);
        let sent = if matches!(kind, Kind::Chaos) { random.bits() } else { sent };
        Packet {
            scheduled: Timestamp::from_nanos(sent),
            sent: (!matches!(kind, Kind::Unsent)).then(|| Timestamp::from_nanos(sent)),
            kernel_sent: None,
            received: arrived.map(Timestamp::from_nanos),
            place: arrived.map(|_| index),
            size_byte: train.size_byte,
            call: index,
            group: None,
            descheduled: false,
            ecn: None,
        }
    };
    let mut packets: Vec<Packet> = (0..).zip(&offsets).map(packet).collect();
    if matches!(kind, Kind::Empty) {
        packets.clear();
    }
    let finished = if matches!(kind, Kind::Chaos) { random.bits() >> 1 } else { now_ns.saturating_add(last as u64) };
    Observation {
        train: train.clone(),
        packets,
        finished: Timestamp::from_nanos(finished),
        receiver_drops: (random.unit() < 0.5).then_some(3),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_method_ends_with_a_reason_whatever_comes_back(
        kinds in proptest::collection::vec(kinds(), 1..6),
        loss in prop_oneof![Just(0.0), 0.0_f64..0.5], seed in any::<u64>(),
        most_byte in proptest::option::of(0_u64..30_000_000),
        stamp_error_ns in 0.0_f64..1e4, least_gap_ns in 0.0_f64..1e5,
        most_group in 1_u32..45,
    ) {
        let ability = Ability { stamp_error_ns, least_gap_ns, most_group, most_packets: 300, ..Ability::default() };
        for entry in METHODS {
            let setup = Setup { ability, budget: Budget { most_byte, ..Budget::default() }, seed };
            let mut method = (entry.default)().method(setup).expect("good defaults");
            let mut random = Random::new(seed);
            let (mut now_ns, mut end) = (1_000, None);
            for turn in 0..6_000 {
                match method.step(Timestamp::from_nanos(now_ns)) {
                    Step::Send(train) => {
                        let packets = train.packets;
                        prop_assert!(packets >= 1 && packets <= ability.most_packets, "{}: {packets}", entry.name);
                        prop_assert!((ability.least_packet_byte..=ability.most_packet_byte).contains(&train.size_byte));
                        let offsets = train.offsets_ns();
                        prop_assert!(offsets.iter().all(|offset| offset.is_finite() && *offset >= 0.0));
                        prop_assert!(offsets.is_sorted(), "{}: {:?}", entry.name, train.spacing);
                        let kind = kinds[turn % kinds.len()];
                        let observation = observation(&train, now_ns, kind, loss, &mut random);
                        now_ns = now_ns.max(observation.finished.as_nanos().min(u64::MAX / 4));
                        method.observe(&observation);
                    }
                    Step::Wait(ns) => now_ns += ns,
                    Step::Done(estimate) => {
                        end = Some(estimate);
                        break;
                    }
                }
            }
            let Some(estimate) = end else { return Err(TestCaseError::fail(format!("{} does not end", entry.name))) };
            let figures = [estimate.avb_bit_per_s, estimate.capacity_bit_per_s, estimate.occupied_bit_per_s];
            let ends = estimate.interval_bit_per_s.into_iter().flatten();
            for figure in figures.into_iter().flatten().chain(ends) {
                prop_assert!(figure.is_finite() && figure >= 0.0, "{}: {estimate:?}", entry.name);
            }
            let again = method.step(Timestamp::from_nanos(now_ns));
            prop_assert_eq!(again, Step::Done(estimate), "{} changes its mind", entry.name);
        }
    }
}

#[test]
fn settings_that_cannot_be_are_refused_with_what_they_may_be() {
    let of = |text: &str| serde_json::from_str::<Settings>(text).expect("a method's settings").method(Setup::default());
    for (text, want) in [
        (r#"{"method":"yaz","packets":1}"#, "packets is 1: use 2 or more"),
        (r#"{"method":"yaz","idle_stream_ns":-1.0}"#, "idle_stream_ns is -1: use 0 to 1000000000000"),
        (
            r#"{"method":"kite","step_decreasing_factor":1.0}"#,
            "step_decreasing_factor is 1: use more than 1 and at most 1000",
        ),
        (r#"{"method":"kite2","most_packets":10}"#, "most_packets is 10: use 100 or more"),
        (r#"{"method":"pathload","pct_threshold":1.5}"#, "pct_threshold is 1.5: use more than 0 and at most 1"),
        (
            r#"{"method":"pathchirp","high_bit_per_s":1e6}"#,
            "high_bit_per_s is 1000000: use more than 10000000 and at most 1000000000000000",
        ),
        (r#"{"method":"assolo","step_share":1.0}"#, "step_share is 1: use more than 0 and at most 0.999"),
        (r#"{"method":"igi","trains":0}"#, "trains is 0: use 1 or more"),
        (r#"{"method":"ptr","turns":0}"#, "turns is 0: use 1 or more"),
        (
            r#"{"method":"spruce","capacity_bit_per_s":0.0}"#,
            "capacity_bit_per_s is 0: use more than 0 and at most 1000000000000000",
        ),
        (r#"{"method":"abing","average_weight":1.0}"#, "average_weight is 1: use 0 to 0.999"),
        (r#"{"method":"udpst","first_row":1153}"#, "first_row is 1153: use 0 to 1152"),
        (r#"{"method":"pathrate","first_packets":1}"#, "first_packets is 1: use 2 or more"),
    ] {
        let error = of(text).err().unwrap_or_else(|| panic!("{text} is taken"));
        assert_eq!(error.to_string(), want);
    }
    let unknown = serde_json::from_str::<Settings>(r#"{"method":"yaz","packet":50}"#).expect_err("a name that is none");
    assert!(unknown.to_string().contains("unknown field `packet`"), "{unknown}");
}
