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
fn under_a_hundred_busy_threads_it_all_but_stops_spinning_and_is_no_later_than_the_kernel() {
    let trace = busy();
    let duration = Span::from_millis(10);
    let adaptive = sleep(&trace, Method::Adaptive, SleepOptions::default(), duration);
    let two_phase = sleep(&trace, Method::TwoPhase, SleepOptions::default(), duration);
    let kernel = sleep(&trace, Method::ClockNanosleep, SleepOptions::default(), duration);
    assert!(adaptive.held_back > SLEEPS / 2, "{} of {SLEEPS} held back", adaptive.held_back);
    assert!(adaptive.spin_share < 0.002, "{}", adaptive.spin_share);
    // The last ones, once the guard has learned.
    let settled = |outcome: &Outcome| {
        let mut tail = outcome.miss_ns[SLEEPS / 2..].to_vec();
        tail.sort_unstable();
        tail[tail.len() / 2]
    };
    assert!(settled(&adaptive) <= settled(&kernel) + 10_000, "{} {}", settled(&adaptive), settled(&kernel));
    assert!(settled(&two_phase) > 100 * settled(&adaptive), "{} {}", settled(&two_phase), settled(&adaptive));
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
