use std::net::IpAddr;

use vtare_units::{Monotonic, Timestamp};

use super::limits::Reason;
use super::messages::{ToClient, ToResponder};
use super::request::{CONTROL_VERSION, ECN_VERSION, FLOW_VERSION};
use super::reverse::ReverseOrder;
use super::table::{Secrets, Table};
use crate::SessionId;

/// The responder's end of one control connection.
///
/// Each message gets one answer. A refusal of the version or a message out of turn ends the exchange:
/// [`Control::is_over`]. When the connection ends, [`Control::hang_up`] closes what it opened.
#[derive(Debug)]
pub struct Control {
    peer: IpAddr,
    program: String,
    version: Option<u16>,
    over: bool,
    opened: Vec<SessionId>,
    ordered: Option<ReverseOrder>,
}

impl Control {
    /// A connection from `peer`, whose key has been checked. `program` is the responder's own name and release.
    #[must_use]
    pub fn new(peer: IpAddr, program: impl Into<String>) -> Self {
        Self { peer, program: program.into(), version: None, over: false, opened: Vec::new(), ordered: None }
    }

    /// Answers a message. `secrets` is asked for random bytes only where a session is to be opened.
    pub fn answer(
        &mut self,
        table: &mut Table,
        now: Timestamp<Monotonic>,
        message: &ToResponder,
        secrets: impl FnOnce() -> Secrets,
    ) -> ToClient {
        let mut answer = self.answer_newest(table, now, message, secrets);
        // A client takes no field that its version does not have.
        if let (ToClient::Refused(refusal), false) = (&mut answer, self.version.is_some_and(|it| it >= FLOW_VERSION)) {
            refusal.limits.tcp = None;
        }
        answer
    }

    fn answer_newest(
        &mut self,
        table: &mut Table,
        now: Timestamp<Monotonic>,
        message: &ToResponder,
        secrets: impl FnOnce() -> Secrets,
    ) -> ToClient {
        let reason = match (message, self.version) {
            _ if self.over => Reason::OutOfTurn,
            (ToResponder::Hello(hello), None) => {
                if let Some(version) = hello.versions.common(CONTROL_VERSION) {
                    self.version = Some(version);
                    return ToClient::Welcome { version, program: self.program.clone() };
                }
                Reason::Version { client: hello.versions, responder: CONTROL_VERSION }
            }
            (ToResponder::Open(open), Some(version))
                if open.flows.is_some() && version < FLOW_VERSION || open.ecn && version < ECN_VERSION =>
            {
                Reason::OutOfTurn
            }
            (ToResponder::Flows { .. }, Some(version)) if version < FLOW_VERSION => Reason::OutOfTurn,
            (ToResponder::Open(open), Some(_)) => match table.open(now, self.peer, open, secrets()) {
                Ok(grant) => {
                    self.opened.push(grant.session);
                    return ToClient::Granted(grant);
                }
                // Not the end: the client may ask for less.
                Err(refusal) => return ToClient::Refused(refusal),
            },
            (ToResponder::Count { session }, Some(_)) => {
                let known = self.opened.contains(session);
                return match known.then(|| table.count(now, *session)).flatten() {
                    Some(counters) => ToClient::Counted { session: *session, counters },
                    None => ToClient::Refused(table.limits().refuse(Reason::UnknownSession)),
                };
            }
            (ToResponder::Arrivals { session, from }, Some(_)) => {
                let known = self.opened.contains(session);
                return match known.then(|| table.arrivals(now, *session, *from)).flatten() {
                    Some(arrivals) => ToClient::Arrivals(arrivals),
                    None => ToClient::Refused(table.limits().refuse(Reason::UnknownSession)),
                };
            }
            (ToResponder::Reverse { session, plan }, Some(_)) if self.opened.contains(session) => {
                return match table.reverse(now, *session, plan.clone()) {
                    Ok(order) => {
                        let first_sequence = order.first_sequence;
                        self.ordered = Some(order);
                        ToClient::Reversing { session: *session, first_sequence }
                    }
                    // Not the end: the client may ask for less, or send more first.
                    Err(refusal) => ToClient::Refused(refusal),
                };
            }
            (ToResponder::Reverse { .. }, Some(_)) => {
                return ToClient::Refused(table.limits().refuse(Reason::UnknownSession));
            }
            (ToResponder::Flows { session, from }, Some(_)) => {
                let known = self.opened.contains(session);
                return match known.then(|| table.flows(now, *session, *from)).flatten() {
                    Some(report) => ToClient::Flowed(report),
                    None => ToClient::Refused(table.limits().refuse(Reason::UnknownSession)),
                };
            }
            (ToResponder::Close { session }, Some(_)) => {
                let known = self.opened.contains(session);
                self.opened.retain(|opened| opened != session);
                return match known.then(|| table.close(*session)).flatten() {
                    Some(counters) => ToClient::Closed { session: *session, counters },
                    None => ToClient::Refused(table.limits().refuse(Reason::UnknownSession)),
                };
            }
            _ => Reason::OutOfTurn,
        };
        self.over = true;
        ToClient::Refused(table.limits().refuse(reason))
    }

    /// The train that the last answer granted; the caller has it sent.
    pub const fn take_order(&mut self) -> Option<ReverseOrder> {
        self.ordered.take()
    }

    /// Whether the connection is to be closed once the last answer has been sent.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Closes all sessions of this connection: nobody is left who could read their counters.
    pub fn hang_up(self, table: &mut Table) {
        for session in self.opened {
            table.close(session);
        }
    }
}
