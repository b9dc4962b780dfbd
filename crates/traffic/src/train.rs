use serde::{Deserialize, Serialize};
use vtare_units::Random;

/// Packets to be sent on one schedule, of which the receiver notes each arrival.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
/// of 1500 B is 120 ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Spacing {
    /// As fast as the sender can.
    BackToBack,
    /// Evenly.
    Constant {
        /// From packet to packet.
        gap_ns: f64,
    },
    /// In pairs: a short gap inside, a long one from the start of a pair to the start of the next.
    Pairs {
        /// Inside a pair; 0: back to back.
        inside_ns: f64,
        /// From pair to pair.
        between_ns: f64,
    },
    /// In groups that leave with one call (UDP_SEGMENT), evenly spaced.
    Groups {
        /// Packets of a group.
        packets: u32,
        /// From the start of a group to the start of the next.
        gap_ns: f64,
    },
    /// Packets back to back first, which fill a queue, then groups of `packets` evenly: the first group is due
    /// `after_ns` from the start.
    Primed {
        /// Packets back to back at the head.
        head: u32,
        /// From the start of the train to the first packet behind the head.
        after_ns: f64,
        /// Packets of a group behind it; 1: single packets.
        packets: u32,
        /// From group to group.
        gap_ns: f64,
    },
    /// As [`Spacing::Primed`], but the gaps between groups are random: exponential, so that the packets come as those
    /// of a Poisson process do and see the path as it is in the mean of time.
    //= Wolff 1982: Poisson arrivals see time averages
    Scattered {
        /// Packets back to back at the head.
        head: u32,
        /// From the start of the train to the first packet behind the head.
        after_ns: f64,
        /// Packets of a group behind it; 1: single packets.
        packets: u32,
        /// From group to group in the mean.
        gap_ns: f64,
        /// The gaps are those of this seed.
        seed: u64,
    },
    /// Each gap by itself (chirps): the gap before packet 1, 2, ...; a gap of 0 is back to back. Packets beyond the
    /// list keep its last gap.
    Gaps {
        /// One gap a packet, from the second packet on.
        gaps_ns: Vec<f64>,
    },
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
        Self { packets, size_byte, spacing: Spacing::BackToBack, idle_before_ns: 0 }
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
        let each = 0..self.packets;
        match &self.spacing {
            Spacing::BackToBack => each.map(|_| 0.0).collect(),
            &Spacing::Constant { gap_ns } => each.map(|i| f64::from(i) * gap_ns).collect(),
            &Spacing::Pairs { inside_ns, between_ns } => {
                each.map(|i| f64::from(i / 2) * between_ns + f64::from(i % 2) * inside_ns).collect()
            }
            &Spacing::Groups { packets, gap_ns } => each.map(|i| f64::from(i / packets.max(1)) * gap_ns).collect(),
            &Spacing::Primed { head, after_ns, packets, gap_ns } => each
                .map(|i| i.checked_sub(head).map_or(0.0, |i| after_ns + f64::from(i / packets.max(1)) * gap_ns))
                .collect(),
            &Spacing::Scattered { head, after_ns, packets, gap_ns, seed } => {
                let (mut random, mut at) = (Random::new(seed), after_ns);
                each.map(|i| {
                    let Some(i) = i.checked_sub(head) else { return 0.0 };
                    if i > 0 && i.is_multiple_of(packets.max(1)) {
                        at += random.exponential(gap_ns);
                    }
                    at
                })
                .collect()
            }
            Spacing::Gaps { gaps_ns } => {
                let mut at = 0.0;
                each.map(|i| {
                    let gap = i.checked_sub(1).and_then(|i| gaps_ns.get(i as usize).or(gaps_ns.last()));
                    at += gap.copied().unwrap_or(0.0);
                    at
                })
                .collect()
            }
        }
    }

    /// From the first to the last packet as scheduled, ns.
    #[must_use]
    pub fn duration_ns(&self) -> f64 {
        self.offsets_ns().last().copied().unwrap_or(0.0)
    }
}
