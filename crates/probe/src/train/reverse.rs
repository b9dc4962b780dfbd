//! Trains from the far end, as they arrive here.

use vtare_traffic::{Observation, Train};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::full;
use vtare_wire::session::ReversePlan;

use super::far::Far;
use super::gathered::Gathered;
use super::plan::{Grouped, TrainError, TrainPlan};
use super::session::{AvbError, AvbSession};
use crate::link::ProbeLink;

impl<L: ProbeLink, F: Far<L>> AvbSession<L, F> {
    /// Has the far end send a train here after its silence, and gives what became of it. The train needs a shape, and
    /// the session as much credit as the train takes: [`AvbSession::credit`].
    ///
    /// # Errors
    /// [`AvbError`]; a refusal leaves the session as it was.
    pub fn send_back(&mut self, train: &Train, grouped: Grouped) -> Result<Observation, AvbError<F::Error>> {
        self.rest(train.idle_before_ns)?;
        let coming = self.ask(train, grouped)?;
        self.gather(coming)
    }

    /// Both at once: has the far end send `back`, and sends `forth` from `after` its answer on.
    ///
    /// # Errors
    /// As [`AvbSession::send`] and [`AvbSession::send_back`].
    pub fn send_both(
        &mut self,
        (forth, back): (&Train, &Train),
        after: Span,
        grouped: Grouped,
    ) -> Result<(Observation, Observation), AvbError<F::Error>> {
        self.rest(forth.idle_before_ns.max(back.idle_before_ns))?;
        let plan = self.plan(forth, grouped)?;
        let mut coming = self.ask(back, grouped)?;
        let (until, key) = (self.link.now() + after, &self.grant.key);
        self.link.receive(until, &mut |incoming| coming.gathered.take(&incoming, key))?;
        let seen = self.dispatch(forth, &plan, Some(&mut coming.gathered))?;
        let back = self.gather(coming)?;
        Ok((self.collect(seen)?, back))
    }

    /// Own time minus the far end's as it is taken for trains back, ns; none before the first of them.
    pub const fn far_behind_ns(&self) -> Option<i64> {
        self.far_behind_ns
    }

    /// Whether all packets of the last train back left the far end: those missing were lost on the way.
    pub const fn all_left(&self) -> bool {
        self.all_left
    }

    /// Asks the far end for a train.
    fn ask(&mut self, train: &Train, grouped: Grouped) -> Result<Coming, AvbError<F::Error>> {
        let open = &self.grant.open;
        let plan = TrainPlan::of(train, self.ip_header_byte(), grouped)?;
        plan.check(full::HEADER_BYTE as u16, open.size_byte, open.burst_packet)?;
        if !train.spacing.has_shape() {
            return Err(TrainError::NoShape.into());
        }
        let burst_packet = plan.most_in_call(plan.calls(true)) as u16;
        let (size_byte, spacing) = (plan.size_byte, train.spacing.clone());
        let order = ReversePlan { packets: train.packets, size_byte, spacing, burst_packet };
        let (drops_before, asked) = (self.link.local_drops()?.receive_buffer, self.link.now());
        let first = self.far.reverse(&mut self.link, order).map_err(AvbError::Far)?;
        let ends = self.link.now() + plan.due.last().copied().unwrap_or(Span::ZERO);
        let gathered = Gathered::new(first, train.packets, train.size_byte);
        Ok(Coming { train: train.clone(), gathered, asked, ends, drops_before })
    }

    /// Takes the rest of a train that was asked for.
    fn gather(&mut self, coming: Coming) -> Result<Observation, AvbError<F::Error>> {
        let Coming { train, mut gathered, asked, ends, drops_before } = coming;
        let packets = train.packets;
        let mut progress = ends;
        let (mut newest, mut longest) = (None, Span::ZERO);
        let mut counted = None;
        while gathered.arrived < packets {
            let (before, key) = (gathered.arrived, &self.grant.key);
            let until = self.link.now() + Span::from_millis(1);
            self.link.receive(until, &mut |incoming| gathered.take(&incoming, key))?;
            let now = self.link.now();
            if gathered.arrived > before {
                progress = progress.max(now);
                longest = longest.max(newest.replace(now).map_or(Span::ZERO, |newest| now - newest));
            }
            let quiet = self.settling.quiet_after(longest);
            let patience = if gathered.arrived == 0 { self.settling.first } else { quiet };
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
        let left = counters.reversed.saturating_sub(self.before.reverse_sent);
        (self.before.reversed, self.before.reverse_sent) =
            (counters.reversed.saturating_add(counters.reverse_unsent), counters.reversed);
        self.all_left = left >= packets.into();
        // What arrived was sent, whatever the far end has counted so far.
        let lost = left.min(packets.into()).saturating_sub(gathered.arrived.into());
        let drops = drops.zip(drops_before).map(|(now, before)| now.saturating_sub(before));
        let finished = self.link.now();
        if let Some(first) = gathered.sent.iter().find_map(|sent| *sent) {
            let behind = asked.as_nanos().cast_signed().wrapping_sub(first.as_nanos().cast_signed());
            self.far_behind_ns.get_or_insert(behind);
        }
        let seen = Observation {
            packets: gathered.finish(self.far_behind_ns.unwrap_or(0), finished),
            train,
            finished,
            receiver_drops: drops.map(|drops| drops.min(lost) as u32),
        };
        self.quiet_since(&seen);
        Ok(seen)
    }
}

/// A train that the far end sends.
struct Coming {
    train: Train,
    gathered: Gathered,
    asked: Timestamp<Monotonic>,
    /// When it leaves there, about.
    ends: Timestamp<Monotonic>,
    drops_before: Option<u64>,
}
