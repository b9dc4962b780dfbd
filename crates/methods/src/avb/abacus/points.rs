use vtare_units::{Monotonic, Peer, Timestamp};

use super::tuning as t;
use crate::avb::Observation;

/// A packet whose delay can be trusted, with what went before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Number of the packet in its train.
    pub(super) index: u32,
    /// When it left, ns since the first packet of the measurement.
    pub(super) at_ns: f64,
    /// One-way delay less an unknown that is the same for the whole measurement, ns.
    pub(super) delay_ns: f64,
    /// Bits of the train sent up to and with this packet.
    pub(super) sent_bit: f64,
    /// Of those, the bits that arrived.
    pub(super) arrived_bit: f64,
    /// Bits that left in one call up to and with this packet: they came to the link together.
    pub(super) call_bit: f64,
}

/// The zero of both clocks: times of the first packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    left: Timestamp<Monotonic>,
    received: Timestamp<Peer>,
}

impl Epoch {
    pub(super) fn of(observation: &Observation) -> Option<Self> {
        observation.packets.iter().find_map(|packet| Some(Self { left: packet.left()?, received: packet.received? }))
    }

    pub(super) fn since_ns(&self, at: Timestamp<Monotonic>) -> f64 {
        (at - self.left).as_nanos() as f64
    }
}

/// The points of a train, in the order of sending.
///
/// - Packets of one call (UDP_SEGMENT) leave together and may share one stamp: the last of a call stands for it.
/// - Packets that share a stamp, or were stamped faster than the tight link can send (`service_ns_per_bit`, if that is
///   known: interrupt moderation, UDP_GRO, a receiver or a program on the way that stalled), waited for the stamp: the
///   last of them waited least and stands for all.
/// - Packets that were overtaken took another way than the queue: they are left out.
///
/// The second value is the longest of those waits, as far as it is known, ns.
pub(super) fn points(observation: &Observation, epoch: Epoch, service_ns_per_bit: f64) -> (Vec<Point>, f64) {
    let packets = &observation.packets;
    let (mut sent_bit, mut arrived_bit) = (0.0, 0.0);
    let mut call = (None, 0.0);
    let mut all: Vec<(Point, f64, Option<u32>)> = Vec::with_capacity(packets.len());
    for (index, packet) in (0..).zip(packets) {
        let bits = f64::from(packet.size_byte) * 8.0;
        let Some(left) = packet.left() else { continue };
        sent_bit += bits;
        call = (Some(packet.call), if call.0 == Some(packet.call) { call.1 + bits } else { bits });
        let Some(received) = packet.received else { continue };
        arrived_bit += bits;
        let followed =
            packets.get(index as usize + 1).is_some_and(|next| next.call == packet.call && next.sent.is_some());
        if followed || packet.descheduled {
            continue;
        }
        let at_ns = epoch.since_ns(left);
        let received_ns = (received - epoch.received).as_nanos() as f64;
        let point = Point { index, at_ns, delay_ns: received_ns - at_ns, sent_bit, arrived_bit, call_bit: call.1 };
        all.push((point, received_ns, packet.group));
    }
    let (mut earliest, mut held_ns) = (f64::INFINITY, 0.0_f64);
    let mut kept: Vec<(Point, f64, Option<u32>)> = Vec::with_capacity(all.len());
    for &(point, received_ns, group) in all.iter().rev() {
        // Something sent later came earlier.
        if received_ns > earliest {
            continue;
        }
        earliest = received_ns;
        if let Some((after, after_ns, after_group)) = kept.last() {
            let same = group.is_some() && group == *after_group;
            let service_ns = service_ns_per_bit * (after.arrived_bit - point.arrived_bit);
            if same || after_ns - received_ns <= t::HELD_SHARE * service_ns {
                held_ns = held_ns.max(service_ns - (after_ns - received_ns));
                continue;
            }
        }
        kept.push((point, received_ns, group));
    }
    (kept.into_iter().rev().map(|(point, _, _)| point).collect(), held_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Packet, Train};

    /// 10 packets of 1250 B, 200 us apart, that arrive at these times, us.
    fn observation(received_us: [u64; 10]) -> Observation {
        let packet = |(index, at): (u64, u64)| Packet {
            scheduled: Timestamp::from_nanos(index * 200_000),
            sent: Some(Timestamp::from_nanos(index * 200_000)),
            kernel_sent: None,
            received: Some(Timestamp::from_nanos(at * 1_000)),
            place: Some(index as u32),
            size_byte: 1250,
            call: index as u32,
            group: None,
            descheduled: false,
            ecn: None,
        };
        Observation {
            train: Train::constant(10, 1250, 5e7),
            packets: (0..).zip(received_us).map(packet).collect(),
            finished: Timestamp::from_nanos(10_000_000),
            receiver_drops: None,
        }
    }

    #[test]
    fn packets_that_came_faster_than_the_link_sends_were_held_up_and_the_last_stands_for_them() {
        let seen = observation([100, 300, 500, 1_200, 1_210, 1_220, 1_300, 1_500, 1_700, 1_900]);
        let epoch = Epoch::of(&seen).expect("it arrived");
        // 1250 B take 100 us at 100 Mbit/s.
        let (points, held_ns) = points(&seen, epoch, 10.0);
        assert_eq!(points.iter().map(|point| point.index).collect::<Vec<_>>(), [0, 1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(held_ns, 180_000.0);
        // Of a link that is not known, no wait is known.
        assert_eq!(super::points(&seen, epoch, 0.0).1, 0.0);
    }
}
