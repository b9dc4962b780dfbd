use proptest::prelude::*;
use vtare_sys::net::queue::EtfOptions;
use vtare_units::{Monotonic, Span, Timestamp};

use super::*;

fn queue(kind: &str, handle: u32, parent: Option<u32>) -> Queue {
    Queue { kind: kind.to_owned(), handle, parent, etf: None, flow_limit: None }
}

fn etf(clock_id: i32, flags: u32) -> Queue {
    Queue { etf: Some(EtfOptions { delta_ns: 200_000, clock_id, flags }), ..queue("etf", 0x8001_0000, None) }
}

#[test]
fn an_fq_on_the_interface_keeps_times_of_the_monotonic_clock() {
    let found = keeper("eth0", &[Queue { flow_limit: Some(100), ..queue("fq", 0x8001_0000, None) }]).expect("it keeps");
    assert_eq!((found.queue.as_str(), found.clock, found.early_ns), ("fq", LaunchClock::Monotonic, 0));
    assert!(!found.drops_late);
}

#[test]
fn an_etf_keeps_times_of_its_own_clock_and_lets_packets_go_in_the_delta_before_them() {
    let found = keeper("eth0", &[etf(11, 0)]).expect("it keeps");
    assert_eq!((found.clock, found.shift_ns, found.early_ns, found.drops_late), (LaunchClock::Tai, 200_000, 0, true));
    let by_card = keeper("eth0", &[etf(11, 2)]).expect("it keeps");
    assert_eq!((by_card.shift_ns, by_card.early_ns), (0, 200_000));
    let mut without = etf(11, 0);
    without.etf = without.etf.map(|etf| EtfOptions { delta_ns: 0, ..etf });
    assert!(keeper("eth0", &[without]).expect_err("it drops all").contains("etf without delta"));
    assert!(keeper("eth0", &[etf(11, 1)]).expect_err("deadlines are no launch times").contains("deadline_mode"));
    assert!(keeper("eth0", &[etf(0, 0)]).expect_err("wall time is no clock for it").contains("use CLOCK_TAI"));
}

#[test]
fn a_card_of_many_queues_keeps_times_where_each_of_them_does() {
    let mq = queue("mq", 0, None);
    let both = [mq.clone(), queue("fq", 0, Some(2)), queue("fq", 0, Some(1))];
    assert_eq!(keeper("eth0", &both).expect("both keep").queue, "mq with fq");
    let one = [mq.clone(), queue("fq", 0, Some(2)), queue("fq_codel", 0, Some(1))];
    let reason = keeper("eth0", &one).expect_err("one does not");
    assert!(reason.contains("mq with fq, fq_codel: use fq or etf: tc qdisc replace dev eth0 root fq"), "{reason}");
    // The class of another queue's number is not one of this card's.
    assert!(keeper("eth0", &[queue("mq", 0x8001_0000, None), queue("fq", 0, Some(1))]).is_err());
}

#[test]
fn what_keeps_no_times_is_named_with_the_way_out() {
    for kind in ["noqueue", "pfifo_fast", "fq_codel", "netem"] {
        let reason = keeper("veth1", &[queue(kind, 0, None)]).expect_err("it keeps none");
        assert!(reason.contains(kind) && reason.contains("tc qdisc replace dev veth1 root fq"), "{reason}");
    }
    assert!(keeper("veth1", &[]).expect_err("there is none").contains("no queue discipline"));
}

#[test]
fn packets_are_handed_over_as_early_as_the_queue_has_room_and_no_earlier_than_20_ms() {
    let keeper = |room, drops_late| Keeper {
        interface: "eth0".to_owned(),
        queue: "fq".to_owned(),
        clock: LaunchClock::Monotonic,
        shift_ns: 0,
        early_ns: 100_000,
        room,
        drops_late,
    };
    assert_eq!(keeper(Some(100), false).lead(12_000), Lead { ahead_ns: 48 * 12_000, least_ns: 0 });
    assert_eq!(keeper(Some(10), false).lead(12_000), Lead { ahead_ns: 5 * 12_000, least_ns: 0 });
    assert_eq!(keeper(None, false).lead(1_000_000_000), Lead { ahead_ns: 20_000_000, least_ns: 0 });
    // Where late packets are dropped, each has some time to spare.
    assert_eq!(keeper(None, true).lead(1_200), Lead { ahead_ns: 1_200_000, least_ns: 600_000 });
}

fn at(ns: i64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(ns.cast_unsigned())
}

/// Packets handed over at 1 ms for 10, 11, 12 and 13 ms, which left this long after their time.
fn trials(left_after_ns: [Option<i64>; 4]) -> Vec<Trial> {
    let trial = |(index, after): (usize, Option<i64>)| {
        let launch = 10_000_000 + index as i64 * 1_000_000;
        Trial { handed: at(1_000_000), launch: at(launch), left: after.map(|after| at(launch + after)) }
    };
    left_after_ns.into_iter().enumerate().map(trial).collect()
}

#[test]
fn packets_that_left_at_their_time_or_late_were_kept() {
    let found = judge(&trials([Some(900), Some(5_000_000), Some(0), Some(-400)]), Span::ZERO, 0);
    assert_eq!((found.judged, found.packets), (Judged::Kept, 4));
    assert_eq!((found.earliest_ns, found.latest_ns), (Some(-400), Some(5_000_000)));
    assert_eq!(judge(&trials([Some(0), Some(0), None, None]), Span::ZERO, 0).judged, Judged::Kept);
}

#[test]
fn one_packet_that_left_as_soon_as_it_was_there_was_not_kept() {
    let found = judge(&trials([Some(100), Some(100), Some(100), Some(-11_990_000)]), Span::ZERO, 0);
    assert_eq!(found.judged, Judged::NotKept);
    // A queue that is set to release packets early may do so.
    let early = trials([Some(-190_000); 4]);
    assert_eq!(judge(&early, Span::ZERO, 0).judged, Judged::NotKept);
    assert_eq!(judge(&early, Span::from_micros(200), 0).judged, Judged::Kept);
}

#[test]
fn packets_without_stamps_or_handed_over_too_late_prove_nothing() {
    assert_eq!(judge(&trials([None; 4]), Span::ZERO, 0).judged, Judged::NoStamps);
    assert_eq!(judge(&[], Span::ZERO, 0).judged, Judged::NoStamps);
    assert_eq!(judge(&trials([None; 4]), Span::ZERO, 3).judged, Judged::Dropped);
    let mut late = trials([Some(100); 4]);
    late.iter_mut().for_each(|trial| trial.handed = trial.launch + Span::from_nanos(50));
    assert_eq!(judge(&late, Span::ZERO, 0).judged, Judged::TooLate);
    assert_eq!(judge(&trials([Some(1), None, None, None]), Span::ZERO, 0).judged, Judged::TooLate);
}

#[test]
fn several_queues_share_the_shortest_lead_and_the_longest_least() {
    let (roomy, strict) = (Lead { ahead_ns: 20_000, least_ns: 0 }, Lead { ahead_ns: 12_000, least_ns: 700 });
    assert_eq!(Lead::shared([Some(roomy), Some(strict)]), Some(Lead { ahead_ns: 12_000, least_ns: 700 }));
    let slow = Lead { ahead_ns: 20_000, least_ns: 9_000 };
    assert_eq!(Lead::shared([Some(strict), Some(slow)]), Some(Lead { ahead_ns: 18_000, least_ns: 9_000 }));
}

#[test]
fn one_path_without_launch_times_leaves_none_for_any() {
    let kept = Lead { ahead_ns: 20_000, least_ns: 0 };
    assert_eq!(Lead::shared([Some(kept), None]), None);
    assert_eq!(Lead::shared([None, Some(kept)]), None);
    assert_eq!(Lead::shared([]), None);
}

proptest! {
    #[test]
    fn the_lead_is_never_shorter_than_what_the_queue_needs(
        gap in 1_000_u64..1_000_000_000, room in proptest::option::of(0_u32..1_000),
        early_ns in 0_u64..1_000_000, shift_ns in 0_u64..1_000_000, drops_late: bool,
    ) {
        let queue = "etf".to_owned();
        let clock = LaunchClock::Tai;
        let keeper = Keeper { interface: String::new(), queue, clock, shift_ns, early_ns, room, drops_late };
        let lead = keeper.lead(gap);
        prop_assert!(lead.ahead_ns > lead.least_ns && lead.ahead_ns <= LONGEST_AHEAD_NS.max(2 * lead.least_ns));
    }
}
