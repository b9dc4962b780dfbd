//! The thread that holds the control connections, ends sessions and writes the journal.

use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use vtare_sys::clocks;
use vtare_sys::net::Socket;
use vtare_units::{Monotonic, Span, Timestamp};

use super::crowd::Crowd;
use super::journal::{Journal, Line, Weight};
use super::reverse::Order;
use super::sink::{Guided, Left, Newcomer};
use super::tally::{BUFFER_FULL, KINDS, Tally};
use super::words::{account, kind_of_flow, kind_of_hangup, kind_of_refusal};
use super::{Options, ServeError};
use crate::control::FirstMessages;
use crate::control::server::{Connection, Event, Hangup, INBOX_BYTE, Surroundings};
use crate::session::{Bucket, Joined, Secrets, Table};
use crate::wire::{SessionId, SessionKey};

const LISTENER: Token = Token(usize::MAX);

/// How often time limits, expired sessions and the journal are looked at.
const LOOK_EVERY: Span = Span::from_millis(100);

/// How long newcomers wait where too many came in the last second.
const ACCEPT_PAUSE: Span = Span::from_millis(1);

/// Newcomers taken in before the others are heard again.
const ACCEPTS_AT_ONCE: usize = 64;

/// `errno` where this process, or the system, has no descriptor left.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Newcomers above the rate that are taken in where fewer came before.
const ACCEPT_BURST: u64 = 1_000;

/// How long a connection that was hung up on is read from, so that the answer is not lost in a reset of the connection.
const FAREWELL: Span = Span::from_millis(500);

/// Reads of one connection before the others are heard again. A talker's bound on messages comes first.
const READS_AT_ONCE: usize = 1_024;

#[derive(Debug)]
struct Guest {
    stream: TcpStream,
    talk: Connection,
    /// It has shown a fresh first message.
    shown: bool,
    /// It has proved that it has the key.
    known: bool,
    /// It has been told why it must go; nothing is heard any more.
    leaves_at: Option<Timestamp<Monotonic>>,
}

/// What the reception counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sessions: u64,
    pub(super) turned_away: u64,
}

/// Whether connections wait to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newcomers {
    None,
    Perhaps,
    /// They are to wait: too many came, or the kernel had no descriptor.
    TooMany,
}

pub(super) struct Reception<'a, W> {
    options: &'a Options,
    listener: TcpListener,
    poll: Poll,
    table: &'a Mutex<Table>,
    tally: &'a Tally,
    journal: Journal<W>,
    probes: &'a Socket,
    orders: Sender<Order>,
    sink: Guided<'a>,
    crowd: Crowd,
    first_messages: FirstMessages,
    guests: Vec<Option<Guest>>,
    accepts: Bucket,
    counts: Counts,
}

/// Has a poll watch the listener. Done before privileges are given up: making a poll needs a system call that is not wanted later.
pub(super) fn register(listener: &mut TcpListener) -> Result<Poll, ServeError> {
    let made = Poll::new().and_then(|poll| {
        poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        Ok(poll)
    });
    made.map_err(|source| ServeError::Io { doing: "watching the listening socket", source })
}

impl<'a, W: FnMut(&Line)> Reception<'a, W> {
    pub(super) fn new(
        options: &'a Options,
        listener: TcpListener,
        poll: Poll,
        table: &'a Mutex<Table>,
        tally: &'a Tally,
        (journal, probes, orders, sink): (Journal<W>, &'a Socket, Sender<Order>, Guided<'a>),
    ) -> Self {
        let crowd = Crowd::new(options.crowd);
        let accepts = Bucket::new(options.crowd.accepts_per_s, ACCEPT_BURST);
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
            crowd,
            first_messages: FirstMessages::default(),
            guests: Vec::new(),
            accepts,
            counts: Counts::default(),
        }
    }

    /// Serves control connections until `ended`.
    pub(super) fn serve(mut self, ended: &dyn Fn() -> bool) -> Result<Counts, ServeError> {
        let mut events = Events::with_capacity(256);
        // The poll tells of newcomers once: what was not accepted then must be remembered.
        let mut newcomers = Newcomers::None;
        let mut look_at = Timestamp::ZERO;
        while !ended() {
            let wait = match newcomers {
                Newcomers::None => LOOK_EVERY,
                Newcomers::TooMany => ACCEPT_PAUSE,
                Newcomers::Perhaps => Span::ZERO,
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
                    LISTENER => newcomers = Newcomers::Perhaps,
                    Token(place) => self.attend(place, now),
                }
            }
            if newcomers != Newcomers::None {
                newcomers = self.welcome(now);
            }
            if now >= look_at {
                look_at = now + LOOK_EVERY;
                self.look(now);
            }
        }
        self.end();
        Ok(self.counts)
    }

    /// Accepts newcomers; answers whether some may still be waiting.
    fn welcome(&mut self, now: Timestamp<Monotonic>) -> Newcomers {
        for _ in 0..ACCEPTS_AT_ONCE {
            if !self.accepts.admit(now) {
                return Newcomers::TooMany;
            }
            match self.listener.accept() {
                Ok((stream, from)) => self.take_in(stream, from.ip().to_canonical(), now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Newcomers::None,
                // The newcomer has gone already, or descriptors ran out for the moment: the next round tries again.
                Err(error) => {
                    let example = || error.to_string();
                    self.journal.note(now, "accept_failed", Weight::Refusal, 1, example);
                    // Fewer descriptors than places: those that are silent must not keep them all.
                    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
                        for leaver in self.crowd.who_goes() {
                            self.counts.turned_away += 1;
                            self.see_off(leaver, now);
                        }
                    }
                    return Newcomers::TooMany;
                }
            }
        }
        Newcomers::Perhaps
    }

    fn take_in(&mut self, mut stream: TcpStream, ip: IpAddr, now: Timestamp<Monotonic>) {
        let (place, leavers) = self.crowd.enter(ip);
        self.make_room(leavers, ip, now);
        // Answers are small and each is awaited: none shall wait for another.
        let _ = stream.set_nodelay(true);
        if self.poll.registry().register(&mut stream, Token(place), Interest::READABLE | Interest::WRITABLE).is_err() {
            self.crowd.leave(place);
            return;
        }
        let talk = Connection::new(ip, now, self.options.crowd.patience);
        if self.guests.len() <= place {
            self.guests.resize_with(place + 1, || None);
        }
        self.guests[place] = Some(Guest { stream, talk, shown: false, known: false, leaves_at: None });
        // What came with the connection is read now: the poll would tell of it only in the next round.
        self.attend(place, now);
    }

    /// Closes the connections at `leavers` for one of `ip`.
    fn make_room(&mut self, leavers: Vec<usize>, ip: IpAddr, now: Timestamp<Monotonic>) {
        let count = leavers.len() as u64;
        if count > 0 {
            self.counts.turned_away += count;
            let most = self.options.crowd.handshakes;
            let example = || format!("more than {most} handshakes at once; the last one of {ip}");
            self.journal.note(now, "crowded", Weight::Refusal, count, example);
        }
        for leaver in leavers {
            self.see_off(leaver, now);
        }
    }

    /// Reads from, answers and writes to the guest at `place`.
    fn attend(&mut self, place: usize, now: Timestamp<Monotonic>) {
        let Some(mut guest) = self.guests.get_mut(place).and_then(Option::take) else { return };
        let stays = self.converse(place, &mut guest, now);
        if let (true, Some(joined)) = (stays, guest.talk.take_stream()) {
            return self.hand_over(place, guest, joined);
        }
        self.guests[place] = Some(guest);
        if !stays {
            self.see_off(place, now);
        }
    }

    /// Answers whether the guest stays.
    fn converse(&mut self, place: usize, guest: &mut Guest, now: Timestamp<Monotonic>) -> bool {
        // The poll tells once of what there is: go on until there is no more.
        let mut buffer = [0; INBOX_BYTE];
        for _ in 0..READS_AT_ONCE {
            match flush(guest) {
                Flushed::Gone => return false,
                Flushed::Full => return true,
                Flushed::All => {}
            }
            let room = if guest.leaves_at.is_some() { buffer.len() } else { guest.talk.room() };
            let got = match guest.stream.read(&mut buffer[..room]) {
                Ok(0) => return false,
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            if guest.leaves_at.is_some() {
                // Read and thrown away, so that the kernel does not answer unread bytes with a reset that overtakes our answer.
                continue;
            }
            if let Err(hangup) = self.hear(place, guest, &buffer[..got], now) {
                let peer = guest.talk.peer();
                self.note_hangup(now, hangup, peer, guest.known);
                if matches!(flush(guest), Flushed::Gone) || guest.stream.shutdown(std::net::Shutdown::Write).is_err() {
                    return false;
                }
                guest.leaves_at = Some(now + FAREWELL);
                self.crowd.condemn(place);
            } else if guest.talk.is_stream() {
                // What comes next is data, for another thread.
                return matches!(flush(guest), Flushed::All);
            }
        }
        // Only one that leaves can have more to read: a talker is hung up on long before.
        guest.leaves_at.is_some()
    }

    /// Gives a data connection to the thread that reads them. Its place among the connections stays taken until it ends there.
    fn hand_over(&mut self, place: usize, mut guest: Guest, joined: Joined) {
        if self.poll.registry().deregister(&mut guest.stream).is_err() {
            self.crowd.leave(place);
            return;
        }
        let peer = guest.talk.peer();
        self.sink.send(Newcomer { stream: guest.stream, joined, place, peer });
    }

    fn hear(&mut self, place: usize, guest: &mut Guest, bytes: &[u8], now: Timestamp<Monotonic>) -> Result<(), Hangup> {
        let (options, probes, orders) = (self.options, self.probes, &self.orders);
        // A train leaves from the address that its client knows this host by.
        let asked = options.listen.ip().is_unspecified().then(|| guest.stream.local_addr().ok()).flatten();
        let asked = asked.map(|address| address.ip());
        let around = Surroundings {
            keys: &options.keys,
            first_messages: &self.first_messages,
            table: self.table,
            program: &options.program,
            patience: options.crowd.patience,
            socket_drops: &|| probes.drops().ok(),
        };
        let (journal, counts, peer) = (&mut self.journal, &mut self.counts, guest.talk.peer());
        let result = guest.talk.hear(now, bytes, &around, &mut fresh_secrets, &mut |event| match event {
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
        if guest.talk.has_shown_key() && !guest.shown {
            guest.shown = true;
            let leavers = self.crowd.show(place);
            self.make_room(leavers, peer, now);
        }
        if guest.talk.is_authenticated() && !guest.known {
            guest.known = self.crowd.promote(place);
            if !guest.known {
                guest.talk.turn_away();
                return Err(Hangup::Crowded);
            }
        }
        result
    }

    fn note_hangup(&mut self, now: Timestamp<Monotonic>, hangup: Hangup, peer: IpAddr, known: bool) {
        self.counts.turned_away += u64::from(!known);
        self.journal.note(now, kind_of_hangup(hangup), Weight::Refusal, 1, || format!("{peer}: {hangup}"));
    }

    /// Closes the connection at `place` and what it had opened.
    fn see_off(&mut self, place: usize, now: Timestamp<Monotonic>) {
        self.crowd.leave(place);
        let Some(guest) = self.guests.get_mut(place).and_then(Option::take) else { return };
        let journal = &mut self.journal;
        guest.talk.hang_up(self.table, |session, counters| {
            let example = || format!("its client went away: {}", account(session, &counters));
            journal.note(now, "abandoned", Weight::Course, 1, example);
        });
    }

    /// What is done every [`LOOK_EVERY`].
    fn look(&mut self, now: Timestamp<Monotonic>) {
        let drops = self.probes.drops().ok();
        let expired = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.note_socket_drops(drops);
            table.expire(now)
        };
        while let Some(Left { place, peer, cause }) = self.sink.left() {
            self.crowd.leave(place);
            if let Some(cause) = cause {
                self.journal.note(now, kind_of_flow(cause), Weight::Refusal, 1, || format!("{peer}: {cause}"));
            }
        }
        let patience = self.options.crowd.patience;
        for (session, counters) in expired {
            self.journal.note(now, "expired", Weight::Course, 1, || account(session, &counters));
            let mut guests = self.guests.iter_mut().flatten();
            guests.any(|guest| guest.talk.expired(now, patience, session, counters));
        }
        for place in 0..self.guests.len() {
            let Some(guest) = &self.guests[place] else { continue };
            let over = match guest.leaves_at {
                Some(leaves_at) => now >= leaves_at,
                None => match guest.talk.check(now) {
                    Ok(()) => false,
                    Err(hangup) => {
                        let (peer, known) = (guest.talk.peer(), guest.known);
                        self.note_hangup(now, hangup, peer, known);
                        true
                    }
                },
            };
            if over {
                self.see_off(place, now);
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
        for place in 0..self.guests.len() {
            self.see_off(place, now);
        }
        self.look(now);
    }
}

enum Flushed {
    All,
    Full,
    Gone,
}

fn flush(guest: &mut Guest) -> Flushed {
    let outbox = guest.talk.outbox();
    while !outbox.is_empty() {
        match guest.stream.write(outbox) {
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
