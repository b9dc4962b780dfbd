//! Methods beside each other on simulated paths that are drawn anew each time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use vtare_methods::avb::{Abacus, AbacusSettings, Case, Method, Settings, Setup};

use crate::avb_sim::{Outcome, SimRunner, ability, random};
use crate::{Arguments, quantile};

/// Paths have one link to this many, in turn.
const MOST_LINKS: usize = 4;

/// An error of more than this share of the truth counts as off.
const OFF: f64 = 0.03;

/// What one method answered on one path, and what it costs.
struct Result {
    links: usize,
    seed: u64,
    label: String,
    outcome: Outcome,
}

impl Result {
    /// Error as a share of the truth; a truth of next to nothing counts as a hundredth of the nominal value.
    fn error(&self) -> Option<f64> {
        let found = self.outcome.estimate.avb_bit_per_s?;
        Some((found - self.outcome.truth) / self.outcome.truth.max(0.01 * self.outcome.nominal))
    }

    /// Half-widths from the middle of the interval to the truth.
    fn half_widths_off(&self) -> Option<f64> {
        let [low, high] = self.outcome.estimate.interval_bit_per_s?;
        let half = (high - low) / 2.0;
        let off = (self.outcome.truth - (low + high) / 2.0).abs();
        // The ends belong to the interval.
        Some(if (low..=high).contains(&self.outcome.truth) { (off / half.max(1e-9)).min(1.0) } else { off / half })
    }

    fn half_width(&self) -> Option<f64> {
        let [low, high] = self.outcome.estimate.interval_bit_per_s?;
        Some((high - low) / 2.0 / self.outcome.truth.max(0.01 * self.outcome.nominal))
    }
}

fn once(method: &str, without: Option<Case>, links: usize, seed: u64) -> Result {
    let spec = random::draw(links, seed);
    let setup = Setup { ability: ability(&spec, random::PROBE_BYTE), seed, ..Setup::default() };
    let mut method: Box<dyn Method> = match without {
        Some(_) => Box::new(Abacus::new(AbacusSettings { without, ..AbacusSettings::default() }, setup)),
        None => Settings::named(method).and_then(|it| it.method(setup)).unwrap_or_else(|error| panic!("{error}")),
    };
    let outcome = SimRunner::new(&spec, random::warm_ns(&spec)).run(method.as_mut());
    Result { links, seed, label: random::label(&spec), outcome }
}

fn line(name: &str, method: &str, results: &[&Result]) {
    let answered: Vec<&&Result> = results.iter().filter(|it| it.outcome.estimate.avb_bit_per_s.is_some()).collect();
    let of = |f: &dyn Fn(&Result) -> Option<f64>, share: f64| {
        quantile(&mut answered.iter().filter_map(|it| f(it)).collect::<Vec<_>>(), share)
    };
    let error = |it: &Result| it.error();
    let size = |it: &Result| Some(it.error()?.abs());
    let share = |n: usize, all: usize| if all == 0 { f64::NAN } else { 100.0 * n as f64 / all as f64 };
    let values: Vec<&&&Result> = answered.iter().filter(|it| !it.outcome.estimate.at_least).collect();
    let off = values.iter().filter(|it| it.error().is_some_and(|error| error.abs() > OFF)).count();
    let intervals: Vec<f64> = values.iter().filter_map(|it| it.half_widths_off()).collect();
    let covers = intervals.iter().filter(|&&off| off <= 1.0).count();
    let beyond = intervals.iter().filter(|&&off| off > 3.0).count();
    println!(
        "{name:<8} {method:<14} {:>5} {:>5} {:>6} {:>7.2} {:>7.2} {:>7.1} {:>7.1} {:>6.1} {:>7.2} {:>8.0} {:>7.3} \
         {:>8.1}",
        results.len(),
        results.len() - answered.len(),
        answered.len() - values.len(),
        100.0 * of(&size, 0.5),
        50.0 * (of(&error, 0.75) - of(&error, 0.25)),
        share(off, values.len()),
        share(covers, intervals.len()),
        share(beyond, intervals.len()),
        100.0 * of(&|it| it.half_width(), 0.5),
        of(&|it| Some(it.outcome.estimate.probe_byte as f64), 0.5) / 1e3,
        of(&|it| Some(it.outcome.estimate.elapsed_s), 0.5),
        1e3 * of(&|it| it.outcome.estimate.window_s.map(|[from, to]| to - from), 0.5),
    );
}

fn head(arguments: &Arguments, paths: usize) {
    println!("{paths} paths from seed {}: measure the same again with --first-seed", arguments.first_seed);
    println!(
        "{:<8} {:<14} {:>5} {:>5} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>8} {:>7} {:>8}",
        "links",
        "method",
        "paths",
        "none",
        "bound",
        "err %",
        "hIQR %",
        "off>3%",
        "cover %",
        ">3hw%",
        "half %",
        "kB",
        "s",
        "win ms"
    );
}

/// One method on all paths, in the order of their seeds.
fn measure(arguments: &Arguments, paths: usize, method: &str, without: Option<Case>) -> Vec<Result> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(paths));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= paths {
                        break;
                    }
                    let result = once(method, without, 1 + number % MOST_LINKS, arguments.first_seed + number as u64);
                    results.lock().expect("no thread panics while it holds this").push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("all threads have ended");
    results.sort_by_key(|it| it.seed);
    results
}

/// The own method with each of its special cases switched off, on the same new paths.
pub(crate) fn ablate(arguments: &Arguments, paths: usize) {
    head(arguments, paths);
    line("", "as it is", &measure(arguments, paths, "abacus", None).iter().collect::<Vec<_>>());
    for case in Case::ALL {
        let results = measure(arguments, paths, "abacus", Some(case));
        line("", &format!("{case:?}"), &results.iter().collect::<Vec<_>>());
    }
}

/// Draws `paths` paths, measures with each method and prints a line for each number of links and one for all.
pub(crate) fn run(arguments: &Arguments, paths: usize) {
    head(arguments, paths);
    for method in &arguments.methods {
        let results = measure(arguments, paths, method, None);
        for links in 1..=MOST_LINKS {
            line(&format!("{links}"), method, &results.iter().filter(|it| it.links == links).collect::<Vec<_>>());
        }
        line("all", method, &results.iter().collect::<Vec<_>>());
        if arguments.trace {
            for it in &results {
                println!(
                    "{} {} err {:.2} % off {:.1} hw {:.1} % [{}] {:?}",
                    it.seed,
                    it.links,
                    100.0 * it.error().unwrap_or(f64::NAN),
                    it.half_widths_off().unwrap_or(f64::NAN),
                    100.0 * it.half_width().unwrap_or(f64::NAN),
                    it.label,
                    it.outcome.estimate
                );
            }
        }
    }
}
