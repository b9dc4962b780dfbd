//! Attacks of clients without a key: millions of garbage packets, and connections that never send a request.

use std::fmt;
use std::io::{IoSlice, Write};
use std::net::{SocketAddr, TcpStream};

use bench_figures::figure;
use vtare_sys::clocks;
use vtare_sys::net::control::SendControl;
use vtare_sys::net::{Layer, Message, ReceiveBatch, SendBatch, Socket};
use vtare_units::Random;
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::preamble;
use vtare_wire::{SessionId, SessionKey, full, short};

use crate::daemon::Daemon;

const BATCH: usize = 64;

pub(crate) struct Outcome {
    datagrams: u64,
    seconds: f64,
    connections: usize,
    refused: usize,
    /// Datagrams that came back to the sender of garbage.
    replies: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} garbage datagrams in {:.1} s ({:.0} kpps), {} half-open connections held ({} not accepted), \
             {} replies to the datagrams",
            self.datagrams,
            self.seconds,
            self.datagrams as f64 / self.seconds.max(1e-9) / 1e3,
            self.connections,
            self.refused,
            self.replies
        )
    }
}

/// Opens the connections and holds them while the datagrams are sent.
pub(crate) fn run(daemon: &Daemon, datagrams: u64, connections: usize) -> Result<Outcome, String> {
    let mut held = Vec::with_capacity(connections);
    let mut refused = 0;
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(daemon.address, datagrams));
        for number in 0..connections {
            // The responder accepts a limited number a second; the kernel's queue holds the others, and those beyond it
            // time out.
            match TcpStream::connect_timeout(&daemon.address, std::time::Duration::from_secs(3)) {
                Ok(mut stream) => {
                    // Silence, or any beginning of a handshake.
                    let _ = stream.write_all(&preamble::of_client(true)[..number % 9]);
                    held.push(stream);
                }
                Err(_) => refused += 1,
            }
        }
        let (socket, seconds) = flood.join().map_err(|_| "the flood panicked".to_owned())??;
        let replies = waiting(&socket)?;
        figure("garbage datagrams", datagrams as f64, "");
        figure("half-open connections", held.len() as f64, "");
        figure("replies to the datagrams", replies as f64, "");
        Ok(Outcome { datagrams, seconds, connections: held.len(), refused, replies })
    })
}

/// Counts the datagrams that wait at a socket.
fn waiting(socket: &Socket) -> Result<u64, String> {
    let mut batch = ReceiveBatch::new(BATCH, 2_048);
    let mut replies = 0;
    loop {
        match batch.receive(socket, BATCH) {
            Ok(0) => return Ok(replies),
            Ok(got) => replies += got as u64,
            Err(error) => return Err(format!("the flood's socket: {error}")),
        }
    }
}

/// Sends garbage as fast as one thread can and gives its socket and the time it took, s. Each kind stops the responder
/// at another check: the first
/// byte, the size, the session's name, its number.
fn flood(to: SocketAddr, datagrams: u64) -> Result<(Socket, f64), String> {
    let failed = |error: vtare_sys::SysError| error.to_string();
    let socket = Socket::open(Layer::Udp, to).map_err(failed)?;
    socket.connect(to).map_err(failed)?;
    let mut random = Random::new(4);
    let stranger = SessionKey::new([3; 16]);
    let garbage: Vec<Vec<u8>> = (0..BATCH)
        .map(|kind| {
            let mut bytes: Vec<u8> = (0..64).map(|_| random.bits() as u8).collect();
            let session = SessionId(random.bits());
            let made = match kind % 4 {
                0 => Ok(()),
                1 => full::Probe { session, sequence: 1, sent: Timestamp::from_nanos(1), wants_reply: true }
                    .encode(&stranger, &mut bytes),
                2 => {
                    bytes[0] = 0x11;
                    Ok(())
                }
                // The first session's number is 0, so this one goes as far as its tag.
                _ => short::Probe::new(1, Timestamp::from_nanos(1), true)
                    .encode(&short::Context { session, handle: 0, key: &stranger }, &mut bytes),
            };
            made.map(|()| bytes).map_err(|error| error.to_string())
        })
        .collect::<Result<_, _>>()?;
    let parts: Vec<[IoSlice<'_>; 1]> = garbage.iter().map(|bytes| [IoSlice::new(bytes)]).collect();
    let messages: Vec<Message<'_>> =
        parts.iter().map(|parts| Message { parts, to: None, control: SendControl::default() }).collect();
    let mut batch = SendBatch::new(BATCH);
    let start = clocks::now::<Monotonic>();
    let mut sent = 0;
    while sent < datagrams {
        let next = messages.len().min((datagrams - sent) as usize);
        // Where the kernel has no room for now, it is tried again.
        sent += batch.send(&socket, &messages[..next]).unwrap_or(0) as u64;
    }
    let seconds = (clocks::now::<Monotonic>() - start).as_secs_f64();
    Ok((socket, seconds))
}
