//! The one clock of the process: started by the first call that needs it, shared by all threads, inherited by forked
//! children.
//!
//! Nobody waits for the start in a reading. While one thread starts the clock, readings of others, and of signal
//! handlers that interrupt the start, come from the kernel. The clock then begins at or above the kernel's time, so no
//! reading steps back.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use clock::{Clock, ClockOptions, SourceChoice};
use vtare_sys::sched;

use crate::thread;

/// The version of the binary interface: raised when a program linked with an older library could not run with this one.
pub(crate) const ABI_VERSION: u32 = match u32::from_str_radix(env!("VTARE_CLOCK_ABI_VERSION"), 10) {
    Ok(version) => version,
    Err(_) => panic!("build.rs passes on a number"),
};

const IDLE: u8 = 0;
const STARTING: u8 = 1;

static CLOCK: AtomicPtr<Clock> = AtomicPtr::new(ptr::null_mut());
static STATE: AtomicU8 = AtomicU8::new(IDLE);
static FORK_WATCHED: AtomicBool = AtomicBool::new(false);

/// How to start the clock: `struct vtare_clock_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtareClockOptions {
    /// The caller's `sizeof`.
    pub size: u32,
    /// `enum vtare_source`: 0 the best that can be trusted, 1 the kernel's clock.
    pub source: u32,
    /// Not 0: test the counters of all CPUs against each other first.
    pub thorough: u32,
    /// 0.
    pub reserved: u32,
}

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

fn start(options: &ClockOptions) -> Option<&'static Clock> {
    // A reading says nothing through errno, also where a file that the start looks for is missing.
    let errno = thread::errno();
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
    thread::set_errno(errno);
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

/// The version of the binary interface.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_clock_abi_version() -> u32 {
    ABI_VERSION
}

/// The version of vtare, as text.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_clock_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Starts the clock now instead of at first use.
///
/// # Safety
/// `options` is null or points to an object whose first field tells its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_clock_start(options: *const VtareClockOptions) -> c_int {
    if options.is_null() {
        ready();
        return 0;
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { options.cast::<u32>().read() } as usize;
    if size < size_of::<VtareClockOptions>() {
        let wanted = size_of::<VtareClockOptions>();
        let text = format_args!("vtare_clock_options.size is {size}, want {wanted}: set it to sizeof the structure");
        return thread::fail(libc::EINVAL, text);
    }
    // SAFETY: not null, and the caller's object is at least as large as ours.
    let asked = unsafe { options.read() };
    let source = match asked.source {
        0 => SourceChoice::Auto,
        1 => SourceChoice::Os,
        other => {
            let text = format_args!("unknown clock source {other}: want VTARE_SOURCE_AUTO (0) or VTARE_SOURCE_OS (1)");
            return thread::fail(libc::EINVAL, text);
        }
    };
    let base = if asked.thorough == 0 { ClockOptions::fast() } else { ClockOptions::default() };
    let before = running().is_some();
    if !before && start(&ClockOptions { source, ..base }).is_some() {
        return 0;
    }
    let text = format_args!(
        "the clock runs already, its options are fixed: call vtare_clock_start before the first reading or sleep"
    );
    thread::fail(libc::EALREADY, text)
}
