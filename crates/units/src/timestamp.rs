use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Add, Sub};

use crate::Span;

/// A clock that a [`Timestamp`] can belong to. Sealed: the clocks are the ones named here.
pub trait Clock: sealed::Sealed + 'static {
    /// The name of the clock as the operating system spells it.
    const NAME: &'static str;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! clocks {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl Clock for $name {
            const NAME: &'static str = $text;
        }
    )*};
}

clocks! {
    /// `CLOCK_MONOTONIC`: never steps back, its rate is steered by NTP, stops in suspend.
    Monotonic = "CLOCK_MONOTONIC";
    /// `CLOCK_MONOTONIC_RAW`: as [`Monotonic`] but at the hardware's own rate, never steered.
    MonotonicRaw = "CLOCK_MONOTONIC_RAW";
    /// `CLOCK_REALTIME`: wall time since 1970, may step in both directions.
    Wall = "CLOCK_REALTIME";
    /// `CLOCK_THREAD_CPUTIME_ID`: time this thread has run on a CPU.
    ThreadCpu = "CLOCK_THREAD_CPUTIME_ID";
    /// A clock of the far end of a path: its zero and its rate are its own, so only its own stamps subtract from each
    /// other.
    Peer = "the peer's clock";
}

/// A point in time on clock `C`: whole nanoseconds since that clock's own zero, up to 584 years.
///
/// Two timestamps of one clock subtract to a [`Span`]; two of different clocks do not compile:
///
/// ```compile_fail
/// use vtare_units::{Monotonic, Timestamp, Wall};
/// let sent = Timestamp::<Wall>::from_nanos(5);
/// let received = Timestamp::<Monotonic>::from_nanos(9);
/// let _ = received - sent; // two clocks never subtract
/// ```
///
/// ```
/// use vtare_units::{Monotonic, Span, Timestamp};
/// let sent = Timestamp::<Monotonic>::from_nanos(5_000);
/// let received = sent + Span::from_micros(57);
/// assert_eq!(received - sent, Span::from_nanos(57_000));
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Timestamp<C: Clock>(u64, #[cfg_attr(feature = "serde", serde(skip))] PhantomData<C>);

impl<C: Clock> Timestamp<C> {
    /// The last representable point.
    pub const MAX: Self = Self(u64::MAX, PhantomData);
    /// The clock's own zero.
    pub const ZERO: Self = Self(0, PhantomData);

    /// The point `nanos` nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos, PhantomData)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds and the nanoseconds beyond them, as `timespec` has them.
    #[must_use]
    pub const fn split(self) -> (u64, u32) {
        (self.0 / 1_000_000_000, (self.0 % 1_000_000_000) as u32)
    }

    /// `self + span`, or `None` where that leaves the range.
    #[must_use]
    pub const fn checked_add(self, span: Span) -> Option<Self> {
        match self.0.checked_add_signed(span.as_nanos()) {
            Some(nanos) => Some(Self::from_nanos(nanos)),
            None => None,
        }
    }
}

impl<C: Clock> Clone for Timestamp<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: Clock> Copy for Timestamp<C> {}
impl<C: Clock> PartialEq for Timestamp<C> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<C: Clock> Eq for Timestamp<C> {}
impl<C: Clock> PartialOrd for Timestamp<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<C: Clock> Ord for Timestamp<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<C: Clock> Hash for Timestamp<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<C: Clock> fmt::Debug for Timestamp<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ns", C::NAME, self.0)
    }
}

impl<C: Clock> Sub for Timestamp<C> {
    type Output = Span;
    /// The time from `earlier` to `self`, negative where it is later; saturates at 292 years.
    fn sub(self, earlier: Self) -> Span {
        let wide = i128::from(self.0) - i128::from(earlier.0);
        Span::from_nanos(wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

impl<C: Clock> Add<Span> for Timestamp<C> {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self::from_nanos(self.0.saturating_add_signed(span.as_nanos()))
    }
}

impl<C: Clock> Sub<Span> for Timestamp<C> {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        let wide = i128::from(self.0) - i128::from(span.as_nanos());
        Self::from_nanos(wide.clamp(0, u64::MAX.into()) as u64)
    }
}

/// A reading of the CPU's own counter, in its own ticks. It becomes time only through a calibrated clock.
///
/// Kept as the single 64-bit count that the CPU gave: seconds and nanoseconds are computed when they are asked for.
///
/// ```
/// use vtare_units::CounterTick;
/// let start = CounterTick::new(1_000);
/// assert_eq!(CounterTick::new(1_026).since(start), 26);
/// assert_eq!(start.since(CounterTick::new(1_026)), -26);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterTick(u64);

impl CounterTick {
    /// A count as read from the CPU.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The count.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// Ticks from `earlier` to `self`, negative where `earlier` is the later one; exact for readings less than 2^63
    /// ticks apart, across a wrap of the counter too.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    type T = Timestamp<Monotonic>;

    #[test]
    fn a_timestamp_shows_its_clock() {
        assert_eq!(format!("{:?}", T::from_nanos(7)), "CLOCK_MONOTONIC@7 ns");
    }

    proptest! {
        #[test]
        fn differences_are_exact_or_clamped(a: u64, b: u64) {
            let wide = i128::from(a) - i128::from(b);
            let span = T::from_nanos(a) - T::from_nanos(b);
            prop_assert_eq!(i128::from(span.as_nanos()), wide.clamp(i64::MIN.into(), i64::MAX.into()));
        }

        #[test]
        fn adding_a_span_clamps_and_checked_add_refuses(at: u64, by: i64) {
            let wide = i128::from(at) + i128::from(by);
            let clamped = wide.clamp(0, u64::MAX.into());
            prop_assert_eq!(i128::from((T::from_nanos(at) + Span::from_nanos(by)).as_nanos()), clamped);
            let checked = T::from_nanos(at).checked_add(Span::from_nanos(by));
            prop_assert_eq!(checked.is_some(), wide == clamped);
        }

        #[test]
        fn subtracting_a_span_is_adding_its_negative(at: u64, by in -i64::MAX..=i64::MAX) {
            let span = Span::from_nanos(by);
            prop_assert_eq!(T::from_nanos(at) - span, T::from_nanos(at) + -span);
        }

        #[test]
        fn split_and_sum_agree(at: u64) {
            let (seconds, nanos) = T::from_nanos(at).split();
            prop_assert_eq!(seconds * 1_000_000_000 + u64::from(nanos), at);
            prop_assert!(nanos < 1_000_000_000);
        }

        #[test]
        fn ticks_subtract_across_a_wrap(start: u64, ticks in 0..i64::MAX) {
            let end = CounterTick::new(start.wrapping_add(ticks.cast_unsigned()));
            prop_assert_eq!(end.since(CounterTick::new(start)), ticks);
        }
    }
}
