//! Cost of a reading, quality of calibration, truth of the stated drift: vtare beside its peers, all in one run.

mod bounds;
mod calibration;
mod clock_bound;
mod cost;
mod flags;
mod scaled;
mod step;

use vtare_clock::{Clock, ClockOptions};

fn main() {
    let options = match Options::from_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("bench-clock: {message}");
            std::process::exit(2);
        }
    };
    if options.flags_only {
        flags::run(options.busy_seconds);
        return;
    }
    // First, as in a program that has just started.
    let start_up = calibration::start_up();
    let clock = Clock::start(&ClockOptions::default());
    let info = clock.info();
    println!(
        "clock: source {}, path {:?}, quantum {:.2} ns",
        info.source,
        info.path,
        info.quantum_ns.unwrap_or(f64::NAN)
    );
    for reason in &info.reasons {
        println!("  {reason}");
    }
    if let Some(found) = clock.calibration() {
        step::run(found.rate.ns_per_tick());
    }
    cost::run(&clock);
    flags::run(options.busy_seconds);
    calibration::run(&start_up);
    if let Some(made) = bounds::run(&clock, options.calibrations) {
        bounds::drift(&made, options.seconds);
    }
}

struct Options {
    seconds: u64,
    calibrations: usize,
    busy_seconds: u64,
    flags_only: bool,
}

impl Options {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { seconds: 60, calibrations: 10_000, busy_seconds: 60, flags_only: false };
        while let Some(name) = arguments.next() {
            if name == "--flags-only" {
                options.flags_only = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} wants a number after it"))?;
            let number = |text: &str| text.parse().map_err(|_| format!("{name} wants a whole number, found `{text}`"));
            match name.as_str() {
                "--seconds" => options.seconds = number(&value)?,
                "--busy-seconds" => options.busy_seconds = number(&value)?,
                "--calibrations" => options.calibrations = number(&value)? as usize,
                _ => {
                    return Err(format!(
                        "unknown option `{name}`: choose --seconds N, --busy-seconds N, --calibrations N, --flags-only"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// Median and half the interquartile range.
pub fn median_and_half_iqr(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let position = share * (values.len() - 1) as f64;
        let below = values[position.floor() as usize];
        below + (values[position.ceil() as usize] - below) * position.fract()
    };
    (at(0.5), (at(0.75) - at(0.25)) / 2.0)
}

/// Prints a target and whether it was reached.
pub fn target(text: &str, reached: bool) {
    bench_figures::goal(text, reached);
    println!("  {}  {text}", if reached { "reached" } else { "MISSED " });
}
