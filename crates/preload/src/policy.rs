//! Which calls are the library's and which are the kernel's: pure decisions.

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, TIMER_ABSTIME, c_int, clockid_t};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::settings::ClockChoice;

/// Sleeps longer than this go to the kernel: nobody waits a year for a microsecond, and the sums stay far from
/// overflow.
const LONGEST: Span = Span::from_secs(366 * 86_400);

/// What to do with a call that wants to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Hand it to the C library unchanged.
    Pass,
    /// Sleep until then.
    Until(Timestamp<Monotonic>),
}

/// Decides on a sleep of `seconds` and `nanos` on clock `id`, asked for at `now`.
///
/// Passed on unchanged: whatever the kernel refuses, so that its answer is its own; clocks other than CLOCK_MONOTONIC,
/// but relative sleeps on CLOCK_REALTIME, which the kernel itself measures by CLOCK_MONOTONIC (clock_nanosleep(2));
/// absolute CLOCK_REALTIME, which must follow steps of the wall clock while it sleeps; a sleep of nothing, which is
/// asked for to let others run; a deadline that has passed.
pub(crate) fn plan(id: clockid_t, flags: c_int, seconds: i64, nanos: i64, now: Timestamp<Monotonic>) -> Plan {
    let absolute = match flags {
        0 => false,
        TIMER_ABSTIME => true,
        _ => return Plan::Pass,
    };
    let ours = id == CLOCK_MONOTONIC || id == CLOCK_REALTIME && !absolute;
    if !ours || seconds < 0 || !(0..1_000_000_000).contains(&nanos) {
        return Plan::Pass;
    }
    let Some(span) = seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)) else {
        return Plan::Pass;
    };
    let deadline = if absolute { Timestamp::from_nanos(span.cast_unsigned()) } else { now + Span::from_nanos(span) };
    let ahead = deadline - now;
    if ahead > Span::ZERO && ahead <= LONGEST { Plan::Until(deadline) } else { Plan::Pass }
}

/// What the clock functions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockMode {
    /// The kernel answers.
    Kernel,
    /// The counter answers, ordered as the kernel's reading is.
    Ordered,
    /// The counter answers, unordered.
    Unordered,
}

/// A vDSO reading of the counter costs 20 to 50 ns, a real system call 100 to 600.
const SYSTEM_CALL_NS: f64 = 80.0;

/// Whether [`ClockChoice::Auto`] can gain anything where a reading through the kernel costs `kernel_ns`: only where it
/// is a system call.
pub(crate) fn worth_a_look(kernel_ns: f64) -> bool {
    kernel_ns >= SYSTEM_CALL_NS
}

/// Decides who answers. `counter_ns` is the cost of an ordered reading of the counter, or `None` where the counter
/// cannot be trusted.
pub(crate) fn clock_mode(choice: ClockChoice, kernel_ns: f64, counter_ns: Option<f64>) -> ClockMode {
    let Some(counter_ns) = counter_ns else { return ClockMode::Kernel };
    match choice {
        ClockChoice::Os => ClockMode::Kernel,
        ClockChoice::Ordered => ClockMode::Ordered,
        ClockChoice::Unordered => ClockMode::Unordered,
        ClockChoice::Auto if worth_a_look(kernel_ns) && counter_ns <= kernel_ns / 2.0 => ClockMode::Ordered,
        ClockChoice::Auto => ClockMode::Kernel,
    }
}

/// The longest spin of a sleep that is to be spun: what is longer begins in the kernel, where a signal can end it.
pub(crate) const SPIN_AT_MOST: Span = Span::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp<Monotonic> = Timestamp::from_nanos(5_000_000_000);

    #[test]
    fn relative_sleeps_end_their_span_after_now() {
        let until = Plan::Until(Timestamp::from_nanos(6_000_000_001));
        assert_eq!(plan(CLOCK_MONOTONIC, 0, 1, 1, NOW), until);
        assert_eq!(plan(CLOCK_REALTIME, 0, 1, 1, NOW), until);
    }

    #[test]
    fn an_absolute_sleep_ends_at_its_deadline_and_wall_time_is_the_kernels() {
        assert_eq!(plan(CLOCK_MONOTONIC, TIMER_ABSTIME, 6, 0, NOW), Plan::Until(Timestamp::from_nanos(6_000_000_000)));
        assert_eq!(plan(CLOCK_REALTIME, TIMER_ABSTIME, 6, 0, NOW), Plan::Pass);
    }

    #[test]
    fn what_has_no_deadline_ahead_is_the_kernels() {
        assert_eq!(plan(CLOCK_MONOTONIC, 0, 0, 0, NOW), Plan::Pass);
        assert_eq!(plan(CLOCK_MONOTONIC, TIMER_ABSTIME, 5, 0, NOW), Plan::Pass);
        assert_eq!(plan(CLOCK_MONOTONIC, TIMER_ABSTIME, 4, 0, NOW), Plan::Pass);
    }

    #[test]
    fn what_the_kernel_refuses_or_only_the_kernel_knows_is_the_kernels() {
        for (id, flags, seconds, nanos) in [
            (CLOCK_MONOTONIC, 0, -1, 0),
            (CLOCK_MONOTONIC, 0, 0, -1),
            (CLOCK_MONOTONIC, 0, 0, 1_000_000_000),
            (CLOCK_MONOTONIC, TIMER_ABSTIME, -1, 0),
            (CLOCK_MONOTONIC, 4, 1, 0),
            (CLOCK_MONOTONIC, 0, i64::MAX, 999_999_999),
            (CLOCK_MONOTONIC, 0, 40_000_000, 0),
            (libc::CLOCK_PROCESS_CPUTIME_ID, 0, 1, 0),
            (libc::CLOCK_THREAD_CPUTIME_ID, 0, 1, 0),
            (libc::CLOCK_BOOTTIME, 0, 1, 0),
            (libc::CLOCK_TAI, 0, 1, 0),
            (77, 0, 1, 0),
        ] {
            assert_eq!(plan(id, flags, seconds, nanos, NOW), Plan::Pass, "{id} {flags} {seconds} {nanos}");
        }
    }

    #[test]
    fn by_default_the_counter_answers_only_where_the_kernels_reading_is_a_system_call() {
        assert_eq!(clock_mode(ClockChoice::Auto, 25.0, Some(20.0)), ClockMode::Kernel);
        assert_eq!(clock_mode(ClockChoice::Auto, 300.0, Some(20.0)), ClockMode::Ordered);
        // A hypervisor may catch the counter's instruction: no gain then.
        assert_eq!(clock_mode(ClockChoice::Auto, 300.0, Some(1_500.0)), ClockMode::Kernel);
        assert_eq!(clock_mode(ClockChoice::Auto, 300.0, None), ClockMode::Kernel);
    }

    #[test]
    fn the_users_choice_is_kept_where_the_counter_can_be_trusted() {
        assert_eq!(clock_mode(ClockChoice::Unordered, 25.0, Some(20.0)), ClockMode::Unordered);
        assert_eq!(clock_mode(ClockChoice::Ordered, 25.0, Some(20.0)), ClockMode::Ordered);
        assert_eq!(clock_mode(ClockChoice::Os, 300.0, Some(20.0)), ClockMode::Kernel);
        assert_eq!(clock_mode(ClockChoice::Unordered, 25.0, None), ClockMode::Kernel);
    }

    proptest! {
        #[test]
        fn no_request_overflows_and_every_deadline_is_ahead(
            id in -8..16, flags in 0..4, seconds: i64, nanos: i64, now: u64,
        ) {
            let now = Timestamp::from_nanos(now);
            if let Plan::Until(deadline) = plan(id, flags, seconds, nanos, now) {
                prop_assert!(deadline > now && deadline - now <= LONGEST);
            }
        }
    }
}
