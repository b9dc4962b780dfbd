//! The calling thread's `errno`.

use core::ffi::c_int;

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: takes nothing; answers this thread's own place.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is valid as long as the thread lives.
    unsafe { *place }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: takes nothing; answers this thread's own place.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = code };
}
