//! Whether the bound stated at calibration holds over a minute.

use vtare_clock::Clock;
use vtare_clock::calibrate::{Calibration, CalibrationOptions, calibrate};
use vtare_clock::source::System;
use vtare_sys::{clocks, counter};
use vtare_units::{MonotonicRaw, Span};

use crate::target;

/// CLOCK_MONOTONIC_RAW minus the converted counter, in ns: 0 where the clock lies between the two readings around it.
fn departure_ns(found: &Calibration) -> f64 {
    (0..50)
        .map(|_| {
            let before = counter::read();
            let clock = clocks::now::<MonotonicRaw>().as_nanos() as f64;
            let after = counter::read_ordered();
            let (low, high) = (found.raw_ns(before) as f64, found.raw_ns(after) as f64);
            (high - low, (low - clock).max(clock - high).max(0.0))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(f64::NAN, |(_, departure)| departure)
}

pub fn run(clock: &Clock, seconds: u64) {
    println!("\ndrift of a 1 ms calibration against CLOCK_MONOTONIC_RAW over {seconds} s");
    let found = match calibrate(&System, &CalibrationOptions::default()) {
        Ok(found) => found,
        Err(error) => {
            println!("  skipped: {error}");
            return;
        }
    };
    let begun = clock.now();
    let mut inside = true;
    let mut worst: f64 = 0.0;
    let marks = 12;
    for mark in 1..=marks {
        let until = begun + Span::from_secs(seconds as i64) * mark / marks;
        if let Err(error) = clocks::sleep_until(until) {
            println!("  stopped: {error}");
            return;
        }
        let departure = departure_ns(&found);
        let bound = found.bound_ns(clock.now() - begun);
        worst = worst.max(departure);
        inside &= departure <= bound;
        if mark % 3 == 0 {
            println!(
                "  after {:>5.1} s: {departure:6.1} ns off, at most {bound:.1} ns stated",
                (clock.now() - begun).as_secs_f64()
            );
        }
    }
    println!("  residual {:.4} ppm, worst departure {worst:.1} ns", found.residual_ppm());
    target("drift stays inside the stated bound", inside);
}
