//! A distribution in constant memory: logarithmic buckets, so that the relative width is the same everywhere.

use super::Figures;

/// Bits of a value that select the bucket within its octave: a bucket is at most 1/64 (1.6 %) as wide as its values
/// are large.
const BITS: u32 = 6;
const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// The bucket of a value, with `2^BITS` buckets to an octave; values below `2^(BITS + 1)` have one each.
///
/// The one rule for logarithmic buckets, also for counters in memory that other processes or the kernel share.
#[must_use]
pub const fn bucket_of<const BITS: u32>(value: u64) -> usize {
    let octave = 63_u32.saturating_sub(value.leading_zeros()).saturating_sub(BITS);
    // Within an octave the upper bits of the value count on.
    ((octave as usize) << BITS) + (value >> octave) as usize
}

/// The least value of a bucket of [`bucket_of`].
#[must_use]
pub const fn least_of<const BITS: u32>(bucket: usize) -> u64 {
    let octave = (bucket >> BITS).saturating_sub(1);
    ((bucket - (octave << BITS)) as u64) << octave
}

/// Counts of durations, as in ns. Sizes below 128 are kept exactly, larger ones to 1/64; 30 KiB whatever their range,
/// and as much again where there are negative ones.
///
/// ```
/// use vtare_units::figures::LogHistogram;
/// let mut live = LogHistogram::default();
/// for ns in [10_000, 12_000, 11_000] {
///     live.add(ns);
/// }
/// let median = live.figures().median.expect("three readings have a median");
/// assert!((median / 11_000.0 - 1.0).abs() < 1.0 / 64.0);
/// ```
#[derive(Clone, Debug)]
pub struct LogHistogram {
    counts: Box<[u64]>,
    /// Counts of negative values by size; empty until there is one.
    negative: Vec<u64>,
    total: u64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), negative: Vec::new(), total: 0 }
    }
}

impl LogHistogram {
    /// Counts one value.
    pub fn add(&mut self, value: i64) {
        self.add_many(value, 1);
    }

    /// Counts a value that occurred `count` times.
    pub fn add_many(&mut self, value: i64, count: u64) {
        self.total += count;
        let bucket = bucket_of::<BITS>(value.unsigned_abs());
        if value >= 0 {
            self.counts[bucket] += count;
            return;
        }
        if self.negative.is_empty() {
            self.negative = vec![0; BUCKETS];
        }
        self.negative[bucket] += count;
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        if !other.negative.is_empty() && self.negative.is_empty() {
            self.negative = vec![0; BUCKETS];
        }
        let pairs = self.counts.iter_mut().zip(&other.counts).chain(self.negative.iter_mut().zip(&other.negative));
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many values were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The middles of the buckets that hold values, with their counts, in rising order.
    #[must_use]
    pub fn middles(&self) -> Vec<(i64, u64)> {
        let held = |(bucket, count): (usize, &u64)| (*count > 0).then(|| (middle_of(bucket), *count));
        let below = self.negative.iter().enumerate().rev().filter_map(held).map(|(size, count)| (-size, count));
        below.chain(self.counts.iter().enumerate().filter_map(held)).collect()
    }

    /// The figures, each to 1/64 of its size: those of the middles.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures::of_counts(&self.middles())
    }

    /// The figures where the least and the greatest value and the mean are known exactly: no quantile lies beyond the
    /// extremes.
    #[must_use]
    pub fn figures_within(&self, extremes: Option<(f64, f64)>, mean: Option<f64>) -> Figures {
        let coarse = self.figures();
        let within = |figure: Option<f64>| {
            let (least, greatest) = extremes?;
            figure.map(|figure| figure.clamp(least, greatest))
        };
        Figures {
            median: within(coarse.median),
            p99: within(coarse.p99),
            p999: within(coarse.p999),
            min: extremes.map(|(least, _)| least),
            max: extremes.map(|(_, greatest)| greatest),
            mean,
            ..coarse
        }
    }
}

/// The middle of a bucket; that of the last bucket lies above every `i64`.
fn middle_of(bucket: usize) -> i64 {
    let least = least_of::<BITS>(bucket);
    let octave = (bucket >> BITS).saturating_sub(1);
    let last = least + ((1_u64 << octave) - 1);
    i64::try_from(least.midpoint(last)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::quantile;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_the_bucket_is_narrow(value in any::<u64>().prop_map(|x| x >> (x % 64))) {
            let bucket = bucket_of::<BITS>(value);
            let least = least_of::<BITS>(bucket);
            prop_assert!(least <= value && (bucket + 1 == BUCKETS || value < least_of::<BITS>(bucket + 1)));
            prop_assert!(bucket + 1 == BUCKETS || least_of::<BITS>(bucket + 1) - least <= least / 64 + 1);
        }

        #[test]
        fn quantiles_are_those_of_the_values_to_one_bucket(
            mut values in proptest::collection::vec(-1_i64 << 40..1 << 40, 4..500),
        ) {
            let mut live = LogHistogram::default();
            values.iter().for_each(|&value| live.add(value));
            values.sort_unstable();
            for q in [0.0, 0.5, 0.99, 1.0] {
                let exact = quantile(&values, q).expect("not empty");
                let found = super::super::quantile_of_counts(&live.middles(), q).expect("not empty");
                // Two values far apart on either side of 0 are each known to 1/64 of their size.
                let greatest = values.iter().map(|value| value.unsigned_abs()).max().expect("not empty");
                let near = greatest as f64 / 64.0 + 0.5;
                prop_assert!((found - exact).abs() <= near, "{q}: {found} for {exact}");
            }
        }

        #[test]
        fn merging_is_adding(
            a in proptest::collection::vec(-5_i64..1 << 30, 0..50),
            b in proptest::collection::vec(-5_i64..1 << 30, 0..50),
        ) {
            let (mut left, mut right, mut both) = <(LogHistogram, LogHistogram, LogHistogram)>::default();
            a.iter().for_each(|&value| left.add(value));
            b.iter().for_each(|&value| right.add(value));
            a.iter().chain(&b).for_each(|&value| both.add(value));
            left.merge(&right);
            prop_assert_eq!((left.middles(), left.total()), (both.middles(), both.total()));
        }
    }

    #[test]
    fn the_largest_values_of_both_signs_have_a_bucket() {
        assert_eq!(bucket_of::<BITS>(u64::MAX), BUCKETS - 1);
        let mut live = LogHistogram::default();
        [i64::MIN, -7, 7, i64::MAX].into_iter().for_each(|value| live.add(value));
        let middles = live.middles();
        assert_eq!((middles.len(), middles[1], middles[2], live.total()), (4, (-7, 1), (7, 1), 4));
        assert_eq!(live.figures().median, Some(0.0));
    }

    #[test]
    fn known_extremes_bound_the_quantiles_and_nothing_has_none() {
        let mut live = LogHistogram::default();
        live.add_many(10_240, 3);
        let figures = live.figures_within(Some((10_250.0, 10_260.0)), Some(10_255.0));
        assert_eq!((figures.n, figures.min, figures.max), (3, Some(10_250.0), Some(10_260.0)));
        assert!(figures.median.is_some_and(|median| (10_250.0..=10_260.0).contains(&median)));
        assert_eq!(LogHistogram::default().figures_within(None, None), Figures::default());
    }
}
