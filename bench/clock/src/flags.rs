//! Whether checked readings raise flags where nothing was disrupted: beside 100 busy threads.

use std::sync::atomic::{AtomicBool, Ordering};

use bench_figures::figure;
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Random, Span, Timestamp};

use crate::target;

const BUSY: usize = 100;

/// Reads both clocks for `seconds`, at distances from nothing to 3 ms.
pub fn run(seconds: u64) {
    println!("\nflags of checked readings beside {BUSY} busy threads, {seconds} s");
    let page = Clock::start(&ClockOptions::fast());
    let line = Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() });
    let stop = AtomicBool::new(false);
    let flags = std::thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let first = [page.now_checked(), line.now_checked()];
        let until = clocks::now::<Monotonic>() + Span::from_secs(seconds as i64);
        let mut random = Random::part(1, 1);
        let mut readings = 0_u64;
        let mut longest = Span::ZERO;
        let mut last: Timestamp<Monotonic> = clocks::now();
        let begun = last;
        let mut seen = [0_u64; 2];
        while last < until {
            for _ in 0..1_000 {
                std::hint::black_box((page.now_checked(), line.now_checked()));
            }
            readings += 2_000;
            let _ = clocks::sleep_until(clocks::now() + Span::from_nanos((random.unit().powi(4) * 3e6) as i64));
            let now = clocks::now();
            longest = longest.max(now - last);
            last = now;
            for ((clock, first), seen) in [&page, &line].into_iter().zip(first).zip(&mut seen) {
                let (generation, cause) = clock.disruptions();
                let flags = generation - first.generation;
                if flags != *seen {
                    println!("  {:?}: flag {flags} {cause:?} after {}, {readings} readings", clock.path(), now - begun);
                    *seen = flags;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        println!("  {readings} readings; the thread was kept from reading for up to {longest}");
        [&page, &line]
            .into_iter()
            .zip(first)
            .map(|(clock, first)| {
                let (generation, cause) = clock.disruptions();
                let flags = generation - first.generation;
                figure(format_args!("flags, {:?}", clock.path()), flags as f64, "");
                println!("  {:?}: {flags} flags {cause:?}", clock.path());
                flags
            })
            .sum::<u64>()
    });
    let allowed = seconds / 3600;
    target("at most one flag an hour where nothing was disrupted", flags <= allowed);
}
