//! The functions that take the C library's place. Thin: each hands the call to where it is decided.

use core::ffi::{c_int, c_uint, c_void};

use libc::{CLOCK_REALTIME, clockid_t, timespec, timeval, useconds_t};

use crate::early::{thrd_answer, timespec_of_micros};
use crate::real::{self, ClockGettime, Gettimeofday, Target, TimespecGet, set_errno};
use crate::record::Function;
use crate::sleeps::{Call, NOT_OURS};

macro_rules! now {
    ($($name:ident: $shape:ty = $first:path;)*) => {$(
        /// What answers the hook of this name at the moment.
        pub(crate) static $name: Target<$shape> = {
            const FIRST: $shape = $first;
            // SAFETY: the constant has the type stated.
            unsafe { Target::new(FIRST as *mut c_void) }
        };
    )*};
}

now! {
    NOW_CLOCK_GETTIME: ClockGettime = crate::early::clock_gettime;
    NOW_GETTIMEOFDAY: Gettimeofday = crate::early::gettimeofday;
    NOW_TIMESPEC_GET: TimespecGet = crate::early::timespec_get;
}

/// clock_gettime(2)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn clock_gettime(id: clockid_t, at: *mut timespec) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { NOW_CLOCK_GETTIME.get()(id, at) }
}

/// gettimeofday(2)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { NOW_GETTIMEOFDAY.get()(at, zone) }
}

/// timespec_get(3)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn timespec_get(at: *mut timespec, base: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { NOW_TIMESPEC_GET.get()(at, base) }
}

/// clock_nanosleep(2)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn clock_nanosleep(
    id: clockid_t,
    flags: c_int,
    request: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: the request is the caller's.
    let call = unsafe { Call::of(Function::ClockNanosleep, id, flags, request) };
    let mut rest = NOTHING;
    let mut code = call.sleep(&mut rest);
    if code == NOT_OURS {
        let passed = call.passed();
        // SAFETY: the arguments are the caller's.
        code = unsafe { real::CLOCK_NANOSLEEP.get()(id, flags, request, left) };
        passed.ended(code);
    } else if code == libc::EINTR && flags == 0 {
        // SAFETY: the place is the caller's.
        unsafe { leave(left, rest) };
    }
    code
}

/// nanosleep(2)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn nanosleep(request: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the request is the caller's.
    let call = unsafe { Call::of(Function::Nanosleep, CLOCK_REALTIME, 0, request) };
    let mut rest = NOTHING;
    let code = call.sleep(&mut rest);
    if code == NOT_OURS {
        let passed = call.passed();
        // SAFETY: the arguments are the caller's.
        let answer = unsafe { real::NANOSLEEP.get()(request, left) };
        passed.ended(if answer == 0 { 0 } else { real::errno() });
        return answer;
    }
    if code == libc::EINTR {
        // SAFETY: the place is the caller's.
        unsafe { leave(left, rest) };
    }
    answer_of(code)
}

/// usleep(3)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    let request = timespec_of_micros(micros);
    // SAFETY: the request is live.
    let call = unsafe { Call::of(Function::Usleep, CLOCK_REALTIME, 0, &raw const request) };
    let code = call.sleep(&mut { NOTHING });
    if code != NOT_OURS {
        return answer_of(code);
    }
    let passed = call.passed();
    // SAFETY: takes a number only.
    let answer = unsafe { real::USLEEP.get()(micros) };
    passed.ended(if answer == 0 { 0 } else { real::errno() });
    answer
}

/// sleep(3): answers the whole seconds left.
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    let request = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    // SAFETY: the request is live.
    let call = unsafe { Call::of(Function::Sleep, CLOCK_REALTIME, 0, &raw const request) };
    let mut rest = NOTHING;
    let code = call.sleep(&mut rest);
    if code != NOT_OURS {
        answer_of(code);
        return rest.tv_sec as c_uint;
    }
    let passed = call.passed();
    // SAFETY: takes a number only.
    let left = unsafe { real::SLEEP.get()(seconds) };
    passed.ended(if left == 0 { 0 } else { libc::EINTR });
    left
}

/// thrd_sleep(3)
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn thrd_sleep(request: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the request is the caller's.
    let call = unsafe { Call::of(Function::ThrdSleep, CLOCK_REALTIME, 0, request) };
    let mut rest = NOTHING;
    let code = call.sleep(&mut rest);
    if code == NOT_OURS {
        let passed = call.passed();
        // SAFETY: the arguments are the caller's.
        let answer = unsafe { real::THRD_SLEEP.get()(request, left) };
        passed.ended(if answer == -1 { libc::EINTR } else { answer });
        return answer;
    }
    if code == libc::EINTR {
        // SAFETY: the place is the caller's.
        unsafe { leave(left, rest) };
    }
    thrd_answer(code)
}

const NOTHING: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Leaves the rest of a sleep where the caller wants it, if it does.
///
/// # Safety
/// `left` is null or the address of a timespec.
unsafe fn leave(left: *mut timespec, rest: timespec) {
    if !left.is_null() {
        // SAFETY: the caller's promise.
        unsafe { left.write(rest) };
    }
}

/// 0, or -1 with errno.
fn answer_of(code: c_int) -> c_int {
    if code == 0 {
        return 0;
    }
    set_errno(code);
    -1
}
