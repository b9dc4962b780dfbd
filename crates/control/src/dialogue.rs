//! What a responder answers to the decrypted messages of one connection.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use vtare_units::{Monotonic, Timestamp};
use vtare_wire::SessionId;
use vtare_wire::session::{Bucket, Control, Counters, Purpose, Reason, Secrets, Table, ToClient, ToResponder};

use crate::channel::decode;
use crate::hangup::{Hangup, MESSAGES_PER_S};
use crate::surroundings::{Event, Surroundings};

/// Messages that a client may send at once.
const MESSAGES_AT_ONCE: u64 = 200;

/// The same for a client that measures with trains: it asks for the arrivals of each.
const TRAIN_MESSAGES_PER_S: u64 = 1_000;
const TRAIN_MESSAGES_AT_ONCE: u64 = 2_000;

const MOST_EXPIRED: usize = 16;

/// The responder's part of a talk with a client whose key has been checked, without the encryption around it.
#[derive(Debug)]
pub struct Dialogue {
    control: Control,
    messages: Bucket,
    train_messages: Bucket,
    trains: bool,
    open: Vec<SessionId>,
    /// Sessions that ended by themselves and whose counters the client has not fetched.
    expired: Vec<(SessionId, Counters)>,
}

impl Dialogue {
    /// An exchange that nobody has begun yet. `program` is this program's name and release.
    #[must_use]
    pub fn new(peer: IpAddr, program: &str) -> Self {
        Self {
            control: Control::new(peer, program),
            messages: Bucket::new(MESSAGES_PER_S, MESSAGES_AT_ONCE),
            train_messages: Bucket::new(TRAIN_MESSAGES_PER_S, TRAIN_MESSAGES_AT_ONCE),
            trains: false,
            open: Vec::new(),
            expired: Vec::new(),
        }
    }

    /// Whether a session is open.
    pub(crate) const fn has_sessions(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether nothing more will be answered.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.control.is_over()
    }

    /// Lets a message in, before any work is done for it.
    ///
    /// # Errors
    /// [`Hangup::TooManyMessages`].
    pub fn admit(&mut self, now: Timestamp<Monotonic>) -> Result<(), Hangup> {
        let messages = if self.trains { &mut self.train_messages } else { &mut self.messages };
        if messages.admit(now) { Ok(()) } else { Err(Hangup::TooManyMessages) }
    }

    /// Answers a decrypted message. `secrets` gives the random parts of a new session.
    ///
    /// # Errors
    /// [`Hangup::Message`].
    pub fn answer(
        &mut self,
        now: Timestamp<Monotonic>,
        text: &[u8],
        around: &Surroundings<'_>,
        secrets: &mut dyn FnMut() -> Secrets,
        events: &mut dyn FnMut(Event),
    ) -> Result<ToClient, Hangup> {
        let message: ToResponder = decode(text).map_err(|_| Hangup::Message)?;
        Ok(self.answer_message(now, &message, around, secrets, events))
    }

    /// Takes note that a session has ended by itself; its counters are kept for the client. Answers whether it was one
    /// of this exchange.
    pub fn expired(&mut self, id: SessionId, counters: Counters) -> bool {
        if !self.open.contains(&id) {
            return false;
        }
        self.open.retain(|open| *open != id);
        // As many as may be open at once are kept, the newest ones: a client that never asks for them cannot fill the
        // memory.
        if self.expired.len() >= MOST_EXPIRED {
            self.expired.remove(0);
        }
        self.expired.push((id, counters));
        true
    }

    /// Closes every session that was opened; gives their last counters to `ended`.
    pub fn hang_up(self, table: &Mutex<Table>, mut ended: impl FnMut(SessionId, Counters)) {
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        for id in self.open {
            if let Some(counters) = table.close(id) {
                ended(id, counters);
            }
        }
    }

    fn answer_message(
        &mut self,
        now: Timestamp<Monotonic>,
        message: &ToResponder,
        around: &Surroundings<'_>,
        secrets: &mut dyn FnMut() -> Secrets,
        events: &mut dyn FnMut(Event),
    ) -> ToClient {
        // A session that ran out while its client still waited for stragglers: the counters are not lost.
        if let ToResponder::Count { session } | ToResponder::Close { session } = *message
            && let Some(at) = self.expired.iter().position(|(id, _)| *id == session)
        {
            let counters = self.expired[at].1;
            return if matches!(message, ToResponder::Close { .. }) {
                self.expired.remove(at);
                ToClient::Closed { session, counters }
            } else {
                ToClient::Counted { session, counters }
            };
        }
        // Random bytes cost a system call: before the lock, and only where they are wanted.
        let fresh = matches!(message, ToResponder::Open(_)).then(&mut *secrets);
        let drops = (around.socket_drops)();
        let answer = {
            let mut table = around.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.note_socket_drops(drops);
            self.control.answer(&mut table, now, message, || fresh.unwrap_or_else(secrets))
        };
        if let Some(order) = self.control.take_order() {
            events(Event::Reverse(order));
        }
        match &answer {
            ToClient::Granted(grant) => {
                self.open.push(grant.session);
                self.trains |= grant.open.purpose == Purpose::Avb;
                events(Event::Opened(grant.session, grant.open));
            }
            ToClient::Closed { session, counters } => {
                self.open.retain(|open| open != session);
                events(Event::Closed(*session, *counters));
            }
            // The session has just run out and the table has let it go.
            ToClient::Refused(refusal) if refusal.reason == Reason::UnknownSession => {}
            ToClient::Refused(refusal) => events(Event::Refused(*refusal)),
            ToClient::Welcome { .. }
            | ToClient::Counted { .. }
            | ToClient::Arrivals(_)
            | ToClient::Flowed(_)
            | ToClient::Reversing { .. } => {}
        }
        answer
    }
}
