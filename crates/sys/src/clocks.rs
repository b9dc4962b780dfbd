//! The kernel's clocks, and sleeping on them.

use vtare_units::{Clock, Monotonic, MonotonicRaw, Span, ThreadCpu, Timestamp, Wall};

use crate::{SysError, kernel_file};

/// A clock that the kernel knows by a number.
pub trait KernelClock: Clock {
    /// The clock's number for `clock_gettime`.
    const ID: libc::clockid_t;
}

impl KernelClock for Monotonic {
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC;
}
impl KernelClock for MonotonicRaw {
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
}
impl KernelClock for Wall {
    const ID: libc::clockid_t = libc::CLOCK_REALTIME;
}
impl KernelClock for ThreadCpu {
    const ID: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
}

#[inline(always)]
fn read(id: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux this builds for, and `at` is a live timespec; so the call cannot fail.
    unsafe { libc::clock_gettime(id, &raw mut at) };
    nanos(at)
}

#[inline(always)]
fn nanos(at: libc::timespec) -> u64 {
    (at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64)
}

/// Reads clock `C` through the C library, so through the vDSO where the kernel offers that.
#[inline(always)]
#[must_use]
pub fn now<C: KernelClock>() -> Timestamp<C> {
    Timestamp::from_nanos(read(C::ID))
}

/// Reads the coarse form of CLOCK_MONOTONIC: the time of the last timer tick, up to one tick (1/HZ) old.
#[inline(always)]
#[must_use]
pub fn now_coarse() -> Timestamp<Monotonic> {
    Timestamp::from_nanos(read(libc::CLOCK_MONOTONIC_COARSE))
}

/// Reads CLOCK_MONOTONIC with a real system call, past the vDSO.
#[inline(always)]
#[must_use]
pub fn now_syscall() -> Timestamp<Monotonic> {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `read`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut at) };
    Timestamp::from_nanos(nanos(at))
}

/// Reads wall time with `gettimeofday`, in whole microseconds.
#[inline(always)]
#[must_use]
pub fn now_gettimeofday() -> Timestamp<Wall> {
    let mut at = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `at` is a live timeval and the time zone may be null.
    unsafe { libc::gettimeofday(&raw mut at, core::ptr::null_mut()) };
    Timestamp::from_nanos((at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_usec as u64 * 1_000))
}

/// Time since boot with the time spent in suspend (CLOCK_BOOTTIME), in ns. It runs ahead of [`Monotonic`] by the time
/// suspended.
#[must_use]
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// International atomic time (CLOCK_TAI), in ns since 1970: wall time without leap seconds, as far as the system
/// knows them.
#[must_use]
pub fn tai_ns() -> u64 {
    read(libc::CLOCK_TAI)
}

/// How far CLOCK_REALTIME is ahead of CLOCK_BOOTTIME, in ns: the least and the most it can be. Both are steered alike
/// and go on in a suspend, so it changes only where wall time is set, or by a leap second.
#[must_use]
pub fn wall_ahead_of_boottime_ns() -> (i64, i64) {
    let bracket = || {
        let before = boottime_ns();
        let wall = read(Wall::ID);
        let after = boottime_ns();
        (wall.wrapping_sub(after).cast_signed(), wall.wrapping_sub(before).cast_signed())
    };
    // The shortest of a few: between two readings a thread can wait for its CPU.
    (0..4).map(|_| bracket()).min_by_key(|(least, most)| most - least).unwrap_or_else(bracket)
}

/// What an NTP daemon states of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NtpState {
    /// A daemon states that the clock is synchronized.
    pub synchronized: bool,
    /// The greatest error against UTC.
    pub max_error: Span,
    /// The greatest drift, in ppm.
    pub tolerance_ppm: f64,
    /// A leap second is due or in progress.
    pub leap: bool,
}

/// Asks the kernel (adjtimex, which changes nothing here); `None` where it refuses to answer.
#[must_use]
pub fn ntp_state() -> Option<NtpState> {
    // SAFETY: a timex is plain numbers; all zero means: change nothing.
    let mut found: libc::timex = unsafe { core::mem::zeroed() };
    // SAFETY: the address of this thread's errno is valid as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { errno.read() };
    // SAFETY: `found` is live and may be written.
    let state = unsafe { libc::adjtimex(&raw mut found) };
    // SAFETY: as above.
    unsafe { errno.write(kept) };
    (state >= 0).then(|| NtpState {
        synchronized: found.status & libc::STA_UNSYNC == 0 && state != libc::TIME_ERROR,
        max_error: Span::from_micros(found.maxerror),
        // In units of 2^-16 ppm.
        tolerance_ppm: found.tolerance as f64 / 65_536.0,
        leap: found.status & (libc::STA_INS | libc::STA_DEL) != 0
            || matches!(state, libc::TIME_INS | libc::TIME_DEL | libc::TIME_OOP | libc::TIME_WAIT),
    })
}

/// Time this machine has spent suspended since boot: [`boottime_ns`] minus CLOCK_MONOTONIC, to about a microsecond. A
/// thread that does not run between two of these readings reads again.
#[must_use]
pub fn suspended() -> Span {
    let (mut narrowest, mut found) = (u64::MAX, 0);
    for _ in 0..8 {
        let before = now::<Monotonic>().as_nanos();
        let boot = boottime_ns();
        let width = now::<Monotonic>().as_nanos().wrapping_sub(before);
        if width < narrowest {
            (narrowest, found) = (width, boot.wrapping_sub(before + width / 2).cast_signed());
        }
        if narrowest < 2_000 {
            break;
        }
    }
    Span::from_nanos(found)
}

/// The clock source that the kernel keeps time by (`tsc`, `kvm-clock`, `hpet`, ...); `None` where /sys does not show
/// it.
#[must_use]
pub fn kernel_clock_source() -> Option<String> {
    let text = kernel_file::text("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Whether the kernel still keeps time by the clock source `name`; `None` where /sys does not show it. Takes some
/// microseconds and, unlike [`kernel_clock_source`], no memory, and leaves `errno` as it was: it may run inside a
/// reading of the clock, in a signal handler too.
#[must_use]
pub fn kernel_clock_source_is(name: &str) -> Option<bool> {
    const PATH: &core::ffi::CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // SAFETY: the address of this thread's errno is valid as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { errno.read() };
    let mut text = [0_u8; 64];
    // A pipe in its place is not waited for.
    const FLAGS: libc::c_int = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // System calls as such: the C library's functions are points where a thread may be cancelled.
    // SAFETY: the path is a C string that lives for ever.
    let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, PATH.as_ptr(), FLAGS) };
    let mut length = -1;
    if file >= 0 {
        // SAFETY: the buffer is live and of the length given.
        length = unsafe { libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len()) };
        // SAFETY: the descriptor was opened above and is closed once.
        unsafe { libc::syscall(libc::SYS_close, file) };
    }
    // SAFETY: as above.
    unsafe { errno.write(kept) };
    let read = text.get(..usize::try_from(length).ok()?)?;
    Some(read.trim_ascii_end() == name.as_bytes())
}

/// How a kernel sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepEnd {
    /// The deadline passed.
    Reached,
    /// A signal handler ran before it.
    Interrupted,
}

/// Sleeps in the kernel until `deadline` (`clock_nanosleep`, CLOCK_MONOTONIC, TIMER_ABSTIME).
///
/// # Errors
/// Where the kernel refuses the deadline (beyond year 292 billion: EINVAL).
#[inline]
pub fn sleep_until(deadline: Timestamp<Monotonic>) -> Result<SleepEnd, SysError> {
    let (seconds, nanos) = deadline.split();
    let at = libc::timespec { tv_sec: seconds as libc::time_t, tv_nsec: libc::c_long::from(nanos) };
    // SAFETY: `at` is a live timespec; with TIMER_ABSTIME the remainder is not written.
    let error = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, core::ptr::null_mut())
    };
    match error {
        0 => Ok(SleepEnd::Reached),
        libc::EINTR => Ok(SleepEnd::Interrupted),
        code => Err(SysError::Call {
            call: format!("clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, {deadline:?})"),
            source: std::io::Error::from_raw_os_error(code),
            remedy: "",
        }),
    }
}

/// Sleeps as `usleep` does: relative, in whole microseconds rounded up.
///
/// # Errors
/// Where the C library refuses the span.
#[inline]
pub fn usleep(span: Span) -> Result<SleepEnd, SysError> {
    let micros = span.as_nanos_unsigned().div_ceil(1_000);
    let micros = libc::useconds_t::try_from(micros).unwrap_or(libc::useconds_t::MAX);
    // SAFETY: takes a number only.
    if unsafe { libc::usleep(micros) } == 0 {
        return Ok(SleepEnd::Reached);
    }
    let error = SysError::last(format!("usleep({micros})"), "");
    if error.errno() == Some(libc::EINTR) { Ok(SleepEnd::Interrupted) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_move_forward_and_the_call_and_the_vdso_read_one_clock() {
        let before = now::<Monotonic>();
        let within = now_syscall();
        let after = now::<Monotonic>();
        assert!(before <= within && within <= after);
        assert!(now_coarse() <= now::<Monotonic>());
    }

    #[test]
    fn the_clock_source_is_the_one_that_is_named_and_no_other() {
        let Some(name) = kernel_clock_source() else { return };
        assert_eq!(kernel_clock_source_is(&name), Some(true));
        assert_eq!(kernel_clock_source_is("sundial"), Some(false));
        assert_eq!(kernel_clock_source_is(""), Some(false));
    }

    #[test]
    fn the_kernel_states_an_error_and_a_drift_or_refuses() {
        if let Some(state) = ntp_state() {
            assert!(state.max_error >= Span::ZERO && (1.0..10_000.0).contains(&state.tolerance_ppm), "{state:?}");
        }
    }

    #[test]
    fn a_sleep_never_ends_before_its_deadline() {
        let deadline = now::<Monotonic>() + Span::from_micros(50);
        assert_eq!(sleep_until(deadline).expect("a near deadline is accepted"), SleepEnd::Reached);
        assert!(now::<Monotonic>() >= deadline);
    }
}
