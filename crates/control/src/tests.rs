use std::net::IpAddr;
use std::sync::Mutex;

use proptest::prelude::*;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::preamble::{self, Answer, PREAMBLE_BYTE};
use vtare_wire::session::{
    Client, ClientError, Limits, Open, Purpose, Reason, Secrets, Step, Table, ToClient, ToResponder, WireForm,
};
use vtare_wire::{SessionId, SessionKey};

use super::channel::{Channel, HANDSHAKE_BYTE, Handshake, LARGEST_MESSAGE_BYTE};
use super::server::{Connection, INBOX_BYTE};
use super::{Event, FirstMessages, Hangup, KeyError, PresharedKey, Surroundings, TimeLimits, decode, frame};

/// Cases of each property: many where they are cheap, enough to find a slip where the build is slow.
const CASES: u32 = if cfg!(debug_assertions) { 2_000 } else { 100_000 };

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const START: Timestamp<Monotonic> = Timestamp::from_nanos(1_000_000_000_000);
const REQUEST: Open = Open {
    purpose: Purpose::Rtt,
    form: WireForm::Full,
    rate_packet_per_s: 1_000,
    burst_packet: 1,
    duration_ns: 1_000_000_000,
    packets: 1_000,
    size_byte: 64,
    flows: None,
    ecn: false,
};

fn key(fill: &str) -> PresharedKey {
    PresharedKey::parse("the test", &fill.repeat(32)).expect("64 hexadecimal digits")
}

/// A responder without sockets: its key, its sessions, and what happened.
struct Responder {
    key: Option<PresharedKey>,
    more_keys: Vec<PresharedKey>,
    table: Mutex<Table>,
    connection: Connection,
    first_messages: FirstMessages,
    events: Vec<Event>,
    next_session: u64,
}

impl Responder {
    fn new(key: Option<PresharedKey>) -> Self {
        Self {
            key,
            more_keys: Vec::new(),
            table: Mutex::new(Table::new(Limits::default())),
            connection: Connection::new(PEER, START, TimeLimits::default()),
            first_messages: FirstMessages::default(),
            events: Vec::new(),
            next_session: 1,
        }
    }

    fn receive(&mut self, now: Timestamp<Monotonic>, bytes: &[u8]) -> Result<(), Hangup> {
        let keys: Vec<PresharedKey> = self.key.iter().chain(&self.more_keys).cloned().collect();
        let around = Surroundings {
            keys: &keys,
            first_messages: &self.first_messages,
            table: &self.table,
            program: "vtare test",
            patience: TimeLimits::default(),
            socket_drops: &|| Some(0),
        };
        let (next, events) = (&mut self.next_session, &mut self.events);
        let mut secrets = || {
            *next += 1;
            Secrets { session: SessionId(*next), key: SessionKey::new([9; 16]) }
        };
        self.connection.receive(now, bytes, &around, &mut secrets, &mut |event| events.push(event))
    }

    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(self.connection.outbox())
    }

    fn sessions(&self) -> usize {
        self.table.lock().expect("no test panics with the lock").len()
    }

    /// Sends a message on an encrypted connection and gives the answer.
    fn ask(&mut self, now: Timestamp<Monotonic>, channel: &mut Channel, message: &ToResponder) -> ToClient {
        let mut out = Vec::new();
        channel.write(message, &mut out).expect("messages are short");
        // A refusal that ends the exchange is an answer too.
        let _ = self.receive(now, &out);
        answer(channel, &self.take_output())
    }
}

fn answer(channel: &mut Channel, output: &[u8]) -> ToClient {
    let body = frame::first(output, 5_000).expect("answers are short").expect("the answer is whole");
    decode(&channel.read(body).expect("it decrypts")).expect("it is a message")
}

/// The first bytes of a client: preamble and message 1.
fn opening(key: Option<&PresharedKey>) -> (Vec<u8>, Handshake) {
    let mut bytes = preamble::of_client(key.is_some()).to_vec();
    let mut handshake = Handshake::of_client(key, &bytes).expect("the pattern is known");
    handshake.write(&mut bytes).expect("it is the client's turn");
    (bytes, handshake)
}

fn connected(responder: &mut Responder) -> Channel {
    let (bytes, mut handshake) = opening(responder.key.clone().as_ref());
    responder.receive(START, &bytes).expect("the key fits");
    let output = responder.take_output();
    let (answer, rest) = output.split_first_chunk::<PREAMBLE_BYTE>().expect("a preamble");
    assert_eq!(preamble::read_responder(answer), Some((preamble::VERSION, Answer::GoOn)));
    handshake.read(frame::first(rest, HANDSHAKE_BYTE).expect("short").expect("whole")).expect("message 2 fits");
    handshake.finish().expect("the handshake is over")
}

fn open_session(
    responder: &mut Responder,
    channel: &mut Channel,
    request: Open,
) -> Result<(Client, Step), ClientError> {
    let mut client = Client::new(request, "test", Span::from_secs(1));
    let hello = client.start(START);
    let Step::Say(open) = client.receive(START, responder.ask(START, channel, &hello))? else {
        panic!("the client asks after the welcome")
    };
    let answer = responder.ask(START, channel, &open);
    client.receive(START, answer).map(|step| (client, step))
}

fn refused(responder: &mut Responder, bytes: &[u8]) -> (Hangup, Vec<u8>) {
    let hangup = responder.receive(START, bytes).expect_err("it is refused");
    assert_eq!(responder.sessions(), 0);
    let output = responder.take_output();
    assert!(output.len() <= bytes.len(), "a stranger got {} B for {} B", output.len(), bytes.len());
    (hangup, output)
}

fn answered(output: &[u8]) -> Option<Answer> {
    output.first_chunk::<PREAMBLE_BYTE>().and_then(preamble::read_responder).map(|(_, answer)| answer)
}

#[test]
fn a_client_with_the_key_opens_counts_and_closes() {
    for key in [Some(key("ab")), None] {
        let mut responder = Responder::new(key);
        let mut channel = connected(&mut responder);
        let (mut client, step) = open_session(&mut responder, &mut channel, REQUEST).expect("it is granted");
        let Step::Probe(grant) = step else { panic!("probes follow") };
        assert_eq!((grant.open, responder.sessions()), (REQUEST, 1));
        let count = client.count(START).expect("the session is open");
        let counted = client.receive(START, responder.ask(START, &mut channel, &count)).expect("counters come");
        assert!(matches!(counted, Step::Counted(counters) if counters.accepted == 0));
        let close = client.close(START).expect("the session is open");
        let done = client.receive(START, responder.ask(START, &mut channel, &close)).expect("counters come");
        assert!(matches!(done, Step::Done(_)));
        assert_eq!(responder.sessions(), 0);
        assert!(matches!(responder.events[..], [Event::Opened(..), Event::Closed(..)]));
    }
}

#[test]
fn bytes_that_come_one_by_one_make_the_same_talk() {
    let mut responder = Responder::new(Some(key("ab")));
    let (bytes, mut handshake) = opening(Some(&key("ab")));
    for byte in bytes {
        responder.receive(START, &[byte]).expect("the key fits");
    }
    let output = responder.take_output();
    handshake.read(&output[PREAMBLE_BYTE + 2..]).expect("message 2 fits");
    assert!(responder.connection.has_shown_key() && !responder.connection.is_authenticated());
    let mut out = Vec::new();
    let hello = Client::new(REQUEST, "test", Span::from_secs(1)).start(START);
    handshake.finish().and_then(|mut channel| channel.write(&hello, &mut out)).expect("it is short");
    let last = out.pop().expect("a frame has bytes");
    out.iter().for_each(|byte| responder.receive(START, &[*byte]).expect("the key fits"));
    assert!(!responder.connection.is_authenticated(), "the frame is not whole");
    responder.receive(START, &[last]).expect("the key fits");
    assert!(responder.connection.is_authenticated());
}

#[test]
fn a_copy_of_a_first_message_gets_no_byte_and_its_deadline_is_that_of_the_connection() {
    let mut responder = Responder::new(Some(key("ab")));
    let (bytes, _) = opening(Some(&key("ab")));
    let late = START + Span::from_secs(4);
    responder.receive(late, &bytes).expect("the key fits");
    assert_eq!(responder.connection.check(START + Span::from_secs(5)), Err(Hangup::SlowHandshake));
    responder.take_output();
    responder.connection = Connection::new(PEER, START, TimeLimits::default());
    let (hangup, output) = refused(&mut responder, &bytes);
    assert_eq!((hangup, output.len()), (Hangup::Replayed, 0));
    // Another message of the same client is none.
    responder.connection = Connection::new(PEER, START, TimeLimits::default());
    connected(&mut responder);
}

#[test]
fn each_of_two_keys_lets_a_client_in_while_the_clients_change_to_the_new_one() {
    for (own, fits) in [("ab", true), ("cd", true), ("ef", false)] {
        let mut responder = Responder::new(Some(key("ab")));
        responder.more_keys.push(key("cd"));
        let (bytes, _) = opening(Some(&key(own)));
        assert_eq!(responder.receive(START, &bytes).is_ok(), fits, "{own}");
    }
}

#[test]
fn a_wrong_key_is_refused_by_name_and_opens_nothing() {
    let mut responder = Responder::new(Some(key("ab")));
    let (hangup, output) = refused(&mut responder, &opening(Some(&key("ac"))).0);
    assert_eq!((hangup, answered(&output)), (Hangup::WrongKey, Some(Answer::WrongKey)));
}

#[test]
fn a_key_on_one_side_only_is_named() {
    let (hangup, output) = refused(&mut Responder::new(Some(key("ab"))), &opening(None).0);
    assert_eq!((hangup, answered(&output)), (Hangup::NeedsKey, Some(Answer::NeedsKey)));
    let (hangup, output) = refused(&mut Responder::new(None), &opening(Some(&key("ab"))).0);
    assert_eq!((hangup, answered(&output)), (Hangup::HasNoKey, Some(Answer::HasNoKey)));
}

#[test]
fn another_version_of_the_connection_is_named() {
    let mut bytes = opening(None).0;
    bytes[5] = 9;
    let (hangup, output) = refused(&mut Responder::new(None), &bytes);
    assert_eq!((hangup, answered(&output)), (Hangup::Version { found: 9 }, Some(Answer::Version)));
}

#[test]
fn another_control_version_is_refused_with_both_ranges() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let hello: ToResponder =
        decode(br#"{"say":"hello","versions":{"least":7,"most":9},"program":"vtare 9","new":1}"#).expect("a hello");
    let ToClient::Refused(refusal) = responder.ask(START, &mut channel, &hello) else { panic!("it is refused") };
    assert!(matches!(refusal.reason, Reason::Version { .. }));
    let text = refusal.to_string();
    assert!(text.contains("control version 2") && text.contains("7 to 9"), "{text}");
}

#[test]
fn a_flipped_preamble_breaks_the_handshake() {
    // The version for which a later release might be talked down: covered by the prologue.
    let mut bytes = opening(Some(&key("ab"))).0;
    bytes[7] ^= 1;
    assert_eq!(refused(&mut Responder::new(Some(key("ab"))), &bytes).0, Hangup::WrongKey);
}

#[test]
fn strangers_are_turned_away_at_their_first_wrong_byte_and_hear_nothing() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x", b"v!", &[0x16, 3, 1], &[0; 64]] {
        assert_eq!(refused(&mut Responder::new(Some(key("ab"))), bytes), (Hangup::OtherProtocol, Vec::new()));
    }
}

#[test]
fn an_oversized_frame_is_refused_at_its_length() {
    let mut bytes = preamble::of_client(true).to_vec();
    bytes.extend([0xff, 0xff]);
    let (hangup, _) = refused(&mut Responder::new(Some(key("ab"))), &bytes);
    assert_eq!(hangup, Hangup::TooLong { found_byte: 0xffff, most_byte: HANDSHAKE_BYTE });

    let mut responder = Responder::new(None);
    connected(&mut responder);
    let hangup = responder.receive(START, &[0xff, 0xff]).expect_err("it is refused");
    assert!(matches!(hangup, Hangup::TooLong { most_byte, .. } if most_byte > LARGEST_MESSAGE_BYTE));
    assert_eq!(responder.connection.room(), INBOX_BYTE, "nothing is kept");
}

#[test]
fn a_frame_that_does_not_decrypt_ends_the_talk() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let mut out = Vec::new();
    channel.write(&"hello", &mut out).expect("it is short");
    let changed = out.len() - 1;
    out[changed] ^= 1;
    assert_eq!(responder.receive(START, &out), Err(Hangup::Seal));
}

#[test]
fn a_recorded_opening_sent_again_opens_nothing() {
    // Message 1 may be replayed: it only gets a message 2 that its sender cannot use.
    let (bytes, _) = opening(Some(&key("ab")));
    let mut talk = Responder::new(Some(key("ab")));
    talk.receive(START, &bytes).expect("the key fits");
    let mut out = Vec::new();
    let mut channel = connected(&mut talk_with_key());
    channel.write(&ToResponder::Open(REQUEST), &mut out).expect("it is short");
    assert_eq!(talk.receive(START, &out), Err(Hangup::Seal));
    assert_eq!(talk.sessions(), 0);
}

fn talk_with_key() -> Responder {
    Responder::new(Some(key("ab")))
}

#[test]
fn a_slow_handshake_ends_however_many_bytes_trickle_in() {
    let mut responder = Responder::new(Some(key("ab")));
    let (bytes, _) = opening(Some(&key("ab")));
    for (second, byte) in bytes.iter().take(4).enumerate() {
        let now = START + Span::from_secs(i64::try_from(second).expect("small"));
        responder.receive(now, &[*byte]).expect("it is the right beginning");
        assert_eq!(responder.connection.check(now), Ok(()));
    }
    assert_eq!(responder.connection.check(START + Span::from_secs(5)), Err(Hangup::SlowHandshake));
}

#[test]
fn a_connection_without_a_session_ends_and_one_with_a_session_stays() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let late = START + Span::from_secs(3_600);
    assert_eq!(responder.connection.check(late), Err(Hangup::SlowHandshake), "no frame has been decrypted");
    let hello = Client::new(REQUEST, "test", Span::from_secs(1)).start(START);
    responder.ask(START, &mut channel, &hello);
    assert_eq!(responder.connection.check(late), Err(Hangup::Idle));
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    open_session(&mut responder, &mut channel, REQUEST).expect("it is granted");
    assert_eq!(responder.connection.check(late), Ok(()));
}

#[test]
fn a_talker_is_hung_up_on() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let refused = (0..1_000).find_map(|count| {
        let mut out = Vec::new();
        channel.write(&ToResponder::Count { session: SessionId(5) }, &mut out).expect("it is short");
        // The first ends the exchange, being out of turn; send one hello.
        if count == 0 {
            out.clear();
            channel = connected({
                responder = Responder::new(None);
                &mut responder
            });
            let hello = Client::new(REQUEST, "test", Span::from_secs(1)).start(START);
            channel.write(&hello, &mut out).expect("it is short");
        }
        let result = responder.receive(START, &out);
        responder.take_output();
        result.err().map(|hangup| (count, hangup))
    });
    assert!(matches!(refused, Some((100..=300, Hangup::TooManyMessages))), "{refused:?}");
}

#[test]
fn a_refusal_shows_the_limits_and_a_lesser_wish_is_granted() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let greedy = Open { rate_packet_per_s: 2_000_000, ..REQUEST };
    let refusal = match open_session(&mut responder, &mut channel, greedy) {
        Err(ClientError::Refused(refusal)) => refusal,
        other => panic!("it is refused, not {other:?}"),
    };
    assert_eq!(refusal.limits, Limits::default());
    assert!(refusal.to_string().contains("2000000 packet/s asked, the responder allows 1000000"), "{refusal}");
    let answer = responder.ask(START, &mut channel, &ToResponder::Open(REQUEST));
    assert!(matches!(answer, ToClient::Granted(_)));
}

#[test]
fn counters_of_a_session_that_ran_out_wait_for_its_client() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    let (mut client, _) = open_session(&mut responder, &mut channel, REQUEST).expect("it is granted");
    let late = START + Span::from_secs(600);
    let expired = responder.table.lock().expect("no test panics with the lock").expire(late);
    let [(session, counters)] = expired[..] else { panic!("one session ran out") };
    assert!(responder.connection.expired(late, TimeLimits::default(), session, counters));
    assert!(!responder.connection.expired(late, TimeLimits::default(), SessionId(77), counters), "another's session");
    let close = client.close(late).expect("the client does not know yet");
    let answer = responder.ask(late, &mut channel, &close);
    assert_eq!(client.receive(late, answer), Ok(Step::Done(counters)));
}

#[test]
fn a_connection_that_ends_takes_its_sessions_along() {
    let mut responder = Responder::new(None);
    let mut channel = connected(&mut responder);
    open_session(&mut responder, &mut channel, REQUEST).expect("it is granted");
    let mut ended = Vec::new();
    let table = Mutex::new(responder.table.into_inner().expect("no test panics with the lock"));
    responder.connection.hang_up(&table, |session, _| ended.push(session));
    assert_eq!((ended.len(), table.into_inner().expect("likewise").len()), (1, 0));
}

#[test]
fn a_key_file_is_for_its_owner_only_is_never_replaced_and_reads_back() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("vtare-key-{}", std::process::id()));
    let key = PresharedKey::generate().expect("the system has random bytes");
    key.write(&path).expect("the temporary directory is writable");
    assert_eq!(std::fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, 0o600);
    assert!(PresharedKey::read(&path).expect("it is a key") == key);
    assert!(matches!(key.write(&path), Err(KeyError::Write { .. })));
    std::fs::remove_file(&path).expect("it exists");
}

#[test]
fn a_malformed_key_is_refused_without_being_shown() {
    let long = "ab".repeat(33);
    for text in ["", "hunter2", &"zz".repeat(32), &long] {
        let error = PresharedKey::parse("VTARE_KEY", text).expect_err("no key").to_string();
        assert!(error.contains("VTARE_KEY") && error.contains("64 hexadecimal digits"), "{error}");
        assert!(text.is_empty() || !error.contains(text), "{error}");
    }
}

fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let noise = prop::collection::vec(any::<u8>(), 0..80);
    let begun = prop::collection::vec(any::<u8>(), 0..80).prop_map(|mut tail| {
        let mut bytes = preamble::of_client(true).to_vec();
        bytes.append(&mut tail);
        bytes
    });
    prop::collection::vec(prop_oneof![noise, begun], 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn strangers_bytes_open_nothing_and_are_never_answered_with_more(chunks in chunks()) {
        let mut responder = Responder::new(Some(key("ab")));
        let (mut came, mut went) = (0, 0);
        for chunk in chunks {
            came += chunk.len();
            let result = responder.receive(START, &chunk);
            went += responder.take_output().len();
            prop_assert!(went <= came);
            prop_assert!(!responder.connection.is_authenticated());
            if result.is_err() {
                break;
            }
        }
        prop_assert_eq!(responder.sessions(), 0);
    }

    #[test]
    fn a_message_is_decoded_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<ToResponder>(&text);
        let _ = decode::<ToClient>(&text);
    }

    #[test]
    fn every_request_is_kept_to_the_bit_on_its_way(
        (rate, burst, duration, packets) in any::<(u64, u64, u64, u64)>(),
        size in any::<u16>(),
    ) {
        let open = Open {
            rate_packet_per_s: rate,
            burst_packet: burst,
            duration_ns: duration,
            packets,
            size_byte: size,
            ..REQUEST
        };
        let text = super::encode(&ToResponder::Open(open)).expect("messages encode");
        prop_assert!(text.len() <= LARGEST_MESSAGE_BYTE);
        prop_assert_eq!(decode::<ToResponder>(&text).expect("it decodes"), ToResponder::Open(open));
    }

    #[test]
    fn frames_come_out_as_they_went_in(body in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..302) {
        let mut bytes = Vec::new();
        frame::append(&mut bytes, &body).expect("it is short");
        prop_assert_eq!(frame::first(&bytes, 300), Ok(Some(&body[..])));
        let cut = cut.min(bytes.len() - 1);
        prop_assert_eq!(frame::first(&bytes[..cut], 300), Ok(None));
    }
}
