//! One session at the responder: what it was granted, what it has seen, and whether a datagram may pass.

use std::net::{IpAddr, SocketAddr};

use vtare_units::{Monotonic, Span, Timestamp};

use super::arrivals::{ArrivalSource, Recorder};
use super::bucket::Bucket;
use super::cause::Cause;
use super::flow::Flows;
use super::limits::{Limits, Reason};
use super::messages::{Counters, Grant};
use super::offload::Offload;
use super::request::{ReversePlan, WireForm};
use super::reverse::{self, Credit, ReverseOrder};
use super::verdict::Arrival;
use super::window::{Fresh, Window};
use crate::{WireError, full};

#[derive(Debug)]
pub(super) struct Session {
    pub(super) grant: Grant,
    pub(super) peer: IpAddr,
    /// The port of the first valid datagram; all others must come from it too.
    pub(super) port: Option<u16>,
    /// Arrivals of one-way probes, where the session is for them.
    pub(super) recorder: Option<Recorder>,
    /// Data connections, where the session is for them.
    pub(super) flows: Option<Flows>,
    /// The socket's count of drops when the session was opened.
    pub(super) drops_before: Option<u32>,
    /// Packets of granted trains so far, and whether one is being sent.
    pub(super) reverse_next: u64,
    pub(super) reversing: bool,
    pub(super) bucket: Bucket,
    pub(super) window: Window,
    pub(super) counters: Counters,
    /// When the first valid datagram came.
    pub(super) started: Option<Timestamp<Monotonic>>,
    /// Of the last valid datagram or control message.
    pub(super) last_received: Timestamp<Monotonic>,
}

/// Time beyond its duration that a session is kept, for probes that are still under way.
const GRACE: Span = Span::from_secs(2);

/// A sender that was delayed catches up: 10 ms worth of packets may be late together.
pub(super) const fn slack(rate_packet_per_s: u64) -> u64 {
    rate_packet_per_s / 100 + 1
}

impl Session {
    pub(super) fn ends(&self) -> Timestamp<Monotonic> {
        let silent = self.last_received + Span::from_unsigned_nanos(self.grant.idle_ns);
        self.over().map_or(silent, |over| (over + GRACE).min(silent))
    }

    /// When the granted time is used up.
    fn over(&self) -> Option<Timestamp<Monotonic>> {
        self.started.map(|started| started + Span::from_unsigned_nanos(self.grant.open.duration_ns))
    }

    /// Judges a datagram whose tag is right, and counts it where it is accepted.
    fn admit(
        &mut self,
        from: SocketAddr,
        form: WireForm,
        sequence: u64,
        size: usize,
        now: Timestamp<Monotonic>,
    ) -> Result<(), Cause> {
        let open = &self.grant.open;
        if from.ip() != self.peer || self.port.is_some_and(|port| port != from.port()) || form != open.form {
            return Err(Cause::WrongAddress);
        }
        if size > open.size_byte.into() {
            return Err(Cause::Oversized);
        }
        // Before the limits: what an eavesdropper sends again must not use up the session's rate.
        match self.window.look(sequence) {
            Fresh::New => {}
            Fresh::Duplicate => return Err(Cause::Duplicate),
            Fresh::TooOld => return Err(Cause::TooOld),
        }
        let late = self.over().is_some_and(|over| now > over + GRACE)
            || now >= self.last_received + Span::from_unsigned_nanos(self.grant.idle_ns);
        if self.counters.accepted >= open.packets || late {
            return Err(Cause::OverLimit);
        }
        if !self.bucket.admit(now) {
            return Err(Cause::OverRate);
        }
        self.window.mark(sequence);
        self.port = Some(from.port());
        self.started.get_or_insert(now);
        self.last_received = now;
        self.counters.accepted += 1;
        self.counters.accepted_byte += size as u64;
        Ok(())
    }

    pub(super) fn count(&self, drops: Option<u32>) -> Counters {
        // The kernel's count has 32 bits and wraps.
        let socket_drops = drops.zip(self.drops_before).map(|(now, before)| now.wrapping_sub(before).into());
        Counters { socket_drops, ..self.counters }
    }

    fn record(&mut self, sequence: u64, arrival: &Arrival) {
        let Some(recorder) = &mut self.recorder else { return };
        let source = match arrival.flags {
            full::ReplyFlags { rx_by_hardware: true, .. } => ArrivalSource::Card,
            full::ReplyFlags { rx_by_kernel: true, .. } => ArrivalSource::Kernel,
            _ => ArrivalSource::Program,
        };
        let ecn = arrival.class.filter(|_| self.grant.open.ecn).map(|class| class & 3);
        recorder.record(sequence, arrival.received, source, ecn);
    }

    pub(super) fn reverse(
        &mut self,
        now: Timestamp<Monotonic>,
        plan: ReversePlan,
        limits: &Limits,
    ) -> Result<ReverseOrder, Reason> {
        if self.recorder.is_none() {
            return Err(Reason::Purpose);
        }
        let Some(port) = self.port else { return Err(Reason::Unproven) };
        if self.reversing {
            return Err(Reason::Reversing);
        }
        let ipv6 = self.peer.is_ipv6();
        reverse::check(&plan, &self.grant, limits, Credit::left(&self.counters, ipv6), ipv6)?;
        self.last_received = now;
        self.reversing = true;
        self.counters.reverse_byte += u64::from(plan.packets) * u64::from(plan.size_byte);
        let first_sequence = self.reverse_next;
        self.reverse_next += u64::from(plan.packets);
        let (session, key) = (self.grant.session, self.grant.key.clone());
        let (to, ecn) = (SocketAddr::new(self.peer, port), self.grant.open.ecn);
        Ok(ReverseOrder { session, key, to, first_sequence, plan, ecn })
    }

    /// Takes a datagram whose header was opened with the session's key, or gives the reason why not, counted.
    pub(super) fn pass<P, R>(
        &mut self,
        opened: Result<(P, Option<R>), WireError>,
        sequence: impl FnOnce(&P) -> u64,
        from: SocketAddr,
        (form, size): (WireForm, usize),
        arrival: &Arrival,
        elsewhere: Option<&dyn Offload>,
    ) -> Result<(P, Option<R>), Cause> {
        let (probe, request) = opened.map_err(|_| self.discard(Cause::WrongTag))?;
        if elsewhere.is_some_and(|judge| !judge.claim_for_userspace(self.grant.handle)) {
            return Err(self.discard(Cause::WrongAddress));
        }
        let sequence = sequence(&probe);
        self.admit(from, form, sequence, size, arrival.now).map_err(|cause| self.discard(cause))?;
        if request.is_some() {
            self.counters.replied += 1;
            self.counters.replied_byte += size as u64;
        } else {
            self.record(sequence, arrival);
        }
        Ok((probe, request))
    }

    const fn discard(&mut self, cause: Cause) -> Cause {
        let counters = &mut self.counters;
        let counter = match cause {
            Cause::Duplicate => &mut counters.duplicate,
            Cause::TooOld => &mut counters.too_old,
            Cause::OverRate => &mut counters.over_rate,
            Cause::OverLimit => &mut counters.over_limit,
            Cause::Oversized => &mut counters.oversized,
            Cause::WrongAddress | Cause::WrongTag => &mut counters.forged,
            Cause::Garbage(_) | Cause::Reply | Cause::UnknownSession => return cause,
        };
        *counter += 1;
        cause
    }
}
