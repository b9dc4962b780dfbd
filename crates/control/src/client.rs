//! The client's end of the control connection, over a blocking socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use vtare_probe::link::unreachable_remedy;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::preamble::{self, Answer, PREAMBLE_BYTE, VERSION};
use vtare_wire::session::{
    Arrivals, Client, ClientError, Counters, FlowReport, Grant, LARGEST_ARRIVALS_BYTE, Open, ReversePlan, Step,
    ToResponder,
};

use crate::channel::{Channel, ChannelError, HANDSHAKE_BYTE, Handshake, LARGEST_ANSWER_BYTE, scrub_stack, sealed_byte};
use crate::frame::{self, LENGTH_BYTE};
use crate::key::PresharedKey;

/// Why there is no session, or why its counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No TCP connection.
    #[error("cannot reach {address}: {source}{}", unreachable_remedy(source))]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The responder wants a key.
    #[error("the responder at {address} wants a key: give it with --key-file or VTARE_KEY")]
    NeedsKey {
        /// Which responder.
        address: SocketAddr,
    },
    /// The responder has no key.
    #[error("the responder at {address} has no key: start it with --key-file, or leave the key away here")]
    HasNoKey {
        /// Which responder.
        address: SocketAddr,
    },
    /// Another key.
    #[error("the responder at {address} has another key: use the same key file at both ends")]
    WrongKey {
        /// Which responder.
        address: SocketAddr,
    },
    /// Too many connections there.
    #[error("the responder at {address} has as many connections as it allows: try again later")]
    Busy {
        /// Which responder.
        address: SocketAddr,
    },
    /// Another release of the encrypted connection.
    #[error(
        "the responder at {address} speaks connection version {found}, this program {VERSION}: install the same \
         release at both ends"
    )]
    Version {
        /// Which responder.
        address: SocketAddr,
        /// What it speaks.
        found: u8,
    },
    /// Something else listens there.
    #[error("{address} is no vtare responder: another program listens on this port")]
    OtherProgram {
        /// Who.
        address: SocketAddr,
    },
    /// The connection ended.
    #[error(
        "the responder at {address} closed the connection while {doing}: it ended, or too many connections came at once"
    )]
    HungUp {
        /// Which responder.
        address: SocketAddr,
        /// What was being done.
        doing: &'static str,
    },
    /// The connection broke.
    #[error("the connection to {address} broke while {doing}: {source}")]
    Broken {
        /// Which responder.
        address: SocketAddr,
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// No answer in time.
    #[error("no answer from {address} to {asked} within {waited}: is the path open for TCP, and the responder alive?")]
    Silent {
        /// Which responder.
        address: SocketAddr,
        /// What was asked.
        asked: &'static str,
        /// How long was waited.
        waited: Span,
    },
    /// Encryption or framing failed.
    #[error("the talk with {address} failed: {source}")]
    Channel {
        /// Which responder.
        address: SocketAddr,
        /// How.
        source: ChannelError,
    },
    /// The responder refused, or its answer does not fit the question.
    #[error(transparent)]
    Session(#[from] ClientError),
}

/// A session that is open until it is closed, dropped, or over by its limits.
#[derive(Debug)]
pub struct OpenedSession {
    connection: EncryptedConnection,
    client: Client,
    grant: Grant,
    local: SocketAddr,
}

/// Opens a session with the responder at `address`.
///
/// `patience` bounds the connection's set-up and every single answer. `program` is this program's name and release,
/// shown in the responder's log. Probes must be sent from [`OpenedSession::local_address`]'s IP address to `address`
/// (same port, UDP): the responder answers no other.
///
/// # Errors
/// [`ControlError`]; a refusal, with the responder's limits, as [`ControlError::Session`].
pub fn open(
    address: SocketAddr,
    key: Option<&PresharedKey>,
    request: &Open,
    program: &str,
    patience: Span,
) -> Result<OpenedSession, ControlError> {
    let mut connection = EncryptedConnection::connect(address, key, patience)?;
    let local = connection.stream.local_addr().map_err(|source| connection.broken("connecting", source))?;
    let mut client = Client::new(*request, program, patience);
    let mut message = client.start(clocks::now());
    loop {
        match connection.ask(&mut client, &message)? {
            Step::Say(next) => message = next,
            Step::Probe(grant) => return Ok(OpenedSession { connection, client, grant, local }),
            _ => {
                return Err(ClientError::Unexpected { asked: "open", found: "an answer to something else" }.into());
            }
        }
    }
}

impl OpenedSession {
    /// What was granted: session id, handle, key and limits.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The responder's name and release.
    #[must_use]
    pub fn responder(&self) -> &str {
        self.client.responder().unwrap_or("unknown")
    }

    /// Where the control connection leaves this host: bind the probes' socket to this IP address.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The responder's counters so far; also a sign of life that keeps a silent session open.
    ///
    /// # Errors
    /// Where the session is over or the connection broke.
    pub fn count(&mut self) -> Result<Counters, ControlError> {
        let message = self.client.count(clocks::now()).ok_or_else(over)?;
        match self.connection.ask(&mut self.client, &message)? {
            Step::Counted(counters) => Ok(counters),
            _ => Err(over().into()),
        }
    }

    /// What the responder has recorded of one-way probes, from place `from` on; those before are given up. For sessions
    /// whose purpose is available bandwidth.
    ///
    /// # Errors
    /// Where the session is over, records nothing, or the connection broke.
    pub fn arrivals(&mut self, from: u64) -> Result<Arrivals, ControlError> {
        let message = self.client.fetch(clocks::now(), from).ok_or_else(over)?;
        match self.connection.ask(&mut self.client, &message)? {
            Step::Arrived(arrivals) => Ok(arrivals),
            _ => Err(over().into()),
        }
    }

    /// Has the responder send a train to where the session's probes come from, and gives the number of its first
    /// packet.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where it is not granted: the session goes on. All else ends it.
    pub fn reverse(&mut self, plan: ReversePlan) -> Result<u64, ControlError> {
        let message = self.client.reverse(clocks::now(), plan).ok_or_else(over)?;
        match self.connection.ask(&mut self.client, &message)? {
            Step::Reversing(first_sequence) => Ok(first_sequence),
            Step::NotReversing(refusal) => Err(ClientError::Refused(refusal).into()),
            _ => Err(over().into()),
        }
    }

    /// What came on the data connections, with bins from place `from` on. For sessions whose purpose is TCP throughput.
    ///
    /// # Errors
    /// Where the session is over, has none, or the connection broke.
    pub fn flows(&mut self, from: u32) -> Result<FlowReport, ControlError> {
        let message = self.client.flows(clocks::now(), from).ok_or_else(over)?;
        match self.connection.ask(&mut self.client, &message)? {
            Step::Flowed(report) => Ok(report),
            _ => Err(over().into()),
        }
    }

    /// Ends the session and gives the responder's last counters. A session that expired less than a minute ago still
    /// has them.
    ///
    /// # Errors
    /// Where the connection broke: the counters are lost then, which is not zero.
    pub fn close(mut self) -> Result<Counters, ControlError> {
        let message = self.client.close(clocks::now()).ok_or_else(over)?;
        match self.connection.ask(&mut self.client, &message)? {
            Step::Done(counters) => Ok(counters),
            _ => Err(over().into()),
        }
    }
}

const fn over() -> ClientError {
    ClientError::Unexpected { asked: "count or close", found: "a talk that is over" }
}

/// The encrypted connection.
#[derive(Debug)]
struct EncryptedConnection {
    address: SocketAddr,
    stream: TcpStream,
    channel: Channel,
    patience: Span,
}

/// A connection before it is encrypted.
struct PlainConnection<'s> {
    address: SocketAddr,
    stream: &'s TcpStream,
    deadline: Timestamp<Monotonic>,
    patience: Span,
    doing: &'static str,
}

/// Payload of a segment: what every host of IPv4 takes (RFC 9293, 3.7.1), so that the packet is below any MTU in use.
const SEGMENT_BYTE: u32 = 536;

/// Connects, and has both ends send segments of [`SEGMENT_BYTE`] at most: where large packets vanish on the way without
/// a word, the far end's answers would.
fn connect_in_small_segments(address: SocketAddr, patience: Duration) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A kernel that refuses it has a size of its own.
    let _ = socket.set_tcp_mss(SEGMENT_BYTE);
    socket.connect_timeout(&address.into(), patience)?;
    Ok(socket.into())
}

impl EncryptedConnection {
    fn connect(address: SocketAddr, key: Option<&PresharedKey>, patience: Span) -> Result<Self, ControlError> {
        let deadline = clocks::now::<Monotonic>() + patience;
        let stream = connect_in_small_segments(address, duration(patience)).map_err(|source| match source.kind() {
            ErrorKind::TimedOut => ControlError::Silent { address, asked: "connect", waited: patience },
            _ => ControlError::Connect { address, source },
        })?;
        // Without: the client's second message waits for the acknowledgement of the first. Only a delay where it is
        // refused.
        let _ = stream.set_nodelay(true);
        let failed = |source| ControlError::Channel { address, source };
        let plain = PlainConnection { address, stream: &stream, deadline, patience, doing: "shaking hands" };

        let hello = preamble::of_client(key.is_some());
        let mut handshake = Handshake::of_client(key, &hello).map_err(failed)?;
        let mut out = hello.to_vec();
        handshake.write(&mut out).and_then(|()| handshake.forget_key()).map_err(failed)?;
        scrub_stack();
        plain.write(&out)?;

        let mut answer = [0; PREAMBLE_BYTE];
        plain.read(&mut answer)?;
        let (version, answer) = preamble::read_responder(&answer).ok_or(ControlError::OtherProgram { address })?;
        match answer {
            Answer::GoOn => {}
            Answer::Version => return Err(ControlError::Version { address, found: version }),
            Answer::NeedsKey => return Err(ControlError::NeedsKey { address }),
            Answer::HasNoKey => return Err(ControlError::HasNoKey { address }),
            Answer::WrongKey => return Err(ControlError::WrongKey { address }),
            Answer::Busy => return Err(ControlError::Busy { address }),
            // Sent on data connections only.
            Answer::NoStream => return Err(ControlError::OtherProgram { address }),
        }
        let body = plain.read_frame(HANDSHAKE_BYTE)?;
        // The responder took message 1, so it has the key; message 2 can only have been changed on the way.
        handshake.read(&body).map_err(failed)?;
        let channel = handshake.finish().map_err(failed)?;
        Ok(Self { address, stream, channel, patience })
    }

    /// Sends a message and hands the answer to `client`.
    fn ask(&mut self, client: &mut Client, message: &ToResponder) -> Result<Step, ControlError> {
        let address = self.address;
        let failed = |source| ControlError::Channel { address, source };
        let deadline = clocks::now::<Monotonic>() + self.patience;
        let doing = match message {
            ToResponder::Hello(_) => "sending the hello",
            ToResponder::Open(_) => "asking for a session",
            ToResponder::Count { .. } => "asking for counters",
            ToResponder::Arrivals { .. } => "asking for arrivals",
            ToResponder::Reverse { .. } => "asking for a train",
            ToResponder::Flows { .. } => "asking what came",
            ToResponder::Close { .. } => "closing the session",
        };
        let most_byte = match message {
            ToResponder::Arrivals { .. } => LARGEST_ARRIVALS_BYTE,
            _ => LARGEST_ANSWER_BYTE,
        };
        let plain = PlainConnection { address, stream: &self.stream, deadline, patience: self.patience, doing };
        let mut out = Vec::new();
        self.channel.write(message, &mut out).map_err(failed)?;
        plain.write(&out)?;
        let body = plain.read_frame(sealed_byte(most_byte))?;
        let answer = self.channel.read(&body).and_then(|text| crate::channel::decode_answer(&text)).map_err(failed)?;
        Ok(client.receive(clocks::now(), answer)?)
    }

    fn broken(&self, doing: &'static str, source: std::io::Error) -> ControlError {
        ControlError::Broken { address: self.address, doing, source }
    }
}

impl PlainConnection<'_> {
    /// The time that is left, for the next system call.
    fn left(&self) -> Result<Duration, ControlError> {
        let left = self.deadline - clocks::now::<Monotonic>();
        if left > Span::ZERO { Ok(duration(left)) } else { Err(self.silent()) }
    }

    fn silent(&self) -> ControlError {
        ControlError::Silent { address: self.address, asked: self.doing, waited: self.patience }
    }

    fn failed(&self, source: std::io::Error) -> ControlError {
        let Self { address, doing, .. } = *self;
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.silent(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                ControlError::HungUp { address, doing }
            }
            _ => ControlError::Broken { address, doing, source },
        }
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), ControlError> {
        let mut stream = self.stream;
        while !bytes.is_empty() {
            stream.set_write_timeout(Some(self.left()?)).map_err(|source| self.failed(source))?;
            match stream.write(bytes) {
                Ok(0) => return Err(self.failed(ErrorKind::BrokenPipe.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn read(&self, mut buffer: &mut [u8]) -> Result<(), ControlError> {
        let mut stream = self.stream;
        while !buffer.is_empty() {
            stream.set_read_timeout(Some(self.left()?)).map_err(|source| self.failed(source))?;
            match stream.read(buffer) {
                Ok(0) => return Err(self.failed(ErrorKind::UnexpectedEof.into())),
                Ok(found) => buffer = &mut buffer[found..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn read_frame(&self, most_byte: usize) -> Result<Vec<u8>, ControlError> {
        let failed = |source: frame::TooLong| ControlError::Channel { address: self.address, source: source.into() };
        let mut length = [0; LENGTH_BYTE];
        self.read(&mut length)?;
        frame::first(&length, most_byte).map_err(failed)?;
        let mut body = vec![0; u16::from_be_bytes(length).into()];
        self.read(&mut body)?;
        Ok(body)
    }
}

fn duration(span: Span) -> Duration {
    // A timeout of 0 means "for ever" to the system.
    Duration::from_nanos(span.as_nanos_unsigned().max(1_000))
}
