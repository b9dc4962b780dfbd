//! A distribution that keeps every value.

use std::collections::BTreeMap;

/// Counts of exact values: an array for the small ones that nearly all readings have, a map for the rest.
///
/// Unlike [`LogHistogram`](super::LogHistogram) it loses nothing, which the steps of a clock need: 10 M timer readings
/// take well under 2 MB.
#[derive(Clone, Debug)]
pub struct ExactHistogram {
    dense: Vec<u64>,
    rest: BTreeMap<i64, u64>,
    n: u64,
}

impl Default for ExactHistogram {
    fn default() -> Self {
        Self { dense: vec![0; Self::DENSE], rest: BTreeMap::new(), n: 0 }
    }
}

impl ExactHistogram {
    const DENSE: usize = 1 << 16;

    /// Counts one reading.
    #[inline]
    pub fn add(&mut self, value: i64) {
        self.n += 1;
        match usize::try_from(value).ok().and_then(|index| self.dense.get_mut(index)) {
            Some(count) => *count += 1,
            None => *self.rest.entry(value).or_insert(0) += 1,
        }
    }

    /// How many readings were counted.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// The values that occurred with their counts, in rising order: see
    /// [`Figures::of_counts`](super::Figures::of_counts).
    #[must_use]
    pub fn counts(&self) -> Vec<(i64, u64)> {
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
    fn an_exact_histogram_gives_back_every_value_in_order() {
        let mut histogram = ExactHistogram::default();
        for value in [70_000, 26, 26, -4, 65_535, 65_536, 0, 26] {
            histogram.add(value);
        }
        assert_eq!(histogram.n(), 8);
        assert_eq!(histogram.counts(), [(-4, 1), (0, 1), (26, 3), (65_535, 1), (65_536, 1), (70_000, 1)]);
    }
}
