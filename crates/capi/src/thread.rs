//! What a thread keeps between calls: its sleeper, what it asked for, its last sleep and its last error.
//!
//! A sleeper remembers some thousand wake-ups (17 KB). It is put on the heap at the first sleep and freed when the
//! thread ends; in thread-local storage stand a pointer and a flag, so that loading the library costs a thread 16
//! bytes.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::ptr;
use std::alloc::{Layout, alloc, dealloc};

use clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_units::Span;

use crate::errno::set_errno;
use crate::process;
use crate::sleep_result::VtareSleepResult;

/// `enum vtare_sleep_policy`, in its order.
const POLICIES: [Method; 8] = [
    Method::Adaptive,
    Method::ClockNanosleep,
    Method::TwoPhase,
    Method::TwoPhaseCapped,
    Method::Spin,
    Method::Usleep,
    Method::Cheap,
    Method::NeverEarly,
];
/// The same names for C.
const NAMES: [&CStr; POLICIES.len()] =
    [c"adaptive", c"clock_nanosleep", c"two_phase", c"two_phase_capped", c"spin", c"usleep", c"cheap", c"never_early"];
/// What `vtare exec` calls the kernel's own sleep.
const ALIAS: (&CStr, c_int) = (c"os", 1);
const CHOICES: &str =
    "adaptive, clock_nanosleep (or os), two_phase, two_phase_capped, spin, usleep, cheap, never_early";

/// A thread's state.
pub(crate) struct State {
    pub(crate) sleeper: Option<Sleeper<'static>>,
    pub(crate) policy: c_int,
    options: VtareSleepOptions,
    pub(crate) last: Option<VtareSleepResult>,
    error: ErrorText,
}

/// A message of fixed size, so that failing takes no memory.
struct ErrorText {
    text: [u8; 256],
    length: usize,
}

impl ErrorText {
    const fn empty() -> Self {
        Self { text: [0; 256], length: 0 }
    }
}

impl Write for ErrorText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let mut end = part.len().min(self.text.len() - 1 - self.length);
        while !part.is_char_boundary(end) {
            end -= 1;
        }
        let end_all = self.length + end;
        self.text[self.length..end_all].copy_from_slice(&part.as_bytes()[..end]);
        self.length = end_all;
        Ok(())
    }
}

impl State {
    const fn new() -> Self {
        Self { sleeper: None, policy: 0, options: VtareSleepOptions::USUAL, last: None, error: ErrorText::empty() }
    }

    /// This thread's method.
    pub(crate) fn method(&self) -> Method {
        POLICIES.get(self.policy as usize).copied().unwrap_or(Method::Adaptive)
    }

    /// The thread's sleeper, made at the first call.
    #[inline]
    pub(crate) fn sleeper(&mut self) -> &mut Sleeper<'static> {
        let (method, options) = (self.method(), self.options.for_sleeper());
        self.sleeper.get_or_insert_with(|| Sleeper::new(process::ready(), method, options))
    }
}

/// The place of a thread's state. `busy` while the state is in use: a signal handler that sleeps then does without.
struct Slot {
    state: Cell<*mut State>,
    busy: Cell<bool>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let state = self.state.replace(ptr::null_mut());
        if state.is_null() {
            return;
        }
        // SAFETY: the pointer is from `alloc` in `with`, holds a state, and is forgotten here.
        unsafe { ptr::drop_in_place(state) };
        // SAFETY: allocated with this layout.
        unsafe { dealloc(state.cast(), Layout::new::<State>()) };
    }
}

thread_local! {
    static SLOT: Slot = const { Slot { state: Cell::new(ptr::null_mut()), busy: Cell::new(false) } };
}

/// Why a thread's state is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoState {
    /// A signal handler interrupted its use, or the thread is about to end.
    InUse,
    /// No memory for it.
    NoMemory,
}

/// Lets `work` use this thread's state. `work` must not wait in the kernel: the thread could be cancelled there.
#[inline]
pub(crate) fn with<T>(work: impl FnOnce(&mut State) -> T) -> Result<T, NoState> {
    SLOT.try_with(|slot| {
        if slot.busy.replace(true) {
            return Err(NoState::InUse);
        }
        // SAFETY: the pointer holds a state and belongs to this thread, and `busy` keeps other users in this thread
        // away.
        let answer = state_of(slot).map(|state| work(unsafe { &mut *state }));
        slot.busy.set(false);
        answer
    })
    .unwrap_or(Err(NoState::InUse))
}

/// The thread's state, made at the first call; never null.
fn state_of(slot: &Slot) -> Result<*mut State, NoState> {
    if slot.state.get().is_null() {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(Layout::new::<State>()) }.cast::<State>();
        if memory.is_null() {
            return Err(NoState::NoMemory);
        }
        // SAFETY: fresh memory of the right layout.
        unsafe { memory.write(State::new()) };
        slot.state.set(memory);
    }
    Ok(slot.state.get())
}

/// Notes what went wrong for [`vtare_error_message`], sets `errno`, and answers -1.
#[cold]
pub(crate) fn fail(code: c_int, text: fmt::Arguments<'_>) -> c_int {
    // Without a state there is no message, but still an errno.
    let _ = with(|state| {
        state.error = ErrorText::empty();
        // Writing to it never fails: what does not fit is cut.
        let _ = state.error.write_fmt(text);
    });
    set_errno(code);
    -1
}

/// What went wrong in this thread's last call that failed; an empty text where none has.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_error_message() -> *const c_char {
    SLOT.try_with(|slot| {
        let state = slot.state.get();
        // SAFETY: null, or this thread's own state; nobody writes to it during this call.
        unsafe { state.as_ref() }.map_or(c"".as_ptr(), |state| state.error.text.as_ptr().cast())
    })
    .unwrap_or(c"".as_ptr())
}

/// Fails with the error of the reason for which the state is not available.
pub(crate) fn refuse(reason: NoState) -> c_int {
    match reason {
        NoState::NoMemory => fail(libc::ENOMEM, format_args!("no memory for this thread's sleeper")),
        NoState::InUse => fail(libc::EBUSY, format_args!("called from a signal handler that interrupted a vtare call")),
    }
}

/// Sets how this thread sleeps from now on, by `enum vtare_sleep_policy`.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_set_sleep_policy(policy: c_int) -> c_int {
    if usize::try_from(policy).is_ok_and(|index| index < POLICIES.len()) {
        return change(|state| state.policy = policy);
    }
    let last = POLICIES.len() - 1;
    fail(libc::EINVAL, format_args!("unknown sleep policy {policy}: choose a number from 0 to {last} ({CHOICES})"))
}

/// Changes what the sleeper is made of; what it has learned is dropped.
fn change(setting: impl FnOnce(&mut State)) -> c_int {
    let changed = with(|state| {
        setting(state);
        state.sleeper = None;
    });
    changed.map_or_else(refuse, |()| 0)
}

/// Sets how this thread sleeps from now on, by name.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_set_sleep_policy_name(name: *const c_char) -> c_int {
    if name.is_null() {
        return fail(libc::EINVAL, format_args!("no sleep policy given (NULL): choose one of {CHOICES}"));
    }
    // SAFETY: not null, so a C string by the caller's word.
    let name = unsafe { CStr::from_ptr(name) };
    if name == ALIAS.0 {
        return vtare_set_sleep_policy(ALIAS.1);
    }
    match NAMES.iter().position(|known| *known == name) {
        Some(policy) => vtare_set_sleep_policy(policy as c_int),
        None => {
            let found = name.to_str().unwrap_or("(not UTF-8)");
            fail(libc::EINVAL, format_args!("unknown sleep policy `{found:.64}`: choose one of {CHOICES}"))
        }
    }
}

/// How this thread sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_get_sleep_policy() -> c_int {
    with(|state| state.policy).unwrap_or(0)
}

/// The name of a policy; null where there is no such policy.
#[unsafe(no_mangle)]
pub extern "C" fn vtare_sleep_policy_name(policy: c_int) -> *const c_char {
    let known = usize::try_from(policy).ok().and_then(|index| NAMES.get(index));
    known.map_or(ptr::null(), |name| name.as_ptr())
}

/// `struct vtare_sleep_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtareSleepOptions {
    /// The caller's `sizeof`; out: the bytes filled in.
    pub size: u32,
    /// Real-time priority, 1 to 99; 0: none.
    pub fifo_priority: u32,
    /// CPU price of a sleep that ends on time.
    pub cpu_price_ns: u64,
    /// A miss up to this is as good as none.
    pub tolerance_ns: u64,
    /// Timer slack while in the kernel; 0: the thread's own.
    pub slack_ns: u64,
    /// Time slice asked of the scheduler; 0: the thread's own.
    pub slice_ns: u64,
    /// Out: not 0 where the system refused the slice at the last first sleep.
    pub slice_refused: u32,
    /// Out: not 0 where it refused the priority.
    pub fifo_refused: u32,
    /// The share of a CPU that the cheap method may take, in millionths. Programs built before it was added have
    /// structures that end above.
    pub cpu_share_ppm: u32,
    /// 0.
    pub reserved: u32,
}

impl VtareSleepOptions {
    /// What a thread begins with: the sleeper's own defaults, as a test makes sure.
    const USUAL: Self = Self {
        size: size_of::<Self>() as u32,
        fifo_priority: 0,
        cpu_price_ns: 2_000_000,
        tolerance_ns: 0,
        slack_ns: 1,
        slice_ns: 100_000,
        slice_refused: 0,
        fifo_refused: 0,
        cpu_share_ppm: 10_000,
        reserved: 0,
    };

    fn for_sleeper(self) -> SleepOptions {
        let span = |nanos: u64| Span::from_unsigned_nanos(nanos);
        #[allow(clippy::needless_update, reason = "options to come keep their defaults")]
        SleepOptions {
            cpu_share: f64::from(self.cpu_share_ppm) / 1e6,
            lambda: span(self.cpu_price_ns),
            tolerance: span(self.tolerance_ns),
            slack: (self.slack_ns > 0).then(|| span(self.slack_ns)),
            slice: (self.slice_ns > 0).then(|| span(self.slice_ns)),
            fifo: (self.fifo_priority > 0).then_some(self.fifo_priority.cast_signed()),
            ..SleepOptions::default()
        }
    }

    /// The first field out of range: its name, its value, and what to use instead.
    fn wrong(self) -> Option<(&'static str, u64, &'static str)> {
        const MOST: u64 = i64::MAX as u64;
        let slices = 100_000..=100_000_000;
        [
            (self.fifo_priority <= 99, "fifo_priority", self.fifo_priority.into(), "0 (none) to 99"),
            ((1..=MOST).contains(&self.cpu_price_ns), "cpu_price_ns", self.cpu_price_ns, "1 to 2^63 - 1"),
            (self.tolerance_ns <= MOST, "tolerance_ns", self.tolerance_ns, "0 to 2^63 - 1"),
            (
                (1..=1_000_000).contains(&self.cpu_share_ppm),
                "cpu_share_ppm",
                self.cpu_share_ppm.into(),
                "1 to 1000000 (a whole CPU)",
            ),
            (self.slack_ns <= MOST, "slack_ns", self.slack_ns, "0 (the thread's own) to 2^63 - 1"),
            (
                self.slice_ns == 0 || slices.contains(&self.slice_ns),
                "slice_ns",
                self.slice_ns,
                "0 (the thread's own), or 100000 to 100000000",
            ),
        ]
        .into_iter()
        .find_map(|(right, name, found, wanted)| (!right).then_some((name, found, wanted)))
    }
}

/// The bytes of the caller's structure that both know.
fn common_size(options: *const VtareSleepOptions) -> Result<usize, c_int> {
    /// The structure's size in the library's first version.
    const LEAST: usize = core::mem::offset_of!(VtareSleepOptions, cpu_share_ppm);
    if options.is_null() {
        return Err(fail(libc::EINVAL, format_args!("no vtare_sleep_options given (NULL): pass a structure")));
    }
    // SAFETY: not null; the caller states that it points to the structure, whose first field is the size.
    let size = unsafe { options.cast::<u32>().read() } as usize;
    if size < LEAST {
        let text =
            format_args!("vtare_sleep_options.size is {size}: use sizeof(struct vtare_sleep_options), {LEAST} or more");
        return Err(fail(libc::EINVAL, text));
    }
    Ok(size.min(size_of::<VtareSleepOptions>()))
}

/// This thread's options for its sleeps.
///
/// # Safety
/// `options` is null or points to a writable object whose first field is its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_get_sleep_options(options: *mut VtareSleepOptions) -> c_int {
    let size = match common_size(options) {
        Ok(size) => size,
        Err(refused) => return refused,
    };
    let found = with(|state| {
        let refused = state.sleeper.as_ref().map(Sleeper::refused).unwrap_or_default();
        VtareSleepOptions {
            size: size as u32,
            slice_refused: refused.slice.into(),
            fifo_refused: refused.fifo.into(),
            ..state.options
        }
    });
    match found {
        Ok(found) => {
            // SAFETY: both objects have at least `size` bytes; ours is a copy of its own.
            unsafe { ptr::copy_nonoverlapping((&raw const found).cast::<u8>(), options.cast(), size) };
            0
        }
        Err(reason) => refuse(reason),
    }
}

/// Sets this thread's options for its sleeps.
///
/// # Safety
/// `options` is null or points to an object whose first field is its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_set_sleep_options(options: *const VtareSleepOptions) -> c_int {
    let size = match common_size(options) {
        Ok(size) => size,
        Err(refused) => return refused,
    };
    // What the caller's structure does not have yet keeps its usual value.
    let mut asked = VtareSleepOptions::USUAL;
    // SAFETY: both objects have at least `size` bytes; every pattern of bits is a value of these fields.
    unsafe { ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut asked).cast(), size) };
    if let Some((name, found, wanted)) = asked.wrong() {
        return fail(libc::EINVAL, format_args!("vtare_sleep_options.{name} is {found}: use {wanted}"));
    }
    change(|state| state.options = VtareSleepOptions { size: VtareSleepOptions::USUAL.size, ..asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> String {
        // SAFETY: the call answers a C string.
        unsafe { CStr::from_ptr(vtare_error_message()) }.to_str().expect("messages are UTF-8").to_owned()
    }

    #[test]
    fn every_method_has_a_number_and_the_name_it_has_elsewhere() {
        for method in Method::ALL {
            let index = POLICIES.iter().position(|known| *known == method).expect("a number in POLICIES");
            assert_eq!(NAMES[index].to_str(), Ok(method.name()));
        }
        assert_eq!(POLICIES[ALIAS.1 as usize], Method::ClockNanosleep);
        assert_eq!(VtareSleepOptions::USUAL.for_sleeper(), SleepOptions::default());
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_choices_and_changes_nothing() {
        assert_eq!(vtare_set_sleep_policy(4), 0);
        // SAFETY: a C string.
        assert_eq!(unsafe { vtare_set_sleep_policy_name(c"nap".as_ptr()) }, -1);
        assert_eq!(crate::errno::errno(), libc::EINVAL);
        assert!(message().contains("`nap`") && message().contains("two_phase_capped"), "{}", message());
        assert_eq!(vtare_set_sleep_policy(-1), -1);
        assert_eq!(vtare_set_sleep_policy(8), -1);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { vtare_set_sleep_policy_name(ptr::null()) }, -1);
        let free = VtareSleepOptions { cpu_price_ns: 0, ..VtareSleepOptions::USUAL };
        // SAFETY: a live structure whose size field is set.
        assert_eq!(unsafe { vtare_set_sleep_options(&raw const free) }, -1);
        assert!(message().contains("cpu_price_ns is 0: use 1"), "{}", message());
        assert_eq!(vtare_get_sleep_policy(), 4);
    }

    #[test]
    fn a_structure_without_the_later_fields_is_taken_and_those_keep_their_usual_values() {
        let first = core::mem::offset_of!(VtareSleepOptions, cpu_share_ppm) as u32;
        let asked = VtareSleepOptions { size: first, tolerance_ns: 70, cpu_share_ppm: 5, ..VtareSleepOptions::USUAL };
        // SAFETY: a live structure whose size field is set.
        assert_eq!(unsafe { vtare_set_sleep_options(&raw const asked) }, 0);
        let mut found = VtareSleepOptions { size: first, cpu_share_ppm: 6, ..VtareSleepOptions::USUAL };
        // SAFETY: a live structure whose size field is set.
        assert_eq!(unsafe { vtare_get_sleep_options(&raw mut found) }, 0);
        assert_eq!((found.size, found.tolerance_ns, found.cpu_share_ppm), (first, 70, 6));
        found.size = VtareSleepOptions::USUAL.size;
        // SAFETY: a live structure whose size field is set.
        assert_eq!(unsafe { vtare_get_sleep_options(&raw mut found) }, 0);
        assert_eq!(found.cpu_share_ppm, VtareSleepOptions::USUAL.cpu_share_ppm);
    }

    #[test]
    fn a_message_too_long_for_its_place_is_cut_at_a_character() {
        assert_eq!(fail(libc::EINVAL, format_args!("{}", "\u{e4}".repeat(300))), -1);
        assert_eq!(message(), "\u{e4}".repeat(127));
    }

    #[test]
    fn a_state_in_use_is_not_given_out_twice() {
        let inner = with(|_| with(|_| ())).expect("free at first");
        assert_eq!(inner, Err(NoState::InUse));
        assert_eq!(with(|_| ()), Ok(()));
    }
}
