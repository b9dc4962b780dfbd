//! The responder's end of one control connection, without its socket.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use vtare_units::{Monotonic, Timestamp};
use vtare_wire::SessionId;
use vtare_wire::hello::{self, HELLO_BYTE};
use vtare_wire::preamble::{self, Answer, PREAMBLE_BYTE, VERSION};
use vtare_wire::session::{Counters, FlowCause, Joined, Secrets, Table};

use crate::channel::{
    Channel, ChannelError, HANDSHAKE_BYTE, Handshake, LARGEST_MESSAGE_BYTE, scrub_stack, sealed_byte,
};
use crate::dialogue::Dialogue;
use crate::frame::{self, LENGTH_BYTE};
use crate::hangup::Hangup;
use crate::surroundings::{Event, Surroundings, TimeLimits};

/// Bytes that a connection holds of what has come and is not whole yet: one frame of the longest message.
pub const INBOX_BYTE: usize = LENGTH_BYTE + sealed_byte(LARGEST_MESSAGE_BYTE);

#[derive(Debug)]
enum Stage {
    Preamble,
    /// The preamble has come, message 1 has not. The handshake begins with the message: until then there is nothing of
    /// the key here.
    Handshake([u8; PREAMBLE_BYTE]),
    Exchange(Box<Exchange>),
    /// A data connection that has proved itself, until [`Connection::take_stream`].
    Stream(Joined),
    Over,
}

#[derive(Debug)]
struct Exchange {
    channel: Channel,
    dialogue: Dialogue,
    /// A frame of the client has been decrypted: it is no copy of a recorded handshake.
    is_proven: bool,
}

/// One control connection: bytes in, bytes out.
#[derive(Debug)]
pub struct Connection {
    peer: IpAddr,
    stage: Stage,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// When the connection is closed if nothing more comes of it.
    deadline: Timestamp<Monotonic>,
}

impl Connection {
    /// A connection that `peer` has just made.
    #[must_use]
    pub fn new(peer: IpAddr, now: Timestamp<Monotonic>, patience: TimeLimits) -> Self {
        let deadline = now + patience.handshake;
        Self { peer, stage: Stage::Preamble, inbox: Vec::new(), outbox: Vec::new(), deadline }
    }

    /// Whose it is.
    #[must_use]
    pub const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether a fresh first message has come, which only the pre-shared key makes.
    #[must_use]
    pub const fn has_shown_key(&self) -> bool {
        matches!(self.stage, Stage::Exchange(_) | Stage::Stream(_))
    }

    /// Whether the client has proved that it has a key now: a frame of it has been decrypted, or its tag is that of a
    /// session.
    #[must_use]
    pub const fn is_authenticated(&self) -> bool {
        match &self.stage {
            Stage::Exchange(exchange) => exchange.is_proven,
            Stage::Stream(_) => true,
            _ => false,
        }
    }

    /// Whether it has become a data connection: its answer is to be sent, and nothing more to be received here.
    #[must_use]
    pub const fn is_stream(&self) -> bool {
        matches!(self.stage, Stage::Stream(_))
    }

    /// Gives the data connection away, once its answer has been sent.
    pub fn take_stream(&mut self) -> Option<Joined> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Stream(joined) => Some(joined),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// There is no room for this connection: a data connection that was just accepted gets this as its answer instead.
    pub fn turn_away(&mut self) {
        if self.is_stream() {
            self.stage = Stage::Over;
            self.outbox.clear();
            self.outbox.extend_from_slice(&preamble::of_responder(Answer::Busy));
        }
    }

    /// Bytes to be sent; the caller removes what it has sent. While there are any, [`Connection::receive`] should not
    /// be called, so that a client that does not read cannot make the responder hold more than one answer.
    pub const fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// How many bytes it takes now.
    #[must_use]
    pub fn room(&self) -> usize {
        INBOX_BYTE.saturating_sub(self.inbox.len())
    }

    /// Whether its time is over.
    ///
    /// # Errors
    /// [`Hangup::SlowHandshake`], [`Hangup::Idle`].
    pub fn check(&self, now: Timestamp<Monotonic>) -> Result<(), Hangup> {
        match &self.stage {
            _ if now < self.deadline => Ok(()),
            Stage::Exchange(exchange) if exchange.dialogue.has_sessions() => Ok(()),
            Stage::Exchange(exchange) if exchange.is_proven => Err(Hangup::Idle),
            _ => Err(Hangup::SlowHandshake),
        }
    }

    /// Takes bytes that have come, at most [`Connection::room`], and puts answers into the outbox. `secrets` gives the
    /// random parts of a new session.
    ///
    /// # Errors
    /// Why the connection is to be closed after its outbox has been sent.
    pub fn receive(
        &mut self,
        now: Timestamp<Monotonic>,
        bytes: &[u8],
        around: &Surroundings<'_>,
        secrets: &mut dyn FnMut() -> Secrets,
        events: &mut dyn FnMut(Event),
    ) -> Result<(), Hangup> {
        let (taken, beyond) = bytes.split_at(bytes.len().min(self.room()));
        self.inbox.extend_from_slice(taken);
        let result = self.digest(now, around, secrets, events).and(if beyond.is_empty() {
            Ok(())
        } else {
            Err(Hangup::TooLong { found_byte: INBOX_BYTE + beyond.len(), most_byte: INBOX_BYTE })
        });
        if result.is_err() {
            self.inbox = Vec::new();
        }
        result
    }

    fn digest(
        &mut self,
        now: Timestamp<Monotonic>,
        around: &Surroundings<'_>,
        secrets: &mut dyn FnMut() -> Secrets,
        events: &mut dyn FnMut(Event),
    ) -> Result<(), Hangup> {
        loop {
            let used = match &mut self.stage {
                Stage::Preamble => {
                    if !preamble::may_begin(&self.inbox) {
                        return Err(Hangup::OtherProtocol);
                    }
                    let Some(preamble) = self.inbox.first_chunk::<PREAMBLE_BYTE>() else { return Ok(()) };
                    if preamble::read_stream(preamble).is_some() {
                        let Some(hello) = self.inbox.first_chunk::<HELLO_BYTE>() else { return Ok(()) };
                        let hasty = self.inbox.len() > HELLO_BYTE;
                        return match join(now, self.peer, hello, hasty, around.table) {
                            Ok(joined) => {
                                self.stage = Stage::Stream(joined);
                                self.inbox = Vec::new();
                                self.outbox.extend_from_slice(&preamble::of_responder(Answer::GoOn));
                                Ok(())
                            }
                            Err(cause) => self.refuse(Answer::NoStream, Hangup::Stream(cause)),
                        };
                    }
                    if let Err((answer, hangup)) = agree(preamble, !around.keys.is_empty()) {
                        return self.refuse(answer, hangup);
                    }
                    self.stage = Stage::Handshake(*preamble);
                    PREAMBLE_BYTE
                }
                Stage::Handshake(prologue) => {
                    let prologue = *prologue;
                    let body = frame::first(&self.inbox, HANDSHAKE_BYTE).map_err(too_long)?;
                    let Some(body) = body else { return Ok(()) };
                    let answer = Handshake::answer(around.keys, &prologue, body);
                    scrub_stack();
                    let Some(handshake) = answer? else {
                        return self.refuse(Answer::WrongKey, Hangup::WrongKey);
                    };
                    if !around.first_messages.is_first(body) {
                        self.stage = Stage::Over;
                        return Err(Hangup::Replayed);
                    }
                    let used = LENGTH_BYTE + body.len();
                    self.outbox.extend_from_slice(&preamble::of_responder(Answer::GoOn));
                    let channel = handshake.finish_with_answer(&mut self.outbox)?;
                    let dialogue = Dialogue::new(self.peer, around.program);
                    // The deadline stays: it is the one of the whole handshake.
                    self.stage = Stage::Exchange(Box::new(Exchange { channel, dialogue, is_proven: false }));
                    used
                }
                Stage::Exchange(exchange) => {
                    let most_byte = sealed_byte(LARGEST_MESSAGE_BYTE);
                    let Some(body) = frame::first(&self.inbox, most_byte).map_err(too_long)? else { return Ok(()) };
                    exchange.dialogue.admit(now)?;
                    let text = exchange.channel.read(body).map_err(|_| Hangup::Seal)?;
                    exchange.is_proven = true;
                    let answer = exchange.dialogue.answer(now, &text, around, secrets, events)?;
                    exchange.channel.write_answer(&answer, &mut self.outbox).map_err(|_| Hangup::Cipher)?;
                    if exchange.dialogue.is_over() {
                        return Err(Hangup::Refused);
                    }
                    self.deadline = now + around.patience.idle;
                    LENGTH_BYTE + body.len()
                }
                // Nothing is read any more; whoever calls again gets this.
                Stage::Stream(_) => return self.refuse(Answer::NoStream, Hangup::Stream(FlowCause::Hasty)),
                Stage::Over => return Err(Hangup::Refused),
            };
            self.inbox.drain(..used);
        }
    }

    fn refuse(&mut self, answer: Answer, hangup: Hangup) -> Result<(), Hangup> {
        self.outbox.extend_from_slice(&preamble::of_responder(answer));
        self.stage = Stage::Over;
        Err(hangup)
    }

    /// Takes note that a session has ended by itself; its counters are kept for the client. Answers whether it was one
    /// of this connection.
    pub fn expired(
        &mut self,
        now: Timestamp<Monotonic>,
        patience: TimeLimits,
        id: SessionId,
        counters: Counters,
    ) -> bool {
        let Stage::Exchange(exchange) = &mut self.stage else { return false };
        if !exchange.dialogue.expired(id, counters) {
            return false;
        }
        self.deadline = self.deadline.max(now + patience.idle);
        true
    }

    /// Ends the connection and every session that it opened; gives their last counters to `ended`.
    pub fn hang_up(self, table: &Mutex<Table>, ended: impl FnMut(SessionId, Counters)) {
        if let Stage::Exchange(exchange) = self.stage {
            exchange.dialogue.hang_up(table, ended);
        }
    }
}

/// Whether a client that begins so can be served.
fn agree(preamble: &[u8; PREAMBLE_BYTE], keyed: bool) -> Result<(), (Answer, Hangup)> {
    match (preamble::read_client(preamble), keyed) {
        (None, _) => Err((Answer::Version, Hangup::OtherProtocol)),
        (Some((found, _)), _) if found != VERSION => Err((Answer::Version, Hangup::Version { found })),
        (Some((_, false)), true) => Err((Answer::NeedsKey, Hangup::NeedsKey)),
        (Some((_, true)), false) => Err((Answer::HasNoKey, Hangup::HasNoKey)),
        _ => Ok(()),
    }
}

/// A data connection's way into its session.
fn join(
    now: Timestamp<Monotonic>,
    peer: IpAddr,
    hello: &[u8; HELLO_BYTE],
    hasty: bool,
    table: &Mutex<Table>,
) -> Result<Joined, FlowCause> {
    // Bytes that were not asked for could not be handed on.
    if hasty {
        return Err(FlowCause::Hasty);
    }
    let hello = hello::Unverified::parse(hello).ok_or(FlowCause::WrongTag)?;
    table.lock().unwrap_or_else(PoisonError::into_inner).join(now, peer, &hello)
}

fn too_long(error: frame::TooLong) -> Hangup {
    Hangup::TooLong { found_byte: error.found_byte, most_byte: error.most_byte }
}

impl From<ChannelError> for Hangup {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::TooLong(error) => too_long(error),
            ChannelError::Seal => Self::Seal,
            ChannelError::Message(_) | ChannelError::Arrivals(_) => Self::Message,
            ChannelError::Cipher(_) => Self::Cipher,
        }
    }
}
