use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use vtare_units::{Monotonic, Peer, Timestamp};

use super::admission::{Session, slack};
use super::arrivals::{Arrivals, Recorder};
use super::bucket::Bucket;
use super::cause::{Cause, Discards};
use super::flow::{FlowCause, FlowReport, Flows, Joined};
use super::limits::{Limits, Reason, Refusal};
use super::messages::{Counters, Grant};
use super::offload::Offload;
use super::request::{Open, Purpose, ReversePlan, WireForm};
use super::reverse::ReverseOrder;
use super::verdict::{Arrival, Verdict};
use super::window::Window;
use crate::{Form, Kind, SessionId, SessionKey, full, hello, peek, short};

/// The random parts of a new session. Each bit must come from the operating system's random source.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Its name.
    pub session: SessionId,
    /// Its key.
    pub key: SessionKey,
}

/// All sessions of a responder.
///
/// Memory is bounded by [`Limits::sessions`]; a datagram costs two table look-ups and one tag at most.
#[derive(Debug)]
pub struct Table {
    limits: Limits,
    /// Indexed by handle.
    sessions: Vec<Option<Session>>,
    handles: HashMap<SessionId, u16>,
    discards: Discards,
    socket_drops: Option<u32>,
    recorders: usize,
    /// Another judge of some sessions.
    offload: Option<Box<dyn Offload>>,
    /// What it counted in sessions that are closed.
    offloaded: Counters,
}

/// Records given out by one call: their copying delays the thread that answers probes.
const RECORDS_AT_ONCE: usize = 6_144;

impl Table {
    /// A table without sessions.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            sessions: Vec::new(),
            handles: HashMap::new(),
            discards: Discards::default(),
            socket_drops: None,
            recorders: 0,
            offload: None,
            offloaded: Counters::default(),
        }
    }

    /// Takes note of the kernel's count of datagrams that found the receive buffer full; it wraps. Call it before
    /// sessions are opened, counted or closed: they give its increase since they were opened.
    pub const fn note_socket_drops(&mut self, drops: Option<u32>) {
        self.socket_drops = drops;
    }

    /// Whether a session is open whose packets come in trains, so that it pays to take them in large pieces.
    #[must_use]
    pub const fn has_trains(&self) -> bool {
        self.recorders > 0
    }

    /// A table that hands its sessions to another judge as well: for each, whoever meets the first valid datagram
    /// judges all.
    #[must_use]
    pub fn with_offload(self, offload: Box<dyn Offload>) -> Self {
        Self { offload: Some(offload), ..self }
    }

    /// What the other judge counted in sessions that are closed, all together.
    #[must_use]
    pub const fn offloaded(&self) -> Counters {
        self.offloaded
    }

    /// What this responder allows.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Datagrams that belonged to no session, so far.
    #[must_use]
    pub const fn discards(&self) -> Discards {
        self.discards
    }

    /// How many sessions are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether no session is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Opens a session for the host that asked on its control connection.
    ///
    /// # Errors
    /// The limit that stands against it. [`Reason::Sessions`] also where `secrets` names a session that is open, which
    /// random names do not.
    pub fn open(
        &mut self,
        now: Timestamp<Monotonic>,
        peer: IpAddr,
        open: &Open,
        secrets: Secrets,
    ) -> Result<Grant, Refusal> {
        self.limits.check(open)?;
        let of_peer = self.sessions.iter().flatten().filter(|session| session.peer == peer).count();
        if of_peer >= self.limits.sessions_per_peer.into() {
            return Err(self.limits.refuse(Reason::PeerSessions));
        }
        if self.len() >= self.limits.sessions.into() || self.handles.contains_key(&secrets.session) {
            return Err(self.limits.refuse(Reason::Sessions));
        }
        let recorder = (open.purpose == Purpose::Avb).then(|| self.recorder_for(open)).transpose()?;
        let free = self.sessions.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        // As many slots as sessions were ever open at once, and those are counted in 16 bits.
        let handle = free as u16;
        let Secrets { session, key } = secrets;
        let grant = Grant { session, handle, key, open: *open, idle_ns: self.limits.idle_ns };
        let burst_packet = open.burst_packet.saturating_add(slack(open.rate_packet_per_s));
        self.handles.insert(session, handle);
        self.recorders += usize::from(recorder.is_some());
        if let Some(offload) = &mut self.offload {
            offload.open(now, peer, &grant, burst_packet);
        }
        self.sessions[free] = Some(Session {
            grant: grant.clone(),
            peer,
            port: None,
            bucket: Bucket::new(open.rate_packet_per_s, burst_packet),
            window: Window::default(),
            counters: Counters::default(),
            recorder,
            flows: open.flows.map(|plan| Flows::new(plan, open.duration_ns)),
            drops_before: self.socket_drops,
            reverse_next: 0,
            reversing: false,
            started: None,
            last_received: now,
        });
        Ok(grant)
    }

    /// Room for two trains of the length granted, within what there is.
    fn recorder_for(&self, open: &Open) -> Result<Recorder, Refusal> {
        let most = u64::from(self.limits.arrivals);
        let wanted = (open.burst_packet.saturating_mul(2)).max(1_024).min(most) as usize;
        let recorders = self.sessions.iter().flatten().filter_map(|session| session.recorder.as_ref());
        let taken: usize = recorders.map(Recorder::capacity).sum();
        if taken + wanted > self.limits.arrivals_in_all as usize {
            return Err(self.limits.refuse(Reason::Arrivals));
        }
        Ok(Recorder::new(wanted))
    }

    /// Judges a datagram that came from `from`. `replied` is asked for the time as late as possible, and only where a
    /// full reply is made.
    pub fn judge<'d>(
        &mut self,
        from: SocketAddr,
        datagram: &'d mut [u8],
        arrival: &Arrival,
        replied: impl FnOnce() -> Timestamp<Peer>,
    ) -> Verdict<'d> {
        let verdict = match peek(datagram) {
            Ok((_, Kind::Reply | Kind::Reverse)) => Err(Cause::Reply),
            Ok((Form::Full, _)) => self.judge_full(from, datagram, arrival, replied),
            Ok((Form::Short, _)) => self.judge_short(from, datagram, arrival, replied),
            Err(error) => Err(Cause::Garbage(error)),
        };
        verdict.unwrap_or_else(|cause| {
            match cause {
                Cause::Garbage(_) | Cause::Reply => self.discards.garbage += 1,
                Cause::UnknownSession => self.discards.unknown_session += 1,
                // Counted where its session is known.
                _ => {}
            }
            Verdict::Drop(cause)
        })
    }

    fn judge_full<'d>(
        &mut self,
        from: SocketAddr,
        datagram: &'d mut [u8],
        arrival: &Arrival,
        replied: impl FnOnce() -> Timestamp<Peer>,
    ) -> Result<Verdict<'d>, Cause> {
        let size = datagram.len();
        let unverified = full::Unverified::parse(datagram).map_err(Cause::Garbage)?;
        let handle = self.handles.get(&unverified.session()).copied();
        let Some(session) = slot(&mut self.sessions, handle) else { return Err(Cause::UnknownSession) };
        let key = &session.grant.key;
        // One tag for each datagram: it is the slowest part of the judgement.
        let opened = if unverified.kind() == Kind::Request {
            unverified.request(key).map(|request| (*request.probe(), Some(request)))
        } else {
            unverified.probe(key).map(|probe| (probe, None))
        };
        let elsewhere = self.offload.as_deref();
        let of = (WireForm::Full, size);
        let (probe, request) = session.pass(opened, |probe| probe.sequence, from, of, arrival, elsewhere)?;
        Ok(match request {
            Some(request) => {
                let (accepted, flags) = (session.counters.accepted, arrival.flags);
                let turnaround = full::Turnaround { received: arrival.received, replied: replied(), accepted, flags };
                Verdict::Reply(request.into_reply(&session.grant.key, &turnaround))
            }
            None => Verdict::Record {
                session: probe.session,
                sequence: probe.sequence,
                sent: Some(Timestamp::from_nanos(probe.sent.as_nanos())),
            },
        })
    }

    fn judge_short<'d>(
        &mut self,
        from: SocketAddr,
        datagram: &'d mut [u8],
        arrival: &Arrival,
        replied: impl FnOnce() -> Timestamp<Peer>,
    ) -> Result<Verdict<'d>, Cause> {
        let size = datagram.len();
        let unverified = short::Unverified::parse(datagram).map_err(Cause::Garbage)?;
        let Some(session) = slot(&mut self.sessions, Some(unverified.handle())) else {
            return Err(Cause::UnknownSession);
        };
        let id = session.grant.session;
        let context = short_context(&session.grant);
        let near = session.window.newest().unwrap_or(0);
        let opened = if unverified.kind() == Kind::Request {
            unverified.request(&context, near).map(|request| (*request.probe(), Some(request)))
        } else {
            unverified.probe(&context, near).map(|probe| (probe, None))
        };
        let elsewhere = self.offload.as_deref();
        let of = (WireForm::Short, size);
        let (probe, request) = session.pass(opened, |probe| probe.sequence, from, of, arrival, elsewhere)?;
        Ok(match request {
            Some(request) => {
                let context = short_context(&session.grant);
                Verdict::Reply(request.into_reply(&context, replied() - arrival.received))
            }
            None => Verdict::Record { session: id, sequence: probe.sequence, sent: None },
        })
    }

    /// A reply that was made here, and that the kernel did not take.
    pub fn unsent(&mut self, reply: &[u8]) {
        let handle = match peek(reply) {
            Ok((Form::Full, Kind::Reply)) => {
                let session = full::Unverified::parse(reply).map(|reply| reply.session());
                session.ok().and_then(|session| self.handles.get(&session).copied())
            }
            Ok((Form::Short, Kind::Reply)) => short::Unverified::parse(reply).map(|reply| reply.handle()).ok(),
            _ => None,
        };
        if let Some(session) = slot(&mut self.sessions, handle) {
            session.counters.unsent += 1;
        }
    }

    /// The counters of a session, and a sign that its client lives.
    pub fn count(&mut self, now: Timestamp<Monotonic>, session: SessionId) -> Option<Counters> {
        let drops = self.socket_drops;
        let handle = *self.handles.get(&session)?;
        let session = self.get_mut(session)?;
        session.last_received = now;
        let counters = session.count(drops);
        let Some(offload) = &self.offload else { return Some(counters) };
        offload.note_control_message(handle, now);
        Some(offload.state(handle).map_or(counters, |there| counters + there.counters))
    }

    /// The arrivals of a session from place `from` on, as many as one answer should have, and a sign that its client
    /// lives; those before `from` are given up. `None` where it records none.
    pub fn arrivals(&mut self, now: Timestamp<Monotonic>, id: SessionId, from: u64) -> Option<Arrivals> {
        let drops = self.socket_drops;
        let session = self.get_mut(id)?;
        session.last_received = now;
        let Counters { socket_drops, too_old, over_rate, over_limit, oversized, .. } = session.count(drops);
        let recorder = session.recorder.as_mut()?;
        let (from, records, left) = recorder.read(from, RECORDS_AT_ONCE);
        let refused = too_old + over_rate + over_limit + oversized;
        Some(Arrivals { session: id, from, records, left, overflow: recorder.overflow(), refused, socket_drops })
    }

    /// Grants a train back to the address that the session's probes come from, and takes it off the session's credit.
    ///
    /// # Errors
    /// What stands against it.
    pub fn reverse(
        &mut self,
        now: Timestamp<Monotonic>,
        id: SessionId,
        plan: ReversePlan,
    ) -> Result<ReverseOrder, Refusal> {
        let limits = self.limits;
        let Some(session) = self.get_mut(id) else { return Err(limits.refuse(Reason::UnknownSession)) };
        session.reverse(now, plan, &limits).map_err(|reason| limits.refuse(reason))
    }

    /// Takes a data connection of `peer` into its session. A stranger's bytes cost a look-up and one tag, as a datagram
    /// does.
    ///
    /// # Errors
    /// What stands against it.
    pub fn join(
        &mut self,
        now: Timestamp<Monotonic>,
        peer: IpAddr,
        hello: &hello::Unverified,
    ) -> Result<Joined, FlowCause> {
        let Some(session) = self.get_mut(hello.session()) else { return Err(FlowCause::UnknownSession) };
        let hello = hello.verify(&session.grant.key).ok_or(FlowCause::WrongTag)?;
        if session.peer != peer {
            return Err(FlowCause::WrongAddress);
        }
        let joined = session.flows.as_ref().ok_or(FlowCause::Purpose)?.join(hello.number)?;
        session.last_received = now;
        Ok(joined)
    }

    /// What came on the data connections of a session, with bins from place `from` on, and a sign that its client
    /// lives; `None` where it has none.
    pub fn flows(&mut self, now: Timestamp<Monotonic>, id: SessionId, from: u32) -> Option<FlowReport> {
        let session = self.get_mut(id)?;
        session.last_received = now;
        Some(session.flows.as_ref()?.report(id, from))
    }

    /// Whether a session is open.
    #[must_use]
    pub fn is_open(&self, session: SessionId) -> bool {
        self.handles.contains_key(&session)
    }

    /// A train is over: of its packets the kernel took `sent`.
    pub fn reversed(&mut self, order: &ReverseOrder, sent: u64) {
        let Some(session) = self.get_mut(order.session) else { return };
        session.reversing = false;
        session.counters.reversed += sent;
        session.counters.reverse_unsent += u64::from(order.plan.packets).saturating_sub(sent);
    }

    /// Ends a session and gives its last counters.
    pub fn close(&mut self, session: SessionId) -> Option<Counters> {
        let handle = self.handles.remove(&session)?;
        let there = self.offload.as_mut().and_then(|offload| offload.close(handle)).unwrap_or_default();
        self.offloaded = self.offloaded + there;
        let slot = self.sessions.get_mut(usize::from(handle))?;
        let session = slot.take()?;
        self.recorders -= usize::from(session.recorder.is_some());
        if let Some(flows) = &session.flows {
            flows.close();
        }
        Some(session.count(self.socket_drops) + there)
    }

    /// Ends every session whose time is over, and gives them. Call it once a second.
    pub fn expire(&mut self, now: Timestamp<Monotonic>) -> Vec<(SessionId, Counters)> {
        if let Some(offload) = &self.offload {
            for session in self.sessions.iter_mut().flatten() {
                let Some(there) = offload.state(session.grant.handle) else { continue };
                session.last_received = there
                    .last_received
                    .map_or(session.last_received, |last_received| last_received.max(session.last_received));
                session.started = session.started.or(there.started);
            }
        }
        for session in self.sessions.iter_mut().flatten() {
            let Some((began, last)) = session.flows.as_ref().and_then(Flows::seen) else { continue };
            session.started = session.started.or(Some(began));
            session.last_received = session.last_received.max(last);
        }
        let over: Vec<SessionId> =
            self.sessions.iter().flatten().filter(|s| s.ends() <= now).map(|s| s.grant.session).collect();
        over.into_iter().filter_map(|id| Some((id, self.close(id)?))).collect()
    }

    fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        let handle = *self.handles.get(&session)?;
        self.sessions.get_mut(usize::from(handle))?.as_mut()
    }
}

/// The session of a handle.
fn slot(sessions: &mut [Option<Session>], handle: Option<u16>) -> Option<&mut Session> {
    sessions.get_mut(usize::from(handle?))?.as_mut()
}

/// What a datagram in the short form leaves out.
const fn short_context(grant: &Grant) -> short::Context<'_> {
    short::Context { session: grant.session, handle: grant.handle, key: &grant.key }
}
