use core::ffi::c_int;

/// Sets this thread's errno.
#[inline]
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: takes nothing and answers the address of this thread's errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid as long as the thread lives.
    unsafe { place.write(code) };
}

/// This thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `set_errno`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as in `set_errno`.
    unsafe { place.read() }
}
