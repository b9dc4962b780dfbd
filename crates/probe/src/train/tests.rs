use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use vtare_pathsim::{Detour, EndSpec, HopSpec, LossModel, PathSpec, PeerClock};
use vtare_units::{Span, Timestamp};
use vtare_wire::session::{
    ArrivalSource, ClientError, Counters, Limits, Open, Purpose, Reason, ReverseBound, ReversePlan, Secrets, Table,
    WireForm,
};
use vtare_wire::{SessionId, SessionKey, Shape};

use super::pacing::Calls;
use super::{AvbError, AvbSession, Bursts, SimFar, TrainError, TrainPlan};
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

/// 100 Mbit/s and 5 ms each way.
fn hops() -> Vec<HopSpec> {
    vec![HopSpec::new(100_000_000, 1_000_000, 5_000_000)]
}

#[test]
fn an_overloaded_train_arrives_at_the_rate_of_the_link_and_all_of_it_is_shown() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    // 1500 B every 60 us are 200 Mbit/s; the link takes 120 us for each.
    let report = session.send_train(&TrainPlan::even(100, 1_472, Span::from_micros(60))).expect("it is sent");
    assert_eq!((report.sent, report.lost, report.reordered, report.socket_drops), (100, 0, 0, Some(0)));
    assert_eq!((report.ip_byte(), report.burst_packet), (1_500, 1));
    for (index, pair) in report.packets.windows(2).enumerate() {
        let [early, late] =
            [&pair[0], &pair[1]].map(|fate| (fate.sent.expect("sent"), fate.received.expect("received")));
        assert_eq!(late.0.before - early.0.before, Span::from_micros(60), "{index}");
        assert_eq!(late.1.at - early.1.at, Span::from_micros(120), "{index}");
        assert_eq!((late.1.source, late.1.joined, late.1.place), (ArrivalSource::Kernel, false, index as u32 + 1));
    }
    let first = &report.packets[0];
    assert_eq!(first.kernel_sent, first.sent.map(|sent| sent.before));
    let there = first.received.expect("received").at.as_nanos() - 7_000_000_000;
    assert_eq!(there - first.sent.expect("sent").before.as_nanos(), 5_120_000);
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
    for train in 0..10 {
        let report = session.send_train(&TrainPlan::even(100, 600, Span::from_micros(100))).expect("it is sent");
        assert_eq!(report.packets[0].sequence, train * 100);
        assert_eq!(report.received() + report.lost, 100);
        assert_eq!(report.packets.iter().filter(|fate| fate.received.is_none()).count() as u64, report.lost);
        assert!(report.reordered > 0);
        assert_eq!(report.lost_by_receiver_and_path(), (0, report.lost));
        lost += report.lost;
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
    let report = session.send_train(&TrainPlan::even(200, 100, Span::from_micros(20))).expect("it is sent");
    assert!(report.lost > 50, "{}", report.lost);
    assert_eq!(report.lost_by_receiver_and_path(), (report.lost, 0));
    assert_eq!(report.socket_drops, Some(report.lost));
    let joined = report.packets.iter().filter(|fate| fate.received.is_some_and(|received| received.joined)).count();
    assert!(joined > 10, "coalesced arrivals share one stamp: {joined}");
    // The next train counts for itself.
    let report = session.send_train(&TrainPlan::even(5, 100, Span::from_millis(3))).expect("it is sent");
    assert_eq!((report.lost, report.socket_drops), (0, Some(0)));
}

#[test]
fn a_train_longer_than_the_records_is_counted_and_never_remembered_without_bound() {
    let limits = Limits { arrivals: 1_024, ..Limits::default() };
    let mut session = session(SimSpec::symmetric(vec![], 1), REQUEST, limits);
    // Without a hop the train arrives while it is sent, and nobody fetches before its end.
    let report = session.send_train(&TrainPlan::even(2_000, 100, Span::from_micros(5))).expect("it is sent");
    assert_eq!((report.received(), report.unrecorded, report.lost), (1_024, 976, 976));
    assert_eq!(report.lost_by_receiver_and_path(), (976, 0));
}

#[test]
fn every_shape_leaves_as_it_is_planned() {
    let mut session = session(SimSpec::symmetric(vec![], 1), REQUEST, Limits::default());
    let shapes = [
        Shape::Even { gap_ns: 1_000 },
        Shape::Pairs { gap_ns: 0, period_ns: 50_000 },
        Shape::Chirp { first_gap_ns: 100_000, spread_per_mille: 1_200 },
    ];
    for shape in shapes {
        let train = TrainPlan::new(shape, 30, 200);
        let report = session.send_train(&train).expect("it is sent");
        let start = report.packets[0].sent.expect("sent").before;
        let left: Vec<Span> = report.packets.iter().map(|fate| fate.sent.expect("sent").before - start).collect();
        assert_eq!(left, train.due(), "{shape:?}");
    }
    let single = vec![Span::ZERO, Span::from_micros(7), Span::from_micros(7), Span::from_micros(90)];
    let report = session.send_train(&TrainPlan::at(single.clone(), 200).expect("in order")).expect("it is sent");
    assert_eq!(report.packets.iter().map(|fate| fate.received.expect("here").at).collect::<Vec<_>>().len(), 4);
    assert_eq!(TrainPlan::at(vec![Span::from_micros(1), Span::ZERO], 200), Err(TrainError::Order { number: 1 }));
}

#[test]
fn short_probes_are_recorded_too() {
    let request = Open { form: WireForm::Short, ..REQUEST };
    let mut session = session(SimSpec::symmetric(hops(), 1), request, Limits::default());
    let report = session.send_train(&TrainPlan::even(50, 18, Span::from_micros(50))).expect("it is sent");
    assert_eq!((report.sent, report.lost), (50, 0));
}

#[test]
fn trains_that_the_session_cannot_send_are_refused_before_the_first_packet() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    let mut refused = |train: TrainPlan| match session.send_train(&train) {
        Err(AvbError::Train(error)) => error,
        other => panic!("{other:?}"),
    };
    let gap = Span::from_micros(100);
    assert_eq!(refused(TrainPlan::even(0, 100, gap)), TrainError::Empty);
    assert_eq!(refused(TrainPlan::even(2_001, 100, gap)), TrainError::Long { found: 2_001, most: 2_000 });
    assert!(matches!(refused(TrainPlan::even(2, 59, gap)), TrainError::Size { found_byte: 59, .. }));
    assert!(matches!(refused(TrainPlan::even(2, 1_473, gap)), TrainError::Size { most_byte: 1_472, .. }));
    assert_eq!(session.count().expect("it is open").accepted, 0);
}

#[test]
fn as_many_packets_leave_at_once_as_the_gap_needs() {
    let even = |gap_ns: i64, size_byte| TrainPlan::even(1_000, size_byte, Span::from_nanos(gap_ns));
    let cost = Span::from_micros(2);
    assert_eq!(even(12_000, 1_472).calls(cost, true), Calls::Of(1));
    assert_eq!(even(1_000, 1_472).calls(cost, true), Calls::Of(3));
    assert_eq!(even(1_000, 1_472).calls(cost, false), Calls::Of(1), "without large sends");
    assert_eq!(even(0, 1_472).calls(cost, true), Calls::Of(44), "what fits one large send");
    assert_eq!(even(0, 64).calls(cost, true), Calls::Of(64));
    assert_eq!(even(12_000, 64).with_bursts(Bursts::Of(10)).calls(cost, true), Calls::Of(10));
}

fn refusal(result: Result<super::ReverseReport, AvbError<ClientError>>) -> Reason {
    match result {
        Err(AvbError::Far(ClientError::Refused(refusal))) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_train_back_is_paid_for_with_what_was_sent_and_measured_with_the_clocks_changed() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    let train = TrainPlan::even(50, 1_472, Span::from_micros(60));
    assert_eq!(refusal(session.reverse_train(&train)), Reason::Unproven);
    session.send_train(&TrainPlan::even(49, 1_472, Span::from_micros(200))).expect("it is sent");
    let bound = ReverseBound::CreditPackets;
    assert_eq!(refusal(session.reverse_train(&train)), Reason::Reverse { bound, found: 50, most: 49 });
    session.send_train(&TrainPlan::even(1, 1_471, Span::ZERO)).expect("it is sent");
    let bound = ReverseBound::CreditByte;
    assert_eq!(refusal(session.reverse_train(&train)), Reason::Reverse { bound, found: 75_000, most: 74_999 });
    session.send_train(&TrainPlan::even(1, 100, Span::ZERO)).expect("it is sent");

    let report = session.reverse_train(&train).expect("it is paid for");
    assert_eq!((report.sent, report.unsent, report.lost, report.reordered), (50, 0, 0, 0));
    for pair in report.packets.windows(2) {
        let [early, late] =
            [&pair[0], &pair[1]].map(|fate| (fate.sent.expect("sent"), fate.received.expect("received")));
        assert_eq!(late.0.before - early.0.before, Span::from_micros(60));
        assert_eq!(late.1.at - early.1.at, Span::from_micros(120));
    }
    let counters = session.count().expect("it is open");
    assert_eq!((counters.reversed, counters.reverse_byte, counters.replied), (50, 50 * 1_472, 0));
    let left = session.credit().expect("it is open");
    assert_eq!((left.packets, left.byte), (1, 74_999 + 128 - 75_000));
    assert!(matches!(refusal(session.reverse_train(&train)), Reason::Reverse { .. }), "credit is spent once");
    let mine = TrainPlan::at(vec![Span::ZERO], 100).expect("in order");
    assert!(matches!(session.reverse_train(&mine), Err(AvbError::Train(TrainError::NoShape))));
}

#[test]
fn trains_of_both_directions_cross_on_the_way_and_each_has_its_own_queue() {
    let mut session = session(SimSpec::symmetric(hops(), 1), REQUEST, Limits::default());
    session.send_train(&TrainPlan::even(200, 1_472, Span::from_micros(200))).expect("it is sent");
    let train = TrainPlan::even(200, 1_472, Span::from_micros(60));
    let (forth, back) = session.both_trains(&train, &train, Span::from_millis(8)).expect("it is paid for");
    assert_eq!((forth.received(), back.received()), (200, 200));
    let came: Vec<_> = back.packets.iter().filter_map(|fate| Some(fate.received?.at)).collect();
    let left: Vec<_> = forth.packets.iter().filter_map(|fate| Some(fate.sent?.before)).collect();
    assert!(came[0] < left[0] && left[199] < came[199], "{left:?} {came:?}");
    for pair in forth.packets.windows(2) {
        let [early, late] = [&pair[0], &pair[1]].map(|fate| fate.received.expect("received").at);
        assert_eq!(late - early, Span::from_micros(120));
    }
    assert_eq!(session.credit().expect("it is open").packets, 200);
}

#[test]
fn a_train_back_is_bounded_in_length_and_counts_its_losses() {
    let mut back = hops();
    back[0].loss = LossModel::Random { probability: 0.2 };
    let spec = SimSpec { reverse: PathSpec { hops: back, ..PathSpec::default() }, ..SimSpec::symmetric(hops(), 4) };
    let mut session = session(spec, REQUEST, Limits::default());
    session.send_train(&TrainPlan::even(1_000, 400, Span::from_micros(100))).expect("it is sent");
    let long = TrainPlan::even(3, 400, Span::from_millis(501));
    let bound = ReverseBound::LastsNs;
    let most = Limits::default().reverse_ns;
    assert_eq!(refusal(session.reverse_train(&long)), Reason::Reverse { bound, found: 1_002_000_000, most });
    for _ in 0..2 {
        let report = session.reverse_train(&TrainPlan::even(400, 400, Span::from_micros(50))).expect("it is paid for");
        assert_eq!((report.sent, report.received() + report.lost), (400, 400));
        assert!((40..130).contains(&report.lost), "{}", report.lost);
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
    let report = session.send_train(&TrainPlan::even(10, 100, Span::from_micros(50))).expect("it is sent");
    assert_eq!((report.sent, report.lost, session.strays()), (10, 9, 2));
    assert_eq!(report.lost_by_receiver_and_path(), (9, 0));
    let report = session.reverse_train(&TrainPlan::even(10, 100, Span::ZERO)).expect("nothing comes");
    assert_eq!(report.received(), 0);
    assert_eq!(session.credit().expect("it answers").packets, 0);
}
