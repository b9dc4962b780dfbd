//! What follows from a train.

use super::anomalies::overflows;
use super::belief::Belief;
use super::path_state::BOUND_ERROR;
use super::points::{Epoch, Point, points};
use super::train_estimate::{self, Known, Score};
use super::{Stage, Vtare, capacity, span};
use crate::avb::{Observation, Packet};

/// Cross traffic with so many times the variance of Poisson's comes in bursts: how a queue falls in one of its pauses
/// shows little.
const BURSTY: f64 = 4.0;

/// A measuring train whose queue may have been empty for more than this share of the value was sent far below it.
const OFTEN: f64 = 0.1;

/// Probes that left this much faster than the link is assumed to be show that it is faster.
const OUTGROWN: f64 = 1.15;

/// A capacity that differs from the one before by more than this factor is another one.
const ANOTHER: f64 = 1.25;

/// A queue runs empty behind any head, if the rate is below the value by more than this factor.
const TOO_SLOW: f64 = 1.03;

/// A train whose standard error is above this share of its value says roughly where that is; steered by is what lies so
/// many of them above.
const HAZY: f64 = 0.3;
const UPWARD: f64 = 1.5;

/// Different stamps that a back-to-back train must have.
const BURST_STAMPS: usize = 8;

/// Below this capacity, bit/s, no packets larger than [`SMALL`].
const SMALL_BELOW: f64 = 5e8;

/// Bytes of an Ethernet's largest IP packet.
const SMALL: u32 = 1500;

impl Vtare {
    pub(super) fn hear(&mut self, observation: &Observation) {
        self.rested_s = 0.0;
        // Arrivals of what was never sent are no answer.
        if !observation.packets.iter().any(|packet| packet.left().is_some() && packet.received.is_some()) {
            self.silent += 1;
            self.next = observation.finished.checked_add(span(self.settings.retry_ns));
            return;
        }
        self.silent = 0;
        let Some(epoch) = self.epoch.or_else(|| Epoch::of(observation)) else {
            // What arrived was never sent.
            self.spoiled += 1;
            return;
        };
        if self.epoch.is_none() {
            self.epoch = Some(epoch);
            let began = self.spent.began.map_or(0.0, |began| epoch.since_ns(began));
            self.epoch_s = -began / 1e9;
        }
        if observation.reordered() * 4 > observation.received() {
            self.reordered += 1;
        }
        if self.stage == Stage::Links {
            self.hear_links(observation, epoch);
            return;
        }
        let service_ns_per_bit = self.link.map_or(0.0, |(capacity, _)| 1e9 / capacity);
        let (points, held_ns) = points(observation, epoch, service_ns_per_bit);
        if self.was_held_whole(&points) {
            self.held_whole += 1;
            self.spoiled += 1;
            self.account.clear();
            self.leave(&points);
            self.rest = observation.finished.checked_add(span(self.settings.rest_ns));
            return;
        }
        self.capacity.add(observation, self.head as usize);
        self.held_ns = self.held_ns.max(held_ns);
        self.held_now_ns = held_ns;
        let held_up = self.was_held_up(&points) && !self.shows_the_same_link(observation);
        // The path's least delay; it may rise again slowly, since clocks drift apart.
        self.base_ns = points.iter().map(|point| point.delay_ns).fold(self.base_ns, f64::min);
        if held_up {
            // This train was made for what was assumed to be known: it is no first one, and tells no more.
            self.restarts += 1;
            self.forget();
            return;
        }
        match self.stage {
            Stage::First | Stage::Flood => self.hear_burst(observation, &points),
            Stage::Links => {}
            Stage::Police => {
                self.seems_policed(observation, &points);
            }
            Stage::Search | Stage::Measure => self.hear_train(observation, &points, epoch),
        }
    }

    /// What a back-to-back train tells.
    pub(super) fn hear_burst(&mut self, observation: &Observation, points: &[Point]) {
        let received = capacity::arrival_rate(observation, self.head as usize, BURST_STAMPS);
        let Some(received) = received else {
            self.spoiled += 1;
            return;
        };
        let sent = observation.sent_bit_per_s().unwrap_or(f64::INFINITY);
        self.line = if sent.is_finite() { sent } else { self.line };
        if self.seems_policed(observation, points) {
            return;
        }
        if received > 0.9 * sent {
            if stood_still(observation) {
                // It was not the sender's rate that the path took.
                self.spoiled += 1;
                return;
            }
            let packet_bit = f64::from(self.packet_byte) * 8.0;
            let long = f64::from(self.head) * packet_bit / sent >= self.settings.least_train_ns as f64 / 1e9;
            if self.link.is_none() && (long || self.head >= self.setup.ability.most_packets) {
                let best = capacity::fastest(observation, self.settings.least_train_ns);
                self.stop_sender_limited(best.unwrap_or(0.0).max(received.min(sent)));
            }
            self.sent_before_bit += observation.sent() as f64 * packet_bit;
            self.near = received;
            self.stage = Stage::Flood;
            return;
        }
        let (capacity, error) = self.capacity.estimate().unwrap_or((received, 0.3));
        let capacity = capacity.max(received);
        self.link = Some((capacity, error));
        let bucket = self.see_bucket(points, capacity);
        // Cross traffic that came between the packets: so much, if a link as fast as the tight one had stretched them
        // before. If not, less could come between them and there is more of it; the search will tell, sooner
        // from above than from below.
        let crossing = if bucket { capacity - received } else { capacity * (capacity / received - 1.0) };
        self.near = 0.9 * (capacity - crossing).clamp(0.5 * received, received);
        if capacity < SMALL_BELOW && self.packet_byte > SMALL {
            // Large packets are few at low rates. The least delay of small ones is another.
            self.packet_byte = SMALL;
            self.base_ns = f64::INFINITY;
        }
        self.see_departures(observation);
        self.see_overload(observation);
        self.calm = !bucket && self.seems_calm(capacity, received, error);
        if self.calm {
            self.near = received;
        }
        self.belief = Some(Belief::up_to(capacity));
        self.see_head(points);
        let flooded = self.stage == Stage::Flood;
        self.leave(points);
        self.stage = Stage::Search;
        if flooded && !bucket && self.may_share() {
            self.flood = points.to_vec();
            self.hear_flood();
        }
        self.slow = self.is_slow();
        if self.slow || self.several() {
            self.steer_from(points, (1.0 - crossing / capacity).max(0.0));
            self.stage = Stage::Measure;
        }
        // What held up the first train, so that it showed another link, holds up the next one no more. But a token
        // bucket would fill again.
        self.rest = observation.finished.checked_add(span(self.settings.rest_ns)).filter(|_| !bucket);
        self.rested_s = if self.rest.is_some() { self.settings.rest_ns as f64 / 1e9 } else { 0.0 };
    }

    pub(super) fn leave(&mut self, points: &[Point]) {
        if let Some(last) = points.last() {
            self.left = (last.at_ns, (last.delay_ns - self.base_ns).max(0.0));
        }
    }

    /// What a primed train tells.
    pub(super) fn hear_train(&mut self, observation: &Observation, points: &[Point], epoch: Epoch) {
        if self.seems_policed(observation, points) {
            return;
        }
        let before = self.link.map_or(0.0, |(capacity, _)| capacity);
        self.see_overload(observation);
        self.see_capacity(points);
        let Some(mut known) = self.known() else { return };
        if !self.capacity.clumps() && (known.capacity > ANOTHER * before || before > ANOTHER * known.capacity) {
            // What was reckoned with another capacity is worth nothing.
            self.scores.clear();
        }
        // An account over many trains begins with a train's first packet, else behind what is left of its head.
        let settled = self.settled_from(observation, points, epoch, known.capacity);
        let (behind, unsettled_ns) = if self.steers { (0, 0.0) } else { settled };
        self.take_into_account(points, behind, &known);
        // An account that goes on began earlier.
        known.unsettled_ns = if self.account.len() + behind > points.len() { 0.0 } else { unsettled_ns };
        self.see_head(points);
        self.see_departures(observation);
        self.see_grain(observation, points, behind);
        let Some(mut score) = self.narrowest(&known) else {
            self.spoiled += 1;
            return;
        };
        // Probes left the link at this rate, so it is no slower, whatever single gaps say.
        let out = score.rate / (1.0 + score.slope);
        if out > OUTGROWN * known.capacity {
            self.link = Some((out, BOUND_ERROR));
            self.outgrown = self.outgrown.max(out);
            let Some((faster, again)) =
                self.known().and_then(|known| Some((known, train_estimate::score(&self.account, &known)?)))
            else {
                return;
            };
            (known, score) = (faster, again);
        }
        self.respond(&score, &known);
        if let Some(again) = self.known() {
            let unsettled_ns = known.unsettled_ns;
            known = Known { unsettled_ns, ..again };
            score = self.narrowest(&known).unwrap_or(score);
        }
        self.see_stills(observation);
        score = self.busiest(points, &known, score);
        self.doubt(&mut score);
        self.queued_ns = self.queued_ns.max(score.queued_ns);
        if observation.loss().is_some_and(|loss| loss > 0.08) || overflows(observation) {
            if self.settled.is_some() && self.settings.follow_ns.is_some() {
                self.forget();
                self.begin_round();
                return;
            }
            // The queue overflowed: what got in is what counts, but cross traffic was lost as well.
            let least = 8.0 * f64::from(self.packet_byte) * 8.0;
            self.room_bit = (0.6 * known.capacity * score.queued_ns / 1e9).min(0.8 * self.room_bit).max(least);
            self.near = (0.7 * score.rate).min(self.near);
            self.account.clear();
            self.spoiled += 1;
            self.stage = Stage::Search;
            return;
        }
        self.burst = score.burst.max(0.5 * self.burst).max(self.burst_between(&score));
        self.jitter_ns = score.jitter_ns;
        self.dispersion = self.dispersion.max(score.dispersion);
        if self.calm && !self.stayed_calm(&score, &known) {
            self.calm = false;
            if self.is_slow() || self.several() {
                self.begin_steering();
            }
        }
        let spread = (score.burst / score.seconds()).sqrt();
        let drained = score.idle > self.settings.idle_share * score.least.max(0.0);
        if let Some(belief) = &mut self.belief {
            belief.learn(score.least, score.least + score.idle, (score.error.powi(2) + spread.powi(2)).sqrt());
        }
        if !self.steers && self.stage == Stage::Measure && !drained && self.is_crowded(&score, &known) {
            self.slow |= self.is_slow();
            self.begin_steering();
        }
        if self.steers {
            self.leave(points);
        }
        if self.stage == Stage::Measure && self.followed_away(&score, spread) {
            return;
        }
        let middle = score.value();
        let before = self.near;
        let prime = self.prime;
        if drained {
            // There is more than was asked for: the rate was too low, or the head too short.
            self.drained += 1;
            self.prime = (self.prime * 1.4).min(10.0);
            let upward = middle.min(1.4 * score.rate.max(score.least));
            self.near = upward.min(known.capacity);
            let often = self.stage == Stage::Measure && score.idle > OFTEN * score.least.max(0.0);
            // Even a guess of how long it was empty leads there sooner than one step after another.
            if (score.dispersion > BURSTY || often) && !self.unsure() {
                self.near = self.near.max(middle.min(known.capacity));
            }
        } else {
            self.drained = self.drained.saturating_sub(1);
            // Where a train takes a good part of all the time, a step from above costs as much as one from below.
            let steered = if self.affords_another() { steered(&score) } else { middle };
            self.near = steered.min(known.capacity);
        }
        if self.steers {
            self.steer_by(&score, spread, before, known.capacity);
        }
        self.near = self.steadied(self.near, &score, drained, &known);
        if drained && self.unsure() && self.near > TOO_SLOW * score.rate {
            // It was the rate that emptied the queue, and no burst.
            self.prime = prime;
        }
        self.see_astray(&score, drained, &known);
        if self.stage == Stage::Measure || (!drained && self.settled(&score)) {
            // The account goes on: it replaces its own earlier state.
            self.keep(score);
            self.spoiled = 0;
            self.judge(&known);
        }
        if !drained {
            self.stage = Stage::Measure;
        }
    }
}

/// Whether most of the time that a train took to leave passed between two of its packets.
fn stood_still(observation: &Observation) -> bool {
    let left: Vec<_> = observation.packets.iter().filter_map(Packet::left).collect();
    let longest = left.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).max();
    let all = left.first().zip(left.last()).map(|(&first, &last)| (last - first).as_nanos());
    longest.zip(all).is_some_and(|(longest, all)| left.len() > 2 && longest * 2 > all)
}

/// The value to steer by, bit/s. A short train at a rate far above it hardly tells a small value from none; a rate
/// below it would empty the queue and take all the time there is, one above it costs a little accuracy once: so towards
/// the upper end of what it may be.
fn steered(score: &Score) -> f64 {
    let (value, rate) = (score.value(), score.rate);
    if score.error <= HAZY * value { value } else { (value + UPWARD * score.error).min(rate / 4.0).max(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, Spacing, Train, VtareSettings};
    use vtare_units::Timestamp;

    /// Packets of 1500 B that left at these times, us, and arrived over a link of 300 Mbit/s that holds so much before,
    /// us.
    fn observed(left_us: &[u64], queued_us: u64) -> Observation {
        let mut free = queued_us;
        let packets = left_us.iter().enumerate().map(|(index, &left)| {
            free = free.max(left) + 40;
            Packet {
                scheduled: Timestamp::from_nanos(left * 1_000),
                sent: Some(Timestamp::from_nanos(left * 1_000)),
                kernel_sent: None,
                received: Some(Timestamp::from_nanos((free + 500) * 1_000)),
                place: Some(index as u32),
                size_byte: 1500,
                call: index as u32,
                group: None,
                descheduled: false,
            }
        });
        let packets: Vec<Packet> = packets.collect();
        let spacing = Spacing::Primed { head: 24, after_ns: 1.0, packets: 1, gap_ns: 2e6 };
        let train = Train { packets: packets.len() as u32, size_byte: 1500, spacing, idle_before_ns: 0 };
        let finished = Timestamp::from_nanos(1_000_000_000);
        Observation { train, packets, finished, receiver_drops: None, duplicates: None }
    }

    /// 24 packets at once, then one every 2 ms.
    fn primed(begin_us: u64, queued_us: u64) -> Observation {
        let at = |index: u64| begin_us + if index < 24 { index } else { (index - 23) * 2_000 };
        observed(&(0..40).map(at).collect::<Vec<_>>(), begin_us + queued_us)
    }

    /// At a train behind a first one that met a queue of 20 ms.
    fn searching() -> Vtare {
        let mut method = Vtare::new(VtareSettings::default(), Setup::default());
        method.head = 24;
        method.hear(&observed(&(0..24).collect::<Vec<_>>(), 20_000));
        assert_eq!(method.stage, Stage::Search);
        method
    }

    #[test]
    fn a_queue_that_falls_on_a_link_that_stays_begins_nothing_anew() {
        let mut method = searching();
        let before = method.base_ns;
        method.hear(&primed(100_000, 0));
        assert!(method.base_ns < before - 10e6, "{} {before}", method.base_ns);
        assert_eq!((method.restarts, method.stage == Stage::Flood), (0, false));
    }

    #[test]
    fn where_all_is_begun_anew_the_train_that_showed_it_is_no_first_one() {
        let mut method = searching();
        // What let the first train go was ten times as fast.
        method.link = Some((3e9, 0.01));
        method.hear(&primed(100_000, 0));
        assert_eq!((method.restarts, method.stage), (1, Stage::First));
        assert!(method.done.is_none());
    }

    #[test]
    fn a_sender_that_stood_still_is_told_from_one_that_is_slow() {
        assert!(stood_still(&observed(&[0, 5, 10, 13_000, 13_005], 0)));
        assert!(!stood_still(&observed(&[0, 500, 1_000, 1_500], 0)));
        let mut method = Vtare::new(VtareSettings::default(), Setup::default());
        method.head = 24;
        let times: Vec<u64> = (0..24).map(|index| if index < 12 { index } else { 13_000 + index }).collect();
        method.hear(&observed(&times, 0));
        assert!(method.done.is_none(), "the sender is not the limit");
        assert_eq!((method.stage, method.spoiled), (Stage::First, 1));
    }

    #[test]
    fn a_hazy_train_steers_upward_and_never_above_a_quarter_of_its_rate() {
        let of = |least: f64, error: f64| steered(&Score { least, error, rate: 2.4e8, ..Score::default() });
        assert_eq!(of(5e7, 1e6), 5e7);
        assert_eq!(of(-2e7, 4e7), 4e7);
        assert_eq!(of(1e7, 9e7), 6e7);
    }
}
