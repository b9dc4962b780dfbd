//! What C calls to start the clock, and the library's versions.

use core::ffi::{c_char, c_int};

use clock::{ClockOptions, SourceChoice};

use crate::{process, thread};

/// The version of the binary interface: raised when a program linked with an older library could not run with this one.
pub(crate) const ABI_VERSION: u32 = match u32::from_str_radix(env!("VTARE_CLOCK_ABI_VERSION"), 10) {
    Ok(version) => version,
    Err(_) => panic!("build.rs passes on a number"),
};

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
/// `options` is null or points to an object whose first field is its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_clock_start(options: *const VtareClockOptions) -> c_int {
    if options.is_null() {
        process::ready();
        return 0;
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { options.cast::<u32>().read() } as usize;
    if size < size_of::<VtareClockOptions>() {
        let wanted = size_of::<VtareClockOptions>();
        let text = format_args!(
            "vtare_clock_options.size is {size}: use sizeof(struct vtare_clock_options), {wanted} or more"
        );
        return thread::fail(libc::EINVAL, text);
    }
    // SAFETY: not null, and the caller's object is at least as large as ours.
    let asked = unsafe { options.read() };
    let source = match asked.source {
        0 => SourceChoice::Auto,
        1 => SourceChoice::Os,
        other => {
            let text = format_args!("unknown clock source {other}: use VTARE_SOURCE_AUTO (0) or VTARE_SOURCE_OS (1)");
            return thread::fail(libc::EINVAL, text);
        }
    };
    let base = if asked.thorough == 0 { ClockOptions::fast() } else { ClockOptions::default() };
    let before = process::running().is_some();
    if !before && process::start(&ClockOptions { source, ..base }).is_some() {
        return 0;
    }
    let text = format_args!(
        "the clock runs already, its options are fixed: call vtare_clock_start before the first reading or sleep"
    );
    thread::fail(libc::EALREADY, text)
}
