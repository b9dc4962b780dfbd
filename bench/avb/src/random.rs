//! Methods beside each other on simulated paths that are drawn anew each time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench_figures::figure;
use vtare_methods::avb::{Abacus, AbacusSettings, Budget, Case, Method, Settings, Setup};

use crate::avb_sim::random::{self, Family};
use crate::avb_sim::{Outcome, SimRunner, ability};
use crate::outside::{Outside, PREFIX};
use crate::record::{Files, Recorder};
use crate::{Arguments, MORE, OWN, more, quantile};

/// An error of more than this share of the truth counts as off.
const OFF: f64 = 0.03;

/// No method gets more time than this, ns: `kite2` would go down to packets that take hours.
const MOST_NS: u64 = 60_000_000_000;

/// True values are recorded for at least this, ns.
const LEAST_TRUTH_NS: u64 = 1_000_000_000;

/// Wanted of the own method for every number of links: intervals that hold, those off by more than three half-widths,
/// and estimates that are off, all in %.
const GOALS: [f64; 3] = [94.0, 0.5, 12.0];

/// Paths on which the limit of what is missed is measured.
const LIMIT_PATHS: usize = 400;

/// What one method answered on one path, and what it costs.
struct Result {
    links: usize,
    seed: u64,
    label: String,
    /// A token bucket of the path is deep.
    deep: bool,
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

fn once(arguments: &Arguments, method: &str, without: Option<Case>, number: usize, files: Option<&Files>) -> Result {
    let (family, seed) = (arguments.family, arguments.first_seed + number as u64);
    let links = 1 + number % family.most_links();
    let spec = family.draw(links, seed);
    let budget = Budget { most_ns: Some(MOST_NS), ..Budget::default() };
    let setup = Setup { ability: ability(&spec, random::PROBE_BYTE), budget, seed };
    let chosen: Box<dyn Method> = match without {
        _ if method == MORE => Box::new(Abacus::new(more(), setup)),
        Some(_) => Box::new(Abacus::new(AbacusSettings { without, ..AbacusSettings::default() }, setup)),
        None => match method.strip_prefix(PREFIX) {
            Some(words) => Box::new(Outside::start(words, setup).unwrap_or_else(|error| panic!("{error}"))),
            None => Settings::named(method).and_then(|it| it.method(setup)).unwrap_or_else(|error| panic!("{error}")),
        },
    };
    let mut recorder = Recorder::new(chosen, files.is_some());
    let (warm_ns, label) = (random::warm_ns(&spec), random::label(&spec));
    let mut runner = SimRunner::new(&spec, warm_ns);
    let outcome = runner.run(&mut recorder);
    if let Some(files) = files {
        let to_ns = runner.now().as_nanos().max(warm_ns + LEAST_TRUTH_NS);
        let first = arguments.methods.first().is_some_and(|first| first == method);
        let path = if first { files.path(&spec, &label, warm_ns, to_ns) } else { Ok(()) };
        path.and_then(|()| files.packets(seed, method, &recorder)).unwrap_or_else(|error| panic!("--record: {error}"));
    }
    Result { links: spec.path.hops.len(), seed, label, deep: random::is_deep(&spec), outcome }
}

/// Shares of intervals that hold, of those off by more than three half-widths, and of estimates that are off, %.
fn shares(results: &[&Result]) -> [f64; 3] {
    let values: Vec<&&Result> = results
        .iter()
        .filter(|it| it.outcome.estimate.avb_bit_per_s.is_some() && !it.outcome.estimate.at_least)
        .collect();
    let share = |n: usize, all: usize| if all == 0 { f64::NAN } else { 100.0 * n as f64 / all as f64 };
    let off = values.iter().filter(|it| it.error().is_some_and(|error| error.abs() > OFF)).count();
    let intervals: Vec<f64> = values.iter().filter_map(|it| it.half_widths_off()).collect();
    let of = |wanted: &dyn Fn(f64) -> bool| intervals.iter().filter(|&&off| wanted(off)).count();
    [
        share(of(&|off| off <= 1.0), intervals.len()),
        share(of(&|off| off > 3.0), intervals.len()),
        share(off, values.len()),
    ]
}

/// What of the goals was missed, and what limits it as measured on the same paths: of those with one link, and with
/// eight times the bytes and five times the time.
fn verdict(arguments: &Arguments, results: &[Result]) {
    let links = |links: usize| results.iter().filter(|it| it.links == links).collect::<Vec<_>>();
    let all = shares(&results.iter().collect::<Vec<_>>());
    let mut words: Vec<String> = (1..=arguments.family.most_links())
        .map(|n| (n, shares(&links(n))[0]))
        .filter(|it| it.1 < GOALS[0])
        .map(|(n, cover)| format!("intervals over {n} links hold in {cover:.1} %, expected {:.0}", GOALS[0]))
        .collect();
    if all[1] > GOALS[1] {
        words.push(format!("{:.1} % are off by more than three half-widths, expected {}", all[1], GOALS[1]));
    }
    if all[2] > GOALS[2] {
        words.push(format!("{:.1} % of the estimates are off by more than 3 %, expected {:.0}", all[2], GOALS[2]));
    }
    if words.is_empty() {
        println!("abacus: goals met");
        return;
    }
    println!("abacus: MISSED: {}", words.join("; "));
    let some = results.len().min(LIMIT_PATHS);
    let more = measure(arguments, some, MORE, None, None);
    let (one, more) = (shares(&links(1)), shares(&more.iter().collect::<Vec<_>>()));
    println!(
        "  limits on the same paths: over one link {:.1} % of the estimates are off and {:.1} % of the intervals hold; \
         with eight times the bytes and five times the time ({some} paths) {:.1} % are off, {:.1} % hold, and {:.1} % \
         are off by more than three half-widths",
        one[2], one[0], more[2], more[0], more[1]
    );
}

fn line(name: &str, method: &str, results: &[&Result]) {
    let answered: Vec<&&Result> = results.iter().filter(|it| it.outcome.estimate.avb_bit_per_s.is_some()).collect();
    let of = |f: &dyn Fn(&Result) -> Option<f64>, share: f64| {
        quantile(&mut answered.iter().filter_map(|it| f(it)).collect::<Vec<_>>(), share)
    };
    let error = |it: &Result| it.error();
    let size = |it: &Result| Some(it.error()?.abs());
    let bounds = answered.iter().filter(|it| it.outcome.estimate.at_least).count();
    let [cover, beyond, off] = shares(results);
    let record = |key: &str, value: f64, unit: &str| {
        let links = if name.is_empty() { "all" } else { name };
        figure(format_args!("random paths, links {links}/{method}/{key}"), value, unit)
    };
    println!(
        "{name:<5} {method:<19} {:>5} {:>5} {:>6} {:>7.2} {:>7.2} {:>7.1} {:>7.1} {:>6.1} {:>7.2} {:>8.0} {:>7.3} \
         {:>8.1}",
        results.len(),
        results.len() - answered.len(),
        bounds,
        record("error", 100.0 * of(&size, 0.5), "%"),
        50.0 * (of(&error, 0.75) - of(&error, 0.25)),
        record("off by more than 3 %", off, "%"),
        record("intervals that hold", cover, "%"),
        record("beyond three half-widths", beyond, "%"),
        record("half-width", 100.0 * of(&|it| it.half_width(), 0.5), "%"),
        record("probes", of(&|it| Some(it.outcome.estimate.probe_byte as f64), 0.5) / 1e3, "kB"),
        record("time", of(&|it| Some(it.outcome.estimate.elapsed_s), 0.5), "s"),
        1e3 * of(&|it| it.outcome.estimate.window_s.map(|[from, to]| to - from), 0.5),
    );
}

fn head(arguments: &Arguments, paths: usize) {
    println!("{paths} paths from seed {}: measure the same again with --first-seed", arguments.first_seed);
    println!(
        "{:<5} {:<19} {:>5} {:>5} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>8} {:>7} {:>8}",
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
fn measure(
    arguments: &Arguments,
    paths: usize,
    method: &str,
    without: Option<Case>,
    files: Option<&Files>,
) -> Vec<Result> {
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
                    let result = once(arguments, method, without, number, files);
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
    line("", "as it is", &measure(arguments, paths, "abacus", None, None).iter().collect::<Vec<_>>());
    for case in Case::ALL {
        let results = measure(arguments, paths, "abacus", Some(case), None);
        line("", &format!("{case:?}"), &results.iter().collect::<Vec<_>>());
    }
}

/// Draws `paths` paths, measures with each method and prints a line for each number of links and one for all.
pub(crate) fn run(arguments: &Arguments, paths: usize) {
    let files = arguments.record.as_deref().map(Files::create).transpose();
    let files = files.unwrap_or_else(|error| panic!("--record: {error}"));
    head(arguments, paths);
    for method in &arguments.methods {
        let results = measure(arguments, paths, method, None, files.as_ref());
        for links in 1..=arguments.family.most_links() {
            line(&format!("{links}"), method, &results.iter().filter(|it| it.links == links).collect::<Vec<_>>());
        }
        if arguments.family == Family::Shaped {
            line("deep", method, &results.iter().filter(|it| it.deep).collect::<Vec<_>>());
        }
        line("all", method, &results.iter().collect::<Vec<_>>());
        if method == OWN {
            verdict(arguments, &results);
        }
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
