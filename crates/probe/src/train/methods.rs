//! Trains as methods ask for them, and what they want to know of each.

use vtare_traffic::{Ability, Ecn, Observation, Packet, Spacing, Train};
use vtare_units::{Clock, Monotonic, Peer, Span, Timestamp};
use vtare_wire::Shape;

use super::far::Far;
use super::pacing::Behind;
use super::plan::{Bursts, TrainError, TrainPlan};
use super::report::{PacketFate, ReverseReport, TrainReport};
use super::session::{AvbError, AvbSession};
use crate::link::ProbeLink;

/// A packet whose call took this long left at no known time: the machine stalled inside it. One that was handed over
/// late has its time: it is measured at the call.
const STOOD_STILL: Span = Span::from_micros(100);

/// What may leave as one large packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouped {
    /// Nothing.
    #[default]
    Never,
    /// What the method itself wants together: its pairs and back-to-back trains live by the stamp of each packet.
    Groups,
    /// Packets sent back to back as well.
    BackToBack,
}

impl Grouped {
    fn bursts(self, spacing: &Spacing) -> Bursts {
        let together = match spacing {
            Spacing::Groups { .. } | Spacing::Primed { .. } | Spacing::Scattered { .. } => self != Self::Never,
            Spacing::BackToBack => self == Self::BackToBack,
            Spacing::Constant { .. } | Spacing::Pairs { .. } | Spacing::Gaps { .. } => false,
        };
        if together { Bursts::Together } else { Bursts::Of(1) }
    }
}

impl<L: ProbeLink, F: Far<L>> AvbSession<L, F> {
    /// What trains may be, where packets of this size pass: single sends, as long as nobody knows better.
    pub fn ability(&self, most_packet_byte: u32) -> Ability {
        let (header, open) = (self.ip_header_byte(), &self.grant.open);
        Ability {
            ip_header_byte: header as u32,
            most_packet_byte,
            least_packet_byte: (open.form.header_byte() + header) as u32,
            most_packets: u32::try_from(open.burst_packet).unwrap_or(u32::MAX),
            ..Ability::default()
        }
    }

    /// Sends a train after its silence, and gives what became of it.
    ///
    /// # Errors
    /// As [`AvbSession::send_train`].
    pub fn send(&mut self, train: &Train, grouped: Grouped) -> Result<Observation, AvbError<F::Error>> {
        self.rest(train.idle_before_ns)?;
        let report = self.send_train(&forward(train, self.ip_header_byte(), grouped)?)?;
        Ok(self.left(train, &report))
    }

    /// Has the far end send a train, and gives what became of it.
    ///
    /// # Errors
    /// As [`AvbSession::reverse_train`].
    pub fn send_back(&mut self, train: &Train, grouped: Grouped) -> Result<Observation, AvbError<F::Error>> {
        self.rest(train.idle_before_ns)?;
        let plan = self.back_plan(train, grouped)?;
        let asked = self.link.now();
        let report = self.reverse_train(&plan)?;
        Ok(self.came(train, &report, asked))
    }

    /// Sends `forth` while the far end sends `back`, from `after` its answer on.
    ///
    /// # Errors
    /// As [`AvbSession::both_trains`].
    pub fn send_both(
        &mut self,
        (forth, back): (&Train, &Train),
        after: Span,
        grouped: Grouped,
    ) -> Result<(Observation, Observation), AvbError<F::Error>> {
        self.rest(forth.idle_before_ns.max(back.idle_before_ns))?;
        let there = forward(forth, self.ip_header_byte(), grouped)?;
        let plan = self.back_plan(back, grouped)?;
        let asked = self.link.now();
        let (left, came) = self.both_trains(&there, &plan, after)?;
        let came = self.came(back, &came, asked);
        Ok((self.left(forth, &left), came))
    }

    /// A train from the far end, as it is asked for.
    ///
    /// # Errors
    /// [`TrainError::NoShape`].
    pub fn back_plan(&self, train: &Train, grouped: Grouped) -> Result<TrainPlan, TrainError> {
        backward(train, self.ip_header_byte(), grouped).ok_or(TrainError::NoShape)
    }

    /// Own time minus the far end's as it is taken for trains back, ns; none before the first of them.
    pub const fn far_behind_ns(&self) -> Option<i64> {
        self.far_behind_ns
    }

    /// Whether all packets of the last train back left the far end: those missing were lost on the way.
    pub const fn all_left(&self) -> bool {
        self.all_left
    }

    /// Passes the silence that is to be before a train.
    fn rest(&mut self, idle_ns: u64) -> Result<(), AvbError<F::Error>> {
        let due = self.quiet + Span::from_unsigned_nanos(idle_ns);
        if idle_ns > 0 && due > self.link.now() { self.pause(due) } else { Ok(()) }
    }

    fn left(&mut self, train: &Train, report: &TrainReport) -> Observation {
        let seen = observation(train, report, |at| at, |at| at, self.link.now());
        self.quiet_since(&seen);
        seen
    }

    /// What came of a train back that was asked for at this time.
    fn came(&mut self, train: &Train, report: &ReverseReport, asked: Timestamp<Monotonic>) -> Observation {
        if let Some(first) = report.packets.iter().find_map(|fate| fate.sent) {
            let behind = asked.as_nanos().cast_signed() - first.before.as_nanos().cast_signed();
            self.far_behind_ns.get_or_insert(behind);
        }
        self.all_left = report.unsent == 0;
        let behind = self.far_behind_ns.unwrap_or(0);
        let here = |at: Timestamp<_>| Timestamp::from_nanos(at.as_nanos().saturating_add_signed(behind));
        let seen = observation(train, report, here, |at| Timestamp::from_nanos(at.as_nanos()), self.link.now());
        self.quiet_since(&seen);
        seen
    }

    fn quiet_since(&mut self, seen: &Observation) {
        let last = seen.packets.iter().filter_map(|packet| packet.sent).max();
        self.quiet = last.unwrap_or(self.quiet).min(self.link.now());
    }
}

/// The train as the link sends it.
///
/// # Errors
/// Where a packet is due before the one ahead of it.
fn forward(train: &Train, ip_header_byte: usize, grouped: Grouped) -> Result<TrainPlan, TrainError> {
    let payload = train.size_byte.saturating_sub(ip_header_byte as u32) as u16;
    let due = train.offsets_ns().into_iter().map(|ns| Span::from_nanos(ns.round() as i64)).collect();
    let bursts = grouped.bursts(&train.spacing);
    // A train that fills a queue and holds it filled must not let it run empty; all others are their gaps.
    let behind = if matches!(train.spacing, Spacing::Primed { .. } | Spacing::Scattered { .. }) {
        Behind::CaughtUp
    } else {
        Behind::Moved
    };
    Ok(TrainPlan::at(due, payload)?.with_bursts(bursts).with_behind(behind))
}

/// The same for a train from the far end, which takes shapes only; `None` where the train has none.
fn backward(train: &Train, ip_header_byte: usize, grouped: Grouped) -> Option<TrainPlan> {
    let ns = |value: f64| value.max(0.0).round() as u64;
    let shape = match train.spacing {
        Spacing::BackToBack => Shape::Even { gap_ns: 0 },
        Spacing::Constant { gap_ns } => Shape::Even { gap_ns: ns(gap_ns) },
        Spacing::Pairs { inside_ns, between_ns } => Shape::Pairs { gap_ns: ns(inside_ns), period_ns: ns(between_ns) },
        Spacing::Groups { packets, gap_ns } => {
            Shape::Primed { head: 0, after_ns: 0, group: packets, gap_ns: ns(gap_ns) }
        }
        Spacing::Primed { head, after_ns, packets, gap_ns } => {
            Shape::Primed { head, after_ns: ns(after_ns), group: packets, gap_ns: ns(gap_ns) }
        }
        Spacing::Scattered { head, after_ns, packets, gap_ns, seed } => {
            Shape::Scattered { head, after_ns: ns(after_ns), group: packets, gap_ns: ns(gap_ns), seed }
        }
        Spacing::Gaps { .. } => return None,
    };
    let payload = train.size_byte.saturating_sub(ip_header_byte as u32) as u16;
    let bursts = grouped.bursts(&train.spacing);
    Some(TrainPlan::new(shape, train.packets, payload).with_bursts(bursts))
}

/// What the methods want to know of a train's fate. `sender` and `receiver` put the stamps on the clocks that the
/// methods speak of; `finished` is now.
fn observation<S: Clock + Copy, R: Clock + Copy>(
    asked: &Train,
    report: &TrainReport<S, R>,
    sender: impl Fn(Timestamp<S>) -> Timestamp<Monotonic>,
    receiver: impl Fn(Timestamp<R>) -> Timestamp<Peer>,
    finished: Timestamp<Monotonic>,
) -> Observation {
    let groups = groups(&report.packets);
    let mut call = 0;
    let packets = report.packets.iter().zip(groups).enumerate().map(|(index, (fate, group))| {
        if index > 0 && !fate.sent.is_some_and(|sent| sent.joined) {
            call += 1;
        }
        let took = fate.sent.and_then(|sent| Some(sent.after? - sent.before)).unwrap_or(Span::ZERO);
        let sent = fate.sent.map(|sent| sender(sent.before));
        Packet {
            scheduled: fate.scheduled.map(&sender).or(sent).unwrap_or(finished),
            sent,
            kernel_sent: fate.kernel_sent.map(&sender),
            received: fate.received.map(|received| receiver(received.at)),
            place: fate.received.map(|received| received.place),
            size_byte: asked.size_byte,
            call,
            group,
            descheduled: took > STOOD_STILL,
            ecn: fate.received.and_then(|received| received.ecn).map(Ecn::of),
        }
    });
    Observation {
        packets: packets.collect(),
        train: asked.clone(),
        finished,
        receiver_drops: report.socket_drops.map(|_| report.lost_by_receiver_and_path().0 as u32),
    }
}

/// The number of the group in which each packet was handed over, in the order of the train.
fn groups<S: Clock + Copy, R: Clock + Copy>(packets: &[PacketFate<S, R>]) -> Vec<Option<u32>> {
    let mut order: Vec<(u32, usize, bool)> = Vec::new();
    for (index, fate) in packets.iter().enumerate() {
        if let Some(received) = fate.received {
            order.push((received.place, index, received.joined));
        }
    }
    order.sort_unstable();
    let mut groups = vec![None; packets.len()];
    let mut group = 0;
    for (number, (_, index, joined)) in order.into_iter().enumerate() {
        if number > 0 && !joined {
            group += 1;
        }
        groups[index] = Some(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use vtare_wire::session::ArrivalSource;

    use super::super::report::{Received, Sent};
    use super::*;

    fn fate(number: u64, sent_ns: u64, joined: bool, received: Option<(u64, u32, bool)>) -> PacketFate {
        let before = Timestamp::from_nanos(sent_ns);
        PacketFate {
            sequence: number,
            scheduled: Some(before),
            sent: Some(Sent { before, after: Some(before + Span::from_nanos(500)), joined }),
            kernel_sent: None,
            received: received.map(|(at, place, joined)| Received {
                at: Timestamp::from_nanos(at),
                source: ArrivalSource::Kernel,
                joined,
                place,
                ecn: None,
            }),
        }
    }

    fn report(packets: Vec<PacketFate>) -> TrainReport {
        let sent = packets.len() as u64;
        let lost = packets.iter().filter(|fate| fate.received.is_none()).count() as u64;
        TrainReport {
            packets,
            size_byte: 1_472,
            ip_header_byte: 28,
            burst_packet: 2,
            sent,
            unsent: 0,
            lost,
            reordered: 0,
            refused: 0,
            unrecorded: 0,
            socket_drops: Some(1),
            moves: Some(0),
            moved: Some(Span::ZERO),
        }
    }

    #[test]
    fn calls_and_groups_are_numbered_and_losses_distinguished() {
        let train = Train::back_to_back(5, 1_500);
        let shown = report(vec![
            fate(0, 0, false, Some((100, 0, false))),
            fate(1, 0, true, Some((100, 1, true))),
            fate(2, 9_000, false, None),
            fate(3, 9_000, true, Some((190, 3, true))),
            fate(4, 20_000, false, Some((190, 2, false))),
        ]);
        let seen = observation(&train, &shown, |at| at, |at| at, Timestamp::from_nanos(1_000_000));
        let calls: Vec<u32> = seen.packets.iter().map(|packet| packet.call).collect();
        assert_eq!(calls, [0, 0, 1, 1, 2]);
        let groups: Vec<_> = seen.packets.iter().map(|packet| packet.group).collect();
        assert_eq!(groups, [Some(0), Some(0), None, Some(1), Some(1)]);
        assert_eq!((seen.receiver_drops, seen.lost()), (Some(1), 0));
        assert!(seen.packets.iter().all(|packet| !packet.descheduled));
    }

    #[test]
    fn a_sender_that_stood_still_is_seen() {
        let (mut late, mut slow) =
            (fate(0, 1_000_000, false, Some((5, 0, false))), fate(1, 1_001_000, false, Some((9, 1, false))));
        late.scheduled = Some(Timestamp::from_nanos(800_000));
        slow.sent = slow.sent.map(|sent| Sent { after: Some(sent.before + Span::from_micros(200)), ..sent });
        let seen =
            observation(&Train::back_to_back(2, 1_500), &report(vec![late, slow]), |at| at, |at| at, Timestamp::ZERO);
        // Late, but at a known time; and at a time that nobody knows.
        assert_eq!(seen.packets.iter().map(|packet| packet.descheduled).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn pairs_never_share_a_stamp_and_back_to_back_packets_only_where_the_method_can_do_without() {
        let pairs = Spacing::Pairs { inside_ns: 0.0, between_ns: 1e6 };
        for (spacing, together) in [
            (pairs, [false, false, false]),
            (Spacing::BackToBack, [false, false, true]),
            (Spacing::Groups { packets: 4, gap_ns: 1e3 }, [false, true, true]),
        ] {
            let found = [Grouped::Never, Grouped::Groups, Grouped::BackToBack].map(|it| it.bursts(&spacing));
            assert_eq!(found.map(|bursts| bursts == Bursts::Together), together, "{spacing:?}");
        }
    }

    #[test]
    fn a_train_goes_back_by_its_shape() {
        let spacing = Spacing::Primed { head: 3, after_ns: 40_000.4, packets: 2, gap_ns: 10_000.0 };
        let train = Train { packets: 7, size_byte: 1_500, spacing, idle_before_ns: 0 };
        let back = backward(&train, 28, Grouped::Groups).expect("it has a shape");
        let forth = forward(&train, 28, Grouped::Groups).expect("in order");
        assert_eq!(back.due(), forth.due());
        assert_eq!(back.size_byte(), 1_472);
        let chirp = Train { spacing: Spacing::Gaps { gaps_ns: vec![1.0] }, ..train };
        assert!(backward(&chirp, 28, Grouped::Groups).is_none());
    }
}
