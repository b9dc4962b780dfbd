//! The adaptive policy on recorded lateness: what it misses and what it spins, in simulated time.
//!
//! The traces were recorded by `bench/sleep --record` on a virtual machine with two cores: idle, under a
//! hundred busy threads, and under IO.

use vtare_clock::sleep::sim::{Outcome, SimKernel, Trace};
use vtare_clock::sleep::{Method, SleepOptions};
use vtare_units::Span;

const TICK: Span = Span::from_millis(4);
const SLEEPS: usize = 4_000;

fn trace(text: &str) -> Trace {
    Trace::parse(text).expect("the recorded traces are well formed")
}

fn idle() -> Trace {
    trace(include_str!("traces/idle.trace"))
}

fn busy() -> Trace {
    trace(include_str!("traces/cpu.trace"))
}

fn io() -> Trace {
    trace(include_str!("traces/io.trace"))
}

fn sleep(trace: &Trace, method: Method, options: SleepOptions, duration: Span) -> Outcome {
    SimKernel::new(trace).sleep(method, &options, duration, TICK, SLEEPS)
}

fn median(outcome: &Outcome) -> u64 {
    outcome.median_miss_ns().expect("there were sleeps")
}

#[test]
fn idle_sleeps_end_on_time_at_a_fraction_of_the_price_of_two_phases() {
    let trace = idle();
    for duration in [Span::from_millis(1), Span::from_millis(10)] {
        let adaptive = sleep(&trace, Method::Adaptive, SleepOptions::default(), duration);
        let two_phase = sleep(&trace, Method::TwoPhase, SleepOptions::default(), duration);
        let kernel = sleep(&trace, Method::ClockNanosleep, SleepOptions::default(), duration);
        assert_eq!(median(&adaptive), 0, "{duration}");
        assert!(median(&kernel) > 10_000, "{duration}: the kernel alone is late");
        assert!(adaptive.spin_share < two_phase.spin_share / 10.0, "{duration}: {}", adaptive.spin_share);
    }
}

#[test]
fn sleeps_of_ten_milliseconds_spin_for_at_most_two_percent_of_them() {
    let share = |duration| sleep(&idle(), Method::Adaptive, SleepOptions::default(), duration).spin_share;
    let (one, ten) = (share(Span::from_millis(1)), share(Span::from_millis(10)));
    assert!(ten <= 0.02, "{ten}");
    assert!(ten < one, "the margin does not grow with the target as fast as the target: {ten}, {one} at 1 ms");
}

#[test]
fn a_cheap_sleep_keeps_its_share_on_each_machine_and_is_nearer_than_the_kernel() {
    let options = SleepOptions { cpu_share: 0.01, ..SleepOptions::default() };
    for (name, trace) in [("idle", idle()), ("busy", busy()), ("io", io())] {
        let cheap = sleep(&trace, Method::Cheap, options, Span::from_millis(10));
        let kernel = sleep(&trace, Method::ClockNanosleep, options, Span::from_millis(10));
        // The kernel's part is no spin: what is left of 1 % for that is less.
        assert!(cheap.spin_share <= 0.01, "{name}: {}", cheap.spin_share);
        assert!(median(&cheap) < median(&kernel), "{name}: {} and {}", median(&cheap), median(&kernel));
    }
    assert_eq!(median(&sleep(&idle(), Method::Cheap, options, Span::from_millis(10))), 0);
}

#[test]
fn a_higher_price_of_a_miss_buys_fewer_late_sleeps_for_more_spinning() {
    let trace = idle();
    let late = |outcome: &Outcome| outcome.miss_ns.iter().filter(|miss| **miss > 1_000).count();
    let outcomes = [100_i64, 2_000, 100_000].map(|lambda_us| {
        let options = SleepOptions { lambda: Span::from_micros(lambda_us), ..SleepOptions::default() };
        sleep(&trace, Method::Adaptive, options, Span::from_millis(10))
    });
    assert!(outcomes.windows(2).all(|pair| late(&pair[0]) >= late(&pair[1])), "{:?}", outcomes.each_ref().map(late));
    assert!(outcomes.windows(2).all(|pair| pair[0].spin_share <= pair[1].spin_share));
}

#[test]
fn under_a_hundred_busy_threads_it_hardly_spins_and_still_ends_on_time_what_the_kernel_wakes_late() {
    let trace = busy();
    let duration = Span::from_millis(10);
    let adaptive = sleep(&trace, Method::Adaptive, SleepOptions::default(), duration);
    let two_phase = sleep(&trace, Method::TwoPhase, SleepOptions::default(), duration);
    let kernel = sleep(&trace, Method::ClockNanosleep, SleepOptions::default(), duration);
    assert!(adaptive.held_back > SLEEPS / 2, "{} of {SLEEPS} held back", adaptive.held_back);
    assert!(adaptive.spin_share < 0.006, "{}", adaptive.spin_share);
    // The last ones, once the guard has learned.
    let settled = |outcome: &Outcome| {
        let mut tail = outcome.miss_ns[SLEEPS / 2..].to_vec();
        tail.sort_unstable();
        tail[tail.len() / 2]
    };
    assert!(settled(&kernel) > 10_000, "{}", settled(&kernel));
    assert_eq!(settled(&adaptive), 0);
    assert!(settled(&two_phase) > 100 * settled(&kernel), "{} {}", settled(&two_phase), settled(&kernel));
    let late = |outcome: &Outcome| outcome.miss_ns.iter().filter(|miss| **miss > 1_000_000).count();
    assert!(late(&adaptive) <= late(&kernel) + SLEEPS / 100, "{} {}", late(&adaptive), late(&kernel));
}

#[test]
fn under_io_it_goes_on_spinning_where_that_helps() {
    let trace = io();
    let adaptive = sleep(&trace, Method::Adaptive, SleepOptions::default(), Span::from_millis(10));
    let kernel = sleep(&trace, Method::ClockNanosleep, SleepOptions::default(), Span::from_millis(10));
    assert!(median(&adaptive) < median(&kernel) / 2, "{} {}", median(&adaptive), median(&kernel));
    assert!(adaptive.spin_share < 0.05, "{}", adaptive.spin_share);
}

#[test]
fn a_machine_that_stands_still_for_ten_milliseconds_costs_one_sleep_and_no_more() {
    let trace = idle();
    let duration = Span::from_millis(1);
    let options = SleepOptions::default();
    let calm = SimKernel::new(&trace).sleep(Method::Adaptive, &options, duration, TICK, SLEEPS);
    let mut kernel = SimKernel::new(&trace).with_pause(2_000, Span::from_millis(10));
    let paused = kernel.sleep(Method::Adaptive, &options, duration, TICK, SLEEPS);
    let much = |outcome: &Outcome| outcome.miss_ns.iter().filter(|miss| **miss > 9_000_000).count();
    assert_eq!(much(&paused), much(&calm) + 1);
    // After the hold that follows, all is as before.
    let tail = |outcome: &Outcome| {
        let mut tail = outcome.miss_ns[2_600..].to_vec();
        tail.sort_unstable();
        tail[tail.len() / 2]
    };
    assert_eq!(tail(&paused), tail(&calm));
}

/// Share of sleeps on time, less what their spinning costs at `lambda`: what the policy is to maximise.
fn worth(outcome: &Outcome, duration: Span, lambda: Span) -> f64 {
    let on_time = outcome.miss_ns.iter().filter(|miss| **miss == 0).count() as f64 / outcome.miss_ns.len() as f64;
    on_time - outcome.spin_share * duration.as_nanos() as f64 / lambda.as_nanos() as f64
}

#[test]
fn at_every_target_and_price_it_is_worth_no_less_than_spinning_all_or_nothing() {
    let steady = trace("overshoot 9000\novershoot 11000\novershoot 10000\n");
    for (name, trace) in [("steady", steady), ("idle", idle())] {
        for duration in [20, 50, 100, 300, 1_000, 10_000].map(Span::from_micros) {
            for lambda in [500, 2_000, 20_000].map(Span::from_micros) {
                let options = SleepOptions { lambda, ..SleepOptions::default() };
                let value = |method| worth(&sleep(&trace, method, options, duration), duration, lambda);
                let adaptive = value(Method::Adaptive);
                let other = value(Method::Spin).max(value(Method::ClockNanosleep));
                // What learning costs: a share of 1 in 50.
                assert!(adaptive >= other - 0.02, "{name}, {duration} at {lambda}: {adaptive:.3}, not {other:.3}");
            }
        }
    }
}

#[test]
fn a_sleep_shorter_than_the_first_margin_is_left_to_the_kernel_once_the_kernel_is_known_to_be_quick() {
    let quick = trace("overshoot 9000\novershoot 11000\novershoot 10000\n");
    let outcome = sleep(&quick, Method::Adaptive, SleepOptions::default(), Span::from_micros(50));
    assert!(outcome.spin_share < 0.1, "{}", outcome.spin_share);
    assert_eq!(median(&outcome), 0);
}

#[test]
fn after_a_spell_of_long_overshoots_short_sleeps_are_left_to_the_kernel_again() {
    let mut spell = Trace { overshoot_ns: vec![400_000; 64], runs_ns: vec![] };
    spell.overshoot_ns.extend(vec![10_000; 200_000]);
    let options = SleepOptions { lambda: Span::from_millis(20), ..SleepOptions::default() };
    let duration = Span::from_micros(100);
    let outcome = SimKernel::new(&spell).sleep(Method::Adaptive, &options, duration, TICK, 200_000);
    assert!(outcome.spin_share < 0.6, "{}", outcome.spin_share);
}
