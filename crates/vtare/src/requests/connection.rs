//! A connection to the server that is kept as long as the server keeps it.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};

use super::reply::{Broken, Incoming, Reply};

/// Silence after which the first reply of an unknown protocol is whole.
const SILENCE: Span = Span::from_millis(50);

/// What is asked, and where the reply ends.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) request: Vec<u8>,
    pub(super) ends: Ends,
}

/// Where a reply ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// Where its own head states it.
    Http,
    /// Where nothing more comes.
    Silence,
    After(u64),
}

/// A socket whose reads end at a deadline.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    until: Timestamp<Monotonic>,
    /// What a read waits for after the first one.
    silence: Option<Span>,
    has_read: bool,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.as_nanos().saturating_sub(clocks::now::<Monotonic>().as_nanos());
        if left == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Duration::from_nanos(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.left()?;
        let silence = self.silence.filter(|_| self.has_read).map(|it| Duration::from_nanos(it.as_nanos_unsigned()));
        self.stream.set_read_timeout(Some(silence.map_or(left, |silence| silence.min(left))))?;
        let read = self.stream.read(into)?;
        self.has_read = true;
        Ok(read)
    }
}

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(super) struct Connection {
    address: SocketAddr,
    open: Option<Incoming<Timed>>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, open: None }
    }

    /// Connects anew.
    pub(super) fn connect(&mut self, until: Timestamp<Monotonic>) -> Result<(), Broken> {
        self.open = None;
        let left = until.as_nanos().saturating_sub(clocks::now::<Monotonic>().as_nanos()).max(1);
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_nanos(left))?;
        if stream.local_addr()? == self.address {
            // Where nobody listens the kernel may choose this very port for the own end.
            return Err(Broken::Closed);
        }
        stream.set_nodelay(true)?;
        self.open = Some(Incoming::new(Timed { stream, until, silence: None, has_read: false }));
        Ok(())
    }

    /// Asks and waits for the whole reply. A server may close a connection between two requests: then it is made anew.
    pub(super) fn ask(&mut self, asked: &Asked, until: Timestamp<Monotonic>) -> Result<Reply, Broken> {
        let was_used = self.open.is_some();
        if !was_used {
            self.connect(until)?;
        }
        let reply = match self.exchange(asked, until) {
            Err(Broken::Closed) if was_used => {
                self.connect(until)?;
                self.exchange(asked, until)
            }
            other => other,
        };
        if !matches!(reply, Ok(Reply { keeps: true, .. })) {
            self.open = None;
        }
        match reply {
            Ok(Reply { status: Some(status @ 500..), .. }) => Err(Broken::Status(status)),
            other => other,
        }
    }

    fn exchange(&mut self, asked: &Asked, until: Timestamp<Monotonic>) -> Result<Reply, Broken> {
        let incoming = self.open.as_mut().ok_or(Broken::Closed)?;
        let timed = &mut incoming.source;
        timed.until = until;
        timed.silence = matches!(asked.ends, Ends::Silence).then_some(SILENCE);
        timed.has_read = false;
        timed.stream.set_write_timeout(Some(timed.left()?))?;
        timed.stream.write_all(&asked.request)?;
        match asked.ends {
            Ends::Http => incoming.http(),
            Ends::Silence => incoming.all(),
            Ends::After(bytes) => incoming.bytes(bytes),
        }
    }
}
