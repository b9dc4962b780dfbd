//! The capacity of the tight link, where that need not be the narrow one.
//!
//! Gaps between packets sent back to back show the capacity of the *narrow* link. The link with the least available
//! bandwidth, the *tight* one, may be faster and carry more. What a train of rate `R` corrects itself by is the slope
//! of its delays times the capacity of the tight link: `A = R - C s`. Two trains at different rates determine both: `C
//! = (R1 - R2)/(s1 - s2)`, as far as `A` is the same in both. Hence a posterior over `C/C_narrow` from all trains.
//!
//! Where nothing crosses, just the narrow link's capacity is free. That is as likely beforehand as all other values
//! together, and another link's value lies there by chance alone: one train next to it is enough.
//= Melander, Bjorkman, Gunningberg 2000 (TOPP): the slope of offered over measured rate is that of the tight link

use super::tuning as t;

/// Values of each unknown that get a probability.
pub(super) const CELLS: usize = 61;

/// What one train reports, whatever the capacity is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    /// Rate of its probes, bit/s.
    pub(super) rate: f64,
    /// Change of delay over time, and its standard error.
    pub(super) slope: f64,
    pub(super) slope_error: f64,
    /// By how much the available bandwidth in its time may differ from that in another's, as a share of the capacity
    /// (one standard deviation), and what its queue may have been empty for.
    pub(super) spread: f64,
}

/// The ratio of the tight link's capacity to the narrow one's, as far as trains show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// The posterior's median.
    pub(super) value: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// Probability that the tight link is not the narrow one.
    pub(super) other: f64,
    /// Each ratio and its probability.
    pub(super) cells: [(f64, f64); CELLS + 1],
}

impl Ratio {
    /// The tight link is the narrow one.
    pub(super) const ONE: Self =
        Self { value: 1.0, error: 0.0, other: 0.0, cells: [(1.0, 1.0 / (CELLS + 1) as f64); CELLS + 1] };

    /// The value below which a share `q` lies of a mixture of normal distributions, one for each ratio: `of` gives mean
    /// and standard deviation.
    pub(super) fn quantile(&self, q: f64, of: impl Fn(f64) -> (f64, f64)) -> f64 {
        let parts = self.cells.map(|(ratio, weight)| (of(ratio), weight));
        let low = parts.iter().map(|((mean, sd), _)| mean - 8.0 * sd).fold(f64::INFINITY, f64::min);
        let high = parts.iter().map(|((mean, sd), _)| mean + 8.0 * sd).fold(f64::NEG_INFINITY, f64::max);
        let below = |x: f64| -> f64 {
            parts.iter().map(|&((mean, sd), weight)| weight * normal((x - mean) / sd.max(f64::MIN_POSITIVE))).sum()
        };
        let (mut low, mut high) = (low, high);
        for _ in 0..f64::MANTISSA_DIGITS {
            let middle = low + (high - low) / 2.0;
            if below(middle) < q { low = middle } else { high = middle }
        }
        low + (high - low) / 2.0
    }
}

/// The standard normal distribution, to 1e-4.
//= Hastings 1955, Approximations for digital computers; Abramowitz, Stegun 1964, 26.2.18
fn normal(x: f64) -> f64 {
    let away = x.abs().min(10.0);
    let tail = 0.5
        / (1.0 + 0.196_854 * away + 0.115_194 * away.powi(2) + 0.000_344 * away.powi(3) + 0.019_527 * away.powi(4))
            .powi(4);
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The ratio by all trains, over a narrow link of this capacity, bit/s, known to this share of it.
pub(super) fn ratio(trains: &[Response], (narrow, narrow_error): (f64, f64)) -> Ratio {
    let cell = |number: usize| {
        let share = number as f64 / (CELLS - 1) as f64;
        let ratio = t::RATIO_MOST.powf(2.0 * share - 1.0);
        (ratio, ratio.max(1.0 / ratio).powf(-t::RATIO_STEEP))
    };
    let mut cells: Vec<(f64, f64)> = (0..CELLS).map(cell).collect();
    let others: f64 = cells.iter().map(|cell| cell.1).sum();
    cells.push((1.0, others * t::RATIO_SAME / (1.0 - t::RATIO_SAME)));
    let logs: Vec<f64> = cells.iter().map(|&(ratio, _)| log_likelihood(trains, ratio, narrow, narrow_error)).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<(f64, f64)> =
        cells.iter().zip(&logs).map(|(&(ratio, prior), log)| (ratio, prior * (log - most).exp())).collect();
    weights.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sum: f64 = weights.iter().map(|it| it.1).sum();
    let mut below = 0.0;
    // The median: a tight link that is the narrow one is not made faster by what else it might be.
    let median = weights.iter().find(|it| {
        below += it.1;
        below >= sum / 2.0
    });
    let median = median.map_or(1.0, |it| it.0);
    let square: f64 = weights.iter().map(|(ratio, weight)| weight * (ratio - median).powi(2)).sum();
    let same: f64 = weights.iter().filter(|it| (it.0 - 1.0).abs() < t::FAR).map(|it| it.1).sum();
    let mut cells = Ratio::ONE.cells;
    for (cell, it) in cells.iter_mut().zip(&weights) {
        *cell = (it.0, it.1 / sum);
    }
    Ratio { value: median, error: (square / sum).sqrt(), other: 1.0 - same / sum, cells }
}

/// How well one share `a = A/C` fits all trains, were the tight link's capacity this one, bit/s: `s = R/C - a` is what
/// was observed, with an error that is the same whatever `C` is.
fn log_likelihood(trains: &[Response], ratio: f64, narrow: f64, narrow_error: f64) -> f64 {
    let capacity = ratio * narrow;
    let each = |train: &Response| {
        let far = t::FAR_ERROR * train.slope;
        (train.rate / capacity - train.slope, train.spread.powi(2) + train.slope_error.powi(2) + far.powi(2) + 1e-12)
    };
    let (weight, sum) = trains
        .iter()
        .map(each)
        .fold((0.0, 0.0), |(weight, sum), (share, variance)| (weight + 1.0 / variance, sum + share / variance));
    if weight == 0.0 {
        return 0.0;
    }
    let mean = sum / weight;
    let fits = trains.iter().map(each).map(|(share, variance)| (share - mean).powi(2) / variance);
    // No more is available than either link carries, and no less than nothing.
    let most = ratio.recip().min(1.0);
    let known = t::CAPACITY_ERROR.hypot(narrow_error) * most;
    let outside = (mean - mean.clamp(0.0, most)).powi(2) / (1.0 / weight + known.powi(2));
    // An idle link leaves just its capacity free, which is as likely as all other values; another link's value lies
    // there by chance alone.
    let error = (1.0 / weight + narrow_error.powi(2)).sqrt();
    let idle = (-0.5 * ((mean - 1.0) / error).powi(2)).exp() / (error * std::f64::consts::TAU.sqrt());
    -0.5 * (fits.sum::<f64>() + outside) + if ratio == 1.0 { idle.ln_1p() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trains at these rates over a tight link of 400 Mbit/s with 40 available, behind a narrow one of 100.
    fn trains(rates: &[f64]) -> Vec<Response> {
        let train = |&rate: &f64| Response { rate, slope: (rate - 4e7) / 4e8, slope_error: 1e-4, spread: 1e-3 };
        rates.iter().map(train).collect()
    }

    #[test]
    fn one_train_leaves_the_tight_links_capacity_open() {
        let found = ratio(&trains(&[6e7]), (1e8, 0.03));
        assert!(found.error > 0.8 && found.other > 0.2, "{found:?}");
    }

    #[test]
    fn two_trains_at_different_rates_show_a_tight_link_that_is_not_the_narrow_one() {
        let found = ratio(&trains(&[6e7, 4.2e7]), (1e8, 0.03));
        assert!(found.value > 2.0 && found.other > 0.9, "{found:?}");
    }

    #[test]
    fn one_train_that_finds_just_the_narrow_links_capacity_free_shows_that_it_is_the_tight_one() {
        let train = |free: f64| {
            let rate = 1.1e8;
            ratio(&[Response { rate, slope: (rate - free) / 1e8, slope_error: 1e-3, spread: 1e-3 }], (1e8, 0.005))
        };
        let (idle, used) = (train(9.99e7), train(9e7));
        assert!(idle.other < 0.05 && idle.value == 1.0, "{idle:?}");
        assert!(used.other > 0.2, "{used:?}");
    }

    #[test]
    fn two_trains_that_agree_with_the_narrow_link_show_that_it_is_the_tight_one() {
        let narrow = 4e8;
        let found = ratio(&trains(&[6e7, 4.2e7]), (narrow, 0.03));
        assert!((found.value - 1.0).abs() < 0.05 && found.error < 0.3 && found.other < 0.2, "{found:?}");
    }
}
