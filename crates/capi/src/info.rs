//! What the clock reports of itself: as a structure, and in full as JSON.

use core::ffi::{c_char, c_int};
use core::ptr;

use clock::renew::STEER_LIMIT_PPM;
use clock::{ClockInfo, Event, ReadPath};

use crate::{process, start, thread};

/// `struct vtare_clock_info`. A figure that is not known is NaN, never 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtareClockInfo {
    /// In: the caller's `sizeof`. Out: the bytes filled in.
    pub size: u32,
    /// [`crate::vtare_clock_abi_version`].
    pub abi_version: u32,
    /// `enum vtare_path`.
    pub path: u32,
    /// Whether readings come from the counter.
    pub trusted: u32,
    /// The greatest difference from CLOCK_MONOTONIC at this moment, in ns.
    pub error_bound_ns: f64,
    /// The cost of one `vtare_now_ns`, in ns.
    pub read_cost_ns: f64,
    /// The smallest step, in ns.
    pub quantum_ns: f64,
    /// The counter's frequency.
    pub frequency_hz: f64,
    /// The greatest error of the counter's rate, in ppm.
    pub rate_error_ppm: f64,
    /// How long calibration took, in ns.
    pub calibration_ns: f64,
    /// Time since the last comparison with the kernel's clock, in ns.
    pub anchor_age_ns: f64,
    /// What that comparison found: the kernel's clock minus this one, in ns.
    pub anchor_error_ns: f64,
    /// Half of the range that it leaves, in ns.
    pub anchor_half_width_ns: f64,
    /// The least offset between the counters of two CPUs, in ns.
    pub cross_core_low_ns: f64,
    /// The greatest.
    pub cross_core_high_ns: f64,
    /// The kernel's own multiplier, or 0.
    pub kernel_mult: u32,
    /// Its shift.
    pub kernel_shift: u32,
    /// How often the machine was suspended.
    pub events_suspended: u64,
    /// How often the hypervisor moved or restored the guest.
    pub events_migrated: u64,
    /// How often the kernel changed its clock source.
    pub events_clock_source_changed: u64,
    /// How often the line was begun anew.
    pub events_seated: u64,
    /// How often counter and kernel went apart.
    pub events_rate_broken: u64,
    /// How often the counter was given up.
    pub events_given_up: u64,
    /// `tsc`, `cntvct` or `os`.
    pub source: [c_char; 16],
    /// The decisive reason for that, cut to fit.
    pub reason: [c_char; 240],
    /// How often the kernel's unsteered clock contradicted the calibrated rate.
    pub events_rate_contradicted: u64,
}

/// Bytes of the structure in the first release; callers built with it pass this size. Later fields come after it.
const FIRST_BYTE: usize = core::mem::offset_of!(VtareClockInfo, events_rate_contradicted);

/// The greatest difference between an ordered reading and CLOCK_MONOTONIC at the time of `info`, in ns.
pub(crate) fn error_bound_ns(info: &ClockInfo) -> f64 {
    match info.path {
        // Both are the kernel's own arithmetic.
        ReadPath::KernelPage | ReadPath::Vdso => 0.0,
        ReadPath::Line => {
            let found = info.anchor_error_ns.map_or(0.0, |error| error.unsigned_abs() as f64);
            let width = 2.0 * info.anchor_half_width_ns.unwrap_or(0.0);
            let age = info.anchor_age_ns.map_or(0.0, |age| age.unsigned_abs() as f64);
            // The kernel may have begun to steer the other way since.
            let rate = info.residual_ppm.unwrap_or(0.0) + STEER_LIMIT_PPM;
            // One more for rounding down on either side.
            found + width + age * rate * 1e-6 + 1.0
        }
    }
}

fn path_code(path: ReadPath) -> u32 {
    match path {
        ReadPath::KernelPage => 0,
        ReadPath::Line => 1,
        ReadPath::Vdso => 2,
    }
}

/// `text` as a C string in a field, cut at a character where it does not fit.
fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text[..end].bytes().filter(|byte| *byte != 0)) {
        *to = from as c_char;
    }
    out
}

impl VtareClockInfo {
    fn new(info: &ClockInfo) -> Self {
        let known = |figure: Option<f64>| figure.unwrap_or(f64::NAN);
        let whole = |figure: Option<i64>| figure.map_or(f64::NAN, |figure| figure as f64);
        let events =
            |event: Event| info.events.iter().find(|counted| counted.event == event).map_or(0, |counted| counted.count);
        Self {
            size: size_of::<Self>() as u32,
            abi_version: start::ABI_VERSION,
            path: path_code(info.path),
            trusted: u32::from(info.trusted),
            error_bound_ns: error_bound_ns(info),
            read_cost_ns: info.read_cost_ns,
            quantum_ns: known(info.quantum_ns),
            frequency_hz: known(info.frequency_hz),
            rate_error_ppm: known(info.residual_ppm),
            calibration_ns: whole(info.calibration_ns),
            anchor_age_ns: whole(info.anchor_age_ns),
            anchor_error_ns: whole(info.anchor_error_ns),
            anchor_half_width_ns: known(info.anchor_half_width_ns),
            cross_core_low_ns: known(info.cross_core.map(|found| found.low_ns)),
            cross_core_high_ns: known(info.cross_core.map(|found| found.high_ns)),
            kernel_mult: info.exact_multiplier.map_or(0, |exact| exact.mult),
            kernel_shift: info.exact_multiplier.map_or(0, |exact| exact.shift),
            events_suspended: events(Event::Suspended),
            events_migrated: events(Event::Migrated),
            events_clock_source_changed: events(Event::ClockSourceChanged),
            events_seated: events(Event::Seated),
            events_rate_broken: events(Event::RateBroken),
            events_given_up: events(Event::GivenUp),
            source: field(info.source),
            reason: field(info.reasons.first().map_or("", String::as_str)),
            events_rate_contradicted: events(Event::RateContradicted),
        }
    }
}

/// Fills in the account of the clock, as far as the caller's structure reaches, and how many bytes that are.
///
/// # Safety
/// `info` is null or points to a writable object, aligned as the structure, whose first field is its size in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_clock_info(info: *mut VtareClockInfo) -> c_int {
    if info.is_null() {
        return thread::fail(libc::EINVAL, format_args!("vtare_clock_info(NULL): pass a structure to be filled in"));
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { info.cast::<u32>().read() } as usize;
    if size < FIRST_BYTE {
        let text =
            format_args!("vtare_clock_info.size is {size}: use sizeof(struct vtare_clock_info), {FIRST_BYTE} or more");
        return thread::fail(libc::EINVAL, text);
    }
    let mut filled = VtareClockInfo::new(&process::ready().info());
    // Programs built with another release have a shorter or a longer structure.
    let filled_byte = size.min(size_of::<VtareClockInfo>());
    filled.size = filled_byte as u32;
    // SAFETY: both objects have at least `filled_byte` bytes; `filled` lives on our stack, so they do not overlap.
    unsafe { ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), info.cast(), filled_byte) };
    0
}

/// Writes the clock's account of itself as JSON and answers its length without the NUL, as `snprintf` does.
///
/// # Safety
/// `buffer` has room for `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_clock_info_json(buffer: *mut c_char, size: usize) -> i64 {
    let Ok(mut text) = serde_json::to_vec(&process::ready().info()) else {
        return thread::fail(libc::EINVAL, format_args!("the clock's account could not be written as JSON")).into();
    };
    let length = text.len() as i64;
    if size > 0 && !buffer.is_null() {
        text.truncate(size - 1);
        text.push(0);
        // SAFETY: `text` now holds at most `size` bytes, for which the caller states there is room.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::{Clock, ClockOptions, SourceChoice};

    #[test]
    fn a_text_that_does_not_fit_is_cut_at_a_character_and_ends_in_nul() {
        assert_eq!(field::<4>("ab"), [97, 98, 0, 0]);
        assert_eq!(field::<4>("abcdef"), [97, 98, 99, 0]);
        assert_eq!(field::<4>("ab\u{e4}"), [97, 98, 0, 0]);
    }

    #[test]
    fn the_bound_on_a_line_grows_with_age_and_with_what_was_found() {
        let clock = Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() });
        let mut info = clock.info();
        if info.path != ReadPath::Line {
            return;
        }
        info.anchor_error_ns = None;
        info.anchor_age_ns = Some(0);
        let young = error_bound_ns(&info);
        assert!(young >= 1.0);
        info.anchor_age_ns = Some(1_000_000_000);
        let old = error_bound_ns(&info);
        assert!(old >= young + 1e6, "1,100 ppm of a second are more than 1 ms: {young} {old}");
        info.anchor_error_ns = Some(-250);
        assert!((error_bound_ns(&info) - old - 250.0).abs() < 1e-6);
    }

    #[test]
    fn readings_on_a_line_lie_within_the_stated_bound_too() {
        let clock = Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() });
        let kernel = || vtare_sys::clocks::now::<vtare_units::Monotonic>().as_nanos();
        let mut bound = error_bound_ns(&clock.info());
        for _ in 0..2_000 {
            let before = kernel();
            let ours = clock.now_ordered().as_nanos();
            let after = kernel();
            // The line may have been renewed since the bound was asked for.
            let next = error_bound_ns(&clock.info());
            let margin = bound.max(next).ceil() as u64;
            assert!((before - margin..=after + margin).contains(&ours), "{before} {ours} {after} +- {margin}");
            bound = next;
        }
    }

    /// Asks for the structure with this size, with room for more behind it; `size` and the bytes from there on.
    fn asked(size: usize) -> (c_int, u32, Vec<u8>) {
        const UNTOUCHED: u8 = 0xa5;
        // Words, which are aligned as the structure is.
        let mut room = [u64::from_ne_bytes([UNTOUCHED; 8]); size_of::<VtareClockInfo>() / 8 + 8];
        let [a, b, c, d] = (size as u32).to_ne_bytes();
        room[0] = u64::from_ne_bytes([a, b, c, d, UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED]);
        // SAFETY: the room is larger than the structure, and its first four bytes are the size.
        let answer = unsafe { vtare_clock_info(room.as_mut_ptr().cast()) };
        let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let filled = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert!(bytes[size.max(4)..].iter().all(|byte| *byte == UNTOUCHED), "bytes behind the caller's structure");
        (answer, filled, bytes[..size].to_vec())
    }

    #[test]
    fn a_program_built_with_the_first_release_gets_what_it_knows_and_no_byte_more() {
        let (answer, filled, bytes) = asked(FIRST_BYTE);
        assert_eq!((answer, filled as usize), (0, FIRST_BYTE), "{:?}", crate::errno::errno());
        assert_ne!(bytes[FIRST_BYTE - 240], 0xa5, "the reason was filled in");
        assert_eq!(asked(FIRST_BYTE - 1).0, -1, "smaller than any release");
    }

    #[test]
    fn a_program_built_with_a_later_release_sees_how_much_was_filled_in() {
        let own = size_of::<VtareClockInfo>();
        let (answer, filled, bytes) = asked(own + 16);
        assert_eq!((answer, filled as usize), (0, own));
        assert_eq!(bytes[own..], [0xa5; 16]);
    }

    #[test]
    fn a_contradicted_rate_is_counted_in_the_structure() {
        let mut info = Clock::start(&ClockOptions::fast()).info();
        info.events = vec![clock::EventCount { event: Event::RateContradicted, count: 3 }];
        let found = VtareClockInfo::new(&info);
        assert_eq!((found.events_rate_contradicted, found.events_rate_broken), (3, 0));
    }

    #[test]
    fn what_the_system_clock_does_not_have_is_not_a_number() {
        let clock = Clock::start(&ClockOptions { source: SourceChoice::Os, ..ClockOptions::fast() });
        let info = VtareClockInfo::new(&clock.info());
        assert_eq!((info.path, info.trusted), (2, 0));
        assert!(info.anchor_age_ns.is_nan() && info.cross_core_low_ns.is_nan());
        assert_eq!(info.error_bound_ns, 0.0);
        assert_ne!(info.reason[0], 0, "a reason is given");
    }
}
