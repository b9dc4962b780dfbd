use serde::{Deserialize, Serialize};
use vtare_units::{Random, Span};

/// How the packets of one train follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// Evenly; a gap of 0 is back to back.
    Even {
        /// From packet to packet, ns.
        gap_ns: u64,
    },
    /// Pair after pair.
    Pairs {
        /// Between the two packets of a pair, ns; 0 is back to back.
        gap_ns: u64,
        /// From the start of one pair to the start of the next, ns.
        period_ns: u64,
    },
    /// Each gap is a fixed part of the one before it, so that one train passes through many rates.
    Chirp {
        /// The first gap, ns.
        first_gap_ns: u64,
        /// Each gap over the one behind it, in thousandths: 1200 is pathChirp's spread factor of 1.2, below 1000 the
        /// gaps grow.
        spread_per_mille: u32,
    },
    /// Packets back to back first, which fill a queue, then groups of packets that leave together, evenly.
    Primed {
        /// Packets back to back at the head.
        head: u32,
        /// From the start to the first group behind the head, ns.
        after_ns: u64,
        /// Packets of a group.
        group: u32,
        /// From the start of a group to the start of the next, ns.
        gap_ns: u64,
    },
    /// The same with random gaps between groups: exponential, as those of a Poisson process.
    Scattered {
        /// Packets back to back at the head.
        head: u32,
        /// From the start to the first group behind the head, ns.
        after_ns: u64,
        /// Packets of a group.
        group: u32,
        /// From the start of a group to the start of the next in the mean, ns.
        gap_ns: u64,
        /// The gaps are those of this seed.
        seed: u64,
    },
}

impl Shape {
    /// Whether packets that are due at the same time belong together.
    #[must_use]
    pub const fn is_grouped(self) -> bool {
        matches!(self, Self::Primed { .. } | Self::Scattered { .. })
    }

    /// Whether packets fill a queue first and then hold it filled: such a train may have any gaps but must not let it
    /// run empty.
    #[must_use]
    pub const fn keeps_a_queue(self) -> bool {
        matches!(self, Self::Primed { head: 1.., .. } | Self::Scattered { head: 1.., .. })
    }

    /// When each of `packets` is due after the first one. A chirp at a spread of 0 has no gap but the first.
    ///
    /// ```
    /// use vtare_wire::Shape;
    /// let due = |shape: Shape, packets| shape.offsets(packets).map(|due| due.as_nanos()).collect::<Vec<_>>();
    /// assert_eq!(due(Shape::Even { gap_ns: 12_000 }, 3), [0, 12_000, 24_000]);
    /// assert_eq!(due(Shape::Pairs { gap_ns: 5, period_ns: 100 }, 4), [0, 5, 100, 105]);
    /// assert_eq!(due(Shape::Chirp { first_gap_ns: 1_200, spread_per_mille: 1_200 }, 4), [0, 1_200, 2_200, 3_033]);
    /// assert_eq!(due(Shape::Primed { head: 2, after_ns: 50, group: 2, gap_ns: 10 }, 6), [0, 0, 50, 50, 60, 60]);
    /// let scattered = due(Shape::Scattered { head: 1, after_ns: 50, group: 2, gap_ns: 10, seed: 7 }, 9_001);
    /// assert_eq!((scattered[0], scattered[1], scattered[2]), (0, 50, 50));
    /// assert!((44_000..46_100).contains(&scattered[9_000]), "4499 gaps of 10 in the mean");
    /// ```
    pub fn offsets(self, packets: u32) -> impl Iterator<Item = Span> {
        let mut chirp = (0.0, 0.0);
        let mut scattered = match self {
            Self::Scattered { seed, .. } => (Random::new(seed), 0.0),
            _ => (Random::new(0), 0.0),
        };
        (0..u64::from(packets)).map(move |number| {
            let ns = match self {
                Self::Even { gap_ns } => gap_ns.saturating_mul(number),
                Self::Pairs { gap_ns, period_ns } => {
                    period_ns.saturating_mul(number / 2).saturating_add(gap_ns * (number % 2))
                }
                Self::Primed { head, after_ns, group, gap_ns } => {
                    let behind = number.checked_sub(u64::from(head));
                    behind.map_or(0, |number| {
                        gap_ns.saturating_mul(number / u64::from(group.max(1))).saturating_add(after_ns)
                    })
                }
                Self::Scattered { head, after_ns, group, gap_ns, .. } => {
                    let (random, due) = &mut scattered;
                    number.checked_sub(u64::from(head)).map_or(0, |number| {
                        if number > 0 && number.is_multiple_of(u64::from(group.max(1))) {
                            *due += random.exponential(gap_ns as f64);
                        }
                        after_ns.saturating_add(*due as u64)
                    })
                }
                Self::Chirp { first_gap_ns, spread_per_mille } => {
                    let (due, gap) = &mut chirp;
                    *gap = match number {
                        0 => 0.0,
                        1 => first_gap_ns as f64,
                        _ => *gap * 1_000.0 / f64::from(spread_per_mille.max(1)),
                    };
                    *due += *gap;
                    *due as u64
                }
            };
            Span::from_unsigned_nanos(ns)
        })
    }

    /// From the first to the last of `packets`.
    #[must_use]
    pub fn lasts(self, packets: u32) -> Span {
        self.offsets(packets).last().unwrap_or(Span::ZERO)
    }
}
