//! A thread that takes the CPU from others for known times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use vtare_sys::{SysError, clocks, sched};
use vtare_units::{Monotonic, Span, ThreadCpu};

use crate::failure::Failure;

/// Above every ordinary thread.
const PRIORITY: i32 = 40;
/// What it takes the CPU from goes before other ordinary threads, or after the thief where that has no real-time
/// priority.
const PREFERRED: i32 = -15;
const YIELDING: i32 = 19;

/// How long it runs at a time, and from one start to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    pub(super) busy: Span,
    pub(super) period: Span,
}

/// The thread; it ends when this is dropped.
pub(super) struct Thief {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Taken, SysError>>>,
}

/// What it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// CPU time as a share of the time.
    pub(super) share: f64,
    /// CPU time of a burst.
    pub(super) burst_ns: f64,
    /// By how much a burst ended late, in 9 of 10 cases at most.
    pub(super) late_ns: f64,
    /// How often a burst lost the CPU before its end, on average.
    pub(super) interruptions: f64,
}

impl Thief {
    /// Starts to take `cpu`.
    pub(super) fn start(cpu: usize, pattern: Pattern) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        Self { stop, thread: Some(std::thread::spawn(move || take(cpu, pattern, &asked))) }
    }

    /// Ends it.
    ///
    /// # Errors
    /// Where the thread could not be moved to its CPU, or not sleep.
    pub(super) fn end(mut self) -> Result<Taken, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it ends once");
        let gone = |_| Failure::Machine("the stealing thread ended without a result".to_owned());
        Ok(thread.join().map_err(gone)??)
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// The nice level of what is stolen from, so that the thief gets the CPU when it wants it.
pub(super) fn nice_of_the_victim() -> i32 {
    let privileged = std::thread::spawn(|| sched::set_class(sched::Class::Fifo(PRIORITY)).is_ok()).join();
    if privileged.unwrap_or(false) { PREFERRED } else { YIELDING }
}

fn take(cpu: usize, pattern: Pattern, stop: &AtomicBool) -> Result<Taken, SysError> {
    sched::pin_to(&[cpu])?;
    // Refused to ordinary users: what is stolen from then yields (see above).
    let _ = sched::set_class(sched::Class::Fifo(PRIORITY));
    let (from, cpu_from) = (clocks::now::<Monotonic>(), clocks::now::<ThreadCpu>());
    let switches_from = sched::thread_usage().involuntary_switches;
    let (mut start, mut late_ns) = (from, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let end = start + pattern.busy;
        let mut now = clocks::now::<Monotonic>();
        while now < end {
            now = clocks::now::<Monotonic>();
        }
        late_ns.push((now - end).as_nanos());
        start = start + pattern.period;
        clocks::sleep_until(start)?;
    }
    let used_ns = (clocks::now::<ThreadCpu>() - cpu_from).as_nanos() as f64;
    let wall_ns = (clocks::now::<Monotonic>() - from).as_nanos().max(1) as f64;
    late_ns.sort_unstable();
    let late = late_ns.get(late_ns.len() * 9 / 10).copied().unwrap_or_default();
    let switches = sched::thread_usage().involuntary_switches.saturating_sub(switches_from) as f64;
    let bursts = late_ns.len().max(1) as f64;
    Ok(Taken {
        share: used_ns / wall_ns,
        burst_ns: used_ns / bursts,
        late_ns: late as f64,
        interruptions: switches / bursts,
    })
}
