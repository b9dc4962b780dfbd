//! The coefficient of variation and its parts within and between batches.

use std::collections::BTreeMap;

/// Coefficients of variation of one series; `None` where they cannot be estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// Sample standard deviation (n - 1) over mean, of all values together.
    pub(super) cv: Option<f64>,
    /// Square root of the variance component within batches, over the mean.
    pub(super) within: Option<f64>,
    /// Square root of the variance component between batches, over the mean.
    pub(super) between: Option<f64>,
}

impl Spread {
    /// One-way random-effects variance components by the method of moments (ANOVA):
    ///
    /// with N values x in b batches of n_i, batch means m_i and mean m,
    /// MSW = sum (x - m_i)^2 / (N - b), MSB = sum n_i (m_i - m)^2 / (b - 1), n0 = (N - sum n_i^2 / N) / (b - 1);
    /// the component within is MSW, the one between is max(0, (MSB - MSW) / n0).
    ///
    /// `values` are `(batch, value)`.
    pub(super) fn of(values: &[(u64, f64)]) -> Self {
        let total = values.len() as f64;
        if values.len() < 2 {
            return Self::default();
        }
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / total;
        if mean <= 0.0 {
            return Self::default();
        }
        let mut batches: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (batch, value) in values {
            let entry = batches.entry(*batch).or_default();
            *entry = (entry.0 + 1.0, entry.1 + value);
        }
        let mut within_squares = 0.0;
        let mut squares = 0.0;
        for (batch, value) in values {
            let (n, sum) = batches[batch];
            within_squares += (value - sum / n).powi(2);
            squares += (value - mean).powi(2);
        }
        let b = batches.len() as f64;
        let cv = (squares / (total - 1.0)).sqrt() / mean;
        let within = (total > b).then(|| within_squares / (total - b));
        let between = within.filter(|_| b > 1.0).map(|within| {
            let between_squares: f64 = batches.values().map(|(n, sum)| n * (sum / n - mean).powi(2)).sum();
            let n0 = (total - batches.values().map(|(n, _)| n * n).sum::<f64>() / total) / (b - 1.0);
            ((between_squares / (b - 1.0) - within) / n0).max(0.0)
        });
        let share = |variance: f64| variance.sqrt() / mean;
        Self { cv: Some(cv), within: within.map(share), between: between.map(share) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, wanted: f64) {
        let found = found.expect("it can be estimated");
        assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
    }

    #[test]
    fn components_are_those_of_a_worked_example() {
        // Batches {9, 11} and {19, 21}: mean 15, MSW = 4/2 = 2, MSB = 2 (25 + 25) / 1 = 100, n0 = 2:
        // within 2, between (100 - 2) / 2 = 49; all: variance 104/3.
        let spread = Spread::of(&[(0, 9.0), (0, 11.0), (1, 19.0), (1, 21.0)]);
        near(spread.within, 2_f64.sqrt() / 15.0);
        near(spread.between, 7.0 / 15.0);
        near(spread.cv, (104.0_f64 / 3.0).sqrt() / 15.0);
    }

    #[test]
    fn unequal_batches_are_weighed_by_n0() {
        // {1, 3} and {5}: mean 3, MSW = 2, MSB = 2 (2-3)^2 + (5-3)^2 = 6, n0 = 3 - 5/3 = 4/3, between (6 - 2)/(4/3) =
        // 3.
        let spread = Spread::of(&[(0, 1.0), (0, 3.0), (7, 5.0)]);
        near(spread.within, 2_f64.sqrt() / 3.0);
        near(spread.between, 3_f64.sqrt() / 3.0);
    }

    #[test]
    fn batches_that_differ_less_than_chance_have_no_part_between() {
        near(Spread::of(&[(0, 9.0), (0, 11.0), (1, 9.0), (1, 11.0)]).between, 0.0);
    }

    #[test]
    fn what_cannot_be_estimated_is_none() {
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[(0, 5.0)]), Spread::default());
        let one_batch = Spread::of(&[(0, 4.0), (0, 6.0)]);
        assert!(one_batch.cv.is_some() && one_batch.within.is_some() && one_batch.between.is_none());
        let single_calls = Spread::of(&[(0, 4.0), (1, 6.0)]);
        assert!(single_calls.cv.is_some() && single_calls.within.is_none() && single_calls.between.is_none());
    }
}
