//! The cost of one reading, by batches, contenders interleaved in an order that turns from round to round.

use std::cell::RefCell;
use std::hint::black_box;

use bench_figures::figure;
use vtare_clock::{Clock, ClockOptions, ReadPath, SourceChoice};
use vtare_sys::{clocks, counter};
use vtare_units::{CounterTick, Monotonic, Wall};

use crate::clock_bound::{self, Stated};
use crate::{median_and_half_iqr, target};

const ROUNDS: usize = 301;
const READS: u32 = 20_000;

/// One batch of readings, in ns a reading by the counter.
macro_rules! contender {
    ($name:expr, $read:expr) => {
        (
            $name,
            Box::new(move |ns_per_tick: f64| -> f64 {
                let begun = counter::read_start();
                for _ in 0..READS {
                    black_box($read);
                }
                ticks(begun, counter::read_stop()) * ns_per_tick / f64::from(READS)
            }) as Box<dyn Fn(f64) -> f64>,
        )
    };
}

fn ticks(from: CounterTick, to: CounterTick) -> f64 {
    to.since(from) as f64
}

pub fn run(clock: &Clock) {
    let Some(ns_per_tick) = clock.calibration().map(|found| found.rate.ns_per_tick()) else {
        println!("cost of a reading: skipped, the counter cannot be used here ({})", clock.info().reasons.join("; "));
        return;
    };
    // Leaked on purpose: contenders want them for ever.
    let own: &'static Clock = Box::leak(Box::new(Clock::start(&ClockOptions::fast())));
    let line: &'static Clock =
        Box::leak(Box::new(Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() })));
    let fallen_back: &'static Clock =
        Box::leak(Box::new(Clock::start(&ClockOptions { source: SourceChoice::Os, ..ClockOptions::fast() })));
    let raw_quanta: &'static quanta::Clock = Box::leak(Box::new(quanta::Clock::new()));
    let _ = (fastant::Instant::now(), minstant::Instant::now());
    let mut contenders = vec![
        contender!("rdtsc, bare", counter::read()),
        contender!("vtare now()", own.now()),
        contender!("vtare now_checked()", own.now_checked()),
        contender!("vtare now_utc_interval()", own.now_utc_interval()),
        contender!("vtare now(), calibrated line", line.now()),
        contender!("vtare now_checked(), line", line.now_checked()),
        contender!("vtare now_utc_interval(), line", line.now_utc_interval()),
        contender!("vtare now(), no counter", fallen_back.now()),
        contender!("vtare now_checked(), no counter", fallen_back.now_checked()),
        contender!("quanta now()", raw_quanta.now()),
        contender!("fastant now()", fastant::Instant::now()),
        contender!("minstant now()", minstant::Instant::now()),
        contender!("lfence; rdtsc, bare", counter::read_ordered()),
        contender!("rdtscp, bare", counter::read_rdtscp()),
        contender!("vtare now_ordered()", own.now_ordered()),
        contender!("clock_gettime (vDSO)", clocks::now::<Monotonic>()),
        contender!("std Instant::now()", std::time::Instant::now()),
        contender!("clock_gettime (system call)", clocks::now_syscall()),
    ];
    let stated = Stated {
        tick: counter::read().count(),
        utc_ns: clocks::now::<Wall>().as_nanos(),
        bound_ns: 1_000_000,
        ns_per_tick,
        before: 0,
    };
    let segment = std::env::temp_dir().join(format!("vtare-{}-clockbound", std::process::id()));
    let peer = clock_bound::client(&segment, &stated);
    // It stays mapped.
    let _ = std::fs::remove_file(&segment);
    match peer {
        Ok(client) => {
            let client = RefCell::new(client);
            if let Err(error) = client.borrow_mut().now() {
                println!("clock-bound: its client refuses the segment ({error:?})");
            }
            contenders.push(contender!("clock-bound now()", client.borrow_mut().now().is_ok()));
        }
        Err(error) => println!("clock-bound: left out, {error}"),
    }
    let mut costs = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for round in 0..ROUNDS {
        for step in 0..contenders.len() {
            let at = (round * 5 + step) % contenders.len();
            costs[at].push(contenders[at].1(ns_per_tick));
        }
    }
    println!(
        "\ncost of one reading: {ROUNDS} interleaved batches of {READS}; ratios are medians of the ratios within a \
         round"
    );
    println!("  {:30} {:>9} {:>9} {:>11} {:>11}", "", "median", "half IQR", "x rdtsc", "x vDSO");
    let place = |name: &str| contenders.iter().position(|c| c.0 == name).unwrap_or(0);
    let (bare, vdso) = (place("rdtsc, bare"), place("clock_gettime (vDSO)"));
    let ratio = |a: usize, b: usize| {
        let mut ratios: Vec<f64> = costs[a].iter().zip(&costs[b]).map(|(x, y)| x / y).collect();
        median_and_half_iqr(&mut ratios).0
    };
    for (at, (name, _)) in contenders.iter().enumerate() {
        let (median, half_iqr) = median_and_half_iqr(&mut costs[at].clone());
        let of = |key: &str, value: f64, unit: &str| figure(format_args!("{name}/{key}"), value, unit);
        println!(
            "  {name:30} {:6.2} ns {:6.2} ns {:>10.2}x {:>10.2}x",
            of("median", median, "ns"),
            of("half IQR", half_iqr, "ns"),
            of("x rdtsc", ratio(at, bare), ""),
            of("x vDSO", ratio(at, vdso), "")
        );
    }
    let own_at = place("vtare now()");
    let peers = ["quanta now()", "fastant now()", "minstant now()", "std Instant::now()"].map(place);
    println!(
        "targets (source: vtare's plain read reads {}):",
        if own.path() == ReadPath::KernelPage { "the kernel's page" } else { "its line" }
    );
    target("plain read at most 1.10 x bare rdtsc", ratio(own_at, bare) <= 1.10);
    let checked = ["vtare now_checked()", "vtare now_checked(), line"].map(place);
    target(
        "checked read at most 2 x rdtsc, on the page and on the line",
        checked.iter().all(|at| ratio(*at, bare) <= 2.0),
    );
    let utc = ["vtare now_utc_interval()", "vtare now_utc_interval(), line"].map(place);
    target("UTC interval at most 3 x rdtsc, on the page and on the line", utc.iter().all(|at| ratio(*at, bare) <= 3.0));
    if let Some(peer) = contenders.iter().position(|(name, _)| *name == "clock-bound now()") {
        target("UTC interval no slower than clock-bound's", utc.iter().all(|at| ratio(*at, peer) <= 1.02));
    }
    for name in ["vtare now(), no counter", "vtare now_checked(), no counter"] {
        target(&format!("{name}: at most 1.5 x the vDSO"), ratio(place(name), vdso) <= 1.5);
    }
    target("plain read at most 0.5 x the vDSO", ratio(own_at, vdso) <= 0.5);
    // Two per cent: what the medians of one run repeat to.
    target("no slower than any peer (2 % allowed for noise)", peers.iter().all(|peer| ratio(own_at, *peer) <= 1.02));
}
