//! UTC as an interval, for C.

use core::ffi::c_int;

use clock::UtcStatus;

use crate::{confirmed, process, thread};

/// `struct vtare_utc_interval`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtareUtcInterval {
    /// In: the caller's `sizeof`. Out: the bytes filled in.
    pub size: u32,
    /// `enum vtare_utc_status`.
    pub status: u32,
    /// The earliest that UTC can be, in ns since 1970.
    pub earliest_ns: u64,
    /// The latest.
    pub latest_ns: u64,
    /// The generation of the reading behind it.
    pub generation: u64,
}

fn status_code(status: UtcStatus) -> u32 {
    match status {
        UtcStatus::Synchronized => 0,
        UtcStatus::FreeRunning => 1,
        UtcStatus::Disrupted => 2,
        UtcStatus::Unknown => 3,
    }
}

/// UTC now, as an interval.
///
/// # Safety
/// `interval` is null or points to a writable object whose first field is its size in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_now_utc_interval(interval: *mut VtareUtcInterval) -> c_int {
    let wanted = size_of::<VtareUtcInterval>();
    // SAFETY: null, or the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { interval.cast::<u32>().as_ref() }.map_or(0, |size| *size as usize);
    if size < wanted {
        let text = format_args!(
            "vtare_now_utc_interval: {}: pass a structure whose size is sizeof the structure, {wanted} or more",
            if interval.is_null() { "the interval is NULL" } else { "the size is too small" }
        );
        return thread::fail(libc::EINVAL, text);
    }
    let clock = process::ready();
    let found = confirmed::of_page(clock).unwrap_or_else(|| clock.now_utc_interval());
    let filled = VtareUtcInterval {
        size: wanted as u32,
        status: status_code(found.status),
        earliest_ns: found.earliest.as_nanos(),
        latest_ns: found.latest.as_nanos(),
        generation: found.generation,
    };
    // SAFETY: the caller's object is at least as large as ours.
    unsafe { interval.write(filled) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_its_ends_in_order_and_its_generation() {
        let mut found = VtareUtcInterval { size: 32, status: 9, earliest_ns: 1, latest_ns: 0, generation: 0 };
        // SAFETY: the structure lives here and its size is set.
        assert_eq!(unsafe { vtare_now_utc_interval(&raw mut found) }, 0);
        assert!(found.earliest_ns <= found.latest_ns && found.status < 4, "{found:?}");
        let mut generation = 0;
        // SAFETY: the number lives here.
        let _ = unsafe { crate::vtare_now_checked(&raw mut generation) };
        assert!(generation >= found.generation && found.generation > 0);
    }

    #[test]
    fn no_structure_and_a_smaller_one_are_refused() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { vtare_now_utc_interval(core::ptr::null_mut()) }, -1);
        let mut small = VtareUtcInterval { size: 24, status: 9, earliest_ns: 1, latest_ns: 0, generation: 5 };
        // SAFETY: the structure lives here and its size is set.
        assert_eq!(unsafe { vtare_now_utc_interval(&raw mut small) }, -1);
        assert_eq!((small.status, small.generation), (9, 5));
    }
}
