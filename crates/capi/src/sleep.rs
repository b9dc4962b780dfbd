//! Sleeps.
//!
//! A sleep is cut in two halves around the kernel's part: [`begin`] plans, [`finish`] spins and learns. The kernel is
//! called between them from a trampoline ([`crate::cancellable`]), with no Rust frame on the stack, so that a thread
//! can be cancelled there as in `nanosleep`.

use core::ffi::c_int;
use core::ptr;

use clock::sleep::{Method, Phase};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::cancellable::cancellable;
use crate::thread::{self, NoState};
use crate::ticker::VtareTicker;
use crate::{process, read};

/// `struct vtare_sleep_result`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtareSleepResult {
    /// In: the caller's `sizeof`. Out: the bytes filled in.
    pub size: u32,
    /// Not 0: the CPU was taken away while spinning, or the guard held spinning back.
    pub disturbed: u32,
    /// Not 0: a signal handler ended the sleep.
    pub interrupted: u32,
    /// `enum vtare_sleep_policy`.
    pub policy: u32,
    /// The time for which the end was planned.
    pub deadline_ns: u64,
    /// Actual minus planned end.
    pub miss_ns: i64,
    /// Time spent spinning.
    pub spin_ns: i64,
}

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

/// The first half of a sleep for `span_ns` from now.
unsafe extern "C" fn begin_for(span_ns: u64, pending: *mut Pending) -> c_int {
    let now = process::ready().now();
    begin(now, Timestamp::from_nanos(now.as_nanos().saturating_add(span_ns)), pending, ptr::null_mut())
}

/// The first half of a sleep until `deadline_ns`.
unsafe extern "C" fn begin_until(deadline_ns: u64, pending: *mut Pending) -> c_int {
    begin(process::ready().now(), Timestamp::from_nanos(deadline_ns), pending, ptr::null_mut())
}

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
                ..result(state.policy, deadline)
            });
        });
    }
    // SAFETY: null, or the ticker that the caller gave for this call.
    if let Some(ticker) = unsafe { ticker.as_mut() } {
        ticker.advance(now_ns());
    }
    0
}

fn result(policy: c_int, deadline: Timestamp<Monotonic>) -> VtareSleepResult {
    VtareSleepResult {
        size: size_of::<VtareSleepResult>() as u32,
        disturbed: 0,
        interrupted: 0,
        policy: policy.cast_unsigned(),
        deadline_ns: deadline.as_nanos(),
        miss_ns: 0,
        spin_ns: 0,
    }
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
            ..result(state.policy, deadline)
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

cancellable! {
    /// Sleeps for `span_ns` from now.
    pub fn vtare_sleep_ns(span_ns: u64) = begin_for;
    /// Sleeps until `vtare_now_ns` shows `deadline_ns`.
    pub fn vtare_sleep_until_ns(deadline_ns: u64) = begin_until;
}

/// How this thread's last sleep ended.
///
/// # Safety
/// `result` is null or points to a writable object whose first field tells its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_last_sleep(result: *mut VtareSleepResult) -> c_int {
    const LEAST: usize = size_of::<VtareSleepResult>();
    if result.is_null() {
        return thread::fail(libc::EINVAL, format_args!("vtare_last_sleep(NULL): pass a structure to be filled in"));
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { result.cast::<u32>().read() } as usize;
    if size < LEAST {
        let text = format_args!(
            "vtare_sleep_result.size is {size}, want {LEAST} or more: set it to sizeof(struct vtare_sleep_result)"
        );
        return thread::fail(libc::EINVAL, text);
    }
    match thread::with(|state| state.last) {
        Ok(Some(last)) => {
            // SAFETY: the caller's object is at least as large as ours.
            unsafe { result.write(last) };
            0
        }
        Ok(None) => thread::fail(libc::ENODATA, format_args!("this thread has not slept through vtare yet")),
        Err(reason) => thread::refuse(reason),
    }
}

/// The clock as a ticker sees it.
pub(crate) fn now_ns() -> u64 {
    read::vtare_now_ordered_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(deadline_ns: u64) -> c_int {
        // SAFETY: any number will do.
        unsafe { vtare_sleep_until_ns(deadline_ns) }
    }

    fn last() -> VtareSleepResult {
        let mut out = result(0, Timestamp::ZERO);
        // SAFETY: a live structure that tells its size.
        assert_eq!(unsafe { vtare_last_sleep(&raw mut out) }, 0);
        out
    }

    #[test]
    fn no_policy_wakes_early_and_each_leaves_its_result() {
        for policy in 0..6 {
            assert_eq!(thread::vtare_set_sleep_policy(policy), 0);
            for span in [0, 1, 1_500, 200_000] {
                let deadline = now_ns() + span;
                assert_eq!(until(deadline), 0);
                assert!(now_ns() >= deadline);
                let seen = last();
                assert_eq!((seen.policy, seen.deadline_ns), (policy.cast_unsigned(), deadline));
                assert!(seen.miss_ns >= 0 && seen.spin_ns >= 0, "{seen:?}");
            }
        }
    }

    #[test]
    fn a_deadline_that_has_passed_returns_at_once_and_without_spinning() {
        assert_eq!(until(1), 0);
        let seen = last();
        assert!(seen.miss_ns > 0, "{seen:?}");
        assert_eq!(seen.spin_ns, 0);
    }

    #[test]
    fn a_thread_that_never_slept_has_no_result() {
        let mut out = result(0, Timestamp::ZERO);
        // SAFETY: a live structure that tells its size.
        let answer = std::thread::spawn(move || (unsafe { vtare_last_sleep(&raw mut out) }, thread::errno())).join();
        assert_eq!(answer.expect("the thread ran"), (-1, libc::ENODATA));
    }
}
