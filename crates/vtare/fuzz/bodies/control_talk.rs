//! A client that has the key and sends anything: limits hold, nothing panics, one answer to each message.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use vtare_control::dialogue::Dialogue;
use vtare_control::server::Connection;
use vtare_control::{
    FirstMessages, LARGEST_MESSAGE_BYTE, PresharedKey, Surroundings, TimeLimits, decode_answer, encode_answer,
};
use vtare_units::{Span, Timestamp};
use vtare_wire::session::{LARGEST_ARRIVALS_BYTE, Limits, Secrets, Table};
use vtare_wire::{SessionId, SessionKey, preamble};

const GREETING: &[u8] = br#"{"say":"hello","versions":{"least":2,"most":3},"program":"fuzz"}"#;

/// Frames `body` as it goes over the wire.
fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(body.len()).expect("bodies are short").to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// The messages of a case.
fn messages(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Most talks begin well, or the fuzzer would never get beyond the first message.
    let greeting = (data.first() != Some(&b'!')).then_some(GREETING);
    let texts = greeting.into_iter().chain(data.split(|byte| *byte == b'\n'));
    texts.filter(|text| text.len() <= LARGEST_MESSAGE_BYTE)
}

/// Session names as a real source gives them, but the same in each run; few, so that the fuzzer can name them.
fn counted() -> impl FnMut() -> Secrets {
    let mut next = 0;
    move || {
        next += 1;
        Secrets { session: SessionId(next), key: SessionKey::new([1; 16]) }
    }
}

/// One case. Behind a ~ it goes over an encrypted connection, whose handshake takes as long as a thousand talks
/// without.
pub(crate) fn run(data: &[u8]) {
    match data.split_first() {
        Some((b'~', rest)) => encrypted(rest),
        _ => plain(data),
    }
}

fn limits() -> Limits {
    Limits { sessions: 3, sessions_per_peer: 2, ..Limits::default() }
}

fn plain(data: &[u8]) {
    let table = Mutex::new(Table::new(limits()));
    let patience = TimeLimits::default();
    let first_messages = &FirstMessages::default();
    let around =
        Surroundings { keys: &[], first_messages, table: &table, program: "fuzz", patience, socket_drops: &|| Some(0) };
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let mut dialogue = Dialogue::new(IpAddr::V4(Ipv4Addr::LOCALHOST), "fuzz");
    let mut secrets = counted();
    for text in messages(data) {
        now = now + Span::from_millis(text.len() as i64);
        let answered =
            dialogue.admit(now).and_then(|()| dialogue.answer(now, text, &around, &mut secrets, &mut |_| ()));
        for (session, counters) in table.lock().expect("nothing panicked").expire(now) {
            assert!(dialogue.expired(session, counters), "only this talk opens sessions");
        }
        assert!(table.lock().expect("nothing panicked").len() <= 2);
        let Ok(answer) = answered else { break };
        let answer = encode_answer(&answer).expect("answers can be written");
        assert!(answer.len() <= LARGEST_ARRIVALS_BYTE);
        decode_answer(&answer).expect("and read");
        if dialogue.is_over() {
            break;
        }
    }
    dialogue.hang_up(&table, |_, _| ());
    assert!(table.lock().expect("nothing panicked").is_empty());
}

fn encrypted(data: &[u8]) {
    let key = PresharedKey::parse("fuzz", &"ab".repeat(32)).expect("64 digits");
    let table = Mutex::new(Table::new(limits()));
    let patience = TimeLimits::default();
    let (keys, first_messages) = (std::slice::from_ref(&key), &FirstMessages::default());
    let around =
        Surroundings { keys, first_messages, table: &table, program: "fuzz", patience, socket_drops: &|| Some(0) };
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let mut connection = Connection::new(IpAddr::V4(Ipv4Addr::LOCALHOST), now, patience);
    let mut secrets = counted();

    let hello = preamble::of_client(true);
    let mut client = snow::Builder::new("Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern"))
        .psk(0, &[0xab; 32])
        .and_then(|builder| builder.prologue(&hello))
        .and_then(snow::Builder::build_initiator)
        .expect("the client's end");
    let mut room = [0; 4096];
    let length = client.write_message(&[], &mut room).expect("message 1");
    let opening = [&hello[..], &framed(&room[..length])].concat();
    connection.receive(now, &opening, &around, &mut secrets, &mut |_| ()).expect("the key fits");
    let answer = std::mem::take(connection.outbox());
    client.read_message(&answer[preamble::PREAMBLE_BYTE + 2..], &mut room).expect("message 2");
    let mut client = client.into_transport_mode().expect("the handshake is over");

    for text in messages(data) {
        let length = client.write_message(text, &mut room).expect("there is room");
        now = now + Span::from_millis(text.len() as i64);
        let result = connection.receive(now, &framed(&room[..length]), &around, &mut secrets, &mut |_| ());
        assert!(std::mem::take(connection.outbox()).len() <= LARGEST_ARRIVALS_BYTE + 18);
        for (session, counters) in table.lock().expect("nothing panicked").expire(now) {
            assert!(connection.expired(now, patience, session, counters), "only this connection opens sessions");
        }
        assert!(table.lock().expect("nothing panicked").len() <= 2);
        if result.is_err() {
            break;
        }
    }
    connection.hang_up(&table, |_, _| ());
    assert!(table.lock().expect("nothing panicked").is_empty());
}
