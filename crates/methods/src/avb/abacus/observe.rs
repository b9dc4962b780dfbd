//! What a train shows, put into the history; and the stage that follows.

use vtare_units::Span;

use super::account::Bounds;
use super::cases::Case;
use super::evidence::{Evidence, Record};
use super::points::{Epoch, Point, points};
use super::{Abacus, Stage, anomalies, capacity, policer, tuning as t};
use crate::avb::{Observation, Packet, Stopped};

impl Abacus {
    pub(super) fn record(&mut self, observation: &Observation) {
        // Arrivals of what was never sent are no answer.
        if !observation.packets.iter().any(|packet| packet.left().is_some() && packet.received.is_some()) {
            self.faults.silent += 1;
            self.round.rest = observation.finished.checked_add(Span::from_unsigned_nanos(self.settings.retry_ns));
            return;
        }
        self.faults.silent = 0;
        let Some((epoch, _)) = self.epoch.or_else(|| {
            let epoch = Epoch::of(observation)?;
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            Some((epoch, -began / 1e9))
        }) else {
            // What arrived was never sent.
            self.faults.spoiled += 1;
            return;
        };
        if self.epoch.is_none() {
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            self.epoch = Some((epoch, -began / 1e9));
        }
        if observation.reordered() * 2 > observation.received() {
            self.faults.reordered += 1;
        }
        let service_ns_per_bit = self.history.narrow().map_or(0.0, |(capacity, _)| 1e9 / capacity);
        let service_ns_per_bit = if matches!(self.stage, Stage::Burst { .. }) { 0.0 } else { service_ns_per_bit };
        let (points, held_ns) = points(observation, epoch, service_ns_per_bit);
        if matches!(self.stage, Stage::Primed { .. }) && self.was_held(observation, &points) {
            return;
        }
        self.faults.held_ns = self.faults.held_ns.max(held_ns);
        self.history.base_ns = points.iter().map(|point| point.delay_ns).fold(self.history.base_ns, f64::min);
        let policed = anomalies::policed(observation, self.packet_bit());
        match (self.stage, policed) {
            (Stage::Police { .. }, _) => self.observe_policed(observation),
            (_, Some(dropped)) => self.police(dropped),
            (Stage::Burst { .. }, None) => self.observe_burst(observation, &points),
            (Stage::Primed { measures }, None) => self.observe_primed(observation, &points, epoch, held_ns, measures),
        }
        if let Some(last) = points.last() {
            self.left = (last.at_ns, self.queue_left_ns(observation, last));
        }
    }

    /// How long the queue is behind a train's last packet, ns; where that found none, by how much less than empty it is
    /// at most: what flowed into a token bucket since the train before, less what this one took out of it.
    fn queue_left_ns(&self, observation: &Observation, last: &Point) -> f64 {
        let delay_ns = (last.delay_ns - self.history.base_ns).max(0.0);
        let (Some((capacity, _)), Some(bucket_byte)) = (self.history.narrow(), self.history.bucket_byte) else {
            return delay_ns;
        };
        if delay_ns > self.packet_bit() * 1e9 / capacity {
            return delay_ns;
        }
        let took_ns = observation.received() as f64 * self.packet_bit() * 1e9 / capacity;
        let got_ns = last.at_ns - self.left.0;
        (self.left.1 + took_ns - got_ns).clamp(-8e9 * bucket_byte / capacity, 0.0)
    }

    /// Packets are dropped and not delayed, or too many to see a delay: from here on streams.
    fn police(&mut self, dropped: anomalies::Dropped) {
        let before_bit = if let Stage::Burst { sent_before_bit, .. } = self.stage { sent_before_bit } else { 0.0 };
        self.history.bucket_byte = Some(dropped.bucket_byte + before_bit / 8.0);
        self.history.at_least = dropped.rate;
        self.stage = Stage::Police { rate: (1.0 + t::POLICE_FAR) * dropped.rate };
    }

    /// What passes of a train at another rate than those before shows what is free.
    fn observe_policed(&mut self, observation: &Observation) {
        let Stage::Police { rate } = self.stage else { return };
        let came = capacity::arrival_rate(observation, observation.packets.len(), t::LEAST_POINTS);
        if let Some(came) = came.filter(|_| anomalies::queues(observation, self.head)) {
            if !self.policed.is_empty() {
                // All that the policer passes came without a queue before: this one is at a link ahead of it.
                let link = self.history.capacity.estimate().map_or(rate, |(capacity, _)| capacity.min(rate));
                self.history.line = (1.0 - t::FAR) * link;
                self.stage = Stage::Police { rate: self.history.line };
                self.faults.spoiled += 1;
                return;
            }
            // The tight link lies behind the policer, and has a queue.
            self.policed.clear();
            self.history.bucket_byte = None;
            (self.history.at_least, self.history.first_guess) = (came, came);
            self.stage = Stage::Primed { measures: false };
            return;
        }
        if observation.packets.iter().all(|packet| packet.received.is_some()) {
            // The bucket was not empty, or the first guess of the rate is from a train that stalled.
            self.stage = Stage::Police { rate: (1.0 + t::POLICE_HEAVY) * rate };
            self.faults.spoiled += 1;
            return;
        }
        let Some(train) = policer::through(observation, self.head) else {
            self.faults.spoiled += 1;
            return;
        };
        self.policed.push(train);
        let Some(found) = policer::free(&self.policed, self.bucket_packets()) else {
            self.faults.spoiled += 1;
            return;
        };
        self.history.at_least = found.policer;
        let crossing = found.policer - found.value;
        // Far above what the policer passes, near to what is free, between the two, and near again.
        let near = (t::POLICE_NEAR * train.together / self.bucket_packets()).clamp(t::FAR, t::POLICE_FAR);
        let cycle = [near, t::POLICE_HEAVY, near, t::POLICE_FAR];
        let above = cycle[self.policed.len() % cycle.len()];
        let rate = ((1.0 + above) * found.policer - crossing).min(self.history.line);
        self.stage = Stage::Police { rate };
        let [low, high] = found.interval;
        if self.policed.len() > 2 && high - low <= self.settings.interval_share * found.value {
            let best = self.best(Stopped::Policed);
            self.conclude(Stopped::Policed, Some(best));
        }
    }

    /// Whether something that stalled delayed this train as a whole.
    fn was_held(&mut self, observation: &Observation, points: &[Point]) -> bool {
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

    /// What a back-to-back train shows.
    fn observe_burst(&mut self, observation: &Observation, points: &[Point]) {
        let Stage::Burst { sent_before_bit, .. } = self.stage else { return };
        self.history.capacity.add(observation, self.head as usize);
        let Some(received) = capacity::arrival_rate(observation, self.head as usize, t::LEAST_POINTS) else {
            match anomalies::dropped(observation, self.packet_bit()) {
                Some(dropped) if observation.loss().is_some_and(|loss| loss > 0.5) => self.police(dropped),
                _ => self.faults.spoiled += 1,
            }
            return;
        };
        let gaps = self.history.capacity.estimate();
        let behind = gaps.and_then(|(capacity, _)| anomalies::policed_behind(observation, self.packet_bit(), capacity));
        if let Some(dropped) = behind {
            return self.police(dropped);
        }
        let tail = capacity::tail(observation, self.head as usize).filter(|tail| tail.credit > 0);
        let received = tail.map_or(received, |tail| tail.rate());
        let sent = observation.sent_bit_per_s().unwrap_or(f64::INFINITY);
        self.history.line = if sent.is_finite() { sent } else { self.history.line };
        if received > (1.0 - t::FAR) * sent {
            if anomalies::stalled(observation) {
                // It was not the sender's rate that the path took.
                self.faults.spoiled += 1;
                return;
            }
            let packet_bit = self.packet_bit();
            // A deep token bucket passes a short train as fast as the sender is.
            let settings = &self.settings;
            // Not clamped: any of the three may be set to anything.
            let sure_s = (settings.sure_train_byte as f64 * 8.0 / sent)
                .min(settings.sure_train_ns as f64 / 1e9)
                .max(settings.sure_burst_ns as f64 / 1e9);
            let lasted_s = f64::from(self.head) * packet_bit / sent;
            if lasted_s >= sure_s || self.head >= self.setup.ability.most_packets {
                let stretch_ns = settings.least_train_ns.min((1e9 * lasted_s) as u64 / t::PARTS as u64);
                let rate = capacity::sustained(observation, stretch_ns).unwrap_or(received);
                self.stop_sender_limited(rate.min(sent), lasted_s);
            }
            // Four times as many: what passes at once may be a token bucket, and behind it a slow link.
            let most = self.setup.ability.most_packets.min((self.bytes_left() / u64::from(self.packet_byte)) as u32);
            // No more than makes it sure, with room for one that is sent a little faster.
            let most = most.min(((1.0 + t::FAR) * sure_s * sent / packet_bit) as u32);
            let sent_before_bit = sent_before_bit + observation.sent() as f64 * packet_bit;
            self.stage = Stage::Burst {
                packets: (t::MORE as u32 * self.head).min(most.max(self.head)),
                sent_before_bit,
                came: received,
            };
            return;
        }
        let credit_byte = tail.filter(|tail| tail.credit > t::FEW_PACKETS as usize).and_then(|tail| {
            let first = points.first()?;
            let at = points.get(points.partition_point(|point| (point.index as usize) < tail.credit))?;
            let passed_bit = tail.credit as f64 * self.packet_bit();
            // What has flowed in since does not count. What came before it came out of the same bucket.
            let alone = passed_bit - tail.rate() * (at.at_ns - first.at_ns) / 1e9;
            let with_those_before = sent_before_bit + passed_bit - tail.rate() * at.at_ns / 1e9;
            Some(alone.max(with_those_before) / 8.0).filter(|byte| *byte > 0.0)
        });
        let short = |tail: capacity::Tail| tail.bits < t::TAIL_PACKETS * self.packet_bit();
        let affordable = (self.bytes_left() / 2 / u64::from(self.packet_byte)) as u32;
        let packets = (t::MORE as u32 * self.head).min(self.setup.ability.most_packets).min(affordable);
        // Where no queue grew for half of it, and only then one did, a token bucket passed that half.
        let early = capacity::arrival_rate(observation, self.head as usize / 2, t::LEAST_POINTS).unwrap_or(0.0);
        let passed = tail.is_some_and(short) || early > (1.0 - t::FAR) * sent;
        if passed && packets >= 2 * self.head {
            // What a token bucket let through at once is most of it: more, while the bucket is empty.
            self.history.bucket_byte = self.history.bucket_byte.or(credit_byte);
            let sent_before_bit = sent_before_bit + observation.sent() as f64 * self.packet_bit();
            self.stage = Stage::Burst { packets, sent_before_bit, came: received };
            return;
        }
        let capacity = self.history.capacity.estimate().map_or(received, |(capacity, _)| capacity);
        let base_ns = self.history.base_ns;
        let seen = anomalies::bucket_byte(points, base_ns, capacity.max(received), self.packet_bit(), sent_before_bit);
        self.history.bucket_byte =
            self.history.bucket_byte.or_else(|| seen.into_iter().chain(credit_byte).max_by(f64::total_cmp));
        let bucket = self.history.bucket_byte.is_some();
        // What a bucket passed at once came faster than the link is.
        self.history.at_least = if bucket { 0.0 } else { received };
        let capacity = if bucket { capacity } else { capacity.max(received) };
        // Cross traffic that came between the packets: this share, if a link as fast as the tight one had stretched
        // them before. If not, less could come between them and there is more of it.
        let crossing = if bucket { 0.0 } else { capacity * (capacity / received - 1.0) };
        self.history.first_guess =
            (1.0 - t::FAR) * if bucket { capacity } else { (capacity - crossing).clamp(0.5 * received, received) };
        if capacity < t::SMALL_BELOW && self.packet_byte > t::SMALL {
            // Large packets are few at low rates. The least delay of small ones is another.
            self.packet_byte = t::SMALL;
            self.history.base_ns = f64::INFINITY;
        }
        if bucket {
            // What emptied the bucket leaves as much to measure with, but for the most that is decent on any link.
            let spent_byte = self.spent.probe_byte - self.round.spent.0;
            let decent = (t::MORE * self.settings.most_byte).saturating_sub(self.decent_byte());
            let most_byte = if self.setup.budget.carried_ns > 0 { spent_byte } else { decent.max(self.sure_byte()) };
            self.round.spent.0 += spent_byte.min(most_byte);
        }
        self.stage = Stage::Primed { measures: false };
        // What delayed the first train does not delay the next one. But a token bucket would fill again.
        self.round.rest =
            observation.finished.checked_add(Span::from_unsigned_nanos(self.settings.rest_ns)).filter(|_| !bucket);
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
    fn observe_primed(
        &mut self,
        observation: &Observation,
        points: &[Point],
        epoch: Epoch,
        held_ns: f64,
        measures: bool,
    ) {
        let Some(before) = self.evidence() else { return };
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
        let Some(evidence) = self.evidence() else { return };
        let Some(last) = evidence.readings.last().filter(|_| evidence.readings.len() > before.readings.len()) else {
            self.history.trains.pop();
            self.faults.spoiled += 1;
            return;
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
                return;
            }
            self.faults.spoiled += 1;
            self.stage = Stage::Primed { measures: false };
            return;
        }
        // Probes left the link at this rate, so it is no slower, whatever single gaps show.
        let out = last.whole.rate / (1.0 + last.whole.slope);
        if out > t::OUTGROWN * evidence.path.capacity {
            self.history.at_least = self.history.at_least.max(out);
        }
        if self.has_changed(&last.whole, &evidence) {
            self.begin_anew();
            self.begin_round();
            return;
        }
        self.faults.spoiled = 0;
        let drained = last.whole.drained();
        self.stage = Stage::Primed { measures: measures || !drained };
        let lasted_s = if drained { 0.0 } else { last.whole.seconds() };
        self.history.longest_s = self.history.longest_s.max(lasted_s);
        self.judge();
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
