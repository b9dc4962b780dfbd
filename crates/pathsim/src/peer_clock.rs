use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Peer, Timestamp};

/// The far end's clock, as it differs from the near one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerClock {
    /// What it shows at time 0, ns.
    pub offset_ns: i64,
    /// How much faster it runs, in parts per billion.
    pub skew_ppb: i64,
}

impl PeerClock {
    /// What it shows at `at`; before its own zero it shows 0.
    #[must_use]
    pub fn at(self, at: Timestamp<Monotonic>) -> Timestamp<Peer> {
        let at = i128::from(at.as_nanos());
        let shown = at + at * i128::from(self.skew_ppb) / 1_000_000_000 + i128::from(self.offset_ns);
        Timestamp::from_nanos(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }
}
