//! The functions behind the hooks: the C library's own, and the vDSO's.

use core::ffi::{CStr, c_int, c_uint, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, timespec, timeval, useconds_t};

use crate::early;
pub(crate) use crate::errno::{errno, set_errno};

/// A function that can be exchanged while threads call it.
pub(crate) struct Target<F>(AtomicPtr<c_void>, PhantomData<F>);

impl<F: Copy> Target<F> {
    /// # Safety
    /// `function` must be an `F`.
    pub(crate) const unsafe fn new(function: *mut c_void) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Self(AtomicPtr::new(function), PhantomData)
    }

    /// The function to call now.
    #[inline(always)]
    pub(crate) fn get(&self) -> F {
        let function = self.0.load(Ordering::Relaxed);
        // SAFETY: `new` and `set` put nothing but an `F` here, which is as large as a pointer.
        unsafe { core::mem::transmute_copy(&function) }
    }

    /// # Safety
    /// `function` must be an `F`, for ever.
    pub(crate) unsafe fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Release);
    }
}

pub(crate) type ClockGettime = unsafe extern "C-unwind" fn(clockid_t, *mut timespec) -> c_int;
pub(crate) type Gettimeofday = unsafe extern "C-unwind" fn(*mut timeval, *mut c_void) -> c_int;
pub(crate) type TimespecGet = unsafe extern "C-unwind" fn(*mut timespec, c_int) -> c_int;
pub(crate) type ClockNanosleep = unsafe extern "C-unwind" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
pub(crate) type Nanosleep = unsafe extern "C-unwind" fn(*const timespec, *mut timespec) -> c_int;
pub(crate) type Usleep = unsafe extern "C-unwind" fn(useconds_t) -> c_int;
pub(crate) type Sleep = unsafe extern "C-unwind" fn(c_uint) -> c_uint;
pub(crate) type ThrdSleep = unsafe extern "C-unwind" fn(*const timespec, *mut timespec) -> c_int;

/// Declares a target that begins as the function of the same shape in [`early`].
macro_rules! targets {
    ($($(#[$doc:meta])* $name:ident: $shape:ty = $first:path;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: Target<$shape> = {
            const FIRST: $shape = $first;
            // SAFETY: the constant has the type stated.
            unsafe { Target::new(FIRST as *mut c_void) }
        };
    )*};
}

targets! {
    /// The kernel's clock_gettime, with the C library's error convention.
    CLOCK_GETTIME: ClockGettime = early::clock_gettime;
    /// The vDSO's clock_gettime, which answers a negative error number. Until it is found: never called.
    VDSO_CLOCK_GETTIME: ClockGettime = early::clock_gettime;
    /// The C library's gettimeofday; its address is that of the vDSO's where it is an indirect function.
    GETTIMEOFDAY: Gettimeofday = early::gettimeofday;
    /// The C library's timespec_get.
    TIMESPEC_GET: TimespecGet = early::timespec_get;
    /// The C library's clock_nanosleep: a cancellation point.
    CLOCK_NANOSLEEP: ClockNanosleep = early::clock_nanosleep;
    /// The C library's nanosleep.
    NANOSLEEP: Nanosleep = early::nanosleep;
    /// The C library's usleep.
    USLEEP: Usleep = early::usleep;
    /// The C library's sleep.
    SLEEP: Sleep = early::sleep;
    /// The C library's thrd_sleep.
    THRD_SLEEP: ThrdSleep = early::thrd_sleep;
}

/// The address of the next function of this name after this library, if there is one.
fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The vDSO's clock_gettime, if the kernel maps one.
fn vdso() -> Option<*mut c_void> {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: the name is a C string; the vDSO stands in the linker's list from the start, and RTLD_NOLOAD loads
    // nothing.
    let handle = unsafe { libc::dlopen(c"linux-vdso.so.1".as_ptr(), flags) };
    if handle.is_null() {
        return None;
    }
    let name = if cfg!(target_arch = "x86_64") { c"__vdso_clock_gettime" } else { c"__kernel_clock_gettime" };
    // SAFETY: the handle is live (never closed: the vDSO stays), the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The C library's clock_gettime without its wrapper: the vDSO's, and errno where that refuses.
unsafe extern "C-unwind" fn through_vdso(id: clockid_t, at: *mut timespec) -> c_int {
    // SAFETY: the arguments are the caller's, who keeps to clock_gettime(2).
    let answer = unsafe { VDSO_CLOCK_GETTIME.get()(id, at) };
    if answer == 0 {
        return 0;
    }
    set_errno(-answer);
    -1
}

/// Finds all functions. What is not found stays a plain system call.
pub(crate) fn find() {
    macro_rules! take {
        ($($target:ident = $name:literal;)*) => {$(
            if let Some(function) = next($name) {
                // SAFETY: the C library's function of this name has this shape.
                unsafe { $target.set(function) };
            }
        )*};
    }
    take! {
        CLOCK_GETTIME = c"clock_gettime";
        GETTIMEOFDAY = c"gettimeofday";
        TIMESPEC_GET = c"timespec_get";
        CLOCK_NANOSLEEP = c"clock_nanosleep";
        NANOSLEEP = c"nanosleep";
        USLEEP = c"usleep";
        SLEEP = c"sleep";
        THRD_SLEEP = c"thrd_sleep";
    }
    if let Some(function) = vdso() {
        // SAFETY: the vDSO's function has the shape of clock_gettime (vdso(7)).
        unsafe { VDSO_CLOCK_GETTIME.set(function) };
        let wrapped: ClockGettime = through_vdso;
        // SAFETY: `wrapped` has the shape.
        unsafe { CLOCK_GETTIME.set(wrapped as *mut c_void) };
    }
}
