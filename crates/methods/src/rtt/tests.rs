use proptest::prelude::*;
use vtare_units::{Monotonic, Timestamp};

use super::{Answer, Attribution, FarEnd, Fate, LocalDrops, Options, Record, ReplyKind, Report, Run, Sent, Unsent};

fn at(us: u64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(us * 1_000)
}

/// Timeout 1 ms.
fn run() -> Run {
    Run::new(Options { timeout_ns: 1_000_000, late_send_ns: 5_000, exact_samples: 1_000, launched: false })
}

fn send(run: &mut Run, sequence: u64, us: u64) {
    run.sent(Sent { sequence, scheduled: at(us), sent: at(us) }).expect("in order");
}

fn answer(sequence: u64, us: u64) -> Answer {
    Answer { sequence, arrived: at(us), kernel_rx: None, far_end: FarEnd::default() }
}

fn finish(run: Run) -> (Report, Vec<Record>) {
    let mut records = Vec::new();
    let report = run.finish(None, &LocalDrops::default(), &mut |record| records.push(*record));
    (report, records)
}

#[test]
fn a_run_without_packets_has_no_figures_and_no_losses() {
    let (report, records) = finish(run());
    assert_eq!((report.sent, report.lost, report.rtt_ns.median, records.len()), (0, 0, None, 0));
    assert_eq!((report.achieved_packet_per_s, report.lost_by.attribution), (None, Some(Attribution::None)));
}

#[test]
fn a_slot_out_of_turn_is_refused_and_changes_nothing() {
    let mut run = run();
    send(&mut run, 0, 0);
    let error = run.sent(Sent { sequence: 2, scheduled: at(9), sent: at(9) }).expect_err("slot 1 is missing");
    assert_eq!(error.to_string(), "slot 2 came instead of slot 1: pass each slot once, in order");
    send(&mut run, 1, 10);
    assert_eq!(finish(run).0.sent, 2);
}

#[test]
fn a_launched_packet_was_sent_when_it_left_or_else_when_it_was_to_leave_and_that_is_stated() {
    let options = Options { timeout_ns: 1_000_000, late_send_ns: 5_000, exact_samples: 1_000, launched: true };
    let mut run = Run::new(options);
    for sequence in 0..3 {
        send(&mut run, sequence, 100 + sequence * 100);
    }
    run.answered(&answer(0, 150));
    run.departed(0, at(107));
    run.departed(1, at(199));
    run.answered(&answer(1, 250));
    run.answered(&answer(2, 350));
    let (report, records) = finish(run);
    let sent: Vec<_> = records.iter().map(|record| (record.sent, record.sent_asked)).collect();
    assert_eq!(sent, [(Some(at(107)), false), (Some(at(199)), false), (Some(at(300)), true)]);
    assert_eq!(records[0].rtt(), Some(at(150) - at(107)));
    // A launch time asked for is no reading of how late a packet was.
    assert_eq!(
        (report.pacing_error_ns.n, report.pacing_error_ns.min, report.pacing_error_ns.max),
        (2, Some(-1_000.0), Some(7_000.0))
    );
    assert_eq!((report.sent, report.received, report.sent_late), (3, 3, 1));
    let launches = report.launches.expect("they were launched");
    assert_eq!((launches.stamped, launches.asked_only, launches.earliest_ns), (2, 1, Some(-1_000)));
}

#[test]
fn slots_left_out_at_either_end_lower_the_achieved_rate() {
    // Ten slots, 100 us apart; the first and the last three are not sent: 6 packets in 900 us.
    let mut run = run();
    for sequence in 0..10 {
        if (1..7).contains(&sequence) {
            send(&mut run, sequence, sequence * 100);
        } else {
            run.unsent(sequence, at(sequence * 100), Unsent::TooLate).expect("in order");
        }
    }
    let report = finish(run).0;
    assert_eq!(report.intended_packet_per_s, Some(10_000.0));
    assert_eq!(report.achieved_packet_per_s, Some(5.0 / 900e-6));
}

#[test]
fn a_reply_is_in_time_up_to_the_timeout_itself() {
    let mut run = run();
    send(&mut run, 0, 0);
    send(&mut run, 1, 0);
    assert_eq!(run.answered(&answer(0, 1_000)), ReplyKind::Received);
    assert_eq!(run.answered(&answer(1, 1_001)), ReplyKind::Late);
    let (report, records) = finish(run);
    assert_eq!((report.received, report.lost, report.lost_by.late), (1, 1, 1));
    assert_eq!(records[1].fate, Fate::Late);
    assert!(records[1].arrived.is_some(), "a late reply is lost to the figures, not to the record");
}

#[test]
fn replies_to_nothing_that_was_sent_are_unknown() {
    let mut run = run();
    run.unsent(0, at(0), Unsent::NoRoom).expect("in order");
    assert_eq!(run.answered(&answer(0, 10)), ReplyKind::Unknown);
    assert_eq!(run.answered(&answer(1, 10)), ReplyKind::Unknown);
    assert_eq!(run.answered(&answer(u64::MAX, 10)), ReplyKind::Unknown);
    let (report, _) = finish(run);
    assert_eq!((report.unknown, report.sent, report.received, report.unsent.no_room), (3, 0, 0, 1));
}

#[test]
fn what_comes_after_its_record_was_given_is_still_counted() {
    let mut run = run();
    (0..3).for_each(|sequence| send(&mut run, sequence, 0));
    run.answered(&answer(0, 20));
    let mut given = Vec::new();
    run.settle(at(2_000), &mut |record| given.push(record.sequence));
    assert!(given.is_empty(), "twice the timeout has not passed");
    run.settle(at(2_001), &mut |record| given.push(record.sequence));
    assert_eq!(given, [0, 1, 2]);
    assert_eq!(run.answered(&answer(0, 2_002)), ReplyKind::Duplicate);
    assert_eq!(run.answered(&answer(1, 2_003)), ReplyKind::Late);
    assert_eq!(run.answered(&answer(1, 2_004)), ReplyKind::Duplicate);
    let (report, _) = finish(run);
    assert_eq!((report.received, report.lost, report.lost_by.late, report.duplicate), (1, 2, 1, 2));
}

#[test]
fn a_reply_behind_a_later_one_is_reordered_and_stays_in_the_figures() {
    let mut run = run();
    (0..3).for_each(|sequence| send(&mut run, sequence, sequence));
    for (sequence, us) in [(0, 50), (2, 60), (1, 70)] {
        run.answered(&answer(sequence, us));
    }
    let (report, records) = finish(run);
    assert_eq!((report.reordered, report.rtt_ns.n), (1, 3));
    assert_eq!(records.iter().map(|record| record.reordered).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_late_sender_shows_in_pacing_and_in_the_scheduled_round_trip_only() {
    let mut run = run();
    run.sent(Sent { sequence: 0, scheduled: at(0), sent: at(40) }).expect("in order");
    run.answered(&answer(0, 60));
    let (report, _) = finish(run);
    assert_eq!((report.rtt_ns.max, report.rtt_scheduled_ns.max), (Some(20_000.0), Some(60_000.0)));
    assert_eq!((report.pacing_error_ns.max, report.sent_late), (Some(40_000.0), 1));
    assert_eq!(report.rtt_kernel_ns.n, 0, "no stamps, no figure");
}

/// Sent every 10 us; arrives there 5 us later and `extra_us` on top; takes 5 us back.
fn exchange(run: &mut Run, sequence: u64, extra_us: u64, accepted: u64) {
    let there = sequence * 10 + 5 + extra_us;
    let peer = Timestamp::from_nanos((there + 1_000_000) * 1_000);
    let far_end = FarEnd::stamped(peer, peer, Some(accepted));
    run.answered(&Answer { far_end, ..answer(sequence, there + 5) });
}

#[test]
fn only_neighbours_are_compared_for_variation() {
    let mut run = run();
    (0..5).for_each(|sequence| send(&mut run, sequence, sequence * 10));
    // Packet 2 is lost: between 1 and 3 lies no variation, though the delay has jumped by 100 us.
    for (sequence, extra_us) in [(0, 0), (1, 3), (3, 100), (4, 98)] {
        exchange(&mut run, sequence, extra_us, 0);
    }
    let (report, _) = finish(run);
    let forward = report.forward_variation_ns;
    assert_eq!((forward.n, forward.min, forward.max), (2, Some(2_000.0), Some(3_000.0)));
    assert_eq!((report.reverse_variation_ns.n, report.reverse_variation_ns.max), (2, Some(0.0)));
}

#[test]
fn the_count_in_the_newest_reply_is_the_one_that_tells() {
    let mut run = run();
    (0..6).for_each(|sequence| send(&mut run, sequence, sequence * 10));
    // The responder got 0, 2, 3 (so 1 was lost on the way there); the reply to 3 counts 3 of 4. The reply to 2 comes
    // last and counts 2.
    exchange(&mut run, 0, 0, 1);
    exchange(&mut run, 3, 0, 3);
    exchange(&mut run, 2, 20, 2);
    let (report, _) = finish(run);
    let classes = report.lost_by;
    assert_eq!((classes.attribution, classes.forward, classes.reverse), (Some(Attribution::InBand), Some(1), Some(0)));
    assert_eq!((classes.unattributed, report.lost), (2, 3));
}

#[test]
fn the_live_view_keeps_the_interval_apart_from_the_whole() {
    let mut run = run();
    (0..3).for_each(|sequence| send(&mut run, sequence, 0));
    run.answered(&answer(0, 20));
    run.next_interval();
    run.answered(&answer(1, 90));
    let live = run.live();
    assert_eq!((live.sent, live.received, live.open), (3, 2, 1));
    assert_eq!((live.interval.total(), live.whole.total()), (1, 2));
}

/// Packets of a way of 300 us there and 100 us back; the far end replies after 1 us, by a clock that is so far ahead
/// when the request arrives and when the reply leaves, us.
fn one_way_delays(ahead_us: &[(u64, u64)]) -> Report {
    let mut run = run();
    for (sequence, &(received, replied)) in (0..).zip(ahead_us) {
        let sent = 10_000 * sequence;
        send(&mut run, sequence, sent);
        let peer = |us: u64| Timestamp::from_nanos(us * 1_000);
        let far_end = FarEnd::stamped(peer(sent + 300 + received), peer(sent + 301 + replied), None);
        run.answered(&Answer { far_end, ..answer(sequence, sent + 401) });
    }
    finish(run).0
}

#[test]
fn a_clock_that_is_set_parts_the_round_trips_and_loses_none() {
    const STEP: (u64, u64) = (1_000_000, 1_000_000);
    for (ahead_us, steps, n) in [
        (vec![(50, 50); 10], 0, 10),
        ([vec![(50, 50); 5], vec![STEP; 5]].concat(), 1, 10),
        ([vec![STEP; 5], vec![(50, 50); 4], vec![STEP; 1]].concat(), 2, 10),
        // Set while the far end held the packet: nothing can be known of this one.
        ([vec![(50, 50); 5], vec![(50, 1_000_000)], vec![STEP; 4]].concat(), 1, 9),
        ([vec![(50, 1_000_000)], vec![STEP; 9]].concat(), 1, 9),
    ] {
        let bounds = one_way_delays(&ahead_us).one_way.expect("the far end states its times");
        assert_eq!((bounds.clock_steps, bounds.there_low_ns.n, bounds.back_high_ns.n), (steps, n, n), "{ahead_us:?}");
        for (low, truth, high) in [
            (&bounds.there_low_ns, 300_000.0, &bounds.there_high_ns),
            (&bounds.back_low_ns, 100_000.0, &bounds.back_high_ns),
        ] {
            assert!(
                low.max.is_some_and(|low| low <= truth) && high.min.is_some_and(|high| high >= truth),
                "{bounds:?}"
            );
            assert!(high.max.is_some_and(|high| high <= 400_001.0), "no wider than the round trip: {bounds:?}");
        }
    }
}

proptest! {
    /// Whatever comes, in whatever order, the accounts hold.
    #[test]
    fn sent_is_received_and_lost(
        events in proptest::collection::vec((0_u8..8, 0_u64..40, 0_u64..600), 1..300),
    ) {
        let mut run = run();
        let (mut now, mut next, mut records) = (0, 0, Vec::new());
        for (what, sequence, us) in events {
            now += us;
            match what {
                0..=2 => {
                    send(&mut run, next, now);
                    next += 1;
                }
                3 => {
                    run.unsent(next, at(now), Unsent::TooLate).expect("in order");
                    next += 1;
                }
                4 | 5 => {
                    run.answered(&answer(next.saturating_sub(sequence), now));
                }
                6 => run.departed(sequence, at(now)),
                _ => run.settle(at(now), &mut |record| records.push(*record)),
            }
        }
        let report = run.finish(None, &LocalDrops::default(), &mut |record| records.push(*record));
        prop_assert_eq!(report.sent, report.received + report.lost);
        prop_assert_eq!(report.lost_by.total(), report.lost);
        prop_assert_eq!(report.scheduled, next);
        prop_assert!(records.iter().map(|record| record.sequence).eq(0..next));
        prop_assert_eq!(report.rtt_ns.n, report.received);
        prop_assert!(records.iter().all(|record| record.fate != Fate::Received || record.rtt().is_some()));
    }
}
