use vtare_units::figures::{Figures, LogHistogram};

/// One series of durations: a live histogram, and the samples themselves as long as they are few enough.
#[derive(Clone, Debug)]
pub struct Series {
    live: LogHistogram,
    samples: Vec<i64>,
    most: usize,
    n: u64,
    sum: i128,
    extremes: Option<(i64, i64)>,
}

impl Series {
    /// A series whose figures are exact up to `most` samples.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { live: LogHistogram::default(), samples: Vec::new(), most, n: 0, sum: 0, extremes: None }
    }

    /// Adds a sample.
    pub fn add(&mut self, ns: i64) {
        self.live.add(ns);
        self.n += 1;
        self.sum += i128::from(ns);
        self.extremes = Some(self.extremes.map_or((ns, ns), |(min, max)| (min.min(ns), max.max(ns))));
        if self.samples.len() < self.most {
            self.samples.push(ns);
        }
    }

    /// The distribution so far.
    #[must_use]
    pub const fn live(&self) -> &LogHistogram {
        &self.live
    }

    /// Whether the quantiles of [`Series::figures`] are those of the samples, not of the histogram.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.n == self.samples.len() as u64
    }

    /// The figures. Beyond the exact number of samples, quantiles are the middles of histogram buckets (1/64 wide);
    /// `n`, `min`, `max` and `mean` are always exact.
    #[must_use]
    pub fn figures(&self) -> Figures {
        if self.is_exact() {
            return Figures::of(&mut self.samples.clone());
        }
        let extremes = self.extremes.map(|(min, max)| (min as f64, max as f64));
        self.live.figures_within(extremes, Some(self.sum as f64 / self.n as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_samples_count_in_the_quantiles_of_a_long_series() {
        let mut coarse = Series::new(100);
        (-2_000..=2_000).for_each(|ns| coarse.add(ns * 100));
        let median = coarse.figures().median.expect("estimable");
        assert!(median.abs() <= 100.0, "{median}");
    }

    #[test]
    fn beyond_its_exact_samples_a_series_keeps_count_extremes_and_mean_exact() {
        let (mut exact, mut coarse) = (Series::new(10_000), Series::new(100));
        for i in 0..5_000_i64 {
            let ns = 20_000 + i * 7_919 % 30_011;
            exact.add(ns);
            coarse.add(ns);
        }
        assert!(exact.is_exact() && !coarse.is_exact());
        let (want, found) = (exact.figures(), coarse.figures());
        assert_eq!((found.n, found.min, found.max, found.mean), (want.n, want.min, want.max, want.mean));
        for (found, want) in [(found.median, want.median), (found.p99, want.p99), (found.p999, want.p999)] {
            let (found, want) = (found.expect("estimable"), want.expect("estimable"));
            assert!((found / want - 1.0).abs() < 1.0 / 64.0, "{found} for {want}");
        }
    }
}
