use std::sync::atomic::Ordering;

use super::*;
use crate::info::Event;
use crate::on_sim::{evidence, on};
use crate::sim::SimClock;

/// This clock minus the kernel's, in ns, read one after the other.
fn error_ns(clock: &Clock<SimClock>) -> i64 {
    let ours = clock.now().as_nanos();
    let kernel = clock.line.source.monotonic().as_nanos();
    ours.wrapping_sub(kernel).cast_signed()
}

fn events(clock: &Clock<SimClock>) -> Vec<Event> {
    clock.info().events.iter().map(|counted| counted.event).collect()
}

#[test]
fn the_clock_shows_the_kernels_time_to_some_nanoseconds() {
    let clock = on(SimClock::new(2_596_118).with_lattice(26.0));
    assert!(clock.reads_counter());
    for _ in 0..1_000 {
        clock.line.source.advance_ns(1e6);
        let error = error_ns(&clock);
        assert!(error.abs() < 60, "{error} ns off");
    }
    let info = clock.info();
    assert_eq!(info.exact_multiplier.map(|m| m.khz), Some(2_596_118));
    assert_eq!(info.events, []);
}

#[test]
fn ntp_steering_is_followed_within_seconds() {
    let clock = on(SimClock::new(2_596_118).with_lattice(26.0));
    clock.line.source.steer(300.0);
    let mut errors = Vec::new();
    for _ in 0..200 {
        clock.line.source.advance_ns(1e8);
        errors.push(error_ns(&clock));
    }
    let late = errors.split_off(150);
    assert!(late.iter().all(|error| error.abs() < 200), "{late:?}");
}

#[test]
fn time_never_goes_back_through_steering_pauses_and_suspends() {
    for seed in 0..20 {
        let clock = on(SimClock::new(2_100_003).with_seed(seed).with_pauses(977, Span::from_millis(7)));
        let mut last = clock.now();
        for step in 0..30_000_u64 {
            match step % 5_000 {
                1_000 => clock.line.source.steer(500.0),
                2_000 => clock.line.source.steer(-500.0),
                3_000 => clock.line.source.suspend(Span::from_secs(90)),
                4_000 => clock.line.source.advance_ns(3_600e9),
                _ => clock.line.source.advance_ns(if step % 3 == 0 { 0.0 } else { 400_000.0 }),
            }
            let now = clock.now();
            assert!(now >= last, "seed {seed} step {step}: {now:?} after {last:?}");
            last = now;
        }
        assert!(clock.reads_counter(), "seed {seed}: {:?}", clock.info().reasons);
        assert!(events(&clock).contains(&Event::Suspended));
    }
}

#[test]
fn after_an_hour_without_a_reading_the_first_one_is_right() {
    let clock = on(SimClock::new(2_596_118));
    clock.line.source.steer(80.0);
    clock.line.source.advance_ns(3_600e9);
    let error = error_ns(&clock);
    assert!(error.abs() < 100, "{error} ns off");
    assert_eq!(events(&clock), [Event::Seated]);
}

#[test]
fn a_guest_that_is_moved_goes_on_at_the_kernels_time_where_the_hypervisor_states_so() {
    for jump in [-(1_i64 << 40), 1 << 40, 50_000_000, 2_000_000_000] {
        let clock = on(SimClock::new(2_596_118));
        let mut last = clock.now();
        // Read every millisecond, so that readings fall between the move and its discovery too.
        for step in 0..6_000 {
            clock.line.source.advance_ns(1e6);
            if step == 3_300 {
                clock.line.source.migrate(jump);
            }
            let now = clock.now();
            assert!(now >= last, "jump {jump} step {step}: {now:?} after {last:?}");
            last = now;
        }
        assert!(clock.reads_counter(), "jump {jump}: {:?}", clock.info().reasons);
        assert!(events(&clock).contains(&Event::Migrated), "jump {jump}");
        // What was given ahead of the kernel is worked off, at 1100 ppm at most.
        for _ in 0..2_000 {
            clock.line.source.advance_ns(5e8);
            let _ = clock.now();
        }
        let error = error_ns(&clock);
        assert!(error.abs() < 200, "jump {jump}: {error} ns off");
    }
}

#[test]
fn a_short_suspend_that_readers_meet_before_the_clock_does_never_turns_time_back() {
    let clock = on(SimClock::new(2_596_118));
    let mut last = clock.now();
    for step in 0..6_000 {
        clock.line.source.advance_ns(1e6);
        if step == 3_300 {
            clock.line.source.suspend(Span::from_millis(300));
        }
        let now = clock.now();
        assert!(now >= last, "step {step}: {now:?} after {last:?}");
        last = now;
    }
    assert!(events(&clock).contains(&Event::Suspended));
}

#[test]
fn a_counter_that_jumps_is_given_up_and_time_still_never_goes_back() {
    for jump in [-(1_i64 << 40), 1 << 40, 50_000_000, -50_000_000] {
        let clock = on(SimClock::new(2_596_118));
        for _ in 0..100 {
            clock.line.source.advance_ns(1e8);
            let _ = clock.now();
        }
        let mut last = clock.now();
        clock.line.source.jump(jump);
        for _ in 0..100 {
            clock.line.source.advance_ns(1e8);
            let now = clock.now();
            assert!(now >= last, "jump {jump}: {now:?} after {last:?}");
            last = now;
        }
        assert!(!clock.reads_counter(), "jump {jump}");
        assert!(events(&clock).contains(&Event::GivenUp), "jump {jump}");
        assert_eq!(clock.info().source, "os");
        let error = error_ns(&clock);
        assert!(error.abs() < 100, "jump {jump}: {error} ns off");
    }
}

#[test]
fn a_kernel_that_leaves_the_counter_is_followed() {
    let clock = on(SimClock::new(2_596_118));
    clock.line.source.change_clock_source("hpet");
    for _ in 0..40 {
        clock.line.source.advance_ns(1e9);
        let _ = clock.now();
    }
    assert!(!clock.reads_counter());
    let seen = events(&clock);
    assert!(seen.contains(&Event::ClockSourceChanged) && seen.contains(&Event::GivenUp), "{seen:?}");
    assert_eq!(clock.info().findings[0].id, "given_up");
}

#[test]
fn without_trust_the_kernels_clock_is_read_and_ticks_still_convert() {
    let distrust = Evidence { clock_source: Some("hpet".to_owned()), ..evidence() };
    let clock = Clock::with_source(SimClock::new(2_596_118), distrust, &ClockOptions::fast(), |_| None);
    assert!(!clock.reads_counter());
    assert!(clock.counter_usable());
    assert_eq!(clock.span_of(2_596_119), Span::from_millis(1));
    assert_eq!(clock.tick_at(clock.now()), None);
    // The counter is invariant here, which is no reason against it.
    let info = clock.info();
    assert_eq!((info.source, info.findings.len(), info.reasons.len()), ("os", 2, 1));
    assert!(info.reasons[0].contains("hpet"), "{:?}", info.reasons);
    let before = clock.now_ordered();
    assert!(clock.now_ordered() >= before);
}

#[test]
fn a_kernel_clock_that_contradicts_the_counter_is_followed_without_the_counter() {
    for seed in 0..20 {
        let clock = on(SimClock::new(2_596_118).with_seed(seed));
        clock.line.source.make_erratic(800.0);
        for _ in 0..4 {
            clock.line.source.advance_ns(1e9);
            let _ = clock.now();
        }
        assert!(!clock.reads_counter(), "seed {seed}");
        let seen = events(&clock);
        assert!(seen.contains(&Event::RateBroken) && seen.contains(&Event::GivenUp), "seed {seed}: {seen:?}");
    }
}

#[test]
fn moves_between_cpus_apart_and_interruptions_under_steering_are_no_contradiction() {
    for seed in 0..200 {
        let machine = SimClock::new(2_596_118).with_lattice(24.5).with_deferred(0.02).with_seed(seed);
        let machine = machine.with_cores(&[0.0, 53.0, -47.0], 7 + seed % 50).with_pauses(11, Span::from_millis(9));
        let clock = on(machine);
        for step in 0..100 {
            clock.line.source.advance_ns(1e8);
            let _ = clock.now();
            if step == 50 {
                clock.line.source.steer(500.0);
            }
        }
        assert!(clock.reads_counter(), "seed {seed}: {:?}", events(&clock));
    }
}

#[test]
fn a_rate_that_the_kernel_contradicts_later_is_no_longer_called_exact() {
    let clock = on(SimClock::new(2_596_118).with_lattice(26.0));
    let run = |seconds| {
        for _ in 0..seconds {
            clock.line.source.advance_ns(1e9);
            let _ = clock.now();
        }
        clock.info()
    };
    let info = run(100);
    assert_eq!((info.exact_multiplier.map(|m| m.khz), info.residual_ppm), (Some(2_596_118), Some(0.0)));
    clock.line.source.rescale(0.385);
    let info = run(100);
    assert_eq!(info.exact_multiplier, None);
    let stated = info.residual_ppm.expect("the counter is calibrated");
    assert!((0.1..1.0).contains(&stated), "{stated} ppm");
    assert!(info.reasons.iter().any(|reason| reason.contains("ppm")), "{:?}", info.reasons);
    assert!(info.events.iter().any(|counted| counted.event == Event::RateContradicted));
    assert!(clock.reads_counter(), "the line follows the kernel");
}

#[test]
fn a_renewal_left_behind_by_a_fork_is_taken_over() {
    let clock = on(SimClock::new(2_596_118));
    clock.line.renewals.renewing.store(std::process::id() ^ 1, Ordering::Relaxed);
    clock.line.source.advance_ns(30e6);
    let _ = clock.now();
    assert_eq!(clock.line.renewals.count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_renewal_whose_thread_does_not_run_for_long_is_never_joined_by_another_and_time_goes_on() {
    for steer_ppm in [-400.0, 400.0] {
        let clock = on(SimClock::new(2_596_118).with_lattice(26.0));
        clock.line.source.advance_ns(15e6);
        clock.line.source.steer(steer_ppm);
        clock.line.renewals.renewing.store(std::process::id(), Ordering::Relaxed);
        let mut last = clock.now();
        for step in 0..5_000 {
            clock.line.source.advance_ns(1e6);
            if step == 4_000 {
                clock.line.renewals.renewing.store(0, Ordering::Relaxed);
            }
            let now = clock.now();
            assert!(now >= last, "steered by {steer_ppm} ppm, step {step}: {now:?} after {last:?}");
            last = now;
            let renewals = clock.line.renewals.count.load(Ordering::Relaxed);
            assert_eq!(renewals > 0, step >= 4_000, "step {step}: {renewals} renewals");
        }
        assert!(error_ns(&clock).abs() < 10_000);
    }
}

#[test]
fn a_reader_that_meets_a_write_gets_the_line_before() {
    let clock = on(SimClock::new(2_596_118));
    let before = clock.now();
    // A reading from inside a publication: what a signal handler would do.
    let line = clock.line.current().expect("the clock reads the counter");
    let mut inside = before;
    clock.line.line.publish(|| {
        inside = clock.now();
        (1 << 30, line)
    });
    assert!(inside >= before && (inside - before) < Span::from_micros(1));
}

#[test]
fn a_deadline_has_its_tick() {
    let clock = on(SimClock::new(2_596_118));
    let deadline = clock.now() + Span::from_millis(5);
    let tick = clock.tick_at(deadline).expect("the clock reads the counter");
    let ahead = clock.span_of(tick.since(clock.line.source.tick()));
    assert!((ahead - Span::from_millis(5)).abs() < Span::from_micros(1), "{ahead}");
}
