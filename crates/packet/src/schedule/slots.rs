use vtare_units::Span;

use super::{Pattern, Schedule};
use crate::random::Random;

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
    pub(super) const fn new(schedule: Schedule) -> Self {
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
