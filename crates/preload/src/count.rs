//! Counting for `--report`: atomic additions to a file that all processes of a run have mapped.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use libc::{clockid_t, timespec, timeval};
use vtare_clock::sleep::Wake;
use vtare_clock::{Clock, ReadPath};
use vtare_sys::counter;
use vtare_units::{CounterTick, Span};

use crate::policy::ClockMode;
use crate::real::{ClockGettime, Gettimeofday, Target, TimespecGet};
use crate::record::{BYTES, Field, Function, MAGIC, TIMED_EVERY, WORDS, Whole, bucket, field, whole};
use crate::threads::PerThread;

/// The mapped file.
pub(crate) struct Report {
    words: &'static [AtomicU64; WORDS],
    clock: &'static Clock,
    /// What timing nothing shows, in ticks.
    timing_ticks: i64,
}

static REPORT: OnceLock<Report> = OnceLock::new();
/// Not 0 while the library itself may read the clock in this thread, by the hook: such readings are not the program's.
/// There is no such word where the library's clock does not ask the kernel.
static INSIDE: PerThread = PerThread::new();

/// The report, where one was asked for.
#[inline]
pub(crate) fn report() -> Option<&'static Report> {
    REPORT.get()
}

/// Maps the file at `path` and begins to count. False where there is no such file, or it is not a report's.
pub(crate) fn start(path: &str, clock: &'static Clock, mode: ClockMode) -> bool {
    let Some(words) = File::options().read(true).write(true).open(path).ok().and_then(|file| map(&file)) else {
        return false;
    };
    if words[whole(Whole::Magic)].load(Ordering::Relaxed) != MAGIC {
        return false;
    }
    // Elsewhere it asks the kernel only in the rare moment in which the kernel writes its page: not worth a mark.
    if clock.path() == ReadPath::Vdso && !INSIDE.create(None) {
        return false;
    }
    let nothing = || {
        let begun = counter::read_start();
        counter::read_stop().since(begun)
    };
    let timing_ticks = (0..64).map(|_| nothing()).min().unwrap_or(0);
    let report = REPORT.get_or_init(|| Report { words, clock, timing_ticks });
    report.add(whole(Whole::Processes), 1);
    let mode = match mode {
        ClockMode::Kernel => Whole::KernelClock,
        ClockMode::Ordered => Whole::OrderedClock,
        ClockMode::Unordered => Whole::UnorderedClock,
    };
    report.add(whole(mode), 1);
    true
}

fn map(file: &File) -> Option<&'static [AtomicU64; WORDS]> {
    if file.metadata().ok()?.len() != BYTES as u64 {
        return None;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the file is open and as long as the mapping; the address is the kernel's choice.
    let at = unsafe { libc::mmap(null_mut(), BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is that long, aligned to a page, never removed, and only ever touched by atomic operations.
    Some(unsafe { &*at.cast::<[AtomicU64; WORDS]>() })
}

impl Report {
    fn add(&self, place: usize, more: u64) {
        self.words[place].fetch_add(more, Ordering::Relaxed);
    }

    /// Counts a sleep left to the kernel for want of a place to learn in.
    pub(crate) fn no_place(&self) {
        self.add(whole(Whole::NoPlace), 1);
    }

    /// Counts a sleep: how long the call took, how late it ended (`None`: it had no deadline that is known), and how.
    pub(crate) fn slept(&self, function: Function, spent: Span, lateness: Option<Span>, end: SleepCount) {
        self.add(field(function, Field::Calls), 1);
        self.add(field(function, Field::Timed), 1);
        self.add(field(function, Field::TimedNs), positive(spent));
        match end {
            SleepCount::Interrupted => self.add(field(function, Field::Interrupted), 1),
            SleepCount::Passed => self.add(field(function, Field::Passed), 1),
            SleepCount::Woken(wake) => {
                self.add(field(function, Field::SpinNs), positive(wake.spin));
                self.add(field(function, Field::Disturbed), wake.disturbed.into());
            }
        }
        if let Some(lateness) = lateness.map(positive) {
            self.add(bucket(function, lateness), 1);
            self.words[field(function, Field::WorstNs)].fetch_max(lateness, Ordering::Relaxed);
        }
    }

    /// Counts a call of a clock function; answers when it began where it is one of those that are timed.
    fn begun(&self, function: Function) -> Option<CounterTick> {
        let calls = self.words[field(function, Field::Calls)].fetch_add(1, Ordering::Relaxed);
        (calls.is_multiple_of(TIMED_EVERY) && self.clock.counter_usable()).then(counter::read_start)
    }

    fn ended(&self, function: Function, begun: Option<CounterTick>) {
        if let Some(begun) = begun {
            let spent = self.clock.span_of(counter::read_stop().since(begun) - self.timing_ticks);
            self.add(field(function, Field::Timed), 1);
            self.add(field(function, Field::TimedNs), positive(spent));
        }
    }
}

fn positive(span: Span) -> u64 {
    span.max(Span::ZERO).as_nanos_unsigned()
}

/// How a counted sleep ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SleepCount {
    /// A signal ended it.
    Interrupted,
    /// It was the kernel's.
    Passed,
    /// It was the library's.
    Woken(Wake),
}

/// At the start of a sleep: forgets a mark that a `longjmp` out of an earlier one left.
#[inline]
pub(crate) fn forget() {
    if INSIDE.get() != 0 {
        INSIDE.set(0);
    }
}

/// Does the library's own `work`: clock readings in it are not the program's.
#[inline]
pub(crate) fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    if report().is_none() {
        return work();
    }
    let before = INSIDE.get();
    INSIDE.set(1);
    let answer = work();
    INSIDE.set(before);
    answer
}

/// Calls `work`, which is `function`, and counts it.
#[inline]
fn counted<R>(function: Function, work: impl FnOnce() -> R) -> R {
    let Some(report) = report().filter(|_| INSIDE.get() == 0) else { return work() };
    let begun = report.begun(function);
    let answer = work();
    report.ended(function, begun);
    answer
}

macro_rules! behind {
    ($($name:ident: $shape:ty = $first:path;)*) => {$(
        /// What the counting function of this name calls.
        pub(crate) static $name: Target<$shape> = {
            const FIRST: $shape = $first;
            // SAFETY: the constant has the type stated.
            unsafe { Target::new(FIRST as *mut c_void) }
        };
    )*};
}

behind! {
    CLOCK_GETTIME: ClockGettime = crate::early::clock_gettime;
    GETTIMEOFDAY: Gettimeofday = crate::early::gettimeofday;
    TIMESPEC_GET: TimespecGet = crate::early::timespec_get;
}

pub(crate) unsafe extern "C-unwind" fn clock_gettime(id: clockid_t, at: *mut timespec) -> c_int {
    // SAFETY: the arguments are the caller's, who keeps to clock_gettime(2).
    counted(Function::ClockGettime, || unsafe { CLOCK_GETTIME.get()(id, at) })
}

pub(crate) unsafe extern "C-unwind" fn gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the arguments are the caller's, who keeps to gettimeofday(2).
    counted(Function::Gettimeofday, || unsafe { GETTIMEOFDAY.get()(at, zone) })
}

pub(crate) unsafe extern "C-unwind" fn timespec_get(at: *mut timespec, base: c_int) -> c_int {
    // SAFETY: the arguments are the caller's, who keeps to C11 7.27.2.5.
    counted(Function::TimespecGet, || unsafe { TIMESPEC_GET.get()(at, base) })
}
