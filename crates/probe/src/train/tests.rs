use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use vtare_pathsim::{Detour, EndSpec, HopSpec, LossModel, PathSpec, PeerClock};
use vtare_traffic::{Observation, Spacing, Train};
use vtare_units::{Span, Timestamp};
use vtare_wire::session::{
    ArrivalSource, ClientError, Counters, Limits, Open, Purpose, Reason, ReverseBound, ReversePlan, Secrets, Table,
    WireForm,
};
use vtare_wire::{SessionId, SessionKey};

use super::{AvbError, AvbSession, Grouped, SimFar, TrainError};
use crate::link::ProbeLink;
use crate::sim::{Responder, SimLink, SimSpec};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const REQUEST: Open = Open {
    purpose: Purpose::Avb,
    form: WireForm::Full,
    rate_packet_per_s: 1_000_000,
    burst_packet: 2_000,
    duration_ns: 600_000_000_000,
    packets: 1_000_000,
    size_byte: 1_472,
    flows: None,
    ecn: false,
};

/// A session over a simulated path whose far clock is 7 s ahead.
fn session(spec: SimSpec, request: Open, limits: Limits) -> AvbSession<SimLink<Responder>, SimFar> {
    let clock = PeerClock { offset_ns: 7_000_000_000, skew_ppb: 0 };
    let mut table = Table::new(limits);
    let secrets = Secrets { session: SessionId(77), key: SessionKey::new([3; 16]) };
    table.note_socket_drops(Some(0));
    let grant = table.open(Timestamp::ZERO, PEER, &request, secrets).expect("within the limits");
    let far = Responder { table, from: SocketAddr::new(PEER, 4_000) };
    let link = SimLink::new(&SimSpec { peer_clock: clock, ..spec }, far).expect("the path can be");
    AvbSession::new(link, SimFar { grant: grant.clone(), clock }, grant)
}

/// Packets with this much payload, evenly.
fn even(packets: u32, payload_byte: u32, gap: Span) -> Train {
    let spacing = Spacing::Constant { gap_ns: gap.as_nanos() as f64 };
    Train { packets, size_byte: payload_byte + 28, spacing, idle_before_ns: 0 }
}

/// Two packets that follow each other: the times between their departures and between their arrivals.
fn gaps(seen: &Observation) -> Vec<(Span, Span)> {
    let times = |packet: &vtare_traffic::Packet| (packet.sent.expect("sent"), packet.received.expect("received"));
    let pairs = seen.packets.windows(2).map(|pair| (times(&pair[0]), times(&pair[1])));
    pairs.map(|(early, late)| (late.0 - early.0, late.1 - early.1)).collect()
}

/// 100 Mbit/s and 5 ms each way.
fn hops() -> Vec<HopSpec> {
    vec![HopSpec::new(100_000_000, 1_000_000, 5_000_000)]
}

#[test]
fn an_overloaded_train_arrives_at_the_rate_of_the_link_and_all_of_it_is_shown() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    // 1500 B every 60 us are 200 Mbit/s; the link takes 120 us for each.
    let report = session.send(&even(100, 1_472, Span::from_micros(60)), Grouped::Never).expect("it is sent");
    assert_eq!((report.sent(), report.received(), report.reordered(), report.receiver_drops), (100, 100, 0, Some(0)));
    assert_eq!(gaps(&report), [(Span::from_micros(60), Span::from_micros(120)); 99]);
    let of = |index: u32| (Some(index), Some(index), index, 1_500, false);
    for (index, packet) in (0..).zip(&report.packets) {
        assert_eq!((packet.place, packet.group, packet.call, packet.size_byte, packet.descheduled), of(index));
    }
    let first = &report.packets[0];
    assert_eq!(first.kernel_sent, first.sent);
    let there = first.received.expect("received").as_nanos() - 7_000_000_000;
    assert_eq!(there - first.sent.expect("sent").as_nanos(), 5_120_000);
}

#[test]
fn a_slow_train_is_waited_for_as_long_as_its_packets_are_apart() {
    // A packet is on the link for 24 ms, longer than silence is waited for behind a fast train.
    let slow = vec![HopSpec::new(500_000, 1_000_000, 1_000_000)];
    let mut session = session(SimSpec::symmetric(slow, 1), REQUEST, Limits::default());
    let train = even(5, 1_472, Span::from_millis(30));
    let there = session.send(&train, Grouped::Never).expect("it is sent");
    let back = session.send_back(&train, Grouped::Never).expect("it comes back");
    assert_eq!((there.received(), back.received()), (5, 5));
    // What does not come ends the wait.
    assert!(session.link().now() < Timestamp::from_nanos(1_000_000_000), "{:?}", session.link().now());
}

#[test]
fn losses_reordering_and_order_are_shown_train_by_train() {
    let mut hop = hops();
    hop[0].loss = LossModel::Random { probability: 0.1 };
    let detour = Detour { probability: 0.1, extra_ns: 1_000_000 };
    let spec =
        SimSpec { forward: PathSpec { hops: hop, detour, ..PathSpec::default() }, ..SimSpec::symmetric(hops(), 9) };
    let mut session = session(spec, REQUEST, Limits::default());
    let mut lost = 0;
    for _ in 0..10 {
        let report = session.send(&even(100, 600, Span::from_micros(100)), Grouped::Never).expect("it is sent");
        assert_eq!((report.sent(), report.receiver_drops), (100, Some(0)));
        assert!(report.reordered() > 0);
        lost += report.lost() as u64;
    }
    assert!((60..160).contains(&lost), "{lost} of 1000 at a probability of 0.1");
    assert_eq!((session.strays(), session.count().expect("it is open").accepted), (0, 1_000 - lost));
}

#[test]
fn a_receiver_without_room_is_distinguished_from_the_path() {
    let far = EndSpec { coalesce_ns: 1_000_000, receive_room: Some(10), ..EndSpec::default() };
    let mut spec = SimSpec { far, ..SimSpec::symmetric(hops(), 1) };
    // Arrivals are handed over a millisecond later, and taken by the program half a millisecond after that.
    spec.far.receive_noise.late_ns = vec![500_000];
    let mut session = session(spec, REQUEST, Limits::default());
    let report = session.send(&even(200, 100, Span::from_micros(20)), Grouped::Never).expect("it is sent");
    let missing = (report.sent() - report.received()) as u32;
    assert!(missing > 50, "{missing}");
    assert_eq!((report.receiver_drops, report.lost()), (Some(missing), 0));
    let groups = report.packets.iter().filter_map(|packet| packet.group).max().expect("some arrived");
    assert!(groups as usize + 11 < report.received(), "coalesced arrivals share one stamp: {groups}");
    // The next train counts for itself.
    let report = session.send(&even(5, 100, Span::from_millis(3)), Grouped::Never).expect("it is sent");
    assert_eq!((report.received(), report.receiver_drops), (5, Some(0)));
}

#[test]
fn a_train_longer_than_the_records_is_counted_and_never_remembered_without_bound() {
    let limits = Limits { arrivals: 1_024, ..Limits::default() };
    let mut session = session(SimSpec::symmetric(vec![], 1), REQUEST, limits);
    // Without a hop the train arrives while it is sent, and nobody fetches before its end.
    let report = session.send(&even(2_000, 100, Span::from_micros(5)), Grouped::Never).expect("it is sent");
    assert_eq!((report.received(), report.receiver_drops, report.lost()), (1_024, Some(976), 0));
}

#[test]
fn every_train_leaves_as_it_is_asked_for() {
    let mut session = session(SimSpec::symmetric(vec![], 1), REQUEST, Limits::default());
    let spacings = [
        Spacing::Constant { gap_ns: 1_000.4 },
        Spacing::Pairs { inside_ns: 0.0, between_ns: 50_000.0 },
        Spacing::Gaps { gaps_ns: vec![0.0, 7_000.0, 0.0, 83_000.0] },
    ];
    for spacing in spacings {
        let train = Train { packets: 30, size_byte: 228, spacing, idle_before_ns: 0 };
        let report = session.send(&train, Grouped::Never).expect("it is sent");
        let start = report.packets[0].sent.expect("sent");
        let left = report.packets.iter().map(|packet| (packet.sent.expect("sent") - start).as_nanos());
        let due = train.offsets_ns().into_iter().map(|ns| ns.round() as i64);
        assert_eq!(left.collect::<Vec<_>>(), due.collect::<Vec<_>>(), "{train:?}");
        assert_eq!(report.received(), 30);
    }
}

#[test]
fn a_train_begins_after_its_silence() {
    let mut session = session(SimSpec::symmetric(vec![], 1), REQUEST, Limits::default());
    let train = even(3, 100, Span::from_micros(10));
    let first = session.send(&train, Grouped::Never).expect("it is sent");
    let second = session.send(&train.after_idle(30_000_000), Grouped::Never).expect("it is sent");
    let silence = second.packets[0].sent.expect("sent") - first.packets[2].sent.expect("sent");
    assert_eq!(silence, Span::from_micros(30_050));
}

#[test]
fn short_probes_are_recorded_too() {
    let request = Open { form: WireForm::Short, ..REQUEST };
    let mut session = session(SimSpec::symmetric(hops(), 1), request, Limits::default());
    let report = session.send(&even(50, 18, Span::from_micros(50)), Grouped::Never).expect("it is sent");
    assert_eq!((report.sent(), report.received()), (50, 50));
}

#[test]
fn trains_that_the_session_cannot_send_are_refused_before_the_first_packet() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    let mut refused = |train: Train| match session.send(&train, Grouped::Never) {
        Err(AvbError::Train(error)) => error,
        other => panic!("{other:?}"),
    };
    let gap = Span::from_micros(100);
    assert_eq!(refused(even(0, 100, gap)), TrainError::Empty);
    assert_eq!(refused(even(2_001, 100, gap)), TrainError::Long { found: 2_001, most: 2_000 });
    assert!(matches!(refused(even(2, 59, gap)), TrainError::Size { found_byte: 59, .. }));
    assert!(matches!(refused(even(2, 1_473, gap)), TrainError::Size { most_byte: 1_472, .. }));
    assert_eq!(session.count().expect("it is open").accepted, 0);
}

fn refusal(result: Result<Observation, AvbError<ClientError>>) -> Reason {
    match result {
        Err(AvbError::Far(ClientError::Refused(refusal))) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_train_back_is_paid_for_with_what_was_sent_and_measured_with_the_clocks_changed() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    let train = even(50, 1_472, Span::from_micros(60));
    assert_eq!(refusal(session.send_back(&train, Grouped::Never)), Reason::Unproven);
    session.send(&even(49, 1_472, Span::from_micros(200)), Grouped::Never).expect("it is sent");
    let bound = ReverseBound::CreditPackets;
    assert_eq!(refusal(session.send_back(&train, Grouped::Never)), Reason::Reverse { bound, found: 50, most: 49 });
    session.send(&even(1, 1_471, Span::ZERO), Grouped::Never).expect("it is sent");
    let bound = ReverseBound::CreditByte;
    assert_eq!(
        refusal(session.send_back(&train, Grouped::Never)),
        Reason::Reverse { bound, found: 75_000, most: 74_999 }
    );
    session.send(&even(1, 100, Span::ZERO), Grouped::Never).expect("it is sent");

    let report = session.send_back(&train, Grouped::Never).expect("it is paid for");
    assert_eq!((report.received(), session.all_left(), report.reordered()), (50, true, 0));
    assert_eq!(gaps(&report), [(Span::from_micros(60), Span::from_micros(120)); 49]);
    // The far end's clock is 7 s ahead: its times are put on this one.
    assert!(session.far_behind_ns().is_some_and(|behind| behind < -6_000_000_000));
    let counters = session.count().expect("it is open");
    assert_eq!((counters.reversed, counters.reverse_byte, counters.replied), (50, 50 * 1_472, 0));
    let left = session.credit().expect("it is open");
    assert_eq!((left.packets, left.byte), (1, 74_999 + 128 - 75_000));
    assert!(
        matches!(refusal(session.send_back(&train, Grouped::Never)), Reason::Reverse { .. }),
        "credit is spent once"
    );
    let mine = Train { spacing: Spacing::Gaps { gaps_ns: vec![1.0] }, ..even(2, 100, Span::ZERO) };
    assert!(matches!(session.send_back(&mine, Grouped::Never), Err(AvbError::Train(TrainError::NoShape))));
}

#[test]
fn trains_of_both_directions_cross_on_the_way_and_each_has_its_own_queue() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    session.send(&even(200, 1_472, Span::from_micros(200)), Grouped::Never).expect("it is sent");
    let train = even(200, 1_472, Span::from_micros(60));
    let (forth, back) =
        session.send_both((&train, &train), Span::from_millis(8), Grouped::Never).expect("it is paid for");
    assert_eq!((forth.received(), back.received()), (200, 200));
    let came: Vec<_> = back.packets.iter().filter_map(|packet| Some(packet.received?.as_nanos())).collect();
    let left: Vec<_> = forth.packets.iter().filter_map(|packet| Some(packet.sent?.as_nanos())).collect();
    assert!(came[0] < left[0] && left[199] < came[199], "{left:?} {came:?}");
    assert!(gaps(&forth).iter().all(|gap| gap.1 == Span::from_micros(120)));
    assert_eq!(session.credit().expect("it is open").packets, 200);
}

#[test]
fn a_train_back_is_bounded_in_length_and_counts_its_losses() {
    let mut back = hops();
    back[0].loss = LossModel::Random { probability: 0.2 };
    let spec = SimSpec { reverse: PathSpec { hops: back, ..PathSpec::default() }, ..SimSpec::symmetric(hops(), 4) };
    let mut session = session(spec, REQUEST, Limits::default());
    session.send(&even(1_000, 400, Span::from_micros(100)), Grouped::Never).expect("it is sent");
    let long = even(3, 400, Span::from_millis(501));
    let bound = ReverseBound::LastsNs;
    let most = Limits::default().reverse_ns;
    assert_eq!(
        refusal(session.send_back(&long, Grouped::Never)),
        Reason::Reverse { bound, found: 1_002_000_000, most }
    );
    for _ in 0..2 {
        let report = session.send_back(&even(400, 400, Span::from_micros(50)), Grouped::Never).expect("it is paid for");
        assert!(session.all_left());
        let missing = 400 - report.received();
        assert!((40..130).contains(&missing), "{missing}");
    }
    assert!(session.link().now() > Timestamp::ZERO);
}

/// Answers with anything.
struct Liar(Vec<vtare_wire::session::Arrivals>, Counters);

impl super::Far<SimLink<Responder>> for Liar {
    type Error = ClientError;

    fn arrivals(&mut self, _: &mut SimLink<Responder>, _: u64) -> Result<vtare_wire::session::Arrivals, ClientError> {
        Ok(if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() })
    }
    fn reverse(&mut self, _: &mut SimLink<Responder>, _: ReversePlan) -> Result<u64, ClientError> {
        Ok(u64::MAX)
    }
    fn count(&mut self, _: &mut SimLink<Responder>) -> Result<Counters, ClientError> {
        Ok(self.1)
    }
}

/// A client trusts its responder with the truth, not with its own life.
#[test]
fn a_far_end_that_lies_ends_in_a_report_all_the_same() {
    let honest = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    let grant = honest.grant().clone();
    let (link, _) = honest.into_parts();
    let most = u64::MAX;
    let record = vtare_wire::session::Arrived {
        sequence: 0,
        received: Timestamp::from_nanos(most),
        source: ArrivalSource::Program,
        joined: true,
        ecn: None,
    };
    let chunk = |records| {
        let (session, left, socket_drops) = (grant.session, most, Some(most));
        vtare_wire::session::Arrivals {
            session,
            from: most,
            records,
            left,
            overflow: most,
            refused: most,
            socket_drops,
        }
    };
    let chunks = vec![chunk(vec![record; 3]), chunk(vec![])];
    let counters =
        Counters { reversed: most, reverse_unsent: most, replied: most, reverse_byte: most, ..Counters::default() };
    let mut session = AvbSession::new(link, Liar(chunks, counters), grant);
    let report = session.send(&even(10, 100, Span::from_micros(50)), Grouped::Never).expect("it is sent");
    assert_eq!((report.sent(), report.received(), session.strays()), (10, 1, 2));
    assert_eq!(report.receiver_drops, Some(9));
    let report = session.send_back(&even(10, 100, Span::ZERO), Grouped::Never).expect("nothing comes");
    assert_eq!(report.received(), 0);
    assert_eq!(session.credit().expect("it answers").packets, 0);
}
