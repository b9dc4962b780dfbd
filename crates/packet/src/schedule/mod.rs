//! When each probe is due: patterns as data, and the slots they make.
//!
//! A schedule is an argument of a run (JSON, TOML) and is recorded with it. [`Schedule::slots`] gives the same slots for the same
//! data, always. Offsets are computed from the slot's number, not from the slot before: 1 Mpps for a day ends on the nanosecond.

mod shape;
mod slots;

use serde::{Deserialize, Serialize};
use vtare_units::{BitRate, Bytes, PacketRate, Span};

pub use shape::Shape;
pub use slots::{Slot, Slots};

use crate::wire;

/// A rate as a fraction, so that 3 packets a second or 7.2 us a packet are both exact: `packets` in every `span_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Packets in each span.
    pub packets: u64,
    /// The span, in ns.
    pub span_ns: u64,
}

impl Pace {
    /// `rate` packets a second.
    #[must_use]
    pub const fn of_rate(rate: PacketRate) -> Self {
        Self { packets: rate.as_packet_per_s(), span_ns: 1_000_000_000 }
    }

    /// One packet every `gap`.
    #[must_use]
    pub const fn of_gap(gap: Span) -> Self {
        Self { packets: 1, span_ns: gap.as_nanos_unsigned() }
    }

    /// The pace at which packets of `packet` bytes make `rate`; the layer of both is the caller's.
    ///
    /// ```
    /// use vtare_packet::schedule::Pace;
    /// use vtare_units::{BitRate, Bytes};
    /// let pace = Pace::of_bit_rate(BitRate::from_bit_per_s(1_000_000_000), Bytes::new(1500));
    /// assert_eq!(pace.offset_ns(2), Some(24_000));
    /// ```
    #[must_use]
    pub const fn of_bit_rate(rate: BitRate, packet: Bytes) -> Self {
        Self { packets: rate.as_bit_per_s(), span_ns: packet.bits().saturating_mul(1_000_000_000) }
    }

    /// When packet `number`, counted from 0, is due after the start, in ns rounded down; `None` off the scale or at no rate.
    #[must_use]
    pub const fn offset_ns(self, number: u64) -> Option<u64> {
        if self.packets == 0 {
            return None;
        }
        let offset = number as u128 * self.span_ns as u128 / self.packets as u128;
        if offset > i64::MAX as u128 { None } else { Some(offset as u64) }
    }

    /// Packets a second.
    #[must_use]
    pub fn packet_per_s(self) -> f64 {
        self.packets as f64 * 1e9 / self.span_ns as f64
    }
}

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
    /// Ends after so many packets.
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
    #[error("size of {found_byte} B, want {least_byte} to {most_byte} B")]
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
    #[error("groups of 0 packets: want at least 1")]
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
    /// use vtare_packet::schedule::{Pace, Pattern, Schedule};
    /// let pattern = Pattern::Constant { pace: Pace { packets: 3, span_ns: 1_000_000_000 } };
    /// let schedule = Schedule { pattern, size_byte: 64, packets: Some(4), duration_ns: None, seed: 0 };
    /// let due: Vec<i64> = schedule.slots()?.map(|slot| slot.due.as_nanos()).collect();
    /// assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    /// # Ok::<(), vtare_packet::schedule::ScheduleError>(())
    /// ```
    pub fn slots(&self) -> Result<Slots, ScheduleError> {
        self.check()?;
        Ok(Slots::new(*self))
    }
}

#[cfg(test)]
mod tests;
