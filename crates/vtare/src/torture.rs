//! `vtare timer --all-cpus` and its old name, `vtare torture clock`: every CPU reads the clock as fast as it can, and
//! every step backwards is counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::ValueEnum;
use serde::Serialize;
use vtare_clock::{Clock, ClockInfo, ClockOptions, SourceChoice};
use vtare_sys::facts::MachineFacts;
use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::answer::{Answer, Change, Shape, VerdictLevel};
use crate::context::Context;
use crate::document::AnswerDocument;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument};
use crate::output::{print, print_json, to_json};
use crate::parameters::Arguments;
use crate::quantities::positive;
use crate::sentences::torture as words;
use crate::table::{Table, time};
use crate::timer::Timer;

/// Readings between two checks of the stop flag and the kernel's clock.
const BATCH: u32 = 4_096;

/// Arguments of `vtare timer`.
#[derive(Debug, clap::Args)]
pub(crate) struct TimerArguments {
    #[command(flatten)]
    timer: Arguments<<Timer as Instrument>::Parameters>,

    /// Instead of the cost: read vtare's clock on all CPUs at once and count steps backwards (a warp test); for 10 s
    /// without --seconds; exit code 1 where there was one
    #[arg(long, conflicts_with_all = ["source", "samples", "cpu", "tail_ns", "out", "seed", "fail_if", "verbose"])]
    all_cpus: bool,

    /// With --all-cpus: the best way of reading the clock on this machine, the calibrated line, or the kernel's clock
    #[arg(long, value_enum, default_value = "auto", requires = "all_cpus")]
    path: Path,
}

/// Arguments of `vtare torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureArguments {
    /// What is tested
    #[arg(value_enum)]
    what: What,

    /// Duration in seconds
    #[arg(long, value_name = "S", value_parser = positive, default_value = "10")]
    seconds: f64,

    /// How the clock is read: the best way of this machine, the calibrated line, or the kernel's clock
    #[arg(long, value_enum, default_value = "auto")]
    path: Path,

    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The clock
    Clock,
}

/// Which way of reading the clock is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Path {
    Auto,
    Line,
    Os,
}

/// Steps backwards of one kind.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
struct Steps {
    /// Readings compared.
    readings: u64,
    /// How many were smaller than the one before.
    backward: u64,
    /// The largest step back, in ns.
    worst_ns: u64,
}

impl Steps {
    fn compare(&mut self, before: Timestamp<Monotonic>, after: Timestamp<Monotonic>) {
        self.readings += 1;
        if after < before {
            self.backward += 1;
            self.worst_ns = self.worst_ns.max((before - after).as_nanos_unsigned());
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            readings: self.readings + other.readings,
            backward: self.backward + other.backward,
            worst_ns: self.worst_ns.max(other.worst_ns),
        }
    }
}

/// What one thread saw, or all.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
struct Seen {
    /// Unordered readings of one thread, one after another.
    unordered: Steps,
    /// Ordered readings of one thread, one after another.
    ordered: Steps,
    /// Ordered readings against the greatest that any thread had published before.
    across_threads: Steps,
    /// The greatest distance from the kernel's clock, read just before and after, in ns.
    farthest_from_kernel_ns: u64,
}

pub(crate) const SCHEMA: &str = "vtare.torture/1";

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Document<'d> {
    schema: &'static str,
    answer: AnswerDocument<VerdictLevel, Change>,
    machine: &'d MachineFacts,
    clock: &'d ClockInfo,
    /// How the clock was read.
    path: Path,
    /// Threads that read it, one on each CPU.
    threads: usize,
    /// How long they read, s.
    elapsed_s: f64,
    /// Steps backwards.
    steps: &'d Seen,
    /// Whether a signal ended it early.
    interrupted: bool,
}

/// Carries out `vtare timer`.
///
/// # Errors
/// Those of the instrument, or of [`command`].
pub(crate) fn timer(arguments: &TimerArguments, context: &Context) -> Result<Exit, Failure> {
    if !arguments.all_cpus {
        return instrument::run::<Timer>(&arguments.timer, context);
    }
    let seconds = arguments.timer.parameters.seconds.unwrap_or(10.0);
    torture(seconds, arguments.path, arguments.timer.common.json, context)
}

/// Carries out `vtare torture clock`.
///
/// # Errors
/// Where the CPUs are unknown, or stdout is closed.
pub(crate) fn command(arguments: &TortureArguments, context: &Context) -> Result<Exit, Failure> {
    let What::Clock = arguments.what;
    torture(arguments.seconds, arguments.path, arguments.json, context)
}

/// Exit code 1 where a reading went backwards.
fn torture(seconds: f64, path: Path, json: bool, context: &Context) -> Result<Exit, Failure> {
    let options = match path {
        Path::Auto => ClockOptions::default(),
        Path::Line => ClockOptions { kernel_page: false, ..ClockOptions::default() },
        Path::Os => ClockOptions { source: SourceChoice::Os, ..ClockOptions::default() },
    };
    let clock = Clock::start(&options);
    let cpus = sched::allowed_cpus()?;
    let limit = Span::try_from_secs_f64(seconds)
        .ok_or_else(|| Failure::Input(format!("--seconds {} is out of range: at most 9e9", seconds)))?;
    let begun = clocks::now::<Monotonic>();
    let (seen, threads) = hammer(&clock, &cpus, begun + limit, context);
    let elapsed_s = (clocks::now::<Monotonic>() - begun).as_secs_f64();
    let info = clock.info();
    let interrupted = context.stop_requested();
    if json {
        let machine = MachineFacts::read();
        let document = Document {
            schema: SCHEMA,
            answer: answer(&seen, threads).document(),
            machine: &machine,
            clock: &info,
            path,
            threads,
            elapsed_s,
            steps: &seen,
            interrupted,
        };
        print_json(&to_json(&document))?;
    } else {
        print(&page(&seen, &info, threads, elapsed_s))?;
    }
    let backward = seen.unordered.backward + seen.ordered.backward + seen.across_threads.backward;
    Ok(match (interrupted, backward) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Measured,
        (false, _) => Exit::LimitCrossed,
    })
}

/// One thread on each CPU, until `deadline` or a request to stop.
fn hammer(clock: &Clock, cpus: &[usize], deadline: Timestamp<Monotonic>, context: &Context) -> (Seen, usize) {
    let latest = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let progress = context.progress("torturing the clock", 100);
    let begun = clocks::now::<Monotonic>();
    let seen = std::thread::scope(|scope| {
        let workers: Vec<_> = cpus
            .iter()
            .map(|cpu| {
                let (latest, done) = (&latest, &done);
                scope.spawn(move || {
                    // Where the CPU may not be chosen, the scheduler chooses: the readings count all the same.
                    let _ = sched::pin_to(&[*cpu]);
                    read_until(clock, latest, done)
                })
            })
            .collect();
        loop {
            let now = clocks::now::<Monotonic>();
            if now >= deadline || context.stop_requested() {
                break;
            }
            let share = (now - begun).as_secs_f64() / (deadline - begun).as_secs_f64();
            progress.set((share * 100.0) as u64);
            let next = deadline.min(now + Span::from_millis(100));
            if clocks::sleep_until(next).is_err() {
                break;
            }
        }
        done.store(true, Ordering::Release);
        workers.into_iter().filter_map(|worker| worker.join().ok()).fold(Seen::default(), |all, one| Seen {
            unordered: all.unordered.add(one.unordered),
            ordered: all.ordered.add(one.ordered),
            across_threads: all.across_threads.add(one.across_threads),
            farthest_from_kernel_ns: all.farthest_from_kernel_ns.max(one.farthest_from_kernel_ns),
        })
    });
    (seen, cpus.len())
}

fn read_until(clock: &Clock, latest: &AtomicU64, done: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !done.load(Ordering::Acquire) {
        let mut last = clock.now();
        for _ in 0..BATCH {
            let now = clock.now();
            seen.unordered.compare(last, now);
            last = now;
        }
        last = clock.now_ordered();
        for _ in 0..BATCH {
            let now = clock.now_ordered();
            seen.ordered.compare(last, now);
            last = now;
        }
        for _ in 0..BATCH {
            // Loaded before the clock is read: what another thread has published lies in this reading's past.
            let published = Timestamp::from_nanos(latest.load(Ordering::Acquire));
            let now = clock.now_ordered();
            seen.across_threads.compare(published, now);
            latest.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
        let before = clocks::now::<Monotonic>();
        let now = clock.now_ordered();
        let after = clocks::now::<Monotonic>();
        let outside = (before - now).max(now - after).as_nanos_unsigned();
        seen.farthest_from_kernel_ns = seen.farthest_from_kernel_ns.max(outside);
    }
    seen
}

/// Whether the clock ever went backward.
fn answer(seen: &Seen, threads: usize) -> Answer {
    let all = seen.unordered.add(seen.ordered).add(seen.across_threads);
    if all.readings == 0 {
        return Answer::none(crate::sentences::timer::none());
    }
    if all.backward == 0 {
        return Answer::new(words::never_backward(all.readings, threads));
    }
    let worst = time(Some(all.worst_ns as f64));
    let mut answer = Answer::new(words::backward(all.backward, all.readings, threads, &worst));
    answer.limit(words::outside(seen.farthest_from_kernel_ns));
    answer
}

fn page(seen: &Seen, info: &ClockInfo, threads: usize, elapsed_s: f64) -> String {
    let mut table = Table::new(&["readings", "compared", "backward", "worst step"], 1);
    for (name, steps) in [
        ("unordered, one thread", seen.unordered),
        ("ordered, one thread", seen.ordered),
        ("ordered, across threads", seen.across_threads),
    ] {
        table.row(vec![
            name.to_owned(),
            steps.readings.to_string(),
            steps.backward.to_string(),
            if steps.backward == 0 { "none".to_owned() } else { format!("{} ns", steps.worst_ns) },
        ]);
    }
    let path = to_json(&info.path);
    let path = path.as_str().unwrap_or("unknown path");
    let mut lines = vec![
        answer(seen, threads).first_line(Shape::here()).trim_end().to_owned(),
        words::head(info.source, path, threads, elapsed_s),
        table.render().trim_end().to_owned(),
        words::outside(seen.farthest_from_kernel_ns),
    ];
    for counted in &info.events {
        lines.push(words::event(to_json(&counted.event).as_str().unwrap_or("unknown"), counted.count));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_counted_with_its_size_and_a_standstill_is_none() {
        let at = Timestamp::from_nanos;
        let mut steps = Steps::default();
        for (before, after) in [(10, 10), (10, 12), (12, 9), (9, 8)] {
            steps.compare(at(before), at(after));
        }
        assert_eq!((steps.readings, steps.backward, steps.worst_ns), (4, 2, 3));
        let sum = steps.add(Steps { readings: 1, backward: 1, worst_ns: 7 });
        assert_eq!((sum.readings, sum.backward, sum.worst_ns), (5, 3, 7));
    }
}
