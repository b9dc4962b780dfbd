use serde::Serialize;

use super::gate::{Verdict, Voids};
use super::loss_curve::LossCurve;
use super::{Cap, Counted, Range, Seen, SettingsError, Trial, check_range};

/// A search for the load that loses a small share in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlrSettings {
    /// The share of frames that is lost on average at the load that is looked for.
    pub loss_ratio: f64,
    /// The loads between which is searched.
    pub range: Range,
    /// The first load, frames a second.
    pub first_packet_per_s: u64,
    /// Duration of the first trial, ns; the others last longer and longer.
    pub trial_ns: u64,
    /// Duration of a trial at most, ns.
    pub most_trial_ns: u64,
    /// Of all trials that count, ns.
    pub sum_ns: u64,
}

/// The load that loses a given share on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CriticalLoad {
    /// The share.
    pub loss_ratio: f64,
    /// The load, frames a second: the mean of what the trials leave possible; null where none counted.
    pub packet_per_s: Option<f64>,
    /// Its standard deviation, likewise.
    pub deviation_packet_per_s: Option<f64>,
    /// The load lies in here with a probability of 95 %.
    pub interval_packet_per_s: Option<[f64; 2]>,
    /// The upper end of the interval is the greatest load that can be tried: the load may be higher.
    pub at_least: bool,
    /// By this factor the losses of single trials scatter more than those of frames lost one by one; 1 or more. The
    /// interval is wider by its root.
    pub dispersion: f64,
    /// The trials.
    #[serde(flatten)]
    pub counted: Counted,
}

/// Each trial is longer than the one before by this share of the first.
const LONGER: f64 = 0.05;
/// Void trials may take as long as those that count.
const MOST_VOID: u64 = 2;
/// Loads are multiples of this share of the first: trials at one load are evaluated together.
const ROUNDING: f64 = 1e-3;
/// A load is above all loads before by this factor at most, and below by the inverse of its square.
const MOST_STEP: f64 = 1.1;
/// Trials are made on both sides of the mean, a standard deviation away but no more than this share: trials at one load
/// do not show how the loss changes with it, and where that is slow, as on a device that always loses some, nothing
/// else bounds the load.
const MOST_ASIDE: f64 = 0.05;
/// Points of a range at which a peaked function is evaluated; the range is narrowed until as many are near the peak.
const POINTS: usize = 17;
const NEAR_PEAK: usize = 9;
/// A point is near the peak where the function is no less than e^-14 of it.
const LEAST_LN: f64 = -14.0;
const MOST_PASSES: usize = 40;
/// Trials below which their scatter is not judged.
const LEAST_FOR_SCATTER: usize = 5;
/// Of an average below this the scatter is judged as if it were this.
const LEAST_EXPECTED: f64 = 0.1;
/// The upper limit of what a device forwards, as the logarithm of its ratio to the greatest load.
const MOST_LN_FORWARDED: f64 = 14.0;

/// What trials at one load came to.
#[derive(Clone, Copy, Debug)]
struct AtLoad {
    packet_per_s: u64,
    sent: u64,
    lost: u64,
}

impl AtLoad {
    /// Frames lost on average, as its logarithm.
    fn ln_expected(&self, curve: LossCurve, point: [f64; 2]) -> f64 {
        let load = self.packet_per_s as f64;
        curve.ln_loss_rate(load, point[1].exp(), (point[0] * point[1]).exp()) - load.ln() + (self.sent as f64).ln()
    }
}

/// A possible critical load.
#[derive(Clone, Copy, Debug)]
struct Possible {
    packet_per_s: f64,
    weight: f64,
}

/// Probabilistic loss ratio search: two loss curves are fitted to all trials by Bayes' rule, and the next trial is made
/// near the mean of the load that loses the share asked for.
///
/// Beside the draft: loads are rounded, the first is given, no load is far from those before, trials are made on both
/// sides of the mean, and the likelihood is weakened where the losses of trials scatter more than by Poisson's
/// distribution.
//= draft-vpolak-bmwg-plrsearch-03
#[derive(Clone, Debug)]
pub struct PlrSearch {
    settings: PlrSettings,
    most: u64,
    voids: Voids,
    offered_ns: u64,
    counted_ns: u64,
    asked: Option<Trial>,
    /// Each trial, and those that are used by their load.
    trials: Vec<AtLoad>,
    loads: Vec<AtLoad>,
    dispersion: f64,
    possible: Vec<Possible>,
    /// Where the parameters of each curve were last: spread as power of `forwarded`, and its logarithm.
    near: [Option<[[f64; 2]; 2]>; 2],
    censored: Option<Cap>,
}

impl PlrSearch {
    /// A search.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: PlrSettings) -> Result<Self, SettingsError> {
        check_range(settings.range)?;
        if !(settings.loss_ratio > 0.0 && settings.loss_ratio < 1.0) {
            return Err(SettingsError::new("loss ratio of a soak", settings.loss_ratio, "a share above 0 and below 1"));
        }
        if settings.trial_ns == 0 || settings.trial_ns > settings.sum_ns || settings.trial_ns > settings.most_trial_ns {
            return Err(SettingsError::new("trial of a soak", settings.trial_ns, "above 0 ns, all of it at most"));
        }
        Ok(Self {
            most: settings.range.most,
            settings,
            voids: Voids::default(),
            offered_ns: 0,
            counted_ns: 0,
            asked: None,
            trials: Vec::new(),
            loads: Vec::new(),
            dispersion: 1.0,
            possible: Vec::new(),
            near: [None; 2],
            censored: None,
        })
    }

    /// The next trial; `None` at the end.
    pub fn step(&mut self) -> Option<Trial> {
        let PlrSettings { trial_ns, most_trial_ns, sum_ns, .. } = self.settings;
        if self.counted_ns >= sum_ns || self.offered_ns >= MOST_VOID * sum_ns {
            return None;
        }
        let longer = (trial_ns as f64 * (1.0 + LONGER * self.trials.len() as f64)) as u64;
        let duration_ns = longer.min(most_trial_ns).min((sum_ns - self.counted_ns).max(trial_ns));
        self.offered_ns += duration_ns;
        self.asked = Some(Trial { packet_per_s: self.next_load(), duration_ns });
        self.asked
    }

    fn next_load(&self) -> u64 {
        let PlrSettings { range, first_packet_per_s, .. } = self.settings;
        let tried = || self.trials.iter().map(|at| at.packet_per_s as f64);
        let highest = tried().fold(f64::NAN, f64::max) * MOST_STEP;
        let lowest = tried().fold(f64::NAN, f64::min) / (MOST_STEP * MOST_STEP);
        let mean = self.mean().unwrap_or(first_packet_per_s as f64);
        let aside = self.deviation(mean).min(MOST_ASIDE * mean) * [1.0, -1.0][self.trials.len() % 2];
        let load = (mean + aside).min(highest).max(lowest);
        let step = (first_packet_per_s as f64 * ROUNDING).max(1.0);
        ((load / step).round() * step).clamp(range.least as f64, self.most as f64) as u64
    }

    /// What became of the trial of the last step.
    pub fn observe(&mut self, seen: &Seen) {
        let Some(Trial { packet_per_s, duration_ns }) = self.asked else { return };
        match self.voids.judge(packet_per_s, seen, 0.0) {
            Verdict::Again => {}
            Verdict::TooFast(most, cap) => {
                self.censored = Some(cap);
                self.most = most.clamp(self.settings.range.least, self.most);
            }
            Verdict::Counts => {
                self.counted_ns += duration_ns;
                let (sent, lost) = (seen.sent.max(1), seen.sent.saturating_sub(seen.received));
                self.trials.push(AtLoad { packet_per_s, sent, lost });
                self.infer();
            }
        }
    }

    /// The trials that are used: the first half of them were made on the way to the load.
    fn used(&self) -> &[AtLoad] {
        &self.trials[self.trials.len() / 2..]
    }

    /// Fits both curves to the trials.
    fn infer(&mut self) {
        let mut loads: Vec<AtLoad> = Vec::new();
        for trial in self.used() {
            match loads.iter_mut().find(|at| at.packet_per_s == trial.packet_per_s) {
                Some(at) => (at.sent, at.lost) = (at.sent + trial.sent, at.lost + trial.lost),
                None => loads.push(*trial),
            }
        }
        self.loads = loads;
        // The scatter is that around the best curve, which hardly depends on it.
        for _ in 0..3 {
            self.possible.clear();
            let mut best = (f64::NEG_INFINITY, LossCurve::Stretch, [0.0; 2]);
            for (number, curve) in LossCurve::ALL.into_iter().enumerate() {
                let points = self.fit(curve, number);
                let most = points.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
                let weights = points.iter().map(|point| (point.0 - most).exp());
                // Both curves have the same weight: neither is the device's own.
                let sum = weights.clone().sum::<f64>() * LossCurve::ALL.len() as f64;
                for ((_, at), weight) in points.iter().zip(weights) {
                    let load = curve.critical_load(at[1].exp(), (at[0] * at[1]).exp(), self.settings.loss_ratio);
                    self.possible.push(Possible { packet_per_s: load.min(self.most as f64), weight: weight / sum });
                    let likelihood = self.ln_likelihood(curve, *at);
                    if likelihood > best.0 {
                        best = (likelihood, curve, *at);
                    }
                }
            }
            let scatter = self.scatter(best.1, best.2);
            let before = std::mem::replace(&mut self.dispersion, scatter);
            if (self.dispersion / before).ln().abs() < 0.2 {
                break;
            }
        }
        self.possible.sort_by(|one, other| one.packet_per_s.total_cmp(&other.packet_per_s));
    }

    /// By which factor the losses of single trials scatter more than by Poisson's distribution.
    fn scatter(&self, curve: LossCurve, point: [f64; 2]) -> f64 {
        if self.used().len() < LEAST_FOR_SCATTER {
            return 1.0;
        }
        let squares = self.used().iter().map(|trial| {
            let expected = trial.ln_expected(curve, point).exp();
            (trial.lost as f64 - expected).powi(2) / expected.max(LEAST_EXPECTED)
        });
        // Two parameters are fitted.
        (squares.sum::<f64>() / (self.used().len() - 2) as f64).max(1.0)
    }

    /// The logarithm of the likelihood of all losses by Poisson's distribution, but for a constant.
    fn ln_likelihood(&self, curve: LossCurve, point: [f64; 2]) -> f64 {
        let of = |at: &AtLoad| {
            let ln = at.ln_expected(curve, point);
            at.lost as f64 * ln - ln.exp()
        };
        self.loads.iter().map(of).sum()
    }

    /// The parameters that the trials leave possible, and the logarithm of their weight.
    fn fit(&mut self, curve: LossCurve, number: usize) -> Vec<(f64, [f64; 2])> {
        let most = self.settings.range.most as f64;
        let full = [[0.0, 1.0], [0.0, most.ln() + MOST_LN_FORWARDED]];
        let [near_spread, mut near_forwarded] = self.near[number].unwrap_or(full);
        let across = |spread: f64| {
            let along = |ln_forwarded: f64| {
                let at = [spread, ln_forwarded];
                // Prior of what is forwarded: Lomax with shape 1, over its logarithm.
                let prior = ln_forwarded - most.ln() - 2.0 * (ln_forwarded.exp() / most).ln_1p();
                (prior + self.ln_likelihood(curve, at) / self.dispersion, at)
            };
            let points = peaked(full[1], near_forwarded, along);
            near_forwarded = wide(points.iter().map(|point| point.1[1]), full[1]);
            (ln_sum(points.iter().map(|point| point.0)), points)
        };
        let rows = peaked(full[0], near_spread, across);
        let mut all = Vec::new();
        for (ln, points) in &rows {
            let shift = ln - ln_sum(points.iter().map(|point| point.0));
            all.extend(points.iter().map(|(ln, at)| (ln + shift, *at)));
        }
        let best = all.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        all.retain(|point| point.0 > best + LEAST_LN);
        self.near[number] = Some([0, 1].map(|of| wide(all.iter().map(|point| point.1[of]), full[of])));
        all
    }

    fn mean(&self) -> Option<f64> {
        (!self.possible.is_empty()).then(|| self.possible.iter().map(|it| it.weight * it.packet_per_s).sum())
    }

    /// The standard deviation around the mean.
    fn deviation(&self, mean: f64) -> f64 {
        let squares = self.possible.iter().map(|it| it.weight * (it.packet_per_s - mean).powi(2));
        squares.sum::<f64>().sqrt()
    }

    /// The load below which the critical one lies with this probability.
    fn quantile(&self, share: f64) -> Option<f64> {
        let mut below = 0.0;
        let at = |it: &&Possible| {
            below += it.weight;
            below >= share
        };
        self.possible.iter().find(at).or(self.possible.last()).map(|it| it.packet_per_s)
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> CriticalLoad {
        let mean = self.mean();
        let interval = self.quantile(0.025).zip(self.quantile(0.975)).map(|(low, high)| [low, high]);
        let trials: Vec<(u64, u64)> = self.trials.iter().map(|trial| (trial.sent, trial.lost)).collect();
        CriticalLoad {
            loss_ratio: self.settings.loss_ratio,
            packet_per_s: mean,
            deviation_packet_per_s: mean.map(|mean| self.deviation(mean)),
            interval_packet_per_s: interval,
            at_least: interval.is_some_and(|[_, high]| high >= self.most as f64),
            dispersion: self.dispersion,
            counted: Counted::of(&trials, self.counted_ns as f64 / 1e9, &self.voids, self.censored),
        }
    }
}

/// ln of the sum of numbers that are given as logarithms.
fn ln_sum(logarithms: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logarithms.clone().fold(f64::NEG_INFINITY, f64::max);
    most + logarithms.map(|ln| (ln - most).exp()).sum::<f64>().ln()
}

/// A range around these values, twice as wide as they are.
fn wide(values: impl Iterator<Item = f64> + Clone, full: [f64; 2]) -> [f64; 2] {
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    let more = ((high - low) / 2.0).max(1e-9);
    [(low - more).max(full[0]), (high + more).min(full[1])]
}

/// Evaluates a function with one peak, given as its logarithm, at points around the peak; the range to begin with may
/// miss it. Each point's logarithm includes its share of the range, so that their sum is the integral.
fn peaked<T>(full: [f64; 2], begin: [f64; 2], mut at: impl FnMut(f64) -> (f64, T)) -> Vec<(f64, T)> {
    let mut range = begin;
    for pass in 1.. {
        let step = (range[1] - range[0]) / POINTS as f64;
        let place = |index: usize| range[0] + (index as f64) * step;
        let mut points = Vec::with_capacity(POINTS);
        for index in 0..POINTS {
            let (ln, it) = at(place(index) + step / 2.0);
            points.push((ln + step.ln(), it));
        }
        let best = (0..POINTS).max_by(|&one, &other| points[one].0.total_cmp(&points[other].0)).unwrap_or(0);
        let near = |index: &usize| points[*index].0 > points[best].0 + LEAST_LN;
        let [first, last] = [(0..POINTS).find(near), (0..POINTS).rev().find(near)].map(|it| it.unwrap_or(best));
        let beyond = [best == 0 && range[0] > full[0], best == POINTS - 1 && range[1] < full[1]];
        if pass == MOST_PASSES || (beyond == [false; 2] && last + 1 - first >= NEAR_PEAK) {
            return points;
        }
        range = if beyond == [false; 2] {
            [place(first.saturating_sub(1)), place((last + 2).min(POINTS))]
        } else {
            let more = 4.0 * (range[1] - range[0]);
            [
                if beyond[0] { (range[0] - more).max(full[0]) } else { range[0] },
                if beyond[1] { (range[1] + more).min(full[1]) } else { range[1] },
            ]
        };
    }
    Vec::new()
}
