//! Trains at a policer, behind heads that empty its bucket.

use vtare_units::{Monotonic, Timestamp};

use super::anomalies::Dropped;
use super::stage::{Police, Primed, Stage};
use super::{Abacus, anomalies, capacity, plan, policer, tuning as t};
use crate::avb::{Observation, Stopped, Train};

impl Abacus {
    pub(super) fn plan_police(&mut self, stage: Police, now: Timestamp<Monotonic>) -> Train {
        let (ability, size_byte) = (self.setup.ability, self.packet_byte);
        // The first one is short, and no slower than lets it end in time: its rate is a guess.
        let first = self.policed.is_empty();
        let slowest = t::POLICE_LEAST * self.packet_bit() / (t::REST_SHARE * self.seconds_left());
        let rate = if first { stage.rate.max(slowest) } else { stage.rate };
        let left = if first { 0.0 } else { t::REST_SHARE };
        let bytes = left * (self.bytes_left() as f64).min(rate * self.seconds_left() / 8.0);
        let bits = (8.0 * bytes).max(t::POLICE_LEAST * self.packet_bit());
        // The bucket has filled since the last train.
        let since_s = self.epoch.map_or(0.0, |(epoch, _)| (epoch.since_ns(now) - self.left.0) / 1e9);
        let bucket_bit = (self.history.bucket_byte.unwrap_or(0.0) * 8.0).min(self.history.at_least * since_s);
        let bucket_bit = t::ROOM * (bucket_bit + t::FEW_PACKETS * self.packet_bit());
        let inflow = self.history.line.min(ability.most_bit_per_s(size_byte));
        let (train, head) = plan::train(bucket_bit, rate, bits / rate, inflow, size_byte, &ability, self.bytes_left());
        self.head = head;
        plan::scattered(train, self.setup.seed.wrapping_add(u64::from(self.spent.trains)))
    }

    /// Packets are dropped and not delayed, or too many to see a delay: from here on streams.
    pub(super) fn police(&mut self, dropped: Dropped) -> Stage {
        let before_bit = if let Stage::Burst(burst) = self.stage { burst.sent_before_bit } else { 0.0 };
        self.history.bucket_byte = Some(dropped.bucket_byte + before_bit / 8.0);
        self.history.at_least = dropped.rate;
        Stage::Police(Police { rate: (1.0 + t::POLICE_FAR) * dropped.rate })
    }

    /// What passes of a train at another rate than those before shows what is free.
    pub(super) fn observe_police(&mut self, stage: Police, observation: &Observation) -> Stage {
        let rate = stage.rate;
        let came = capacity::arrival_rate(observation, observation.packets.len(), t::LEAST_POINTS);
        if let Some(came) = came.filter(|_| anomalies::queues(observation, self.head)) {
            if !self.policed.is_empty() {
                // All that the policer passes came without a queue before: this one is at a link ahead of it.
                let link = self.history.capacity.estimate().map_or(rate, |(capacity, _)| capacity.min(rate));
                self.history.line = (1.0 - t::FAR) * link;
                self.faults.spoiled += 1;
                return Stage::Police(Police { rate: self.history.line });
            }
            // The tight link lies behind the policer, and has a queue.
            self.policed.clear();
            self.history.bucket_byte = None;
            (self.history.at_least, self.history.first_guess) = (came, came);
            return Stage::Primed(Primed { measures: false });
        }
        if observation.packets.iter().all(|packet| packet.received.is_some()) {
            // The bucket was not empty, or the first guess of the rate is from a train that stalled.
            self.faults.spoiled += 1;
            return Stage::Police(Police { rate: (1.0 + t::POLICE_HEAVY) * rate });
        }
        let Some(train) = policer::through(observation, self.head) else {
            self.faults.spoiled += 1;
            return Stage::Police(stage);
        };
        self.policed.push(train);
        let Some(found) = policer::free(&self.policed, self.bucket_packets()) else {
            self.faults.spoiled += 1;
            return Stage::Police(stage);
        };
        self.history.at_least = found.policer;
        let crossing = found.policer - found.value;
        // Far above what the policer passes, near to what is free, between the two, and near again.
        let near = (t::POLICE_NEAR * train.together / self.bucket_packets()).clamp(t::FAR, t::POLICE_FAR);
        let cycle = [near, t::POLICE_HEAVY, near, t::POLICE_FAR];
        let above = cycle[self.policed.len() % cycle.len()];
        let rate = ((1.0 + above) * found.policer - crossing).min(self.history.line);
        let [low, high] = found.interval;
        if self.policed.len() > 2 && high - low <= self.settings.interval_share * found.value {
            let best = self.best(Stopped::Policed);
            self.conclude(Stopped::Policed, Some(best));
        }
        Stage::Police(Police { rate })
    }
}
