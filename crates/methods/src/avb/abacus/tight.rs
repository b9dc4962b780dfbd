//! The capacity of the tight link, where that need not be the narrow one.
//!
//! Gaps between packets sent back to back show the capacity of the *narrow* link. The link with the least available
//! bandwidth, the *tight* one, may be faster and carry more. What a train of rate `R` corrects itself by is the slope
//! of its delays times the capacity of the tight link: `A = R - C s`. Two trains at different rates determine both: `C
//! = (R1 - R2)/(s1 - s2)`, as far as `A` is the same in both. Hence a posterior over `C/C_narrow` from all trains.
//= Melander, Bjorkman, Gunningberg 2000 (TOPP): the slope of offered over measured rate is that of the tight link

/// What one train reports, whatever the capacity is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    /// Rate of its probes, bit/s.
    pub(super) rate: f64,
    /// Change of delay over time, and its standard error.
    pub(super) slope: f64,
    pub(super) slope_error: f64,
    /// By how much the available bandwidth in its time may differ from that in another's, bit/s (one standard
    /// deviation), and what its queue may have been empty for.
    pub(super) spread: f64,
}

/// Ratios of the tight link's capacity to the narrow one's: 1 to this.
const MOST_RATIO: f64 = 16.0;

/// Several links that are overloaded together act as one with less capacity than any of them: down to this ratio.
const LEAST_RATIO: f64 = 0.5;

/// Number of ratios looked at, on a logarithmic scale.
const CELLS: usize = 41;

/// At a rate far above the value other links are overloaded as well: so much of what a slope corrects may be theirs.
const FAR: f64 = 0.15;

/// A ratio this close to 1 is that of the narrow link itself.
const NEAR: f64 = 0.12;

/// Probability, before any train, that the tight link is the narrow one.
const SAME: f64 = 0.6;

/// Ratios are the rarer the larger they are: with this power.
const STEEP: f64 = 1.0;

/// The ratio of the tight link's capacity to the narrow one's, as far as trains show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// The posterior's median.
    pub(super) value: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// Probability that the tight link is not the narrow one.
    pub(super) other: f64,
}

impl Ratio {
    /// The tight link is the narrow one.
    pub(super) const ONE: Self = Self { value: 1.0, error: 0.0, other: 0.0 };
}

/// The ratio by all trains, over a narrow link of this capacity, bit/s.
pub(super) fn ratio(trains: &[Response], narrow: f64) -> Ratio {
    let cell = |number: usize| {
        let share = number as f64 / (CELLS - 1) as f64;
        let ratio = LEAST_RATIO * (MOST_RATIO / LEAST_RATIO).powf(share);
        (ratio, ratio.powf(-STEEP))
    };
    let mut cells: Vec<(f64, f64)> = (0..CELLS).map(cell).collect();
    let others: f64 = cells.iter().map(|cell| cell.1).sum();
    cells.push((1.0, others * SAME / (1.0 - SAME)));
    let logs: Vec<f64> = cells.iter().map(|&(ratio, _)| log_likelihood(trains, ratio * narrow)).collect();
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
    let same: f64 = weights.iter().filter(|it| (it.0 - 1.0).abs() < NEAR).map(|it| it.1).sum();
    Ratio { value: median, error: (square / sum).sqrt(), other: 1.0 - same / sum }
}

/// How well one value fits all trains, were the tight link's capacity this one, bit/s.
fn log_likelihood(trains: &[Response], capacity: f64) -> f64 {
    let each = |train: &Response| {
        let far = FAR * capacity * train.slope;
        let variance = train.spread.powi(2) + (capacity * train.slope_error).powi(2) + far.powi(2) + 1.0;
        (train.rate - capacity * train.slope, variance)
    };
    let (weight, sum) = trains
        .iter()
        .map(each)
        .fold((0.0, 0.0), |(weight, sum), (value, variance)| (weight + 1.0 / variance, sum + value / variance));
    if weight == 0.0 {
        return 0.0;
    }
    let mean = sum / weight;
    let fits = trains.iter().map(each).map(|(value, variance)| (value - mean).powi(2) / variance + variance.ln());
    -0.5 * (fits.sum::<f64>() + weight.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trains at these rates over a tight link of 400 Mbit/s with 40 available, behind a narrow one of 100.
    fn trains(rates: &[f64]) -> Vec<Response> {
        let train = |&rate: &f64| Response { rate, slope: (rate - 4e7) / 4e8, slope_error: 1e-4, spread: 4e5 };
        rates.iter().map(train).collect()
    }

    #[test]
    fn one_train_leaves_the_tight_links_capacity_open() {
        let found = ratio(&trains(&[6e7]), 1e8);
        assert!(found.error > 0.8 && found.other > 0.2, "{found:?}");
    }

    #[test]
    fn two_trains_at_different_rates_tell_a_tight_link_that_is_not_the_narrow_one() {
        let found = ratio(&trains(&[6e7, 4.2e7]), 1e8);
        assert!(found.value > 2.0 && found.other > 0.9, "{found:?}");
    }

    #[test]
    fn two_trains_that_agree_with_the_narrow_link_tell_that_it_is_the_tight_one() {
        let narrow = 4e8;
        let found = ratio(&trains(&[6e7, 4.2e7]), narrow);
        assert!((found.value - 1.0).abs() < 0.05 && found.error < 0.3 && found.other < 0.1, "{found:?}");
    }
}
