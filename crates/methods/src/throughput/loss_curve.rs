/// A shape of the average loss by the offered load, with two parameters: the rate `forwarded` that is never exceeded,
/// and the `spread` around it over which losses set in. Rates are frames a second, above 0.
//= draft-vpolak-bmwg-plrsearch-03, fitting functions: stretch and erf
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossCurve {
    /// Twice integrated from the slope of the logistic function.
    Stretch,
    /// Twice integrated from the Gaussian function.
    Erf,
}

impl LossCurve {
    pub(super) const ALL: [Self; 2] = [Self::Stretch, Self::Erf];

    /// The logarithm of the frames lost a second, on average.
    pub(super) fn ln_loss_rate(self, load: f64, forwarded: f64, spread: f64) -> f64 {
        let most = forwarded / spread;
        let (ln_lost, ln_scale) = match self {
            Self::Stretch => {
                let x = load / spread;
                let x = x + (-(-x).exp_m1()).ln() - softplus(most);
                (if x < -30.0 { x } else { softplus(x).ln() }, -(-most).exp().ln_1p())
            }
            Self::Erf => {
                let (here, at_none) = (ln_integral_of_erfc(load / spread - most), ln_integral_of_erfc(-most));
                let grown = -(at_none - here).min(-f64::EPSILON).exp_m1();
                (here + grown.ln(), (2.0 - erfc(most)).ln())
            }
        };
        spread.ln() + ln_lost - ln_scale
    }

    /// The load at which this share is lost on average.
    pub(super) fn critical_load(self, forwarded: f64, spread: f64, loss_ratio: f64) -> f64 {
        // At the upper end more is lost than that, whatever the spread.
        let most = (forwarded + 40.0 * spread) / (1.0 - loss_ratio);
        let (mut low, mut high) = ((most * 1e-9).ln(), most.ln());
        for _ in 0..32 {
            let middle = (low + high) / 2.0;
            let lost = self.ln_loss_rate(middle.exp(), forwarded, spread) - middle;
            if lost < loss_ratio.ln() { low = middle } else { high = middle }
        }
        low.exp()
    }
}

/// ln(1 + e^x), without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Below this the series of the error function is used, from it on the continued fraction.
const FRACTION_FROM: f64 = 1.5;

/// x + K of the continued fraction e^(-x²) / (√π (x + K)) of erfc, gives K; for x of [`FRACTION_FROM`] or more.
//= NIST Digital Library of Mathematical Functions, 7.9.1
fn fraction(x: f64) -> f64 {
    let terms = 6 + (70.0 / (x * x)) as u32;
    0.5 / (2..=terms).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below)
}

/// The error function by its series, for |x| below [`FRACTION_FROM`].
//= NIST Digital Library of Mathematical Functions, 7.6.2
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..40 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 * sum * (-x * x).exp() / std::f64::consts::PI.sqrt()
}

/// The complementary error function of x, 0 or more.
fn erfc(x: f64) -> f64 {
    if x < FRACTION_FROM {
        return 1.0 - erf_series(x);
    }
    (-x * x).exp() / std::f64::consts::PI.sqrt() / (x + fraction(x))
}

/// ln of e^(-x²)/√π + x erfc(-x), the integral of erfc(-x) from minus infinity: without underflow.
fn ln_integral_of_erfc(x: f64) -> f64 {
    let y = x.abs();
    let ln_gauss = -y * y - std::f64::consts::PI.ln() / 2.0;
    let ln_below = if y < FRACTION_FROM {
        (ln_gauss.exp() - y * erfc(y)).ln()
    } else {
        let k = fraction(y);
        ln_gauss + (k / (y + k)).ln()
    };
    if x < 0.0 { ln_below } else { (2.0 * y + ln_below.exp()).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_error_function_is_that_of_tables() {
        // Abramowitz & Stegun, table 7.1; and erfc(5) = 1.53746e-12.
        for (x, known) in
            [(0.0, 1.0), (0.5, 0.479_500_122), (1.0, 0.157_299_207), (1.5, 0.033_894_854), (2.0, 0.004_677_735)]
        {
            assert!((erfc(x) - known).abs() < 1e-9, "{x}: {}", erfc(x));
        }
        assert!((erfc(5.0) / 1.537_459_794e-12 - 1.0).abs() < 1e-8);
        let joined = [FRACTION_FROM - 1e-9, FRACTION_FROM].map(ln_integral_of_erfc);
        assert!((joined[0] - joined[1]).abs() < 1e-7, "{joined:?}");
    }

    #[test]
    fn the_curves_are_the_formulas_of_the_draft() {
        for (b, m, a) in [(90.0_f64, 100.0_f64, 20.0_f64), (150.0, 100.0, 50.0), (10.0, 30.0, 10.0)] {
            let e = |x: f64| x.exp();
            let stretch = a * (1.0 + e(m / a)) * ((e(b / a) + e(m / a)) / (1.0 + e(m / a))).ln() / e(m / a);
            let both = |x: f64| if x < 0.0 { 2.0 - erfc(-x) } else { erfc(x) };
            let gauss = |x: f64| e(-x * x) / std::f64::consts::PI.sqrt();
            let u = (b - m) / a;
            let erf = (a * (gauss(u) - gauss(m / a)) + m * both(m / a) + (b - m) * both(-u)) / (2.0 - both(m / a));
            for (curve, known) in [(LossCurve::Stretch, stretch), (LossCurve::Erf, erf)] {
                let found = curve.ln_loss_rate(b, m, a).exp();
                assert!((found / known - 1.0).abs() < 1e-6, "{curve:?} {b} {m} {a}: {found} for {known}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_greater_share_is_lost_at_a_higher_load(
            load in 1.0..1e7_f64, more in 1.001..10.0_f64, forwarded in 10.0..1e7_f64, spread in 0.0..1.0_f64,
        ) {
            for curve in LossCurve::ALL {
                let ratio = |load: f64| curve.ln_loss_rate(load, forwarded, forwarded.powf(spread)) - load.ln();
                prop_assert!(ratio(load) <= ratio(load * more) + 1e-9, "{:?}", curve);
            }
        }

        #[test]
        fn at_the_critical_load_the_share_lost_is_that_asked_for(
            forwarded in 1e3..1e7_f64, spread in 0.0..0.8_f64, nines in 1.0..7.0_f64,
        ) {
            for curve in LossCurve::ALL {
                let (spread, asked) = (forwarded.powf(spread), 10.0_f64.powf(-nines));
                let load = curve.critical_load(forwarded, spread, asked);
                // With a wide spread more is lost at any load.
                prop_assume!(load > forwarded * 1e-3);
                let ratio = (curve.ln_loss_rate(load, forwarded, spread) - load.ln()).exp();
                let beside = (curve.ln_loss_rate(load * 1.000_001, forwarded, spread) - load.ln()).exp();
                prop_assert!(ratio <= asked * 1.000_1 && beside >= asked * 0.999, "{:?} {} {}", curve, ratio, asked);
            }
        }
    }
}
