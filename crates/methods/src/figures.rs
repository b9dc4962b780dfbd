//! Figures of one run: what each means, and when it is null.

use serde::Serialize;

/// Least number of samples for which a quantile `q` is estimable: below it, with 95 % confidence, no sample need lie beyond it.
///
/// 299 for p99, 2995 for p99.9 (`ceil(ln 0.05 / ln q)`).
pub const LEAST_FOR_P99: u64 = 299;
/// As [`LEAST_FOR_P99`], for p99.9.
pub const LEAST_FOR_P999: u64 = 2995;

/// The figures of one series of durations, in ns. A figure that cannot be estimated is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Samples.
    pub n: u64,
    /// Median (Hyndman-Fan 7, as all quantiles here).
    pub median: Option<f64>,
    /// Half of the interquartile range; null below 4 samples.
    pub half_iqr: Option<f64>,
    /// Smallest.
    pub min: Option<i64>,
    /// Largest.
    pub max: Option<i64>,
    /// Null below 299 samples.
    pub p99: Option<f64>,
    /// Null below 2995 samples.
    pub p999: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
}

impl Figures {
    /// The figures of `samples`, which are sorted in place.
    ///
    /// ```
    /// use vtare_methods::figures::Figures;
    /// let figures = Figures::of(&mut [3_000, 1_000, 2_000]);
    /// assert_eq!((figures.n, figures.median, figures.max), (3, Some(2_000.0), Some(3_000)));
    /// assert_eq!(figures.p99, None);
    /// ```
    #[must_use]
    pub fn of(samples: &mut [i64]) -> Self {
        samples.sort_unstable();
        let n = samples.len() as u64;
        let at = |q: f64, least: u64| if n >= least.max(1) { quantile_sorted(samples, q) } else { None };
        Self {
            n,
            median: at(0.5, 1),
            half_iqr: at(0.75, 4).zip(at(0.25, 4)).map(|(upper, lower)| (upper - lower) / 2.0),
            min: samples.first().copied(),
            max: samples.last().copied(),
            p99: at(0.99, LEAST_FOR_P99),
            p999: at(0.999, LEAST_FOR_P999),
            mean: (n > 0).then(|| samples.iter().map(|&ns| i128::from(ns)).sum::<i128>() as f64 / n as f64),
        }
    }
}

/// Quantile `q` in 0..=1 of samples in ascending order, type 7 of Hyndman and Fan: linear between the two nearest. `None` without
/// samples or for a `q` outside.
#[must_use]
pub fn quantile_sorted(sorted: &[i64], q: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let last = sorted.len().checked_sub(1)?;
    let position = q * last as f64;
    let below = position.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    Some(low as f64 + (high as f64 - low as f64) * (position - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tail_is_null_one_sample_below_its_least_number_and_a_figure_at_it() {
        let of = |n: i64| Figures::of(&mut (0..n).collect::<Vec<_>>());
        assert_eq!((of(298).p99, of(2994).p999), (None, None));
        // Type 7 on 0..n-1 is q (n-1).
        assert!((of(299).p99.expect("299 are enough") - 0.99 * 298.0).abs() < 1e-9);
        assert!((of(2995).p999.expect("2995 are enough") - 0.999 * 2994.0).abs() < 1e-9);
        // The rule itself: with n samples below the quantile each with probability q, q^n is at most 5 %.
        assert!(0.99_f64.powi(299) <= 0.05 && 0.99_f64.powi(298) > 0.05);
        assert!(0.999_f64.powi(2995) <= 0.05 && 0.999_f64.powi(2994) > 0.05);
    }

    #[test]
    fn nothing_has_no_figures_and_three_samples_have_no_quartiles() {
        assert_eq!(Figures::of(&mut []), Figures::default());
        assert_eq!(Figures::of(&mut [1, 2, 3]).half_iqr, None);
        assert_eq!(Figures::of(&mut [4, 1, 3, 2]).half_iqr, Some(0.75));
    }

    #[test]
    fn a_quantile_outside_0_to_1_is_none() {
        assert_eq!(quantile_sorted(&[1], 1.1), None);
        assert_eq!(quantile_sorted(&[1], f64::NAN), None);
    }

    proptest! {
        #[test]
        fn figures_lie_between_the_extremes_and_do_not_depend_on_order(
            mut samples in proptest::collection::vec(-1_i64 << 50..1_i64 << 50, 1..600), turn in 0_usize..600,
        ) {
            let mut turned = samples.clone();
            turned.rotate_left(turn % samples.len());
            let figures = Figures::of(&mut samples);
            prop_assert_eq!(figures, Figures::of(&mut turned));
            let (min, max) = (figures.min.expect("not empty") as f64, figures.max.expect("not empty") as f64);
            for figure in [figures.median, figures.mean, figures.p99].into_iter().flatten() {
                prop_assert!((min..=max).contains(&figure));
            }
            prop_assert!(figures.half_iqr.is_none_or(|spread| spread >= 0.0 && spread <= (max - min) / 2.0));
        }
    }
}
