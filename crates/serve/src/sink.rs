//! The thread that reads data connections: it counts what comes and throws it away, within what each session was
//! granted.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use vtare_sys::clocks;
use vtare_sys::net::tcp;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::{FlowCause, Joined};

use crate::error::ServeError;

const WAKER: Token = Token(usize::MAX);

/// How often silence and ended sessions are looked for.
const CHECK_EVERY: Span = Span::from_millis(100);

/// Bytes taken from one connection before the others have their turn. Nothing is copied, so no memory goes with it.
const TURN_BYTE: usize = 1 << 20;

/// A data connection that has proved itself.
pub(super) struct NewFlow {
    pub(super) stream: TcpStream,
    pub(super) joined: Joined,
    /// Its place among the connections.
    pub(super) place: usize,
    pub(super) peer: IpAddr,
}

/// A data connection that has ended, and why where that is worth a line.
pub(super) struct FlowEnded {
    pub(super) place: usize,
    pub(super) peer: IpAddr,
    pub(super) cause: Option<FlowCause>,
}

/// What the reading thread waits with. Made before privileges are given up.
#[derive(Debug)]
pub(super) struct Watch {
    poll: Poll,
    waker: Waker,
}

impl Watch {
    pub(super) fn new() -> Result<Self, ServeError> {
        let made = Poll::new().and_then(|poll| Ok(Self { waker: Waker::new(poll.registry(), WAKER)?, poll }));
        made.map_err(|source| ServeError::Io { doing: "watching data connections", source })
    }

    /// The two ends: of the thread that lets connections in, and of the one that reads them.
    pub(super) fn split(&mut self, silent: Span) -> (SinkHandle<'_>, Sink<'_>) {
        let (new_flow, new_flows) = channel();
        let (left, ended) = channel();
        let sink_handle = SinkHandle { new_flow: Some(new_flow), ended, waker: &self.waker };
        (sink_handle, Sink { poll: &mut self.poll, new_flows, left, silent, flows: Vec::new() })
    }
}

/// The end of the thread that lets connections in.
pub(super) struct SinkHandle<'w> {
    /// `None` once this is dropped.
    new_flow: Option<Sender<NewFlow>>,
    ended: Receiver<FlowEnded>,
    waker: &'w Waker,
}

impl SinkHandle<'_> {
    pub(super) fn send(&self, new_flow: NewFlow) {
        // The reading thread lives as long as this one; where it ended, all ends. A wake-up that failed is made good at
        // its next check.
        if let Some(channel) = &self.new_flow {
            drop(channel.send(new_flow));
        }
        let _ = self.waker.wake();
    }

    pub(super) fn left(&self) -> Option<FlowEnded> {
        self.ended.try_recv().ok()
    }
}

impl Drop for SinkHandle<'_> {
    fn drop(&mut self) {
        // In this order: who wakes finds that nobody will come any more.
        self.new_flow = None;
        let _ = self.waker.wake();
    }
}

struct Flow {
    it: NewFlow,
    /// There may be bytes.
    ready: bool,
    received_at: Timestamp<Monotonic>,
}

/// How one read of a connection ended.
enum ReadOutcome {
    More,
    Empty,
    Over(Option<FlowCause>),
}

pub(super) struct Sink<'w> {
    poll: &'w mut Poll,
    new_flows: Receiver<NewFlow>,
    left: Sender<FlowEnded>,
    silent: Span,
    /// By token. A place is used again.
    flows: Vec<Option<Flow>>,
}

impl Sink<'_> {
    /// Reads until `ended`.
    pub(super) fn drain(mut self, ended: &dyn Fn() -> bool) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(256);
        let mut look_at = Timestamp::ZERO;
        while !ended() {
            // Without a connection it sleeps until one comes, or all is over: a wake-up would disturb who measures
            // here.
            let wait = if self.flows.iter().flatten().any(|flow| flow.ready) {
                Some(Duration::ZERO)
            } else {
                let some = self.flows.iter().any(Option::is_some);
                some.then(|| Duration::from_nanos(CHECK_EVERY.as_nanos_unsigned()))
            };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(ServeError::Io { doing: "waiting for data", source: error });
                }
                _ => {}
            }
            for event in &events {
                if let Some(Some(flow)) = self.flows.get_mut(event.token().0) {
                    flow.ready = true;
                }
            }
            loop {
                match self.new_flows.try_recv() {
                    Ok(new_flow) => self.register(new_flow),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            for place in 0..self.flows.len() {
                self.turn(place);
            }
            let now = clocks::now();
            if now >= look_at {
                look_at = now + CHECK_EVERY;
                self.check_limits(now);
            }
        }
        Ok(())
    }

    fn register(&mut self, mut it: NewFlow) {
        let free = self.flows.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() - 1
        });
        if self.poll.registry().register(&mut it.stream, Token(free), Interest::READABLE).is_err() {
            return self.close(it, Some(FlowCause::Broken));
        }
        // What came before it was watched is not reported.
        self.flows[free] = Some(Flow { it, ready: true, received_at: clocks::now() });
    }

    fn turn(&mut self, place: usize) {
        let Some(Some(flow)) = self.flows.get_mut(place) else { return };
        if !flow.ready {
            return;
        }
        match read(flow) {
            ReadOutcome::More => {}
            ReadOutcome::Empty => flow.ready = false,
            ReadOutcome::Over(cause) => self.end(place, cause),
        }
    }

    fn check_limits(&mut self, now: Timestamp<Monotonic>) {
        for place in 0..self.flows.len() {
            let Some(Some(flow)) = self.flows.get(place) else { continue };
            if flow.it.joined.is_over() {
                self.end(place, Some(FlowCause::Ended));
            } else if now - flow.received_at >= self.silent {
                self.end(place, Some(FlowCause::Silent));
            }
        }
    }

    fn end(&mut self, place: usize, cause: Option<FlowCause>) {
        let Some(flow) = self.flows.get_mut(place).and_then(Option::take) else { return };
        self.close(flow.it, cause);
    }

    fn close(&self, it: NewFlow, cause: Option<FlowCause>) {
        let NewFlow { stream, joined, place, peer } = it;
        if cause.is_some() {
            // The client shall not go on sending into a buffer that nobody reads.
            let _ = tcp::reset_at_close(&stream);
        }
        drop(stream);
        drop(joined);
        drop(self.left.send(FlowEnded { place, peer, cause }));
    }
}

fn read(flow: &mut Flow) -> ReadOutcome {
    let got = match tcp::discard(&flow.it.stream, TURN_BYTE) {
        Ok(0) => return ReadOutcome::Over(None),
        Ok(got) => got,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadOutcome::Empty,
        Err(error) if error.kind() == ErrorKind::Interrupted => return ReadOutcome::More,
        Err(_) => return ReadOutcome::Over(Some(FlowCause::Broken)),
    };
    flow.received_at = clocks::now();
    match flow.it.joined.count(flow.received_at, got as u64) {
        Ok(()) => ReadOutcome::More,
        Err(cause) => ReadOutcome::Over(Some(cause)),
    }
}
