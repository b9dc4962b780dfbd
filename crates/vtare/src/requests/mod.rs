//! `vtare requests HOST:PORT`: waits for a server, asks it at a fixed rate, then as fast as it answers, for
//! `vtare weigh --server` (docs/guide/weigh.md).
//!
//! Requests have fixed times. What one is late by since an earlier reply was late counts as its latency, so that a
//! server that stands still is not hidden; what this program is late by itself does not.

mod connection;
mod reply;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use connection::{Asked, Connection, Ends};
use reply::{Broken, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use vtare_sys::{clocks, process};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::print_on;

/// How long a server that is not there yet is left alone.
const PAUSE: Span = Span::from_millis(1);
/// The longest time for one request.
const MOST_REPLY: Span = Span::from_secs(2);
/// Failures in a row after which nothing more is asked.
const MOST_FAILURES: usize = 5;
/// Of seconds, and of requests a second.
const MOST: f64 = 1e6;
const LEAST_RATE: f64 = 0.01;

/// Arguments of `vtare requests`.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestsArguments {
    /// Where servers listen, such as 127.0.0.1:8080; several are asked at once
    #[arg(value_name = "HOST:PORT", required = true)]
    servers: Vec<SocketAddr>,

    /// What is sent, with \r, \n, \t, \0, \\ and \xHH; a reply has as many bytes as the first one (else GET / by HTTP)
    #[arg(long, value_name = "TEXT", value_parser = unescaped)]
    request: Option<Bytes>,

    /// Wait this long for the first reply
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = seconds)]
    wait: f64,

    /// Requests at the fixed rate, to each server; 0: only wait until each accepts a connection
    #[arg(long, value_name = "N", default_value_t = 300)]
    requests: u32,

    /// The fixed rate, per second and server
    #[arg(long, value_name = "N", default_value_t = 500.0, value_parser = rate)]
    rate: f64,

    /// Ask as fast as replies come for this long
    #[arg(long, value_name = "S", default_value_t = 0.4, value_parser = seconds)]
    seconds: f64,

    /// On this number of connections
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
}

/// What a text with escapes means.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bytes(Vec<u8>);

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=MOST).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number from 0 to {MOST}"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (LEAST_RATE..=MOST).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a rate from {LEAST_RATE} to {MOST} a second"))
}

fn unescaped(text: &str) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digit = |byte: Option<u8>| char::from(byte.unwrap_or(b' ')).to_digit(16);
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => (16 * high + low) as u8,
                    _ => return Err(format!("'{text}' has \\x without two digits, as in \\x0a")),
                }
            }
            _ => return Err(format!("'{text}' has an unknown escape: use \\r, \\n, \\t, \\0, \\\\ or \\xHH")),
        });
    }
    if bytes.is_empty() {
        Err("nothing would be sent: write the text of a request".to_owned())
    } else {
        Ok(Bytes(bytes))
    }
}

/// What came of requests at the fixed rate.
#[derive(Debug, Default)]
struct Steady {
    latencies: Vec<u64>,
    failed: u64,
    failure: Option<Broken>,
}

/// Waits, asks, and prints one JSON document.
///
/// # Errors
/// [`Failure::Peer`] where no server answers in time.
pub(crate) fn command(arguments: &RequestsArguments, context: &Context) -> Result<Exit, Failure> {
    if !process::end_with_parent()? {
        return Ok(Exit::Interrupted);
    }
    let until = now() + span(arguments.wait);
    let mut targets = Vec::new();
    for address in &arguments.servers {
        let (mut asked, mut connection) = (asked(arguments, *address), Connection::new(*address));
        let Some(first) = first_reply(&mut connection, &asked, arguments.requests > 0, until, context)? else {
            return Ok(Exit::Interrupted);
        };
        if let (Ends::Silence, Some(reply)) = (asked.ends, first) {
            asked.ends = Ends::After(reply.bytes);
        }
        targets.push((*address, asked, connection, first));
    }
    let first_ns = now().as_nanos();
    let (mut steady, period) = (Steady::default(), 1e9 / arguments.rate);
    let first = targets[0].3;
    let (status, bytes) = (first.and_then(|reply| reply.status), first.map(|reply| reply.bytes));
    if arguments.requests > 0 {
        let begin = now();
        // Requests to several servers are apart.
        let step = period / targets.len() as f64;
        let all: Vec<_> = std::thread::scope(|scope| {
            let one = |(at, (_, asked, connection, _)): (usize, &mut (_, Asked, Connection, _))| {
                let begin = begin + Span::from_nanos((at as f64 * step) as i64);
                steadily(connection, asked, begin, period, arguments.requests, context)
            };
            let threads: Vec<_> = targets.iter_mut().enumerate().map(|it| scope.spawn(move || one(it))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread of this program panics")).collect()
        });
        for one in all {
            steady.latencies.extend(one.latencies);
            steady.failed += one.failed;
            steady.failure = steady.failure.or(one.failure);
        }
    }
    let targets: Vec<_> = targets.into_iter().map(|(address, asked, ..)| (address, asked)).collect();
    // The connection is closed: a server of one connection at a time is free again.
    let per_s = (arguments.seconds > 0.0).then(|| fastest(&targets, arguments, context));
    if context.stop_requested() {
        return Ok(Exit::Interrupted);
    }
    let document = json!({
        "first_ns": first_ns, "status": status, "bytes": bytes, "latency_ns": steady.latencies,
        "failed": steady.failed, "failure": steady.failure.map(|broken| broken.to_string()), "per_s": per_s,
    });
    print_on(&format!("{document}\n")).map(|_| Exit::Measured)
}

fn now() -> Timestamp<Monotonic> {
    clocks::now()
}

fn span(seconds: f64) -> Span {
    Span::from_nanos((1e9 * seconds) as i64)
}

fn asked(arguments: &RequestsArguments, address: SocketAddr) -> Asked {
    match &arguments.request {
        Some(Bytes(request)) => Asked { request: request.clone(), ends: Ends::Silence },
        None => {
            let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nUser-Agent: vtare\r\nAccept: */*\r\n\r\n");
            Asked { request: request.into_bytes(), ends: Ends::Http }
        }
    }
}

/// Tries until there is a reply (or, where none is wanted, a connection); `None` where this program is to stop.
fn first_reply(
    connection: &mut Connection,
    asked: &Asked,
    wants_reply: bool,
    until: Timestamp<Monotonic>,
    context: &Context,
) -> Result<Option<Option<Reply>>, Failure> {
    loop {
        let done = match wants_reply {
            true => connection.ask(asked, until.min(now() + MOST_REPLY)).map(Some),
            false => connection.connect(until).map(|()| None),
        };
        let broken = match done {
            Ok(reply) => return Ok(Some(reply)),
            Err(_) if context.stop_requested() || reader_is_gone() => return Ok(None),
            Err(broken) => broken,
        };
        clocks::sleep_until(now() + PAUSE)?;
        if broken == Broken::NotHttp || now() >= until {
            return Err(Failure::Peer(broken.to_string()));
        }
    }
}

/// Whether nobody reads what this program prints: who started it may have been killed before it could ask to end with
/// that process.
fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    let mut pipe = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut pipe, Some(&at_once)).is_ok_and(|_| pipe[0].revents().contains(PollFlags::ERR))
}

/// Asks at fixed times.
fn steadily(
    connection: &mut Connection,
    asked: &Asked,
    begin: Timestamp<Monotonic>,
    period_ns: f64,
    requests: u32,
    context: &Context,
) -> Steady {
    let mut steady = Steady::default();
    let time_of = |request: u32| begin + Span::from_nanos((f64::from(request) * period_ns) as i64);
    let (end, mut free, mut in_a_row) = (time_of(requests) + MOST_REPLY, begin, 0);
    for request in 0..requests {
        let due = time_of(request);
        let is_late = free > due;
        let slept = is_late || clocks::sleep_until(due).is_ok();
        if !slept || in_a_row == MOST_FAILURES || now() > end || context.stop_requested() {
            steady.failed += u64::from(requests - request);
            steady.failure = steady.failure.or(Some(Broken::Late));
            break;
        }
        let from = if is_late { due } else { now() };
        match connection.ask(asked, now() + MOST_REPLY) {
            Ok(_) => {
                free = now();
                steady.latencies.push((free - from).as_nanos_unsigned());
                in_a_row = 0;
            }
            Err(broken) => {
                free = now();
                steady.failed += 1;
                steady.failure = steady.failure.or(Some(broken));
                in_a_row += 1;
            }
        }
    }
    steady
}

/// Replies per second of several connections that ask as fast as replies come.
fn fastest(targets: &[(SocketAddr, Asked)], arguments: &RequestsArguments, context: &Context) -> f64 {
    let replies = AtomicU64::new(0);
    let begin = now();
    let until = begin + span(arguments.seconds);
    std::thread::scope(|scope| {
        for (address, asked) in targets.iter().cycle().take(usize::from(arguments.connections).max(targets.len())) {
            let replies = &replies;
            scope.spawn(move || {
                let (mut connection, mut in_a_row) = (Connection::new(*address), 0);
                while now() < until && in_a_row < MOST_FAILURES && !context.stop_requested() {
                    let is_reply = connection.ask(asked, until).is_ok();
                    in_a_row = if is_reply { 0 } else { in_a_row + 1 };
                    replies.fetch_add(u64::from(is_reply && now() <= until), Ordering::Relaxed);
                }
            });
        }
    });
    replies.into_inner() as f64 / arguments.seconds
}
