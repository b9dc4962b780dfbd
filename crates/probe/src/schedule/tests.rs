use proptest::prelude::*;
use vtare_units::{BitRate, Bytes, Pace, PacketRate, Span};

use super::{Pattern, Schedule, ScheduleError, Slot};

fn schedule(pattern: Pattern, packets: u64) -> Schedule {
    Schedule { pattern, size_byte: 64, packets: Some(packets), duration_ns: None, seed: 1 }
}

fn due(schedule: &Schedule) -> Vec<i64> {
    slots(schedule).iter().map(|slot| slot.due.as_nanos()).collect()
}

fn slots(schedule: &Schedule) -> Vec<Slot> {
    schedule.slots().expect("a good schedule").collect()
}

const MILLISECOND: Pace = Pace { packets: 1, span_ns: 1_000_000 };

#[test]
fn a_million_packets_a_second_for_a_day_end_on_the_nanosecond() {
    let pace = Pace::of_rate(PacketRate::from_packet_per_s(1_000_000));
    assert_eq!(pace.offset_ns(86_400 * 1_000_000), Some(86_400_000_000_000));
    let third = Pace { packets: 3, span_ns: 1_000_000_000 };
    assert_eq!(third.offset_ns(3 * 86_400), Some(86_400_000_000_000));
}

#[test]
fn a_bit_rate_becomes_the_gap_of_the_literature() {
    // findings.md: 1500 B at 10 Gbit/s are 1.2 us apart.
    let pace = Pace::of_bit_rate(BitRate::from_bit_per_s(10_000_000_000), Bytes::new(1500));
    assert_eq!((pace.offset_ns(1), pace.offset_ns(5)), (Some(1_200), Some(6_000)));
}

#[test]
fn trains_pairs_and_bursts_are_grouped() {
    let train = schedule(Pattern::Train { packets: 3, pace: MILLISECOND, period_ns: 10_000_000 }, 7);
    assert_eq!(due(&train), [0, 1_000_000, 2_000_000, 10_000_000, 11_000_000, 12_000_000, 20_000_000]);
    assert_eq!(slots(&train).iter().map(|slot| slot.group).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2]);
    let pairs = schedule(Pattern::Pairs { gap_ns: 20, pace: MILLISECOND }, 5);
    assert_eq!(due(&pairs), [0, 20, 1_000_000, 1_000_020, 2_000_000]);
    let bursts = schedule(Pattern::Burst { packets: 2, period_ns: 500 }, 5);
    assert_eq!(due(&bursts), [0, 0, 500, 500, 1_000]);
}

#[test]
fn a_schedule_ends_before_the_first_slot_at_its_duration() {
    let mut constant = schedule(Pattern::Constant { pace: MILLISECOND }, 100);
    constant.duration_ns = Some(3_000_000);
    assert_eq!(due(&constant), [0, 1_000_000, 2_000_000]);
    constant.duration_ns = Some(3_000_001);
    assert_eq!(due(&constant).len(), 4);
}

#[test]
fn what_cannot_be_kept_is_refused_with_both_values() {
    let refused = |schedule: Schedule| schedule.slots().expect_err("cannot be kept").to_string();
    let none = Pace { packets: 0, span_ns: 1 };
    assert_eq!(
        refused(schedule(Pattern::Constant { pace: none }, 1)),
        "pace of 0 packets in 1 ns: both must be above 0"
    );
    let train = Pattern::Train { packets: 11, pace: MILLISECOND, period_ns: 10_000_000 };
    assert_eq!(
        refused(schedule(train, 1)),
        "a group lasts 10000000 ns and the next starts after 10000000 ns: space the groups further apart"
    );
    let small = Schedule { size_byte: 17, ..schedule(Pattern::Constant { pace: MILLISECOND }, 1) };
    assert_eq!(refused(small), "size is 17 B: use 18 to 9000 B");
    let empty = schedule(Pattern::Burst { packets: 0, period_ns: 5 }, 1);
    assert_eq!(empty.check(), Err(ScheduleError::EmptyGroup));
}

#[test]
fn poisson_gaps_have_the_mean_and_the_spread_asked_for() {
    let due = due(&schedule(Pattern::Poisson { pace: MILLISECOND }, 100_001));
    let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    // Standard error of the mean is 1e6 / sqrt(1e5) = 3162; of the share above the mean 0.0015.
    assert!((mean - 1e6).abs() < 5.0 * 3_162.0, "{mean}");
    let above = gaps.iter().filter(|&&gap| gap > 1e6).count() as f64 / gaps.len() as f64;
    assert!((above - (-1.0_f64).exp()).abs() < 0.008, "{above}");
}

#[test]
fn a_schedule_is_the_same_after_json() {
    let train = schedule(Pattern::Train { packets: 3, pace: MILLISECOND, period_ns: 10_000_000 }, 7);
    let text = serde_json::to_string(&train).expect("serializes");
    assert_eq!(
        text,
        concat!(
            r#"{"pattern":{"kind":"train","packets":3,"pace":{"packets":1,"span_ns":1000000},"period_ns":10000000},"#,
            r#""size_byte":64,"packets":7,"duration_ns":null,"seed":1}"#
        )
    );
    assert_eq!(serde_json::from_str::<Schedule>(&text).expect("parses"), train);
    assert!(serde_json::from_str::<Schedule>(&text.replace("seed", "sead")).is_err());
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let pace = (1_u64..1_000_000, 1_u64..1_000_000_000).prop_map(|(packets, span_ns)| Pace { packets, span_ns });
    prop_oneof![
        pace.clone().prop_map(|pace| Pattern::Constant { pace }),
        pace.clone().prop_map(|pace| Pattern::Poisson { pace }),
        (1_u64..50, pace.clone(), any::<u32>()).prop_map(|(packets, pace, period)| Pattern::Train {
            packets,
            pace,
            period_ns: period.into()
        }),
        (0_u64..1_000, pace).prop_map(|(gap_ns, pace)| Pattern::Pairs { gap_ns, pace }),
        (1_u64..50, 1_u64..1_000_000).prop_map(|(packets, period_ns)| Pattern::Burst { packets, period_ns }),
    ]
}

proptest! {
    #[test]
    fn slots_are_numbered_without_gaps_and_never_go_back(
        pattern in pattern(),
        packets in 0_u64..300,
        seed in any::<u64>(),
    ) {
        let schedule = Schedule { pattern, size_byte: 100, packets: Some(packets), duration_ns: None, seed };
        if let Ok(slots) = schedule.slots() {
            let slots: Vec<Slot> = slots.collect();
            prop_assert_eq!(slots.len() as u64, packets);
            for (number, pair) in slots.windows(2).enumerate() {
                prop_assert_eq!(pair[0].sequence, number as u64);
                prop_assert!(pair[0].due <= pair[1].due && pair[0].group <= pair[1].group);
            }
            prop_assert!(slots.first().is_none_or(|slot| slot.due == Span::ZERO));
            prop_assert_eq!(schedule.slots().expect("as before").collect::<Vec<_>>(), slots);
        }
    }

    #[test]
    fn an_offset_is_less_than_a_nanosecond_from_the_exact_one(
        packets in 1_u64..1 << 40,
        span_ns in 1_u64..1 << 40,
        number in 0_u64..1 << 30,
    ) {
        let pace = Pace { packets, span_ns };
        if let Some(offset) = pace.offset_ns(number) {
            let (exact, unit) = (u128::from(number) * u128::from(span_ns), u128::from(packets));
            prop_assert!(u128::from(offset) * unit <= exact && exact < (u128::from(offset) + 1) * unit);
        }
    }
}
