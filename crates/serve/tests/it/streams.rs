//! Data connections of sessions for TCP throughput over loopback: what is counted, what is refused, and that both ends
//! agree.

#[path = "../../../vtare/tests/it/common/skips.rs"]
#[allow(dead_code, reason = "the tests of the binary use the rest")]
mod skips;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vtare_control::OpenedSession;
use vtare_control::client::{self, ControlError};
use vtare_control::streams::{Quota, StreamError, Streams};
use vtare_serve::journal::Line;
use vtare_serve::{ConnectionLimits, Options, Responder, ServeError, Summary};
use vtare_units::Span;
use vtare_wire::SessionKey;
use vtare_wire::hello::Hello;
use vtare_wire::preamble::{self, Answer, PREAMBLE_BYTE};
use vtare_wire::session::{ClientError, FlowLimits, FlowPlan, FlowReport, Limits, Open, Purpose, Reason, WireForm};

/// How long anything may take before a test fails: far above what it takes, since nothing here asserts on time.
const FOREVER: Duration = Duration::from_secs(60);
const PATIENCE: Span = Span::from_secs(60);

const PLAN: FlowPlan = FlowPlan { streams: 2, byte: 3_000_000, bin_ns: 100_000_000 };
const REQUEST: Open = Open {
    purpose: Purpose::Tcp,
    form: WireForm::Full,
    rate_packet_per_s: 0,
    burst_packet: 1,
    duration_ns: 60_000_000_000,
    packets: 0,
    size_byte: 60,
    flows: Some(PLAN),
    ecn: false,
};

/// A responder for this host that runs until it is stopped.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    lines: Receiver<Line>,
    thread: JoinHandle<Result<Summary, ServeError>>,
}

impl Running {
    fn start(limits: Limits, connections: ConnectionLimits) -> Self {
        let options = Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            keys: Vec::new(),
            limits,
            connections,
            spin: false,
            cpu: None,
            segments: true,
            program: "vtare test".to_owned(),
        };
        let responder = Responder::bind(options).expect("loopback has a free port");
        let address = responder.address();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, lines) = channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || responder.run(&flag, |line| drop(sender.send(line.clone()))));
        Self { address, stop, lines, thread }
    }

    fn usual() -> Self {
        Self::start(Limits::default(), ConnectionLimits::default())
    }

    fn open(&self, request: &Open) -> Result<OpenedSession, ControlError> {
        client::open(self.address, None, request, "test", PATIENCE)
    }

    /// Waits for a line of this kind.
    fn line(&self, kind: &str) -> Line {
        loop {
            let line = self.lines.recv_timeout(FOREVER).unwrap_or_else(|_| panic!("no line '{kind}'"));
            if line.kind == kind {
                return line;
            }
        }
    }

    /// Sends `bytes` on a new connection and gives the answer.
    fn connect(&self, bytes: &[u8]) -> (TcpStream, Option<Answer>) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(FOREVER)).expect("above 0");
        stream.write_all(bytes).expect("it is taken");
        let mut answer = [0; PREAMBLE_BYTE];
        let answer = stream.read_exact(&mut answer).ok().and_then(|()| preamble::read_responder(&answer));
        (stream, answer.map(|(_, answer)| answer))
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no thread panics").expect("nothing fails on loopback");
    }
}

fn hello(session: &OpenedSession, number: u8) -> Vec<u8> {
    let grant = session.grant();
    Hello { session: grant.session, number }.encode(&grant.key).to_vec()
}

/// Asks until the account is as wanted.
fn until(session: &mut OpenedSession, wanted: impl Fn(&FlowReport) -> bool) -> FlowReport {
    loop {
        let report = session.flows(0).expect("the session is open");
        if wanted(&report) {
            return report;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// Writes until the far end hangs up.
fn write_until_closed(mut stream: &TcpStream) {
    stream.set_write_timeout(Some(FOREVER)).expect("above 0");
    let bytes = vec![0; 100_000];
    let error = loop {
        if let Err(error) = stream.write(&bytes) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
}

#[test]
fn both_ends_count_the_same_bytes_and_the_bins_add_up() {
    let running = Running::usual();
    let mut session = running.open(&REQUEST).expect("it is granted");
    let streams = Streams::open(running.address, session.grant(), Some("reno"), PATIENCE).expect("both are let in");
    assert_eq!(streams.congestion(), "reno");
    let quota = Quota::new(2_345_678);
    streams
        .send(&quota, |done| {
            while !done() && !quota.is_over() {
                std::thread::yield_now();
            }
        })
        .expect("nothing breaks on loopback");
    streams.finish();
    let report = until(&mut session, |report| report.open == 0);
    assert_eq!((quota.taken(), report.byte, report.refused_byte), (2_345_678, 2_345_678, 0));
    assert_eq!((report.joined, report.bins.iter().sum::<u64>(), report.left), (2, report.byte, 0));
    let sent: Option<u64> = streams.infos().expect("they are open").iter().map(|info| info.sent_byte).sum();
    assert!(sent.is_none_or(|sent| sent >= quota.taken()), "the kernel sent at least what it took: {sent:?}");
    session.close().expect("the session is open");
    running.end();
}

#[test]
fn a_copy_another_key_and_a_stream_beyond_those_granted_are_turned_away() {
    let running = Running::usual();
    let mut session = running.open(&REQUEST).expect("it is granted");
    let (_first, answer) = running.connect(&hello(&session, 1));
    assert_eq!(answer, Some(Answer::GoOn));
    assert_eq!(running.connect(&hello(&session, 1)).1, Some(Answer::NoStream));
    running.line("stream_again");
    assert_eq!(running.connect(&hello(&session, 2)).1, Some(Answer::NoStream));
    running.line("stream_not_granted");
    let forged = Hello { session: session.grant().session, number: 0 }.encode(&SessionKey::new([1; 16]));
    assert_eq!(running.connect(&forged).1, Some(Answer::NoStream));
    running.line("stream_wrong_tag");
    let mut unknown = hello(&session, 0);
    unknown[10] ^= 1;
    assert_eq!(running.connect(&unknown).1, Some(Answer::NoStream));
    running.line("stream_unknown_session");
    // Data that did not wait.
    assert_eq!(running.connect(&[hello(&session, 0), vec![0; 9]].concat()).1, Some(Answer::NoStream));
    running.line("stream_hasty");
    let report = session.flows(0).expect("the session is open");
    assert_eq!((report.joined, report.open, report.byte), (1, 1, 0));
    // What was turned away took nothing from those that are granted.
    assert_eq!(running.connect(&hello(&session, 0)).1, Some(Answer::GoOn));
    running.end();
}

#[test]
fn garbage_behind_the_first_bytes_is_hung_up_on() {
    let running = Running::usual();
    for bytes in [&b"vtare\x01\x02"[..], b"vtare\x01\x02\x00garbage", b"vtare\x01\x02\x00garbagegarbagegarbage!!"] {
        let mut stream = TcpStream::connect(running.address).expect("it listens");
        stream.write_all(bytes).expect("it is taken");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut answer = Vec::new();
        let _closed_or_reset = stream.read_to_end(&mut answer);
        assert!(answer.len() <= PREAMBLE_BYTE, "{answer:?}");
    }
    running.end();
}

#[test]
fn bytes_beyond_those_granted_close_the_connection_and_are_counted() {
    let running = Running::usual();
    let mut session = running.open(&REQUEST).expect("it is granted");
    let (stream, answer) = running.connect(&hello(&session, 0));
    assert_eq!(answer, Some(Answer::GoOn));
    write_until_closed(&stream);
    running.line("stream_over_byte");
    let report = until(&mut session, |report| report.open == 0);
    assert_eq!(report.byte, PLAN.byte);
    assert!(report.refused_byte > 0);
    running.end();
}

#[test]
fn bytes_after_the_time_granted_close_the_connection() {
    let running = Running::usual();
    let plan = FlowPlan { byte: 1_000_000_000_000, ..PLAN };
    // On a machine that stalls the time may be over before the connection is made.
    let stream = [200, 2_000, 20_000].into_iter().find_map(|millis| {
        let request = Open { duration_ns: millis * 1_000_000, flows: Some(plan), ..REQUEST };
        let session = running.open(&request).expect("it is granted");
        let (stream, answer) = running.connect(&hello(&session, 0));
        (answer == Some(Answer::GoOn)).then_some((stream, session))
    });
    let Some((stream, _session)) = stream else { return skips::spoiled("this machine stalled for 20 s") };
    write_until_closed(&stream);
    running.line("stream_over_time");
    running.end();
}

#[test]
fn a_silent_connection_is_closed_and_so_are_all_when_the_session_ends() {
    let silent = FlowLimits { silent_ns: 50_000_000, ..FlowLimits::default() };
    let running = Running::start(Limits { tcp: Some(silent), ..Limits::default() }, ConnectionLimits::default());
    let mut session = running.open(&REQUEST).expect("it is granted");
    let (mut stream, _) = running.connect(&hello(&session, 0));
    running.line("stream_silent");
    assert!(stream.read(&mut [0; 1]).map_or(true, |got| got == 0), "it is closed");
    assert_eq!(until(&mut session, |report| report.open == 0).byte, 0);
    running.end();

    let running = Running::usual();
    let session = running.open(&REQUEST).expect("it is granted");
    let (mut stream, _) = running.connect(&hello(&session, 0));
    session.close().expect("it is open");
    running.line("stream_session_ended");
    assert!(stream.read(&mut [0; 1]).map_or(true, |got| got == 0), "it is closed");
    running.end();
}

#[test]
fn a_stranger_who_stops_in_the_first_bytes_is_closed_with_all_slow_handshakes() {
    let mut connections = ConnectionLimits::default();
    connections.patience.handshake = Span::from_millis(50);
    let running = Running::start(Limits::default(), connections);
    let mut stream = TcpStream::connect(running.address).expect("it listens");
    stream.write_all(b"vtare\x01\x02\x00half of").expect("it is taken");
    running.line("slow");
    assert!(stream.read(&mut [0; 1]).map_or(true, |got| got == 0), "it is closed");
    running.end();
}

#[test]
fn data_connections_count_among_the_connections_of_their_peer_and_give_their_place_back() {
    let connections = ConnectionLimits { connections_per_peer: 2, ..ConnectionLimits::default() };
    let running = Running::start(Limits::default(), connections);
    let mut session = running.open(&REQUEST).expect("it is granted");
    let error = Streams::open(running.address, session.grant(), None, PATIENCE).expect_err("two are one too many");
    assert!(matches!(error, StreamError::Refused { number: 1, .. }), "{error}");
    running.line("connections");
    // The first was closed with the error; its place is free again, and its number is not.
    until(&mut session, |report| report.open == 0);
    session.close().expect("it is open");
    loop {
        // The place is given back by another thread.
        let Ok(session) = running.open(&REQUEST) else { continue };
        let answer = running.connect(&hello(&session, 0)).1;
        if answer == Some(Answer::GoOn) {
            break;
        }
        assert_eq!(answer, Some(Answer::Busy));
    }
    running.end();
}

#[test]
fn what_is_above_the_limits_is_refused_with_the_limits() {
    let running = Running::usual();
    let flows = |change: fn(&mut FlowPlan)| {
        let mut plan = PLAN;
        change(&mut plan);
        Open { flows: Some(plan), ..REQUEST }
    };
    let cases: [(Open, Reason, &str); 6] = [
        (flows(|it| it.streams = 17), Reason::Streams { found: 17 }, "allows 1 to 16"),
        (flows(|it| it.streams = 0), Reason::Streams { found: 0 }, "allows 1 to 16"),
        (flows(|it| it.byte = u64::MAX), Reason::FlowByte { found_byte: u64::MAX }, "allows 1000000000000"),
        (flows(|it| it.bin_ns = 1_000_000), Reason::Bins { found: 60_001 }, "keeps 1024"),
        (Open { flows: None, ..REQUEST }, Reason::FlowPurpose, "no other"),
        (Open { purpose: Purpose::Rtt, ..REQUEST }, Reason::FlowPurpose, "no other"),
    ];
    for (request, reason, words) in cases {
        let Err(ControlError::Session(ClientError::Refused(refusal))) = running.open(&request) else {
            panic!("{request:?} is refused")
        };
        assert_eq!(refusal.reason, reason);
        assert!(refusal.to_string().contains(words), "{refusal}");
        assert_eq!(refusal.limits.tcp, Some(FlowLimits::default()));
    }
    running.end();
}
