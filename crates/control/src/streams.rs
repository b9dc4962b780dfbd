//! The client's data connections of a session for TCP throughput: the kernel's own TCP, filled with zeros.
//!
//! The responder's account of what came ([`vtare_wire::session::FlowReport`]) is the result; this end sends and reads
//! the kernel's account of the sending.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use vtare_sys::SysError;
use vtare_sys::net::tcp::{self, TcpInfo};
use vtare_units::Span;
use vtare_wire::hello::Hello;
use vtare_wire::preamble::{self, Answer, PREAMBLE_BYTE};
use vtare_wire::session::Grant;

/// Bytes of one write.
const WRITE_BYTE: usize = 256 << 10;

/// Bytes that may stand unsent in the kernel: what is there when the time is over must still leave. Enough for the next
/// wake-up of the writer.
const UNSENT_BYTE: u32 = 256 << 10;

/// A write that cannot go on for this time checks whether it should end.
const WRITE_PATIENCE: Duration = Duration::from_millis(100);

static ZEROS: [u8; WRITE_BYTE] = [0; WRITE_BYTE];

/// Why there are no data connections, or why one broke.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The kernel has no such congestion control.
    #[error("congestion is '{wanted}': use one that this kernel allows: {allowed} ({source})")]
    Congestion {
        /// What was asked for.
        wanted: String,
        /// What there is.
        allowed: String,
        /// The system's error.
        source: SysError,
    },
    /// No connection, or it broke.
    #[error("data connection {number} to {address}, {doing}: {source}")]
    Io {
        /// Which of them, from 0.
        number: u8,
        /// Where to.
        address: SocketAddr,
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The responder did not let it in.
    #[error("the responder at {address} does not let data connection {number} in: {why}")]
    Refused {
        /// Which of them.
        number: u8,
        /// Where to.
        address: SocketAddr,
        /// What its answer means.
        why: &'static str,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SysError),
}

/// Data connections that the responder has let in.
#[derive(Debug)]
pub struct Streams {
    address: SocketAddr,
    streams: Vec<TcpStream>,
    congestion: String,
}

/// What may be sent, shared with whoever watches.
#[derive(Debug)]
pub struct Quota {
    /// Payload bytes that are left.
    left: AtomicU64,
    /// No further write.
    over: AtomicBool,
    /// Payload bytes that the kernel took.
    taken: AtomicU64,
}

impl Quota {
    /// This number of payload bytes.
    #[must_use]
    pub const fn new(byte: u64) -> Self {
        Self { left: AtomicU64::new(byte), over: AtomicBool::new(false), taken: AtomicU64::new(0) }
    }

    /// Ends the sending.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the sending was ended, by [`Quota::end`] or because a connection broke.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Takes bytes off what is left: some were used up by sending again.
    pub fn spend(&self, byte: u64) {
        let spent = |left: u64| Some(left.saturating_sub(byte));
        let _always = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }

    /// Payload bytes that the kernel took so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Up to a write's bytes of what is left.
    fn take(&self) -> usize {
        let mut some = 0;
        let take = |left: u64| {
            some = left.min(WRITE_BYTE as u64);
            Some(left - some)
        };
        let _always = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        some as usize
    }

    fn wrote(&self, asked: usize, wrote: usize) {
        self.left.fetch_add((asked - wrote) as u64, Ordering::Relaxed);
        self.taken.fetch_add(wrote as u64, Ordering::Relaxed);
    }
}

impl Streams {
    /// Opens the session's data connections, all with this congestion control; `None`: the kernel's own choice.
    ///
    /// # Errors
    /// [`StreamError`]; connections that were open by then are closed.
    pub fn open(
        address: SocketAddr,
        grant: &Grant,
        congestion: Option<&str>,
        patience: Span,
    ) -> Result<Self, StreamError> {
        let wanted = grant.open.flows.map_or(0, |plan| plan.streams);
        let streams: Result<Vec<_>, _> =
            (0..wanted).map(|number| join(address, grant, number, congestion, patience)).collect();
        let streams = streams?;
        let congestion = streams.first().map(tcp::congestion).transpose()?.unwrap_or_default();
        Ok(Self { address, streams, congestion })
    }

    /// The congestion control that they really have.
    #[must_use]
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// The kernel's account of each, so far.
    ///
    /// # Errors
    /// Where the kernel does not give it.
    pub fn infos(&self) -> Result<Vec<TcpInfo>, SysError> {
        self.streams.iter().map(tcp::info).collect()
    }

    /// Sends zeros on all of them, each from a thread of its own, until `quota` is used up or ended. `watch` runs
    /// meanwhile on the caller's thread and ends the sending where it returns.
    ///
    /// # Errors
    /// The first connection that broke; the others are ended then.
    pub fn send(&self, quota: &Quota, watch: impl FnOnce(&dyn Fn() -> bool)) -> Result<(), StreamError> {
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0_u8..)
                .zip(&self.streams)
                .map(|(number, stream)| {
                    scope.spawn(move || {
                        let result = fill(stream, quota);
                        if result.is_err() {
                            quota.end();
                        }
                        result.map_err(|source| self.failed(number, "sending", source))
                    })
                })
                .collect();
            watch(&|| senders.iter().all(std::thread::ScopedJoinHandle::is_finished));
            quota.end();
            let join = |sender: std::thread::ScopedJoinHandle<'_, _>| {
                sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            // All are waited for, whichever failed.
            let results: Vec<Result<(), StreamError>> = senders.into_iter().map(join).collect();
            results.into_iter().collect()
        })
    }

    /// Closes the sending direction of each: what is on its way still arrives.
    pub fn finish(&self) {
        for stream in &self.streams {
            // One that broke needs no end.
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Throws away what has not left yet, and ends all.
    pub fn abandon(self) {
        for stream in &self.streams {
            // Where the kernel refuses, the rest leaves by and by.
            let _ = tcp::reset_at_close(stream);
        }
    }

    const fn failed(&self, number: u8, doing: &'static str, source: std::io::Error) -> StreamError {
        StreamError::Io { number, address: self.address, doing, source }
    }
}

fn fill(mut stream: &TcpStream, quota: &Quota) -> std::io::Result<()> {
    while !quota.is_over() {
        let some = quota.take();
        if some == 0 {
            return Ok(());
        }
        match stream.write(&ZEROS[..some]) {
            Ok(wrote) => quota.wrote(some, wrote),
            Err(error) => {
                quota.wrote(some, 0);
                let waits =
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted);
                if !waits {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// One data connection, let in by the responder.
fn join(
    address: SocketAddr,
    grant: &Grant,
    number: u8,
    congestion: Option<&str>,
    patience: Span,
) -> Result<TcpStream, StreamError> {
    let failed = |doing| move |source| StreamError::Io { number, address, doing, source };
    let patience = Duration::from_nanos(patience.as_nanos_unsigned().max(1_000));
    let mut stream = TcpStream::connect_timeout(&address, patience).map_err(failed("connecting"))?;
    if let Some(wanted) = congestion {
        tcp::set_congestion(&stream, wanted).map_err(|source| StreamError::Congestion {
            wanted: wanted.to_owned(),
            allowed: allowed_congestion(),
            source,
        })?;
    }
    // Only a longer end where it is refused.
    let _ = tcp::set_unsent_most(&stream, UNSENT_BYTE);
    let hello = Hello { session: grant.session, number }.encode(&grant.key);
    let mut answer = [0; PREAMBLE_BYTE];
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.write_all(&hello))
        .and_then(|()| stream.read_exact(&mut answer))
        .and_then(|()| stream.set_write_timeout(Some(WRITE_PATIENCE)))
        .map_err(failed("naming the session"))?;
    let why = match preamble::read_responder(&answer) {
        Some((_, Answer::GoOn)) => return Ok(stream),
        Some((_, Answer::Busy)) => "it has as many connections as it allows, of this address or of all",
        Some(_) => "not one of this session's, or the session is over",
        None => "another program answers on this port",
    };
    Err(StreamError::Refused { number, address, why })
}

/// What this user may choose, in the kernel's order.
fn allowed_congestion() -> String {
    let path = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    std::fs::read_to_string(path)
        .map_or_else(|error| format!("what {path} lists ({error})"), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_given_out_once_and_what_was_not_written_comes_back() {
        let quota = Quota::new(WRITE_BYTE as u64 + 10);
        assert_eq!(quota.take(), WRITE_BYTE);
        assert_eq!((quota.take(), quota.take()), (10, 0));
        quota.wrote(WRITE_BYTE, WRITE_BYTE - 3);
        quota.wrote(10, 10);
        assert_eq!((quota.taken(), quota.take()), (WRITE_BYTE as u64 + 7, 3));
        quota.spend(1);
        quota.wrote(3, 0);
        quota.spend(1);
        assert_eq!(quota.take(), 2, "what was spent before something came back was not there to spend");
    }
}
