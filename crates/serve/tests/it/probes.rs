//! What a session may send, and from where it is answered.

use vtare_wire::short;

use super::*;

#[test]
fn probes_are_answered_with_stamps_and_as_many_bytes_and_counted_to_the_last() {
    let running = Running::start(options());
    let mut session = running.open(&REQUEST).expect("it is granted");
    assert_eq!(session.responder(), "vtare test");
    let socket = probes_of(&session, running.address);
    for sequence in 0..10 {
        let size = 60 + usize::try_from(sequence).expect("small");
        socket.send(&probe(&session, sequence, size)).expect("loopback takes it");
        let answer = reply(&socket);
        assert_eq!(answer.len(), size);
        assert!(answer[60..].iter().all(|byte| *byte == 0xee), "the padding comes back");
        let reply = full::Unverified::parse(&answer[..]).and_then(|reply| reply.reply(&session.grant().key));
        let reply = reply.expect("the tag fits");
        assert_eq!((reply.probe.sequence, reply.turnaround.accepted), (sequence, sequence + 1));
        assert!(reply.turnaround.received <= reply.turnaround.replied);
        assert!(reply.turnaround.flags.rx_by_kernel, "loopback stamps arrivals");
    }
    assert_eq!(session.count().expect("the session is open").accepted, 10);
    let counters = session.close().expect("the session is open");
    assert_eq!((counters.accepted, counters.replied, counters.forged), (10, 10, 0));
    assert_eq!((counters.accepted_byte, counters.replied_byte), (645, 645));
    let summary = running.end();
    assert_eq!((summary.sessions, summary.datagrams, summary.replies, summary.socket_drops), (1, 10, 10, Some(0)));
}

#[test]
fn short_probes_are_answered_and_one_way_probes_are_counted_in_silence() {
    let running = Running::start(options());
    let session = running.open(&Open { form: WireForm::Short, ..REQUEST }).expect("it is granted");
    let socket = probes_of(&session, running.address);
    let grant = session.grant();
    let context = short::Context { session: grant.session, handle: grant.handle, key: &grant.key };
    for (sequence, wants_reply) in [(0, false), (1, false), (2, true)] {
        let mut datagram = [0; 18];
        let probe = short::Probe::new(sequence, Timestamp::from_nanos(5), wants_reply);
        probe.encode(&context, &mut datagram).expect("18 B are enough");
        socket.send(&datagram).expect("loopback takes it");
    }
    let answer = reply(&socket);
    let reply = short::Unverified::parse(&answer[..]).and_then(|reply| reply.reply(&context, 2)).expect("it fits");
    assert_eq!((reply.sequence, answer.len()), (2, 18));
    let counters = session.close().expect("the session is open");
    assert_eq!((counters.accepted, counters.replied), (3, 1));
    running.end();
}

#[test]
fn what_a_session_may_not_send_is_refused_by_kind_and_shown_to_its_client() {
    let mut running = Running::start(options());
    let session = running.open(&REQUEST).expect("it is granted");
    let socket = probes_of(&session, running.address);
    settle(&session, &socket, 0);
    let send = |datagram: &[u8]| assert_eq!(socket.send(datagram).expect("loopback takes it"), datagram.len());
    // Replayed.
    send(&probe(&session, 0, 60));
    // Longer than granted.
    send(&probe(&session, 1, 201));
    // A flipped bit.
    let mut forged = probe(&session, 2, 60);
    forged[15] ^= 1;
    send(&forged);
    // Right in all but the port it comes from.
    let elsewhere = probes_of(&session, running.address);
    elsewhere.send(&probe(&session, 3, 60)).expect("loopback takes it");
    // From another address of this host.
    let other = UdpSocket::bind("127.0.0.2:0").expect("all of 127/8 is this host's");
    other.send_to(&probe(&session, 4, 60), running.address).expect("loopback takes it");
    settle(&session, &socket, 5);
    let counters = session.close().expect("the session is open");
    assert_eq!((counters.accepted, counters.replied), (2, 2));
    assert_eq!((counters.duplicate, counters.oversized, counters.forged), (1, 1, 3));
    for (kind, count) in [("duplicate", 1), ("oversized", 1), ("wrong_tag", 1), ("wrong_address", 2)] {
        // Lines of several kinds come in any order.
        if !running.seen.iter().any(|line| line.kind == kind) {
            running.wait_for_events(kind, count);
        }
    }
    running.end();
}

#[test]
fn a_sender_above_its_rate_is_answered_at_its_rate_only() {
    let running = Running::start(options());
    let slow = Open { rate_packet_per_s: 1, burst_packet: 1, ..REQUEST };
    let began = now();
    let session = running.open(&slow).expect("it is granted");
    let socket = probes_of(&session, running.address);
    for sequence in 0..50 {
        socket.send(&probe(&session, sequence, 60)).expect("loopback takes it");
    }
    let mut session = session;
    let counters = loop {
        let counters = session.count().expect("the session is open");
        if counters.accepted + counters.over_rate == 50 {
            break counters;
        }
        // Not yet all judged. Asking without a pause would be hung up on as chatter.
        let _ = running.lines.recv_timeout(Duration::from_millis(100));
    };
    // One, one more for a sender that was delayed, and one for each second that this took.
    assert!((1..=seconds_since(began) + 2).contains(&counters.accepted), "{counters:?}");
    assert_eq!(counters.accepted, counters.replied);
    running.end();
}

#[test]
fn a_spinning_responder_on_a_given_cpu_answers_too() {
    let cpu = vtare_sys::sched::allowed_cpus().expect("affinity is readable")[0];
    let running = Running::start(Options { spin: true, cpu: Some(cpu), ..options() });
    let session = running.open(&REQUEST).expect("it is granted");
    settle(&session, &probes_of(&session, running.address), 0);
    running.end();
}

#[test]
fn both_families_reach_a_responder_on_all_addresses() {
    if !std::path::Path::new("/proc/net/if_inet6").exists() {
        // A host without IPv6.
        return;
    }
    let listen = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
    let running = Running::start(Options { listen, ..options() });
    let port = running.address.port();
    for host in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(host.parse().expect("it is an address"), port);
        let session = client::open(address, Some(&key()), &REQUEST, "test", PATIENCE).expect("it is granted");
        settle(&session, &probes_of(&session, address), 0);
    }
    running.end();
}

/// Addresses of this host that one responder can be asked at.
fn asked_and_answered(listen: SocketAddr, hosts: [&str; 2]) {
    let running = Running::start(Options { listen, ..options() });
    for host in hosts {
        let address = SocketAddr::new(host.parse().expect("it is an address"), running.address.port());
        // Not connected, so that an answer from any address is seen.
        let session = client::open(address, Some(&key()), &REQUEST, "test", PATIENCE).expect("it is granted");
        let socket = UdpSocket::bind((session.local_address().ip(), 0)).expect("loopback has a free port");
        socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
        // Several at once, and another size, so that large sends and single ones are both asked.
        for (sequence, size) in [(0, 60), (1, 60), (2, 61)] {
            socket.send_to(&probe(&session, sequence, size), address).expect("loopback takes it");
        }
        for _ in 0..3 {
            let (_, from) = socket.recv_from(&mut [0; 100]).expect("an answer comes");
            assert_eq!(from, address, "the answer comes from the address that was asked");
        }
    }
    running.end();
}

#[test]
fn a_responder_on_all_addresses_answers_from_the_one_that_was_asked() {
    asked_and_answered(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), ["127.0.0.1", "127.0.0.2"]);
}

#[test]
fn a_responder_for_both_families_does_so_too() {
    if std::path::Path::new("/proc/net/if_inet6").exists() {
        let listen = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
        asked_and_answered(listen, ["127.0.0.2", "::1"]);
    }
}
