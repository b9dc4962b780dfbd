use serde::{Deserialize, Serialize};

use super::cases::Case;
use crate::avb::SettingsError;

/// Parameters of [`Abacus`](super::Abacus).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AbacusSettings {
    /// The result's interval shall be so wide at most, as a share of the value: then it stops.
    pub interval_share: f64,
    /// Packets of the first, back-to-back train.
    pub first_packets: u32,
    /// Silence behind that train, ns: a machine on the way that stalled, and then let it go as fast as it could,
    /// runs again.
    pub rest_ns: u64,
    /// Points that an approaching train shall have.
    pub search_points: u32,
    /// Shortest such train, ns.
    pub least_search_ns: u64,
    /// Points that a measuring train shall have.
    pub points: u32,
    /// Shortest measuring train, ns, ...
    pub least_train_ns: u64,
    /// ... unless it has this number of bytes before.
    pub least_train_byte: u64,
    /// No narrow interval is the answer before a train of this length, ns: it empties a deep token bucket behind a
    /// faster link ...
    pub sure_train_ns: u64,
    /// ... unless it has this number of bytes before.
    pub sure_train_byte: u64,
    /// Least length of the last burst where nothing queued however fast it sent, ns: a token bucket passes a shorter
    /// one, and a lower bound would be too high. Half of the default makes values 40 to 70 % too high behind a bucket
    /// of 1 MB at 10 Gbit/s (12 of 14 runs; none with the default); double changes nothing (`bench/avb/buckets`).
    pub sure_burst_ns: u64,
    /// Longest train, ns.
    pub most_train_ns: u64,
    /// Trains are made longer until the cross traffic's bursts let the mean of a train differ from the mean of many by
    /// this share of the value (one standard deviation) ...
    pub burst_share: f64,
    /// Trains that may show nothing, one after another.
    pub most_spoiled: u32,
    /// Time after which it answers with what it has, ns, where no budget is given.
    pub most_ns: u64,
    /// Bytes of probes after which it answers with what it has, where no budget is given; what emptied a token bucket
    /// comes on top, up to four times as many in all ...
    pub most_byte: u64,
    /// ... or, on fast links, as many as the link carries in this time, ns, up to eight times as many, ...
    pub most_byte_ns: u64,
    /// ... or what it carries in this time, ns.
    pub fast_byte_ns: u64,
    /// The same where another link than the narrow one may be the tight one, and its interval is wide; 0: never more
    /// than otherwise.
    pub several_byte: u64,
    /// Silence before a train to which no answer came is repeated, ns.
    pub retry_ns: u64,
    /// Goes on and renews the value every so often, ns; `None`: one value.
    pub follow_ns: Option<u64>,
    /// The special case that is switched off, for ablation only.
    pub without: Option<Case>,
}

impl Default for AbacusSettings {
    fn default() -> Self {
        Self {
            interval_share: 0.05,
            first_packets: 24,
            rest_ns: 8_000_000,
            search_points: 16,
            least_search_ns: 200_000,
            points: 40,
            least_train_ns: 2_500_000,
            least_train_byte: 150_000,
            sure_train_ns: 30_000_000,
            sure_train_byte: 1_000_000,
            sure_burst_ns: 5_000_000,
            most_train_ns: 600_000_000,
            burst_share: 0.05,
            most_spoiled: 8,
            most_ns: 950_000_000,
            most_byte: 2_000_000,
            most_byte_ns: 28_000_000,
            fast_byte_ns: 3_000_000,
            several_byte: 8_000_000,
            retry_ns: 50_000_000,
            follow_ns: None,
            without: None,
        }
    }
}

impl AbacusSettings {
    /// Eight times the bytes.
    #[must_use]
    pub fn thorough() -> Self {
        Self { most_byte: 8_000_000, several_byte: 64_000_000, fast_byte_ns: 20_000_000, ..Self::default() }
    }

    /// # Errors
    /// The first setting that cannot be.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let positive = [
            ("interval_share", self.interval_share),
            ("burst_share", self.burst_share),
            ("first_packets", self.first_packets.into()),
            ("search_points", self.search_points.into()),
            ("points", self.points.into()),
            ("most_train_ns", self.most_train_ns as f64),
            ("most_ns", self.most_ns as f64),
            ("most_byte", self.most_byte as f64),
        ];
        let error =
            |what, found: f64, want: &str| Err(SettingsError { what, found: found.to_string(), want: want.to_owned() });
        for (what, found) in positive {
            if !(found.is_finite() && found > 0.0) {
                return error(what, found, "more than 0");
            }
        }
        for (what, found) in
            [("first_packets", self.first_packets), ("points", self.points), ("search_points", self.search_points)]
        {
            if found < 8 {
                return error(what, found.into(), "8 or more: fewer show no slope");
            }
        }
        Ok(())
    }
}
