use serde::{Deserialize, Serialize};

/// The special cases of the method: what it does beside the account of a primed train. Each can be switched off by
/// itself, which shows what it is worth: `bench/avb --ablate`, `bench/avb/real --ablate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// The tight link's capacity from trains at different rates.
    TightLink,
    /// A larger error where the value still moves from train to train.
    Moving,
    /// The busiest part of a train whose queue ran empty.
    Part,
    /// Trains that were delayed as a whole.
    DelayedWhole,
    /// The account begins when links before the tight one have drained.
    Settled,
    /// More bytes where the tight link may be another than the narrow one.
    Several,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::TightLink, Self::Moving, Self::Part, Self::DelayedWhole, Self::Settled, Self::Several];
}
