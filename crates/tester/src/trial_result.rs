//! The outcome of an offer.

/// The outcome of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSeen {
    /// Frames that left.
    pub sent: u64,
    /// Frames that came, each counted once.
    pub received: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came after one of a higher number.
    pub reordered: u64,
    /// Latencies: the least of a range that is at most 1/64 as wide, and how many.
    pub latency: Vec<(u64, u64)>,
    /// Least, ns; `None` where none came.
    pub least_ns: Option<u64>,
    /// Greatest, ns.
    pub most_ns: Option<u64>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
}

impl FlowSeen {
    /// Frames that left and did not come.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// Frames that left around a step of the rate and did not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostAround {
    /// Of the frames before it.
    pub before: u64,
    /// Of those from it on.
    pub after: u64,
    /// When the last of those was due, from the step on, ns.
    pub last_ns: Option<u64>,
}

/// The outcome of an offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialResult {
    /// Of each flow.
    pub flows: Vec<FlowSeen>,
    /// Where the rate had a step: what was lost before and after it.
    pub around: Option<LostAround>,
    /// Frames whose time passed before they could leave.
    pub skipped: u64,
    /// Of the frames that left, those that the port itself refused: its other end had no room.
    pub refused: u64,
    /// Frames that came and found the analyser without room: whose they were is not known.
    pub missed: u64,
    /// Frames of an earlier trial that came now.
    pub stale: u64,
    /// Frames that came with other addresses or another length than they left with.
    pub wrong: u64,
    /// Frames that came before they left, by their stamps: two clocks.
    pub early: u64,
    /// Latency of the tagged frame, ns.
    pub tagged_ns: Option<u64>,
    /// From the time of the first frame to the last reading of the clock, ns.
    pub elapsed_ns: u64,
    /// Time in gaps of the sending thread, ns.
    pub stalled_ns: u64,
    /// The longest gap, ns.
    pub longest_gap_ns: u64,
    /// Whether a wish to stop ended it.
    pub stopped: bool,
}

impl TrialResult {
    /// Frames that left.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.flows.iter().map(|flow| flow.sent).sum()
    }

    /// Frames that came, each counted once.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.flows.iter().map(|flow| flow.received).sum()
    }
}
