//! Trains that show something else than the available bandwidth: policers, token buckets, full queues, machines that
//! stalled. Pure functions of one train.

use vtare_units::{Monotonic, Timestamp};

use super::points::Point;
use super::tuning as t;
use crate::avb::{Observation, Packet, median};

/// What a train shows of a policer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dropped {
    /// Rate at which packets passed behind the first drop, bit/s; one packet at least, so at most a bound.
    pub(super) rate: f64,
    /// What passed before, bytes.
    pub(super) bucket_byte: f64,
}

/// A policer drops what is too much and delays nothing.
pub(super) fn policed(observation: &Observation, packet_bit: f64) -> Option<Dropped> {
    let delays = delays(observation);
    let passed = delays.iter().flatten().count();
    if observation.loss()? < t::FAR || passed < 2 || !losses_ignore_delay(observation) {
        return None;
    }
    let (lowest, highest) = delays
        .iter()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &it| (low.min(it), high.max(it)));
    let mut left = observation.packets.iter().filter_map(Packet::left);
    let all_ns = (left.next_back()? - left.next()?).as_nanos() as f64;
    // A full queue delays by a good part of the train: where few packets passed, by what two of them take to leave.
    let least_wait = (2.0 / passed as f64).clamp(t::FAR, 0.5) * all_ns;
    if highest - lowest > least_wait { None } else { dropped(observation, packet_bit) }
}

/// What passed before and behind the first drop of a train; `None` where there is none.
pub(super) fn dropped(observation: &Observation, packet_bit: f64) -> Option<Dropped> {
    let packets: Vec<&Packet> = observation.packets.iter().filter(|packet| packet.left().is_some()).collect();
    let first = packets.iter().position(|packet| packet.received.is_none())?;
    let behind = packets[first..].iter().filter(|packet| packet.received.is_some()).count().max(1);
    let ns = (packets.last()?.left()? - packets[first].left()?).as_nanos() as f64;
    let rate = behind as f64 * packet_bit * 1e9 / ns.max(1.0);
    Some(Dropped { rate, bucket_byte: first as f64 * packet_bit / 8.0 })
}

/// What passed before and behind the first drop of a burst that a slower link stretched before a policer dropped some
/// of it: losses that ignore the delay, and fewer arrivals than gaps show the link to carry, bit/s.
pub(super) fn policed_behind(observation: &Observation, packet_bit: f64, capacity: f64) -> Option<Dropped> {
    if observation.loss()? < t::FAR || !losses_ignore_delay(observation) {
        return None;
    }
    let first = observation.packets.iter().position(|packet| packet.left().is_some() && packet.received.is_none())?;
    let arrived = |packets: &[Packet]| packets.iter().filter_map(|packet| packet.received).collect::<Vec<_>>();
    let (before, behind) = (arrived(&observation.packets[..first]), arrived(&observation.packets[first..]));
    let ns = (*behind.last()? - *before.last()?).as_nanos() as f64;
    let rate = behind.len() as f64 * packet_bit * 1e9 / ns;
    let credit_byte = before.len() as f64 * packet_bit / 8.0 * (1.0 - rate / capacity);
    (ns > 0.0 && rate < (1.0 - t::FAR) * capacity).then_some(Dropped { rate, bucket_byte: credit_byte })
}

/// Whether the delay of packets behind the head grew by more than this share of the time, from the median of its first
/// fifth to that of its last: they wait in a queue.
pub(super) fn queues(observation: &Observation, head: u32) -> bool {
    let delays = delays(observation);
    let stream = observation.packets.iter().zip(&delays).skip(head as usize);
    let seen: Vec<_> = stream.filter_map(|(packet, delay)| Some((packet.left()?, (*delay)?))).collect();
    let fifth = seen.len() / (t::PARTS / 2);
    let middle = |part: &[(Timestamp<Monotonic>, f64)]| median(&part.iter().map(|it| it.1).collect::<Vec<_>>());
    let ends = seen.first().zip(seen.last()).filter(|_| fifth > 0);
    ends.is_some_and(|(first, last)| {
        let grew = middle(&seen[seen.len() - fifth..]).zip(middle(&seen[..fifth])).map(|(late, early)| late - early);
        grew.is_some_and(|grew| grew > t::LITTLE * (last.0 - first.0).as_nanos() as f64)
    })
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
    (knee >= t::FEW_PACKETS as usize && flat_bit > t::FEW_PACKETS * packet_bit).then_some(flat_bit / 8.0)
}

/// The delay of each packet, up to a constant, ns. Those that were handed over at once left one behind the other, as
/// fast as all of them did in the mean.
fn delays(observation: &Observation) -> Vec<Option<f64>> {
    let gap_ns = observation.sent_bit_per_s().map_or(0.0, |rate| f64::from(observation.train.size_byte) * 8e9 / rate);
    let (mut last, mut together) = (None, 0.0);
    let delay = |packet: &Packet| {
        let left = packet.left()?;
        together = if last == Some(left) { together + 1.0 } else { 0.0 };
        last = Some(left);
        Some(packet.received?.as_nanos() as f64 - left.as_nanos() as f64 - together * gap_ns)
    };
    observation.packets.iter().map(delay).collect()
}

/// The mean rank of the delays, 0 to 1, behind which packets were lost, and how many were; NaN for none.
fn losses(observation: &Observation) -> (f64, usize) {
    let delays = delays(observation);
    let mut sorted: Vec<f64> = delays.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let (mut last, mut ranks, mut count) = (None, 0.0, 0);
    for delay in delays {
        match (delay, last) {
            (Some(_), _) => last = delay,
            (None, Some(before)) => {
                ranks += sorted.partition_point(|&it| it < before) as f64 / sorted.len() as f64;
                count += 1;
            }
            (None, None) => {}
        }
    }
    (ranks / f64::from(count), count as usize)
}

/// Whether packets were lost where the delay was highest: a full queue, which loses cross traffic too, and then it
/// looks like less.
pub(super) fn overflows(observation: &Observation) -> bool {
    let (rank, count) = losses(observation);
    count >= t::LEAST_POINTS && rank > t::LOST_HIGH
}

/// Whether packets were lost behind high delays no more often than chance has it: no queue did that.
fn losses_ignore_delay(observation: &Observation) -> bool {
    let (rank, count) = losses(observation);
    //= standard deviation of the mean of uniform ranks
    rank < 0.5 + t::SIDES / (12.0 * count as f64).sqrt()
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
    let alone = (last.arrived_bit - first.arrived_bit) * 1e9 > (1.0 - t::FAR) * capacity * came_ns;
    alone && waited_ns > (last.at_ns - first.at_ns).max(t::HELD_NS) && own_ns < waited_ns
}
