use serde::Serialize;

use super::gate::{Verdict, Voids};
use super::{Cap, Counted, Seen, SettingsError, Trial};

/// A load that is offered for long, in trials that follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoakSettings {
    /// The load, frames a second.
    pub packet_per_s: u64,
    /// Of each trial, ns.
    pub trial_ns: u64,
    /// Of all trials that count, ns.
    pub sum_ns: u64,
}

/// What a long load lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Soaked {
    /// The load, frames a second.
    pub packet_per_s: u64,
    /// The trials.
    #[serde(flatten)]
    pub counted: Counted,
    /// Their share; null where nothing was sent.
    pub loss_ratio: Option<f64>,
    /// Where it lies in the long run (95 %): batch means, since losses come in groups. Null below ten trials, and
    /// where nothing was lost: then the share is below 3/`sent` if frames are lost one by one.
    pub loss_interval: Option<[f64; 2]>,
    /// Share of the worst trial.
    pub worst_loss_ratio: Option<f64>,
}

/// Batches of trials whose means give the interval, and Student's factor for them (9 degrees of freedom, 95 %).
const BATCHES: usize = 10;
const STUDENT: f64 = 2.262;
/// Void trials may take as long as those that count.
const MOST_VOID: u64 = 2;

/// Trials at one load, one after another, for a long time.
#[derive(Clone, Debug)]
pub struct Soak {
    settings: SoakSettings,
    voids: Voids,
    offered: u64,
    /// Sent and lost, each trial that counted.
    seen: Vec<(u64, u64)>,
    censored: Option<Cap>,
}

impl Soak {
    /// A load that lasts.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: SoakSettings) -> Result<Self, SettingsError> {
        if settings.packet_per_s == 0 {
            return Err(SettingsError::new("load of a soak", 0, "1 frame a second or more"));
        }
        if settings.trial_ns == 0 || settings.trial_ns > settings.sum_ns {
            return Err(SettingsError::new("trial of a soak", settings.trial_ns, "above 0 ns, all of it at most"));
        }
        Ok(Self { settings, voids: Voids::default(), offered: 0, seen: Vec::new(), censored: None })
    }

    /// The next trial; `None` at the end.
    pub fn step(&mut self) -> Option<Trial> {
        let SoakSettings { packet_per_s, trial_ns, sum_ns } = self.settings;
        let lasted = |trials: u64| trials.saturating_mul(trial_ns);
        let over = lasted(self.seen.len() as u64) >= sum_ns || lasted(self.offered) >= MOST_VOID * sum_ns;
        (!over && self.censored.is_none()).then(|| {
            self.offered += 1;
            Trial { packet_per_s, duration_ns: trial_ns }
        })
    }

    /// What became of the trial of the last step.
    pub fn observe(&mut self, seen: &Seen) {
        match self.voids.judge(self.settings.packet_per_s, seen, 0.0) {
            Verdict::Again => {}
            Verdict::TooFast(_, cap) => self.censored = Some(cap),
            Verdict::Counts => self.seen.push((seen.sent, seen.sent.saturating_sub(seen.received))),
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> Soaked {
        let sum = |of: &[(u64, u64)]| of.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let ratio = |(sent, lost): (u64, u64)| (sent > 0).then(|| lost as f64 / sent as f64);
        let duration_s = self.seen.len() as f64 * self.settings.trial_ns as f64 / 1e9;
        let counted = Counted::of(&self.seen, duration_s, &self.voids, self.censored);
        let (sent, lost) = (counted.sent, counted.lost);
        let size = self.seen.len() / BATCHES;
        let loss_interval = (size > 0 && lost > 0).then(|| {
            let mean = lost as f64 / sent as f64;
            let batches: Vec<f64> =
                self.seen.chunks_exact(size).take(BATCHES).filter_map(|it| ratio(sum(it))).collect();
            let squares: f64 = batches.iter().map(|batch| (batch - mean).powi(2)).sum();
            let error = STUDENT * (squares / ((BATCHES - 1) * BATCHES) as f64).sqrt();
            [(mean - error).max(0.0), (mean + error).min(1.0)]
        });
        Soaked {
            packet_per_s: self.settings.packet_per_s,
            counted,
            loss_ratio: counted.loss_ratio(),
            loss_interval,
            worst_loss_ratio: self.seen.iter().filter_map(|trial| ratio(*trial)).max_by(f64::total_cmp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Void;
    use vtare_units::Random;

    const SETTINGS: SoakSettings = SoakSettings { packet_per_s: 10_000, trial_ns: 100_000_000, sum_ns: 10_000_000_000 };

    fn soaked(settings: SoakSettings, mut offer: impl FnMut(u64) -> Seen) -> Soaked {
        let mut soak = Soak::new(settings).expect("good settings");
        for number in 0.. {
            let Some(trial) = soak.step() else { break };
            assert_eq!((trial.packet_per_s, trial.duration_ns), (settings.packet_per_s, settings.trial_ns));
            soak.observe(&offer(number));
        }
        soak.found()
    }

    fn lost(lost: u64) -> Seen {
        Seen { sent: 1_000, received: 1_000 - lost, void: None }
    }

    #[test]
    fn the_interval_holds_the_share_of_losses_that_come_in_groups() {
        let mut random = Random::new(1);
        let mut held = 0;
        for _ in 0..200 {
            // One trial in ten loses 5 %: 0.5 % in all.
            let found = soaked(SETTINGS, |_| lost(if random.chance(0.1) { 50 } else { 0 }));
            assert_eq!((found.counted.trials, found.counted.sent, found.counted.duration_s), (100, 100_000, 10.0));
            let [low, high] = found.loss_interval.expect("some were lost");
            held += u32::from(low <= 0.005 && 0.005 <= high);
        }
        assert!(held >= 175, "{held} of 200");
    }

    #[test]
    fn nothing_lost_has_no_interval_and_a_short_soak_neither() {
        let none = soaked(SETTINGS, |_| lost(0));
        assert_eq!((none.loss_ratio, none.loss_interval, none.counted.lossy_trials), (Some(0.0), None, 0));
        let short = SoakSettings { sum_ns: 900_000_000, ..SETTINGS };
        let few = soaked(short, |_| lost(10));
        assert_eq!((few.counted.trials, few.loss_ratio, few.loss_interval), (9, Some(0.01), None));
        assert_eq!(few.worst_loss_ratio, Some(0.01));
    }

    #[test]
    fn void_trials_do_not_count_and_do_not_last_for_ever() {
        let void = |share| Seen { void: Some(Void::Busy { share }), ..lost(1) };
        let found = soaked(SETTINGS, |number| if number % 4 == 0 { void(0.5) } else { lost(1) });
        assert_eq!((found.counted.trials, found.counted.lost), (100, 100));
        assert!((30..=36).contains(&found.counted.void_trials), "{found:?}");
        assert_eq!(found.counted.void_because, Some("busy"));
        let slow = Seen { void: Some(Void::GeneratorShort { achieved_packet_per_s: 1e3 }), ..lost(0) };
        let never = soaked(SETTINGS, |_| slow);
        let counted = never.counted;
        assert_eq!((counted.trials, never.loss_ratio, counted.censored), (0, None, Some(Cap::Generator)));
        assert_eq!(counted.void_because, Some("generator_short"));
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        assert!(Soak::new(SoakSettings { packet_per_s: 0, ..SETTINGS }).is_err());
        assert!(Soak::new(SoakSettings { trial_ns: 0, ..SETTINGS }).is_err());
        assert!(Soak::new(SoakSettings { sum_ns: 1, ..SETTINGS }).is_err());
    }
}
