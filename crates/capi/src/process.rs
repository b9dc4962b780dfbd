//! The one clock of the process: started by the first call that needs it, shared by all threads, inherited by forked
//! children.
//!
//! Nobody waits for the start in a reading. While one thread starts the clock, readings of others, and of signal
//! handlers that interrupt the start, come from the kernel. The clock then begins at or above the kernel's time, so no
//! reading steps back.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use clock::{Clock, ClockOptions};
use vtare_sys::sched;

use crate::errno::{errno, set_errno};

const IDLE: u8 = 0;
const STARTING: u8 = 1;

static CLOCK: AtomicPtr<Clock> = AtomicPtr::new(ptr::null_mut());
static STATE: AtomicU8 = AtomicU8::new(IDLE);
static FORK_WATCHED: AtomicBool = AtomicBool::new(false);

/// The clock, where it runs.
#[inline(always)]
pub(crate) fn running() -> Option<&'static Clock> {
    let clock = CLOCK.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or it was published by `start` and is never freed.
    unsafe { clock.as_ref() }
}

/// The clock, started if need be; `None` while it is being started elsewhere.
#[cold]
pub(crate) fn started() -> Option<&'static Clock> {
    running().or_else(|| start(&ClockOptions::fast()))
}

/// The clock; waits while another thread starts it. Not for signal handlers, nor for readings.
pub(crate) fn ready() -> &'static Clock {
    loop {
        if let Some(clock) = running().or_else(started) {
            return clock;
        }
        sched::yield_now();
    }
}

/// Starts the clock; `None` while another thread does.
pub(crate) fn start(options: &ClockOptions) -> Option<&'static Clock> {
    // A reading leaves errno alone, also where a file that the start looks for is missing.
    let before = errno();
    if !FORK_WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
        unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    }
    if STATE.compare_exchange(IDLE, STARTING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return running();
    }
    let clock = Box::into_raw(Box::new(Clock::start(options)));
    let first = CLOCK.compare_exchange(ptr::null_mut(), clock, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !first {
        // A signal handler forked in the middle of the start, and the child has started a clock of its own already.
        // SAFETY: the pointer is from `into_raw` above and nobody else has seen it.
        drop(unsafe { Box::from_raw(clock) });
    }
    STATE.store(IDLE, Ordering::Release);
    set_errno(before);
    running()
}

/// In a forked child the thread that was starting the clock does not exist.
extern "C" fn in_forked_child() {
    STATE.store(IDLE, Ordering::Release);
}

/// Starts the clock when the library is loaded, where `VTARE_CLOCK_START=load` is in the environment.
extern "C" fn at_load() {
    // SAFETY: the name is a C string; the answer is null or a C string that is not changed before `main`.
    let value = unsafe { libc::getenv(c"VTARE_CLOCK_START".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: not null, so a C string.
    if unsafe { CStr::from_ptr(value) } == c"load" {
        let _ = started();
    }
}

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once; this is one.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
