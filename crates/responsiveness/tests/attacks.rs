//! Attacks on the far end: garbage, half requests, slow readers, too many connections, floods of streams.

mod common;

use std::time::Duration;

use common::{Far, PATIENCE};
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use vtare_methods::rpm::RpmLimits;
use vtare_responsiveness::connect::{get, post};
use vtare_responsiveness::content::{LARGE, SMALL, UPLOAD};
use vtare_units::Random;

/// Memory of this process, kB: the far end is in it.
fn memory_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("it states its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("it is a number")
}

/// Prints the line of the table of attacks.
fn survived(name: &str, before_kb: u64) {
    let grown = memory_kb().saturating_sub(before_kb);
    println!("ATTACK {name}: survived, memory +{grown} kB");
    assert!(grown < 64_000, "memory grew by {grown} kB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attack_garbage_before_and_inside_tls() {
    let far = Far::with(RpmLimits::default()).await;
    let (before, mut random) = (memory_kb(), Random::new(3));
    let mut garbage = |byte: usize| -> Vec<u8> { (0..byte).map(|_| random.bits() as u8).collect() };
    for round in 0..100_usize {
        let mut stream = far.connect_from("127.0.0.1").await;
        // Some of it begins as a handshake record does.
        let head: &[u8] = if round % 2 == 0 { &[0x16, 3, 1] } else { b"GET / HTTP/1.1\r\n" };
        let _ = stream.write_all(&[head, &garbage(round * 37)].concat()).await;
        let _ = stream.shutdown().await;
    }
    let connector = far.connector().await;
    for round in 0..50_usize {
        let (mut stream, _) = connector.secure().await.expect("it takes connections");
        let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let _ = stream.write_all(&garbage(9 + round * 301)).await;
        let _ = stream.shutdown().await;
    }
    assert!(far.serves().await);
    survived("garbage before TLS and as HTTP/2", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "waits for time-outs: make test-all"]
async fn attack_silence_and_half_handshakes_hold_no_place_for_long_and_none_of_others() {
    let limits = RpmLimits { connections: 60, connections_per_peer: 40, ..RpmLimits::default() };
    let far = Far::with(limits).await;
    let before = memory_kb();
    let begin = Instant::now();
    let mut held = Vec::new();
    for number in 0..80 {
        let mut stream = far.connect_from("127.0.0.2").await;
        if number % 2 == 0 {
            let _ = stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1]).await;
        }
        held.push(stream);
    }
    assert!(far.serves().await, "others have their places");
    for stream in &mut held {
        let ended = timeout(PATIENCE, stream.read(&mut [0; 256])).await.expect("it is closed in time");
        // An alert may come first.
        assert!(ended.is_err() || ended.is_ok_and(|byte| byte < 256));
    }
    assert!(begin.elapsed() < PATIENCE);
    let done = far.server.summary();
    assert!(done.turned_away >= 20, "{done:?}");
    survived("80 silent connections and half handshakes of one address", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attack_silent_connections_from_many_networks_turn_no_client_away() {
    let far = Far::with(RpmLimits { connections: 60, connections_per_peer: 40, ..RpmLimits::default() }).await;
    let before = memory_kb();
    let mut held = Vec::new();
    for network in 1..=200 {
        held.push(far.connect_from(&format!("127.1.{network}.1")).await);
        if network % 20 == 0 {
            assert!(far.serves().await, "after {network} silent connections");
        }
    }
    assert!(far.server.summary().turned_away >= 140, "{:?}", far.server.summary());
    survived("200 silent connections of as many networks, with 60 places", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "waits for time-outs: make test-all"]
async fn attack_slow_readers_and_half_uploads_are_ended() {
    let far = Far::with(RpmLimits::default()).await;
    let before = memory_kb();
    let (send, polled) = far.requests().await;
    let mut readers = Vec::new();
    for _ in 0..50 {
        let mut send = send.clone().ready().await.expect("it takes requests");
        let (response, _) = send.send_request(get(&far.uri(LARGE)), true).expect("it is a request");
        // Nothing of it is taken, so the window of the connection closes.
        readers.push(response.await.expect("it answers").into_body());
    }
    let mut send = send.clone().ready().await.expect("it takes requests");
    let (upload, _body) = send.send_request(post(&far.uri(UPLOAD)), false).expect("it is a request");
    assert!(far.serves().await, "others are served meanwhile");
    let ended = timeout(PATIENCE, upload).await.expect("it is ended in time");
    assert!(ended.is_err(), "an upload that does not move has no answer: {ended:?}");
    for reader in &mut readers {
        let end = async { while let Some(Ok(_)) = reader.data().await {} };
        timeout(PATIENCE, end).await.expect("it is ended in time");
    }
    let whole = timeout(PATIENCE, polled).await;
    assert!(whole.is_ok(), "their connection is closed");
    survived("50 downloads that nobody reads and an upload that stops", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attack_no_connection_outlasts_its_bytes_or_its_time() {
    let limits = RpmLimits { connection_byte: 2_000_000, connection_ns: 2_000_000_000, ..RpmLimits::default() };
    let far = Far::with(limits).await;
    let before = memory_kb();
    let (send, polled) = far.requests().await;
    let mut send = send.ready().await.expect("it takes requests");
    let (response, _) = send.send_request(get(&far.uri(LARGE)), true).expect("it is a request");
    let mut body = response.await.expect("it answers").into_body();
    let mut taken = 0;
    let all = async {
        while let Some(Ok(chunk)) = body.data().await {
            taken += chunk.len();
            body.flow_control().release_capacity(chunk.len()).expect("it is what came");
        }
    };
    timeout(PATIENCE, all).await.expect("it is ended");
    assert!((500_000..2_000_000).contains(&taken), "{taken}");
    // One that makes requests all the time, slowly, has its time and no more.
    let (send, other) = far.requests().await;
    let begin = Instant::now();
    loop {
        let Ok(mut send) = send.clone().ready().await else { break };
        let Ok((response, _)) = send.send_request(get(&far.uri(SMALL)), true) else { break };
        if response.await.is_err() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it was not ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop((polled, other));
    survived("a download without end and requests without end", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attack_streams_that_are_reset_at_once() {
    let far = Far::with(RpmLimits::default()).await;
    let before = memory_kb();
    let (send, polled) = far.requests().await;
    for _ in 0..20_000 {
        let Ok(mut send) = send.clone().ready().await else { break };
        let Ok((response, mut body)) = send.send_request(post(&far.uri(UPLOAD)), false) else { break };
        body.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    assert!(far.serves().await);
    polled.abort();
    survived("20,000 streams that are reset at once", before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attack_requests_that_make_no_sense() {
    let far = Far::with(RpmLimits::default()).await;
    let before = memory_kb();
    let (send, polled) = far.requests().await;
    let long = "x".repeat(6_000);
    for (request, wanted) in [
        (get(&far.uri("/")), Some(404)),
        (get(&far.uri("/nq/../etc/passwd")), Some(404)),
        (get(&far.uri(UPLOAD)), Some(405)),
        (post(&far.uri(LARGE)), Some(405)),
        (get(&far.uri(&format!("/{long}"))), Some(404)),
        // Above what headers may hold.
        (with_header(get(&far.uri(SMALL)), &"y".repeat(20_000)), None),
    ] {
        let mut send = send.clone().ready().await.expect("it takes requests");
        let Ok((response, _)) = send.send_request(request, true) else {
            assert!(wanted.is_none(), "only one that is too long is refused here");
            continue;
        };
        let status = response.await.ok().map(|response| response.status().as_u16());
        assert!(status == wanted || wanted.is_none() && status == Some(431), "{status:?}, expected {wanted:?}");
    }
    assert!(far.serves().await);
    polled.abort();
    survived("unknown paths, wrong methods, headers that are too long", before);
}

fn with_header(mut request: Request<()>, value: &str) -> Request<()> {
    request.headers_mut().insert("x-long", value.parse().expect("it is text"));
    request
}
