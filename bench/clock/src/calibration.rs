//! How long clocks take to start, and how exact their rates are: vtare beside its peers.

use std::time::Duration;

use bench_figures::figure;
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::clocks;
use vtare_units::{MonotonicRaw, Span, Timestamp};

use crate::target;

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

pub fn run(start_up: &StartUp) {
    println!("\nstart-up, first time in this process");
    for (name, span) in &start_up.rows {
        figure(format_args!("start-up, {name}"), span.as_nanos() as f64 / 1e6, "ms");
        println!("  {name:34} {span:>10}");
    }
    target("start-up under 3 ms with the kernel's page", start_up.rows[0].1 < Span::from_millis(3));
    target("start-up under 40 ms without it", start_up.rows[1].1 < Span::from_millis(40));

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
        println!("  {name:34} {:>+9.3} ppm", figure(format_args!("rate error, {name}"), ppm, "ppm"));
    }
}
