//! Deadlines at a fixed distance: without drift, and with a count of those that passed unseen.

use core::ffi::c_int;

use crate::read::vtare_now_ordered_ns;
use crate::thread;

/// `struct vtare_ticker`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtareTicker {
    /// Set by `vtare_ticker_init`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Between two deadlines.
    pub period_ns: u64,
    /// The next deadline.
    pub next_ns: u64,
    /// Deadlines passed so far, waited for or missed.
    pub ticks: u64,
    /// Of these, how many passed before anybody waited for them.
    pub missed: u64,
}

impl VtareTicker {
    /// Moves on after a wait that ended at `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        *self = self.advanced(now_ns);
    }

    /// The ticker after a wait that ended at `now_ns`, not before `next_ns`. Deadlines that have passed as well are
    /// counted and skipped: the grid of deadlines stays where it is.
    const fn advanced(self, now_ns: u64) -> Self {
        let skipped = now_ns.saturating_sub(self.next_ns) / self.period_ns;
        Self {
            next_ns: self.next_ns.saturating_add((skipped + 1).saturating_mul(self.period_ns)),
            ticks: self.ticks.saturating_add(skipped + 1),
            missed: self.missed.saturating_add(skipped),
            ..self
        }
    }
}

/// Begins a ticker; its first deadline lies one period ahead.
///
/// # Safety
/// `ticker` is null or points to a writable object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vtare_ticker_init(ticker: *mut VtareTicker, period_ns: u64) -> c_int {
    if ticker.is_null() || period_ns == 0 {
        let text = format_args!("a ticker wants a structure and a period of 1 ns or more, not {period_ns} ns");
        return thread::fail(libc::EINVAL, text);
    }
    let begun = VtareTicker {
        size: size_of::<VtareTicker>() as u32,
        reserved: 0,
        period_ns,
        next_ns: vtare_now_ordered_ns().saturating_add(period_ns),
        ticks: 0,
        missed: 0,
    };
    // SAFETY: not null, and writable by the caller's word.
    unsafe { ticker.write(begun) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleep::vtare_ticker_wait;
    use proptest::prelude::*;

    fn at(next_ns: u64, period_ns: u64) -> VtareTicker {
        VtareTicker { size: 40, reserved: 0, period_ns, next_ns, ticks: 0, missed: 0 }
    }

    #[test]
    fn a_wait_that_ends_on_time_misses_nothing() {
        let after = at(1_000, 100).advanced(1_099);
        assert_eq!((after.next_ns, after.ticks, after.missed), (1_100, 1, 0));
    }

    #[test]
    fn deadlines_that_passed_unseen_are_counted_and_the_grid_stays() {
        let after = at(1_000, 100).advanced(1_250);
        assert_eq!((after.next_ns, after.ticks, after.missed), (1_300, 3, 2));
    }

    #[test]
    fn a_ticker_without_a_period_or_never_begun_is_refused() {
        let mut ticker = at(0, 0);
        // SAFETY: a live structure, and null.
        assert_eq!(unsafe { vtare_ticker_init(&raw mut ticker, 0) }, -1);
        // SAFETY: a live structure.
        assert_eq!(unsafe { vtare_ticker_wait(&raw mut ticker) }, -1);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { vtare_ticker_wait(core::ptr::null_mut()) }, -1);
    }

    proptest! {
        #[test]
        fn the_next_deadline_lies_ahead_on_the_grid(
            next in 0_u64..1 << 60,
            period in 1_u64..1 << 40,
            late in 0_u64..1 << 50,
        ) {
            let after = at(next, period).advanced(next + late);
            prop_assert!(after.next_ns > next + late && after.next_ns - next - late <= period);
            prop_assert_eq!((after.next_ns - next) % period, 0);
            prop_assert_eq!(after.ticks, after.missed + 1);
            prop_assert_eq!(after.next_ns, next + after.ticks * period);
        }
    }
}
