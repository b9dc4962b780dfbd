use vtare_units::{Monotonic, Span, Timestamp};

use super::arrivals::Arrivals;
use super::flow::FlowReport;
use super::limits::Refusal;
use super::messages::{Counters, Grant, Hello, ToClient, ToResponder};
use super::request::{CONTROL_VERSION, ECN_VERSION, FLOW_VERSION, Open, ReversePlan};
use crate::SessionId;

/// What a client does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this, and hand the answer to [`Client::receive`].
    Say(ToResponder),
    /// The session is open: send probes.
    Probe(Grant),
    /// The counters that [`Client::count`] asked for.
    Counted(Counters),
    /// The arrivals that [`Client::fetch`] asked for.
    Arrived(Arrivals),
    /// The train that [`Client::reverse`] asked for is about to come; its first packet has this number.
    Reversing(u64),
    /// The train that [`Client::reverse`] asked for is not granted; the session goes on.
    NotReversing(Refusal),
    /// What came on the data connections, as [`Client::flows`] asked.
    Flowed(FlowReport),
    /// The session is closed; these are its last counters.
    Done(Counters),
}

/// Why a session did not come about or ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The responder refused: why, and what it allows.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// An answer that does not fit what was asked.
    #[error("the responder answered {found} to {asked}: is it another program, or another release?")]
    Unexpected {
        /// What was asked.
        asked: &'static str,
        /// What came.
        found: &'static str,
    },
    /// A responder that is too old for what is wanted.
    #[error(
        "the responder speaks control version {found}, sessions for tcp need {FLOW_VERSION}: install the newer vtare \
         at the responder"
    )]
    TooOld {
        /// The newest version that both speak.
        found: u16,
    },
    /// No answer in time.
    #[error("no answer to {asked} within {waited}: is the path open for TCP, and the responder alive?")]
    Silent {
        /// What was asked.
        asked: &'static str,
        /// How long was waited.
        waited: Span,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Greeted,
    Asked,
    Open(SessionId),
    Counting(SessionId),
    Fetching(SessionId),
    Reversing(SessionId),
    Flowing(SessionId),
    Closing(SessionId),
    Over,
}

/// The client's end of a control connection with one session.
///
/// [`Client::start`], then each answer to [`Client::receive`]; while the session is open, [`Client::count`] and at the
/// end [`Client::close`]. [`Client::check`] reports an overdue answer.
#[derive(Clone, Debug)]
pub struct Client {
    open: Open,
    program: String,
    state: State,
    patience: Span,
    asked_at: Timestamp<Monotonic>,
    responder: Option<String>,
}

impl Client {
    /// A client that wants `open` and waits at most `patience` for an answer. `program` is its own name and release.
    #[must_use]
    pub fn new(open: Open, program: impl Into<String>, patience: Span) -> Self {
        let asked_at = Timestamp::ZERO;
        Self { open, program: program.into(), state: State::Start, patience, asked_at, responder: None }
    }

    /// The first message.
    pub fn start(&mut self, now: Timestamp<Monotonic>) -> ToResponder {
        self.ask(now, State::Greeted);
        ToResponder::Hello(Hello { versions: CONTROL_VERSION, program: self.program.clone() })
    }

    /// Takes an answer and gives the next step.
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Unexpected`]; the client is over then.
    pub fn receive(&mut self, now: Timestamp<Monotonic>, answer: ToClient) -> Result<Step, ClientError> {
        match (self.state, answer) {
            (State::Greeted, ToClient::Welcome { version, program })
                if (CONTROL_VERSION.least..=CONTROL_VERSION.most).contains(&version) =>
            {
                if self.open.flows.is_some() && version < FLOW_VERSION {
                    self.state = State::Over;
                    return Err(ClientError::TooOld { found: version });
                }
                // An older one measures without: the grant shows that.
                self.open.ecn &= version >= ECN_VERSION;
                self.responder = Some(program);
                self.ask(now, State::Asked);
                Ok(Step::Say(ToResponder::Open(self.open)))
            }
            (State::Asked, ToClient::Granted(grant)) if grant.open == self.open => {
                self.state = State::Open(grant.session);
                Ok(Step::Probe(grant))
            }
            (State::Counting(open), ToClient::Counted { session, counters }) if session == open => {
                self.state = State::Open(open);
                Ok(Step::Counted(counters))
            }
            (State::Fetching(open), ToClient::Arrivals(arrivals)) if arrivals.session == open => {
                self.state = State::Open(open);
                Ok(Step::Arrived(arrivals))
            }
            (State::Reversing(open), ToClient::Reversing { session, first_sequence }) if session == open => {
                self.state = State::Open(open);
                Ok(Step::Reversing(first_sequence))
            }
            (State::Reversing(open), ToClient::Refused(refusal)) => {
                self.state = State::Open(open);
                Ok(Step::NotReversing(refusal))
            }
            (State::Flowing(open), ToClient::Flowed(report)) if report.session == open => {
                self.state = State::Open(open);
                Ok(Step::Flowed(report))
            }
            (State::Closing(open), ToClient::Closed { session, counters }) if session == open => {
                self.state = State::Over;
                Ok(Step::Done(counters))
            }
            (_, answer) => {
                let asked = self.asked();
                self.state = State::Over;
                Err(match answer {
                    ToClient::Refused(refusal) => ClientError::Refused(refusal),
                    other => ClientError::Unexpected { asked, found: name(&other) },
                })
            }
        }
    }

    /// Asks for the counters as they are now; `None` where the session is not open or another question is open.
    pub fn count(&mut self, now: Timestamp<Monotonic>) -> Option<ToResponder> {
        let State::Open(session) = self.state else { return None };
        self.ask(now, State::Counting(session));
        Some(ToResponder::Count { session })
    }

    /// Asks for recorded arrivals from place `from` on, and gives up those before; `None` where the session is not open
    /// or another question is open.
    pub fn fetch(&mut self, now: Timestamp<Monotonic>, from: u64) -> Option<ToResponder> {
        let State::Open(session) = self.state else { return None };
        self.ask(now, State::Fetching(session));
        Some(ToResponder::Arrivals { session, from })
    }

    /// Asks for a train; `None` where the session is not open or another question is open.
    pub fn reverse(&mut self, now: Timestamp<Monotonic>, plan: ReversePlan) -> Option<ToResponder> {
        let State::Open(session) = self.state else { return None };
        self.ask(now, State::Reversing(session));
        Some(ToResponder::Reverse { session, plan })
    }

    /// Asks what came on the data connections, with bins from place `from` on; `None` where the session is not open or
    /// another question is open.
    pub fn flows(&mut self, now: Timestamp<Monotonic>, from: u32) -> Option<ToResponder> {
        let State::Open(session) = self.state else { return None };
        self.ask(now, State::Flowing(session));
        Some(ToResponder::Flows { session, from })
    }

    /// Ends the session; `None` where it is not open or another question is open.
    pub fn close(&mut self, now: Timestamp<Monotonic>) -> Option<ToResponder> {
        let State::Open(session) = self.state else { return None };
        self.ask(now, State::Closing(session));
        Some(ToResponder::Close { session })
    }

    /// The responder's name and release, once they came.
    #[must_use]
    pub fn responder(&self) -> Option<&str> {
        self.responder.as_deref()
    }

    /// When an answer is overdue; `None` where none is awaited.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp<Monotonic>> {
        match self.state {
            State::Start | State::Open(_) | State::Over => None,
            _ => Some(self.asked_at + self.patience),
        }
    }

    /// Looks whether an answer is overdue.
    ///
    /// # Errors
    /// [`ClientError::Silent`]; the client is over then.
    pub fn check(&mut self, now: Timestamp<Monotonic>) -> Result<(), ClientError> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Ok(());
        }
        let asked = self.asked();
        self.state = State::Over;
        Err(ClientError::Silent { asked, waited: now - self.asked_at })
    }

    fn ask(&mut self, now: Timestamp<Monotonic>, state: State) {
        self.asked_at = now;
        self.state = state;
    }

    const fn asked(&self) -> &'static str {
        match self.state {
            State::Greeted => "hello",
            State::Asked => "open",
            State::Counting(_) => "count",
            State::Fetching(_) => "arrivals",
            State::Reversing(_) => "reverse",
            State::Flowing(_) => "flows",
            State::Closing(_) => "close",
            State::Start | State::Open(_) | State::Over => "nothing",
        }
    }
}

const fn name(answer: &ToClient) -> &'static str {
    match answer {
        ToClient::Welcome { .. } => "welcome",
        ToClient::Granted(_) => "granted",
        ToClient::Refused(_) => "refused",
        ToClient::Counted { .. } => "counted",
        ToClient::Arrivals(_) => "arrivals",
        ToClient::Reversing { .. } => "reversing",
        ToClient::Flowed(_) => "flowed",
        ToClient::Closed { .. } => "closed",
    }
}
