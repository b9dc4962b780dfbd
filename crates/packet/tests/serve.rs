//! The responder with its client over loopback: what is answered, what is refused, what is told, and how often.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vtare_packet::control::client::{self, ControlError, OpenedSession};
use vtare_packet::control::server::Patience;
use vtare_packet::control::{PresharedKey, preamble};
use vtare_packet::serve::journal::Line;
use vtare_packet::serve::{CrowdLimits, Options, Responder, ServeError, Summary};
use vtare_packet::session::{ClientError, Limits, Open, Purpose, Reason, WireForm};
use vtare_packet::wire::{full, short};
use vtare_units::{Monotonic, Span, Timestamp};

/// How long anything may take before a test fails: far above what it takes, since nothing here asserts on time.
const FOREVER: Duration = Duration::from_secs(60);
const PATIENCE: Span = Span::from_secs(60);

fn now() -> Timestamp<Monotonic> {
    vtare_sys::clocks::now()
}

/// Whole seconds since then.
fn seconds_since(began: Timestamp<Monotonic>) -> u64 {
    (now() - began).as_nanos_unsigned() / 1_000_000_000
}

const REQUEST: Open = Open {
    purpose: Purpose::Rtt,
    form: WireForm::Full,
    rate_packet_per_s: 10_000,
    burst_packet: 100,
    duration_ns: 60_000_000_000,
    packets: 1_000,
    size_byte: 200,
    flows: None,
};

fn key() -> PresharedKey {
    PresharedKey::parse("the test", &"5a".repeat(32)).expect("64 hexadecimal digits")
}

fn options() -> Options {
    Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        key: Some(key()),
        limits: Limits::default(),
        crowd: CrowdLimits::default(),
        spin: false,
        cpu: None,
        segments: true,
        program: "vtare test".to_owned(),
    }
}

/// A responder that runs, until it is told to end.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    lines: Receiver<Line>,
    seen: Vec<Line>,
    thread: JoinHandle<Result<Summary, ServeError>>,
}

impl Running {
    fn start(options: Options) -> Self {
        Self::run(Responder::bind(options).expect("loopback has a free port"))
    }

    /// With a STAMP reflector that answers so many packets a second; gives its address too.
    fn with_stamp(rate: u64) -> (Self, SocketAddr) {
        let mut responder = Responder::bind(options()).expect("loopback has a free port");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let stamp = responder.offer_stamp(any, rate).expect("loopback has another one");
        (Self::run(responder), stamp)
    }

    fn run(responder: Responder) -> Self {
        let address = responder.address();
        let stop = Arc::new(AtomicBool::new(false));
        let (told, lines) = channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || responder.run(&flag, |line| drop(told.send(line.clone()))));
        Self { address, stop, lines, seen: Vec::new(), thread }
    }

    fn open(&self, request: &Open) -> Result<OpenedSession, ControlError> {
        client::open(self.address, Some(&key()), request, "test", PATIENCE)
    }

    /// Waits for a line of this kind.
    fn line(&mut self, kind: &str) -> Line {
        loop {
            let line = self.lines.recv_timeout(FOREVER).unwrap_or_else(|_| panic!("no '{kind}' among {:?}", self.seen));
            self.seen.push(line.clone());
            if line.kind == kind {
                return line;
            }
        }
    }

    /// Waits until lines of this kind have told of `count` events, and gives how many lines it took.
    fn told(&mut self, kind: &str, count: u64) -> u64 {
        let (mut lines, mut sum) = (0, 0);
        while sum < count {
            sum += self.line(kind).count;
            lines += 1;
        }
        assert_eq!(sum, count, "{:?}", self.seen);
        lines
    }

    fn end(self) -> Summary {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no thread panics").expect("nothing fails on loopback")
    }
}

fn probes_of(session: &OpenedSession, responder: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((session.local_address().ip(), 0)).expect("loopback has a free port");
    socket.connect(responder).expect("loopback is there");
    socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    socket
}

fn probe(session: &OpenedSession, sequence: u64, size: usize) -> Vec<u8> {
    let grant = session.grant();
    let probe =
        full::Probe { session: grant.session, sequence, sent: Timestamp::from_nanos(sequence), wants_reply: true };
    let mut datagram = vec![0xee; size];
    probe.encode(&grant.key, &mut datagram).expect("the size is allowed");
    datagram
}

fn reply(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 10_000];
    let length = socket.recv(&mut buffer).expect("the reply comes");
    buffer.truncate(length);
    buffer
}

/// Sends a valid probe and waits for its reply: everything sent before has been judged then.
fn settle(session: &OpenedSession, socket: &UdpSocket, sequence: u64) {
    socket.send(&probe(session, sequence, 60)).expect("loopback takes it");
    let answer = reply(socket);
    let reply = full::Unverified::parse(&answer[..]).and_then(|reply| reply.reply(&session.grant().key));
    assert_eq!(reply.expect("the tag fits").probe.sequence, sequence);
}

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
fn what_a_session_may_not_send_is_refused_by_kind_and_told_to_its_client() {
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
            running.told(kind, count);
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
    // One, one more for a sender that was held up, and one for each second that this took.
    assert!((1..=seconds_since(began) + 2).contains(&counters.accepted), "{counters:?}");
    assert_eq!(counters.accepted, counters.replied);
    running.end();
}

#[test]
fn requests_beyond_a_limit_are_refused_with_the_limits() {
    let limits = Limits { rate_packet_per_s: 5_000, sessions_per_peer: 2, ..Limits::default() };
    let mut running = Running::start(Options { limits, ..options() });
    let greedy = running.open(&REQUEST).expect_err("the rate is above the limit");
    let ControlError::Talk(ClientError::Refused(refusal)) = greedy else { panic!("refused, not {greedy}") };
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
fn a_wrong_key_is_named_and_told_once_a_second_at_most() {
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
    let lines = running.told("wrong_key", tries);
    let most = seconds_since(began) + 2;
    assert!(lines <= most, "{tries} refusals made {lines} lines");
    let summary = running.end();
    assert_eq!((summary.sessions, summary.turned_away), (0, tries + 1));
}

#[test]
fn garbage_on_either_port_is_answered_with_nothing_and_told_in_few_lines() {
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
    let lines = running.told("garbage", 1_000);
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
    let patience = Patience { handshake: Span::from_millis(100), idle: Span::from_millis(100) };
    let crowd = CrowdLimits { handshakes: 8, patience, ..CrowdLimits::default() };
    let mut running = Running::start(Options { crowd, ..options() });
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
        assert_eq!(answer, b"", "who says nothing hears nothing");
    }
    running.line("slow");
    settle(&session, &socket, 1);
    assert_eq!(session.close().expect("the session is open").replied, 2);
    let summary = running.end();
    assert!(summary.turned_away >= 100, "{summary:?}");
}

#[test]
fn without_a_key_only_this_host_is_served() {
    let open = Options { key: None, listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), ..options() };
    let error = Responder::bind(open).expect_err("others can reach it").to_string();
    for part in ["--key-file", "VTARE_KEY", "--new-key", "127.0.0.1"] {
        assert!(error.contains(part), "{error}");
    }
    let running = Running::start(Options { key: None, ..options() });
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
    assert!(matches!(error, ControlError::Stranger { .. }), "{error}");
    other.join().expect("it does not panic");
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

/// RFC 8762, 4.2.1, by hand: number, NTP time, error estimate (S, Z, scale, multiplier), then zeros.
fn stamp_packet(sequence: u32, estimate: u16, size: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[0..4].copy_from_slice(&sequence.to_be_bytes());
    packet[4..12].copy_from_slice(&0xe000_0001_8000_0000_u64.to_be_bytes());
    packet[12..14].copy_from_slice(&estimate.to_be_bytes());
    packet
}

#[test]
fn a_stamp_packet_of_any_make_is_reflected_byte_for_byte_as_the_rfc_has_it() {
    let (running, stamp) = Running::with_stamp(1_000);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(stamp).expect("loopback is there");
    socket.set_read_timeout(Some(FOREVER)).expect("it is above 0");
    let mut before = 0;
    for (sequence, estimate, size) in [(7_u32, 0x8001_u16, 44), (u32::MAX, 0x0001, 44), (0, 0xc001, 1_000)] {
        let mut packet = stamp_packet(sequence, estimate, size);
        packet[14..16].copy_from_slice(&[0xab, 0xcd]);
        if size > 44 {
            packet[44..].fill(0x5e);
        }
        socket.send(&packet).expect("loopback takes it");
        let answer = reply(&socket);
        assert_eq!(answer.len(), size, "as long as it came");
        assert_eq!(answer[0..4], packet[0..4], "a stateless reflector copies the number");
        assert_eq!(answer[14..16], [0xab, 0xcd], "the identifier of RFC 8972");
        assert_eq!(answer[24..38], packet[0..14], "number, time and estimate of the sender");
        assert_eq!(answer[38..40], [0, 0]);
        assert_eq!(answer[40], 64, "the TTL that it came with");
        assert_eq!(answer[41..44], [0, 0, 0]);
        assert!(answer[44..].iter().all(|byte| *byte == 0x5e), "the padding comes back");
        // The reflector answers in the sender's format: NTP counts from 1900, PTP from 1970.
        let word = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().expect("8 B"));
        let (replied, received) = (word(4), word(16));
        assert!(received <= replied, "{received:x} {replied:x}");
        assert_eq!(answer[12] >> 6 & 1, u8::from(estimate & 0x4000 != 0));
        assert_ne!(answer[13], 0, "a multiplier of 0 is to be discarded");
        if estimate & 0x4000 == 0 {
            assert!(replied >> 32 > 3_900_000_000 && received >= before, "seconds since 1900");
            before = replied;
        } else {
            assert!(
                replied >> 32 < 3_900_000_000 && replied & 0xffff_ffff < 1_000_000_000,
                "seconds and ns since 1970"
            );
        }
    }
    running.end();
}

#[test]
fn a_stamp_reflector_drops_what_is_no_senders_packet_and_what_is_above_its_rate() {
    let (mut running, stamp) = Running::with_stamp(100);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.connect(stamp).expect("loopback is there");
    // Too short; a multiplier of 0.
    for packet in [&stamp_packet(1, 0x8001, 43)[..], &stamp_packet(2, 0x8000, 44), b""] {
        socket.send(packet).expect("loopback takes it");
    }
    running.told("stamp_garbage", 3);
    // 100 a second, 2 at once: some of 50 are too many, unless this machine takes half a second to send them.
    let (began, mut sent) = (now(), 0);
    let refused = loop {
        for sequence in 0..50 {
            socket.send(&stamp_packet(sequence, 0x8001, 44)).expect("loopback takes it");
        }
        sent += 50;
        if let Some(line) =
            running.lines.recv_timeout(Duration::from_secs(2)).ok().filter(|it| it.kind == "stamp_over_rate")
        {
            break line.count;
        }
        assert!(seconds_since(began) < FOREVER.as_secs(), "{sent} packets were never too many");
    };
    assert!((1..sent).contains(&refused), "{refused} of {sent}");
    // A reflector's port: two reflectors would answer each other for ever.
    let Ok(other) = UdpSocket::bind("127.0.0.1:1000") else { return };
    other.send_to(&stamp_packet(1, 0x8001, 44), stamp).expect("loopback takes it");
    running.told("stamp_garbage", 1);
    running.end();
}
