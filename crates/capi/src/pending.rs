//! A sleep in two halves around the kernel's part: [`begin`] plans, [`finish`] spins and learns.

use core::ffi::c_int;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use core::ptr;

use clock::sleep::{Method, Phase};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::process;
use crate::read::vtare_now_ordered_ns;
use crate::sleep_result::VtareSleepResult;
use crate::thread::{self, NoState};
use crate::ticker::VtareTicker;

/// A sleep between its two halves; lies in the frame of the trampoline, which reads the first three fields.
#[repr(C)]
pub(crate) struct Pending {
    until: libc::timespec,
    pub(crate) clock: libc::clockid_t,
    pub(crate) flags: c_int,
    /// `None` where the thread's state was in use: the kernel alone sleeps then, and nothing is learned.
    phase: Option<Phase>,
    deadline: Timestamp<Monotonic>,
    ticker: *mut VtareTicker,
}

/// What the first half asks of the trampoline: go on to the second half, or ask the kernel first. Negative: leave, it
/// has failed.
const GO_ON: c_int = 0;
const ASK_KERNEL: c_int = 1;

/// Plans a sleep and writes it to `pending`, which need not hold anything yet.
pub(crate) fn begin(
    now: Timestamp<Monotonic>,
    deadline: Timestamp<Monotonic>,
    pending: *mut Pending,
    ticker: *mut VtareTicker,
) -> c_int {
    let planned = thread::with(|state| (state.method(), state.sleeper().begin(now, deadline)));
    let (method, phase, until) = match planned {
        Ok((method, phase)) => (method, Some(phase), phase.kernel_until),
        Err(NoState::InUse) => (Method::ClockNanosleep, None, Some(deadline)),
        Err(NoState::NoMemory) => return thread::refuse(NoState::NoMemory),
    };
    let relative = method == Method::Usleep && deadline > now;
    let (until_timespec, clock, flags) = if relative {
        // What the C library's usleep asks of the kernel.
        let micros = (deadline - now).as_nanos_unsigned().div_ceil(1_000).min(u32::MAX.into());
        (timespec(micros * 1_000), libc::CLOCK_REALTIME, 0)
    } else {
        (timespec(until.unwrap_or(deadline).as_nanos()), libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME)
    };
    // SAFETY: the trampoline's frame has room for it and is ours alone.
    unsafe { pending.write(Pending { until: until_timespec, clock, flags, phase, deadline, ticker }) };
    if until.is_some() { ASK_KERNEL } else { GO_ON }
}

/// The kernel's part, where there is no trampoline.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ask_kernel(pending: &Pending) -> c_int {
    // SAFETY: the timespec is live; what is left is not asked for.
    unsafe { libc::clock_nanosleep(pending.clock, pending.flags, &raw const pending.until, ptr::null_mut()) }
}

fn timespec(nanos: u64) -> libc::timespec {
    let (seconds, nanos) = Timestamp::<Monotonic>::from_nanos(nanos).split();
    libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: libc::c_long::from(nanos) }
}

/// The second half of a sleep: `code` is what the kernel answered, or 0 where it was not asked.
pub(crate) unsafe extern "C" fn finish(pending: *const Pending, code: c_int) -> c_int {
    // SAFETY: written by `begin`, in the trampoline's frame.
    let Pending { phase, deadline, ticker, .. } = unsafe { pending.read() };
    if code != 0 {
        return ended_early(deadline, code);
    }
    if let Some(phase) = phase {
        // A handler holds the state only while it runs, and none runs here; so this is not refused.
        let _ = thread::with(|state| {
            let wake = state.sleeper().finish(&phase);
            state.last = Some(VtareSleepResult {
                disturbed: wake.disturbed.into(),
                miss_ns: wake.miss.as_nanos(),
                spin_ns: wake.spin.as_nanos(),
                ..VtareSleepResult::on_time(state.policy, deadline)
            });
        });
    }
    // SAFETY: null, or the ticker that the caller gave for this call.
    if let Some(ticker) = unsafe { ticker.as_mut() } {
        ticker.advance(vtare_now_ordered_ns());
    }
    0
}

/// Notes how much of a sleep was left, and fails as the kernel's sleep did.
#[cold]
fn ended_early(deadline: Timestamp<Monotonic>, code: c_int) -> c_int {
    let miss: Span = process::ready().now_ordered() - deadline;
    let _ = thread::with(|state| {
        state.sleeper().abandon();
        state.last = Some(VtareSleepResult {
            interrupted: u32::from(code == libc::EINTR),
            miss_ns: miss.as_nanos(),
            ..VtareSleepResult::on_time(state.policy, deadline)
        });
    });
    if code == libc::EINTR {
        let left = -miss.as_nanos();
        let text = format_args!(
            "a signal handler ended the sleep {left} ns before its deadline: sleep on with vtare_sleep_until_ns"
        );
        return thread::fail(code, text);
    }
    thread::fail(code, format_args!("the kernel refused to sleep until {} ns (error {code})", deadline.as_nanos()))
}
