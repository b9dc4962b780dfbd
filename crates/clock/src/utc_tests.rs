use vtare_units::Random;

use super::*;
use crate::Clock;
use crate::on_sim::on;
use crate::sim::SimClock;

const MS: f64 = 1e6;

/// An interval, and whether it is wrong although it is stated to hold.
fn wrong(clock: &Clock<SimClock>) -> Option<UtcInterval> {
    let before = clock.source().utc_ns();
    let found = clock.now_utc_interval();
    let after = clock.source().utc_ns();
    let outside = (found.latest.as_nanos() as f64) < before || found.earliest.as_nanos() as f64 > after;
    (found.is_bounded() && outside).then_some(found)
}

#[test]
#[ignore = "seconds of simulation: make test-all"]
fn of_1000_disruptions_and_steps_none_leaves_a_wrong_interval() {
    let (mut held, mut bounded, mut rebounded) = (0, 0, 0);
    for seed in 0..1_000 {
        let mut random = Random::part(seed, 1);
        let clock = on(SimClock::new(2_596_118).with_seed(seed).with_pauses(3_000, Span::from_millis(30)));
        let source = clock.source();
        source.steer(random.unit() * 80.0 - 40.0);
        source.daemon_states(Span::from_micros(100 + (random.unit() * 5_000.0) as i64));
        let span_ns = MS * 10_f64.powf(random.unit() * 4.0);
        let ticks = (span_ns * 2.596_118) as i64;
        let span = Span::from_nanos(span_ns as i64);
        let sign: i64 = if random.unit() < 0.5 { 1 } else { -1 };
        // A first reading comes before: what happened earlier is not known to any process.
        let at = 1 + (random.unit() * 15.0) as u32;
        for step in 0..60_u32 {
            source.advance_ns(random.unit() * 60.0 * MS);
            if step == at {
                match seed % 6 {
                    0 => source.stop(span),
                    1 => source.migrate(sign * ticks),
                    2 => source.suspend(span),
                    3 => source.jump(sign * ticks),
                    4 => source.step_wall(span * sign),
                    _ => source.lose_daemon(),
                }
            }
            // The daemon measures anew every second or so.
            if step > at && step % 12 == 0 && seed % 6 < 5 {
                source.daemon_states(Span::from_micros(300 + i64::from(step)));
            }
            let found = wrong(&clock);
            assert_eq!(found, None, "seed {seed}, step {step} after a disruption of {span} at {at}");
            held += 1;
            bounded += u32::from(clock.now_utc_interval().is_bounded());
        }
        rebounded += u32::from(clock.now_utc_interval().status == UtcStatus::Synchronized);
    }
    assert_eq!(held, 60_000);
    assert!(bounded > 25_000, "only {bounded} of {held} readings state a bound");
    assert!(rebounded > 600, "only {rebounded} of 1000 were bounded again");
}

#[test]
fn of_300_disruptions_beside_a_ptp_clock_none_leaves_a_wrong_interval_and_all_are_bounded_at_once() {
    for seed in 0..300 {
        let mut random = Random::part(seed, 2);
        let clock = on(SimClock::new(2_596_118).with_seed(seed).with_pauses(3_000, Span::from_millis(30)));
        let source = clock.source();
        source.steer(random.unit() * 80.0 - 40.0);
        source.show_phc(Some(Span::from_micros(20 + (random.unit() * 100.0) as i64)));
        // The daemon is wrong by what it states, at times gone: the PTP clock is better.
        source.daemon_states(Span::from_millis(4));
        let span = Span::from_nanos((MS * 10_f64.powf(random.unit() * 4.0)) as i64);
        let at = 1 + (random.unit() * 15.0) as u32;
        for step in 0..30_u32 {
            source.advance_ns(random.unit() * 60.0 * MS);
            if step == at {
                match seed % 4 {
                    0 => source.stop(span),
                    1 => source.suspend(span),
                    2 => source.step_wall(span),
                    _ => source.lose_daemon(),
                }
            }
            assert_eq!(wrong(&clock), None, "seed {seed}, step {step} after a disruption of {span} at {at}");
            let found = clock.now_utc_interval();
            assert_eq!(found.status, UtcStatus::Synchronized, "seed {seed}, step {step}");
            assert!(found.latest - found.earliest < Span::from_millis(2), "seed {seed}, step {step}: {found:?}");
        }
    }
}

#[test]
fn a_stop_that_the_guest_cannot_see_is_found_by_a_ptp_clock_within_100_ms() {
    for error in [None, Some(Span::from_micros(50))] {
        let clock = on(SimClock::new(2_596_118));
        let source = clock.source();
        source.hide_stops();
        source.show_phc(error);
        source.daemon_states(Span::from_millis(1));
        let first = clock.now_utc_interval();
        source.advance_ns(150.0 * MS);
        assert_eq!(clock.now_utc_interval().generation, first.generation);
        source.stop(Span::from_millis(7));
        source.advance_ns(101.0 * MS);
        let found = clock.now_utc_interval();
        assert_eq!(found.generation, first.generation + 1, "{found:?}");
        assert_eq!(clock.disruptions().1, Some(crate::watch::Disruption::Contradicted));
        // The host's clock bounds nothing; one that states its error does, though a stop since is not seen.
        assert_eq!(found.latest < Timestamp::MAX, error.is_some(), "{found:?}");
        let later_ns = source.utc_ns() as u64;
        assert!((found.earliest.as_nanos()..found.latest.as_nanos()).contains(&(later_ns - 20_000)), "{found:?}");
    }
}

#[test]
fn the_interval_grows_with_the_drift_when_the_daemon_is_gone() {
    let clock = on(SimClock::new(2_596_118));
    clock.source().daemon_states(Span::from_millis(2));
    let width = |found: UtcInterval| (found.latest - found.earliest).as_nanos();
    let first = clock.now_utc_interval();
    assert_eq!(first.status, UtcStatus::Synchronized);
    // 2 ms, and the second's drift that the kernel may not have added yet.
    assert!((5_000_000..5_002_000).contains(&width(first)), "{}", width(first));
    clock.source().lose_daemon();
    for _ in 0..100 {
        clock.source().advance_ns(1e9);
        let _ = clock.now_utc_interval();
    }
    let last = clock.now_utc_interval();
    assert_eq!(last.status, UtcStatus::FreeRunning);
    // 500 ppm of 100 s to either side.
    assert!((width(last) - width(first) - 100_000_000).abs() < 1_000_000, "{}", width(last));
}

#[test]
fn without_a_statement_there_is_no_interval() {
    let clock = on(SimClock::new(2_596_118));
    let found = clock.now_utc_interval();
    assert_eq!(found.status, UtcStatus::Unknown);
    assert_eq!((found.earliest, found.latest), (Timestamp::ZERO, Timestamp::MAX));
}

#[test]
fn a_guest_that_can_be_stopped_unseen_states_an_interval_and_vouches_for_none() {
    let clock = on(SimClock::new(2_596_118));
    clock.source().hide_stops();
    clock.source().daemon_states(Span::from_millis(1));
    let found = clock.now_utc_interval();
    assert!(!found.is_bounded() && found.latest < Timestamp::MAX, "{found:?}");
}

#[test]
fn an_unseen_stop_is_found_when_the_daemon_measures_again() {
    let clock = on(SimClock::new(2_596_118));
    clock.source().hide_stops();
    clock.source().daemon_states(Span::from_millis(1));
    let first = clock.now_utc_interval();
    clock.source().stop(Span::from_secs(8));
    clock.source().advance_ns(200.0 * MS);
    clock.source().daemon_states(Span::from_millis(1));
    let found = clock.now_utc_interval();
    assert_eq!((found.status, found.generation), (UtcStatus::Disrupted, first.generation + 1));
    clock.source().advance_ns(2_000.0 * MS);
    let _ = clock.now_utc_interval();
    clock.source().daemon_states(Span::from_micros(900));
    clock.source().advance_ns(200.0 * MS);
    let found = clock.now_utc_interval();
    assert!(found.latest < Timestamp::MAX, "{found:?}");
}

#[test]
fn a_leap_second_widens_the_interval_by_one() {
    let now = UtcStatement {
        at: Timestamp::from_nanos(1),
        wall: Timestamp::from_nanos(1 << 60),
        width: Span::ZERO,
        synchronized: true,
        max_error: Span::from_millis(1),
        drift_ppm: 500.0,
        leap: true,
        stops_are_seen: true,
        outside: false,
        host_ahead_ns: None,
    };
    let (known, contradicted) = next(&Known::default(), &now, 1);
    assert!(!contradicted);
    assert_eq!(known.error_ns, 1_001_500_000);
}
