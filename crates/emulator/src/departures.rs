//! The packets of one direction that are on their way, by the time at which they leave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Departure {
    /// When it leaves.
    pub(super) at_ns: u64,
    /// Packets of the same time leave in the order of this.
    order: u64,
    /// The frame that it is in, and its number there.
    pub(super) slot: u32,
    pub(super) number: u32,
    pub(super) packet_byte: u32,
}

/// Those that leave in the order in which they came are a queue; only those that overtake, or are overtaken, are
/// sorted.
#[derive(Debug, Default)]
pub(super) struct Departures {
    in_order: VecDeque<Departure>,
    sorted: BinaryHeap<Reverse<Departure>>,
    made: u64,
}

impl Departures {
    /// Adds a packet; `detoured` where those behind it are expected to leave before it.
    pub(super) fn push(&mut self, at_ns: u64, detoured: bool, (slot, number): (u32, u32), packet_byte: u32) {
        self.made += 1;
        let departure = Departure { at_ns, order: self.made, slot, number, packet_byte };
        if detoured || self.in_order.back().is_some_and(|last| last.at_ns > at_ns) {
            self.sorted.push(Reverse(departure));
        } else {
            self.in_order.push_back(departure);
        }
    }

    /// The packet that leaves next.
    pub(super) fn peek(&self) -> Option<Departure> {
        let sorted = self.sorted.peek().map(|Reverse(first)| *first);
        self.in_order.front().copied().into_iter().chain(sorted).min()
    }

    /// Takes the packet that leaves next, if it does so by `now_ns`.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Departure> {
        let next = self.peek().filter(|next| next.at_ns <= now_ns)?;
        if self.in_order.front() == Some(&next) {
            self.in_order.pop_front();
        } else {
            self.sorted.pop();
        }
        Some(next)
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.sorted.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_leave_by_time_and_then_in_the_order_in_which_they_came(
            packets in prop::collection::vec((0_u64..50, any::<bool>()), 0..200),
            now in 0_u64..50,
        ) {
            let mut departures = Departures::default();
            for (number, (at, detoured)) in packets.iter().enumerate() {
                departures.push(*at, *detoured, (0, number as u32), 0);
            }
            let mut wanted: Vec<(u64, u32)> = packets.iter().zip(0..).map(|((at, _), number)| (*at, number)).collect();
            wanted.sort_unstable();
            let (due, later): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(at, _)| *at <= now);
            let mut left = |until| {
                let packets = std::iter::from_fn(|| departures.pop_due(until));
                packets.map(|it| (it.at_ns, it.number)).collect::<Vec<_>>()
            };
            prop_assert_eq!(left(now), due);
            prop_assert_eq!(left(u64::MAX), later);
            prop_assert_eq!(departures.len(), 0);
        }
    }
}
