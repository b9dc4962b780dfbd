//! Trains from the far end, as they arrive here.

use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::ReversePlan;

use super::far::Far;
use super::gathered::Gathered;
use super::plan::{TrainError, TrainPlan};
use super::report::{ReverseReport, TrainReport};
use super::session::{AvbError, AvbSession, USUAL_SEND_COST};
use crate::link::ProbeLink;

impl<L: ProbeLink, F: Far<L>> AvbSession<L, F> {
    /// Has the far end send a train here, and gives what became of it. The train needs a shape, and the session as much
    /// credit as the train takes: [`AvbSession::credit`].
    ///
    /// # Errors
    /// [`AvbError`]; a refusal leaves the session as it was.
    pub fn reverse_train(&mut self, train: &TrainPlan) -> Result<ReverseReport, AvbError<F::Error>> {
        let coming = self.ask(train)?;
        self.gather(coming)
    }

    /// Both at once: has the far end send `back`, and sends `forth` from `after` its answer on.
    ///
    /// # Errors
    /// As [`AvbSession::send_train`] and [`AvbSession::reverse_train`].
    pub fn both_trains(
        &mut self,
        forth: &TrainPlan,
        back: &TrainPlan,
        after: Span,
    ) -> Result<(TrainReport, ReverseReport), AvbError<F::Error>> {
        self.check(forth)?;
        let mut coming = self.ask(back)?;
        let (until, key) = (self.link.now() + after, &self.grant.key);
        self.link.receive(until, &mut |incoming| coming.gathered.take(&incoming, key))?;
        let mut forth = self.dispatch(forth, Some(&mut coming.gathered))?;
        let back = self.gather(coming)?;
        self.collect(&mut forth)?;
        Ok((forth, back))
    }

    /// Asks the far end for a train.
    fn ask(&mut self, train: &TrainPlan) -> Result<Coming, AvbError<F::Error>> {
        let open = &self.grant.open;
        train.check(full::HEADER_BYTE as u16, open.size_byte, open.burst_packet)?;
        let shape = train.shape().ok_or(TrainError::NoShape)?;
        let packets = train.due().len() as u32;
        let burst_packet = train.most_in_call(train.calls(USUAL_SEND_COST, true)) as u16;
        let plan = ReversePlan { packets, size_byte: train.size_byte(), shape, burst_packet };
        let drops_before = self.link.local_drops()?.receive_buffer;
        let first = self.far.reverse(&mut self.link, plan).map_err(AvbError::Far)?;
        let ends = self.link.now() + shape.lasts(packets);
        Ok(Coming { plan, gathered: Gathered::new(first, packets as usize), ends, drops_before })
    }

    /// Takes the rest of a train that was asked for.
    fn gather(&mut self, coming: Coming) -> Result<ReverseReport, AvbError<F::Error>> {
        let Coming { plan: ReversePlan { packets, size_byte, burst_packet, .. }, mut gathered, ends, drops_before } =
            coming;
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
            size_byte,
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

/// A train that the far end sends.
struct Coming {
    plan: ReversePlan,
    gathered: Gathered,
    /// When it leaves there, about.
    ends: Timestamp<Monotonic>,
    drops_before: Option<u64>,
}
