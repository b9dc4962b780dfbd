//! Trains from the far end, as they arrive here.

use vtare_units::{Monotonic, Peer, Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::{ArrivalSource, ReversePlan};

use super::far::Far;
use super::plan::{TrainError, TrainPlan};
use super::report::{PacketFate, Received, ReverseReport, Sent};
use super::session::{AvbError, AvbSession, USUAL_SEND_COST};
use crate::link::{Incoming, ProbeLink, StampSource};

impl<L: ProbeLink, F: Far<L>> AvbSession<L, F> {
    /// Has the far end send a train here, and gives what became of it. The train needs a shape, and the session as much
    /// credit as the train takes: [`AvbSession::credit`].
    ///
    /// # Errors
    /// [`AvbError`]; a refusal leaves the session as it was.
    pub fn reverse_train(&mut self, train: &TrainPlan) -> Result<ReverseReport, AvbError<F::Error>> {
        let open = &self.grant.open;
        train.check(full::HEADER_BYTE as u16, open.size_byte, open.burst_packet)?;
        let shape = train.shape().ok_or(TrainError::NoShape)?;
        let packets = train.due().len() as u32;
        let burst_packet = train.most_in_call(train.calls(USUAL_SEND_COST, true)) as u16;
        let plan = ReversePlan { packets, size_byte: train.size_byte(), shape, burst_packet };
        let drops_before = self.link.local_drops()?.receive_buffer;
        let first = self.far.reverse(&mut self.link, plan).map_err(AvbError::Far)?;
        let mut gathered = Gathered::new(first, packets as usize);
        let ends = self.link.now() + shape.lasts(packets);
        let mut progress = ends;
        let mut counted = None;
        while gathered.order.len() < packets as usize {
            let (before, key) = (gathered.order.len(), &self.grant.key);
            let until = self.link.now() + Span::from_millis(1);
            self.link.receive(until, &mut |incoming| gathered.take(&incoming, key))?;
            let now = self.link.now();
            if gathered.order.len() > before {
                progress = progress.max(now);
            }
            let patience = if gathered.order.is_empty() { self.settling.first } else { self.settling.quiet };
            if now - progress < patience {
                continue;
            }
            // Has it all been sent? A responder that serves others first may be late.
            let counters = self.far.count(&mut self.link).map_err(AvbError::Far)?;
            let over = counters.reversed.saturating_add(counters.reverse_unsent)
                >= self.before.reversed.saturating_add(packets.into());
            if over && counted.is_some() || now - progress >= self.settling.first {
                break;
            }
            // Once more: what was on its way when the question was asked has arrived by then.
            counted = over.then_some(());
            progress = progress.max(now);
        }
        let counters = self.far.count(&mut self.link).map_err(AvbError::Far)?;
        let drops = self.link.local_drops()?.receive_buffer;
        let sent = counters.reversed.saturating_sub(self.before.reverse_sent).min(packets.into());
        let unsent = u64::from(packets).saturating_sub(sent);
        (self.before.reversed, self.before.reverse_sent) =
            (counters.reversed.saturating_add(counters.reverse_unsent), counters.reversed);
        let mut report = ReverseReport {
            packets: gathered.fates,
            size_byte: train.size_byte(),
            ip_header_byte: self.ip_header_byte() as u16,
            burst_packet,
            // What arrived was sent, whatever the far end has counted so far.
            sent: sent.max(gathered.order.len() as u64),
            unsent,
            lost: 0,
            reordered: 0,
            refused: 0,
            unrecorded: 0,
            socket_drops: drops.zip(drops_before).map(|(now, before)| now.saturating_sub(before)),
            moves: None,
            moved: None,
        };
        report.settle(&gathered.order);
        Ok(report)
    }
}

/// Packets of a train from the far end as they arrive.
struct Gathered {
    first: u64,
    fates: Vec<PacketFate<Peer, Monotonic>>,
    order: Vec<usize>,
    newest: Option<Timestamp<Monotonic>>,
}

impl Gathered {
    fn new(first: u64, packets: usize) -> Self {
        let fate = |index: usize| PacketFate {
            sequence: first.saturating_add(index as u64),
            scheduled: None,
            sent: None,
            kernel_sent: None,
            received: None,
        };
        Self { first, fates: (0..packets).map(fate).collect(), order: Vec::with_capacity(packets), newest: None }
    }

    fn take(&mut self, incoming: &Incoming<'_>, key: &vtare_wire::SessionKey) {
        let parsed = full::Unverified::parse(incoming.payload).and_then(|packet| packet.reverse(key));
        let Ok(packet) = parsed else { return };
        let index = packet.sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < self.fates.len()) else { return };
        let before = index.checked_sub(1).and_then(|before| self.fates[before].sent);
        let fate = &mut self.fates[index];
        if fate.received.is_some() {
            return;
        }
        let (at, source) = match incoming.stamp {
            Some(stamp) if stamp.source == StampSource::Hardware => (stamp.at, ArrivalSource::Card),
            Some(stamp) => (stamp.at, ArrivalSource::Kernel),
            None => (incoming.arrived, ArrivalSource::Program),
        };
        let joined = before.is_some_and(|before| before.before == packet.sent);
        fate.sent = Some(Sent { before: packet.sent, after: None, joined });
        let joined = self.newest.replace(at) == Some(at);
        fate.received = Some(Received { at, source, joined, place: 0 });
        self.order.push(index);
    }
}
