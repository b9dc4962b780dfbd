//! When each probe is due: patterns as data, and the slots they make.
//!
//! A schedule is an argument of a run (JSON, TOML) and is recorded with it. [`Schedule::slots`] gives the same slots
//! for the same data, always. Offsets are computed from the slot's number, not from the slot before: 1 Mpps for a day
//! ends on the nanosecond.

use serde::{Deserialize, Serialize};
use vtare_units::{Pace, Random, Span};
use vtare_wire as wire;

/// How the probes of a schedule follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// Evenly spaced.
    Constant {
        /// How often.
        pace: Pace,
    },
    /// Exponential gaps: what an observer must use to see time averages.
    Poisson {
        /// How often, on average.
        pace: Pace,
    },
    /// Trains of evenly spaced packets; each train is a group.
    Train {
        /// Packets of a train.
        packets: u64,
        /// The spacing inside it.
        pace: Pace,
        /// From the start of one train to the start of the next, ns.
        period_ns: u64,
    },
    /// Trains of pairs: two packets back to back or close together, pair after pair; each pair is a group.
    Pairs {
        /// Between the two packets of a pair, ns; 0 is back to back.
        gap_ns: u64,
        /// From the start of one pair to the start of the next.
        pace: Pace,
    },
    /// Bursts of packets that are all due at once; each burst is a group.
    Burst {
        /// Packets of a burst.
        packets: u64,
        /// From one burst to the next, ns.
        period_ns: u64,
    },
}

/// A whole schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// How probes follow each other.
    pub pattern: Pattern,
    /// Bytes of each datagram's payload (what lies behind UDP's or ICMP's header).
    pub size_byte: u16,
    /// Ends after this many packets.
    #[serde(default)]
    pub packets: Option<u64>,
    /// Ends before the first packet due at or after this time from the start, ns.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Seed of the random patterns.
    #[serde(default)]
    pub seed: u64,
}

/// A schedule that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No packets in a span, or no span.
    #[error("pace of {packets} packets in {span_ns} ns: both must be above 0")]
    Pace {
        /// Packets in each span.
        packets: u64,
        /// The span.
        span_ns: u64,
    },
    /// A size that no datagram can have.
    #[error("size is {found_byte} B: use {least_byte} to {most_byte} B")]
    Size {
        /// The size asked for.
        found_byte: u16,
        /// The smallest that carries a header.
        least_byte: usize,
        /// The largest.
        most_byte: usize,
    },
    /// A group is still being sent when the next one is due.
    #[error("a group lasts {lasts_ns} ns and the next starts after {period_ns} ns: space the groups further apart")]
    Overlap {
        /// From first to last packet of a group.
        lasts_ns: u64,
        /// From group to group.
        period_ns: u64,
    },
    /// A train or a burst without packets.
    #[error("groups have 0 packets: use 1 or more")]
    EmptyGroup,
}

impl Schedule {
    /// Checks that the schedule can be kept.
    ///
    /// # Errors
    /// Each variant of [`ScheduleError`].
    pub fn check(&self) -> Result<(), ScheduleError> {
        let size = usize::from(self.size_byte);
        if !(wire::short::HEADER_BYTE..=wire::LARGEST_BYTE).contains(&size) {
            return Err(ScheduleError::Size {
                found_byte: self.size_byte,
                least_byte: wire::short::HEADER_BYTE,
                most_byte: wire::LARGEST_BYTE,
            });
        }
        if let Pattern::Constant { pace }
        | Pattern::Poisson { pace }
        | Pattern::Train { pace, .. }
        | Pattern::Pairs { pace, .. } = self.pattern
            && (pace.packets == 0 || pace.span_ns == 0)
        {
            return Err(ScheduleError::Pace { packets: pace.packets, span_ns: pace.span_ns });
        }
        let (lasts_ns, period_ns) = match self.pattern {
            Pattern::Train { packets: 0, .. } | Pattern::Burst { packets: 0, .. } => {
                return Err(ScheduleError::EmptyGroup);
            }
            Pattern::Train { packets, pace, period_ns } => (pace.offset_ns(packets - 1).unwrap_or(u64::MAX), period_ns),
            Pattern::Pairs { gap_ns, pace } => (gap_ns, pace.span_ns / pace.packets),
            Pattern::Burst { period_ns, .. } => (0, period_ns),
            Pattern::Constant { .. } | Pattern::Poisson { .. } => return Ok(()),
        };
        if lasts_ns >= period_ns { Err(ScheduleError::Overlap { lasts_ns, period_ns }) } else { Ok(()) }
    }

    /// The slots, in the order of their due times.
    ///
    /// # Errors
    /// As [`Schedule::check`].
    ///
    /// ```
    /// use vtare_probe::schedule::{Pattern, Schedule};
    /// use vtare_units::Pace;
    /// let pattern = Pattern::Constant { pace: Pace { packets: 3, span_ns: 1_000_000_000 } };
    /// let schedule = Schedule { pattern, size_byte: 64, packets: Some(4), duration_ns: None, seed: 0 };
    /// let due: Vec<i64> = schedule.slots()?.map(|slot| slot.due.as_nanos()).collect();
    /// assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    /// # Ok::<(), vtare_probe::schedule::ScheduleError>(())
    /// ```
    pub fn slots(&self) -> Result<Slots, ScheduleError> {
        self.check()?;
        Ok(Slots::new(*self))
    }
}

/// One probe of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number, from 0 without gaps.
    pub sequence: u64,
    /// When it is due, from the start of the schedule.
    pub due: Span,
    /// Bytes of its datagram.
    pub size_byte: u16,
    /// The train, pair or burst it belongs to, from 0; always 0 where the pattern has no groups.
    pub group: u64,
}

/// The slots of a [`Schedule`]; ends at the schedule's limits, else when time runs off the scale (292 years).
#[derive(Clone, Debug)]
pub struct Slots {
    schedule: Schedule,
    next: u64,
    random: Random,
    /// Poisson only: due time of the next packet in units of 2^-32 ns, so that fractions add up.
    poisson_at: u128,
}

impl Slots {
    const fn new(schedule: Schedule) -> Self {
        Self { schedule, next: 0, random: Random::new(schedule.seed), poisson_at: 0 }
    }

    /// Due time and group of packet number `n`.
    fn at(&mut self, n: u64) -> Option<(u64, u64)> {
        match self.schedule.pattern {
            Pattern::Constant { pace } => Some((pace.offset_ns(n)?, 0)),
            Pattern::Poisson { pace } => {
                let due = u64::try_from(self.poisson_at >> 32).ok()?;
                let mean = pace.span_ns as f64 / pace.packets as f64 * (1_u64 << 32) as f64;
                self.poisson_at = self.poisson_at.checked_add(self.random.exponential(mean) as u128)?;
                Some((due, 0))
            }
            Pattern::Train { packets, pace, period_ns } => {
                let (group, inside) = (n / packets, n % packets);
                Some((group.checked_mul(period_ns)?.checked_add(pace.offset_ns(inside)?)?, group))
            }
            Pattern::Pairs { gap_ns, pace } => {
                let (group, inside) = (n / 2, n % 2);
                Some((pace.offset_ns(group)?.checked_add(inside * gap_ns)?, group))
            }
            Pattern::Burst { packets, period_ns } => {
                let group = n / packets;
                Some((group.checked_mul(period_ns)?, group))
            }
        }
    }
}

impl Iterator for Slots {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        let sequence = self.next;
        if self.schedule.packets.is_some_and(|most| sequence >= most) {
            return None;
        }
        let (due_ns, group) = self.at(sequence)?;
        if self.schedule.duration_ns.is_some_and(|end| due_ns >= end) {
            // Nothing more: random patterns must not draw on behind their end.
            self.schedule.packets = Some(sequence);
            return None;
        }
        let due = Span::from_nanos(i64::try_from(due_ns).ok()?);
        self.next += 1;
        Some(Slot { sequence, due, size_byte: self.schedule.size_byte, group })
    }
}

#[cfg(test)]
mod tests;
