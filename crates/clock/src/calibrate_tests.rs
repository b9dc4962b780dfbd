use super::*;
use crate::sim::SimClock;

/// Rates that no machine of the tests shares: 2.0 to 4.4 GHz.
fn khz(seed: u64) -> u32 {
    2_000_003 + (seed * 1_009_127 % 2_400_000) as u32
}

/// All that real machines do at once: a lattice that is not whole, readings put off by a tick, CPUs apart, moves and
/// pauses in mid-window.
fn rough_machine(seed: u64) -> SimClock {
    let lattice = [1.0, 2.0, 24.45, 24.5, 26.0, 33.37, 100.0][seed as usize % 7];
    let mut machine = SimClock::new(khz(seed)).with_lattice(lattice).with_seed(seed);
    if seed.is_multiple_of(2) {
        machine = machine.with_deferred(0.02);
    }
    if !seed.is_multiple_of(3) {
        machine = machine.with_cores(&[0.0, 53.0, -47.0], 700 + 97 * (seed % 40));
    }
    if !seed.is_multiple_of(5) {
        machine = machine.with_pauses(300 + seed, Span::from_millis(4));
    }
    machine
}

/// How far the rate is from the true one, and the most that is stated, in ns per tick.
fn rate_error(machine: &SimClock, found: &Calibration) -> (f64, f64) {
    let truth = machine.rate().ns_per_tick();
    // The fixed-point rate itself is exact to 2e-15.
    ((found.rate.ns_per_tick() - truth).abs(), found.residual_ppm() * 1e-6 * truth + 4e-15)
}

fn drift_after_a_minute(machine: &SimClock) -> (f64, f64) {
    let calibration = calibrate(machine, &CalibrationOptions::default()).expect("a sane machine");
    machine.advance_ns(60e9);
    let sample = triple(machine, || machine.raw());
    let (low, high) = (calibration.raw_ns(sample.before), calibration.raw_ns(sample.after));
    let clock = sample.clock_ns as f64;
    let off = (low as f64 - clock).max(clock - high as f64).max(0.0);
    (off, calibration.bound_ns(Span::from_secs(60)))
}

#[test]
fn drift_over_a_minute_stays_inside_the_stated_bound() {
    for seed in 0..200 {
        let machine = SimClock::new(2_596_118).with_lattice(26.0).with_seed(seed);
        let (off, bound) = drift_after_a_minute(&machine);
        assert!(off <= bound, "seed {seed}: {off} ns off, {bound} ns stated");
    }
}

#[test]
fn drift_stays_inside_the_bound_on_a_lattice_that_is_not_whole() {
    for seed in 0..300 {
        let machine = SimClock::new(khz(seed)).with_lattice(24.45).with_deferred(0.02).with_seed(seed);
        let (off, bound) = drift_after_a_minute(&machine);
        assert!(off <= bound, "seed {seed}: {off} ns off, {bound} ns stated");
    }
}

#[test]
fn drift_stays_inside_the_bound_on_rough_machines() {
    for seed in 0..300 {
        let (off, bound) = drift_after_a_minute(&rough_machine(seed));
        assert!(off <= bound, "seed {seed}: {off} ns off, {bound} ns stated");
    }
}

#[test]
fn the_true_rate_is_always_within_the_stated_bound_and_the_multiplier_exact_or_not_claimed() {
    for window_ms in [1, 5, 30] {
        let options = CalibrationOptions { limit: Span::from_millis(window_ms), ..CalibrationOptions::default() };
        for seed in 0..210 {
            let machine = rough_machine(seed);
            let found = calibrate(&machine, &options).expect("a sane machine");
            let (off, stated) = rate_error(&machine, &found);
            assert!(off <= stated, "seed {seed}, {window_ms} ms: {off} off, {stated} stated: {found:?}");
            if let Some(exact) = found.exact {
                let truth = machine.rate();
                assert_eq!((exact.mult, exact.shift), (truth.mult, truth.shift), "seed {seed}, {window_ms} ms");
            }
        }
    }
}

#[test]
fn a_quiet_machine_with_a_lattice_gives_the_kernels_own_multiplier_within_the_limit() {
    for lattice in [24.45, 26.0, 33.37] {
        for seed in 0..100 {
            let machine = SimClock::new(2_596_118).with_lattice(lattice).with_seed(seed);
            let calibration = calibrate(&machine, &CalibrationOptions::default()).expect("a sane machine");
            assert_eq!(calibration.exact, Some(machine.rate()), "seed {seed}, lattice {lattice}: {calibration:?}");
            assert_eq!(calibration.residual_ppm(), 0.0);
            assert!((calibration.quantum_ticks - lattice).abs() < 0.01, "{}", calibration.quantum_ticks);
            assert!(calibration.elapsed < Span::from_millis(30), "{}", calibration.elapsed);
        }
    }
}

#[test]
fn a_machine_that_takes_the_cpu_away_in_mid_window_still_shows_its_multiplier() {
    // 29 ms: about the time after which these neighbouring multipliers are a whole step of the lattice apart, so that
    // they look alike again.
    for seed in 0..100 {
        let machine = SimClock::new(2_596_098).with_lattice(26.0).with_seed(seed);
        let machine = machine.with_slower_readings(10.0).with_pauses(14_000 + 100 * seed, Span::from_millis(29));
        let found = calibrate(&machine, &CalibrationOptions::default()).expect("a sane machine");
        assert_eq!(found.exact, Some(machine.rate()), "seed {seed}: {found:?}");
    }
}

#[test]
fn a_kernel_that_keeps_time_by_a_function_of_the_counter_has_no_multiplier_to_find() {
    let machine = SimClock::new(2_596_118).with_lattice(26.0);
    machine.change_clock_source("kvm-clock");
    let found = calibrate(&machine, &CalibrationOptions::default()).expect("a sane machine");
    assert_eq!(found.exact, None);
    assert!(found.residual_ppm() > 0.0);
}

#[test]
#[ignore = "seconds of simulation: make test-all"]
fn a_counter_that_stalls_is_refused() {
    struct Still(SimClock);
    impl TimeSource for Still {
        fn tick(&self) -> CounterTick {
            CounterTick::new(7)
        }
        fn tick_ordered(&self) -> CounterTick {
            CounterTick::new(7)
        }
        fn raw(&self) -> Timestamp<vtare_units::MonotonicRaw> {
            self.0.raw()
        }
        fn monotonic(&self) -> Timestamp<vtare_units::Monotonic> {
            self.0.monotonic()
        }
        fn cpu(&self) -> Option<usize> {
            self.0.cpu()
        }
        fn suspended(&self) -> Span {
            self.0.suspended()
        }
        fn clock_source(&self) -> Option<String> {
            self.0.clock_source()
        }
        fn clock_source_is(&self, name: &str) -> Option<bool> {
            self.0.clock_source_is(name)
        }
    }
    let error =
        calibrate(&Still(SimClock::new(1_000_000)), &CalibrationOptions::default()).expect_err("it does not count");
    assert!(matches!(error, CalibrationError::NotCounting { first: 7, last: 7, .. }), "{error}");
}

#[test]
fn a_record_that_the_kernel_is_writing_is_read_again_and_one_that_never_ends_is_left() {
    let tries = std::cell::Cell::new(0);
    let written_until = |last: u32| {
        tries.set(0);
        patiently(|| {
            tries.set(tries.get() + 1);
            (tries.get() > last).then_some(tries.get())
        })
    };
    assert_eq!(written_until(0), Some(1));
    assert_eq!(written_until(300), Some(301));
    assert_eq!(written_until(u32::MAX), None);
}
