//! Whether calibrations keep what they state: on a quiet machine and beside busy threads, on one CPU and on all.

use std::sync::atomic::{AtomicBool, Ordering};

use bench_figures::figure;
use vtare_clock::Clock;
use vtare_clock::calibrate::{Calibration, CalibrationOptions, calibrate};
use vtare_clock::kernel_rate::KernelRate;
use vtare_clock::source::{System, TimeSource};
use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::scaled::Scaled;
use crate::{median_and_half_iqr, target};

/// A calibration and when it was made.
pub struct Made {
    found: Calibration,
    at: Timestamp<Monotonic>,
}

impl Made {
    /// By how much CLOCK_MONOTONIC_RAW lies outside the stated bound now, in ns: 0 where it is inside, or where the
    /// bracket does not show it.
    fn beyond_ns(&self, source: &impl TimeSource) -> f64 {
        let bound = self.found.bound_ns(clocks::now::<Monotonic>() - self.at);
        (departure_ns(source, &self.found) - bound).max(0.0)
    }
}

/// CLOCK_MONOTONIC_RAW minus the converted counter, in ns: 0 where the clock lies between the two readings around it.
fn departure_ns(source: &impl TimeSource, found: &Calibration) -> f64 {
    (0..20)
        .map(|_| {
            let before = source.tick();
            let clock = source.raw().as_nanos() as f64;
            let after = source.tick_ordered();
            let (low, high) = (found.raw_ns(before) as f64, found.raw_ns(after) as f64);
            (high - low, (low - clock).max(clock - high).max(0.0))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(f64::NAN, |(_, departure)| departure)
}

/// Runs `work` beside `threads` threads that never rest.
fn beside_busy_threads<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Calibrates `count` times. Pinned: on the CPU that the thread is on.
fn calibrations(source: &impl TimeSource, count: usize, pinned: bool) -> Result<Vec<Made>, String> {
    let allowed = sched::allowed_cpus().map_err(|error| error.to_string())?;
    if pinned {
        let here = sched::current_cpu().map_or(allowed[0], |cpu| cpu);
        sched::pin_to(&[here]).map_err(|error| error.to_string())?;
    }
    let made = (0..count)
        .map(|_| {
            let found = calibrate(source, &CalibrationOptions::default()).map_err(|error| error.to_string())?;
            Ok(Made { found, at: clocks::now() })
        })
        .collect();
    sched::pin_to(&allowed).map_err(|error| error.to_string())?;
    made
}

struct Row {
    exact_within: [usize; 3],
    unclaimed: usize,
    wrong: usize,
    outside: usize,
}

/// Counts what `made` states against the kernel's multiplier and clock.
fn judge(source: &impl TimeSource, name: &str, made: &[Made], truth: Option<KernelRate>) -> Row {
    let mut row = Row { exact_within: [0; 3], unclaimed: 0, wrong: 0, outside: 0 };
    let mut bound = Vec::new();
    let mut elapsed = Vec::new();
    for one in made {
        let found = &one.found;
        elapsed.push(found.elapsed.as_nanos() as f64 / 1e6);
        bound.push(found.residual_ppm());
        let is_true =
            |exact: KernelRate| truth.is_none_or(|truth| (exact.mult, exact.shift) == (truth.mult, truth.shift));
        match found.exact {
            None => row.unclaimed += 1,
            Some(exact) if is_true(exact) => {
                for (within, limit) in row.exact_within.iter_mut().zip(WITHIN) {
                    *within += usize::from(found.elapsed <= limit);
                }
            }
            Some(_) => row.wrong += 1,
        }
        let rate_outside = truth.is_some_and(|truth| {
            let rate = truth.ns_per_tick();
            // The fixed-point rate itself is exact to 2e-15 ns per tick.
            let stated = found.residual_ppm() * 1e-6 * rate + 4e-15;
            (found.rate.ns_per_tick() - rate).abs() > stated
        });
        row.outside += usize::from(rate_outside || one.beyond_ns(source) > 0.0);
    }
    let share = |count: usize| count as f64 / made.len() as f64 * 100.0;
    let mut unclaimed: Vec<f64> = bound.iter().copied().filter(|ppm| *ppm > 0.0).collect();
    let (bound, _) = median_and_half_iqr(&mut bound);
    let (time, _) = median_and_half_iqr(&mut elapsed);
    let of_unclaimed = if unclaimed.is_empty() { f64::NAN } else { median_and_half_iqr(&mut unclaimed).0 };
    let of = |key: &str, value: f64, unit: &str| figure(format_args!("calibrations, {name}/{key}"), value, unit);
    of("exact within the limit", share(row.exact_within[2]), "%");
    of("wrong", row.wrong as f64, "");
    of("outside their bound", row.outside as f64, "");
    of("bound", bound, "ppm");
    of("time", time, "ms");
    println!(
        "  {name:26} {:>7} {:>7.2}% {:>7.2}% {:>7.2}% {:>11} {:>6} {:>8} {bound:>8.3} {of_unclaimed:>11.3} {time:>7.2} \
         {:>8.2}",
        made.len(),
        share(row.exact_within[0]),
        share(row.exact_within[1]),
        share(row.exact_within[2]),
        row.unclaimed,
        row.wrong,
        row.outside,
        elapsed[(elapsed.len() - 1) * 99 / 100],
    );
    row
}

/// Time after which exactness is counted. The first window of 1 ms ends a block of triples later.
const WITHIN: [Span; 3] = [Span::from_micros(1_500), Span::from_millis(5), Span::MAX];

/// `count` calibrations in all of this machine's counter, a quarter in each row, and a tenth as many of a scaled one.
/// Gives the former; `None` where the counter cannot be calibrated.
pub fn run(clock: &Clock, count: usize) -> Option<Vec<Made>> {
    let truth = clock.info().exact_multiplier.map(|exact| KernelRate::stated(exact.mult, exact.shift));
    match truth {
        Some(truth) => {
            println!("\ncalibrations; the kernel's multiplier is {} >> {} ({} kHz)", truth.mult, truth.shift, truth.khz)
        }
        None => println!("\ncalibrations; the kernel's multiplier is not known here, so only the clock judges"),
    }
    println!(
        "  {:26} {:>7} {:>8} {:>8} {:>8} {:>11} {:>6} {:>8} {:>8} {:>11} {:>7} {:>8}",
        "", "", "exact in", "exact in", "exact in", "not", "wrong", "outside", "median", "of the not", "time", "time"
    );
    println!(
        "  {:26} {:>7} {:>8} {:>8} {:>8} {:>11} {:>6} {:>8} {:>8} {:>11} {:>7} {:>8}",
        "", "number", "1 ms", "5 ms", "limit", "claimed", "", "bound", "ppm", "claimed ppm", "ms", "p99 ms"
    );
    let (mut rows, all) = table(&System, truth, count.div_ceil(4), "")?;
    let exact_when_idle = rows[..2].iter().map(|row| row.exact_within[2]).sum::<usize>();
    if let Some(scaled) = clock.calibration().and_then(|found| Scaled::new(found.rate.ns_per_tick())) {
        rows.extend(table(&scaled, Some(scaled.rate()), count.div_ceil(40), "scaled, ")?.0);
    }
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    target("no calibration claims another multiplier", sum(|row| row.wrong) == 0);
    target("no calibration is outside its stated bound", sum(|row| row.outside) == 0);
    target(
        "at least 99 % of calibrations on an idle machine are exact within the limit",
        exact_when_idle * 100 >= count.div_ceil(4) * 2 * 99,
    );
    Some(all)
}

/// Four rows of `count` calibrations each.
fn table(
    source: &impl TimeSource,
    truth: Option<KernelRate>,
    count: usize,
    which: &str,
) -> Option<(Vec<Row>, Vec<Made>)> {
    let mut all = Vec::with_capacity(count * 4);
    let mut rows = Vec::new();
    for (name, busy, pinned) in
        [("idle, pinned", 0, true), ("idle, free", 0, false), ("2 busy, pinned", 2, true), ("2 busy, free", 2, false)]
    {
        let name = format!("{which}{name}");
        match beside_busy_threads(busy, || calibrations(source, count, pinned)) {
            Ok(made) => {
                rows.push(judge(source, &name, &made, truth));
                all.extend(made);
            }
            Err(error) => {
                println!("  {name:26} stopped: {error}");
                return None;
            }
        }
    }
    Some((rows, all))
}

/// Whether the bounds still hold until `seconds` later, for every calibration.
pub fn drift(made: &[Made], seconds: u64) {
    println!("\ndrift of all {} calibrations against CLOCK_MONOTONIC_RAW over {seconds} s", made.len());
    let begun: Timestamp<Monotonic> = clocks::now();
    let marks = 4;
    let mut outside = vec![false; made.len()];
    for mark in 1..=marks {
        let until = begun + Span::from_secs(seconds as i64) * mark / marks;
        if let Err(error) = clocks::sleep_until(until) {
            println!("  stopped: {error}");
            return;
        }
        let beyond: Vec<f64> = made.iter().map(|one| one.beyond_ns(&System)).collect();
        outside.iter_mut().zip(&beyond).for_each(|(ever, beyond)| *ever |= *beyond > 0.0);
        let worst = made.iter().map(|one| departure_ns(&System, &one.found)).fold(0.0, f64::max);
        let claimed = made.iter().filter(|one| one.found.exact.is_some());
        let worst_exact = claimed.map(|one| departure_ns(&System, &one.found)).fold(0.0, f64::max);
        println!(
            "  after {:>5.1} s: {} outside their bound, by {:.1} ns at most; greatest departure {worst:.1} ns, \
             of those called exact {worst_exact:.1} ns",
            (clocks::now::<Monotonic>() - begun).as_secs_f64(),
            beyond.iter().filter(|beyond| **beyond > 0.0).count(),
            figure(format_args!("drift/beyond at {mark} of {marks}"), beyond.iter().copied().fold(0.0, f64::max), "ns"),
        );
    }
    target("every calibration stays inside its stated bound", !outside.contains(&true));
}
