use vtare_units::Random;

use super::*;
use crate::on_sim::on;
use crate::sim::SimClock;
use crate::source::TimeSource;
use crate::trust::Evidence;
use crate::{Clock, ClockOptions};

const MS: f64 = 1e6;
/// What a checked reading may be off by where no flag was raised: the tolerance of a look.
const BOUND_NS: i64 = 250_000;

/// A reading, and how far it lies outside of the kernel's clock before and after.
fn read(clock: &Clock<SimClock>) -> (Checked, i64) {
    let before = clock.source().monotonic();
    let reading = clock.now_checked();
    let after = clock.source().monotonic();
    (reading, (reading.at - after).max(before - reading.at).as_nanos().max(0))
}

/// Reads for `ms` simulated milliseconds, at distances from 1 us to 3 ms. All readings are right and of `generation`.
fn undisturbed(clock: &Clock<SimClock>, random: &mut Random, ms: f64, generation: u64, what: &str) {
    let until = clock.source().true_ns() + ms * MS;
    let mut last = clock.now_checked();
    while clock.source().true_ns() < until {
        clock.source().advance_ns(1_000.0 + random.unit().powi(4) * 3.0 * MS);
        let (reading, off_ns) = read(clock);
        assert_eq!(reading.generation, generation, "{what}: flagged by {:?}", clock.disruptions().1);
        assert!(off_ns < BOUND_NS, "{what}: {off_ns} ns off");
        assert!(reading.at >= last.at, "{what}: back by {}", last.at - reading.at);
        last = reading;
    }
}

/// A length of 1 ms to 10 s, short ones as often as long ones.
fn length_ns(random: &mut Random) -> f64 {
    MS * 10_f64.powf(random.unit() * 4.0)
}

#[test]
fn of_1000_disruptions_none_leaves_a_wrong_reading_without_a_flag() {
    let mut kinds = [0; 5];
    for seed in 0..1_000 {
        let mut random = Random::part(seed, 0);
        let machine = SimClock::new(2_596_118).with_lattice(26.0).with_seed(seed);
        let clock = on(machine.with_pauses(5_000 + seed % 977, Span::from_millis(20)));
        let source = clock.source();
        undisturbed(&clock, &mut random, 40.0, 1, "before");
        let span = Span::from_nanos(length_ns(&mut random) as i64 + 1);
        let ticks = (span.as_nanos() as f64 * 2.596_118) as i64;
        let kind = (seed % 5) as usize;
        kinds[kind] += 1;
        let (name, cause) = match kind {
            0 => {
                source.stop(span);
                ("stop of all clocks, with a VMClock", Disruption::Moved)
            }
            1 => {
                source.jump(if random.unit() < 0.5 { ticks } else { -ticks });
                ("step of the counter", Disruption::Stepped)
            }
            2 => {
                source.migrate(if random.unit() < 0.5 { ticks } else { -ticks });
                ("migration", Disruption::Moved)
            }
            3 => {
                source.suspend(span);
                ("suspend", Disruption::Suspended)
            }
            _ => {
                // 300 to 30,000 ppm: 1 ms is reached after 33 ms to 3.3 s.
                let ppm = 300.0 * 100_f64.powf(random.unit()) * if random.unit() < 0.5 { 1.0 } else { -1.0 };
                source.rescale(ppm);
                let until = source.true_ns() + 1e3 / ppm.abs() * 1e9;
                let mut flagged = false;
                while source.true_ns() < until {
                    source.advance_ns(MS * random.unit());
                    let (reading, off_ns) = read(&clock);
                    flagged |= reading.generation > 1;
                    assert!(flagged || off_ns < 1_000_000, "seed {seed}: {ppm} ppm, {off_ns} ns off, no flag");
                }
                assert!(flagged, "seed {seed}: {ppm} ppm never flagged");
                ("change of rate", Disruption::Stepped)
            }
        };
        let (reading, off_ns) = read(&clock);
        let what = format!("seed {seed}, {name} of {span}");
        assert!(reading.generation > 1, "{what}: not flagged");
        assert!(off_ns < BOUND_NS, "{what}: {off_ns} ns off after the flag");
        assert_eq!(clock.disruptions().1, Some(cause), "{what}");
        if kind != 4 {
            assert_eq!(reading.generation, 2, "{what}: flagged more than once");
            undisturbed(&clock, &mut random, if seed % 50 < 5 { 1_500.0 } else { 20.0 }, 2, &what);
        }
    }
    assert_eq!(kinds, [200; 5]);
}

#[test]
fn threads_that_do_not_run_for_long_and_steering_are_no_disruption() {
    for seed in 0..50 {
        let mut random = Random::part(seed, 0);
        let machine = SimClock::new(2_596_118).with_cores(&[0.0, 53.0, -47.0], 7 + seed % 50).with_seed(seed);
        let clock = on(machine.with_pauses(97 + seed % 7, Span::from_millis(150)));
        for steps in 0..20 {
            clock.source().steer(if steps % 2 == 0 { 400.0 } else { -400.0 });
            for _ in 0..20 {
                clock.source().advance_ns(random.unit() * 300.0 * MS);
                assert_eq!(clock.now_checked().generation, 1, "seed {seed}: {:?}", clock.disruptions().1);
            }
        }
    }
}

#[test]
fn an_hour_without_a_reading_hides_no_step() {
    for step_ms in [-3_599_000_i64, -20, -1, 1, 20, 7_200_000] {
        let clock = on(SimClock::new(2_596_118).with_lattice(26.0));
        clock.source().advance_ns(3_600e9);
        assert_eq!(clock.now_checked().generation, 1);
        clock.source().advance_ns(3_600e9);
        clock.source().jump(step_ms * 2_596_118);
        let (reading, off_ns) = read(&clock);
        assert_eq!(reading.generation, 2, "a step of {step_ms} ms");
        assert!(off_ns < BOUND_NS, "{off_ns} ns off");
    }
}

#[test]
fn without_a_counter_suspends_and_moves_are_flagged_and_nothing_else() {
    let evidence = Evidence { clock_source: Some("hpet".to_owned()), ..Evidence::default() };
    let clock = Clock::with_source(SimClock::new(2_596_118), evidence, &ClockOptions::fast(), |_| None);
    clock.source().jump(2_596_118_000);
    clock.source().advance_ns(MS);
    assert_eq!(read(&clock).0.generation, 1);
    clock.source().suspend(Span::from_secs(3));
    clock.source().advance_ns(MS);
    assert_eq!(read(&clock).0.generation, 2);
    clock.source().migrate(-5);
    let (reading, off_ns) = read(&clock);
    assert_eq!((reading.generation, clock.disruptions().1), (3, Some(Disruption::Moved)));
    assert!(off_ns < BOUND_NS);
}

fn look() -> Look {
    Look {
        tick: CounterTick::new(1 << 50),
        raw_ns: 1 << 60,
        raw_width_ns: 40,
        suspended_ns: 7,
        mark: 3,
        page_age_ns: 0,
        counted: true,
    }
}

/// A look `ns` later, by a counter of 1 ns a tick.
fn later(ns: u64) -> Look {
    let first = look();
    Look { tick: CounterTick::new(first.tick.count() + ns), raw_ns: first.raw_ns + ns, ..first }
}

fn known() -> Option<KnownRate> {
    Some(KnownRate { rate: FixedRate::new(1.0).expect("a rate"), error_ppm: 0.0 })
}

#[test]
fn a_page_that_no_cpu_has_written_is_a_stall_once() {
    let fresh = later(1_000_000);
    let stalled = Look { page_age_ns: 300_000_000, ..later(300_000_000) };
    assert_eq!(disruption(&look(), &fresh, &stalled, known()), Some(Disruption::Stalled));
    let still = Look { page_age_ns: 301_000_000, ..later(301_000_000) };
    assert_eq!(disruption(&look(), &stalled, &still, known()), None);
}

#[test]
fn a_wide_bracket_hides_no_more_than_its_width() {
    let wide = Look { raw_width_ns: 5_000_000, ..later(50_000_000) };
    let shifted = |ns: u64| Look { raw_ns: look().raw_ns + ns, ..wide };
    assert_eq!(disruption(&look(), &look(), &shifted(46_000_000), known()), None);
    assert_eq!(disruption(&look(), &look(), &shifted(44_000_000), known()), Some(Disruption::Stepped));
    assert_eq!(disruption(&look(), &look(), &shifted(51_000_000), known()), Some(Disruption::Stepped));
    assert_eq!(disruption(&look(), &look(), &shifted(44_000_000), None), None, "the counter is not asked");
}

#[test]
fn a_reading_of_another_cpu_a_little_before_the_look_is_covered() {
    let at = CounterTick::new(1_000_000);
    assert!(covers(at, CounterTick::new(999_900), 500_000));
    assert!(covers(at, CounterTick::new(1_500_000), 500_000));
    assert!(!covers(at, CounterTick::new(1_500_001), 500_000));
    assert!(!covers(at, CounterTick::new(400_000), 500_000));
}
