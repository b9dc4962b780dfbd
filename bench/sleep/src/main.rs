//! Sleeps beside each other: miss and CPU time by method, length and load, all in one run.

mod cell;
mod condition;
mod cyclictest;
mod record;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;

use vtare_clock::{Clock, ClockOptions};
use vtare_units::Span;

use crate::cell::{Cell, Contender};
use crate::condition::Condition;

const TARGETS: [Span; 4] = [Span::from_micros(10), Span::from_micros(100), Span::from_millis(1), Span::from_millis(10)];

fn main() {
    let options = match Options::from_arguments(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("bench-sleep: {message}");
            std::process::exit(2);
        }
    };
    let clock = Arc::new(Clock::start(&ClockOptions::default()));
    println!("clock: {} ({:?}); {:.1} s a cell", clock.info().source, clock.path(), options.seconds.as_secs_f64());
    if let Some(directory) = &options.record {
        if let Err(message) = record::record(&clock, &options.conditions, options.threads, directory) {
            eprintln!("bench-sleep: {message}");
            std::process::exit(1);
        }
        return;
    }
    let mut cells: Vec<Cell> = Vec::new();
    for condition in options.conditions {
        let load = match condition.start(options.threads) {
            Ok(load) => load,
            Err(reason) => {
                println!("\n{condition:?}: skipped, {reason}");
                continue;
            }
        };
        println!("\n{condition:?}: {}", condition.describe(options.threads));
        println!(
            "  {:22} {:>8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>8} {:>11}",
            "method", "target", "of asked", "median", "half IQR", "p99", "p99.9", "> 1 us", "> 100 us", "CPU a s"
        );
        for target in options.targets.iter().copied() {
            let measured = cell::measure(&clock, &Contender::all(condition), condition, target, options.seconds);
            for cell in measured {
                cell.print();
                cells.push(cell);
            }
            cyclictest::print(target, options.seconds);
        }
        drop(load);
    }
    verdict::print(&cells);
}

struct Options {
    seconds: Span,
    conditions: Vec<Condition>,
    targets: Vec<Span>,
    /// Busy threads of the condition cpu.
    threads: u32,
    /// Record traces into this directory instead of measuring.
    record: Option<PathBuf>,
}

impl Options {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seconds: Span::from_secs(4),
            conditions: Condition::ALL.to_vec(),
            targets: TARGETS.to_vec(),
            threads: 100,
            record: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value after it"))?;
            match name.as_str() {
                "--seconds" => {
                    let seconds =
                        value.parse().ok().and_then(Span::try_from_secs_f64).filter(|span| *span > Span::ZERO);
                    options.seconds =
                        seconds.ok_or_else(|| format!("--seconds wants a number above 0, found `{value}`"))?;
                }
                "--conditions" => {
                    options.conditions = value.split(',').map(Condition::named).collect::<Result<_, _>>()?
                }
                "--targets-us" => {
                    let micros = |text: &str| text.parse().ok().filter(|us| *us > 0).map(Span::from_micros);
                    let targets = value.split(',').map(micros).collect::<Option<Vec<Span>>>();
                    options.targets =
                        targets.ok_or_else(|| format!("--targets-us wants whole numbers above 0, found `{value}`"))?;
                }
                "--threads" => {
                    let threads = value.parse().map_err(|_| format!("--threads wants a whole number, found `{value}`"));
                    options.threads = threads?;
                }
                "--record" => options.record = Some(PathBuf::from(value)),
                _ => {
                    return Err(format!(
                        "unknown option `{name}`: choose --seconds N, --conditions idle,cpu,io, --targets-us N,N, \
                         --threads N or --record DIR"
                    ));
                }
            }
        }
        Ok(options)
    }
}
