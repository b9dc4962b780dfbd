//! What an instrument found of an injected fault, and when that counts as found.

use serde::Serialize;

/// Two-sided 99 % quantiles of Student's t for 2, 3, ... values.
const T99: [f64; 9] = [63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250];
/// The 99 % quantile of the normal distribution, two-sided.
const Z99: f64 = 2.575_829;

/// From the least to the greatest value that something may have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(super) struct Range(pub(super) f64, pub(super) f64);

impl Range {
    /// Both ends, in their order.
    pub(super) fn between(a: f64, b: f64) -> Self {
        Self(a.min(b), a.max(b))
    }

    /// Whether a value lies in it.
    pub(super) fn holds(self, value: f64) -> bool {
        self.0 <= value && value <= self.1
    }

    fn meets(self, other: Self) -> bool {
        self.0 <= other.1 && other.0 <= self.1
    }
}

/// One injection and what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// What was injected, as exactly as the injection is known.
    pub(super) injected: Range,
    /// The value without the fault.
    pub(super) without: f64,
    /// What the instrument found.
    pub(super) found: f64,
    /// The interval that it states.
    pub(super) interval: Range,
    /// Why what was injected is not what `injected` states, as those who injected it observed.
    pub(super) not_injected: Option<String>,
}

impl Trial {
    /// The mean of repeated measurements with its 99 % interval; `None` for less than two.
    pub(super) fn repeated(injected: Range, without: f64, values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let t = T99.get(values.len().checked_sub(2)?.min(T99.len() - 1))?;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = t * (variance / n).sqrt();
        Some(Self { injected, without, found: mean, interval: Range(mean - half, mean + half), not_injected: None })
    }

    /// `count` of `of` as a share with its 99 % interval (Wilson 1927).
    pub(super) fn share(injected: Range, without: f64, count: f64, of: f64) -> Self {
        let found = count / of;
        let scale = 1.0 + Z99 * Z99 / of;
        let middle = (found + Z99 * Z99 / (2.0 * of)) / scale;
        let half = Z99 / scale * (found * (1.0 - found) / of + Z99 * Z99 / (4.0 * of * of)).sqrt();
        Self { injected, without, found, interval: Range(middle - half, middle + half), not_injected: None }
    }

    /// The fault is found where the stated interval holds what was injected and excludes the value without the fault.
    pub(super) fn is_found(&self) -> bool {
        self.interval.meets(self.injected) && !self.interval.holds(self.without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_found_where_the_interval_holds_it_and_excludes_its_absence() {
        let trial = |interval| {
            Trial { injected: Range(9.9, 10.1), without: 0.0, found: 10.0, interval, not_injected: None }.is_found()
        };
        assert!(trial(Range(9.0, 11.0)) && trial(Range(10.1, 12.0)));
        assert!(!trial(Range(10.2, 12.0)), "it excludes what was injected");
        assert!(!trial(Range(-1.0, 11.0)), "there may be no fault");
        assert!(!trial(Range(f64::NAN, f64::NAN)), "no interval");
    }

    #[test]
    fn repeated_measurements_give_their_mean_and_students_interval() {
        let trial = Trial::repeated(Range(2.0, 2.0), 0.0, &[1.0, 2.0, 3.0]).expect("three values");
        assert_eq!(trial.found, 2.0);
        // 9.925 / sqrt(3).
        assert!((trial.interval.1 - 7.730).abs() < 1e-3 && !trial.is_found(), "{trial:?}");
        assert_eq!(Trial::repeated(Range(2.0, 2.0), 0.0, &[1.0]), None);
    }

    #[test]
    fn a_share_has_wilsons_interval() {
        let Range(low, high) = Trial::share(Range(0.05, 0.05), 0.0, 50.0, 1_000.0).interval;
        assert!((low - 0.0350).abs() < 2e-4 && (high - 0.0709).abs() < 2e-4, "{low} {high}");
        assert!(Trial::share(Range(0.05, 0.05), 0.0, 0.0, 1_000.0).interval.0.abs() < 1e-12, "none was lost");
    }
}
