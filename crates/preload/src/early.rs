//! The functions as plain system calls: what answers before the library has started, and where the C library lacks one.
//!
//! Sleeps here are no cancellation points; there is one thread then. Each keeps errno as the C library's own does.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use libc::{clockid_t, timespec, timeval, useconds_t};

use crate::errno::{errno, set_errno};

const TIME_UTC: c_int = 1;

pub(crate) unsafe extern "C-unwind" fn clock_gettime(id: clockid_t, at: *mut timespec) -> c_int {
    // SAFETY: the kernel checks the address itself.
    unsafe { libc::syscall(libc::SYS_clock_gettime, id, at) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
    // SAFETY: the kernel checks the addresses itself.
    unsafe { libc::syscall(libc::SYS_gettimeofday, at, zone) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn timespec_get(at: *mut timespec, base: c_int) -> c_int {
    if base != TIME_UTC {
        return 0;
    }
    // SAFETY: the caller gave the address of a timespec.
    if unsafe { clock_gettime(libc::CLOCK_REALTIME, at) } == 0 { base } else { 0 }
}

pub(crate) unsafe extern "C-unwind" fn clock_nanosleep(
    id: clockid_t,
    flags: c_int,
    request: *const timespec,
    left: *mut timespec,
) -> c_int {
    // glibc's own answer; the kernel would wait for the CPU time of a thread that sleeps.
    if id == libc::CLOCK_THREAD_CPUTIME_ID {
        return libc::EINVAL;
    }
    let kept = errno();
    // SAFETY: the kernel checks the addresses itself.
    let answer = unsafe { libc::syscall(libc::SYS_clock_nanosleep, id, flags, request, left) };
    if answer == 0 {
        return 0;
    }
    let code = errno();
    set_errno(kept);
    code
}

pub(crate) unsafe extern "C-unwind" fn nanosleep(request: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the kernel checks the addresses itself.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, request, left) } {
        0 => 0,
        code => {
            set_errno(code);
            -1
        }
    }
}

pub(crate) unsafe extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    let request = timespec_of_micros(micros);
    // SAFETY: the request is live.
    unsafe { nanosleep(&raw const request, null_mut()) }
}

pub(crate) unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    let mut request = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    let place = &raw mut request;
    // SAFETY: the request is live, and the kernel reads it before it writes the remainder.
    if unsafe { nanosleep(place, place) } == 0 { 0 } else { request.tv_sec as c_uint }
}

pub(crate) unsafe extern "C-unwind" fn thrd_sleep(request: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the kernel checks the addresses itself.
    thrd_answer(unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, request, left) })
}

/// `usleep`'s argument as nanosleep takes it.
pub(crate) fn timespec_of_micros(micros: useconds_t) -> timespec {
    timespec { tv_sec: (micros / 1_000_000).into(), tv_nsec: (micros % 1_000_000 * 1_000).into() }
}

/// thrd_sleep's answer for an error number: 0, -1 for a signal, another negative number else (C11 7.26.5.7; -2 in
/// glibc).
pub(crate) fn thrd_answer(code: c_int) -> c_int {
    match code {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micros_split_as_the_c_library_splits_them() {
        let split = |micros| {
            let at = timespec_of_micros(micros);
            (at.tv_sec, at.tv_nsec)
        };
        assert_eq!(split(0), (0, 0));
        assert_eq!(split(1_999_999), (1, 999_999_000));
        assert_eq!(split(u32::MAX), (4_294, 967_295_000));
    }

    #[test]
    fn each_error_has_the_c_librarys_answer_and_errno_stays() {
        set_errno(77);
        let bad = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        // SAFETY: the request is live.
        let code = unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const bad, null_mut()) };
        assert_eq!((code, errno()), (libc::EINVAL, 77));
        // SAFETY: the request is live.
        let code = unsafe { clock_nanosleep(libc::CLOCK_THREAD_CPUTIME_ID, 0, &raw const bad, null_mut()) };
        assert_eq!((code, errno()), (libc::EINVAL, 77));
        // SAFETY: the request is live.
        assert_eq!((unsafe { thrd_sleep(&raw const bad, null_mut()) }, errno()), (-2, 77));
        // SAFETY: the request is live.
        assert_eq!((unsafe { nanosleep(&raw const bad, null_mut()) }, errno()), (-1, libc::EINVAL));
        set_errno(77);
        // SAFETY: takes a number only.
        assert_eq!((unsafe { usleep(1) }, errno()), (0, 77));
        // SAFETY: takes a number only.
        assert_eq!((unsafe { sleep(0) }, errno()), (0, 77));
    }
}
