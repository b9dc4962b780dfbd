//! UTC as witnesses confirm it, for C.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::path::Path;

use clock::{Unconfirmed, UtcInterval, UtcStatus};
use vtare_control::PresharedKey;
use vtare_witness::{PageReader, WITNESSES_VARIABLE, WitnessError, Witnesses, page_path};

use crate::{process, thread};

/// `struct vtare_utc_confirmed`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VtareUtcConfirmed {
    /// In: the caller's `sizeof`. Out: the bytes filled in.
    pub size: u32,
    /// Hosts whose statements count.
    pub hosts: u32,
    /// No later than UTC at the return.
    pub earliest_ns: u64,
    /// No earlier than UTC at the call.
    pub latest_ns: u64,
    /// The generation of this machine's clock at the return.
    pub generation: u64,
    /// How long the call took.
    pub round_trip_ns: u64,
    /// Hosts that may be wrong.
    pub liars: u32,
    /// Witnesses that do not count.
    pub same_host: u32,
    /// Hosts that can be stopped unseen.
    pub stoppable: u32,
    /// 0.
    pub reserved: u32,
}

// No locks: a child that is forked while another thread holds one would wait for ever. What is replaced stays in
// memory, since others may be using it.
static WITNESSES: AtomicPtr<Witnesses> = AtomicPtr::new(ptr::null_mut());
static PAGE: AtomicPtr<PageReader> = AtomicPtr::new(ptr::null_mut());
static PAGE_IS_LOOKED_FOR: AtomicBool = AtomicBool::new(false);

fn set(list: &str, file: Option<&Path>) -> Result<&'static Witnesses, String> {
    let key = PresharedKey::of_file_or_variable(file).map_err(|error| error.to_string())?;
    let found: &'static mut Witnesses =
        Box::leak(Box::new(Witnesses::new(list, key.as_ref()).map_err(|error| error.to_string())?));
    WITNESSES.store(found, Ordering::Release);
    Ok(found)
}

/// The witnesses of this process; those of the environment where none were set.
fn witnesses() -> Result<&'static Witnesses, String> {
    // SAFETY: the pointer is null, or it was leaked in `set` and is never freed.
    if let Some(found) = unsafe { WITNESSES.load(Ordering::Acquire).as_ref() } {
        return Ok(found);
    }
    match std::env::var(WITNESSES_VARIABLE) {
        Ok(list) => set(&list, None),
        Err(_) => Err(format!("no witnesses: call vtare_clock_witness, or set {WITNESSES_VARIABLE}=HOST:PORT,...")),
    }
}

/// Names the witnesses of this process.
///
/// # Safety
/// Both are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_clock_witness(witnesses: *const c_char, key_file: *const c_char) -> c_int {
    let text = |at: *const c_char| {
        // SAFETY: the caller states that it is a C string where it is not null.
        (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
    };
    let (list, file) = (text(witnesses), text(key_file));
    let list = list.or_else(|| std::env::var(WITNESSES_VARIABLE).ok()).unwrap_or_default();
    match set(&list, file.as_deref().map(Path::new)) {
        Ok(_) => 0,
        Err(error) => thread::fail(libc::EINVAL, format_args!("vtare_clock_witness: {error}")),
    }
}

/// Asks the witnesses for UTC.
///
/// # Safety
/// `confirmed` is null or points to a writable object whose first field is its size in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_now_utc_confirmed(confirmed: *mut VtareUtcConfirmed) -> c_int {
    let wanted = size_of::<VtareUtcConfirmed>();
    // SAFETY: null, or the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { confirmed.cast::<u32>().as_ref() }.map_or(0, |size| *size as usize);
    if size < wanted {
        let text = format_args!(
            "vtare_now_utc_confirmed: the size is {size}: pass a structure whose size is sizeof the structure, \
             {wanted} or more"
        );
        return thread::fail(libc::EINVAL, text);
    }
    let fail =
        |code, error: &dyn core::fmt::Display| thread::fail(code, format_args!("vtare_now_utc_confirmed: {error}"));
    let found = match witnesses() {
        Ok(witnesses) => witnesses.confirm(process::ready()),
        Err(error) => return fail(libc::EINVAL, &error),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let code = match &error {
                WitnessError::Unconfirmed(Unconfirmed::Silent { .. }) => libc::ETIMEDOUT,
                WitnessError::Unconfirmed(Unconfirmed::Contradiction { .. }) => libc::EAGAIN,
                WitnessError::System(source) => source.raw_os_error().unwrap_or(libc::EIO),
                _ => libc::EINVAL,
            };
            return fail(code, &error);
        }
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let filled = VtareUtcConfirmed {
        size: wanted as u32,
        hosts: count(found.confirmed.hosts),
        earliest_ns: found.confirmed.earliest.as_nanos(),
        latest_ns: found.confirmed.latest.as_nanos(),
        generation: found.generation,
        round_trip_ns: found.round_trip.as_nanos_unsigned(),
        liars: count(found.confirmed.liars),
        same_host: count(found.confirmed.same_host),
        stoppable: count(found.confirmed.stoppable),
        reserved: 0,
    };
    // SAFETY: the caller's object is at least as large as ours.
    unsafe { confirmed.write(filled) };
    0
}

/// UTC by the page that `vtare clock` keeps; `None` where there is no page, or nobody keeps it.
#[inline]
pub(crate) fn of_page(clock: &clock::Clock) -> Option<UtcInterval> {
    // SAFETY: the pointer is null, or it was leaked in `look_for_page` and is never freed.
    let page = match unsafe { PAGE.load(Ordering::Acquire).as_ref() } {
        None if PAGE_IS_LOOKED_FOR.load(Ordering::Acquire) => return None,
        None => look_for_page()?,
        Some(page) => page,
    };
    Some(page.interval(clock)).filter(|found| found.status != UtcStatus::Unknown)
}

/// Opens the page. Threads that come at once each do.
#[cold]
fn look_for_page() -> Option<&'static PageReader> {
    let found = PageReader::open(&page_path()).ok().map(|page| Box::leak(Box::new(page)));
    if let Some(page) = found {
        PAGE.store(page, Ordering::Release);
    }
    PAGE_IS_LOOKED_FOR.store(true, Ordering::Release);
    // SAFETY: as in `of_page`.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_asked_is_refused_with_its_reason() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { vtare_now_utc_confirmed(core::ptr::null_mut()) }, -1);
        // SAFETY: a C string, and null.
        assert_eq!(unsafe { vtare_clock_witness(c"127.0.0.1:x".as_ptr(), core::ptr::null()) }, -1);
        // SAFETY: as above. Nobody listens on the discard port.
        assert_eq!(unsafe { vtare_clock_witness(c"127.0.0.1:9".as_ptr(), core::ptr::null()) }, 0);
        let mut found = VtareUtcConfirmed { size: 64, hosts: 7, ..VtareUtcConfirmed::default() };
        // SAFETY: the structure lives here and its size is set.
        assert_eq!(unsafe { vtare_now_utc_confirmed(&raw mut found) }, -1);
        assert_eq!((crate::errno::errno(), found.hosts), (libc::ETIMEDOUT, 7));
        // SAFETY: a C string of this thread.
        let message = unsafe { CStr::from_ptr(crate::vtare_error_message()) }.to_string_lossy();
        assert!(message.contains("too few hosts stated UTC: 0, needed 1"), "{message}");
    }
}
