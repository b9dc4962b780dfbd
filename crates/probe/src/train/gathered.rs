//! A train from the far end as it comes in.

use vtare_units::{Monotonic, Peer, Timestamp};
use vtare_wire::session::ArrivalSource;
use vtare_wire::{SessionKey, full};

use super::report::{PacketFate, Received, Sent};
use crate::link::{Incoming, StampSource};

/// Packets of a train from the far end as they arrive.
pub(super) struct Gathered {
    first: u64,
    pub(super) fates: Vec<PacketFate<Peer, Monotonic>>,
    /// Those that arrived, in that order.
    pub(super) order: Vec<usize>,
    newest: Option<Timestamp<Monotonic>>,
}

impl Gathered {
    pub(super) fn new(first: u64, packets: usize) -> Self {
        let fate = |index: usize| PacketFate {
            sequence: first.saturating_add(index as u64),
            scheduled: None,
            sent: None,
            kernel_sent: None,
            received: None,
        };
        Self { first, fates: (0..packets).map(fate).collect(), order: Vec::with_capacity(packets), newest: None }
    }

    pub(super) fn take(&mut self, incoming: &Incoming<'_>, key: &SessionKey) {
        let parsed = full::Unverified::parse(incoming.payload).and_then(|packet| packet.reverse(key));
        let Ok(packet) = parsed else { return };
        let index = packet.sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < self.fates.len()) else { return };
        let before = index.checked_sub(1).and_then(|before| self.fates[before].sent);
        let fate = &mut self.fates[index];
        if fate.received.is_some() {
            return;
        }
        let (at, source) = match incoming.stamp {
            Some(stamp) if stamp.source == StampSource::Hardware => (stamp.at, ArrivalSource::Card),
            Some(stamp) => (stamp.at, ArrivalSource::Kernel),
            None => (incoming.arrived, ArrivalSource::Program),
        };
        let joined = before.is_some_and(|before| before.before == packet.sent);
        fate.sent = Some(Sent { before: packet.sent, after: None, joined });
        let joined = self.newest.replace(at) == Some(at);
        let ecn = incoming.class.map(|class| class & 3);
        fate.received = Some(Received { at, source, joined, place: 0, ecn });
        self.order.push(index);
    }
}
