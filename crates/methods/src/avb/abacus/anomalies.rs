//! Trains that show something else than the available bandwidth: policers, token buckets, full queues, machines that
//! stalled. Pure functions of one train.

use super::points::Point;
use super::tuning as t;
use crate::avb::{Observation, Packet};

/// A policer drops what is too much and delays nothing: what arrived of the second half of the train's time, bit/s, and
/// what the first half had more than the second, bytes, if the train met one.
pub(super) fn policed(
    observation: &Observation,
    points: &[Point],
    base_ns: f64,
    packet_bit: f64,
) -> Option<(f64, f64)> {
    let (first, last) = (points.first()?, points.last()?);
    if observation.loss()? < 0.1 || points.len() < 3 {
        return None;
    }
    let highest = points.iter().map(|point| point.delay_ns).fold(f64::NEG_INFINITY, f64::max);
    // A full queue would hold as much as a good part of the train, or lose where it delays most.
    if highest - base_ns > 0.05 * (last.at_ns - first.at_ns) || !losses_ignore_delay(observation) {
        return None;
    }
    let packets = || observation.packets.iter();
    let (begin, end) = (packets().find_map(Packet::left)?, packets().rev().find_map(Packet::left)?);
    let half_ns = (end - begin).as_nanos() / 2;
    let bits = |early: bool| {
        let inside = packets().filter(|packet| {
            packet.received.is_some()
                && packet.left().is_some_and(|left| ((left - begin).as_nanos() < half_ns) == early)
        });
        inside.count() as f64 * packet_bit
    };
    // One packet at least: its share is what the time is too short to show.
    let rate = bits(false).max(packet_bit) * 1e9 / half_ns.max(1) as f64;
    Some((rate, ((bits(true) - bits(false)) / 8.0).max(0.0)))
}

/// A token bucket passes a train as it comes until it is empty; then the delay rises. Its depth, bytes;
/// `sent_before_bit` is what trains before took out of it.
pub(super) fn bucket_byte(
    points: &[Point],
    base_ns: f64,
    capacity: f64,
    packet_bit: f64,
    sent_before_bit: f64,
) -> Option<f64> {
    let last = points.last()?;
    let two_ns = 2.0 * packet_bit / capacity * 1e9;
    if last.delay_ns - base_ns < 2.0 * two_ns {
        return None;
    }
    let knee = points.partition_point(|point| point.delay_ns - base_ns < two_ns);
    let at = points.get(knee)?;
    // What has flowed in since counts as well.
    let flat_bit = sent_before_bit + at.sent_bit - capacity * at.at_ns / 1e9 - packet_bit;
    (knee >= 6 && flat_bit > 6.0 * packet_bit).then_some(flat_bit / 8.0)
}

/// Ranks of the delays, 0 to 1, behind which packets were lost, and how many of those were next to the highest.
fn losses(observation: &Observation) -> (Vec<f64>, usize) {
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
                at_top += usize::from(before > high - t::LOST_NEAR * (high - low));
            }
            (None, None) => {}
        }
    }
    (ranks, at_top)
}

fn mean(ranks: &[f64]) -> f64 {
    ranks.iter().sum::<f64>() / ranks.len() as f64
}

/// Whether packets were lost where the delay was highest: a full queue, which loses cross traffic too, and then it
/// looks like less.
pub(super) fn overflows(observation: &Observation) -> bool {
    let (ranks, at_top) = losses(observation);
    ranks.len() >= t::LOST_AT_LEAST && (mean(&ranks) > t::LOST_HIGH || at_top * 10 > ranks.len() * 7)
}

/// Whether packets were lost behind high delays no more often than chance has it (three standard deviations of the mean
/// of uniform ranks): no queue did that.
fn losses_ignore_delay(observation: &Observation) -> bool {
    let (ranks, _) = losses(observation);
    mean(&ranks) < 0.5 + 3.0 / (12.0 * ranks.len() as f64).sqrt()
}

/// Whether most of the time that a train took to leave passed between two of its packets.
pub(super) fn stalled(observation: &Observation) -> bool {
    let left: Vec<_> = observation.packets.iter().filter_map(Packet::left).collect();
    let longest = left.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).max();
    let all = left.first().zip(left.last()).map(|(&first, &last)| (last - first).as_nanos());
    longest.zip(all).is_some_and(|(longest, all)| left.len() > 2 && longest * 2 > all)
}

/// Whether a stream was delayed as a whole behind the link by something that stalled, and then came as fast as that
/// lets packets go: it looks like one on a faster link. All of it waited for longer than it took to send, it is not the
/// probes that filled the queue so (`drained_ns` of it was left by the train before), and the cross traffic that would
/// have filled it is not between them.
pub(super) fn held_whole(stream: &[Point], base_ns: f64, capacity: f64, drained_ns: f64) -> bool {
    let (Some(first), Some(last)) = (stream.first(), stream.last()) else { return false };
    let waited_ns = stream.iter().map(|point| point.delay_ns).fold(f64::INFINITY, f64::min) - base_ns;
    let own_ns = first.sent_bit / capacity * 1e9 + drained_ns.max(0.0);
    let came_ns = last.at_ns + last.delay_ns - first.at_ns - first.delay_ns;
    let alone = (last.arrived_bit - first.arrived_bit) * 1e9 > t::HELD_RATE * capacity * came_ns;
    alone
        && waited_ns > (t::HELD_WHOLE * (last.at_ns - first.at_ns)).max(t::HELD_WHOLE_NS)
        && own_ns < t::OWN_QUEUE * waited_ns
}
