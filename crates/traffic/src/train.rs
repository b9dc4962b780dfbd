use serde::{Deserialize, Serialize};
use vtare_units::{Random, Span};

/// Packets to be sent on one schedule, of which the receiver notes each arrival.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Packets.
    pub packets: u32,
    /// Size of each, bytes of the IP packet.
    pub size_byte: u32,
    /// When each is due.
    pub spacing: Spacing,
    /// Silence before the first, ns, counted from the last packet of the train before (for the first train: from the
    /// call). Exponential spacing of trains is drawn by the method into this field.
    pub idle_before_ns: u64,
}

/// When the packets of a train are due. Gaps are from start to start, in ns; fractions matter: at 100 Gbit/s a packet
/// of 1500 B is 120 ns. This is also the form in which the control protocol asks for trains, in whole ns; programs of
/// others may use the older names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Spacing {
    /// Evenly; a gap of 0 is as fast as the sender can.
    #[serde(rename = "even", alias = "constant", alias = "back_to_back")]
    Constant {
        /// From packet to packet.
        #[serde(default, with = "whole")]
        gap_ns: f64,
    },
    /// In pairs: a short gap inside, a long one from the start of a pair to the start of the next.
    Pairs {
        /// Inside a pair; 0: back to back.
        #[serde(rename = "gap_ns", alias = "inside_ns", with = "whole")]
        inside_ns: f64,
        /// From pair to pair.
        #[serde(rename = "period_ns", alias = "between_ns", with = "whole")]
        between_ns: f64,
    },
    /// Each gap is a fixed part of the one before it, so that one train passes through many rates.
    Chirp {
        /// The first gap.
        #[serde(with = "whole")]
        first_gap_ns: f64,
        /// Each gap over the one behind it, in thousandths: 1200 is pathChirp's spread factor of 1.2, below 1000 the
        /// gaps grow.
        spread_per_mille: u32,
    },
    /// Packets back to back first, which fill a queue, then groups of `packets` that leave together (UDP_SEGMENT),
    /// evenly: the first group is due `after_ns` from the start.
    #[serde(alias = "groups")]
    Primed {
        /// Packets back to back at the head.
        #[serde(default)]
        head: u32,
        /// From the start of the train to the first packet behind the head.
        #[serde(default, with = "whole")]
        after_ns: f64,
        /// Packets of a group behind it; 1: single packets.
        #[serde(rename = "group", alias = "packets")]
        packets: u32,
        /// From the start of a group to the start of the next.
        #[serde(with = "whole")]
        gap_ns: f64,
    },
    /// As [`Spacing::Primed`], but the gaps between groups are random: exponential, so that the packets come as those
    /// of a Poisson process do and see the path as it is in the mean of time.
    //= Wolff 1982: Poisson arrivals see time averages
    Scattered {
        /// Packets back to back at the head.
        head: u32,
        /// From the start of the train to the first packet behind the head.
        #[serde(with = "whole")]
        after_ns: f64,
        /// Packets of a group behind it; 1: single packets.
        #[serde(rename = "group", alias = "packets")]
        packets: u32,
        /// From group to group in the mean.
        #[serde(with = "whole")]
        gap_ns: f64,
        /// The gaps are those of this seed.
        seed: u64,
    },
    /// Each gap by itself: the gap before packet 1, 2, ...; a gap of 0 is back to back. Packets beyond the list keep
    /// its last gap. No far end is asked for these.
    #[serde(skip_serializing)]
    Gaps {
        /// One gap a packet, from the second packet on.
        gaps_ns: Vec<f64>,
    },
}

/// Times of a spacing: whole ns are written, fractions are read as well, and nothing below 0.
mod whole {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(ns: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(ns.max(0.0).round() as u64)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        let ns = f64::deserialize(from)?;
        if ns >= 0.0 { Ok(ns) } else { Err(D::Error::invalid_value(Unexpected::Float(ns), &"0 ns or more")) }
    }
}

impl Spacing {
    /// As fast as the sender can.
    pub const BACK_TO_BACK: Self = Self::Constant { gap_ns: 0.0 };

    /// In groups of `packets` that leave with one call (UDP_SEGMENT), evenly spaced.
    #[must_use]
    pub const fn groups(packets: u32, gap_ns: f64) -> Self {
        Self::Primed { head: 0, after_ns: 0.0, packets, gap_ns }
    }

    /// Whether packets that are due at the same time belong together.
    #[must_use]
    pub const fn is_grouped(&self) -> bool {
        matches!(self, Self::Primed { .. } | Self::Scattered { .. })
    }

    /// Whether packets fill a queue first and then hold it filled: such a train may have any gaps but must not let it
    /// run empty.
    #[must_use]
    pub const fn keeps_a_queue(&self) -> bool {
        matches!(self, Self::Primed { head: 1.., .. } | Self::Scattered { head: 1.., .. })
    }

    /// Whether a few numbers define it, whatever the number of packets: only such a train can be asked of a far end.
    #[must_use]
    pub const fn has_shape(&self) -> bool {
        !matches!(self, Self::Gaps { .. })
    }

    /// When each of `packets` is due, ns after the first. Packets with the same time leave back to back. A chirp at a
    /// spread of 0 has no gap but the first.
    ///
    /// ```
    /// use vtare_traffic::Spacing;
    /// let due = |spacing: Spacing, packets| spacing.offsets_ns(packets).collect::<Vec<_>>();
    /// assert_eq!(due(Spacing::Constant { gap_ns: 2.5 }, 3), [0.0, 2.5, 5.0]);
    /// assert_eq!(due(Spacing::Pairs { inside_ns: 5.0, between_ns: 100.0 }, 4), [0.0, 5.0, 100.0, 105.0]);
    /// let chirp = Spacing::Chirp { first_gap_ns: 1_200.0, spread_per_mille: 1_200 };
    /// assert_eq!(chirp.due(4).map(|due| due.as_nanos()).collect::<Vec<_>>(), [0, 1_200, 2_200, 3_033]);
    /// let primed = Spacing::Primed { head: 2, after_ns: 50.0, packets: 2, gap_ns: 10.0 };
    /// assert_eq!(due(primed, 6), [0.0, 0.0, 50.0, 50.0, 60.0, 60.0]);
    /// let scattered = due(Spacing::Scattered { head: 1, after_ns: 50.0, packets: 2, gap_ns: 10.0, seed: 7 }, 9_001);
    /// assert_eq!(scattered[..3], [0.0, 50.0, 50.0]);
    /// assert!((44_000.0..46_100.0).contains(&scattered[9_000]), "4499 gaps of 10 in the mean");
    /// ```
    pub fn offsets_ns(&self, packets: u32) -> impl Iterator<Item = f64> + '_ {
        let (mut at, mut random) = match *self {
            Self::Scattered { after_ns, seed, .. } => (after_ns, Random::new(seed)),
            _ => (0.0, Random::new(0)),
        };
        let mut chirp_ns = 0.0;
        (0..packets).map(move |i| match *self {
            Self::Constant { gap_ns } => f64::from(i) * gap_ns,
            Self::Pairs { inside_ns, between_ns } => f64::from(i / 2) * between_ns + f64::from(i % 2) * inside_ns,
            Self::Chirp { first_gap_ns, spread_per_mille } => {
                chirp_ns = match i {
                    0 => 0.0,
                    1 => first_gap_ns,
                    _ => chirp_ns * 1_000.0 / f64::from(spread_per_mille.max(1)),
                };
                at += chirp_ns;
                at
            }
            Self::Primed { head, after_ns, packets, gap_ns } => {
                i.checked_sub(head).map_or(0.0, |i| after_ns + f64::from(i / packets.max(1)) * gap_ns)
            }
            Self::Scattered { head, packets, gap_ns, .. } => {
                let Some(i) = i.checked_sub(head) else { return 0.0 };
                if i > 0 && i.is_multiple_of(packets.max(1)) {
                    at += random.exponential(gap_ns);
                }
                at
            }
            Self::Gaps { ref gaps_ns } => {
                let gap = i.checked_sub(1).and_then(|i| gaps_ns.get(i as usize).or(gaps_ns.last()));
                at += gap.copied().unwrap_or(0.0);
                at
            }
        })
    }

    /// When each of `packets` is due after the first one, in whole ns.
    pub fn due(&self, packets: u32) -> impl Iterator<Item = Span> + '_ {
        self.offsets_ns(packets).map(|ns| Span::from_nanos(ns.round() as i64))
    }
}

impl Train {
    /// A train at a constant rate, bit/s at the IP layer, at once.
    #[must_use]
    pub fn constant(packets: u32, size_byte: u32, rate_bit_per_s: f64) -> Self {
        let gap_ns = f64::from(size_byte) * 8e9 / rate_bit_per_s;
        Self { packets, size_byte, spacing: Spacing::Constant { gap_ns }, idle_before_ns: 0 }
    }

    /// A train as fast as the sender can, at once.
    #[must_use]
    pub const fn back_to_back(packets: u32, size_byte: u32) -> Self {
        Self { packets, size_byte, spacing: Spacing::BACK_TO_BACK, idle_before_ns: 0 }
    }

    /// The same train after a silence.
    #[must_use]
    pub const fn after_idle(mut self, idle_ns: u64) -> Self {
        self.idle_before_ns = idle_ns;
        self
    }

    /// Bytes of all its packets (IP).
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.packets as u64 * self.size_byte as u64
    }

    /// When each packet is due, ns after the first, in order. Packets with the same time leave back to back.
    #[must_use]
    pub fn offsets_ns(&self) -> Vec<f64> {
        self.spacing.offsets_ns(self.packets).collect()
    }

    /// From the first to the last packet as scheduled, ns.
    #[must_use]
    pub fn duration_ns(&self) -> f64 {
        self.spacing.offsets_ns(self.packets).last().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_others_may_use_the_older_names_and_fractions_of_a_nanosecond() {
        let of = |spacing: &str| {
            let text = format!(r#"{{"packets":3,"size_byte":1500,"idle_before_ns":0,"spacing":{{"kind":{spacing}}}}}"#);
            serde_json::from_str::<Train>(&text).map(|train| train.offsets_ns())
        };
        for (spacing, offsets) in [
            (r#""constant","gap_ns":2.5"#, [0.0, 2.5, 5.0]),
            (r#""back_to_back""#, [0.0, 0.0, 0.0]),
            (r#""pairs","inside_ns":1.5,"between_ns":10"#, [0.0, 1.5, 10.0]),
            (r#""groups","packets":2,"gap_ns":7"#, [0.0, 0.0, 7.0]),
            (r#""gaps","gaps_ns":[4,2.25]"#, [0.0, 4.0, 6.25]),
        ] {
            assert_eq!(of(spacing).expect(spacing), offsets);
        }
        assert!(of(r#""constant","gap_ns":-1"#).is_err());
    }
}
