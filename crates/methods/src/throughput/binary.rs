use serde::{Deserialize, Serialize};

use super::gate::{Verdict, Voids};
use super::{Answer, Cap, Found, Range, Search, Seen, SettingsError, Step, Stopped, Trial, check_range};

/// Parameters of the binary search for the highest load at which no frame is lost.
//= RFC 2544, 26.1
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BinarySettings {
    /// A trial's duration, ns; RFC 2544 wants 60 s.
    pub trial_ns: u64,
    /// Duration of the trial that validates the answer, ns.
    pub validation_ns: u64,
    /// The search ends where the bounds are this share of the upper one apart.
    pub resolution: f64,
    /// No further trial after this time of trials, ns; null for no limit.
    pub most_ns: Option<u64>,
}

impl Default for BinarySettings {
    /// 3 s, 6 s, 1 %.
    fn default() -> Self {
        Self { trial_ns: 3_000_000_000, validation_ns: 6_000_000_000, resolution: 0.01, most_ns: None }
    }
}

/// The binary search of RFC 2544, with a trial at its end that validates the answer.
///
/// Where validation fails, the answer steps down by the resolution, then twice that, and so on, until one is validated.
#[derive(Clone, Debug)]
pub struct BinarySearch {
    settings: BinarySettings,
    range: Range,
    /// The highest load that lost nothing, and the least that did.
    lower: Option<u64>,
    upper: Option<u64>,
    /// Steps down after failed validations.
    failed: u32,
    validating: bool,
    validated: bool,
    exhausted: bool,
    cap: Option<Cap>,
    asked: Option<Trial>,
    trials: u64,
    trial_ns: u64,
    voids: Voids,
}

impl BinarySearch {
    /// A search within `range`.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: BinarySettings, range: Range) -> Result<Self, SettingsError> {
        check_range(range)?;
        if !(settings.resolution > 0.0 && settings.resolution < 1.0) {
            return Err(SettingsError::new("resolution", settings.resolution, "a share above 0 and below 1"));
        }
        if settings.trial_ns == 0 || settings.validation_ns == 0 {
            return Err(SettingsError::new("trial duration", 0, "more"));
        }
        Ok(Self {
            settings,
            range,
            lower: None,
            upper: None,
            failed: 0,
            validating: false,
            validated: false,
            exhausted: false,
            cap: None,
            asked: None,
            trials: 0,
            trial_ns: 0,
            voids: Voids::default(),
        })
    }

    /// The next load; `None` where the search is over.
    fn next(&mut self) -> Option<Trial> {
        let trial = |packet_per_s, duration_ns| Some(Trial { packet_per_s, duration_ns });
        if self.validated || self.exhausted {
            return None;
        }
        if self.validating {
            return trial(self.lower?, self.settings.validation_ns);
        }
        let Some(upper) = self.upper else {
            if self.lower == Some(self.range.most) {
                self.cap = self.cap.or(Some(Cap::Range));
                self.validating = true;
                return trial(self.range.most, self.settings.validation_ns);
            }
            return trial(self.range.most, self.settings.trial_ns);
        };
        let lower = self.lower.unwrap_or(self.range.least.saturating_sub(1));
        let close = (upper - lower) as f64 <= self.settings.resolution * upper as f64 || upper - lower <= 1;
        if !close {
            return trial(lower + (upper - lower) / 2, self.settings.trial_ns);
        }
        if self.lower.is_none() {
            self.exhausted = true;
            return None;
        }
        self.validating = true;
        trial(lower, self.settings.validation_ns)
    }

    fn step_down(&mut self, from: u64) {
        self.upper = Some(from);
        self.cap = None;
        let down = self.settings.resolution * f64::from(1 << self.failed.min(20));
        self.failed += 1;
        let lower = (from as f64 * (1.0 - down.min(0.5))) as u64;
        let lower = lower.min(from - 1);
        if lower < self.range.least {
            (self.lower, self.validating, self.exhausted) = (None, false, true);
        } else {
            self.lower = Some(lower);
        }
    }
}

impl Search for BinarySearch {
    fn step(&mut self) -> Step {
        if self.settings.most_ns.is_some_and(|most| self.trial_ns >= most) {
            let over = self.validated || self.exhausted;
            let answer = Answer { stopped: Stopped::Converged, ..self.interim() };
            return Step::Done(if over { answer } else { self.broken_off() });
        }
        self.asked = self.next();
        self.asked.map_or_else(|| Step::Done(Answer { stopped: Stopped::Converged, ..self.interim() }), Step::Trial)
    }

    fn observe(&mut self, seen: &Seen) {
        let Some(asked) = self.asked.take() else { return };
        self.trial_ns += asked.duration_ns;
        match self.voids.judge(asked.packet_per_s, seen, 0.0) {
            Verdict::Again => return,
            Verdict::TooFast(most, cap) => {
                self.range.most = most.min(asked.packet_per_s - 1).max(self.range.least);
                self.cap = Some(cap);
                self.upper = self.upper.filter(|upper| *upper <= self.range.most);
                self.lower = self.lower.map(|lower| lower.min(self.range.most));
                self.validating = false;
                self.exhausted = self.range.most <= self.range.least;
                return;
            }
            Verdict::Counts => self.trials += 1,
        }
        let good = seen.loss_ratio() == Some(0.0);
        match (self.validating, good) {
            (true, true) => self.validated = true,
            (true, false) => self.step_down(asked.packet_per_s),
            (false, true) => self.lower = Some(asked.packet_per_s),
            (false, false) => {
                self.upper = Some(asked.packet_per_s);
                self.cap = None;
            }
        }
    }

    fn interim(&self) -> Answer {
        let found = self.found(self.lower.filter(|_| self.validated));
        Answer {
            goals: vec![Found { censored: self.cap.filter(|_| self.upper.is_none()), ..found }],
            trials: self.trials,
            void_trials: self.voids.void(),
            disturbed_trials: self.voids.disturbed,
            trial_s: self.trial_ns as f64 / 1e9,
            stopped: Stopped::Running,
        }
    }

    fn broken_off(&self) -> Answer {
        // While it is being validated, the lower bound may be a step down that nothing has shown to hold yet.
        let lower = self.lower.filter(|_| self.failed == 0);
        let found = Found { regular: false, censored: lower.map(|_| Cap::TimeBudget), ..self.found(lower) };
        Answer { goals: vec![found], stopped: Stopped::TimeBudget, ..self.interim() }
    }
}

impl BinarySearch {
    fn found(&self, lower: Option<u64>) -> Found {
        let regular = lower.zip(self.upper).is_some_and(|(lower, upper)| {
            (upper - lower) as f64 <= self.settings.resolution * upper as f64 || upper - lower <= 1
        });
        Found {
            loss_ratio: 0.0,
            lower_packet_per_s: lower,
            upper_packet_per_s: self.upper,
            throughput_packet_per_s: lower.map(|lower| lower as f64),
            regular,
            censored: None,
        }
    }
}
