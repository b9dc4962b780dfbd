//! A live distribution in constant memory: logarithmic buckets, so that the relative width is the same everywhere.

use crate::figures::{LEAST_FOR_P99, LEAST_FOR_P999};

/// Buckets of one octave: a bucket is at most 1/64 (1.6 %) as wide as its values are large.
const PER_OCTAVE: u32 = 64;
const BITS: u32 = PER_OCTAVE.trailing_zeros();
const BUCKETS: usize = (64 - BITS as usize + 1) * PER_OCTAVE as usize;

/// Counts of durations in ns. Values below 128 ns are kept exactly, larger ones to 1/64; 30 KiB whatever their range.
///
/// ```
/// use vtare_methods::histogram::Histogram;
/// let mut live = Histogram::default();
/// for ns in [10_000, 12_000, 11_000] {
///     live.add(ns);
/// }
/// let median = live.quantile(0.5).expect("three samples have a median");
/// assert!((median as f64 / 11_000.0 - 1.0).abs() < 1.0 / 64.0);
/// ```
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    below_zero: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0, below_zero: 0 }
    }
}

impl Histogram {
    /// Adds a duration. Negative ones (two clocks that disagree) are counted apart and belong to no bucket.
    pub fn add(&mut self, ns: i64) {
        self.add_many(ns, 1);
    }

    /// Adds a duration that occurred `count` times: for histograms made in the kernel.
    pub fn add_many(&mut self, ns: i64, count: u64) {
        match u64::try_from(ns) {
            Ok(ns) => {
                self.counts[bucket(ns)] += count;
                self.total += count;
            }
            Err(_) => self.below_zero += count,
        }
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.below_zero += other.below_zero;
    }

    /// Durations in the buckets.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Negative durations.
    #[must_use]
    pub const fn below_zero(&self) -> u64 {
        self.below_zero
    }

    /// The middle of the bucket that holds quantile `q`, ns; `None` without samples or for `q` outside 0..=1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.total == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * (self.total - 1) as f64).round() as u64).min(self.total - 1);
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += count;
            seen > rank
        })?;
        let (low, high) = edges(found);
        Some(low + (high - low) / 2)
    }

    /// As [`Histogram::quantile`] for 0.99, null below 299 samples.
    #[must_use]
    pub fn p99(&self) -> Option<u64> {
        if self.total < LEAST_FOR_P99 { None } else { self.quantile(0.99) }
    }

    /// As [`Histogram::quantile`] for 0.999, null below 2995 samples.
    #[must_use]
    pub fn p999(&self) -> Option<u64> {
        if self.total < LEAST_FOR_P999 { None } else { self.quantile(0.999) }
    }

    /// Buckets that are not empty: least value, greatest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, &count)| {
            let (low, high) = edges(index);
            (low, high, count)
        })
    }
}

fn bucket(ns: u64) -> usize {
    let octave = 63_u32.saturating_sub(ns.leading_zeros()).saturating_sub(BITS);
    // Within an octave the upper bits of the value count on.
    (octave * PER_OCTAVE) as usize + (ns >> octave) as usize
}

/// The least and the greatest value of a bucket.
fn edges(index: usize) -> (u64, u64) {
    let octave = (index / PER_OCTAVE as usize).saturating_sub(1);
    let mantissa = (index - octave * PER_OCTAVE as usize) as u64;
    let low = mantissa << octave;
    (low, low + ((1_u64 << octave) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_the_bucket_is_narrow(ns in any::<u64>().prop_map(|x| x >> (x % 64))) {
            let (low, high) = edges(bucket(ns));
            prop_assert!((low..=high).contains(&ns));
            prop_assert!(high - low <= low / 64);
        }

        #[test]
        fn quantiles_are_those_of_the_samples_to_one_bucket(mut samples in proptest::collection::vec(0_i64..1 << 40, 1..500)) {
            let mut live = Histogram::default();
            samples.iter().for_each(|&ns| live.add(ns));
            samples.sort_unstable();
            for q in [0.0, 0.5, 0.99, 1.0] {
                let exact = samples[(q * (samples.len() - 1) as f64).round() as usize] as f64;
                let found = live.quantile(q).expect("not empty") as f64;
                prop_assert!((found - exact).abs() <= exact / 64.0 + 0.5, "{q}: {found} for {exact}");
            }
        }

        #[test]
        fn merging_is_adding(a in proptest::collection::vec(-5_i64..1 << 30, 0..50), b in proptest::collection::vec(-5_i64..1 << 30, 0..50)) {
            let (mut left, mut right, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
            a.iter().for_each(|&ns| left.add(ns));
            b.iter().for_each(|&ns| right.add(ns));
            a.iter().chain(&b).for_each(|&ns| both.add(ns));
            left.merge(&right);
            prop_assert_eq!(left.buckets().collect::<Vec<_>>(), both.buckets().collect::<Vec<_>>());
            prop_assert_eq!((left.total(), left.below_zero()), (both.total(), both.below_zero()));
        }
    }

    #[test]
    fn the_largest_value_has_a_bucket_and_negative_ones_are_told() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let mut live = Histogram::default();
        live.add(-1);
        assert_eq!((live.total(), live.below_zero(), live.quantile(0.5)), (0, 1, None));
        live.add_many(7, 298);
        assert_eq!(live.p99(), None);
        live.add(7);
        assert_eq!((live.p99(), live.p999()), (Some(7), None));
    }
}
