/// Where the available bandwidth lies, as far as the trains have told: probabilities over a logarithmic grid.
///
/// Each train multiplies in its likelihood. One train in ten is assumed to be spoiled in a way that its stamps do not
/// show, so that a single wrong one cannot move the whole weight.
//= Waeber, Frazier, Henderson 2013, Bisection search with noisy responses (probabilistic bisection)
#[derive(Clone, Debug)]
pub(super) struct Belief {
    low: f64,
    /// Logarithm of the ratio of neighbours.
    step: f64,
    weight: Vec<f64>,
}

const CELLS: usize = 512;
const SPOILED: f64 = 0.1;

impl Belief {
    /// All values between the two are alike, on the scale of logarithms.
    pub(super) fn new(low: f64, high: f64) -> Self {
        let step = (high / low).ln() / (CELLS - 1) as f64;
        Self { low, step, weight: vec![1.0 / CELLS as f64; CELLS] }
    }

    /// Nothing is known but the capacity, bit/s.
    pub(super) fn up_to(capacity: f64) -> Self {
        Self::new(capacity / 1e4, capacity * 1.05)
    }

    fn value(&self, cell: usize) -> f64 {
        self.low * (self.step * cell as f64).exp()
    }

    /// A train said that it lies between `least` and `most`, with this standard error.
    pub(super) fn learn(&mut self, least: f64, most: f64, error: f64) {
        let (low, step) = (self.low, self.step);
        // The grid must not be finer than what it is asked.
        let of = |cell: usize| {
            let value = low * (step * cell as f64).exp();
            let width = error.max(value * step);
            let away = (least - value).max(value - most).max(0.0) / width;
            (1.0 - SPOILED) * (-0.5 * away * away).exp() + SPOILED * 0.05
        };
        self.weight.iter_mut().enumerate().for_each(|(cell, weight)| *weight *= of(cell));
        let sum: f64 = self.weight.iter().sum();
        if sum > 0.0 {
            self.weight.iter_mut().for_each(|weight| *weight /= sum);
        } else {
            self.weight.fill(1.0 / CELLS as f64);
        }
    }

    /// The value below which this share of the weight lies.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut sum = 0.0;
        let cell = self.weight.iter().position(|weight| {
            sum += weight;
            sum >= share
        });
        self.value(cell.unwrap_or(CELLS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_trains_outweigh_a_spoiled_one() {
        let mut belief = Belief::new(1e6, 1e9);
        for found in [5.1e7, 4.0e8, 4.9e7, 5.0e7] {
            belief.learn(found, found, 1e6);
        }
        assert!((belief.quantile(0.5) / 5e7 - 1.0).abs() < 0.03, "{}", belief.quantile(0.5));
        assert!(belief.quantile(0.975) < 6e7);
    }

    #[test]
    fn a_lower_bound_leaves_all_above_alike() {
        let mut belief = Belief::new(1e6, 1e8);
        belief.learn(1e7, f64::INFINITY, 1e5);
        let middle = belief.quantile(0.5);
        assert!((middle / (1e7_f64 * 1e8).sqrt() - 1.0).abs() < 0.1, "{middle}");
    }
}
