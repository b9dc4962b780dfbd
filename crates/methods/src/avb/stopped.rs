use serde::{Deserialize, Serialize};

/// Why a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The method's own criterion: the interval is narrow enough, the grey region found, the fleet complete.
    Converged,
    /// The next train would have exceeded the bytes allowed.
    ByteBudget,
    /// The next train would have exceeded the time allowed.
    TimeBudget,
    /// Even as fast as the sender can there was no queue: the value is a lower bound.
    SenderLimited,
    /// Above a rate packets are dropped without having waited: a policer. The value is that rate.
    Policed,
    /// Too many packets were lost for an estimate.
    Lossy,
    /// Too many packets were reordered for an estimate.
    Reordered,
    /// Sender or receiver stalled too often for an estimate.
    Disturbed,
    /// Nothing came back.
    NoAnswer,
    /// The method gave up by a rule of its own (as the original tool exits with an error); see the notes.
    GaveUp,
    /// Still going on: an interim value.
    Running,
}
