//! Throughput of a device by loss: which rate to try next, and what follows from what came back
//! (docs/methods/throughput.md).
//!
//! A [`Search`] is a state machine without I/O and without a clock. A runner asks it for the next [`Step`], offers the
//! [`Trial`]'s rate for its duration (real: `vtare throughput`; simulated: the tests), and hands back what it [`Seen`].
//!
//! ```text
//! loop { match search.step() {
//!     Step::Trial(trial) => search.observe(&offer(trial)),
//!     Step::Done(answer) => break,
//! } }
//! ```
//!
//! - [`BinarySearch`]: RFC 2544, no frame lost.
//! - [`Mlrsearch`]: RFC 9971, several tolerances of loss at once, conditional throughput.
//! - [`BackToBack`]: RFC 9004, the longest burst that passes whole, and the buffer that it shows.
//! - [`Recovery`]: RFC 2544, how long frames are lost after an overload.
//! - [`Soak`]: one load for long, the share that it loses.
//! - [`PlrSearch`]: the load that loses a small share in the long run (draft-vpolak-bmwg-plrsearch).
//! - [`Interleaved`]: several searches at once, a trial each in turn.
//! - [`Void`]: why a trial shows nothing about the device; such a trial is repeated.
//! - [`Distribution`]: how the load is spread over guests, with Jain's index.
//! - [`total_latency_ns`], [`Repeated`]: what many guests and several searches come to.
//!
//! Loads are whole frames a second, over all flows together.

mod back_to_back;
mod binary;
mod counted;
mod gate;
mod goal;
mod latency;
mod load;
mod loss_curve;
mod mlr;
mod plr;
mod recovery;
mod repeated;
mod soak;
mod turns;
mod void;

use serde::{Deserialize, Serialize};

pub use back_to_back::{BackToBack, BackToBackSettings, LongestBurst, corrected_buffer_ns};
pub use binary::{BinarySearch, BinarySettings};
pub use counted::Counted;
pub use gate::{Conditions, Gate};
pub use goal::{Class, Goal, Measured, classify, conditional_throughput};
pub use latency::{LatencyError, total_latency_ns};
pub use load::{Distribution, LoadError, SLOTS_MOST, SlotTable, jain};
pub use mlr::{MlrSettings, Mlrsearch};
pub use plr::{CriticalLoad, PlrSearch, PlrSettings};
pub use recovery::{Recovered, Recovery, RecoverySettings, SeenRecovery};
pub use repeated::Repeated;
pub use soak::{Soak, SoakSettings, Soaked};
pub use turns::{Interleaved, NextTrial};
pub use void::Void;

/// A load to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// Frames a second, all flows together.
    pub packet_per_s: u64,
    /// For so long, ns.
    pub duration_ns: u64,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Frames that left.
    pub sent: u64,
    /// Of those, frames that came, each counted once.
    pub received: u64,
    /// Why it shows nothing of the device, where that is so.
    pub void: Option<Void>,
}

impl Seen {
    /// The share of what was sent that did not come; `None` where nothing was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.sent.saturating_sub(self.received) as f64 / self.sent as f64)
    }
}

/// What a search wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Offer this, then call [`Search::observe`] with what came of it.
    Trial(Trial),
    /// The end. Further calls give the same.
    Done(Answer),
}

/// A way to find the throughput.
pub trait Search {
    /// What to do now.
    fn step(&mut self) -> Step;
    /// What became of the trial of the last step.
    fn observe(&mut self, seen: &Seen);
    /// The answer so far.
    fn interim(&self) -> Answer;
    /// The answer of a search that is broken off for want of time: the best bounds that are known, those of short
    /// trials where no others are, each marked as censored unless its goal was answered before.
    fn broken_off(&self) -> Answer;
}

/// The loads between which is searched, frames a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The greatest: what the link carries, or the generator can.
    pub most: u64,
}

/// What kept a search from going higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// The greatest load that was asked for.
    Range,
    /// The generator: it could not send faster, however often it tried.
    Generator,
    /// The analyser: it could not count faster.
    Analyser,
    /// The time for the search.
    TimeBudget,
}

impl Cap {
    /// Short and stable, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Generator => "generator",
            Self::Analyser => "analyser",
            Self::TimeBudget => "time_budget",
        }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// Every goal has its answer.
    Converged,
    /// The time for the search is used up.
    TimeBudget,
    /// Not yet: this is what is known so far.
    #[default]
    Running,
}

/// The result of a search for one goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Found {
    /// The share of frames that may be lost.
    pub loss_ratio: f64,
    /// The highest load that reached the goal; `None`: none did.
    pub lower_packet_per_s: Option<u64>,
    /// The least load that did not; `None`: all did.
    pub upper_packet_per_s: Option<u64>,
    /// What the device forwards at that highest load, in the part of the trials that must be good (RFC 9971,
    /// conditional throughput).
    pub throughput_packet_per_s: Option<f64>,
    /// Both bounds are there and no further apart than was asked for.
    pub regular: bool,
    /// The true value may be higher: the search could not go there, or had no time for it.
    pub censored: Option<Cap>,
}

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// One for each goal, in their order.
    pub goals: Vec<Found>,
    /// Trials that counted.
    pub trials: u64,
    /// Trials that were void and made again.
    pub void_trials: u64,
    /// Trials under disturbed conditions that counted all the same, since they lost no more than they may, or were no
    /// better when made again.
    pub disturbed_trials: u64,
    /// Time of all trials, void ones included, s.
    pub trial_s: f64,
    /// Why it ended.
    pub stopped: Stopped,
}

/// Settings that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// Which.
    pub what: &'static str,
    /// Its value.
    pub found: String,
    /// What it may be.
    pub want: &'static str,
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}: use {}", self.what, self.found, self.want)
    }
}

impl std::error::Error for SettingsError {}

impl SettingsError {
    fn new(what: &'static str, found: impl ToString, want: &'static str) -> Self {
        Self { what, found: found.to_string(), want }
    }
}

fn check_range(range: Range) -> Result<(), SettingsError> {
    if range.least == 0 {
        return Err(SettingsError::new("least load", range.least, "1 frame a second or more"));
    }
    if range.most <= range.least {
        return Err(SettingsError::new("greatest load", range.most, "more than the least load"));
    }
    Ok(())
}
