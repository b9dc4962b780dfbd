//! How far one clock is ahead of another, with bounds that hold whatever delayed the readings.
//!
//! The one instrument is the [`Bracket`]: the own clock is read, then the other, then the own again. The other was read
//! at some moment between, so its lead lies between `other - after` and `other - before`. No assumption on the delays
//! is made, neither that both are alike nor that either is short. Several brackets of one lead are combined in two
//! ways:
//!
//! - Where both clocks run at exactly the same rate (the counters of two CPUs: [`crate::cross_core`]), the lead lies in
//!   all of them: [`range`] intersects them.
//! - Where they do not, or are only read to some nanoseconds ([`ClockOffset`]: wall time, TAI, a network card's clock),
//!   the narrowest counts, and is renewed.
//!
//! Two clocks of different rate have no lead but a line: [`crate::bounds`].

use std::convert::Infallible;

use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp, Wall};

/// One reading of another clock between two readings of the own one, all in the same unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The own clock before.
    pub before: u64,
    /// The other clock.
    pub other: u64,
    /// The own clock after.
    pub after: u64,
}

impl Bracket {
    /// The least and the greatest lead of the other clock that these readings allow: (low, high).
    ///
    /// ```
    /// use vtare_clock::offset::Bracket;
    /// assert_eq!(Bracket { before: 100, other: 5_120, after: 140 }.range(), (4_980, 5_020));
    /// ```
    #[must_use]
    pub const fn range(self) -> (i64, i64) {
        (self.other.wrapping_sub(self.after).cast_signed(), self.other.wrapping_sub(self.before).cast_signed())
    }

    /// The time between the two own readings.
    #[must_use]
    pub const fn width(self) -> u64 {
        self.after.wrapping_sub(self.before)
    }
}

/// The leads that all brackets allow: (low, high); `None` without brackets. Low above high means that the lead changed
/// between them.
#[must_use]
pub fn range(brackets: &[Bracket]) -> Option<(i64, i64)> {
    brackets.iter().map(|bracket| bracket.range()).reduce(|(low, high), (l, h)| (low.max(l), high.min(h)))
}

/// How far another clock is ahead of CLOCK_MONOTONIC, from the narrowest of some brackets.
///
/// Wall time and CLOCK_MONOTONIC are slewed together, so the lead moves only where wall time is set; a renewal finds
/// that, unless wall time was set by less than both errors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Other minus monotonic, ns.
    ahead_ns: i64,
    /// Half the width of the narrowest bracket, ns.
    error_ns: u64,
    found_at: Timestamp<Monotonic>,
    /// Renewals that found the other clock elsewhere than its error allows.
    steps: u64,
}

/// Brackets of one reading: most readings meet no interrupt in one of them.
pub const BRACKETS: usize = 16;

/// A reading is renewed after this time: what is converted is off for no longer where the other clock was set.
pub const RENEW_AFTER: Span = Span::from_millis(500);

impl ClockOffset {
    /// Reads the lead of a clock that may not answer, from [`BRACKETS`] brackets. `other` gives the other clock's ns,
    /// `now` the own clock.
    ///
    /// # Errors
    /// What `other` gives.
    pub fn read<E>(now: impl Fn() -> Timestamp<Monotonic>, other: impl Fn() -> Result<u64, E>) -> Result<Self, E> {
        Self::narrowest(BRACKETS, now, other)
    }

    /// The lead of wall time over `now`, from this many brackets, at least one.
    pub fn wall(brackets: usize, now: impl Fn() -> Timestamp<Monotonic>) -> Self {
        Self::always(brackets, now, || clocks::now::<Wall>().as_nanos())
    }

    /// The lead of CLOCK_TAI over `now`, from [`BRACKETS`] brackets.
    pub fn tai(now: impl Fn() -> Timestamp<Monotonic>) -> Self {
        Self::always(BRACKETS, now, clocks::tai_ns)
    }

    fn always(brackets: usize, now: impl Fn() -> Timestamp<Monotonic>, other: impl Fn() -> u64) -> Self {
        let Ok(found) = Self::narrowest(brackets, now, || Ok::<_, Infallible>(other()));
        found
    }

    fn narrowest<E>(
        brackets: usize,
        now: impl Fn() -> Timestamp<Monotonic>,
        other: impl Fn() -> Result<u64, E>,
    ) -> Result<Self, E> {
        let bracket = || -> Result<Bracket, E> {
            let before = now().as_nanos();
            let other = other()?;
            Ok(Bracket { before, other, after: now().as_nanos() })
        };
        let mut best = bracket()?;
        let mut found_at = best.after;
        for _ in 1..brackets {
            let next = bracket()?;
            found_at = next.after;
            if next.width() < best.width() {
                best = next;
            }
        }
        let (low, _) = best.range();
        let half = best.width().div_ceil(2);
        // Each reading is cut to whole ns: the true one lies up to 1 ns behind it.
        let (ahead_ns, error_ns) = (low.wrapping_add_unsigned(half), half + 1);
        Ok(Self { ahead_ns, error_ns, found_at: Timestamp::from_nanos(found_at), steps: 0 })
    }

    /// Takes a newer reading. Where both agree within their errors, the narrower one stays in force.
    pub const fn renew(&mut self, newer: Self) {
        let stepped = newer.ahead_ns.abs_diff(self.ahead_ns) > newer.error_ns + self.error_ns;
        if stepped || newer.error_ns <= self.error_ns {
            (self.ahead_ns, self.error_ns) = (newer.ahead_ns, newer.error_ns);
        }
        self.steps += stepped as u64;
        self.found_at = newer.found_at;
    }

    /// A stamp of the other clock on the own one; `None` before the own clock's zero.
    #[inline]
    #[must_use]
    pub fn convert(&self, there_ns: u64) -> Option<Timestamp<Monotonic>> {
        u64::try_from(i128::from(there_ns) - i128::from(self.ahead_ns)).ok().map(Timestamp::from_nanos)
    }

    /// A time of the own clock on the other one, ns; 0 before the other clock's zero.
    #[inline]
    #[must_use]
    pub const fn there_ns(&self, at: Timestamp<Monotonic>) -> u64 {
        at.as_nanos().saturating_add_signed(self.ahead_ns)
    }

    /// The time since the other clock was read.
    #[inline]
    #[must_use]
    pub fn age(&self, now: Timestamp<Monotonic>) -> Span {
        now - self.found_at
    }

    /// Whether it is time for a renewal: after [`RENEW_AFTER`].
    #[inline]
    #[must_use]
    pub fn is_old(&self, now: Timestamp<Monotonic>) -> bool {
        self.age(now) > RENEW_AFTER
    }

    /// Half the width of the interval that is sure to hold the true lead, ns.
    #[must_use]
    pub const fn error_ns(&self) -> u64 {
        self.error_ns
    }

    /// Renewals that found the other clock set.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};

    /// Two clocks of the same rate whose readings are delayed: each takes the next delay of a list, over and over.
    struct Delayed {
        at_ns: Cell<u64>,
        ahead_ns: Cell<i64>,
        delays: RefCell<std::iter::Cycle<std::vec::IntoIter<u64>>>,
    }

    impl Delayed {
        fn new(ahead_ns: i64, delays: Vec<u64>) -> Self {
            let delays = RefCell::new(delays.into_iter().cycle());
            Self { at_ns: Cell::new(1 << 40), ahead_ns: Cell::new(ahead_ns), delays }
        }

        fn delayed(&self) -> u64 {
            let delay = self.delays.borrow_mut().next().expect("there are delays");
            self.at_ns.set(self.at_ns.get() + delay);
            self.at_ns.get()
        }

        fn offset(&self) -> ClockOffset {
            let now = || Timestamp::from_nanos(self.delayed());
            ClockOffset::always(BRACKETS, now, || self.delayed().wrapping_add_signed(self.ahead_ns.get()))
        }

        /// Whether the true lead lies in the interval that was found.
        fn holds(&self, offset: &ClockOffset) -> bool {
            self.ahead_ns.get().abs_diff(offset.ahead_ns) <= offset.error_ns
        }
    }

    #[test]
    fn the_narrowest_bracket_gives_lead_and_error() {
        // Brackets of 1000 ns and of 40 ns in turns; the other clock always reads the same.
        let (at, turn) = (Cell::new(1_000_000), Cell::new(0));
        let now = || {
            at.set(at.get() + [0, 1_000, 0, 40][turn.get() % 4]);
            turn.set(turn.get() + 1);
            Timestamp::from_nanos(at.get())
        };
        let offset = ClockOffset::always(BRACKETS, now, || 5_000_000);
        assert_eq!(offset.error_ns(), 21);
        let there = offset.convert(5_000_000).expect("after the start");
        assert!((1_001_000..1_100_000).contains(&there.as_nanos()), "{there:?}");
        assert_eq!(offset.age(Timestamp::from_nanos(at.get())), Span::ZERO);
    }

    #[test]
    fn a_clock_that_cannot_be_read_is_an_error_and_no_lead_of_0() {
        assert_eq!(ClockOffset::read(|| Timestamp::ZERO, || Err::<u64, _>("gone")), Err("gone"));
    }

    #[test]
    fn a_step_of_wall_time_is_found_and_counted_and_a_wider_bracket_is_not_taken() {
        let at = |ahead_ns, error_ns| ClockOffset { ahead_ns, error_ns, found_at: Timestamp::ZERO, steps: 0 };
        let mut offset = at(1_000_000, 30);
        offset.renew(at(1_000_050, 90));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (1_000_000, 30, 0));
        offset.renew(at(2_000_000, 90));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (2_000_000, 90, 1));
        offset.renew(at(2_000_010, 20));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (2_000_010, 20, 1));
    }

    #[test]
    fn a_stamp_before_the_start_of_the_own_clock_is_none() {
        let offset = ClockOffset { ahead_ns: 10, error_ns: 1, found_at: Timestamp::ZERO, steps: 0 };
        assert_eq!(offset.convert(9), None);
        assert_eq!(offset.convert(25), Some(Timestamp::from_nanos(15)));
        assert_eq!(offset.there_ns(Timestamp::from_nanos(15)), 25);
        // A wall clock that stands before the machine's start.
        let behind = ClockOffset { ahead_ns: -10, ..offset };
        assert_eq!(behind.convert(5), Some(Timestamp::from_nanos(15)));
    }

    #[test]
    fn wall_time_and_its_stamps_lie_where_this_machine_has_them() {
        let now = clocks::now::<Monotonic>;
        let mut wall = ClockOffset::wall(2, now);
        let (before, stamp, after) = (now(), clocks::now::<Wall>().as_nanos(), now());
        wall.renew(ClockOffset::wall(2, now));
        let error = Span::from_unsigned_nanos(wall.error_ns());
        let there = wall.convert(stamp).expect("wall time is later than the machine's start");
        // Where wall time was set between the two, nothing can be shown.
        if wall.steps() == 0 {
            assert!(there >= before - error && there <= after + error, "{before:?} {there:?} {after:?}");
        }
    }

    fn delays() -> impl Strategy<Value = Vec<u64>> {
        // Most short, some as long as an interrupt, in any order: the way there and the way back differ.
        prop::collection::vec(prop_oneof![8 => 0_u64..100, 1 => 0_u64..100_000], 1..100)
    }

    proptest! {
        #[test]
        fn the_true_lead_always_lies_in_the_range_and_the_fastest_bracket_sets_its_width(
            ahead in -1_000_000_i64..1_000_000,
            delays in prop::collection::vec((1_u64..5_000, 1_u64..5_000), 1..50),
        ) {
            let mut at = 1_u64 << 40;
            let brackets: Vec<Bracket> = delays.iter().map(|(there, back)| {
                let before = at;
                at += there + back;
                Bracket { before, other: (before + there).wrapping_add_signed(ahead), after: at }
            }).collect();
            let (low, high) = range(&brackets).expect("there are brackets");
            prop_assert!(low <= ahead && ahead <= high);
            let fastest = delays.iter().map(|(there, back)| there + back).min().expect("not empty");
            prop_assert!((high - low) as u64 <= fastest);
        }

        #[test]
        fn the_true_lead_always_lies_within_the_error_whatever_delayed_the_readings(
            ahead in -1_i64 << 60..1 << 60, delays in delays(),
        ) {
            let clocks = Delayed::new(ahead, delays);
            let mut offset = clocks.offset();
            prop_assert!(clocks.holds(&offset), "{:?}, true {}", offset, ahead);
            for _ in 0..5 {
                offset.renew(clocks.offset());
                prop_assert!(clocks.holds(&offset), "{:?}, true {}", offset, ahead);
            }
            prop_assert_eq!(offset.steps(), 0);
        }

        #[test]
        fn a_step_of_more_than_both_errors_is_found_by_the_next_renewal(
            ahead in -1_i64 << 40..1 << 40, step in 1_000_000_i64..1 << 40, back: bool, delays in delays(),
        ) {
            let clocks = Delayed::new(ahead, delays);
            let mut offset = clocks.offset();
            clocks.ahead_ns.set(if back { ahead - step } else { ahead + step });
            let newer = clocks.offset();
            let certain = step.unsigned_abs() > 2 * (offset.error_ns + newer.error_ns);
            offset.renew(newer);
            if certain {
                prop_assert_eq!(offset.steps(), 1);
                prop_assert!(clocks.holds(&offset), "{:?}", offset);
            }
        }
    }
}
