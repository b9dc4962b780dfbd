//! Random numbers that stay the same for a seed, on every machine and in every release: schedules and simulated paths
//! are part of a record that must be repeatable. Nothing secret may come from here.

/// xoshiro256++, seeded by SplitMix64.
//= Blackman & Vigna 2021, Scrambled linear pseudorandom number generators
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut state = [0; 4];
        let (mut x, mut i) = (seed, 0);
        while i < 4 {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state[i] = z ^ (z >> 31);
            i += 1;
        }
        Self(state)
    }

    /// A generator of its own for part number `part`, so that parts stay independent when one of them draws more.
    #[must_use]
    pub fn part(seed: u64, part: u64) -> Self {
        Self::new(seed ^ part.wrapping_add(1).wrapping_mul(0xa076_1d64_78bd_642f))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        self.0 = [a ^ b ^ d, a ^ b ^ c, c ^ a ^ (b << 17), (d ^ b).rotate_left(45)];
        a.wrapping_add(d).rotate_left(23).wrapping_add(a)
    }

    /// Uniform in (0, 1]: never 0, so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() <= probability
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Normally distributed around 0 with standard deviation 1.
    //= Box & Muller 1958
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Pareto distributed with this mean and shape, which must be above 1 for the mean to exist.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        mean * (shape - 1.0) / shape * self.unit().powf(-1.0 / shape)
    }

    /// Puts `items` into a random order; all orders are equally likely.
    //= Fisher & Yates 1938, Durstenfeld 1964
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            // Below last + 1, by the high half of a product: off from uniform by less than 2^-50 for any list in
            // memory.
            let chosen = (u128::from(self.bits()) * (last as u128 + 1)) >> 64;
            items.swap(last, chosen as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(7);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, FIRST_OF_SEED_7);
        assert_ne!(Random::part(7, 0), Random::part(7, 1));
    }

    #[test]
    fn a_seed_gives_the_same_order_for_ever() {
        let mut order: Vec<u32> = (0..12).collect();
        Random::new(7).shuffle(&mut order);
        // Computed from the published algorithms in another language.
        assert_eq!(order, [5, 2, 11, 6, 10, 4, 8, 9, 3, 7, 1, 0]);
        Random::new(7).shuffle::<u32>(&mut []);
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut random = Random::new(3);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            random.shuffle(&mut order);
            *counts.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // Five standard deviations.
        assert!(counts.values().all(|count| (845..1_155).contains(count)), "{counts:?}");
    }

    /// Computed from the published reference code of xoshiro256++ and SplitMix64.
    const FIRST_OF_SEED_7: [u64; 3] = [0x0e2c_1a00_2aae_913d, 0x2c0f_c8dd_fa4e_9e14, 0xb7b3_11b3_b0d4_5872];

    #[test]
    fn means_are_as_asked() {
        let mut random = Random::new(1);
        let n = 200_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);
        // 5 standard errors: 1/sqrt(n) for the exponential; Pareto with shape 3 has standard deviation 0.577 of its
        // mean.
        assert!((mean(&mut || random.exponential(10.0)) - 10.0).abs() < 0.12);
        assert!((mean(&mut || random.pareto(10.0, 3.0)) - 10.0).abs() < 0.07);
        assert!((mean(&mut || f64::from(u8::from(random.chance(0.25)))) - 0.25).abs() < 0.005);
    }
}
