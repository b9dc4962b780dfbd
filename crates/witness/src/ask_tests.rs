use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use vtare_clock::ClockOptions;

use super::*;

/// What a witness of the tests does with a request.
type Act = fn(&HeartbeatKey, &Nonce, &Statement) -> Vec<Vec<u8>>;

/// A witness on a thread of its own.
struct Fake {
    address: SocketAddr,
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn start(statement: Statement, act: Act) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let address = socket.local_addr().expect("bound");
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let over = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let key = PresharedKey::for_heartbeats(None);
            let mut datagram = [0; 200];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut datagram) else { continue };
                let keys = std::slice::from_ref(&key);
                let (nonce, _) = heartbeat::read_request(keys, &datagram[..length]).expect("a request");
                for reply in act(&key, &nonce, &statement) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn stating(host: u64, utc_ms: u64) -> Statement {
    Statement {
        status: 0,
        earliest_ns: utc_ms * 1_000_000,
        latest_ns: (utc_ms + 1) * 1_000_000,
        generation: 1,
        stamp_ns: 5,
        host,
    }
}

fn honest(key: &HeartbeatKey, nonce: &Nonce, statement: &Statement) -> Vec<Vec<u8>> {
    vec![heartbeat::reply(key, nonce, statement).to_vec()]
}

fn asked(fakes: &[Fake]) -> Result<Confirmation, WitnessError> {
    let list: Vec<String> = fakes.iter().map(|fake| fake.address.to_string()).collect();
    let clock = Clock::start(&ClockOptions::fast());
    Witnesses::new(&list.join(","), None).expect("loopback needs no key").confirm(&clock)
}

#[test]
fn three_witnesses_confirm_and_one_of_them_may_lie() {
    let fakes = [stating(1, 5_000), stating(2, 5_000), stating(3, 90)].map(|stated| Fake::start(stated, honest));
    let found = asked(&fakes).expect("two agree");
    assert_eq!((found.confirmed.hosts, found.confirmed.liars, found.confirmed.same_host), (3, 1, 0));
    assert_eq!(found.confirmed.earliest.as_nanos(), 5_000_000_000);
    assert!(found.confirmed.latest.as_nanos() >= 5_001_000_000 && found.round_trip < Span::from_secs(1));
}

#[test]
fn attack_replies_to_other_questions_and_forged_ones_are_not_taken() {
    let bad: Act = |key, nonce, statement| {
        let mut forged = heartbeat::reply(key, nonce, statement);
        forged[30] ^= 1;
        let other_key = HeartbeatKey::derive(&vtare_wire::stamp::StampKey::new([9; 32]));
        vec![
            heartbeat::reply(key, &[7; 16], statement).to_vec(),
            forged.to_vec(),
            heartbeat::reply(&other_key, nonce, statement).to_vec(),
            vec![0; 3],
        ]
    };
    let fakes = [Fake::start(stating(1, 5_000), bad)];
    let error = asked(&fakes).expect_err("nothing true came").to_string();
    assert!(error.contains("too few hosts stated UTC: 0, needed 1"), "{error}");
}

#[test]
fn witnesses_on_one_host_and_on_this_machine_do_not_count() {
    let own = Witnesses::new("127.0.0.1", None).expect("loopback").own_host();
    let fakes = [stating(own, 5_000), stating(7, 5_000), stating(7, 5_000)].map(|stated| Fake::start(stated, honest));
    let found = asked(&fakes).expect("one host is left");
    assert_eq!((found.confirmed.hosts, found.confirmed.liars, found.confirmed.same_host), (1, 0, 2));
}

#[test]
fn witnesses_of_both_families_are_asked_over_one_socket() {
    let fakes = [stating(1, 5_000), stating(2, 5_000)].map(|stated| Fake::start(stated, honest));
    // Nobody listens on the discard port.
    let list = format!("{},{},[::1]:9", fakes[0].address, fakes[1].address);
    let clock = Clock::start(&ClockOptions::fast());
    let found = Witnesses::new(&list, None).expect("loopback needs no key").confirm(&clock).expect("two of three");
    assert_eq!((found.confirmed.hosts, found.confirmed.liars), (2, 1));
}

#[test]
fn a_witness_that_knows_no_utc_and_one_that_is_disrupted_state_nothing() {
    let nothing = [Statement { latest_ns: u64::MAX, ..stating(1, 0) }, Statement { status: 2, ..stating(2, 5_000) }];
    let error = asked(&nothing.map(|stated| Fake::start(stated, honest))).expect_err("nobody knows").to_string();
    assert!(error.contains("stated UTC: 0,") && error.contains("synchronized"), "{error}");
}

#[test]
fn lists_that_name_nobody_or_a_stranger_without_a_key_are_refused() {
    for (list, part) in [("", "0 witnesses"), (",", "0 witnesses"), ("a:b", "no port"), ("192.0.2.1", "VTARE_KEY")] {
        let error = Witnesses::new(list, None).expect_err("refused").to_string();
        assert!(error.contains(part), "{list}: {error}");
    }
    assert!(Witnesses::new(&"127.0.0.1,".repeat(17), None).is_err());
    assert_eq!(Witnesses::new("[::1]:5,127.0.0.1", None).expect("loopback").addresses[1].port(), DEFAULT_PORT);
}
