//! What a train shows, put into the history; and the stage that follows.

use vtare_units::Span;

use super::points::{Epoch, Point, points};
use super::stage::Stage;
use super::{Abacus, anomalies};
use crate::avb::Observation;

impl Abacus {
    pub(super) fn record(&mut self, observation: &Observation) {
        // Arrivals of what was never sent are no answer.
        if !observation.packets.iter().any(|packet| packet.left().is_some() && packet.received.is_some()) {
            self.faults.silent += 1;
            self.round.rest = observation.finished.checked_add(Span::from_unsigned_nanos(self.settings.retry_ns));
            return;
        }
        self.faults.silent = 0;
        let began = self.epoch.or_else(|| {
            let epoch = Epoch::of(observation)?;
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            Some((epoch, -began / 1e9))
        });
        self.epoch = began;
        let Some((epoch, _)) = began else {
            // What arrived was never sent.
            self.faults.spoiled += 1;
            return;
        };
        if observation.reordered() * 2 > observation.received() {
            self.faults.reordered += 1;
        }
        let service_ns_per_bit = self.history.narrow().map_or(0.0, |(capacity, _)| 1e9 / capacity);
        let service_ns_per_bit = if matches!(self.stage, Stage::Burst(_)) { 0.0 } else { service_ns_per_bit };
        let (points, held_ns) = points(observation, epoch, service_ns_per_bit);
        if matches!(self.stage, Stage::Primed(_)) && self.was_held(observation, &points) {
            return;
        }
        self.faults.held_ns = self.faults.held_ns.max(held_ns);
        self.history.base_ns = points.iter().map(|point| point.delay_ns).fold(self.history.base_ns, f64::min);
        self.stage = self.transition(observation, (&points, held_ns), epoch);
        if let Some(last) = points.last() {
            self.left = (last.at_ns, self.queue_left_ns(observation, last));
        }
    }

    /// What the train shows by its stage, and the stage of the next one.
    fn transition(&mut self, observation: &Observation, (points, held_ns): (&[Point], f64), epoch: Epoch) -> Stage {
        let policed = anomalies::policed(observation, self.packet_bit());
        match (self.stage, policed) {
            (Stage::Police(stage), _) => self.observe_police(stage, observation),
            (_, Some(dropped)) => self.police(dropped),
            (Stage::Burst(stage), None) => self.observe_burst(stage, observation, points),
            (Stage::Primed(stage), None) => self.observe_primed(stage, observation, (points, held_ns), epoch),
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
}
