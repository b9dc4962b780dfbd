use serde::{Deserialize, Serialize};
use vtare_pathsim::{EndSpec, HopSpec, PathSpec, PeerClock};

/// A path there and back, with both its ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimSpec {
    /// From the near to the far end.
    pub forward: PathSpec,
    /// From the far to the near end.
    pub reverse: PathSpec,
    /// Who measures.
    #[serde(default)]
    pub near: EndSpec,
    /// Who answers.
    #[serde(default)]
    pub far: EndSpec,
    /// The far end's clock.
    #[serde(default)]
    pub peer_clock: PeerClock,
    /// Seed of all that is random.
    #[serde(default)]
    pub seed: u64,
}

impl SimSpec {
    /// The same hops there and back, quiet machines, no loss.
    #[must_use]
    pub fn symmetric(hops: Vec<HopSpec>, seed: u64) -> Self {
        let forward = PathSpec { hops, ..PathSpec::default() };
        let mut reverse = forward.clone();
        reverse.hops.reverse();
        let (near, far, peer_clock) = (EndSpec::default(), EndSpec::default(), PeerClock::default());
        Self { forward, reverse, near, far, peer_clock, seed }
    }
}
