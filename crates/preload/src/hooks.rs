//! The functions that take the C library's place. Thin: each hands the call to where it is decided.

use core::ffi::{c_int, c_uint, c_void};

use libc::{CLOCK_REALTIME, clockid_t, timespec, timeval, useconds_t};

use crate::current::{NOW_CLOCK_GETTIME, NOW_GETTIMEOFDAY, NOW_TIMESPEC_GET};
use crate::early::{thrd_answer, timespec_of_micros};
use crate::real::{self, set_errno};
use crate::record::Function;
use crate::sleeps::{Call, NOT_OURS};

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

/// Exports a sleep function, which is its hook with the address that the call returns to as one more argument. In
/// `x86` and `arm` registers.
macro_rules! exported {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty = $hook:ident, $x86:literal, $arm:literal;)*) => {$(
        #[doc = concat!(stringify!($name), ", as the C library's.\n\n# Safety\nAs the C library's.")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $answer {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $x86, ", qword ptr [rsp]"),
                "jmp {hook}",
                ".cfi_endproc",
                hook = sym $hook,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $arm, ", x30"),
                "b {hook}",
                ".cfi_endproc",
                hook = sym $hook,
            );
        }
    )*};
}

exported! {
    clock_nanosleep(id: clockid_t, flags: c_int, request: *const timespec, left: *mut timespec) -> c_int
        = clock_nanosleep_hook, "r8", "x4";
    nanosleep(request: *const timespec, left: *mut timespec) -> c_int = nanosleep_hook, "rdx", "x2";
    usleep(micros: useconds_t) -> c_int = usleep_hook, "rsi", "x1";
    sleep(seconds: c_uint) -> c_uint = sleep_hook, "rsi", "x1";
    thrd_sleep(request: *const timespec, left: *mut timespec) -> c_int = thrd_sleep_hook, "rdx", "x2";
}

/// clock_nanosleep(2)
///
/// # Safety
/// As the C library's.
unsafe extern "C-unwind" fn clock_nanosleep_hook(
    id: clockid_t,
    flags: c_int,
    request: *const timespec,
    left: *mut timespec,
    back: *const u8,
) -> c_int {
    // SAFETY: the request is the caller's.
    let call =
        unsafe { Call::of(Function::ClockNanosleep, id, flags, request, [clock_nanosleep_hook as *const u8, back]) };
    let mut rest = NOTHING;
    let slept = call.sleep(&mut rest);
    if slept.spin() {
        return 0;
    }
    let mut code = slept.code;
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
unsafe extern "C-unwind" fn nanosleep_hook(request: *const timespec, left: *mut timespec, back: *const u8) -> c_int {
    // SAFETY: the request is the caller's.
    let call =
        unsafe { Call::of(Function::Nanosleep, CLOCK_REALTIME, 0, request, [nanosleep_hook as *const u8, back]) };
    let mut rest = NOTHING;
    let slept = call.sleep(&mut rest);
    if slept.spin() {
        return 0;
    }
    let code = slept.code;
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
unsafe extern "C-unwind" fn usleep_hook(micros: useconds_t, back: *const u8) -> c_int {
    let request = timespec_of_micros(micros);
    // SAFETY: the request is live.
    let call =
        unsafe { Call::of(Function::Usleep, CLOCK_REALTIME, 0, &raw const request, [usleep_hook as *const u8, back]) };
    let slept = call.sleep(&mut { NOTHING });
    if slept.spin() {
        return 0;
    }
    if slept.code != NOT_OURS {
        return answer_of(slept.code);
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
unsafe extern "C-unwind" fn sleep_hook(seconds: c_uint, back: *const u8) -> c_uint {
    let request = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    // SAFETY: the request is live.
    let call =
        unsafe { Call::of(Function::Sleep, CLOCK_REALTIME, 0, &raw const request, [sleep_hook as *const u8, back]) };
    let mut rest = NOTHING;
    let slept = call.sleep(&mut rest);
    if slept.spin() {
        return 0;
    }
    let code = slept.code;
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
unsafe extern "C-unwind" fn thrd_sleep_hook(request: *const timespec, left: *mut timespec, back: *const u8) -> c_int {
    // SAFETY: the request is the caller's.
    let call =
        unsafe { Call::of(Function::ThrdSleep, CLOCK_REALTIME, 0, request, [thrd_sleep_hook as *const u8, back]) };
    let mut rest = NOTHING;
    let slept = call.sleep(&mut rest);
    if slept.spin() {
        return 0;
    }
    let code = slept.code;
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
