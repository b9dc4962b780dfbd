use std::net::{IpAddr, Ipv4Addr};

use vtare_capture::Direction;

use super::*;

const ASKS: End = End { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), port: Some(4_000) };
const ASKED: End = End { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), port: Some(8_462) };

fn probe(role: Role, session: u64, sequence: u64) -> Probe {
    let (source, destination) = if role == Role::Reply { (ASKED, ASKS) } else { (ASKS, ASKED) };
    let direction = Some(if role == Role::Reply { Direction::Rx } else { Direction::Tx });
    Probe { shape: Shape::Full, role, session, sequence, ip_byte: 92, source, destination, direction, merged: false }
}

fn take(aggregate: &mut Aggregate, probes: &[(i64, Probe)]) {
    let mut nowhere = Samples::discard();
    probes.iter().for_each(|(at, probe)| aggregate.take(*at, probe, &mut nowhere).expect("nothing is written"));
}

fn closed(aggregate: Aggregate) -> CaptureCell {
    let mut cell = CaptureCell::default();
    aggregate.close(&mut cell);
    cell
}

#[test]
fn a_round_trip_is_from_a_request_to_its_own_reply() {
    let mut aggregate = Aggregate::new(None);
    let (ask, answer) = (|number| probe(Role::Request, 7, number), |number| probe(Role::Reply, 7, number));
    // The second is never answered, a reply comes out of order, one comes twice, and one to nothing that was asked.
    take(
        &mut aggregate,
        &[(0, ask(0)), (1_000, ask(1)), (2_000, ask(2)), (2_300, answer(2)), (2_500, answer(0)), (2_600, answer(0))],
    );
    take(&mut aggregate, &[(2_700, answer(9)), (3_000, probe(Role::Reply, 8, 1))]);
    let cell = closed(aggregate);
    assert_eq!((cell.packets, cell.flows.len(), cell.rtt_ns.n), (8, 2, 2));
    let flow = &cell.flows[0];
    assert_eq!((flow.requests, flow.replies, flow.one_way), (3, 4, 0));
    assert_eq!((flow.rtt_ns.n, flow.rtt_ns.min, flow.rtt_ns.max), (2, Some(300.0), Some(2_500.0)));
    assert_eq!((flow.source.as_str(), flow.destination.as_str()), ("10.0.0.1:4000", "10.0.0.2:8462"));
    assert_eq!((flow.session.as_str(), flow.packet_per_s), ("0000000000000007", Some(1e6)));
    assert_eq!(cell.flows[1].packet_per_s, None, "nothing was asked");
}

#[test]
fn a_reply_stamped_before_its_request_is_counted_and_in_no_figure() {
    let mut aggregate = Aggregate::new(None);
    let (ask, answer) = (|number| probe(Role::Request, 7, number), |number| probe(Role::Reply, 7, number));
    take(&mut aggregate, &[(1_000, ask(0)), (400, answer(0)), (2_000, ask(1)), (2_100, answer(1))]);
    let cell = closed(aggregate);
    assert_eq!((cell.rtt_ns.n, cell.rtt_ns.min, cell.negative, cell.flows[0].negative), (1, Some(100.0), 1, 1));
    let note = cell.negative_note().expect("people must know");
    assert!(note.text.starts_with("1 of 2 replies was stamped before"), "{}", note.text);
    let mut sound = Aggregate::new(None);
    take(&mut sound, &[(0, ask(0)), (10, answer(0))]);
    assert_eq!(closed(sound).negative_note(), None);
}

#[test]
fn a_packet_seen_twice_on_its_way_counts_from_the_first_time() {
    let mut aggregate = Aggregate::new(None);
    take(
        &mut aggregate,
        &[(0, probe(Role::Request, 7, 0)), (40, probe(Role::Request, 7, 0)), (100, probe(Role::Reply, 7, 0))],
    );
    assert_eq!(closed(aggregate).rtt_ns.max, Some(100.0));
}

#[test]
fn kinds_are_counted_by_direction_with_their_bytes() {
    let mut aggregate = Aggregate::new(None);
    take(
        &mut aggregate,
        &[(0, probe(Role::Request, 7, 0)), (5, probe(Role::OneWay, 7, 1)), (9, probe(Role::Request, 7, 2))],
    );
    take(&mut aggregate, &[(9, Probe { direction: None, ..probe(Role::Request, 7, 3) })]);
    let kind = |kind, direction, packets| KindCount { kind, direction, packets, ip_byte: 92 * packets };
    let expected = [kind("one_way", Some("tx"), 1), kind("request", None, 1), kind("request", Some("tx"), 2)];
    assert_eq!(closed(aggregate).kinds, expected);
}

#[test]
fn no_more_are_taken_than_were_asked_for() {
    let mut aggregate = Aggregate::new(Some(2));
    for number in 0..5 {
        take(&mut aggregate, &[(0, probe(Role::Request, 7, number))]);
    }
    assert!(aggregate.is_full());
    assert_eq!(closed(aggregate).packets, 2);
}

#[test]
fn requests_that_are_never_answered_and_flows_without_end_take_bounded_memory() {
    let mut aggregate = Aggregate::new(None);
    let many = MOST_WAITING as u64 * 3;
    for number in 0..many {
        take(&mut aggregate, &[(number as i64, probe(Role::Request, 7, number))]);
    }
    assert!(aggregate.waiting.iter().map(HashMap::len).sum::<usize>() <= 2 * MOST_WAITING);
    // The newest are still waited for.
    take(&mut aggregate, &[(many as i64, probe(Role::Reply, 7, many - 1))]);
    for session in 0..MOST_FLOWS as u64 + 10 {
        take(&mut aggregate, &[(0, probe(Role::Request, 1_000 + session, 0))]);
    }
    let cell = closed(aggregate);
    assert_eq!((cell.rtt_ns.n, cell.flows.len(), cell.beyond_flows), (1, MOST_FLOWS, 11));
}

#[test]
fn the_text_states_what_was_lost_and_how_many_there_were() {
    let mut aggregate = Aggregate::new(None);
    take(&mut aggregate, &[(0, probe(Role::Request, 7, 0))]);
    let mut cell = CaptureCell { hook: "tc", stamp_clock: "monotonic", ..CaptureCell::default() };
    aggregate.close(&mut cell);
    assert!(cell.details().contains("lost for want of room: not counted"), "{}", cell.details());
    cell.count(vtare_capture::Tally { lost: 4, merged: 2, ..Default::default() });
    let text = cell.details();
    for part in ["1 probes: 1 request tx", "lost for want of room: 4, 2 large packets", "CLOCK_MONOTONIC"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}
