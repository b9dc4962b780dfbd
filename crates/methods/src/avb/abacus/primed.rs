//! Trains whose head fills the queue and whose stream holds it.

use vtare_units::{Monotonic, Span, Timestamp};

use super::account::Bounds;
use super::cases::Case;
use super::evidence::{Evidence, Record};
use super::plan::{self, Left};
use super::points::{Epoch, Point};
use super::stage::{Primed, Stage};
use super::{Abacus, anomalies, tuning as t};
use crate::avb::{Observation, Packet, Train};

impl Abacus {
    pub(super) fn plan_primed(&mut self, stage: Primed, now: Timestamp<Monotonic>) -> Train {
        let (ability, size_byte, measures) = (self.setup.ability, self.packet_byte, stage.measures);
        let Some(evidence) = self.evidence() else { return Train::back_to_back(self.head.max(1), size_byte) };
        let since_s = self.epoch.map_or(0.0, |(epoch, _)| (epoch.since_ns(now) - self.left.0) / 1e9);
        // A token bucket fills at most as fast as the link sends.
        let bucket = self.history.bucket_byte.is_some();
        let emptied = if bucket { evidence.path.capacity } else { evidence.near } * since_s.max(0.0);
        let queued = evidence.path.capacity * self.left.1 / 1e9 - emptied;
        let queued_bit = queued.max(-8.0 * self.history.bucket_byte.unwrap_or(0.0));
        let left = Left { bytes: self.bytes_left(), seconds: self.seconds_left(), queued_bit };
        let seconds = plan::seconds(&evidence, &self.history, &self.settings, &ability, measures, &left);
        let (train, head) = plan::primed(&evidence, &self.history, &ability, seconds, measures, &left);
        self.head = head;
        train
    }

    /// Whether something that stalled delayed this train as a whole.
    pub(super) fn was_held(&mut self, observation: &Observation, points: &[Point]) -> bool {
        let Some((capacity, _)) = self.history.narrow() else { return false };
        let stream = &points[points.partition_point(|point| point.index < self.head)..];
        let near = self.history.first_guess;
        let drained_ns =
            stream.first().map_or(0.0, |first| self.left.1 - (first.at_ns - self.left.0) * near / capacity);
        let held = self.history.has(Case::DelayedWhole)
            && anomalies::held_whole(stream, self.history.base_ns, capacity, drained_ns);
        if held {
            self.faults.held_whole += 1;
            self.faults.spoiled += 1;
            self.round.rest = observation.finished.checked_add(Span::from_unsigned_nanos(self.settings.rest_ns));
        }
        held
    }

    /// How far apart in time arrivals are stamped.
    fn see_grain(&mut self, observation: &Observation, seen: &[Point]) {
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return };
        let packets = &observation.packets[first.index as usize..=last.index as usize];
        let calls = packets.chunk_by(|a, b| a.call == b.call).count();
        if seen.len() > 1 && calls > 2 * seen.len() {
            let grain_s = (last.at_ns - first.at_ns) / 1e9 / (seen.len() - 1) as f64;
            self.history.grain_s = self.history.grain_s.max(grain_s);
        }
    }

    /// What a primed train shows.
    pub(super) fn observe_primed(
        &mut self,
        stage: Primed,
        observation: &Observation,
        (points, held_ns): (&[Point], f64),
        epoch: Epoch,
    ) -> Stage {
        let (measures, approaches) = (stage.measures, Stage::Primed(Primed { measures: false }));
        let Some(before) = self.evidence() else { return Stage::Primed(stage) };
        let packet_bit = self.packet_bit();
        self.history.capacity.add(observation, self.head as usize);
        // The account begins when links before the tight one have sent on what they held of the head.
        let begin_ns = observation.packets.iter().find_map(Packet::left).map_or(0.0, |left| epoch.since_ns(left));
        let head_bit = f64::from(self.head) * packet_bit;
        let settled_ns =
            begin_ns + (1.0 / before.inflow(&self.history) + t::SETTLE / before.path.capacity) * head_bit * 1e9;
        let stream = points.partition_point(|point| point.index < self.head);
        let settles = self.history.has(Case::Settled);
        let from = points.partition_point(|point| point.index < self.head || (settles && point.at_ns < settled_ns));
        let from = from.min(stream + (points.len() - stream) / 2);
        self.see_grain(observation, &points[from..]);
        let queued = points.iter().map(|point| point.delay_ns - self.history.base_ns).fold(0.0, f64::max);
        self.queued_ns = self.queued_ns.max(queued);
        let full = observation.loss().is_some_and(|loss| loss > t::FAR) || anomalies::overflows(observation);
        self.history.trains.push(Record {
            points: points[from..].to_vec(),
            overflowed_ns: full.then_some(queued),
            // One that approaches with as many points measures, too.
            measured: measures || points.len() - from >= self.settings.points as usize,
            held_ns,
        });
        let Some(evidence) = self.evidence() else { return Stage::Primed(stage) };
        let Some(last) = evidence.readings.last().filter(|_| evidence.readings.len() > before.readings.len()) else {
            self.history.trains.pop();
            self.faults.spoiled += 1;
            return Stage::Primed(stage);
        };
        self.may_be_another = self.history.has(Case::Several)
            && evidence.path.ratio.other > t::RATIO_SAME
            && evidence.readings.iter().filter(|it| it.measured).count() > 1
            && evidence.answer().is_none_or(|(bounds, _)| {
                let [low, high] = bounds.interval(&evidence.path);
                high - low > self.settings.interval_share * bounds.value()
            });
        if full {
            if self.settled.is_some() {
                self.begin_anew();
                self.begin_round();
                return self.stage;
            }
            self.faults.spoiled += 1;
            return approaches;
        }
        // Probes left the link at this rate, so it is no slower, whatever single gaps show.
        let out = last.whole.rate / (1.0 + last.whole.slope);
        if out > t::OUTGROWN * evidence.path.capacity {
            self.history.at_least = self.history.at_least.max(out);
        }
        if self.has_changed(&last.whole, &evidence) {
            self.begin_anew();
            self.begin_round();
            return self.stage;
        }
        self.faults.spoiled = 0;
        let drained = last.whole.drained();
        let lasted_s = if drained { 0.0 } else { last.whole.seconds() };
        self.history.longest_s = self.history.longest_s.max(lasted_s);
        self.judge();
        Stage::Primed(Primed { measures: measures || !drained })
    }

    /// Whether a run that follows has met a change; all before it is forgotten then.
    fn has_changed(&self, bounds: &Bounds, evidence: &Evidence) -> bool {
        let Some(before) = self.settled else { return false };
        let sure = 2.0 * t::SIDES * ((bounds.burst / bounds.seconds()).sqrt() + bounds.error);
        let (low, high) = (bounds.least - sure, bounds.least + bounds.idle + sure);
        let slack = t::FAR * before;
        let near = 1.0 - t::FAR;
        // What is available may have outgrown the capacity that was.
        let outgrown = bounds.value() > near * evidence.path.capacity.max(near * before) && bounds.drained();
        outgrown || before < low - slack || before > high + slack
    }
}
