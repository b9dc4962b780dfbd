//! Trains back to back, to find the capacity.

use vtare_units::Span;

use super::points::Point;
use super::stage::{Burst, Primed, Stage};
use super::{Abacus, anomalies, capacity, tuning as t};
use crate::avb::{Observation, Spacing, Train};

impl Abacus {
    pub(super) fn plan_burst(&mut self, stage: Burst) -> Train {
        let (ability, size_byte) = (self.setup.ability, self.packet_byte);
        // A token bucket that something emptied shows only once it is full again.
        let idle_before_ns = if stage.sent_before_bit > 0.0 { 0 } else { self.settings.rest_ns };
        // More, if the ones before came too close together for their stamps.
        self.head = stage.packets.saturating_mul(2_u32.saturating_pow(self.faults.spoiled)).min(ability.most_packets);
        if self.faults.spoiled > 0 && ability.most_group > 1 {
            // Packets of one call have one stamp: more calls with less in each.
            let packets = (ability.most_group / 2).max(1);
            self.head = self.head.max(t::LEAST_POINTS as u32 * packets).min(ability.most_packets);
            // A gap that no sender keeps: as close together as calls can be.
            let spacing = Spacing::groups(packets, 1.0);
            return Train { packets: self.head, size_byte, spacing, idle_before_ns };
        }
        Train { idle_before_ns, ..Train::back_to_back(self.head, size_byte) }
    }

    /// What a back-to-back train shows.
    pub(super) fn observe_burst(&mut self, stage: Burst, observation: &Observation, points: &[Point]) -> Stage {
        let sent_before_bit = stage.sent_before_bit;
        self.history.capacity.add(observation, self.head as usize);
        let Some(received) = capacity::arrival_rate(observation, self.head as usize, t::LEAST_POINTS) else {
            match anomalies::dropped(observation, self.packet_bit()) {
                Some(dropped) if observation.loss().is_some_and(|loss| loss > 0.5) => return self.police(dropped),
                _ => self.faults.spoiled += 1,
            }
            return Stage::Burst(stage);
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
                return Stage::Burst(stage);
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
            return Stage::Burst(Burst {
                packets: (t::MORE as u32 * self.head).min(most.max(self.head)),
                sent_before_bit,
                came: received,
            });
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
            return Stage::Burst(Burst { packets, sent_before_bit, came: received });
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
        // What delayed the first train does not delay the next one. But a token bucket would fill again.
        self.round.rest =
            observation.finished.checked_add(Span::from_unsigned_nanos(self.settings.rest_ns)).filter(|_| !bucket);
        Stage::Primed(Primed { measures: false })
    }
}
