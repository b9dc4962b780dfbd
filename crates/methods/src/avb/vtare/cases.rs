use super::Vtare;

/// The special cases of the method: what it does beside the account of a primed train. Each can be switched off by
/// itself, which shows what it is worth: `bench/avb --ablate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The tight link's capacity from trains at different rates.
    TightLink,
    /// A wider interval where the tight link may be another than the narrow one.
    Doubt,
    /// The first half of an account in which another link drained is left out.
    Drains,
    /// Small packets that show whether several links store and forward.
    Links,
    /// One account over many trains on slow links.
    Slow,
    /// One account over many trains where bursts leave next to nothing free.
    Crowded,
    /// The narrowest account of many that begin and end with a train.
    Narrowest,
    /// Bounds on the capacity by heads that overload the link.
    Bounds,
    /// A short stream without a head where nothing crosses.
    Calm,
    /// Trains that were delayed as a whole.
    DelayedWhole,
    /// A start from the beginning where the least delay fell.
    LeastDelayFell,
    /// A sender whose processor does the path's work.
    SharedCpu,
    /// The account begins when links before the tight one have drained.
    Settled,
    /// Bursts by what differs from train to train.
    BurstsBetween,
    /// A rate that stays next to the value where the capacity is known poorly.
    Unsure,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::TightLink,
        Self::Doubt,
        Self::Drains,
        Self::Links,
        Self::Slow,
        Self::Crowded,
        Self::Narrowest,
        Self::Bounds,
        Self::Calm,
        Self::DelayedWhole,
        Self::LeastDelayFell,
        Self::SharedCpu,
        Self::Settled,
        Self::BurstsBetween,
        Self::Unsure,
    ];
}

impl Vtare {
    /// Whether this special case is switched off.
    pub(super) fn without(&self, case: Case) -> bool {
        self.settings.without == Some(case)
    }
}
