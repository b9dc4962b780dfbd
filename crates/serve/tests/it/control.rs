//! Requests on the control port: what is granted, refused and reported, and how it ends.

use std::io::{Read, Write};
use std::net::TcpStream;

use vtare_control::TimeLimits;
use vtare_wire::preamble;
use vtare_wire::session::{ClientError, Reason};

use super::*;

#[test]
fn requests_beyond_a_limit_are_refused_with_the_limits() {
    let limits = Limits { rate_packet_per_s: 5_000, sessions_per_peer: 2, ..Limits::default() };
    let mut running = Running::start(Options { limits, ..options() });
    let greedy = running.open(&REQUEST).expect_err("the rate is above the limit");
    let ControlError::Session(ClientError::Refused(refusal)) = greedy else { panic!("refused, not {greedy}") };
    assert_eq!((refusal.reason, refusal.limits), (Reason::Rate { found_packet_per_s: 10_000 }, limits));
    let line = running.line("rate_refused");
    assert!(line.example.contains("10000 packet/s asked, the responder allows 5000"), "{line:?}");

    let modest = Open { rate_packet_per_s: 5_000, ..REQUEST };
    let first = running.open(&modest).expect("it is granted");
    let _second = running.open(&modest).expect("it is granted");
    let third = running.open(&modest).expect_err("two are allowed").to_string();
    assert!(third.contains("2 sessions, as many as the responder allows"), "{third}");
    first.close().expect("it is open");
    running.open(&modest).expect("there is room again");
    running.end();
}

#[test]
fn an_expired_session_answers_no_probe_and_keeps_its_counters_for_its_client() {
    let limits = Limits { idle_ns: 20_000_000, ..Limits::default() };
    let mut running = Running::start(Options { limits, ..options() });
    let session = running.open(&REQUEST).expect("it is granted");
    let socket = probes_of(&session, running.address);
    running.line("expired");
    socket.send(&probe(&session, 0, 60)).expect("loopback takes it");
    running.line("unknown_session");
    let counters = session.close().expect("counters of an expired session are kept");
    assert_eq!((counters.accepted, counters.replied), (0, 0));
    let summary = running.end();
    assert_eq!((summary.replies, summary.discards.unknown_session), (0, 1));
}

#[test]
fn a_wrong_key_is_named_and_shown_once_a_second_at_most() {
    let mut running = Running::start(options());
    let wrong = PresharedKey::parse("the test", &"5b".repeat(32)).expect("64 hexadecimal digits");
    let tries = 20;
    let began = now();
    for _ in 0..tries {
        let error = client::open(running.address, Some(&wrong), &REQUEST, "test", PATIENCE).expect_err("a wrong key");
        assert!(matches!(error, ControlError::WrongKey { .. }), "{error}");
    }
    let error = client::open(running.address, None, &REQUEST, "test", PATIENCE).expect_err("no key");
    assert!(error.to_string().contains("--key-file or VTARE_KEY"), "{error}");
    let lines = running.wait_for_events("wrong_key", tries);
    let most = seconds_since(began) + 2;
    assert!(lines <= most, "{tries} refusals made {lines} lines");
    let summary = running.end();
    assert_eq!((summary.sessions, summary.turned_away), (0, tries + 1));
}

#[test]
fn garbage_on_either_port_is_answered_with_nothing_and_shown_in_few_lines() {
    let mut running = Running::start(options());
    let session = running.open(&REQUEST).expect("it is granted");
    let socket = probes_of(&session, running.address);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let garbage: [&[u8]; 4] = [b"", b"\x11", &[0x11; 60], &[0xff; 1400]];
    let began = now();
    for _ in 0..250 {
        for datagram in garbage {
            stranger.send_to(datagram, running.address).expect("loopback takes it");
        }
    }
    settle(&session, &socket, 0);
    stranger.set_nonblocking(true).expect("sockets can");
    assert!(stranger.recv(&mut [0; 64]).is_err(), "a stranger got an answer");
    // 0x11 sixty times has the right first byte and a wrong size: all four are garbage.
    let lines = running.wait_for_events("garbage", 1_000);
    assert!(lines <= seconds_since(began) + 2, "{lines} lines");

    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 3_000], &[preamble::of_client(true).as_slice(), &[0xff; 99]].concat()]
    {
        let mut stream = TcpStream::connect(running.address).expect("it listens");
        stream.set_read_timeout(Some(FOREVER)).expect("it is above 0");
        // The responder may hang up before all is written.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= preamble::PREAMBLE_BYTE, "{answer:?}");
    }
    settle(&session, &socket, 1);
    assert_eq!(session.close().expect("the session is open").replied, 2);
    running.end();
}

#[test]
fn those_who_trickle_or_only_wait_are_hung_up_on_and_a_session_goes_on() {
    let patience = TimeLimits { handshake: Span::from_millis(100), idle: Span::from_millis(100) };
    let connections = ConnectionLimits { handshakes: 8, patience, ..ConnectionLimits::default() };
    let mut running = Running::start(Options { connections, ..options() });
    // A client gets through its handshake while others hold all places, so it may take some tries.
    let began = now();
    let session = loop {
        match running.open(&REQUEST) {
            Ok(session) => break session,
            Err(error) => assert!(seconds_since(began) < FOREVER.as_secs(), "{error}"),
        }
    };
    let socket = probes_of(&session, running.address);
    let mut waiting: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(running.address).expect("it listens")).collect();
    for (number, stream) in waiting.iter_mut().enumerate() {
        let _ = stream.write_all(&preamble::of_client(true)[..number % 8]);
        stream.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    }
    settle(&session, &socket, 0);
    for stream in &mut waiting {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "a silent client gets no answer");
    }
    running.line("slow");
    settle(&session, &socket, 1);
    assert_eq!(session.close().expect("the session is open").replied, 2);
    let summary = running.end();
    assert!(summary.turned_away >= 100, "{summary:?}");
}

#[test]
fn without_a_key_only_this_host_is_served() {
    let open = Options { keys: Vec::new(), listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), ..options() };
    let error = Responder::bind(open).expect_err("others can reach it").to_string();
    for part in ["--key-file", "VTARE_KEY", "--new-key", "127.0.0.1"] {
        assert!(error.contains(part), "{error}");
    }
    let running = Running::start(Options { keys: Vec::new(), ..options() });
    let error = running.open(&REQUEST).expect_err("it has no key");
    assert!(matches!(error, ControlError::HasNoKey { .. }), "{error}");
    let session = client::open(running.address, None, &REQUEST, "test", PATIENCE).expect("it is granted");
    settle(&session, &probes_of(&session, running.address), 0);
    running.end();
}

#[test]
fn a_client_that_goes_away_ends_its_session() {
    let mut running = Running::start(options());
    let session = running.open(&REQUEST).expect("it is granted");
    let (socket, datagram) = (probes_of(&session, running.address), probe(&session, 0, 60));
    drop(session);
    running.line("abandoned");
    socket.send(&datagram).expect("loopback takes it");
    running.line("unknown_session");
    running.end();
}

#[test]
fn a_responder_that_ends_is_missed_by_its_client_with_a_reason() {
    let running = Running::start(options());
    let address = running.address;
    let session = running.open(&REQUEST).expect("it is granted");
    running.end();
    let error = session.close().expect_err("nobody is there");
    assert!(matches!(error, ControlError::HungUp { .. } | ControlError::Broken { .. }), "{error}");
    let error = client::open(address, Some(&key()), &REQUEST, "test", PATIENCE).expect_err("nobody is there");
    assert!(error.to_string().contains("start `vtare serve` there"), "{error}");
}

#[test]
fn something_else_on_the_port_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client comes");
        let _ = stream.write_all(b"220 mail.example.org ESMTP\r\n");
        let _ = stream.read(&mut [0; 100]);
    });
    let error = client::open(address, Some(&key()), &REQUEST, "test", PATIENCE).expect_err("it is no responder");
    assert!(matches!(error, ControlError::OtherProgram { .. }), "{error}");
    other.join().expect("it does not panic");
}
