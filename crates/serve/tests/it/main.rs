//! The responder with its client over loopback: what is answered, what is refused, what is logged, and how often.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use vtare_control::PresharedKey;
use vtare_control::client::{self, ControlError, OpenedSession};
use vtare_serve::journal::Line;
use vtare_serve::{ConnectionLimits, Options, Responder, ServeError, StampOptions, Summary};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::{Limits, Open, Purpose, WireForm};
use vtare_wire::stamp::StampKey;

mod avb;
mod control;
mod probes;
mod stamp;
mod streams;

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
    ecn: false,
};

fn key() -> PresharedKey {
    PresharedKey::parse("the test", &"5a".repeat(32)).expect("64 hexadecimal digits")
}

fn options() -> Options {
    Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        keys: vec![key()],
        limits: Limits::default(),
        connections: ConnectionLimits::default(),
        spin: false,
        cpu: None,
        segments: true,
        program: "vtare test".to_owned(),
    }
}

/// A responder that runs, until it is stopped.
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

    /// With a STAMP reflector that answers this many packets a second; gives its address too.
    fn with_stamp(rate: u64) -> (Self, SocketAddr) {
        Self::with_stamp_key(rate, None)
    }

    fn with_stamp_key(rate_packet_per_s: u64, key: Option<StampKey>) -> (Self, SocketAddr) {
        let mut responder = Responder::bind(options()).expect("loopback has a free port");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let stamp =
            responder.offer_stamp(any, StampOptions { rate_packet_per_s, key }).expect("loopback has another one");
        (Self::run(responder), stamp)
    }

    fn run(responder: Responder) -> Self {
        let address = responder.address();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, lines) = channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || responder.run(&flag, |line| drop(sender.send(line.clone()))));
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

    /// Waits until lines of this kind have counted `count` events, and gives how many lines it took.
    fn wait_for_events(&mut self, kind: &str, count: u64) -> u64 {
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
