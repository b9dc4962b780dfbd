//! Recorded first messages of handshakes, sent again by who has not the key.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::daemon::{Daemon, survived};
use crate::common::wire::new_key;
use crate::common::{Outcome, Place, vtare_line};

/// 8 B in the clear and message 1 as a frame.
const OPENING_BYTE: usize = 8 + 2 + 48;

/// As many as one address may have connections with the key.
const COPIES: usize = 24;
const CLIENTS: usize = 26;

fn rtt(address: &str, key: &Path) -> Outcome {
    vtare_line(&format!("rtt {address} --key-file {} --count 1 --json", key.display()))
}

/// The first bytes of a real client, as somebody on the path sees them; the client gets no answer.
fn recorded(key: &Path) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let key = key.to_owned();
    let client = std::thread::spawn(move || rtt(&address, &key));
    let (mut stream, _) = listener.accept().expect("the client comes");
    let mut opening = vec![0; OPENING_BYTE];
    stream.read_exact(&mut opening).expect("it begins");
    drop(stream);
    assert_eq!(client.join().expect("it ends").code, 4, "nobody answered it");
    opening
}

fn sent(opening: &[u8], to: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("it listens");
    stream.write_all(opening).expect("it is taken");
    stream
}

/// What the responder answers to these bytes, until it closes the connection or has given all of message 2.
fn answer(stream: &mut TcpStream) -> usize {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is above 0");
    let mut answer = [0; OPENING_BYTE];
    let mut got = 0;
    while got < answer.len() {
        match stream.read(&mut answer[got..]) {
            Ok(0) | Err(_) => break,
            Ok(more) => got += more,
        }
    }
    got
}

#[test]
#[ignore = "seconds of replay: make test-all"]
fn attack_copies_of_recorded_first_messages_lock_no_client_out() {
    let place = Place::new();
    let key = place.file("key");
    new_key(&key);
    // Recorded before this responder was started, or on the way to another one with the same key: each is new to it
    // once.
    let openings: Vec<Vec<u8>> = (0..COPIES).map(|_| recorded(&key)).collect();
    let arguments = ["--listen", "127.0.0.1:0", "--key-file", key.to_str().expect("plain")];
    let mut daemon = Daemon::start(&arguments, std::process::Stdio::null());
    let mut held: Vec<TcpStream> = openings.iter().map(|opening| sent(opening, daemon.address())).collect();
    for stream in &mut held {
        assert_eq!(answer(stream), OPENING_BYTE, "it is new to this responder");
    }
    // From now on it knows them.
    let mut copies: Vec<TcpStream> = openings.iter().map(|opening| sent(opening, daemon.address())).collect();
    let answered: usize = copies.iter_mut().map(answer).sum();
    assert_eq!(answered, 0, "bytes for copies of messages that it has seen");
    let outcomes: Vec<Outcome> = (0..CLIENTS).map(|_| rtt(daemon.address(), &key)).collect();
    let refused: Vec<&str> = outcomes.iter().filter(|it| it.code != 0).map(|it| it.stderr.as_str()).collect();
    assert!(daemon.is_alive());
    let memory_kb = daemon.memory_kb();
    assert!(refused.is_empty(), "{} of {CLIENTS} clients were refused: {}", refused.len(), refused[0]);
    survived(
        "recorded_first_messages",
        format!("clients refused 0 of {CLIENTS}, memory {memory_kb} kB, replies to copies {answered} B"),
    );
}
