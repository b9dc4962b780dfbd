//! Sleeps.
//!
//! A sleep is cut in two halves around the kernel's part ([`crate::pending`]). The kernel is called between them from a
//! trampoline ([`crate::cancellable`]), with no Rust frame on the stack, so that a thread can be cancelled there as in
//! `nanosleep`.

use core::ffi::c_int;
use core::ptr;

use vtare_units::Timestamp;

use crate::cancellable::cancellable;
use crate::pending::{Pending, begin};
use crate::sleep_result::VtareSleepResult;
use crate::ticker::VtareTicker;
use crate::{process, thread};

/// The first half of a sleep for `span_ns` from now.
unsafe extern "C" fn begin_for(span_ns: u64, pending: *mut Pending) -> c_int {
    let now = process::ready().now();
    begin(now, Timestamp::from_nanos(now.as_nanos().saturating_add(span_ns)), pending, ptr::null_mut())
}

/// The first half of a sleep until `deadline_ns`.
unsafe extern "C" fn begin_until(deadline_ns: u64, pending: *mut Pending) -> c_int {
    begin(process::ready().now(), Timestamp::from_nanos(deadline_ns), pending, ptr::null_mut())
}

/// The first half of a wait for a ticker's next deadline.
unsafe extern "C" fn begin_wait(ticker: *mut VtareTicker, pending: *mut Pending) -> c_int {
    // SAFETY: null, or a structure by the caller's word.
    let Some(state) = (unsafe { ticker.as_ref() }) else {
        return thread::fail(libc::EINVAL, format_args!("vtare_ticker_wait(NULL): pass a ticker"));
    };
    if state.period_ns == 0 || (state.size as usize) < size_of::<VtareTicker>() {
        return thread::fail(libc::EINVAL, format_args!("the ticker was never begun: call vtare_ticker_init first"));
    }
    begin(process::ready().now(), Timestamp::from_nanos(state.next_ns), pending, ticker)
}

cancellable! {
    /// Sleeps for `span_ns` from now.
    pub fn vtare_sleep_ns(span_ns: u64) = begin_for;
    /// Sleeps until `vtare_now_ns` shows `deadline_ns`.
    pub fn vtare_sleep_until_ns(deadline_ns: u64) = begin_until;
    /// Sleeps until the ticker's next deadline.
    pub fn vtare_ticker_wait(ticker: *mut VtareTicker) = begin_wait;
}

/// How this thread's last sleep ended.
///
/// # Safety
/// `result` is null or points to a writable object whose first field is its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_last_sleep(result: *mut VtareSleepResult) -> c_int {
    const LEAST: usize = size_of::<VtareSleepResult>();
    if result.is_null() {
        return thread::fail(libc::EINVAL, format_args!("vtare_last_sleep(NULL): pass a structure to be filled in"));
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { result.cast::<u32>().read() } as usize;
    if size < LEAST {
        let text =
            format_args!("vtare_sleep_result.size is {size}: use sizeof(struct vtare_sleep_result), {LEAST} or more");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::vtare_now_ordered_ns as now_ns;

    fn until(deadline_ns: u64) -> c_int {
        // SAFETY: any number will do.
        unsafe { vtare_sleep_until_ns(deadline_ns) }
    }

    fn last() -> VtareSleepResult {
        let mut out = VtareSleepResult::on_time(0, Timestamp::ZERO);
        // SAFETY: a live structure whose size field is set.
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
        let mut out = VtareSleepResult::on_time(0, Timestamp::ZERO);
        // SAFETY: a live structure whose size field is set.
        let answer =
            std::thread::spawn(move || (unsafe { vtare_last_sleep(&raw mut out) }, crate::errno::errno())).join();
        assert_eq!(answer.expect("the thread ran"), (-1, libc::ENODATA));
    }
}
