//! Attacks on the memory of the far end, as a process of its own: as many connections as it takes, each of which makes
//! it hold as much as a client can. Others are served meanwhile, and it holds no more than docs/methods/rpm.md states.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{PATIENCE, Serving, connector, uri};
use h2::client::SendRequest;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::pki_types::ServerName;
use vtare_methods::rpm::RpmLimits;
use vtare_responsiveness::connect::{Connector, fetch, get, post, tls};
use vtare_responsiveness::content::{LARGE, SMALL, UPLOAD};
use vtare_responsiveness::serve::Server;

const CONNECTIONS: usize = 512;
/// All but a few places, so that it is seen whether others are served.
const ATTACKERS: usize = CONNECTIONS - 8;
/// Time in which the attackers have what they want.
const HOLD: Duration = Duration::from_secs(6);

/// One attacker may take all places.
fn limits() -> RpmLimits {
    RpmLimits { connections: CONNECTIONS, connections_per_peer: CONNECTIONS, ..RpmLimits::default() }
}

/// Has every attacker do its worst at once, and compares the memory with the bound.
async fn attack<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    attackers: usize,
    attacker: impl Fn(Connector, usize) -> F,
) {
    let serving = Serving::with(limits());
    let before = serving.memory_kb("VmRSS");
    let connector = connector(serving.address).await;
    let mut attacks = JoinSet::new();
    for number in 0..attackers {
        attacks.spawn(attacker(connector.clone(), number));
    }
    sleep(HOLD).await;
    let asked = async {
        let (send, connection, _) = connector.open().await?;
        let polled = tokio::spawn(connection);
        let answer = fetch(&send, &uri(serving.address, SMALL), 1).await;
        polled.abort();
        answer
    };
    let served = timeout(PATIENCE, asked).await.expect("others are served in time");
    let (most, bound) = (serving.memory_kb("VmHWM"), Server::most_memory_byte(&limits()) as u64 / 1_000);
    let grown = most.saturating_sub(before);
    println!("ATTACK {name}: survived, memory +{grown} kB");
    assert_eq!(served.map(|byte| byte.len()).map_err(|error| error.to_string()), Ok(1), "others are served");
    assert!(grown < bound, "memory grew by {grown} kB, the bound is {bound} kB");
}

/// A connection of HTTP/2 of which a stream takes this many bytes before its client reads.
async fn opened(connector: &Connector, window: u32) -> Option<SendRequest<Bytes>> {
    let (stream, _) = connector.secure().await.ok()?;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).max_send_buffer_size(1 << 20);
    let (send, connection) = builder.handshake(stream).await.ok()?;
    tokio::spawn(connection);
    Some(send)
}

/// As many of these requests as a connection takes, each with a body where there is one.
async fn ask_and_hold(connector: &Connector, window: u32, request: Request<()>, body: Option<Bytes>) {
    let Some(send) = opened(connector, window).await else { return };
    let mut held = Vec::new();
    for _ in 0..100 {
        let Ok(mut ready) = send.clone().ready().await else { break };
        let Ok((response, mut upload)) = ready.send_request(request.clone(), body.is_none()) else { break };
        if let Some(body) = &body {
            let _ = upload.send_data(body.clone(), false);
        }
        held.push((response, upload));
    }
    sleep(PATIENCE).await;
}

/// Half a handshake: the first message of a client in records of 16,000 bytes, of which the last does not come.
async fn half_handshake(connector: &Connector) {
    let Ok(mut stream) = TcpStream::connect(connector.address()).await else { return };
    let mut message = vec![1, 0, 0xfd, 0xe8];
    message.resize(4 + 64_000, 0);
    for piece in message.chunks(16_000) {
        let length = (piece.len() as u16).to_be_bytes();
        let _ = stream.write_all(&[&[0x16, 3, 1][..], &length, piece].concat()).await;
    }
    let _ = timeout(PATIENCE, stream.read(&mut [0; 256])).await;
}

static BODY: [u8; 1 << 20] = [0; 1 << 20];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "512 connections of many requests: make test-all"]
async fn attack_downloads_that_nobody_reads_with_long_headers() {
    attack("100 downloads that nobody reads on each of 504 connections", ATTACKERS, async |connector, number| {
        let mut request = get(&uri(connector.address(), LARGE));
        request.headers_mut().insert("x-long", "y".repeat(7_000).parse().expect("it is text"));
        // Half of them take nothing of any stream, half what all streams have room for.
        ask_and_hold(&connector, if number % 2 == 0 { 0 } else { 1 << 20 }, request, None).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "512 connections of many requests: make test-all"]
async fn attack_bodies_that_nobody_reads_beside_half_handshakes() {
    let name = "100 bodies of GET on each of 504 connections, 400 half handshakes";
    attack(name, ATTACKERS + 400, async |connector, number| {
        if number < ATTACKERS {
            let request = get(&uri(connector.address(), LARGE));
            ask_and_hold(&connector, 0, request, Some(Bytes::from_static(&BODY))).await;
        } else {
            half_handshake(&connector).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "512 connections of many requests: make test-all"]
async fn attack_uploads_on_every_stream() {
    attack("100 uploads on each of 504 connections", ATTACKERS, async |connector, _| {
        let request = post(&uri(connector.address(), UPLOAD));
        ask_and_hold(&connector, 0, request, Some(Bytes::from_static(&BODY))).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "512 connections of many requests: make test-all"]
async fn attack_http1_heads_without_end_and_bodies() {
    attack("504 heads of HTTP/1.1 without end, or with a body", ATTACKERS, async |connector, number| {
        let Ok(stream) = TcpStream::connect(connector.address()).await else { return };
        let name = ServerName::from(connector.address().ip());
        let Ok(mut stream) = tls(b"http/1.1").expect("it is set up").connect(name, stream).await else { return };
        let end = if number % 2 == 0 { "" } else { "\r\n\r\n" };
        let head = format!("GET {SMALL} HTTP/1.1\r\nHost: {}{end}", "h".repeat(8_000));
        let _ = stream.write_all(head.as_bytes()).await;
        while stream.write_all(&BODY[..1_000]).await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}
