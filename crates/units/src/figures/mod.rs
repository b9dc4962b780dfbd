//! Figures of a series of readings: one rule for quantiles, for spreads, and for when a figure is missing.
//!
//! - Quantiles are type 7 of Hyndman and Fan (1996): linear between the two order statistics around `(n - 1) q`.
//! - A figure that cannot be estimated is `None`, never 0: no figure without readings, `half_iqr` below
//!   [`LEAST_FOR_QUARTILES`], `p99` below [`LEAST_FOR_P99`], `p999` below [`LEAST_FOR_P999`].
//!
//! Two distributions feed them: [`ExactHistogram`] keeps every value, [`LogHistogram`] keeps values to 1/64 in constant
//! memory.

mod exact;
mod log;

pub use exact::ExactHistogram;
pub use log::{LogHistogram, bucket_of, least_of};

/// Below this number of readings quartiles, and so the interquartile range, are not estimable: each quarter holds one
/// reading or more from 4 readings on.
pub const LEAST_FOR_QUARTILES: u64 = 4;
/// Below this number of readings the 0.99 quantile is not estimable: with `ceil(ln 0.05 / ln q)` readings the greatest
/// lies beyond the quantile with 95 % confidence.
pub const LEAST_FOR_P99: u64 = 299;
/// As [`LEAST_FOR_P99`] for the 0.999 quantile.
pub const LEAST_FOR_P999: u64 = 2_995;

/// Figures of one series of readings, in the unit of the readings; `None` where they cannot be estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figures {
    /// How many readings there are.
    pub n: u64,
    /// The middle reading.
    pub median: Option<f64>,
    /// Half the interquartile range; `None` below n = 4. 0 means that a half of the readings are alike.
    pub half_iqr: Option<f64>,
    /// The least reading.
    pub min: Option<f64>,
    /// The greatest reading.
    pub max: Option<f64>,
    /// The arithmetic mean.
    pub mean: Option<f64>,
    /// The 0.99 quantile; `None` below n = 299.
    pub p99: Option<f64>,
    /// The 0.999 quantile; `None` below n = 2995.
    pub p999: Option<f64>,
}

impl Figures {
    /// The figures of `readings`, which are sorted in place.
    ///
    /// ```
    /// use vtare_units::figures::Figures;
    /// let figures = Figures::of(&mut [3_000, 1_000, 2_000]);
    /// assert_eq!((figures.n, figures.median, figures.max), (3, Some(2_000.0), Some(3_000.0)));
    /// assert_eq!((figures.half_iqr, figures.p99), (None, None));
    /// ```
    #[must_use]
    pub fn of(readings: &mut [i64]) -> Self {
        readings.sort_unstable();
        let extremes = readings.first().zip(readings.last()).map(|(min, max)| (*min as f64, *max as f64));
        let sum: i128 = readings.iter().map(|value| i128::from(*value)).sum();
        Self::from_quantiles(readings.len() as u64, extremes, sum, |q| quantile(readings, q))
    }

    /// The figures of readings given as `(value, count)` in rising order of value.
    ///
    /// ```
    /// use vtare_units::figures::Figures;
    /// assert_eq!(Figures::of_counts(&[(1, 2), (3, 3)]), Figures::of(&mut [1, 1, 3, 3, 3]));
    /// ```
    #[must_use]
    pub fn of_counts(counts: &[(i64, u64)]) -> Self {
        debug_assert!(counts.is_sorted_by_key(|(value, _)| *value), "quantiles walk the counts from below");
        let n = counts.iter().map(|(_, count)| count).sum();
        let mut occurring = counts.iter().filter(|(_, count)| *count > 0).map(|(value, _)| *value as f64);
        let first = occurring.next();
        let extremes = first.map(|min| (min, occurring.next_back().unwrap_or(min)));
        let sum: i128 = counts.iter().map(|(value, count)| i128::from(*value) * i128::from(*count)).sum();
        Self::from_quantiles(n, extremes, sum, |q| quantile_of_counts(counts, q))
    }

    /// The rule for when a figure is missing.
    fn from_quantiles(n: u64, extremes: Option<(f64, f64)>, sum: i128, quantile: impl Fn(f64) -> Option<f64>) -> Self {
        let from = |least: u64, q: f64| if n >= least { quantile(q) } else { None };
        let quartiles = from(LEAST_FOR_QUARTILES, 0.25).zip(from(LEAST_FOR_QUARTILES, 0.75));
        Self {
            n,
            median: quantile(0.5),
            half_iqr: quartiles.map(|(lower, upper)| (upper - lower) / 2.0),
            min: extremes.map(|(min, _)| min),
            max: extremes.map(|(_, max)| max),
            mean: (n > 0).then(|| sum as f64 / n as f64),
            p99: from(LEAST_FOR_P99, 0.99),
            p999: from(LEAST_FOR_P999, 0.999),
        }
    }

    /// The figures in another unit: each multiplied by `factor` above 0 (1e-3 turns ps into ns).
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scaled = |figure: Option<f64>| figure.map(|figure| figure * factor);
        Self {
            n: self.n,
            median: scaled(self.median),
            half_iqr: scaled(self.half_iqr),
            min: scaled(self.min),
            max: scaled(self.max),
            mean: scaled(self.mean),
            p99: scaled(self.p99),
            p999: scaled(self.p999),
        }
    }
}

impl FromIterator<i64> for Figures {
    /// The figures of the readings, in any order.
    fn from_iter<I: IntoIterator<Item = i64>>(readings: I) -> Self {
        Self::of(&mut readings.into_iter().collect::<Vec<_>>())
    }
}

/// A number that can be a reading.
pub trait Reading: Copy {
    /// The nearest double.
    fn as_f64(self) -> f64;
}

impl Reading for i64 {
    fn as_f64(self) -> f64 {
        self as f64
    }
}

impl Reading for f64 {
    fn as_f64(self) -> f64 {
        self
    }
}

/// Quantile `q` of readings in rising order, type 7. `None` without readings, or for a `q` outside 0 to 1.
///
/// ```
/// // R: quantile(c(1, 2, 4, 8), .25) is 1.75.
/// assert_eq!(vtare_units::figures::quantile(&[1, 2, 4, 8], 0.25), Some(1.75));
/// ```
#[must_use]
pub fn quantile<T: Reading>(sorted: &[T], q: f64) -> Option<f64> {
    let (below, share) = position(sorted.len() as u64, q)?;
    let low = sorted.get(below as usize)?.as_f64();
    let high = sorted.get(below as usize + 1).map_or(low, |next| next.as_f64());
    Some(between(low, high, share))
}

/// As [`quantile`], of readings given as `(value, count)` in rising order of value.
#[must_use]
pub fn quantile_of_counts(counts: &[(i64, u64)], q: f64) -> Option<f64> {
    let (below, share) = position(counts.iter().map(|(_, count)| count).sum(), q)?;
    let mut passed = 0;
    let mut occurring = counts.iter().filter(|(_, count)| *count > 0);
    while let Some((value, count)) = occurring.next() {
        passed += count;
        if passed > below {
            let low = *value as f64;
            // The next order statistic is the same value unless this one ends the group.
            let high = if passed > below + 1 { low } else { occurring.next().map_or(low, |(next, _)| *next as f64) };
            return Some(between(low, high, share));
        }
    }
    None
}

/// Where quantile `q` of `n` readings lies: the rank of the order statistic below it, from 0, and the share of the way
/// to the next one.
fn position(n: u64, q: f64) -> Option<(u64, f64)> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let position = (n - 1) as f64 * q;
    // Rounding down: `floor` is not there without the standard library.
    let below = position as u64;
    Some((below, position - below as f64))
}

/// A share of the way; infinite values keep their place.
fn between(low: f64, high: f64, share: f64) -> f64 {
    if share == 0.0 { low } else { low + share * (high - low) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quartiles_are_of_type_7() {
        // R: quantile(c(1, 2, 4, 8, 16), c(.25, .5, .75)) is 2 4 8; mean 6.2.
        let five = Figures::of(&mut [16, 1, 8, 2, 4]);
        assert_eq!((five.median, five.half_iqr, five.mean), (Some(4.0), Some(3.0), Some(6.2)));
        assert_eq!((five.min, five.max, five.n), (Some(1.0), Some(16.0), 5));
        // R: quantile(c(1, 2, 4, 8), c(.25, .5, .75)) is 1.75 3 5.
        let four = Figures::of(&mut [1, 2, 4, 8]);
        assert_eq!((four.median, four.half_iqr), (Some(3.0), Some(1.625)));
    }

    #[test]
    fn fewer_than_four_readings_have_no_interquartile_range() {
        let one = Figures::of(&mut [9_600]);
        assert_eq!((one.median, one.half_iqr, one.max), (Some(9_600.0), None, Some(9_600.0)));
        assert_eq!(Figures::of(&mut [1, 2, 3]).half_iqr, None);
        assert_eq!(Figures::of(&mut [4, 1, 3, 2]).half_iqr, Some(0.75));
    }

    #[test]
    fn a_tail_quantile_is_none_one_reading_below_its_least_number_and_a_figure_at_it() {
        let of = |n: i64| Figures::of(&mut (0..n).collect::<Vec<_>>());
        assert_eq!((of(298).p99, of(2_994).p999), (None, None));
        // Type 7 on 0..n-1 is q (n-1).
        assert!((of(299).p99.expect("299 are enough") - 0.99 * 298.0).abs() < 1e-9);
        assert!((of(2_995).p999.expect("2995 are enough") - 0.999 * 2_994.0).abs() < 1e-9);
        // The rule itself: with n readings below the quantile each with probability q, q^n is at most 5 %.
        assert!(0.99_f64.powi(299) <= 0.05 && 0.99_f64.powi(298) > 0.05);
        assert!(0.999_f64.powi(2_995) <= 0.05 && 0.999_f64.powi(2_994) > 0.05);
    }

    #[test]
    fn nothing_measured_has_no_figures_and_a_quantile_outside_0_to_1_is_none() {
        assert_eq!((Figures::of(&mut []), Figures::of_counts(&[(5, 0)])), (Figures::default(), Figures::default()));
        assert_eq!((quantile(&[1_i64], 1.1), quantile(&[1_i64], f64::NAN)), (None, None));
        assert_eq!((quantile::<f64>(&[], 0.5), quantile(&[1.0, f64::INFINITY], 0.0)), (None, Some(1.0)));
    }

    #[test]
    fn another_unit_changes_every_figure_but_the_number() {
        let scaled = Figures::of(&mut [2_000, 4_000, 6_000, 8_000]).scaled(1e-3);
        let wanted = Figures::of(&mut [2, 4, 6, 8]);
        assert_eq!(scaled, wanted);
    }

    proptest! {
        #[test]
        fn figures_lie_between_the_extremes_and_counts_give_the_same(
            mut readings in proptest::collection::vec(-1_i64 << 50..1_i64 << 50, 1..600), repeat in 1_u64..4,
        ) {
            let mut repeated: Vec<i64> = readings.iter().flat_map(|value| (0..repeat).map(move |_| *value)).collect();
            readings.sort_unstable();
            let counts: Vec<(i64, u64)> = readings.iter().map(|value| (*value, repeat)).collect();
            let figures = Figures::of(&mut repeated);
            prop_assert_eq!(figures, Figures::of_counts(&counts));
            let (min, max) = (figures.min.expect("not empty"), figures.max.expect("not empty"));
            for figure in [figures.median, figures.mean, figures.p99].into_iter().flatten() {
                prop_assert!((min..=max).contains(&figure));
            }
            prop_assert!(figures.half_iqr.is_none_or(|spread| spread >= 0.0 && spread <= (max - min) / 2.0));
        }
    }
}
