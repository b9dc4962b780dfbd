//! Sleeping until a deadline with the C library's own call in the middle.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

use libc::{CLOCK_MONOTONIC, TIMER_ABSTIME, clockid_t, timespec};
use vtare_clock::Clock;
use vtare_clock::sleep::{Approach, LastLeg, Phase, Sleeper, Wake, spin_until};
use vtare_sys::counter;
use vtare_units::{CounterTick, Monotonic, Span, Timestamp};

use crate::count::{self, SleepCount, uncounted};
use crate::current::NOW_CLOCK_GETTIME;
use crate::policy::{Plan, SPIN_AT_MOST, plan};
use crate::real;
use crate::record::Function;
use crate::slots::Pool;
use crate::threads::PerThread;

unsafe extern "C-unwind" {
    /// pthread_testcancel(3). Declared here because it unwinds the stack when it ends the thread.
    fn pthread_testcancel();
}

/// Threads that can learn at the same time; more of them sleep in the kernel.
const PLACES: usize = 256;
static POOL: Pool<Place, PLACES> = Pool::new();
/// For each place the reading of the counter that ended its last sleep.
static REACHED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// This thread's place in the pool and 1 more; 0 for none.
static OWN: PerThread = PerThread::new();

/// What a thread learns in.
struct Place {
    sleeper: Sleeper<'static>,
    /// The end of the last sleep, from which nothing has been learned yet.
    last: Option<LastLeg>,
}

/// What each thread's place begins as.
pub(crate) struct Prototype(Place);

// SAFETY: a sleeper may go to another thread but not be used by two. Nobody uses this one: it is only ever copied from,
// byte by byte.
unsafe impl Sync for Prototype {}

impl Prototype {
    pub(crate) const fn new(sleeper: Sleeper<'static>) -> Self {
        Self(Place { sleeper, last: None })
    }
}

/// What sleeping needs.
pub(crate) struct Sleeping {
    /// The clock of the sleeps.
    pub(crate) clock: &'static Clock,
    /// What each thread's sleeper begins as; `None`: all sleeps are the kernel's, and this only counts them.
    pub(crate) prototype: Option<Prototype>,
    /// The whole sleep is to be spun.
    pub(crate) spin_only: bool,
}

static SLEEPING: OnceLock<Sleeping> = OnceLock::new();
/// Whether the counter may be read, and its ticks converted.
static COUNTER: AtomicBool = AtomicBool::new(false);

/// Takes the sleep functions over. False where threads cannot be given a place.
pub(crate) fn start(sleeping: Sleeping) -> bool {
    if sleeping.prototype.is_some() {
        if !OWN.create(Some(thread_ended)) {
            return false;
        }
        // SAFETY: the function is of this library, which is never unloaded, and only stores to memory.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    let counter = sleeping.prototype.is_some() && sleeping.clock.reads_counter();
    let started = SLEEPING.set(sleeping).is_ok();
    COUNTER.store(started && counter, Ordering::Release);
    started
}

unsafe extern "C" fn thread_ended(own: *mut core::ffi::c_void) {
    // SAFETY: the thread that held the place has ended.
    unsafe { POOL.give_back(own as usize - 1) };
}

extern "C" fn forked() {
    // SAFETY: the other threads that held places do not exist in this process.
    unsafe { POOL.give_back_all_but(OWN.get().checked_sub(1)) };
}

/// A call that wants to sleep.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    function: Function,
    id: clockid_t,
    flags: c_int,
    seconds: i64,
    nanos: i64,
    /// The counter at the call's first instruction: what follows is not in the caches after a long sleep, and would
    /// make this one longer by a hundred nanoseconds or more.
    entered: Option<CounterTick>,
    /// The hook's code and the program's after the call.
    code: [*const u8; 2],
}

/// [`Call::sleep`]'s answer where the call was not the library's to sleep. No error number is negative.
pub(crate) const NOT_OURS: c_int = -1;

/// What a call still has to do.
pub(crate) struct Slept {
    /// 0, EINTR, or [`NOT_OURS`].
    pub(crate) code: c_int,
    /// A last leg to spin, and the word for the reading that ends it.
    last: Option<(CounterTick, &'static AtomicU64)>,
}

impl Slept {
    const fn ended(code: c_int) -> Self {
        Self { code, last: None }
    }

    /// Spins what is left, in the hook itself: from the end of the sleep on, all that runs is the hook's return. False
    /// where nothing was left: then the code is the answer.
    #[inline(always)]
    pub(crate) fn spin(&self) -> bool {
        let Some((end, reached)) = self.last else { return false };
        reached.store(spin_until(end).count(), Ordering::Relaxed);
        true
    }
}

impl Call {
    /// The call for `request`, made at the first instruction of the hook. An address that can be none is left for the
    /// kernel to refuse. `code`: the hook's own, and the program's after the call.
    ///
    /// # Safety
    /// `request` is the address of a timespec, or within the first page.
    #[inline(always)]
    pub(crate) unsafe fn of(
        function: Function,
        id: clockid_t,
        flags: c_int,
        request: *const timespec,
        code: [*const u8; 2],
    ) -> Self {
        let entered = COUNTER.load(Ordering::Relaxed).then(counter::read);
        // A refused request: the plan passes it on.
        let mut call = Self { function, id, flags, seconds: -1, nanos: -1, entered, code };
        if request as usize >= 4096 {
            // SAFETY: the caller's.
            let asked = unsafe { request.read() };
            (call.seconds, call.nanos) = (asked.tv_sec, asked.tv_nsec);
        }
        call
    }

    fn plan(&self, now: Timestamp<Monotonic>) -> Plan {
        plan(self.id, self.flags, self.seconds, self.nanos, now)
    }

    /// Sleeps, if the call is the library's, up to a last leg: then code 0, or EINTR with the rest of the sleep in
    /// `left`; else [`NOT_OURS`].
    ///
    /// Cancellation may end the thread within: nothing that would have to be dropped is alive where that can happen.
    #[inline(never)]
    pub(crate) fn sleep(&self, left: &mut timespec) -> Slept {
        let Some((sleeping, prototype)) = SLEEPING.get().and_then(|s| Some((s, s.prototype.as_ref()?))) else {
            return Slept::ended(NOT_OURS);
        };
        count::forget();
        let begun = sleeping.time_of(self.entered);
        let Plan::Until(deadline) = self.plan(begun) else { return Slept::ended(NOT_OURS) };
        let Some(index) = own_place(prototype) else { return Slept::ended(NOT_OURS) };
        let mut from = begun;
        if sleeping.spin_only && deadline - begun > SPIN_AT_MOST {
            match kernel_sleep(deadline - SPIN_AT_MOST) {
                0 => from = sleeping.now(),
                code => return Slept::ended(sleeping.cut_short(self, code, begun, deadline, left)),
            }
        }
        let phase = with_place(index, |place| {
            if let Some(leg) = place.last.take() {
                let reached = CounterTick::new(REACHED[index].load(Ordering::Relaxed));
                // It was not spun to its end where a signal handler left it by `longjmp`.
                if reached.since(leg.end) >= 0 {
                    place.sleeper.ended(&leg, reached);
                }
            }
            place.sleeper.begin(from, deadline)
        });
        if let Some(Phase { early, kernel_until: Some(until), .. }) = phase {
            for until in early.into_iter().chain([until]) {
                let code = kernel_sleep(until);
                if code != 0 {
                    with_place(index, |place| place.sleeper.abandon());
                    return Slept::ended(sleeping.cut_short(self, code, begun, deadline, left));
                }
            }
        } else {
            test_cancel();
        }
        let approach = phase.and_then(|phase| {
            with_place(index, |place| {
                let approach = place.sleeper.approach(&phase, || self.rehearse_way_out());
                if let Approach::Last(leg) = approach {
                    place.last = Some(leg);
                }
                approach
            })
        });
        // For a cancellation that came while spinning.
        test_cancel();
        let wake = match approach {
            Some(Approach::Last(leg)) if count::report().is_none() => {
                return Slept { code: 0, last: Some((leg.end, &REACHED[index])) };
            }
            Some(Approach::Last(leg)) => {
                let reached = spin_until(leg.end);
                with_place(index, |place| {
                    place.last = None;
                    place.sleeper.ended(&leg, reached)
                })
            }
            Some(Approach::Ended(ended)) if !ended.miss.is_negative() => Some(ended),
            // The place was in use: a sleep within a signal handler that interrupted a sleep.
            _ => match kernel_sleep(deadline) {
                0 => Some(sleeping.woken_by_kernel(deadline)),
                code => return Slept::ended(sleeping.cut_short(self, code, begun, deadline, left)),
            },
        };
        if let (Some(report), Some(wake)) = (count::report(), wake) {
            // Read here, as late as can be: what the way out takes is part of what the program sees.
            let now = sleeping.now();
            report.slept(self.function, now - begun, Some(now - deadline), SleepCount::Woken(wake));
        }
        Slept::ended(0)
    }

    /// What runs between the end of a sleep and the program's next reading of the clock, the program's own reading
    /// included.
    ///
    /// A cancellation may end the thread here: [`thread_ended`] gives its place back.
    fn rehearse_way_out(&self) {
        self.code.iter().for_each(|code| counter::fetch_code_at(*code));
        let mut at = timespec { tv_sec: 0, tv_nsec: 0 };
        let clock = if count::report().is_some() { real::CLOCK_GETTIME.get() } else { NOW_CLOCK_GETTIME.get() };
        // SAFETY: `at` is live, and the clock exists on every Linux.
        unsafe { clock(CLOCK_MONOTONIC, &raw mut at) };
        std::hint::black_box(&at);
    }

    /// Before a call that the kernel is to sleep: what [`Passed::ended`] needs to count it.
    pub(crate) fn passed(self) -> Passed {
        let now = count::report().and_then(|_| SLEEPING.get()).map(|s| uncounted(|| s.clock.now_ordered()));
        Passed { call: self, begun: now }
    }
}

/// A call that the kernel sleeps.
pub(crate) struct Passed {
    call: Call,
    begun: Option<Timestamp<Monotonic>>,
}

impl Passed {
    /// Counts it. `code` is the error number, 0 where it slept to the end.
    pub(crate) fn ended(&self, code: c_int) {
        let (Some(report), Some(sleeping), Some(begun)) = (count::report(), SLEEPING.get(), self.begun) else { return };
        let now = uncounted(|| sleeping.clock.now_ordered());
        let lateness = match self.call.plan(begun) {
            Plan::Until(deadline) if code == 0 => Some(now - deadline),
            _ => None,
        };
        let end = if code == libc::EINTR { SleepCount::Interrupted } else { SleepCount::Passed };
        report.slept(self.call.function, now - begun, lateness, end);
    }
}

impl Sleeping {
    /// The time now, after all that the program did before.
    fn now(&self) -> Timestamp<Monotonic> {
        uncounted(|| self.clock.now_ordered())
    }

    /// The time at which the counter showed `entered`, or up to 2 ns later, never earlier.
    fn time_of(&self, entered: Option<CounterTick>) -> Timestamp<Monotonic> {
        entered.and_then(|entered| self.clock.at(entered)).unwrap_or_else(|| self.now())
    }

    fn woken_by_kernel(&self, deadline: Timestamp<Monotonic>) -> Wake {
        Wake { miss: self.now() - deadline, spin: Span::ZERO, disturbed: true, interrupted: false }
    }

    /// The answer where the kernel's part of `call` ended with the error `code`.
    #[cold]
    fn cut_short(
        &self,
        call: &Call,
        code: c_int,
        begun: Timestamp<Monotonic>,
        deadline: Timestamp<Monotonic>,
        left: &mut timespec,
    ) -> c_int {
        if code != libc::EINTR {
            return NOT_OURS;
        }
        let now = self.now();
        if let Some(report) = count::report() {
            report.slept(call.function, now - begun, None, SleepCount::Interrupted);
        }
        let rest = (deadline - now).as_nanos();
        // As the kernel does: a signal that comes with the deadline has not shortened the sleep.
        if rest <= 0 {
            return 0;
        }
        *left = timespec { tv_sec: rest / 1_000_000_000, tv_nsec: rest % 1_000_000_000 };
        libc::EINTR
    }
}

/// This thread's place, claimed at its first sleep.
fn own_place(prototype: &Prototype) -> Option<usize> {
    if let Some(own) = OWN.get().checked_sub(1) {
        return Some(own);
    }
    let Some(place) = POOL.claim(&prototype.0) else {
        if let Some(report) = count::report() {
            report.no_place();
        }
        return None;
    };
    if OWN.set(place + 1) {
        return Some(place);
    }
    // SAFETY: nothing remembers the place.
    unsafe { POOL.give_back(place) };
    None
}

/// Uses this thread's place. Where it is in use already, by a sleep that this signal handler interrupted or that
/// `longjmp` left, this thread gives it up: the sleep that still uses it gives it back, or, if there is none, the place
/// is lost.
fn with_place<R>(place: usize, work: impl FnOnce(&mut Place) -> R) -> Option<R> {
    let Some(answer) = uncounted(|| POOL.with(place, work)) else {
        if OWN.get() == place + 1 {
            OWN.set(0);
        }
        return None;
    };
    if OWN.get() != place + 1 {
        // SAFETY: a handler gave the place up for this thread, and this was its last use.
        unsafe { POOL.give_back(place) };
    }
    Some(answer)
}

/// The C library's cancellable sleep until `until`; answers an error number.
fn kernel_sleep(until: Timestamp<Monotonic>) -> c_int {
    let (seconds, nanos) = until.split();
    let at = timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.into() };
    // SAFETY: `at` is live; with TIMER_ABSTIME the remainder is not written.
    unsafe { real::CLOCK_NANOSLEEP.get()(CLOCK_MONOTONIC, TIMER_ABSTIME, &raw const at, null_mut()) }
}

fn test_cancel() {
    // SAFETY: takes nothing. Where it ends the thread, no frame of this library holds anything to be dropped.
    unsafe { pthread_testcancel() };
}
