use serde::Serialize;

use super::Cap;
use super::gate::Voids;

/// The trials of a load that lasts: what a soak and a search for a critical load have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Counted {
    /// Time of the trials that counted, s.
    pub duration_s: f64,
    /// Trials that counted.
    pub trials: u64,
    /// Those of them that lost frames.
    pub lossy_trials: u64,
    /// Trials that were void.
    pub void_trials: u64,
    /// Why most of these were: the name of [`super::Void`]; null where none was.
    pub void_because: Option<&'static str>,
    /// Frames that left in the trials that counted.
    pub sent: u64,
    /// Of those, frames that did not come.
    pub lost: u64,
    /// What kept the tester from offering the load, or higher ones.
    pub censored: Option<Cap>,
}

impl Counted {
    /// Of the frames sent and lost in each trial.
    pub(super) fn of(trials: &[(u64, u64)], duration_s: f64, voids: &Voids, censored: Option<Cap>) -> Self {
        Self {
            duration_s,
            trials: trials.len() as u64,
            lossy_trials: trials.iter().filter(|trial| trial.1 > 0).count() as u64,
            void_trials: voids.void(),
            void_because: voids.because(),
            sent: trials.iter().map(|trial| trial.0).sum(),
            lost: trials.iter().map(|trial| trial.1).sum(),
            censored,
        }
    }

    /// The share that was lost; `None` where nothing was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost as f64 / self.sent as f64)
    }
}
