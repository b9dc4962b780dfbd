use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A signed length of time in nanoseconds, from -292 to +292 years.
///
/// Operators saturate (see the crate documentation).
///
/// ```
/// use vtare_units::Span;
/// let target = Span::from_micros(100);
/// let slept = Span::from_nanos(169_300);
/// assert_eq!((slept - target).as_nanos(), 69_300);
/// assert_eq!(Span::MAX + Span::from_nanos(1), Span::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span(i64);

impl Span {
    /// The longest span, about 292 years.
    pub const MAX: Self = Self(i64::MAX);
    /// The most negative span, about -292 years.
    pub const MIN: Self = Self(i64::MIN);
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Length in ns of something that cannot be negative; the longest span for more than that (292 years).
    #[must_use]
    pub const fn from_unsigned_nanos(nanos: u64) -> Self {
        if nanos > i64::MAX as u64 { Self::MAX } else { Self(nanos.cast_signed()) }
    }

    /// A span of `micros` microseconds; saturates.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds; saturates.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `seconds` seconds; saturates.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The nearest span to `seconds`, or `None` where that is not a number or out of range.
    ///
    /// ```
    /// # use vtare_units::Span;
    /// assert_eq!(Span::try_from_secs_f64(1.5e-6), Some(Span::from_nanos(1_500)));
    /// assert_eq!(Span::try_from_secs_f64(f64::NAN), None);
    /// ```
    #[must_use]
    pub fn try_from_secs_f64(seconds: f64) -> Option<Self> {
        let nanos = seconds * 1e9;
        // 2^63 is exact in f64; i64::MAX is not.
        if nanos.is_finite() && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&nanos) {
            let half = if nanos < 0.0 { -0.5 } else { 0.5 };
            Some(Self((nanos + half) as i64))
        } else {
            None
        }
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The span in nanoseconds, with negative spans taken as 0.
    #[must_use]
    pub const fn as_nanos_unsigned(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0 as u64 }
    }

    /// The span in seconds, rounded to the nearest `f64`.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether the span is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The length without its sign; saturates for [`Span::MIN`].
    #[must_use]
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// `self + other`, or `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `self - other`, or `None` on overflow.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Span {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Mul<i64> for Span {
    type Output = Self;
    fn mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<i64> for Span {
    type Output = Self;
    /// Rounds towards zero.
    ///
    /// # Panics
    /// Where `divisor` is zero.
    fn div(self, divisor: i64) -> Self {
        Self(self.0.saturating_div(divisor))
    }
}

impl fmt::Display for Span {
    /// Three significant digits in the unit that fits: `9.6 ns`, `69.3 us`, `1.2 ms`, `4 s`. Honours `{:.N}` as
    /// decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 as f64;
        let size = if nanos < 0.0 { -nanos } else { nanos };
        let (value, unit) = match size {
            s if s < 1e3 => (nanos, "ns"),
            s if s < 1e6 => (nanos / 1e3, "us"),
            s if s < 1e9 => (nanos / 1e6, "ms"),
            _ => (nanos / 1e9, "s"),
        };
        let shown = if value < 0.0 { -value } else { value };
        let decimals = f.precision().unwrap_or(if unit == "ns" || shown >= 100.0 {
            0
        } else if shown >= 10.0 {
            1
        } else {
            2
        });
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn a_span_prints_in_the_unit_that_fits() {
        assert_eq!(Span::from_nanos(29).to_string(), "29 ns");
        assert_eq!(Span::from_nanos(69_300).to_string(), "69.3 us");
        assert_eq!(Span::from_nanos(-1_234_000).to_string(), "-1.23 ms");
        assert_eq!(Span::from_secs(120).to_string(), "120 s");
    }

    #[test]
    fn seconds_out_of_range_are_refused() {
        assert_eq!(Span::try_from_secs_f64(9.3e9), None);
        assert_eq!(Span::try_from_secs_f64(f64::INFINITY), None);
    }

    proptest! {
        #[test]
        fn operators_agree_with_wide_arithmetic_clamped(a: i64, b: i64) {
            let clamp = |wide: i128| wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            prop_assert_eq!((Span(a) + Span(b)).0, clamp(i128::from(a) + i128::from(b)));
            prop_assert_eq!((Span(a) - Span(b)).0, clamp(i128::from(a) - i128::from(b)));
            prop_assert_eq!((Span(a) * b).0, clamp(i128::from(a) * i128::from(b)));
            prop_assert_eq!((-Span(a)).0, clamp(-i128::from(a)));
        }

        #[test]
        fn checked_operators_are_none_exactly_where_the_others_saturate(a: i64, b: i64) {
            let exact = i64::try_from(i128::from(a) + i128::from(b)).ok();
            prop_assert_eq!(Span(a).checked_add(Span(b)).map(Span::as_nanos), exact);
            let exact = i64::try_from(i128::from(a) - i128::from(b)).ok();
            prop_assert_eq!(Span(a).checked_sub(Span(b)).map(Span::as_nanos), exact);
        }

        #[test]
        fn seconds_survive_the_round_trip_within_float_precision(
            nanos in -4_000_000_000_000_000_i64..4_000_000_000_000_000,
        ) {
            let back = Span::try_from_secs_f64(Span(nanos).as_secs_f64()).expect("in range");
            prop_assert!((back.0 - nanos).abs() <= 1);
        }
    }
}
