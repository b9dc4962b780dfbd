use serde::Serialize;

use super::gate::{Verdict, Voids};
use super::{Cap, Repeated, Seen, SettingsError, Trial};

/// An overload, and the load that follows it at once.
//= RFC 2544, 26.5
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecoverySettings {
    /// The overload.
    pub overload: Trial,
    /// The load after the step.
    pub after: Trial,
    /// Trials that count.
    pub trials: u64,
}

/// What came of an overload and the load that followed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenRecovery {
    /// Of both together.
    pub seen: Seen,
    /// Frames of the overload that were lost.
    pub lost_before: u64,
    /// Frames after the step that were lost.
    pub lost_after: u64,
    /// When the last of these was due, from the step on, ns.
    pub last_lost_ns: Option<u64>,
}

/// How long a device loses frames after an overload has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Recovered {
    /// The overload, frames a second.
    pub overload_packet_per_s: u64,
    /// For so long, s.
    pub overload_s: f64,
    /// The load after the step, frames a second.
    pub after_packet_per_s: u64,
    /// For so long, s.
    pub after_s: f64,
    /// From the step to the last frame that was lost, ns, all trials that overloaded the device together; 0 where none
    /// was lost after the step.
    pub recovery_ns: Repeated,
    /// Trials in which frames were still lost in the last half of the time after the step: theirs are lower bounds.
    pub unrecovered: u64,
    /// Trials that counted.
    pub trials: u64,
    /// Of those, trials whose overload lost nothing: they have no recovery time.
    pub not_overloaded: u64,
    /// Trials that were void.
    pub void_trials: u64,
    /// Why most of these were: the name of [`super::Void`]; null where none was.
    pub void_because: Option<&'static str>,
    /// Share of the frames of the overloads that was lost; null where no trial counted.
    pub overload_loss_ratio: Option<f64>,
    /// Frames lost after the steps.
    pub lost_after: u64,
    /// What kept the tester from offering the load.
    pub censored: Option<Cap>,
}

/// Void trials may be as many as those that count.
const MOST_OFFERED: u64 = 2;

/// Trials, each an overload and a lower load right after it.
#[derive(Clone, Debug)]
pub struct Recovery {
    settings: RecoverySettings,
    voids: Voids,
    offered: u64,
    seen: Vec<SeenRecovery>,
    censored: Option<Cap>,
}

impl Recovery {
    /// Some trials.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: RecoverySettings) -> Result<Self, SettingsError> {
        let RecoverySettings { overload, after, .. } = settings;
        if after.packet_per_s == 0 || after.packet_per_s >= overload.packet_per_s {
            let want = "1 frame a second or more, less than the overload";
            return Err(SettingsError::new("load after an overload", after.packet_per_s, want));
        }
        if overload.duration_ns.min(after.duration_ns) == 0 {
            return Err(SettingsError::new("time of an overload and after it", 0, "above 0 ns"));
        }
        Ok(Self { settings, voids: Voids::default(), offered: 0, seen: Vec::new(), censored: None })
    }

    /// The next overload and what follows it; `None` at the end.
    pub fn step(&mut self) -> Option<[Trial; 2]> {
        let RecoverySettings { overload, after, trials } = self.settings;
        let over = self.seen.len() as u64 >= trials || self.offered >= MOST_OFFERED * trials;
        (!over && self.censored.is_none()).then(|| {
            self.offered += 1;
            [overload, after]
        })
    }

    /// What became of the trial of the last step.
    pub fn observe(&mut self, seen: &SeenRecovery) {
        match self.voids.judge(self.settings.overload.packet_per_s, &seen.seen, 0.0) {
            Verdict::Again => {}
            Verdict::TooFast(_, cap) => self.censored = Some(cap),
            Verdict::Counts => self.seen.push(*seen),
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> Recovered {
        let RecoverySettings { overload, after, .. } = self.settings;
        let seconds = |trial: Trial| trial.duration_ns as f64 / 1e9;
        let offered = self.seen.len() as f64 * overload.packet_per_s as f64 * seconds(overload);
        let lost_before: u64 = self.seen.iter().map(|trial| trial.lost_before).sum();
        let overloaded = self.seen.iter().filter(|trial| trial.lost_before > 0);
        let times: Vec<u64> = overloaded.map(|trial| trial.last_lost_ns.unwrap_or(0)).collect();
        Recovered {
            overload_packet_per_s: overload.packet_per_s,
            overload_s: seconds(overload),
            after_packet_per_s: after.packet_per_s,
            after_s: seconds(after),
            recovery_ns: Repeated::of(&times.iter().map(|ns| *ns as f64).collect::<Vec<_>>()),
            unrecovered: times.iter().filter(|ns| **ns > after.duration_ns / 2).count() as u64,
            trials: self.seen.len() as u64,
            not_overloaded: (self.seen.len() - times.len()) as u64,
            void_trials: self.voids.void(),
            void_because: self.voids.because(),
            overload_loss_ratio: (offered > 0.0).then(|| (lost_before as f64 / offered).min(1.0)),
            lost_after: self.seen.iter().map(|trial| trial.lost_after).sum(),
            censored: self.censored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Void;
    use proptest::prelude::*;

    const SETTINGS: RecoverySettings = RecoverySettings {
        overload: Trial { packet_per_s: 110_000, duration_ns: 500_000_000 },
        after: Trial { packet_per_s: 55_000, duration_ns: 500_000_000 },
        trials: 5,
    };

    /// A device that forwards 100,000 frames a second from a queue. One that finds it full is dropped, and so are, if
    /// it recovers late, all that come until the queue is empty.
    fn offered([overload, after]: [Trial; 2], queue: f64, late: bool) -> SeenRecovery {
        let (mut stored, mut dropping) = (0.0_f64, false);
        let mut seen = SeenRecovery {
            seen: Seen { sent: 0, received: 0, void: None },
            lost_before: 0,
            lost_after: 0,
            last_lost_ns: None,
        };
        for (trial, is_after) in [(overload, false), (after, true)] {
            for number in 0..trial.packet_per_s * trial.duration_ns / 1_000_000_000 {
                stored = (stored - 100_000.0 / trial.packet_per_s as f64).max(0.0);
                dropping &= late && stored > 0.0;
                dropping |= stored + 1.0 > queue;
                seen.seen.sent += 1;
                if !dropping {
                    stored += 1.0;
                    seen.seen.received += 1;
                } else if is_after {
                    seen.lost_after += 1;
                    seen.last_lost_ns = Some(number * 1_000_000_000 / trial.packet_per_s);
                } else {
                    seen.lost_before += 1;
                }
            }
        }
        seen
    }

    fn found(settings: RecoverySettings, mut offer: impl FnMut(u64, [Trial; 2]) -> SeenRecovery) -> Recovered {
        let mut recovery = Recovery::new(settings).expect("good settings");
        for number in 0.. {
            let Some(loads) = recovery.step() else { break };
            recovery.observe(&offer(number, loads));
        }
        recovery.found()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_device_that_drops_until_its_queue_is_empty_needs_no_longer_than_that(queue in 50.0..4_000.0_f64) {
            let found = found(SETTINGS, |_, loads| offered(loads, queue, true));
            prop_assert_eq!((found.trials, found.not_overloaded, found.unrecovered), (5, 0, 0));
            let median = found.recovery_ns.median.expect("five trials");
            // 10 us for each frame that the queue holds; how full it is at the step is chance.
            prop_assert!((0.0..=queue * 10_000.0).contains(&median), "{:?}", found);
        }
    }

    #[test]
    fn the_time_is_that_of_the_last_lost_frame_and_0_where_none_is_lost_after_the_step() {
        // The queue is full and dropping begins when the overload ends: 4000 frames at 100,000 a second.
        let settings =
            RecoverySettings { overload: Trial { duration_ns: 400_000_000, ..SETTINGS.overload }, ..SETTINGS };
        let late = found(settings, |_, loads| offered(loads, 3_995.0, true));
        let median = late.recovery_ns.median.expect("five trials");
        assert!((39.0e6..=39.9e6).contains(&median), "{late:?}");
        assert!(late.lost_after > 5 * 2_000 && late.overload_loss_ratio.is_some_and(|ratio| ratio < 1e-2), "{late:?}");
        let at_once = found(SETTINGS, |_, loads| offered(loads, 1_000.0, false));
        assert_eq!((at_once.recovery_ns.median, at_once.lost_after, at_once.trials), (Some(0.0), 0, 5));
        assert!(at_once.overload_loss_ratio.is_some_and(|ratio| (0.05..0.1).contains(&ratio)), "{at_once:?}");
    }

    #[test]
    fn what_was_not_overloaded_has_no_time_and_what_goes_on_losing_has_a_lower_bound() {
        let none = found(SETTINGS, |_, loads| offered(loads, 1e9, true));
        assert_eq!((none.trials, none.not_overloaded, none.recovery_ns.median), (5, 5, None));
        let base = offered([SETTINGS.overload, SETTINGS.after], 100.0, false);
        let last = |ns| SeenRecovery { lost_after: 1, last_lost_ns: Some(ns), ..base };
        let found = found(SETTINGS, |number, _| last([250_000_000, 250_000_001][usize::from(number == 2)]));
        assert_eq!((found.unrecovered, found.lost_after), (1, 5));
    }

    #[test]
    fn void_trials_do_not_count_and_do_not_last_for_ever() {
        let void = |void, seen: SeenRecovery| SeenRecovery { seen: Seen { void: Some(void), ..seen.seen }, ..seen };
        let found_some = found(SETTINGS, |number, loads| {
            let seen = offered(loads, 100.0, false);
            if number % 2 == 0 { void(Void::Busy { share: 0.5 }, seen) } else { seen }
        });
        assert_eq!((found_some.trials, found_some.void_trials, found_some.void_because), (5, 5, Some("busy")));
        let short = Void::GeneratorShort { achieved_packet_per_s: 1e3 };
        let never = found(SETTINGS, |_, loads| void(short, offered(loads, 100.0, false)));
        assert_eq!((never.trials, never.censored, never.overload_loss_ratio), (0, Some(Cap::Generator), None));
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let with = |packet_per_s, duration_ns| {
            Recovery::new(RecoverySettings { after: Trial { packet_per_s, duration_ns }, ..SETTINGS })
        };
        assert!(with(0, 1).is_err() && with(110_000, 1).is_err() && with(55_000, 0).is_err());
    }
}
