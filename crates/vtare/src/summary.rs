//! The figures of one run (`shared` definitions: median, half the interquartile range, tail quantiles), exact.
//!
//! Quantiles are Hyndman and Fan's type 7. A tail quantile is not estimable from few readings: below [`LEAST_N_P99`] and
//! [`LEAST_N_P999`] it is `None`, never a number.

use std::collections::BTreeMap;

use serde::Serialize;

/// Below this many readings the 0.99 quantile is not estimable: with 95 % confidence the largest of 299 exceeds it.
pub(crate) const LEAST_N_P99: u64 = 299;
/// As [`LEAST_N_P99`] for the 0.999 quantile: 1 - 0.999^2995 = 0.95.
pub(crate) const LEAST_N_P999: u64 = 2_995;

/// Figures of one series of readings; `None` where they cannot be estimated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Summary {
    /// How many readings there are.
    pub(crate) n: u64,
    /// The middle reading.
    pub(crate) median: Option<f64>,
    /// Half the interquartile range. 0 means "below the quantum of the clock".
    pub(crate) half_iqr: Option<f64>,
    /// The least reading.
    pub(crate) min: Option<f64>,
    /// The greatest reading.
    pub(crate) max: Option<f64>,
    /// The arithmetic mean.
    pub(crate) mean: Option<f64>,
    /// The 0.99 quantile; `None` below n = 299.
    pub(crate) p99: Option<f64>,
    /// The 0.999 quantile; `None` below n = 2995.
    pub(crate) p999: Option<f64>,
}

impl Summary {
    /// Sums up `readings`, each multiplied by `scale` (1e-3 turns ps into ns).
    pub(crate) fn of(readings: impl IntoIterator<Item = i64>, scale: f64) -> Self {
        let mut sorted: Vec<i64> = readings.into_iter().collect();
        sorted.sort_unstable();
        Self::of_counts(&sorted.into_iter().map(|value| (value, 1)).collect::<Vec<_>>(), scale)
    }

    /// Sums up readings given as `(value, count)` in rising order of value, each value multiplied by `scale`.
    pub(crate) fn of_counts(counts: &[(i64, u64)], scale: f64) -> Self {
        debug_assert!(counts.is_sorted_by_key(|(value, _)| *value), "quantiles walk the counts from below");
        let n: u64 = counts.iter().map(|(_, count)| count).sum();
        if n == 0 {
            return Self::default();
        }
        let sum: i128 = counts.iter().map(|(value, count)| i128::from(*value) * i128::from(*count)).sum();
        let quantile = |p: f64| quantile(counts, n, p) * scale;
        let ends = (counts.iter().find(|pair| pair.1 > 0), counts.iter().rfind(|pair| pair.1 > 0));
        Self {
            n,
            median: Some(quantile(0.5)),
            half_iqr: Some((quantile(0.75) - quantile(0.25)) / 2.0),
            min: ends.0.map(|(value, _)| *value as f64 * scale),
            max: ends.1.map(|(value, _)| *value as f64 * scale),
            mean: Some(sum as f64 / n as f64 * scale),
            p99: (n >= LEAST_N_P99).then(|| quantile(0.99)),
            p999: (n >= LEAST_N_P999).then(|| quantile(0.999)),
        }
    }
}

/// Hyndman and Fan's type 7: linear between the order statistics around (n - 1) p.
fn quantile(counts: &[(i64, u64)], n: u64, p: f64) -> f64 {
    let position = (n - 1) as f64 * p;
    let below = position.floor();
    let rank = below as u64;
    let mut passed = 0;
    let mut values = counts.iter().filter(|(_, count)| *count > 0);
    for (value, count) in values.by_ref() {
        passed += count;
        if passed > rank {
            let low = *value as f64;
            // The next order statistic is the same value unless this one ends the group.
            let high = if passed > rank + 1 { low } else { values.next().map_or(low, |(next, _)| *next as f64) };
            return low + (position - below) * (high - low);
        }
    }
    unreachable!("rank {rank} lies below n = {n}, the sum of the counts")
}

/// Counts of exact values: an array for the small ones that nearly all readings have, a map for the rest.
///
/// 10 M timer readings need well under 2 MB.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    dense: Vec<u64>,
    rest: BTreeMap<i64, u64>,
    n: u64,
}

impl Histogram {
    const DENSE: usize = 1 << 16;

    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Self { dense: vec![0; Self::DENSE], rest: BTreeMap::new(), n: 0 }
    }

    /// Counts one reading.
    #[inline]
    pub(crate) fn add(&mut self, value: i64) {
        self.n += 1;
        match usize::try_from(value).ok().and_then(|index| self.dense.get_mut(index)) {
            Some(count) => *count += 1,
            None => *self.rest.entry(value).or_insert(0) += 1,
        }
    }

    /// How many readings were counted.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// The values that occurred with their counts, in rising order.
    pub(crate) fn counts(&self) -> Vec<(i64, u64)> {
        let below = self.rest.range(..0);
        let dense = self.dense.iter().enumerate().filter(|(_, count)| **count > 0);
        let above = self.rest.range(0..);
        below
            .map(|(value, count)| (*value, *count))
            .chain(dense.map(|(value, count)| (value as i64, *count)))
            .chain(above.map(|(value, count)| (*value, *count)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_of_type_7() {
        // R: quantile(c(1, 2, 4, 8, 16), c(.25, .5, .75)) is 2 4 8; mean 6.2.
        let five = Summary::of([16, 1, 8, 2, 4], 1.0);
        assert_eq!((five.median, five.half_iqr, five.mean), (Some(4.0), Some(3.0), Some(6.2)));
        assert_eq!((five.min, five.max, five.n), (Some(1.0), Some(16.0), 5));
        // R: quantile(c(1, 2, 4, 8), c(.25, .5, .75)) is 1.75 3 5.
        let four = Summary::of([1, 2, 4, 8], 1.0);
        assert_eq!((four.median, four.half_iqr), (Some(3.0), Some(1.625)));
    }

    #[test]
    fn weights_count_as_that_many_readings() {
        let weighted = Summary::of_counts(&[(-3, 2), (0, 0), (5, 700), (9, 1)], 1.0);
        let plain = std::iter::repeat_n(-3, 2).chain(std::iter::repeat_n(5, 700)).chain([9]);
        assert_eq!(weighted, Summary::of(plain, 1.0));
    }

    #[test]
    fn a_tail_quantile_is_null_until_it_can_be_estimated() {
        assert_eq!(Summary::of(0..298, 1.0).p99, None);
        let enough = Summary::of(0..299, 1.0);
        assert!((enough.p99.expect("n is 299") - 295.02).abs() < 1e-9);
        assert_eq!(enough.p999, None);
        assert_eq!(Summary::of(0..2_994, 1.0).p999, None);
        assert!(Summary::of(0..2_995, 1.0).p999.is_some());
    }

    #[test]
    fn nothing_measured_gives_nulls_and_not_zeros() {
        let json = serde_json::to_value(Summary::of([], 1.0)).expect("a summary is JSON");
        assert_eq!(json["n"], 0);
        for figure in ["median", "half_iqr", "min", "max", "mean", "p99", "p999"] {
            assert!(json[figure].is_null(), "{figure}");
        }
    }

    #[test]
    fn one_reading_is_its_own_median() {
        let one = Summary::of([9_600], 1e-3);
        assert_eq!((one.median, one.half_iqr, one.max), (Some(9.6), Some(0.0), Some(9.6)));
    }

    #[test]
    fn a_histogram_gives_back_every_value_in_order() {
        let mut histogram = Histogram::new();
        for value in [70_000, 26, 26, -4, 65_535, 65_536, 0, 26] {
            histogram.add(value);
        }
        assert_eq!(histogram.n(), 8);
        assert_eq!(histogram.counts(), [(-4, 1), (0, 1), (26, 3), (65_535, 1), (65_536, 1), (70_000, 1)]);
    }
}
