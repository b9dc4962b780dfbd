use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Peer, Timestamp};

use crate::error::SimError;
use crate::host::{EndSpec, Host};
use crate::noise::{Lateness, Noise, Pause};
use crate::path::{Path, PathSpec};
use crate::peer_clock::PeerClock;

/// One direction of a path with the two hosts at its ends, for probe trains: every packet's times are known at once,
/// and there is no program to be written around it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSpec {
    /// What lies between the hosts.
    pub path: PathSpec,
    /// Who sends.
    pub sender: SenderSpec,
    /// A program behind the path that lets packets go: a user-space emulator, a switch without a card.
    pub relay: RelaySpec,
    /// Who receives. `receive_noise` delays the program only; stamps are the kernel's.
    pub receiver: EndSpec,
    /// When the receiver's machine stalls as a whole: arrivals in that time are stamped at its end.
    pub receiver_stalls: Vec<Pause>,
    /// The receiver's clock.
    pub receiver_clock: PeerClock,
    /// Until the sender knows what arrived: the way back, ns.
    pub answer_ns: u64,
    /// Seed of all that is random.
    pub seed: u64,
}

/// A program that forwards what comes out of the path, in order. While it does not run packets wait, and then they
/// leave one after another: lateness adds delay and takes no capacity away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelaySpec {
    /// How late it is, and when it stalls. Its default is no relay.
    pub noise: Noise,
    /// Least time between two packets that it lets go, ns.
    pub packet_ns: u64,
}

/// What a sender can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SenderSpec {
    /// Time that a call takes: the sender cannot pace faster, ns.
    pub call_ns: f64,
    /// Packets that are due at the same time leave in one call, up to this many.
    pub group: u32,
    /// Rate of its card, bit/s of IP packets: packets of one call leave at this rate. `None`: at once.
    pub line_bit_per_s: Option<f64>,
    /// How late it is, and when it stalls.
    pub noise: Noise,
    /// Later than this many gaps, the rest of the schedule moves back; 0: never, what is due is caught up at once.
    pub resync_gaps: f64,
    /// Departures are stamped by the kernel. Otherwise the time before the call is all that is known.
    pub stamps: bool,
}

impl Default for SenderSpec {
    fn default() -> Self {
        Self { call_ns: 0.0, group: 1, line_bit_per_s: None, noise: Noise::default(), resync_gaps: 3.0, stamps: true }
    }
}

/// One packet of a train, as both hosts saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainPacket {
    /// When it was due.
    pub scheduled: Timestamp<Monotonic>,
    /// Just before the call that sent it.
    pub sent: Timestamp<Monotonic>,
    /// The kernel's stamp, where departures are stamped.
    pub kernel_sent: Option<Timestamp<Monotonic>>,
    /// The receiver's stamp, on its clock.
    pub received: Option<Timestamp<Peer>>,
    /// Place in the order of arrival.
    pub place: Option<u32>,
    /// Call that sent it, counted from 0 in each train.
    pub call: u32,
    /// Group in which it was handed over.
    pub group: Option<u32>,
    /// It arrived with the mark of congestion.
    pub marked: bool,
}

/// A train, as both hosts saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainSeen {
    /// One entry for each packet, in the order of the schedule.
    pub packets: Vec<TrainPacket>,
    /// When the sender knows.
    pub finished: Timestamp<Monotonic>,
    /// Packets for which the receiver's socket had no room.
    pub receiver_drops: u32,
    /// Packets that came twice.
    pub duplicates: u32,
    /// What nobody on a real path sees: for each hop and each packet in the order of departure, when the packet came
    /// to the hop, and the bytes of cross traffic (not fluid) that had come there by then since time 0. A packet
    /// that did not come repeats the one before.
    pub cross: Vec<Vec<CrossSeen>>,
}

/// The cross traffic of a hop up to the arrival of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossSeen {
    /// When the probe came to the hop, ns.
    pub at_ns: u64,
    /// Bytes that had come by then.
    pub offered_byte: u64,
}

/// [`TrainSpec`] under way.
#[derive(Debug)]
pub struct TrainPath {
    spec: TrainSpec,
    path: Path,
    sender: Lateness,
    relay: Lateness,
    /// When the relay let its last packet go.
    relayed_ns: Option<u64>,
    receiver: Host,
    stall: usize,
    /// When the last packet had left.
    left_ns: f64,
}

impl TrainPath {
    /// The path at time 0.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn new(spec: &TrainSpec) -> Result<Self, SimError> {
        Ok(Self {
            path: Path::new(&spec.path, spec.seed)?,
            sender: Lateness::new(&spec.sender.noise),
            relay: Lateness::new(&spec.relay.noise),
            relayed_ns: None,
            receiver: Host::new(&spec.receiver),
            stall: 0,
            left_ns: 0.0,
            spec: spec.clone(),
        })
    }

    /// The path, with its counters.
    #[must_use]
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Lets cross traffic run up to `at`. No packet may be due before it then.
    pub fn run_until(&mut self, at: Timestamp<Monotonic>) {
        self.path.run_until(at);
        self.left_ns = self.left_ns.max(at.as_nanos() as f64);
    }

    /// Sends packets of `size_byte`, due at `start` plus each of `offsets_ns`.
    pub fn send(&mut self, start: Timestamp<Monotonic>, offsets_ns: &[f64], size_byte: u32) -> TrainSeen {
        let mut packets = self.depart(start, offsets_ns, size_byte);
        let (mut arrivals, mut duplicates, mut last_ns) = (Vec::with_capacity(packets.len()), 0, start.as_nanos());
        let mut cross = vec![Vec::with_capacity(packets.len()); self.spec.path.hops.len()];
        for (index, (packet, wire)) in packets.iter().enumerate() {
            last_ns = last_ns.max(wire.as_nanos()).max(packet.sent.as_nanos());
            let passage = self.path.send(*wire, size_byte);
            duplicates += u32::from(passage.copy.is_some());
            for (seen, count) in cross.iter_mut().zip(self.path.counts()) {
                seen.push(CrossSeen { at_ns: count.probe_at_ns, offered_byte: count.cross_offered_byte });
            }
            arrivals.extend(passage.arrived.map(|at| (at, index, passage.marked)));
        }
        arrivals.sort_unstable();
        let (dropped, mut group) = (self.receiver.dropped(), None);
        for (place, &(at, index, marked)) in (0..).zip(&arrivals) {
            let at = self.relayed(at);
            let at = self.stalled(at);
            let Some((stamp, taken)) = self.receiver.take(at) else { continue };
            last_ns = last_ns.max(taken.as_nanos());
            let number = match group {
                Some((before, number)) if before == stamp => number,
                Some((_, number)) => number + 1,
                None => 0,
            };
            group = Some((stamp, number));
            let packet = &mut packets[index].0;
            packet.received = Some(self.spec.receiver_clock.at(stamp));
            (packet.place, packet.group, packet.marked) = (Some(place), Some(number), marked);
        }
        let finished = Timestamp::from_nanos(last_ns.saturating_add(self.spec.answer_ns));
        let receiver_drops = u32::try_from(self.receiver.dropped() - dropped).unwrap_or(u32::MAX);
        let packets = packets.into_iter().map(|(packet, _)| packet).collect();
        TrainSeen { packets, finished, receiver_drops, duplicates, cross }
    }

    /// Each packet with its times at the sender, and when it is on the wire.
    fn depart(
        &mut self,
        start: Timestamp<Monotonic>,
        offsets_ns: &[f64],
        size_byte: u32,
    ) -> Vec<(TrainPacket, Timestamp<Monotonic>)> {
        let sender = &self.spec.sender;
        let wire_ns = sender.line_bit_per_s.map_or(0.0, |rate| f64::from(size_byte) * 8e9 / rate);
        let at = |ns: f64| Timestamp::from_nanos(ns.round() as u64);
        let start_ns = start.as_nanos() as f64;
        let (mut out, mut moved_ns, mut free_ns) =
            (Vec::with_capacity(offsets_ns.len()), 0.0, self.left_ns.max(start_ns));
        let (mut index, mut call) = (0, 0);
        while let Some(&offset) = offsets_ns.get(index) {
            let scheduled_ns = start_ns + offset;
            let same = offsets_ns[index..].iter().take(sender.group.max(1) as usize).take_while(|&&it| it <= offset);
            let members = same.count();
            let due_ns = (scheduled_ns + moved_ns).max(free_ns);
            let done_ns = (self.sender.act(due_ns.round() as u64) as f64).max(due_ns);
            let gap_ns = offsets_ns.get(index + members).map_or(0.0, |next| next - offset);
            if sender.resync_gaps > 0.0
                && gap_ns > 0.0
                && done_ns - scheduled_ns - moved_ns > sender.resync_gaps * gap_ns
            {
                moved_ns = done_ns - scheduled_ns;
            }
            for member in 0..members {
                let wire = done_ns + member as f64 * wire_ns;
                let packet = TrainPacket {
                    scheduled: at(scheduled_ns),
                    sent: at(done_ns),
                    kernel_sent: sender.stamps.then_some(at(wire)),
                    received: None,
                    place: None,
                    call,
                    group: None,
                    marked: false,
                };
                out.push((packet, at(wire)));
            }
            free_ns = done_ns + sender.call_ns.max(members as f64 * wire_ns);
            index += members;
            call += 1;
        }
        self.left_ns = free_ns;
        out
    }

    /// When the relay lets a packet go that came out of the path.
    fn relayed(&mut self, at: Timestamp<Monotonic>) -> Timestamp<Monotonic> {
        if self.spec.relay == RelaySpec::default() {
            return at;
        }
        let done_ns = self.relay.act(at.as_nanos());
        let free_ns = self.relayed_ns.map_or(0, |before| before.saturating_add(self.spec.relay.packet_ns));
        let at_ns = *self.relayed_ns.insert(done_ns.max(free_ns));
        Timestamp::from_nanos(at_ns)
    }

    /// When the receiver's machine runs again.
    fn stalled(&mut self, at: Timestamp<Monotonic>) -> Timestamp<Monotonic> {
        let stalls = &self.spec.receiver_stalls;
        while stalls.get(self.stall).is_some_and(|stall| stall.at_ns + stall.span_ns <= at.as_nanos()) {
            self.stall += 1;
        }
        match stalls.get(self.stall) {
            Some(stall) if stall.at_ns <= at.as_nanos() => Timestamp::from_nanos(stall.at_ns + stall.span_ns),
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HopSpec;

    fn path(spec: TrainSpec) -> TrainPath {
        TrainPath::new(&spec).expect("a good path")
    }

    fn hop(capacity_bit_per_s: u64) -> PathSpec {
        PathSpec { hops: vec![HopSpec::new(capacity_bit_per_s, 1_000_000, 1_000)], ..PathSpec::default() }
    }

    fn received(seen: &TrainSeen) -> Vec<u64> {
        seen.packets.iter().map(|packet| packet.received.expect("arrived").as_nanos()).collect()
    }

    #[test]
    fn packets_that_come_faster_than_the_link_leave_it_at_its_rate() {
        let mut path = path(TrainSpec { path: hop(1_000_000_000), answer_ns: 500, ..TrainSpec::default() });
        let seen = path.send(Timestamp::from_nanos(100), &[0.0, 1_000.0, 2_000.0], 1_250);
        assert_eq!(received(&seen), [11_100, 21_100, 31_100]);
        assert_eq!(seen.finished.as_nanos(), 31_600);
    }

    #[test]
    fn a_sender_that_takes_time_for_a_call_cannot_pace_faster() {
        let sender = SenderSpec { call_ns: 2_000.0, resync_gaps: 0.0, ..SenderSpec::default() };
        let mut path = path(TrainSpec { sender, ..TrainSpec::default() });
        let seen = path.send(Timestamp::ZERO, &[0.0, 10.0, 20.0], 100);
        assert_eq!(received(&seen), [0, 2_000, 4_000]);
    }

    #[test]
    fn a_group_leaves_in_one_call_at_the_rate_of_the_card() {
        let sender = SenderSpec { group: 2, line_bit_per_s: Some(1e9), ..SenderSpec::default() };
        let mut path = path(TrainSpec { sender, ..TrainSpec::default() });
        let seen = path.send(Timestamp::ZERO, &[0.0, 0.0, 5_000.0], 125);
        let sent: Vec<_> = seen.packets.iter().map(|packet| (packet.call, packet.sent.as_nanos())).collect();
        assert_eq!(sent, [(0, 0), (0, 0), (1, 5_000)]);
        assert_eq!(received(&seen), [0, 1_000, 5_000]);
    }

    #[test]
    fn a_late_sender_moves_the_rest_of_its_schedule() {
        let pause = Pause { at_ns: 1_000, span_ns: 10_000 };
        let noise = Noise { pauses: vec![pause], ..Noise::default() };
        let sender = SenderSpec { noise, ..SenderSpec::default() };
        let mut path = path(TrainSpec { sender, ..TrainSpec::default() });
        let seen = path.send(Timestamp::ZERO, &[0.0, 1_000.0, 2_000.0], 100);
        assert_eq!(received(&seen), [0, 11_000, 12_000]);
    }

    #[test]
    fn a_relay_that_stood_still_lets_packets_go_one_after_another_and_is_late_for_no_later_one() {
        let noise = Noise { pauses: vec![Pause { at_ns: 500, span_ns: 2_000 }], ..Noise::default() };
        let relay = RelaySpec { noise, packet_ns: 100 };
        let mut path = path(TrainSpec { relay, ..TrainSpec::default() });
        let seen = path.send(Timestamp::ZERO, &[0.0, 1_000.0, 2_000.0, 3_000.0], 100);
        assert_eq!(received(&seen), [0, 2_500, 2_600, 3_000]);
    }

    #[test]
    fn what_arrives_while_the_receiver_stands_still_is_stamped_at_the_end_of_it() {
        let receiver_stalls = vec![Pause { at_ns: 500, span_ns: 2_000 }];
        let mut path = path(TrainSpec { receiver_stalls, ..TrainSpec::default() });
        let seen = path.send(Timestamp::ZERO, &[0.0, 1_000.0, 2_000.0, 3_000.0], 100);
        assert_eq!(received(&seen), [0, 2_500, 2_500, 3_000]);
        let groups: Vec<_> = seen.packets.iter().map(|packet| packet.group).collect();
        assert_eq!(groups, [Some(0), Some(1), Some(1), Some(2)]);
    }
}
