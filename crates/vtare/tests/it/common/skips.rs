//! Tests that skip because this machine spoiled all runs: only for a disturbance that was measured, and counted.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use vtare_sys::clocks;
use vtare_units::{Monotonic, Timestamp};

/// Names the file to which each such skip appends a line (`tools/again` sets it, prints the lines and bounds their
/// number).
const FILE: &str = "VTARE_SPOILED_FILE";
/// The watch reads the clock this often.
const LOOK: Duration = Duration::from_millis(1);

/// Reports that a test ends here because the machine spoiled it, and counts it.
pub(crate) fn spoiled(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {why}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    // One call, so that lines of several processes do not mix.
    let written = file.and_then(|mut file| file.write_all(format!("{name}: {why}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot count a skip in {}: {error}", path.display()));
}

/// What disturbed this machine while something ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disturbance {
    /// The longest time between two readings of a thread that reads the clock each millisecond, ns.
    pub(crate) still_ns: u64,
    /// Time that the hypervisor gave to others, in ticks of 10 ms.
    pub(crate) stolen_ticks: u64,
    /// Packets that the kernel dropped because a CPU's queue of arrivals was full.
    pub(crate) queue_drops: u64,
}

impl Disturbance {
    /// Whether programs could be so late for it. Another thread, on another CPU, stalled at other times: a
    /// twentieth of it is enough.
    pub(crate) fn explains(&self, late_ns: u64) -> bool {
        self.still_ns >= late_ns / 20 || self.stolen_ticks > 0
    }
}

/// Looks on while something runs.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    still_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    before: (u64, u64),
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (stop, still_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, longest) = (Arc::clone(&stop), Arc::clone(&still_ns));
        let thread = std::thread::spawn(move || {
            let mut last: Timestamp<Monotonic> = clocks::now();
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK);
                let now = clocks::now();
                let late = (now - last).as_nanos_unsigned().saturating_sub(LOOK.as_nanos() as u64);
                longest.fetch_max(late, Ordering::Relaxed);
                last = now;
            }
        });
        Self { stop, still_ns, thread: Some(thread), before: counted() }
    }

    /// What there was since the start.
    pub(crate) fn end(mut self) -> Disturbance {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(|thread| {
            thread.thread().unpark();
            thread.join()
        });
        assert!(joined.is_some_and(|joined| joined.is_ok()), "the watch does not fail");
        let (stolen, dropped) = counted();
        Disturbance {
            still_ns: self.still_ns.load(Ordering::Relaxed),
            stolen_ticks: stolen.saturating_sub(self.before.0),
            queue_drops: dropped.saturating_sub(self.before.1),
        }
    }
}

/// Ticks stolen, and packets dropped at a CPU's queue, since boot; 0 where the kernel does not report them: then
/// nothing is explained by them.
fn counted() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let softnet = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    (stolen(&stat), queue_drops(&softnet))
}

/// The eighth number of the first line of `/proc/stat`.
pub(crate) fn stolen(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace().nth(8).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The second numbers of the lines of `/proc/net/softnet_stat`, one for each CPU.
pub(crate) fn queue_drops(softnet: &str) -> u64 {
    let second = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(second).sum()
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// As it should be.
    Good,
    /// Something was lost or late, and what was measured on the machine explains it.
    Explained(String),
    /// The same, and nothing explains it.
    Unexplained(String),
}

/// The first good one of `runs` runs, each judged with the disturbance that was measured beside it. `None`, reported
/// and counted, where the machine spoiled all.
///
/// # Panics
/// As [`attempted`].
#[track_caller]
pub(crate) fn first_good<T>(
    runs: u32,
    run: impl FnMut() -> T,
    judge: impl Fn(&T, &Disturbance) -> Judged,
) -> Option<T> {
    attempted(runs, run, judge).map_err(|why| spoiled(&why)).ok()
}

/// As [`first_good`], with what spoiled all runs, in words.
///
/// # Panics
/// Where nothing explains most of them: what always loses packets is a fault and no disturbance.
#[track_caller]
pub(crate) fn attempted<T>(
    runs: u32,
    mut run: impl FnMut() -> T,
    judge: impl Fn(&T, &Disturbance) -> Judged,
) -> Result<T, String> {
    let (mut explained, mut unexplained) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let watch = Watch::start();
        let found = run();
        let disturbance = watch.end();
        match judge(&found, &disturbance) {
            Judged::Good => return Ok(found),
            Judged::Explained(why) => explained.push(why),
            Judged::Unexplained(why) => unexplained.push(format!("{why}; {disturbance:?}")),
        }
    }
    let count = unexplained.len();
    assert!(
        count <= explained.len(),
        "none of {runs} runs was good, and nothing that was measured on this machine explains {count}: {unexplained:#?}"
    );
    Err(format!("this machine spoiled each of {runs} runs; the last: {}", explained.pop().unwrap_or_default()))
}
