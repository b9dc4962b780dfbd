//! What is seen of the path besides the value, and whether it has changed.

use super::Case;
use super::bound::{Bound, Bounds};
use super::capacity::Capacity;
use super::points::{Epoch, Point};
use super::train_estimate::{Known, Score};
use super::{SETTLE, Stage, Vtare, plan};
use crate::avb::{Observation, Packet, Spacing};

/// A capacity that gaps do not show, but the account of an overload, is known so well, as a share.
pub(super) const BOUND_ERROR: f64 = 0.25;

/// All trains before were delayed if the least delay falls by so much, ns, and by more than a queue of so many packets;
/// so often that may be.
const FELL_NS: f64 = 300_000.0;
const FELL_SERVICES: f64 = 30.0;
const MOST_RESTARTS: u32 = 3;

/// ... unless the train that shows it finds the capacity within this share of the one found before, and that is below
/// so much, bit/s: on faster links a whole train may be shorter than what it was delayed for, and be let go at about
/// the same rate.
const SAME_LINK: f64 = 0.1;
const SAME_LINK_BELOW: f64 = 5e8;

/// Nothing crosses a path on which back-to-back packets come at this share of the capacity, and a stream's delays
/// differ by less than so much of Poisson's variance and so many packets.
const CALM_SHARE: f64 = 0.97;
const CALM_S: f64 = 0.0003;
const CALM_MOST: f64 = 1.01;
const CALM_DISPERSION: f64 = 0.05;
const CALM_JITTER: f64 = 0.5;

/// A link that drains so slowly behind a head that it takes so many times the usual time is not waited for.
const SETTLE_MOST: f64 = 3.0;

/// Nor is one that holds back less than this share of a head.
const BACK_LEAST: f64 = 0.05;

/// Packets of a head that leaves many in a call, per call.
const LEAST_TOGETHER: u32 = 4;

impl Vtare {
    /// Whether a train's least delay shows that those before were delayed as a whole, so that what they said of the
    /// link is of what let them go.
    pub(super) fn was_held_up(&self, points: &[Point]) -> bool {
        if self.without(Case::LeastDelayFell) {
            return false;
        }
        let Some((capacity, _)) = self.link.filter(|_| matches!(self.stage, Stage::Search | Stage::Measure)) else {
            return false;
        };
        let least = points.iter().map(|point| point.delay_ns).fold(f64::INFINITY, f64::min);
        let queue_ns = FELL_SERVICES * f64::from(self.packet_byte) * 8e9 / capacity;
        self.base_ns.is_finite() && self.restarts < MOST_RESTARTS && least < self.base_ns - FELL_NS.max(queue_ns)
    }

    /// Whether a train's own head shows the capacity that all is reckoned with: then a delay that fell was a queue of
    /// cross traffic, which under high load no train before has seen empty.
    pub(super) fn shows_the_same_link(&self, observation: &Observation) -> bool {
        let mut own = Capacity::default();
        own.add(observation, self.head as usize);
        let shown = own.estimate().zip(self.link);
        shown.is_some_and(|((own, _), (link, _))| link < SAME_LINK_BELOW && (own / link - 1.0).abs() < SAME_LINK)
    }

    /// The capacity by all gaps so far, unless overloads contradict them.
    pub(super) fn see_capacity(&mut self, points: &[Point]) {
        let stream = points.partition_point(|point| point.index < self.head);
        // A short head shows little where bursts come between its packets.
        let long = !self.without(Case::Bounds) && (!self.steers || self.head >= self.settings.first_packets);
        let bounds = Bound::of(points, stream, f64::from(self.packet_byte) * 8.0).filter(|_| long);
        bounds.into_iter().for_each(|bound| self.bounds.add(bound));
        self.capacity.see_stretch(points, f64::from(self.packet_byte) * 8.0);
        let found = self.capacity.estimate().or(self.link);
        let Some((found, _)) = found.inspect(|&it| self.link = Some(it)) else { return };
        if let Some(instead) =
            self.bounds.against(found, self.settings.first_packets).or((self.outgrown > found).then_some(self.outgrown))
        {
            self.link = Some((instead, BOUND_ERROR));
        }
        if let (Some(told), Some((_, error))) = (self.overloaded(), self.link)
            && told.1 < error
        {
            self.link = Some(told);
        }
    }

    /// Notes at which rate packets that were sent back to back arrived.
    pub(super) fn see_head(&mut self, points: &[Point]) {
        let head = &points[..points.partition_point(|point| point.index < self.head)];
        let (Some(first), Some(last)) = (head.first(), head.last()) else { return };
        let seconds = (last.at_ns + last.delay_ns - first.at_ns - first.delay_ns) / 1e9;
        if head.len() >= 12 && seconds > 0.0 {
            self.heads.0 += last.arrived_bit - first.arrived_bit;
            self.heads.1 += seconds;
        }
    }

    /// Rate at which packets sent back to back come to the tight link, bit/s. A narrow link before it makes a slower
    /// stream of them; the tight link makes `C r/(r + cross)` of a stream of rate `r`, and that is what is seen.
    pub(super) fn inflow(&self, capacity: f64, near: f64) -> f64 {
        let most = self.line.min(capacity).max(1.15 * near);
        let (bits, seconds) = self.heads;
        if seconds == 0.0 {
            return most;
        }
        let out = (bits / seconds).min(0.999 * capacity);
        let found = (capacity - near).max(0.0) * out / (capacity - out);
        // A link that is hardly slower does not matter, and cannot be told from chance.
        if found < 0.8 * most { found.max(out).max(1.15 * near) } else { most }
    }

    /// Notes at which rate a train's head left, where its packets leave many in a call.
    pub(super) fn see_departures(&mut self, observation: &Observation) {
        let head = &observation.packets[..(self.head as usize).min(observation.packets.len())];
        let (Some(first), Some(last)) = (head.first(), head.last()) else { return };
        // What the last call took is not seen.
        let begin = head.iter().position(|packet| packet.call == last.call).unwrap_or(0);
        let (from, to) = (first.left(), head[begin].left());
        let grouped = head.len() as u32 >= LEAST_TOGETHER * (last.call - first.call + 1);
        if let (Some(from), Some(to), true) = (from, to, grouped && last.call > first.call + 1)
            && to > from
        {
            let departs = begin as f64 * f64::from(self.packet_byte) * 8e9 / (to - from).as_nanos() as f64;
            // The sender may have stalled in it.
            self.departs = if self.may_share() { self.departs.max(departs) } else { departs };
        }
    }

    /// The same as [`Self::inflow`], for a head whose packets leave many in a call, on a path whose links cannot be
    /// told apart: it comes to the tight link as fast as it leaves.
    pub(super) fn head_inflow(&self, capacity: f64, near: f64) -> f64 {
        let inflow = self.inflow(capacity, near);
        if self.unsure() || self.shares_processor() { inflow.max(self.departs) } else { inflow }
    }

    /// How far apart in time arrivals can be told.
    pub(super) fn see_grain(&mut self, observation: &Observation, points: &[Point], behind: usize) {
        let seen = &points[behind.min(points.len())..];
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return };
        let packets = &observation.packets[first.index as usize..=last.index as usize];
        let calls = packets.chunk_by(|a, b| a.call == b.call).count();
        if seen.len() > 1 && calls > 2 * seen.len() {
            self.grain_s = self.grain_s.max((last.at_ns - first.at_ns) / 1e9 / (seen.len() - 1) as f64);
        }
    }

    /// The first point from which on the links before the tight one have settled again after a train's head, and what
    /// one of them may still hold of it there, ns of the tight link.
    pub(super) fn settled_from(
        &self,
        observation: &Observation,
        points: &[Point],
        epoch: Epoch,
        capacity: f64,
    ) -> (usize, f64) {
        if self.calm {
            return (0, 0.0);
        }
        if self.without(Case::Settled) {
            return (points.partition_point(|point| point.index < self.head), 0.0);
        }
        let head_bit = f64::from(self.head * self.packet_byte) * 8.0;
        let begin_ns = observation.packets.iter().find_map(Packet::left).map_or(0.0, |left| epoch.since_ns(left));
        let inflow = self.head_inflow(capacity, self.near.min(capacity));
        // At half the load of the tight one a link of its capacity holds back so much of a head, and drains so fast
        // behind it.
        let available = self.near.min(capacity);
        let stream_rate = match observation.train.spacing {
            Spacing::Primed { packets, gap_ns, .. } => f64::from(packets * self.packet_byte) * 8e9 / gap_ns.max(1.0),
            _ => available,
        };
        let (back, drain) = ((capacity - available) / 2.0, (capacity + available) / 2.0 - stream_rate);
        let slower = if drain * SETTLE_MOST > back { (back / drain).max(1.0) } else { SETTLE_MOST };
        let settle = SETTLE * if back > BACK_LEAST * capacity { slower } else { 1.0 };
        let settled_ns = begin_ns + (1.0 / inflow + settle / capacity) * head_bit * 1e9;
        let from = points.partition_point(|point| point.index < self.head || point.at_ns < settled_ns);
        let stream = points.partition_point(|point| point.index < self.head);
        let from = from.min(stream + (points.len() - stream) / 2);
        let early_ns = points.get(from).map_or(0.0, |point| settled_ns - point.at_ns).max(0.0);
        (from, early_ns * drain.max(0.05 * capacity) / capacity)
    }

    /// Whether a train of the search already says as much as a measuring one would.
    pub(super) fn settled(&self, score: &Score) -> bool {
        let points = if self.calm { self.settings.calm_points * 4 / 5 } else { self.settings.points };
        score.seconds() >= 0.7 * self.measure_seconds() && score.points as u32 >= points
    }

    /// What the difference from the train before says of bursts that are longer than a train, bit^2/s.
    pub(super) fn burst_between(&mut self, score: &Score) -> f64 {
        if self.without(Case::BurstsBetween) {
            return 0.0;
        }
        let now = (score.value(), score.error.powi(2) + (score.idle / 2.0).powi(2), score.seconds());
        let Some(before) = self.told.replace(now) else { return 0.0 };
        let apart = (now.0 - before.0).powi(2) - now.1 - before.1;
        (apart / (1.0 / now.2 + 1.0 / before.2)).max(0.0)
    }

    /// Whether a back-to-back train met no cross traffic: all of it came at the capacity, packet by packet.
    pub(super) fn seems_calm(&self, capacity: f64, received: f64, error: f64) -> bool {
        if self.without(Case::Calm) {
            return false;
        }
        let single = plan::group(received, self.packet_byte, &self.setup.ability, plan::ROOM) == 1;
        let packet_by_packet = single && !self.capacity.clumps() && self.held_now_ns == 0.0;
        // A train as short as a machine may stall looks the same behind one that did.
        let bits = f64::from(self.settings.calm_points * self.packet_byte * 8);
        let long = bits / received > CALM_S;
        long && packet_by_packet && received > CALM_SHARE * capacity && error < 1.0 - CALM_SHARE
    }

    /// Whether a train behind it met none either.
    pub(super) fn stayed_calm(&self, score: &Score, known: &Known) -> bool {
        let even = score.dispersion < CALM_DISPERSION && score.jitter_ns < CALM_JITTER * known.service_ns;
        // More than the link carries: there was no queue, and the link is faster than it was assumed to be.
        let full = score.value() > CALM_SHARE.powi(2) * known.capacity && score.value() < CALM_MOST * known.capacity;
        even && full && known.held_ns == 0.0 && score.idle == 0.0
    }

    /// Begins anew.
    pub(super) fn forget(&mut self) {
        self.settled = None;
        self.fresh = None;
        self.scores.clear();
        self.responses.clear();
        self.account.clear();
        self.told = None;
        self.drained = 0;
        self.astray = false;
        self.wanted_seconds = 0.0;
        self.capacity = Capacity::default();
        self.bounds = Bounds::default();
        self.held_ns = 0.0;
        self.outgrown = 0.0;
        self.heads = (0.0, 0.0);
        self.departs = 0.0;
        self.overloads.clear();
        self.flood.clear();
        self.burst = 0.0;
        self.calm = false;
        self.steers = false;
        self.room_bit = f64::INFINITY;
        self.prime = self.settings.prime_deviations;
        self.stage = Stage::First;
    }

    /// Whether a run that follows has met a change; all before it is forgotten then.
    pub(super) fn followed_away(&mut self, score: &Score, spread: f64) -> bool {
        let Some(before) = self.settled else { return false };
        let (low, high) =
            (score.least - 4.0 * (spread + score.error), score.least + score.idle + 4.0 * (spread + score.error));
        let slack = 0.1 * before;
        // What is available may have outgrown the capacity that was.
        let outgrown =
            self.link.is_some_and(|(capacity, _)| score.least + score.idle_mean > 0.9 * capacity.max(0.9 * before))
                && score.idle > self.settings.idle_share * score.least;
        let away = self.settings.follow_ns.is_some() && (outgrown || before < low - slack || before > high + slack);
        if away {
            self.forget();
            self.next = None;
            self.begin_round();
        }
        away
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, Spacing, Train, VtareSettings};
    use vtare_units::Timestamp;

    /// A train of 10 packets at once and 90 more, 100 us apart, of which one in three has a point.
    fn seen() -> (Observation, Vec<Point>) {
        let left_ns = |i: u32| u64::from(i.saturating_sub(9)) * 100_000;
        let packet = |i: u32| Packet {
            scheduled: Timestamp::from_nanos(left_ns(i)),
            sent: Some(Timestamp::from_nanos(left_ns(i))),
            kernel_sent: None,
            received: Some(Timestamp::from_nanos(left_ns(i) + 1_000_000)),
            place: Some(i),
            size_byte: 1500,
            call: i,
            group: None,
            descheduled: false,
        };
        let spacing = Spacing::Primed { head: 10, after_ns: 100_000.0, packets: 1, gap_ns: 100_000.0 };
        let observation = Observation {
            train: Train { packets: 100, size_byte: 1500, spacing, idle_before_ns: 0 },
            packets: (0..100).map(packet).collect(),
            finished: Timestamp::from_nanos(20_000_000),
            receiver_drops: None,
            duplicates: None,
        };
        let point = |i: u32| Point {
            index: i,
            at_ns: left_ns(i) as f64,
            delay_ns: 1e6,
            sent_bit: f64::from(i) * 12e3,
            arrived_bit: f64::from(i) * 12e3,
            call_bit: 12e3,
        };
        (observation, (0..100).step_by(3).map(point).collect())
    }

    #[test]
    fn how_coarsely_arrivals_are_stamped_is_told_from_the_part_that_is_looked_at() {
        let (observation, points) = seen();
        for behind in [4, 20, 30] {
            let mut method = Vtare::new(VtareSettings::default(), Setup::default());
            method.head = 10;
            method.see_grain(&observation, &points, behind);
            assert!((method.grain_s / 300e-6 - 1.0).abs() < 1e-9, "{behind}: {}", method.grain_s);
        }
    }
}
