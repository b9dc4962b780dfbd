//! A train from the far end as it comes in.

use vtare_traffic::{Ecn, Packet};
use vtare_units::{Monotonic, Peer, Timestamp};
use vtare_wire::{SessionKey, full};

use crate::link::Incoming;

/// Packets of a train from the far end as they arrive.
pub(super) struct Gathered {
    first: u64,
    /// When each that arrived had left, on the far end's clock.
    pub(super) sent: Vec<Option<Timestamp<Peer>>>,
    /// What is known of each without that.
    pub(super) packets: Vec<Packet>,
    /// How many arrived.
    pub(super) arrived: u32,
    group: u32,
    newest: Option<Timestamp<Monotonic>>,
}

impl Gathered {
    pub(super) fn new(first: u64, packets: u32, size_byte: u32) -> Self {
        let packet = Packet {
            scheduled: Timestamp::ZERO,
            sent: None,
            kernel_sent: None,
            received: None,
            place: None,
            size_byte,
            call: 0,
            group: None,
            descheduled: false,
            ecn: None,
        };
        let count = packets as usize;
        Self { first, sent: vec![None; count], packets: vec![packet; count], arrived: 0, group: 0, newest: None }
    }

    pub(super) fn take(&mut self, incoming: &Incoming<'_>, key: &SessionKey) {
        let parsed = full::Unverified::parse(incoming.payload).and_then(|packet| packet.reverse(key));
        let Ok(parsed) = parsed else { return };
        let index = parsed.sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some((index, packet)) = index.and_then(|index| Some((index, self.packets.get_mut(index)?))) else { return };
        if packet.received.is_some() {
            return;
        }
        let at = incoming.stamp.map_or(incoming.arrived, |stamp| stamp.at);
        let joined = self.newest.replace(at) == Some(at);
        self.group += u32::from(self.arrived > 0 && !joined);
        self.sent[index] = Some(parsed.sent);
        packet.received = Some(Timestamp::from_nanos(at.as_nanos()));
        (packet.place, packet.group) = (Some(self.arrived), Some(self.group));
        packet.ecn = incoming.class.map(Ecn::of);
        self.arrived += 1;
    }

    /// The packets with the times of their departure, put on this host's clock.
    pub(super) fn finish(mut self, behind_ns: i64, finished: Timestamp<Monotonic>) -> Vec<Packet> {
        let (mut call, mut before) = (0, None);
        for (index, (packet, sent)) in self.packets.iter_mut().zip(&self.sent).enumerate() {
            // Packets of one call have one time.
            let joined = sent.is_some() && before == Some(sent);
            call += u32::from(index > 0 && !joined);
            before = Some(sent);
            packet.sent = sent.map(|at| Timestamp::from_nanos(at.as_nanos().saturating_add_signed(behind_ns)));
            packet.scheduled = packet.sent.unwrap_or(finished);
            packet.call = call;
        }
        self.packets
    }
}
