//! A connection with bounds: bytes of its own, and a rate that it shares with all others. Whatever is read or written
//! passes here, valid or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::now;

/// Waits shorter than this are left to the next call: timers here have steps of 1 ms.
const LEAST_WAIT: Duration = Duration::from_millis(2);
/// Time whose bytes may be caught up with: waits end late by up to a step.
const CREDIT: Span = Span::from_millis(5);

/// A rate that all connections share in one direction, and the bytes that have passed.
#[derive(Debug)]
pub struct SharedRate {
    bit_per_s: u64,
    due: Mutex<Timestamp<Monotonic>>,
    byte: AtomicU64,
}

impl SharedRate {
    /// A rate at which nothing has passed yet.
    #[must_use]
    pub fn new(bit_per_s: u64) -> Self {
        Self { bit_per_s: bit_per_s.max(1), due: Mutex::new(Timestamp::ZERO), byte: AtomicU64::new(0) }
    }

    /// Bytes that have passed.
    #[must_use]
    pub fn byte(&self) -> u64 {
        self.byte.load(Ordering::Relaxed)
    }

    /// Counts bytes that passed at `at`, and gives how long whoever moved them must wait for the next.
    fn charge(&self, byte: usize, at: Timestamp<Monotonic>) -> Duration {
        self.byte.fetch_add(byte as u64, Ordering::Relaxed);
        let ns = (byte as u64).saturating_mul(8_000_000_000) / self.bit_per_s;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        *due = (*due).max(at - CREDIT) + Span::from_unsigned_nanos(ns);
        Duration::from_nanos((*due - at).as_nanos().max(0).cast_unsigned())
    }
}

/// Both rates of a far end.
#[derive(Debug)]
pub struct Rates {
    /// What it receives.
    pub received: SharedRate,
    /// What it sends.
    pub sent: SharedRate,
}

/// A connection with bounds.
pub(crate) struct Metered<S> {
    inner: S,
    rates: Arc<Rates>,
    left_byte: u64,
    read_wait: Option<Pin<Box<Sleep>>>,
    write_wait: Option<Pin<Box<Sleep>>>,
}

impl<S> Metered<S> {
    /// Bounds `inner` by these rates, and by `left_byte` for both directions together.
    pub(crate) fn new(inner: S, rates: Arc<Rates>, left_byte: u64) -> Self {
        Self { inner, rates, left_byte, read_wait: None, write_wait: None }
    }

    fn take(&mut self, byte: usize) -> io::Result<()> {
        let out_of = || io::Error::other("the bytes of this connection are used up");
        self.left_byte = self.left_byte.checked_sub(byte as u64).ok_or_else(out_of)?;
        Ok(())
    }
}

/// Waits out what is left to wait for.
fn waited(wait: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(pending) = wait {
        ready!(pending.as_mut().poll(context));
        *wait = None;
    }
    Poll::Ready(())
}

fn wait_for(time: Duration) -> Option<Pin<Box<Sleep>>> {
    (time >= LEAST_WAIT).then(|| Box::pin(sleep(time)))
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(waited(&mut this.read_wait, context));
        let before = into.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, into))?;
        let byte = into.filled().len() - before;
        this.read_wait = wait_for(this.rates.received.charge(byte, now()));
        Poll::Ready(this.take(byte))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    /// All that is ready at once: TLS has one try for a refusal, behind what is still unsent.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(waited(&mut this.write_wait, context));
        let byte = ready!(Pin::new(&mut this.inner).poll_write_vectored(context, from))?;
        this.write_wait = wait_for(this.rates.sent.charge(byte, now()));
        Poll::Ready(this.take(byte).map(|()| byte))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn what_all_connections_move_together_keeps_to_the_rate() {
        let rate = SharedRate::new(8_000_000);
        let at = Timestamp::from_nanos(5_000_000_000);
        assert_eq!(rate.charge(5_000, at), Duration::ZERO, "5 ms of credit");
        assert_eq!(rate.charge(2_000, at), Duration::from_millis(2));
        // What was not used before is lost.
        assert_eq!(rate.charge(6_000, Timestamp::from_nanos(9_000_000_000)), Duration::from_millis(1));
        assert_eq!(rate.byte(), 13_000);
    }

    #[tokio::test]
    async fn a_connection_ends_where_its_bytes_are_used_up_in_both_directions_together() {
        let rates = Rates { received: SharedRate::new(u64::MAX), sent: SharedRate::new(u64::MAX) };
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Metered::new(near, Arc::new(rates), 10);
        far.write_all(b"123456").await.expect("there is room");
        near.read_exact(&mut [0; 6]).await.expect("6 of 10");
        near.write_all(b"1234").await.expect("10 of 10");
        let refused = near.write_all(b"1").await.expect_err("11 of 10");
        assert!(refused.to_string().contains("used up"), "{refused}");
    }
}
