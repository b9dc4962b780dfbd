use vtare_traffic::{Ability, Ecn, Observation, Packet, Train};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::{Counters, Credit, Grant, WireForm};
use vtare_wire::{IPV6_UDP_BYTE, full, short};

use super::far::Far;
use super::gathered::Gathered;
use super::pacing::{Outlet, Paced, pace};
use super::plan::{Grouped, MOST_IN_BURST, TrainError, TrainPlan};
use crate::link::{Burst, LinkError, Outgoing, ProbeLink};

/// What a call for one packet is taken to cost before any has been measured: a UDP send through a software interface.
const USUAL_SEND_COST: Span = Span::from_micros(3);

/// Single sends of a train from which their cost is learned.
const ENOUGH_SENDS: usize = 8;

/// The first and the longest pause between two questions for arrivals. With 1 ms for the longest abacus ends 3 % sooner
/// and is as often off, for twice the questions (600 simulated paths, `bench/avb --mixed`).
const ASK_AGAIN: (Span, Span) = (Span::from_micros(500), Span::from_millis(4));

/// A packet whose call took this long left at no known time: the machine stalled inside it. One that was handed over
/// late has its time: it is measured at the call.
const STOOD_STILL: Span = Span::from_micros(100);

/// How long is waited for packets that have not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// For the first packet of a train.
    pub first: Span,
    /// After the last that arrived. Not below two round trips on the control connection.
    pub quiet: Span,
}

impl Settling {
    /// How long is waited after the last arrival of a train, of which two in a row were up to `longest` apart: what
    /// others send may be between any two of its packets, and a slow train comes slowly.
    pub(super) fn quiet_after(&self, longest: Span) -> Span {
        self.quiet.max((longest + longest).min(self.first))
    }
}

impl Default for Settling {
    fn default() -> Self {
        Self { first: Span::from_secs(1), quiet: Span::from_millis(10) }
    }
}

/// Why a train came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AvbError<E: std::error::Error + 'static> {
    /// The train cannot be sent.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The link cannot go on.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The far end could not be asked, or refused.
    #[error(transparent)]
    Far(E),
}

/// A session for trains, over any link.
///
/// Trains are sent one at a time: [`AvbSession::send`] returns when what became of every packet is known, as far
/// as it can be.
#[derive(Debug)]
pub struct AvbSession<L, F> {
    pub(super) link: L,
    pub(super) far: F,
    pub(super) grant: Grant,
    pub(super) settling: Settling,
    pub(super) next_sequence: u64,
    pub(super) next_record: u64,
    pub(super) send_cost: Span,
    /// What the far end had reported when the train before ended.
    pub(super) before: LastCounts,
    pub(super) strays: u64,
    /// When the last train of [`AvbSession::send`] and its kind had left.
    pub(super) quiet: Timestamp<Monotonic>,
    /// Own time minus the far end's, fixed at the first train back, so that a method sees one clock for sends and for
    /// now.
    pub(super) far_behind_ns: Option<i64>,
    /// All packets of the last train back left the far end.
    pub(super) all_left: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastCounts {
    pub(super) refused: u64,
    pub(super) overflow: u64,
    pub(super) socket_drops: u64,
    /// Packets of trains back, sent or not.
    pub(super) reversed: u64,
    pub(super) reverse_sent: u64,
}

impl<L: ProbeLink, F: Far<L>> AvbSession<L, F> {
    /// A session that is open at both ends.
    pub fn new(link: L, far: F, grant: Grant) -> Self {
        Self {
            quiet: link.now(),
            link,
            far,
            grant,
            settling: Settling::default(),
            next_sequence: 0,
            next_record: 0,
            send_cost: USUAL_SEND_COST,
            before: LastCounts::default(),
            strays: 0,
            far_behind_ns: None,
            all_left: false,
        }
    }

    /// The same session with other waits.
    #[must_use]
    pub const fn with_settling(mut self, settling: Settling) -> Self {
        self.settling = settling;
        self
    }

    /// What carries the packets.
    pub const fn link(&self) -> &L {
        &self.link
    }

    /// What was granted.
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// What a call for one packet costs this sender, as measured: shorter gaps need large sends.
    pub const fn send_cost(&self) -> Span {
        self.send_cost
    }

    /// Packets that arrived when their train had been given up, and so are among its losses.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Waits between trains.
    ///
    /// # Errors
    /// Where the link cannot go on.
    pub fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), AvbError<F::Error>> {
        Ok(self.link.pause(until)?)
    }

    /// The responder's counters.
    ///
    /// # Errors
    /// Where it cannot be asked.
    pub fn count(&mut self) -> Result<Counters, AvbError<F::Error>> {
        self.far.count(&mut self.link).map_err(AvbError::Far)
    }

    /// What may still be asked for with [`AvbSession::send_back`]: each one-way packet that arrived there adds to
    /// it.
    ///
    /// # Errors
    /// Where the responder cannot be asked.
    pub fn credit(&mut self) -> Result<Credit, AvbError<F::Error>> {
        let counters = self.count()?;
        Ok(Credit::left(&counters, self.ip_header_byte() == IPV6_UDP_BYTE))
    }

    /// The link and the far end, to close them.
    pub fn into_parts(self) -> (L, F) {
        (self.link, self.far)
    }

    pub(super) fn ip_header_byte(&self) -> usize {
        self.link.facts().ip_header_byte
    }

    /// What trains may be, where packets of this size pass: single sends, as long as nobody knows better.
    pub fn ability(&self, most_packet_byte: u32) -> Ability {
        let (header, open) = (self.ip_header_byte(), &self.grant.open);
        Ability {
            ip_header_byte: header as u32,
            most_packet_byte,
            least_packet_byte: (open.form.header_byte() + header) as u32,
            most_packets: u32::try_from(open.burst_packet).unwrap_or(u32::MAX),
            ..Ability::default()
        }
    }

    /// Sends a train after its silence, and gives what became of it.
    ///
    /// # Errors
    /// [`AvbError`]; packets that were lost or not sent are no error.
    pub fn send(&mut self, train: &Train, grouped: Grouped) -> Result<Observation, AvbError<F::Error>> {
        self.rest(train.idle_before_ns)?;
        let plan = self.plan(train, grouped)?;
        let seen = self.dispatch(train, &plan, None)?;
        self.collect(seen)
    }

    /// Passes the silence that is to be before a train.
    pub(super) fn rest(&mut self, idle_ns: u64) -> Result<(), AvbError<F::Error>> {
        let due = self.quiet + Span::from_unsigned_nanos(idle_ns);
        if idle_ns > 0 && due > self.link.now() { self.pause(due) } else { Ok(()) }
    }

    pub(super) fn quiet_since(&mut self, seen: &Observation) {
        let last = seen.packets.iter().filter_map(|packet| packet.sent).max();
        self.quiet = last.unwrap_or(self.quiet).min(self.link.now());
    }

    /// The train as the link sends it.
    pub(super) fn plan(&self, train: &Train, grouped: Grouped) -> Result<TrainPlan, TrainError> {
        let open = &self.grant.open;
        let plan = TrainPlan::of(train, self.ip_header_byte(), grouped)?;
        plan.check(open.form.header_byte() as u16, open.size_byte, open.burst_packet)?;
        Ok(plan)
    }

    /// Sends a train, and takes what comes in of another one meanwhile.
    pub(super) fn dispatch(
        &mut self,
        train: &Train,
        plan: &TrainPlan,
        coming: Option<&mut Gathered>,
    ) -> Result<Observation, AvbError<F::Error>> {
        let calls = plan.calls(self.link.facts().capabilities.gso);
        let first = self.next_sequence;
        let size = usize::from(plan.size_byte);
        let (link, grant) = (&mut self.link, &self.grant);
        let bytes = vec![0; plan.most_in_call(calls) * size];
        let mut outlet = Forward { link, grant, first, size, bytes, coming };
        let paced = pace(&mut outlet, &plan.due, calls, plan.behind)?;
        self.next_sequence += plan.due.len() as u64;
        self.learn_cost(&paced);
        let mut packets = Vec::with_capacity(plan.due.len());
        for (number, call) in (0..).zip(&paced.calls) {
            packets.extend((0..call.count).map(|index| Packet {
                scheduled: call.scheduled,
                sent: (index < call.burst.accepted).then_some(call.burst.before),
                kernel_sent: None,
                received: None,
                place: None,
                size_byte: train.size_byte,
                call: number,
                group: None,
                descheduled: call.burst.after - call.burst.before > STOOD_STILL,
                ecn: None,
            }));
        }
        self.link.departures(&mut |departure| {
            let index = departure.sequence.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            if let Some(packet) = index.and_then(|index| packets.get_mut(index)) {
                packet.kernel_sent = Some(departure.stamp.at);
            }
        })?;
        Ok(Observation { train: train.clone(), packets, finished: self.link.now(), receiver_drops: None })
    }

    fn learn_cost(&mut self, paced: &Paced) {
        let singles = paced.calls.iter().filter(|call| call.count == 1);
        let mut costs: Vec<Span> = singles.map(|call| call.burst.after - call.burst.before).collect();
        if costs.len() >= ENOUGH_SENDS {
            let middle = costs.len() / 2;
            self.send_cost = *costs.select_nth_unstable(middle).1;
        }
    }

    /// Asks for arrivals of the last train until all are known or nothing more comes.
    pub(super) fn collect(&mut self, mut seen: Observation) -> Result<Observation, AvbError<F::Error>> {
        let first = self.next_sequence - seen.packets.len() as u64;
        let sent = seen.sent() as u64;
        let (mut arrived, mut group) = (0, 0);
        let (mut newest, mut longest) = (None, Span::ZERO);
        let mut progress = self.link.now();
        let mut pause = ASK_AGAIN.0;
        loop {
            let asked = self.link.now();
            let chunk = self.far.arrivals(&mut self.link, self.next_record).map_err(AvbError::Far)?;
            let now = self.link.now();
            let round_trip = now - asked;
            // Counts of the far end are not verified: sums saturate, and no answer makes this ask for ever.
            self.next_record = chunk.from.saturating_add(chunk.records.len() as u64);
            for record in &chunk.records {
                let index = record.sequence.checked_sub(first).and_then(|index| usize::try_from(index).ok());
                match index.and_then(|index| seen.packets.get_mut(index)) {
                    Some(packet) if packet.received.is_none() && packet.sent.is_some() => {
                        group += u32::from(arrived > 0 && !record.joined);
                        packet.received = Some(record.received);
                        (packet.place, packet.group) = (Some(arrived), Some(group));
                        longest = longest.max(newest.map_or(Span::ZERO, |newest| record.received - newest));
                        newest = newest.max(Some(record.received));
                        packet.ecn = record.ecn.map(Ecn::of);
                        arrived += 1;
                    }
                    _ => self.strays += 1,
                }
            }
            if !chunk.records.is_empty() {
                progress = now;
            }
            // Lost on this path or not: datagrams that the receiver's host had no room for, or refused.
            let elsewhere = chunk.refused.saturating_sub(self.before.refused);
            let elsewhere = elsewhere.saturating_add(chunk.overflow.saturating_sub(self.before.overflow));
            if chunk.left > 0 && !chunk.records.is_empty() {
                continue;
            }
            let quiet = self.settling.quiet_after(longest).max(round_trip + round_trip);
            let patience = if arrived == 0 { self.settling.first } else { quiet };
            if elsewhere.saturating_add(arrived.into()) >= sent || now - progress >= patience {
                let drops = chunk.socket_drops.map(|drops| drops.saturating_sub(self.before.socket_drops));
                let lost = sent.saturating_sub(arrived.into());
                seen.receiver_drops = drops.map(|drops| drops.saturating_add(elsewhere).min(lost) as u32);
                seen.finished = now;
                self.before.refused = chunk.refused;
                self.before.overflow = chunk.overflow;
                self.before.socket_drops = chunk.socket_drops.unwrap_or(0);
                self.quiet_since(&seen);
                return Ok(seen);
            }
            self.link.pause(now + pause)?;
            pause = (pause + pause).min(ASK_AGAIN.1);
        }
    }
}

struct Forward<'s, L> {
    link: &'s mut L,
    grant: &'s Grant,
    first: u64,
    size: usize,
    bytes: Vec<u8>,
    coming: Option<&'s mut Gathered>,
}

impl<L: ProbeLink> Outlet for Forward<'_, L> {
    type Error = LinkError;

    fn now(&self) -> Timestamp<Monotonic> {
        self.link.now()
    }

    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        if let Some(coming) = &mut self.coming {
            let key = &self.grant.key;
            self.link.receive(until, &mut |incoming| coming.take(&incoming, key))?;
        }
        self.link.pause(until)
    }

    fn send(&mut self, first: usize, count: usize) -> Result<Burst, LinkError> {
        let Grant { session, handle, ref key, open, .. } = *self.grant;
        let (from, size) = (self.first + first as u64, self.size);
        let now = self.link.now();
        for (sequence, datagram) in (from..).zip(self.bytes[..count * size].chunks_exact_mut(size)) {
            let made = match open.form {
                WireForm::Full => {
                    full::Probe { session, sequence, sent: now, wants_reply: false }.encode(key, datagram)
                }
                WireForm::Short => {
                    let context = short::Context { session, handle, key };
                    short::Probe::new(sequence, now, false).encode(&context, datagram)
                }
            };
            made.expect("the train was checked before its first packet");
        }
        let outgoing = |index: usize| Outgoing {
            sequence: from + index as u64,
            payload: self.bytes.get(index * size..(index + 1) * size).unwrap_or_default(),
            launch: None,
        };
        if count == 1 {
            return self.link.send(&[outgoing(0)]);
        }
        let all: [Outgoing<'_>; MOST_IN_BURST] = std::array::from_fn(outgoing);
        self.link.send(&all[..count])
    }
}
