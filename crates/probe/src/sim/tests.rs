use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use vtare_clock::sleep::sim::Trace;
use vtare_pathsim::{Detour, Duplication, HopSpec, LossModel, Noise, Pause, PeerClock};
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::session::{Limits, Open, Purpose, Secrets, Table, WireForm};
use vtare_wire::{SessionId, SessionKey, full};

use super::{Echo, Responder, SimLink, SimSpec};
use crate::link::{Incoming, Outgoing, ProbeLink};

fn at(ns: u64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(ns)
}

const MBIT: u64 = 1_000_000;

/// Sends `count` datagrams of 60 B every `gap_ns`, answered by an echo; gives sequence, kernel stamp and arrival of
/// what came back.
fn echo(spec: &SimSpec, count: u64, gap_ns: u64) -> (SimLink<Echo>, Vec<(u64, u64, u64)>) {
    let mut link = SimLink::new(spec, Echo).expect("a good path");
    let mut received = Vec::new();
    let mut take = |incoming: Incoming<'_>| {
        let sequence = u64::from_be_bytes(incoming.payload[..8].try_into().expect("8 B"));
        received.push((sequence, incoming.stamp.expect("stamps are given").at.as_nanos(), incoming.arrived.as_nanos()));
    };
    for sequence in 0..count {
        link.receive(at(sequence * gap_ns), &mut take).expect("a simulated link does not fail");
        let mut payload = [0; 60];
        payload[..8].copy_from_slice(&sequence.to_be_bytes());
        link.send(&[Outgoing { sequence, payload: &payload, launch: None }]).expect("fits");
    }
    link.receive(at(count * gap_ns + 10_000_000_000), &mut take).expect("a simulated link does not fail");
    (link, received)
}

/// 88 B at 704 Mbit/s take 1 us.
fn quiet() -> SimSpec {
    SimSpec::symmetric(vec![HopSpec::new(704 * MBIT, 1_000_000, 10_000)], 1)
}

#[test]
fn a_round_trip_takes_both_ways() {
    let (_, received) = echo(&quiet(), 3, 1_000_000);
    assert_eq!(received, [(0, 22_000, 22_000), (1, 1_022_000, 1_022_000), (2, 2_022_000, 2_022_000)]);
}

#[test]
fn coalesced_arrivals_share_a_stamp() {
    let mut spec = quiet();
    spec.near.coalesce_ns = 50_000;
    let (_, received) = echo(&spec, 4, 20_000);
    // Replies at 22, 42, 62 and 82 us: the first opens a batch until 72.
    assert_eq!(received.iter().map(|it| it.1).collect::<Vec<_>>(), [72_000, 72_000, 72_000, 132_000]);
}

#[test]
fn a_pause_of_the_near_machine_delays_its_program_and_not_the_kernels_stamps() {
    let mut spec = quiet();
    spec.near.receive_noise.pauses = vec![Pause { at_ns: 20_000, span_ns: 5_000_000 }];
    let (_, received) = echo(&spec, 1, 1);
    assert_eq!(received, [(0, 22_000, 5_020_000)]);
}

#[test]
fn what_finds_no_room_while_the_program_pauses_is_dropped_and_counted() {
    let mut spec = quiet();
    spec.near.receive_noise.pauses = vec![Pause { at_ns: 0, span_ns: 5_000_000 }];
    spec.near.receive_room = Some(3);
    let (mut link, received) = echo(&spec, 10, 100_000);
    assert_eq!(received.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(link.local_drops().expect("simulated").receive_buffer, Some(7));
}

#[test]
fn a_sender_is_as_late_as_its_trace_states() {
    let trace = Trace::parse("overshoot 5000\novershoot 7000\nrun 1000000 4000000").expect("a good trace");
    let mut spec = quiet();
    spec.near.send_noise =
        Noise { late_ns: trace.overshoot_ns.clone(), runs_ns: trace.runs_ns.clone(), pauses: Vec::new() };
    let mut link = SimLink::new(&spec, Echo).expect("a good path");
    let mut woke = |due| {
        link.receive(at(due), &mut |_| {}).expect("simulated");
        link.now().as_nanos()
    };
    assert_eq!((woke(100_000), woke(200_000)), (105_000, 207_000));
    // The machine loses 4 ms at 1 ms: whoever is due in there wakes at its end.
    assert_eq!(woke(1_500_000), 5_000_000);
}

#[test]
fn a_responder_stamps_with_its_own_clock() {
    let mut spec = quiet();
    spec.peer_clock = PeerClock { offset_ns: 1_000_000, skew_ppb: 0 };
    spec.far.send_noise = Noise::constant(3_000);
    let mut table = Table::new(Limits::default());
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
    let wanted = Open {
        purpose: Purpose::Rtt,
        form: WireForm::Full,
        rate_packet_per_s: 1_000,
        burst_packet: 1,
        duration_ns: 1_000_000_000,
        packets: 10,
        size_byte: 60,
        flows: None,
        ecn: false,
    };
    let secrets = Secrets { session: SessionId(5), key: SessionKey::new([5; 16]) };
    let grant = table.open(at(0), from.ip(), &wanted, secrets).expect("within the limits");
    let mut link = SimLink::new(&spec, Responder { table, from }).expect("a good path");
    let mut payload = [0; 60];
    let probe = full::Probe { session: grant.session, sequence: 0, sent: link.now(), wants_reply: true };
    probe.encode(&grant.key, &mut payload).expect("fits");
    link.send(&[Outgoing { sequence: 0, payload: &payload, launch: None }]).expect("fits");
    let mut replies = Vec::new();
    let mut take = |incoming: Incoming<'_>| {
        let reply = full::Unverified::parse(incoming.payload).and_then(|it| it.reply(&grant.key));
        replies.push((incoming.arrived.as_nanos(), reply.expect("a valid reply").turnaround));
    };
    link.receive(at(1_000_000), &mut take).expect("simulated");
    let (arrived, turnaround) = replies[0];
    assert_eq!(arrived, 25_000);
    assert_eq!((turnaround.received.as_nanos(), turnaround.replied.as_nanos()), (1_011_000, 1_014_000));
}

proptest! {
    #[test]
    fn every_datagram_comes_back_or_is_counted_as_lost(
        loss in 0.0..0.3_f64, detour in 0.0..0.3_f64, copies in 0.0..0.3_f64,
        seed in any::<u64>(), gap_ns in 100_u64..50_000,
    ) {
        let mut spec = quiet();
        spec.seed = seed;
        spec.forward.hops[0].loss = LossModel::Random { probability: loss };
        spec.reverse.hops[0].loss = LossModel::Bursty { enter: loss, leave: 0.5, lost_inside: 0.9 };
        spec.forward.detour = Detour { probability: detour, extra_ns: 70_000 };
        spec.reverse.duplication = Duplication { probability: copies, after_ns: 5_000 };
        let (link, received) = echo(&spec, 300, gap_ns);
        let counts = link.forward().counts().chain(link.reverse().counts());
        let gone: u64 = counts.map(|count| count.lost + count.dropped).sum();
        let mut distinct: Vec<u64> = received.iter().map(|it| it.0).collect();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len() as u64 + gone, 300);
        prop_assert!(received.windows(2).all(|pair| pair[0].2 <= pair[1].2), "arrivals are given in their order");
        prop_assert_eq!(echo(&spec, 300, gap_ns).1, received, "a seed gives the same run");
    }
}
