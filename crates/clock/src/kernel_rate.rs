//! From bounds on a rate to the exact multiplier that the kernel uses.
//!
//! Linux turns a counter of `khz` kHz into nanoseconds by `(ticks x mult) >> shift`, both integers derived from `khz`
//! alone (`clocks_calc_mult_shift`, with a range of 600 s at most). A whole number of kHz is about 0.4 ppm wide at 2.6
//! GHz, so bounds narrower than that leave one candidate: the kernel's own. CLOCK_MONOTONIC_RAW then never drifts from
//! the counter.

/// A rate as the kernel holds it: ns = (ticks x mult) >> shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRate {
    /// The multiplier.
    pub mult: u32,
    /// The shift.
    pub shift: u32,
    /// The frequency it was derived from, in kHz.
    pub khz: u32,
}

impl KernelRate {
    /// What the kernel derives from a counter of `khz` kHz; `None` for 0.
    ///
    /// ```
    /// # use vtare_clock::kernel_rate::KernelRate;
    /// // 2596.132 MHz, as `dmesg` prints it: "clocksource: tsc: mask: 0xffffffffffffffff"
    /// let rate = KernelRate::of_khz(2_596_132).expect("not zero");
    /// assert!((rate.ns_per_tick() * 2.596_132 - 1.0).abs() < 1e-7);
    /// ```
    #[must_use]
    pub fn of_khz(khz: u32) -> Option<Self> {
        if khz == 0 {
            return None;
        }
        //= Linux kernel/time/clocksource.c, __clocksource_update_freq_scale and clocks_calc_mult_shift:
        // the counter's mask divided by its frequency, capped at 600 s, with scale 1000 (kHz).
        let (from, to, seconds) = (u64::from(khz), 1_000_000_u64, 600 * 1_000_u64);
        let mut range = (seconds * from) >> 32;
        let mut accumulator_bits = 32_u32;
        while range != 0 {
            range >>= 1;
            accumulator_bits -= 1;
        }
        for shift in (1..=32_u32).rev() {
            let mult = ((to << shift) + from / 2) / from;
            if mult >> accumulator_bits == 0 {
                return u32::try_from(mult).ok().map(|mult| Self { mult, shift, khz });
            }
        }
        None
    }

    /// A rate that the kernel itself states; the kHz are those nearest to it.
    #[must_use]
    pub fn stated(mult: u32, shift: u32) -> Self {
        let rate = Self { mult, shift, khz: 0 };
        Self { khz: (1e6 / rate.ns_per_tick()).round() as u32, ..rate }
    }

    /// The rate in ns per tick.
    #[must_use]
    pub fn ns_per_tick(self) -> f64 {
        f64::from(self.mult) / 2_f64.powi(self.shift.cast_signed())
    }
}

/// The kernel rates between the bounds (in ns per tick), slowest counter first; neighbouring kHz that share a
/// multiplier count once. Empty where the bounds are no rates.
pub fn kernel_rates_between(rate_low: f64, rate_high: f64) -> impl Iterator<Item = KernelRate> {
    let possible = rate_low > 0.0 && rate_high >= rate_low && 1e6 / rate_low < f64::from(u32::MAX);
    // One kHz to either side: the multiplier's own rounding moves the rate by a part of a kHz. Without possible bounds
    // the range is empty.
    let lowest = if possible { ((1e6 / rate_high).floor() - 1.0).max(1.0) as u32 } else { 1 };
    let highest = if possible { ((1e6 / rate_low).ceil() + 1.0) as u32 } else { 0 };
    let mut last: Option<KernelRate> = None;
    (lowest..=highest)
        .filter_map(KernelRate::of_khz)
        .filter(move |candidate| (rate_low..=rate_high).contains(&candidate.ns_per_tick()))
        .filter(move |candidate| {
            let shared = last.is_some_and(|last| (last.mult, last.shift) == (candidate.mult, candidate.shift));
            last = Some(*candidate);
            !shared
        })
}

/// The one kernel rate between the bounds (in ns per tick), or `None` where there is none or more than one.
#[must_use]
pub fn kernel_rate_within(rate_low: f64, rate_high: f64) -> Option<KernelRate> {
    let mut candidates = kernel_rates_between(rate_low, rate_high);
    let found = candidates.next()?;
    candidates.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_own_examples_come_out() {
        // Worked by hand from clocks_calc_mult_shift: 600 s x 2.596 GHz needs 41 bits, 9 beyond 32, leaving a 23-bit
        // multiplier.
        let rate = KernelRate::of_khz(2_596_132).expect("not zero");
        assert_eq!((rate.mult, rate.shift), (6_462_389, 24));
        // 1 GHz: ns per tick is exactly 1.
        let rate = KernelRate::of_khz(1_000_000).expect("not zero");
        assert_eq!(u64::from(rate.mult), 1_u64 << rate.shift);
        assert_eq!(KernelRate::of_khz(0), None);
    }

    #[test]
    fn bounds_that_hold_two_candidates_decide_nothing() {
        let rate = KernelRate::of_khz(2_596_132).expect("not zero").ns_per_tick();
        assert_eq!(kernel_rate_within(rate * (1.0 - 1e-6), rate * (1.0 + 1e-6)), None);
        assert_eq!(kernel_rate_within(0.0, 1.0), None);
        assert_eq!(kernel_rate_within(f64::NAN, 1.0), None);
    }

    proptest! {
        #[test]
        fn a_tenth_of_a_kilohertz_finds_the_frequency(khz in 500_000_u32..6_000_000, side in -0.1_f64..0.1) {
            let truth = KernelRate::of_khz(khz).expect("not zero");
            let step = truth.ns_per_tick() / f64::from(khz);
            let middle = truth.ns_per_tick() + side * step;
            let found = kernel_rate_within(middle - 0.1 * step, middle + 0.1 * step);
            // Neighbouring kHz may share a multiplier above 4 GHz; the rate is then the same.
            prop_assert_eq!(found.map(|found| (found.mult, found.shift)), Some((truth.mult, truth.shift)));
        }
    }
}
