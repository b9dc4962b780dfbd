//! Trains that say something else than how much is available: policers, token buckets, full queues.

use super::Case;
use super::points::Point;
use super::{Stage, Vtare};
use crate::avb::{Observation, Packet};

/// Lost packets before anything follows from where they were lost.
const LOST_AT_LEAST: usize = 4;

/// Mean rank, 0 to 1, of the delay before lost packets above which the queue was full; chance alone gives a half.
const LOST_HIGH: f64 = 0.85;

/// A delay is at the top if it is nearer to it than this share of the range.
const LOST_NEAR: f64 = 0.2;

/// A train whose packets all waited for longer than this share of the time in which they left, and for longer than
/// this, ns, was delayed as a whole, if nothing came between them: they came at this share of the capacity; and unless
/// probes filled the queue: with more than this share of the wait.
const HELD_WHOLE: f64 = 0.7;
const HELD_WHOLE_NS: f64 = 300_000.0;
const HELD_RATE: f64 = 0.9;
const OWN_QUEUE: f64 = 0.5;

impl Vtare {
    /// Whether a train was delayed as a whole behind the link by something that stalled, and then came as fast as
    /// that lets packets go: it looks like one on a faster link. All of it waited for longer than it took to send,
    /// it is not the probes that filled the queue so, and the cross traffic that would have filled it is not
    /// between them.
    pub(super) fn was_held_whole(&self, points: &[Point]) -> bool {
        if self.without(Case::DelayedWhole) {
            return false;
        }
        let Some((capacity, _)) = self.link.filter(|_| matches!(self.stage, Stage::Search | Stage::Measure)) else {
            return false;
        };
        let stream = &points[points.partition_point(|point| point.index < self.head)..];
        let (Some(first), Some(last)) = (stream.first(), stream.last()) else { return false };
        let waited_ns = stream.iter().map(|point| point.delay_ns).fold(f64::INFINITY, f64::min) - self.base_ns;
        let drained_ns = self.left.1 - (first.at_ns - self.left.0) * self.near / capacity;
        let own_ns = first.sent_bit / capacity * 1e9 + drained_ns.max(0.0);
        let came_ns = last.at_ns + last.delay_ns - first.at_ns - first.delay_ns;
        let alone = (last.arrived_bit - first.arrived_bit) * 1e9 > HELD_RATE * capacity * came_ns;
        alone
            && waited_ns > (HELD_WHOLE * (last.at_ns - first.at_ns)).max(HELD_WHOLE_NS)
            && own_ns < OWN_QUEUE * waited_ns
    }

    /// A policer drops what is too much and delays nothing. Then the rate that got through behind its bucket is the
    /// answer.
    pub(super) fn seems_policed(&mut self, observation: &Observation, points: &[Point]) -> bool {
        let Some(loss) = observation.loss() else { return false };
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
        if loss < 0.1 || points.len() < 8 {
            if self.stage == Stage::Police {
                self.near *= 2.0;
                self.spoiled += 1;
            }
            return self.stage == Stage::Police;
        }
        let highest = points.iter().map(|point| point.delay_ns).fold(f64::NEG_INFINITY, f64::max);
        let sent_ns = last.at_ns - first.at_ns;
        // A full queue would hold as much as a good part of the train.
        if highest - self.base_ns > 0.05 * sent_ns {
            return false;
        }
        // Behind the bucket the share that gets through is even: the second half of the train's time.
        let packets = || observation.packets.iter();
        let (Some(begin), Some(end)) = (packets().find_map(Packet::left), packets().rev().find_map(Packet::left))
        else {
            return false;
        };
        let half_ns = (end - begin).as_nanos() / 2;
        let packet_bit = f64::from(self.packet_byte) * 8.0;
        let through = |early: bool| {
            let inside = packets().filter(|packet| {
                packet.received.is_some()
                    && packet.left().is_some_and(|left| ((left - begin).as_nanos() < half_ns) == early)
            });
            inside.count() as f64 * packet_bit
        };
        // One packet at least: its share is what the time is too short to tell.
        let rate = through(false).max(packet_bit) * 1e9 / half_ns.max(1) as f64;
        let checked = self.stage == Stage::Police && rate > 0.4 * self.near;
        if !checked {
            // A train at a rate not far above it, for long enough, will tell.
            self.near = rate;
            self.stage = Stage::Police;
            return true;
        }
        self.bucket_byte = Some(((through(true) - through(false)) / 8.0).max(0.0));
        self.policed = Some(rate);
        self.notes.push(format!("packets above {:.4} Gbit/s are dropped and not delayed: a policer", rate / 1e9));
        true
    }

    /// A token bucket passes a train as it comes until it is empty; then the delay rises. Notes its depth.
    pub(super) fn see_bucket(&mut self, points: &[Point], capacity: f64) -> bool {
        let Some(last) = points.last() else { return false };
        let packet_bit = f64::from(self.packet_byte) * 8.0;
        let two_ns = 2.0 * packet_bit / capacity * 1e9;
        if last.delay_ns - self.base_ns < 2.0 * two_ns {
            return false;
        }
        let knee = points.partition_point(|point| point.delay_ns - self.base_ns < two_ns);
        let Some(&at) = points.get(knee) else { return false };
        // What the trains before took out of it, and what has flowed in since, count as well.
        let flat_bit = self.sent_before_bit + at.sent_bit - capacity * at.at_ns / 1e9 - packet_bit;
        let seen = knee >= 6 && flat_bit > 6.0 * packet_bit;
        if seen {
            self.bucket_byte = Some(flat_bit / 8.0);
        }
        seen
    }
}

/// Whether packets were lost where the delay was highest: a full queue, which loses cross traffic too, and then it
/// looks like less.
pub(super) fn overflows(observation: &Observation) -> bool {
    let delay = |packet: &Packet| Some(packet.received?.as_nanos() as f64 - packet.left()?.as_nanos() as f64);
    let mut sorted: Vec<f64> = observation.packets.iter().filter_map(delay).collect();
    sorted.sort_by(f64::total_cmp);
    let of = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let (low, high) = (of(0.1), of(0.98));
    let (mut last, mut ranks, mut at_top) = (None, Vec::new(), 0_usize);
    for packet in &observation.packets {
        match (packet.received, last) {
            (Some(_), _) => last = delay(packet),
            (None, Some(before)) => {
                ranks.push(sorted.partition_point(|&it| it < before) as f64 / sorted.len() as f64);
                at_top += usize::from(before > high - LOST_NEAR * (high - low));
            }
            (None, None) => {}
        }
    }
    let high_up = ranks.iter().sum::<f64>() / ranks.len() as f64 > LOST_HIGH;
    ranks.len() >= LOST_AT_LEAST && (high_up || at_top * 10 > ranks.len() * 7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, VtareSettings};

    /// A head of 20 packets at once, then 80 packets every 5 us; a packet waits so long, ns.
    fn train(delay_ns: impl Fn(u32) -> f64) -> Vec<Point> {
        let point = |index: u32| {
            let bits = f64::from(index + 1) * 12e3;
            let at_ns = f64::from(index.saturating_sub(19)) * 5_000.0;
            Point { index, at_ns, delay_ns: delay_ns(index), sent_bit: bits, arrived_bit: bits, call_bit: 12e3 }
        };
        (0..100).map(point).collect()
    }

    fn held_whole(points: &[Point]) -> bool {
        let mut method = Vtare::new(VtareSettings::default(), Setup::default());
        method.stage = Stage::Measure;
        (method.head, method.base_ns, method.near) = (20, 0.0, 2.4e9);
        // Packets leave 4 us apart what stalled: 3 Gbit/s.
        method.link = Some((3e9, 0.01));
        method.was_held_whole(points)
    }

    #[test]
    fn a_train_that_waited_longer_than_it_took_to_send_and_came_alone_was_held_up() {
        let came = |from_ns: f64| {
            move |index: u32| from_ns + f64::from(index) * 4_000.0 - f64::from(index.saturating_sub(19)) * 5_000.0
        };
        assert!(held_whole(&train(came(2e6))));
        // The head alone makes such a queue.
        assert!(!held_whole(&train(came(0.0))));
        // Cross traffic came between the packets: it may have filled the queue.
        assert!(!held_whole(&train(|index| 2e6 + 1_000.0 * f64::from(index))));
    }
}
