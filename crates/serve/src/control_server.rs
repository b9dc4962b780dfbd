//! The thread that holds the control connections, ends sessions and writes the journal.

use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use vtare_control::server::{Connection, INBOX_BYTE};
use vtare_control::{Event, FirstMessages, Hangup, Surroundings};
use vtare_sys::clocks;
use vtare_sys::errno::{EMFILE, ENFILE};
use vtare_sys::net::Socket;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::connections::ConnectionTable;
use vtare_wire::session::{Bucket, Joined, Secrets, Table};
use vtare_wire::{SessionId, SessionKey};

use crate::error::ServeError;
use crate::journal::{Journal, Line, Weight};
use crate::journal_text::{account, kind_of_flow, kind_of_hangup, kind_of_refusal};
use crate::options::Options;
use crate::reverse::Order;
use crate::sink::{FlowEnded, NewFlow, SinkHandle};
use crate::tally::{BUFFER_FULL, KINDS, Tally};

const LISTENER: Token = Token(usize::MAX);

/// How often time limits, expired sessions and the journal are checked.
const CHECK_EVERY: Span = Span::from_millis(100);

/// How long new connections wait where too many came in the last second.
const ACCEPT_PAUSE: Span = Span::from_millis(1);

/// Connections accepted before the others are served again.
const ACCEPTS_AT_ONCE: usize = 64;

/// Connections above the rate that are accepted where fewer came before.
const ACCEPT_BURST: u64 = 1_000;

/// How long a connection that was hung up on is read from, so that the answer is not lost in a reset of the connection.
const LINGER: Span = Span::from_millis(500);

/// Reads of one connection before the others are served again. The bound on its messages comes first.
const READS_AT_ONCE: usize = 1_024;

#[derive(Debug)]
struct ClientConnection {
    stream: TcpStream,
    protocol: Connection,
    /// It has shown a fresh first message.
    shown: bool,
    /// It has proved that it has the key.
    known: bool,
    /// The reason for its end has been sent; what it still sends is thrown away until then.
    closes_at: Option<Timestamp<Monotonic>>,
}

/// What the control server counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sessions: u64,
    pub(super) turned_away: u64,
}

/// Whether connections wait to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backlog {
    None,
    Perhaps,
    /// They are to wait: too many came, or the kernel had no descriptor.
    TooMany,
}

pub(super) struct ControlServer<'a, W> {
    options: &'a Options,
    listener: TcpListener,
    poll: Poll,
    table: &'a Mutex<Table>,
    tally: &'a Tally,
    journal: Journal<W>,
    probes: &'a Socket,
    orders: Sender<Order>,
    sink: SinkHandle<'a>,
    places: ConnectionTable,
    first_messages: FirstMessages,
    connections: Vec<Option<ClientConnection>>,
    accepts: Bucket,
    counts: Counts,
}

/// Has a poll watch the listener. Done before privileges are given up: making a poll needs a system call that is not
/// wanted later.
pub(super) fn watch_listener(listener: &mut TcpListener) -> Result<Poll, ServeError> {
    let made = Poll::new().and_then(|poll| {
        poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        Ok(poll)
    });
    made.map_err(|source| ServeError::Io { doing: "watching the listening socket", source })
}

impl<'a, W: FnMut(&Line)> ControlServer<'a, W> {
    pub(super) fn new(
        options: &'a Options,
        listener: TcpListener,
        poll: Poll,
        table: &'a Mutex<Table>,
        tally: &'a Tally,
        (journal, probes, orders, sink): (Journal<W>, &'a Socket, Sender<Order>, SinkHandle<'a>),
    ) -> Self {
        let places = ConnectionTable::new(options.connections.places());
        let accepts = Bucket::new(options.connections.accepts_per_s, ACCEPT_BURST);
        Self {
            options,
            listener,
            poll,
            table,
            tally,
            journal,
            probes,
            orders,
            sink,
            places,
            first_messages: FirstMessages::default(),
            connections: Vec::new(),
            accepts,
            counts: Counts::default(),
        }
    }

    /// Serves control connections until `ended`.
    pub(super) fn serve(mut self, ended: &dyn Fn() -> bool) -> Result<Counts, ServeError> {
        let mut events = Events::with_capacity(256);
        // The poll reports new connections once: what was not accepted then must be remembered.
        let mut backlog = Backlog::None;
        let mut check_at = Timestamp::ZERO;
        while !ended() {
            let wait = match backlog {
                Backlog::None => CHECK_EVERY,
                Backlog::TooMany => ACCEPT_PAUSE,
                Backlog::Perhaps => Span::ZERO,
            };
            let wait = Duration::from_nanos(wait.as_nanos_unsigned());
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(ServeError::Io { doing: "waiting for control connections", source: error });
                }
                _ => {}
            }
            let now = clocks::now::<Monotonic>();
            for event in &events {
                match event.token() {
                    LISTENER => backlog = Backlog::Perhaps,
                    Token(place) => self.on_ready(place, now),
                }
            }
            if backlog != Backlog::None {
                backlog = self.accept(now);
            }
            if now >= check_at {
                check_at = now + CHECK_EVERY;
                self.check_limits(now);
            }
        }
        self.end();
        Ok(self.counts)
    }

    /// Accepts new connections; answers whether some may still be waiting.
    fn accept(&mut self, now: Timestamp<Monotonic>) -> Backlog {
        for _ in 0..ACCEPTS_AT_ONCE {
            if !self.accepts.admit(now) {
                return Backlog::TooMany;
            }
            match self.listener.accept() {
                Ok((stream, from)) => self.register(stream, from.ip().to_canonical(), now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Backlog::None,
                // The connection has been closed already, or descriptors ran out for the moment: the next round tries
                // again.
                Err(error) => {
                    let example = || error.to_string();
                    self.journal.note(now, "accept_failed", Weight::Refusal, 1, example);
                    // Fewer descriptors than places: those that are silent must not keep them all.
                    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
                        for place in self.places.who_goes() {
                            self.counts.turned_away += 1;
                            self.close(place, now);
                        }
                    }
                    return Backlog::TooMany;
                }
            }
        }
        Backlog::Perhaps
    }

    fn register(&mut self, mut stream: TcpStream, ip: IpAddr, now: Timestamp<Monotonic>) {
        let (place, displaced) = self.places.enter(ip);
        self.make_room(displaced, ip, now);
        // Answers are small and each is awaited: none shall wait for another.
        let _ = stream.set_nodelay(true);
        if self.poll.registry().register(&mut stream, Token(place), Interest::READABLE | Interest::WRITABLE).is_err() {
            self.places.leave(place);
            return;
        }
        let protocol = Connection::new(ip, now, self.options.connections.patience);
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        self.connections[place] =
            Some(ClientConnection { stream, protocol, shown: false, known: false, closes_at: None });
        // What came with the connection is read now: the poll would report it only in the next round.
        self.on_ready(place, now);
    }

    /// Closes the connections at `displaced` for one of `ip`.
    fn make_room(&mut self, displaced: Vec<usize>, ip: IpAddr, now: Timestamp<Monotonic>) {
        let count = displaced.len() as u64;
        if count > 0 {
            self.counts.turned_away += count;
            let most = self.options.connections.handshakes;
            let example = || format!("more than {most} handshakes at once; the last one of {ip}");
            self.journal.note(now, "crowded", Weight::Refusal, count, example);
        }
        for place in displaced {
            self.close(place, now);
        }
    }

    /// Reads from, answers and writes to the connection at `place`.
    fn on_ready(&mut self, place: usize, now: Timestamp<Monotonic>) {
        let Some(mut connection) = self.connections.get_mut(place).and_then(Option::take) else { return };
        let stays = self.exchange(place, &mut connection, now);
        if let (true, Some(joined)) = (stays, connection.protocol.take_stream()) {
            return self.hand_over(place, connection, joined);
        }
        self.connections[place] = Some(connection);
        if !stays {
            self.close(place, now);
        }
    }

    /// Answers whether the connection stays open.
    fn exchange(&mut self, place: usize, connection: &mut ClientConnection, now: Timestamp<Monotonic>) -> bool {
        // The poll reports once what there is: go on until there is no more.
        let mut buffer = [0; INBOX_BYTE];
        for _ in 0..READS_AT_ONCE {
            match flush(connection) {
                Flushed::Gone => return false,
                Flushed::Full => return true,
                Flushed::All => {}
            }
            let room = if connection.closes_at.is_some() { buffer.len() } else { connection.protocol.room() };
            let got = match connection.stream.read(&mut buffer[..room]) {
                Ok(0) => return false,
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            if connection.closes_at.is_some() {
                // Read and thrown away, so that the kernel does not answer unread bytes with a reset that overtakes our
                // answer.
                continue;
            }
            if let Err(hangup) = self.receive(place, connection, &buffer[..got], now) {
                let peer = connection.protocol.peer();
                self.note_hangup(now, hangup, peer, connection.known);
                if matches!(flush(connection), Flushed::Gone)
                    || connection.stream.shutdown(std::net::Shutdown::Write).is_err()
                {
                    return false;
                }
                connection.closes_at = Some(now + LINGER);
                self.places.condemn(place);
            } else if connection.protocol.is_stream() {
                // What comes next is data, for another thread.
                return matches!(flush(connection), Flushed::All);
            }
        }
        // Only one that is being closed can have more to read: any other is closed at its bound on messages.
        connection.closes_at.is_some()
    }

    /// Gives a data connection to the thread that reads them. Its place among the connections stays taken until it ends
    /// there.
    fn hand_over(&mut self, place: usize, mut connection: ClientConnection, joined: Joined) {
        if self.poll.registry().deregister(&mut connection.stream).is_err() {
            self.places.leave(place);
            return;
        }
        let peer = connection.protocol.peer();
        self.sink.send(NewFlow { stream: connection.stream, joined, place, peer });
    }

    fn receive(
        &mut self,
        place: usize,
        connection: &mut ClientConnection,
        bytes: &[u8],
        now: Timestamp<Monotonic>,
    ) -> Result<(), Hangup> {
        let (options, probes, orders) = (self.options, self.probes, &self.orders);
        // A train leaves from the address that its client knows this host by.
        let asked = options.listen.ip().is_unspecified().then(|| connection.stream.local_addr().ok()).flatten();
        let asked = asked.map(|address| address.ip());
        let around = Surroundings {
            keys: &options.keys,
            first_messages: &self.first_messages,
            table: self.table,
            program: &options.program,
            patience: options.connections.patience,
            socket_drops: &|| probes.drops().ok(),
        };
        let (journal, counts, peer) = (&mut self.journal, &mut self.counts, connection.protocol.peer());
        let result = connection.protocol.receive(now, bytes, &around, &mut fresh_secrets, &mut |event| match event {
            Event::Opened(session, open) => {
                counts.sessions += 1;
                journal.note(now, "opened", Weight::Course, 1, || {
                    if let Some(plan) = open.flows {
                        let seconds = open.duration_ns as f64 / 1e9;
                        let (streams, byte) = (plan.streams, plan.byte);
                        return format!(
                            "session {session} for {peer}: TCP, {streams} streams for {seconds} s, at most {byte} B"
                        );
                    }
                    format!(
                        "session {session} for {peer}: {} packet/s for {} s, at most {} packets of {} B",
                        open.rate_packet_per_s,
                        open.duration_ns as f64 / 1e9,
                        open.packets,
                        open.size_byte
                    )
                });
            }
            Event::Refused(refusal) => {
                journal.note(now, kind_of_refusal(&refusal), Weight::Refusal, 1, || format!("{peer}: {refusal}"));
            }
            // The other end of the channel lives as long as this thread.
            Event::Reverse(order) => drop(orders.send((order, asked))),
            Event::Closed(session, counters) => {
                journal.note(now, "closed", Weight::Course, 1, || account(session, &counters));
            }
        });
        if connection.protocol.has_shown_key() && !connection.shown {
            connection.shown = true;
            let displaced = self.places.show(place);
            self.make_room(displaced, peer, now);
        }
        if connection.protocol.is_authenticated() && !connection.known {
            connection.known = self.places.promote(place).is_some();
            if !connection.known {
                connection.protocol.turn_away();
                return Err(Hangup::TooManyConnections);
            }
        }
        result
    }

    fn note_hangup(&mut self, now: Timestamp<Monotonic>, hangup: Hangup, peer: IpAddr, known: bool) {
        self.counts.turned_away += u64::from(!known);
        self.journal.note(now, kind_of_hangup(hangup), Weight::Refusal, 1, || format!("{peer}: {hangup}"));
    }

    /// Closes the connection at `place` and what it had opened.
    fn close(&mut self, place: usize, now: Timestamp<Monotonic>) {
        self.places.leave(place);
        let Some(connection) = self.connections.get_mut(place).and_then(Option::take) else { return };
        let journal = &mut self.journal;
        connection.protocol.hang_up(self.table, |session, counters| {
            let example = || format!("its client went away: {}", account(session, &counters));
            journal.note(now, "abandoned", Weight::Course, 1, example);
        });
    }

    /// What is done every [`CHECK_EVERY`].
    fn check_limits(&mut self, now: Timestamp<Monotonic>) {
        let drops = self.probes.drops().ok();
        let expired = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.note_socket_drops(drops);
            table.expire(now)
        };
        while let Some(FlowEnded { place, peer, cause }) = self.sink.left() {
            self.places.leave(place);
            if let Some(cause) = cause {
                self.journal.note(now, kind_of_flow(cause), Weight::Refusal, 1, || format!("{peer}: {cause}"));
            }
        }
        let patience = self.options.connections.patience;
        for (session, counters) in expired {
            self.journal.note(now, "expired", Weight::Course, 1, || account(session, &counters));
            let mut connections = self.connections.iter_mut().flatten();
            connections.any(|connection| connection.protocol.expired(now, patience, session, counters));
        }
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            let over = match connection.closes_at {
                Some(closes_at) => now >= closes_at,
                None => match connection.protocol.check(now) {
                    Ok(()) => false,
                    Err(hangup) => {
                        let (peer, known) = (connection.protocol.peer(), connection.known);
                        self.note_hangup(now, hangup, peer, known);
                        true
                    }
                },
            };
            if over {
                self.close(place, now);
            }
        }
        for (index, drops) in self.tally.take().into_iter().enumerate() {
            if drops.count > 0 {
                self.journal.note(now, KINDS[index], Weight::Refusal, drops.count, || match drops.example {
                    Some((from, cause)) => format!("datagrams, one of them from {from}: {cause}"),
                    None if index == BUFFER_FULL => "datagrams found the receive buffer full".to_owned(),
                    None => "datagrams".to_owned(),
                });
            }
        }
        self.journal.flush(now);
    }

    /// Closes all connections, and with them all sessions.
    fn end(&mut self) {
        let now = clocks::now::<Monotonic>();
        for place in 0..self.connections.len() {
            self.close(place, now);
        }
        self.check_limits(now);
    }
}

enum Flushed {
    All,
    Full,
    Gone,
}

fn flush(connection: &mut ClientConnection) -> Flushed {
    let outbox = connection.protocol.outbox();
    while !outbox.is_empty() {
        match connection.stream.write(outbox) {
            Ok(0) => return Flushed::Gone,
            Ok(written) => drop(outbox.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Flushed::Full,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Flushed::Gone,
        }
    }
    Flushed::All
}

/// Random bytes for a session, from the system.
fn fresh_secrets() -> Secrets {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).expect("getrandom has no way to fail once the system has started");
    let (id, key) = bytes.split_at(8);
    let mut name = [0; 8];
    name.copy_from_slice(id);
    let mut secret = [0; 16];
    secret.copy_from_slice(key);
    Secrets { session: SessionId(u64::from_be_bytes(name)), key: SessionKey::new(secret) }
}
