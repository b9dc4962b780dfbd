use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};
use vtare_pathsim::{EndSpec, Host, Lateness, Noise, Path, PathSpec, Pause, PeerClock, SimError};
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::session::{
    ArrivalSource, Arrivals, Arrived, ClientError, Counters, Grant, Limits, Open, Purpose, Reason, ReversePlan,
    WireForm,
};
use vtare_wire::{ECN_CAPABLE, LARGEST_BYTE, SessionId, SessionKey};

use crate::link::{
    Burst, Capabilities, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Stamp, StampSource,
};
use crate::train::{AvbSession, Far};

/// The ECN field with the mark of congestion.
const ECN_MARKED: u8 = 3;

/// The longest train.
const MOST_PACKETS: u64 = 10_000;

/// One direction of a path with the two hosts at its ends, for trains.
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
    /// The way back of an answer about arrivals, ns. Questions take the hops' delays.
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
    /// It has large sends (UDP_SEGMENT).
    pub large_sends: bool,
    /// Rate of its card, bit/s of IP packets: packets of one call leave at this rate. `None`: at once.
    pub line_bit_per_s: Option<f64>,
    /// How late it is, and when it stalls: before a call, or inside it.
    pub noise: Noise,
    /// Departures are stamped by the kernel. Otherwise the time before the call is all that is known.
    pub stamps: bool,
}

impl Default for SenderSpec {
    fn default() -> Self {
        Self { call_ns: 0.0, large_sends: false, line_bit_per_s: None, noise: Noise::default(), stamps: true }
    }
}

/// What nobody on a real path sees: the cross traffic of a hop up to the arrival of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossSeen {
    /// When the probe came to the hop, ns.
    pub at_ns: u64,
    /// Bytes of cross traffic (not fluid) that had come by then since time 0.
    pub offered_byte: u64,
}

/// A [`TrainSpec`] as a link, with its own time.
///
/// A packet passes the whole path when it leaves, so that no event is kept but its arrival.
#[derive(Debug)]
pub struct TrainLink {
    spec: TrainSpec,
    facts: Facts,
    path: Path,
    sender: Lateness,
    relay: Lateness,
    /// When the relay let its last packet go.
    relayed_ns: Option<u64>,
    receiver: Host,
    stall: usize,
    now_ns: u64,
    /// When the card has sent all that it got.
    card_ns: f64,
    departures: Vec<Departure>,
    /// Packets behind the path that the receiver has not got: when, which, and whether with the mark of congestion.
    arrivals: BinaryHeap<Reverse<(Timestamp<Monotonic>, u64, bool)>>,
    /// What the receiver got, and when its program did.
    records: Vec<(Timestamp<Monotonic>, Arrived)>,
    newest: Option<Timestamp<Monotonic>>,
    cross: Vec<Vec<CrossSeen>>,
}

/// The receiver of a [`TrainLink`], asked over the path's delay.
#[derive(Debug)]
pub struct TrainFar;

impl TrainLink {
    /// A session over a path whose queues have settled: its cross traffic has run for `warm_ns`.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn session(spec: &TrainSpec, warm_ns: u64) -> Result<AvbSession<Self, TrainFar>, SimError> {
        let stamped = spec.sender.stamps.then_some(StampSource::Software);
        let capabilities = Capabilities {
            tx_stamp: stamped,
            tx_stamp_every: stamped.is_some().into(),
            rx_stamp: Some(StampSource::Software),
            gso: spec.sender.large_sends,
            counts_drops: true,
            batch: usize::MAX,
            ..Capabilities::default()
        };
        let mut path = Path::new(&spec.path, spec.seed)?;
        path.run_until(Timestamp::from_nanos(warm_ns));
        let link = Self {
            facts: super::facts(capabilities),
            path,
            sender: Lateness::new(&spec.sender.noise),
            relay: Lateness::new(&spec.relay.noise),
            relayed_ns: None,
            receiver: Host::new(&spec.receiver),
            stall: 0,
            now_ns: warm_ns,
            card_ns: 0.0,
            departures: Vec::new(),
            arrivals: BinaryHeap::new(),
            records: Vec::new(),
            newest: None,
            cross: vec![Vec::new(); spec.path.hops.len()],
            spec: spec.clone(),
        };
        let open = Open {
            purpose: Purpose::Avb,
            form: WireForm::Full,
            rate_packet_per_s: u64::MAX,
            burst_packet: MOST_PACKETS,
            duration_ns: u64::MAX,
            packets: u64::MAX,
            size_byte: LARGEST_BYTE as u16,
            flows: None,
            ecn: true,
        };
        let (session, key) = (SessionId(spec.seed), SessionKey::new([0; 16]));
        Ok(AvbSession::new(link, TrainFar, Grant { session, handle: 0, key, open, idle_ns: u64::MAX }))
    }

    /// The cross traffic of each hop at each packet, in the order of departure. A packet that did not come to a hop
    /// repeats the one before.
    #[must_use]
    pub fn cross(&self) -> &[Vec<CrossSeen>] {
        &self.cross
    }

    /// Has what arrives by then pass relay and receiver.
    fn arrive_until(&mut self, until: Timestamp<Monotonic>) {
        while self.arrivals.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            let Some(Reverse((at, sequence, marked))) = self.arrivals.pop() else { return };
            let at = self.relayed(at);
            let at = self.stalled(at);
            let Some((stamp, taken)) = self.receiver.take(at) else { continue };
            let joined = self.newest.replace(stamp) == Some(stamp);
            let record = Arrived {
                sequence,
                received: self.spec.receiver_clock.at(stamp),
                source: ArrivalSource::Kernel,
                joined,
                ecn: Some(if marked { ECN_MARKED } else { ECN_CAPABLE }),
            };
            self.records.push((taken, record));
        }
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

impl ProbeLink for TrainLink {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn now(&self) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(self.now_ns)
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        let (before, call_ns) = (self.now(), self.spec.sender.call_ns.round() as u64);
        // A stall that begins in the first half of the call comes before the packets leave.
        let leaves_ns = self.sender.awake(self.now_ns + call_ns / 2) - call_ns / 2;
        self.now_ns = self.sender.awake(leaves_ns + call_ns);
        self.card_ns = self.card_ns.max(leaves_ns as f64);
        for outgoing in datagrams {
            let size_byte = (outgoing.payload.len() + self.facts.ip_header_byte) as u32;
            let at = Timestamp::from_nanos(self.card_ns.round() as u64);
            if self.spec.sender.stamps {
                let stamp = Stamp { at, source: StampSource::Software };
                self.departures.push(Departure { sequence: outgoing.sequence, stamp });
            }
            let passage = self.path.send(at, size_byte);
            for (seen, count) in self.cross.iter_mut().zip(self.path.counts()) {
                seen.push(CrossSeen { at_ns: count.probe_at_ns, offered_byte: count.cross_offered_byte });
            }
            // The responder refuses copies.
            self.arrivals.extend(passage.arrived.map(|at| Reverse((at, outgoing.sequence, passage.marked))));
            self.card_ns += self.spec.sender.line_bit_per_s.map_or(0.0, |rate| f64::from(size_byte) * 8e9 / rate);
        }
        Ok(Burst { accepted: datagrams.len(), before, after: self.now() })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, _: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        // A sender waits for its card.
        self.now_ns = self.sender.act(self.now_ns.max(until.as_nanos()).max(self.card_ns.round() as u64));
        Ok(())
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.departures.drain(..).for_each(sink);
        Ok(())
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        Ok(LocalDrops::default())
    }
}

impl TrainFar {
    fn refused() -> ClientError {
        ClientError::Refused(Limits::default().refuse(Reason::Unproven))
    }
}

impl Far<TrainLink> for TrainFar {
    type Error = ClientError;

    fn arrivals(&mut self, link: &mut TrainLink, from: u64) -> Result<Arrivals, ClientError> {
        let there_ns: u64 = link.spec.path.hops.iter().map(|hop| hop.delay_ns).sum();
        let asked = Timestamp::from_nanos(link.now_ns + there_ns);
        link.arrive_until(asked);
        link.now_ns += there_ns + link.spec.answer_ns;
        let records = link.records.iter().skip(from as usize).take_while(|(taken, _)| *taken <= asked);
        let (session, socket_drops) = (SessionId(link.spec.seed), Some(link.receiver.dropped()));
        let records = records.map(|(_, record)| *record).collect();
        Ok(Arrivals { session, from, records, left: 0, overflow: 0, refused: 0, socket_drops })
    }

    /// Nothing comes back on a path of one direction.
    fn reverse(&mut self, _: &mut TrainLink, _: ReversePlan) -> Result<u64, ClientError> {
        Err(Self::refused())
    }

    fn count(&mut self, _: &mut TrainLink) -> Result<Counters, ClientError> {
        Err(Self::refused())
    }
}

#[cfg(test)]
mod tests {
    use vtare_pathsim::HopSpec;
    use vtare_traffic::{Observation, Spacing, Train};
    use vtare_units::Span;

    use super::*;
    use crate::train::Grouped;

    /// 50 us pass before a train.
    const LEAD_NS: u64 = 50_000;

    fn send(spec: &TrainSpec, train: &Train) -> Observation {
        let mut session = TrainLink::session(spec, 0).expect("a good path");
        session.send(train, Grouped::Groups).expect("a good train")
    }

    /// Packets of 500 B at these gaps.
    fn gaps(gaps_ns: &[f64]) -> Train {
        let spacing = Spacing::Gaps { gaps_ns: gaps_ns.to_vec() };
        Train { packets: gaps_ns.len() as u32 + 1, size_byte: 500, spacing, idle_before_ns: 0 }
    }

    fn received(seen: &Observation) -> Vec<u64> {
        let at = |packet: &vtare_traffic::Packet| packet.received.expect("arrived").as_nanos() - LEAD_NS;
        seen.packets.iter().map(at).collect()
    }

    fn pause(at_ns: u64, span_ns: u64) -> Pause {
        Pause { at_ns: LEAD_NS + at_ns, span_ns }
    }

    #[test]
    fn packets_that_come_faster_than_the_link_leave_it_at_its_rate() {
        let hops = vec![HopSpec::new(1_000_000_000, 1_000_000, 1_000)];
        let path = PathSpec { hops, ..PathSpec::default() };
        let seen = send(&TrainSpec { path, answer_ns: 500, ..TrainSpec::default() }, &gaps(&[1_000.0, 1_000.0]));
        assert_eq!(received(&seen), [5_000, 9_000, 13_000]);
        // The question left when the last packet had, came 1 us later, and again after 500 us.
        assert_eq!(seen.finished.as_nanos() - LEAD_NS, 2_000 + 1_500 + 500_000 + 1_500);
    }

    #[test]
    fn a_sender_that_takes_time_for_a_call_cannot_pace_faster() {
        let sender = SenderSpec { call_ns: 2_000.0, ..SenderSpec::default() };
        let seen = send(&TrainSpec { sender, ..TrainSpec::default() }, &gaps(&[10.0, 10.0]));
        assert_eq!(received(&seen), [0, 2_000, 4_000]);
        assert!(seen.packets.iter().all(|packet| !packet.descheduled));
    }

    #[test]
    fn a_group_leaves_in_one_call_at_the_rate_of_the_card() {
        let sender = SenderSpec { large_sends: true, line_bit_per_s: Some(4e9), ..SenderSpec::default() };
        let spacing = Spacing::groups(2, 5_000.0);
        let train = Train { packets: 3, size_byte: 500, spacing, idle_before_ns: 0 };
        let seen = send(&TrainSpec { sender, ..TrainSpec::default() }, &train);
        let sent = |packet: &vtare_traffic::Packet| (packet.call, packet.sent.map(|at| at.as_nanos() - LEAD_NS));
        assert_eq!(seen.packets.iter().map(sent).collect::<Vec<_>>(), [(0, Some(0)), (0, Some(0)), (1, Some(5_000))]);
        assert_eq!(received(&seen), [0, 1_000, 5_000]);
    }

    #[test]
    fn a_sender_that_stalls_between_calls_moves_its_schedule_and_knows_all_times() {
        let noise = Noise { pauses: vec![pause(1_000, 20_000)], ..Noise::default() };
        let sender = SenderSpec { noise, ..SenderSpec::default() };
        let seen = send(&TrainSpec { sender, ..TrainSpec::default() }, &gaps(&[1_000.0, 1_000.0]));
        assert_eq!(received(&seen), [0, 21_000, 22_000]);
        assert!(seen.packets.iter().all(|packet| !packet.descheduled));
    }

    #[test]
    fn a_packet_whose_call_stalls_left_at_no_known_time() {
        // In the first half of the second call, and in the second half of it.
        for (at_ns, second_ns) in [(10_500, 10_500 + 200_000 - 1_000), (11_500, 10_000)] {
            let noise = Noise { pauses: vec![pause(at_ns, 200_000)], ..Noise::default() };
            let sender = SenderSpec { noise, call_ns: 2_000.0, stamps: false, ..SenderSpec::default() };
            let seen = send(&TrainSpec { sender, ..TrainSpec::default() }, &gaps(&[10_000.0, 10_000.0]));
            assert_eq!(received(&seen)[1], second_ns);
            let known: Vec<_> = seen.packets.iter().map(|packet| !packet.descheduled).collect();
            assert_eq!(known, [true, false, true]);
            let sent = seen.packets[1].sent.expect("sent");
            assert_eq!(sent, Timestamp::ZERO + Span::from_unsigned_nanos(LEAD_NS + 10_000), "before the call");
        }
    }

    #[test]
    fn a_relay_that_stood_still_lets_packets_go_one_after_another_and_is_late_for_no_later_one() {
        let noise = Noise { pauses: vec![pause(500, 2_000)], ..Noise::default() };
        let relay = RelaySpec { noise, packet_ns: 100 };
        let seen = send(&TrainSpec { relay, ..TrainSpec::default() }, &gaps(&[1_000.0, 1_000.0, 1_000.0]));
        assert_eq!(received(&seen), [0, 2_500, 2_600, 3_000]);
    }

    #[test]
    fn what_arrives_while_the_receiver_stands_still_is_stamped_at_the_end_of_it() {
        let receiver_stalls = vec![pause(500, 2_000)];
        let seen = send(&TrainSpec { receiver_stalls, ..TrainSpec::default() }, &gaps(&[1_000.0, 1_000.0, 1_000.0]));
        assert_eq!(received(&seen), [0, 2_500, 2_500, 3_000]);
        let groups: Vec<_> = seen.packets.iter().map(|packet| packet.group).collect();
        assert_eq!(groups, [Some(0), Some(1), Some(1), Some(2)]);
    }
}
