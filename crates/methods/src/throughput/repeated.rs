use serde::Serialize;
use vtare_units::figures::{LEAST_FOR_QUARTILES, quantile};

/// The answers of several searches together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Repeated {
    /// Searches with an answer.
    pub n: u64,
    /// Their median.
    pub median: Option<f64>,
    /// Half of their interquartile range (Hyndman-Fan 7); null below 4.
    pub half_iqr: Option<f64>,
    /// An interval of the median: two of the answers, by order.
    pub interval: Option<[f64; 2]>,
    /// How often such an interval holds the true median: 0.95 or more, less where there are fewer than 6 answers.
    pub coverage: Option<f64>,
    /// The least and the greatest answer.
    pub extremes: Option<[f64; 2]>,
}

impl Repeated {
    /// Of these answers.
    ///
    /// ```
    /// use vtare_methods::throughput::Repeated;
    /// let of = Repeated::of(&[5.0, 1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!((of.median, of.interval, of.coverage), (Some(3.0), Some([1.0, 5.0]), Some(0.9375)));
    /// ```
    #[must_use]
    pub fn of(answers: &[f64]) -> Self {
        let mut sorted = answers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else { return Self::default() };
        let (inwards, coverage) = narrowest(n);
        let quartiles =
            quantile(&sorted, 0.75).zip(quantile(&sorted, 0.25)).filter(|_| n as u64 >= LEAST_FOR_QUARTILES);
        Self {
            n: n as u64,
            median: quantile(&sorted, 0.5),
            half_iqr: quartiles.map(|(upper, lower)| (upper - lower) / 2.0),
            interval: (n >= 2).then(|| [sorted[inwards], sorted[n - 1 - inwards]]),
            coverage: (n >= 2).then_some(coverage),
            extremes: Some([first, last]),
        }
    }
}

/// How many answers may be left out at either end for 0.95, and what the interval then covers.
fn narrowest(n: usize) -> (usize, f64) {
    // P(fewer than j of n lie below the median), doubled: the interval from j-th to (n + 1 - j)-th misses it so often.
    let mut term = 0.5_f64.powi(n as i32);
    let (mut below, mut best) = (term, (0, 1.0 - 2.0 * term));
    for inwards in 1..n / 2 {
        term *= (n + 1 - inwards) as f64 / inwards as f64;
        below += term;
        if 1.0 - 2.0 * below < 0.95 {
            break;
        }
        best = (inwards, 1.0 - 2.0 * below);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_answers_leave_one_out_at_either_end() {
        let of = Repeated::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!((of.median, of.half_iqr, of.interval), (Some(5.0), Some(2.0), Some([2.0, 8.0])));
        // 1 - 2 (1 + 9) / 512
        assert!((of.coverage.expect("nine") - 0.9609375).abs() < 1e-12);
    }

    #[test]
    fn intervals_cover_95_percent_as_soon_as_any_can() {
        for n in 6..60 {
            let (inwards, coverage) = narrowest(n);
            assert!(coverage >= 0.95 && inwards < n / 2, "{n}");
        }
        assert!(narrowest(5).1 < 0.95);
    }

    #[test]
    fn none_and_one_have_no_interval() {
        assert_eq!(Repeated::of(&[]), Repeated::default());
        let one = Repeated::of(&[7.0]);
        assert_eq!((one.median, one.interval, one.half_iqr, one.n), (Some(7.0), None, None, 1));
    }
}
