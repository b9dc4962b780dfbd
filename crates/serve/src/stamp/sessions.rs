//! What a stateful reflector remembers: a count for each session (RFC 8762, 4.3), and when its last reply left.

use std::collections::HashMap;
use std::net::SocketAddr;

use vtare_units::{Monotonic, Span, Timestamp, Wall};
use vtare_wire::stamp::{Time, TimeFormat};

/// Most sessions that are remembered, 100 B each. Others are answered without state.
const MOST: usize = 4_096;

/// A session that has been silent for so long makes room for another: REFWAIT.
//= RFC 8762, 4.3
const SILENT: Span = Span::from_secs(900);

/// Where all are in use, room is looked for no more often than this.
const LOOK_EVERY: Span = Span::from_secs(1);

/// A packet whose number is below the one before, after a silence of this time, is the first of another session of that
/// name: packets that overtake others are not that late.
const RESTART: Span = Span::from_secs(1);

/// Whose packets are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) from: SocketAddr,
    /// The sender's identifier.
    pub(super) session: u16,
}

/// One session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Packets received and answered; wraps.
    count: u32,
    /// The sender's number of the last one.
    number: u32,
    last_at: Timestamp<Monotonic>,
    format: TimeFormat,
    /// Of the reply before: its number, and when it left.
    before: Option<(u32, Timestamp<Wall>)>,
}

impl Session {
    /// The number of the reply to the packet that was counted last.
    pub(super) const fn sequence(&self) -> u32 {
        self.count.wrapping_sub(1)
    }

    /// Packets received and answered, that one included: all that are received are answered.
    pub(super) const fn counters(&self) -> (u32, u32) {
        (self.count, self.count)
    }

    /// Number and departure of the reply before.
    pub(super) fn before(&self) -> Option<(u32, Time)> {
        self.before.map(|(sequence, at)| (sequence, Time::from_unix_ns(at.as_nanos(), self.format)))
    }
}

/// The sessions of a reflector.
#[derive(Debug)]
pub(super) struct Sessions {
    known: HashMap<Name, Session>,
    /// Answered in this batch, not yet sent.
    leaving: Vec<Name>,
    next_look: Timestamp<Monotonic>,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), leaving: Vec::new(), next_look: Timestamp::ZERO }
    }

    /// Counts packet `number` of the session `name`; `None` where there is no room for another session.
    pub(super) fn count(
        &mut self,
        name: Name,
        number: u32,
        now: Timestamp<Monotonic>,
        format: TimeFormat,
    ) -> Option<Session> {
        if self.known.len() >= MOST && now >= self.next_look && !self.known.contains_key(&name) {
            self.next_look = now + LOOK_EVERY;
            self.known.retain(|_, session| now - session.last_at < SILENT);
        }
        if self.known.len() >= MOST && !self.known.contains_key(&name) {
            return None;
        }
        let new = Session { count: 0, number, last_at: now, format, before: None };
        let session = self.known.entry(name).or_insert(new);
        if now - session.last_at >= RESTART && number.wrapping_sub(session.number).cast_signed() < 0 {
            *session = new;
        }
        session.number = number;
        session.count = session.count.wrapping_add(1);
        (session.last_at, session.format) = (now, format);
        self.leaving.push(name);
        Some(*session)
    }

    /// What was counted since the last call left at `at`.
    pub(super) fn departed(&mut self, at: Timestamp<Wall>) {
        for name in self.leaving.drain(..) {
            if let Some(session) = self.known.get_mut(&name) {
                session.before = Some((session.sequence(), at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(port: u16) -> Name {
        Name { from: SocketAddr::from(([192, 0, 2, 1], port)), session: 1 }
    }

    const NOW: Timestamp<Monotonic> = Timestamp::from_nanos(5_000_000_000);

    #[test]
    fn each_session_counts_from_0_and_knows_when_its_last_reply_left() {
        let mut sessions = Sessions::new();
        let mut count = |name, number: u32, at: u64| {
            let session = sessions.count(name, number, NOW, TimeFormat::Ptp).expect("there is room");
            sessions.departed(Timestamp::from_nanos(at));
            (session.sequence(), session.counters(), session.before().map(|(number, time)| (number, time.unix_ns())))
        };
        assert_eq!(count(name(1), 0, 7), (0, (1, 1), None));
        assert_eq!(count(name(2), 0, 8), (0, (1, 1), None));
        assert_eq!(count(name(1), 1, 9), (1, (2, 2), Some((0, Some(7)))));
        assert_eq!(count(Name { session: 2, ..name(1) }, 0, 9), (0, (1, 1), None), "another identifier");
    }

    #[test]
    fn a_full_table_leaves_known_sessions_alone_and_gives_room_that_was_silent_for_15_minutes() {
        let mut sessions = Sessions::new();
        for port in 0..MOST {
            assert!(sessions.count(name(port as u16), 0, NOW, TimeFormat::Ntp).is_some());
        }
        let late = NOW + SILENT - Span::from_nanos(1);
        assert!(sessions.count(name(60_000), 0, late, TimeFormat::Ntp).is_none());
        assert_eq!(sessions.count(name(3), 1, late, TimeFormat::Ntp).map(|session| session.sequence()), Some(1));
        let later = late + LOOK_EVERY;
        assert_eq!(sessions.count(name(60_000), 0, later, TimeFormat::Ntp).map(|session| session.sequence()), Some(0));
        assert_eq!(sessions.known.len(), 2, "all silent ones are gone");
    }

    #[test]
    fn a_name_that_is_used_again_counts_from_0_again_and_packets_that_were_overtaken_count_on() {
        let mut sessions = Sessions::new();
        let mut count = |number: u32, after: Span| {
            sessions.count(name(1), number, NOW + after, TimeFormat::Ntp).map(|session| session.counters().0)
        };
        let ms = Span::from_millis;
        assert_eq!([count(0, ms(0)), count(2, ms(1)), count(1, ms(2))], [Some(1), Some(2), Some(3)]);
        assert_eq!(count(7, ms(5_000)), Some(4), "a silence alone is none");
        assert_eq!([count(0, ms(6_001)), count(1, ms(6_002))], [Some(1), Some(2)]);
    }
}
