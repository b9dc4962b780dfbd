//! Trains between a client and a responder over loopback: each packet reported, trains back within what was sent.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use vtare_clock::{Clock, ClockOptions};
use vtare_control::client::{self, ControlError};
use vtare_control::{OpenedSession, PresharedKey};
use vtare_link::socket::{SocketLink, SocketOptions};
use vtare_probe::train::{AvbError, AvbSession, Grouped, Settling};
use vtare_serve::{ConnectionLimits, Options, Responder, ServeError, Summary};
use vtare_traffic::{Spacing, Train};
use vtare_units::{Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::{ClientError, Limits, Open, Purpose, Reason, ReversePlan, WireForm};

const PATIENCE: Span = Span::from_secs(60);

const REQUEST: Open = Open {
    purpose: Purpose::Avb,
    form: WireForm::Full,
    rate_packet_per_s: 1_000_000,
    burst_packet: 10_000,
    duration_ns: 60_000_000_000,
    packets: 1_000_000,
    size_byte: 1_472,
    flows: None,
    ecn: false,
};

fn key() -> PresharedKey {
    PresharedKey::parse("the test", &"5a".repeat(32)).expect("64 hexadecimal digits")
}

struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Summary, ServeError>>,
}

impl Running {
    fn start(limits: Limits) -> Self {
        let options = Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            keys: vec![key()],
            limits,
            connections: ConnectionLimits::default(),
            spin: false,
            cpu: None,
            segments: true,
            program: "vtare test".to_owned(),
        };
        let responder = Responder::bind(options).expect("loopback has a free port");
        let (address, stop) = (responder.address(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || responder.run(&flag, |_| ()));
        Self { address, stop, thread }
    }

    fn session<'c>(&self, clock: &'c Clock) -> AvbSession<SocketLink<'c>, OpenedSession> {
        let options = SocketOptions { tx_stamp_every: 16, gro: true, ..SocketOptions::default() };
        // A responder that a busy machine delays loses nothing.
        let settling = Settling { first: PATIENCE, quiet: Span::from_secs(20) };
        let far = client::open(self.address, Some(&key()), &REQUEST, "test", PATIENCE).expect("it is granted");
        let options = SocketOptions { local: Some(far.local_address()), ..options };
        let link = SocketLink::udp(clock, self.address, &options, "a test").expect("loopback is there");
        let grant = far.grant().clone();
        AvbSession::new(link, far, grant).with_settling(settling)
    }

    fn end(self) -> Summary {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no thread panics").expect("nothing fails on loopback")
    }
}

fn clock() -> Clock {
    Clock::start(&ClockOptions::fast())
}

#[test]
fn every_packet_of_a_train_is_shown_with_the_responders_kernel_stamp() {
    let (clock, running) = (clock(), Running::start(Limits::default()));
    let mut session = running.session(&clock);
    for packets in [1, 16] {
        let spacing = Spacing::groups(packets, 12_000.0 * f64::from(packets));
        let train = Train { packets: 1_000, size_byte: 1_500, spacing, idle_before_ns: 0 };
        let seen = session.send(&train, Grouped::Groups).expect("it is sent");
        assert_eq!(seen.packets.len(), 1_000);
        // Loopback loses nothing but what finds a buffer full, and that is counted.
        assert_eq!(seen.lost(), 0, "{:?}", seen.receiver_drops);
        for packet in seen.packets.iter().filter(|packet| packet.received.is_some()) {
            let (sent, received) = (packet.sent.expect("it arrived"), packet.received.expect("it did"));
            // One host, one clock: the kernel had it after the call began. The stamp is placed to within its bracket,
            // which is as wide as this machine stalled in it.
            let there = Timestamp::from_nanos(received.as_nanos());
            assert!(there + Span::from_millis(100) > sent);
        }
        let calls = seen.packets.last().map_or(0, |packet| packet.call + 1);
        assert_eq!(calls, if session.link_gso() { 1_000_u32.div_ceil(packets) } else { 1_000 });
    }
    let (_, far) = session.into_parts();
    let counters = far.close().expect("the session is open");
    assert_eq!(counters.replied, 0);
    running.end();
}

/// Waits until this many probes have been judged. Asking without a pause would be hung up on as chatter.
fn await_accepted(session: &mut OpenedSession, count: u64) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    while session.count().expect("it is open").accepted < count {
        let _ = nothing.recv_timeout(std::time::Duration::from_millis(100));
    }
}

trait Gso {
    fn link_gso(&self) -> bool;
}

impl Gso for AvbSession<SocketLink<'_>, OpenedSession> {
    fn link_gso(&self) -> bool {
        use vtare_probe::link::ProbeLink;
        self.link().facts().capabilities.gso
    }
}

#[test]
fn a_train_back_comes_to_the_port_that_was_shown_and_never_above_what_was_sent() {
    let (clock, running) = (clock(), Running::start(Limits::default()));
    let mut session = running.session(&clock);
    let even = |packets| {
        let spacing = Spacing::Constant { gap_ns: 50_000.0 };
        Train { packets, size_byte: 1_028, spacing, idle_before_ns: 0 }
    };
    let train = even(200);
    let refused = |result| match result {
        Err(AvbError::Far(ControlError::Session(ClientError::Refused(refusal)))) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(session.send_back(&train, Grouped::Never)).reason, Reason::Unproven);
    session.send(&even(100), Grouped::Never).expect("it is sent");
    let refusal = refused(session.send_back(&train, Grouped::Never));
    assert!(matches!(refusal.reason, Reason::Reverse { found: 200, most: ..=100, .. }), "{refusal:?}");
    assert!(refusal.to_string().contains("send one-way probes first"), "{refusal}");
    session.send(&even(150), Grouped::Never).expect("it is sent");
    let report = session.send_back(&train, Grouped::Never).expect("it is paid for");
    assert!(session.all_left());
    let arrived: Vec<_> = report.packets.iter().filter_map(|packet| Some((packet.sent?, packet.received?))).collect();
    let came = arrived.len() as u32;
    assert!(came > 0 && came + report.receiver_drops.unwrap_or(0) == 200, "{came} {:?}", report.receiver_drops);
    assert!(arrived.iter().all(|(sent, received)| received.as_nanos() + 100_000_000 > sent.as_nanos()));
    let counters = session.count().expect("the session is open");
    assert!(counters.replied_byte + counters.reverse_byte <= counters.accepted_byte, "{counters:?}");
    assert_eq!(refused(session.send_back(&train, Grouped::Never)).limits, Limits::default());
    running.end();
}

#[test]
fn only_one_train_back_is_under_way_in_a_session_and_none_for_other_purposes() {
    let running = Running::start(Limits::default());
    let open = |request: &Open| client::open(running.address, Some(&key()), request, "test", PATIENCE);
    let spacing = Spacing::Constant { gap_ns: 5e7 };
    let plan = ReversePlan { packets: 10, size_byte: 60, spacing, burst_packet: 1 };
    let pay = |session: &OpenedSession| {
        let socket = UdpSocket::bind((session.local_address().ip(), 0)).expect("loopback has a free port");
        for sequence in 0..100 {
            let mut datagram = [0; 60];
            let grant = session.grant();
            let (session, sent) = (grant.session, Timestamp::ZERO);
            let probe = full::Probe { session, sequence, sent, wants_reply: false };
            probe.encode(&grant.key, &mut datagram).expect("60 B are enough");
            socket.send_to(&datagram, running.address).expect("loopback takes it");
        }
        socket
    };
    let mut session = open(&REQUEST).expect("it is granted");
    let socket = pay(&session);
    await_accepted(&mut session, 100);
    session.reverse(plan.clone()).expect("it is paid for");
    // A machine that stalls may have ended one train before the next is asked for; they are paid for.
    let asked = (1..10).map(|trains| (trains, session.reverse(plan.clone()))).find(|(_, answer)| answer.is_err());
    let (trains, refused) = asked.expect("one at a time");
    let Err(ControlError::Session(ClientError::Refused(refusal))) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason, Reason::Reversing);
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("it is above 0");
    for sequence in 0..trains * 10 {
        let mut datagram = [0; 100];
        let got = socket.recv(&mut datagram).expect("it comes");
        let packet = full::Unverified::parse(&datagram[..got]).and_then(|it| it.reverse(&session.grant().key));
        assert_eq!(packet.expect("the tag fits").sequence, sequence);
    }
    let mut session = open(&Open { purpose: Purpose::Throughput, ..REQUEST }).expect("it is granted");
    let _socket = pay(&session);
    await_accepted(&mut session, 100);
    let refused = session.reverse(plan).expect_err("not for throughput");
    assert!(
        matches!(refused, ControlError::Session(ClientError::Refused(refusal)) if refusal.reason == Reason::Purpose)
    );
    running.end();
}

#[test]
fn memory_for_arrivals_is_bounded_over_all_sessions() {
    let limits = Limits { arrivals: 4_096, arrivals_in_all: 10_000, ..Limits::default() };
    let running = Running::start(limits);
    let open = || client::open(running.address, Some(&key()), &REQUEST, "test", PATIENCE);
    let (first, _second) = (open().expect("it is granted"), open().expect("it is granted"));
    let third = open().expect_err("12,288 arrivals are above 10,000").to_string();
    assert!(third.contains("keeps 10000 arrivals"), "{third}");
    first.close().expect("it is open");
    open().expect("there is room again");
    running.end();
}
