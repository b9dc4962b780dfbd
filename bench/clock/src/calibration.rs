//! How fast and how exact counters are calibrated: vtare's bounds, the kernel's page, and the peers' ways.

use std::time::Duration;

use vtare_clock::calibrate::{CalibrationOptions, calibrate};
use vtare_clock::source::System;
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::clocks;
use vtare_units::{MonotonicRaw, Span, Timestamp};

use crate::{median_and_half_iqr, target};

/// What starting each clock took in this process, the first time.
pub struct StartUp {
    rows: Vec<(&'static str, Span)>,
}

fn took<T>(work: impl FnOnce() -> T) -> Span {
    let begun: Timestamp<MonotonicRaw> = clocks::now();
    std::hint::black_box(work());
    clocks::now::<MonotonicRaw>() - begun
}

pub fn start_up() -> StartUp {
    StartUp {
        rows: vec![
            ("vtare, kernel's page", took(|| Clock::start(&ClockOptions::fast()))),
            (
                "vtare, calibrated line",
                took(|| Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() })),
            ),
            ("quanta", took(quanta::Clock::new)),
            // These two calibrate before main; what is left is the first reading.
            ("fastant (after its constructor)", took(fastant::Instant::now)),
            ("minstant (after its constructor)", took(minstant::Instant::now)),
        ],
    }
}

/// A peer's rate error in ppm: its own measure of a stretch of CLOCK_MONOTONIC_RAW, both ends bracketed.
fn peer_error_ppm(stretch: Duration, elapsed: impl Fn() -> u64) -> f64 {
    let both = || {
        // The tightest of some brackets.
        (0..200)
            .map(|_| {
                let before = clocks::now::<MonotonicRaw>().as_nanos();
                let own = elapsed();
                let after = clocks::now::<MonotonicRaw>().as_nanos();
                (after - before, u64::midpoint(before, after), own)
            })
            .min()
            .unwrap_or((0, 0, 0))
    };
    let (_, raw_from, own_from) = both();
    let until = raw_from + stretch.as_nanos() as u64;
    while clocks::now::<MonotonicRaw>().as_nanos() < until {
        std::hint::spin_loop();
    }
    let (_, raw_to, own_to) = both();
    ((own_to - own_from) as f64 / (raw_to - raw_from) as f64 - 1.0) * 1e6
}

pub fn run(clock: &Clock, start_up: &StartUp, calibrations: usize) {
    println!("\nstart-up, first time in this process");
    for (name, span) in &start_up.rows {
        println!("  {name:34} {span:>10}");
    }
    let truth = clock.info().exact_multiplier;
    println!("\ncalibration by hard bounds, windows of 1 ms, {calibrations} times");
    // One window and no second one: the calibration as it comes.
    let one_window = CalibrationOptions { limit: Span::from_millis(1), ..CalibrationOptions::default() };
    let mut exact = 0;
    let mut outside = 0;
    let mut wrong = 0;
    let mut elapsed = Vec::new();
    let mut bound = Vec::new();
    for _ in 0..calibrations {
        let Ok(found) = calibrate(&System, &one_window) else {
            println!("  refused: {}", clock.info().reasons.join("; "));
            return;
        };
        elapsed.push(found.elapsed.as_nanos() as f64 / 1e6);
        bound.push(found.bounds.half_width_ppm());
        if let Some(truth) = truth {
            let rate = f64::from(truth.mult) / 2_f64.powi(truth.shift.cast_signed());
            let is_exact = found.exact.is_some_and(|e| e.mult == truth.mult && e.shift == truth.shift);
            exact += usize::from(is_exact);
            wrong += usize::from(found.exact.is_some() && !is_exact);
            let stated = found.residual_ppm() * 1e-6 * rate + rate * 1e-12;
            outside += usize::from((found.rate.ns_per_tick() - rate).abs() > stated);
        }
    }
    let (median, half_iqr) = median_and_half_iqr(&mut elapsed);
    let longest = elapsed.last().copied().unwrap_or(f64::NAN);
    println!(
        "  time: median {median:.2} ms, half IQR {half_iqr:.2} ms, max {longest:.2} ms (longer where the machine took the CPU away)"
    );
    let (median, _) = median_and_half_iqr(&mut bound);
    println!("  hard bound on the rate where no multiplier was singled out: median {median:.3} ppm");
    match truth {
        Some(truth) => {
            println!(
                "  kernel's multiplier {} >> {} ({} kHz): found {exact} times, another one {wrong} times, outside the stated bound {outside} times",
                truth.mult, truth.shift, truth.khz
            );
            target("exact multiplier in at least 99 % of 1 ms calibrations", exact * 100 >= calibrations * 99);
            target("none outside its stated bound", outside == 0);
        }
        None => println!("  the kernel's multiplier is not known here, so exactness cannot be judged"),
    }
    let fast = start_up.rows[0].1.max(start_up.rows[1].1);
    target("start-up under 3 ms", fast < Span::from_millis(3));

    println!("\nrate error over 1 s against CLOCK_MONOTONIC_RAW, one start each");
    let own = Clock::start(&ClockOptions::fast());
    let quanta_clock = quanta::Clock::new();
    let fastant_from = fastant::Instant::now();
    let minstant_from = minstant::Instant::now();
    let stretch = Duration::from_secs(1);
    let quanta_from = quanta_clock.now();
    let rows: [(&str, f64); 4] = [
        ("vtare (CLOCK_MONOTONIC)", peer_error_ppm(stretch, || own.now_ordered().as_nanos())),
        ("quanta", peer_error_ppm(stretch, || (quanta_clock.now() - quanta_from).as_nanos() as u64)),
        ("fastant", peer_error_ppm(stretch, || fastant_from.elapsed().as_nanos() as u64)),
        ("minstant", peer_error_ppm(stretch, || minstant_from.elapsed().as_nanos() as u64)),
    ];
    for (name, ppm) in rows {
        println!("  {name:34} {ppm:>+9.3} ppm");
    }
}
