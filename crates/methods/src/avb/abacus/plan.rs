//! What is sent next: a pure function of what is known and of what may be spent.

use super::evidence::{Evidence, History};
use super::settings::AbacusSettings;
use super::tuning as t;
use crate::avb::{Ability, Spacing, Train};

/// An account of this part of a train is all of it: its ends lie in the first and the last of the parts.
pub(super) const fn long() -> f64 {
    1.0 - 2.0 / t::PARTS as f64
}

/// What may still be spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Bits of this method's own that are in the queue of the tight link already; below 0: what a token bucket passes
    /// before there is one.
    pub(super) queued_bit: f64,
}

/// Packets that must leave in one call for this rate, bit/s.
pub(crate) fn group(rate: f64, size_byte: u32, ability: &Ability) -> u32 {
    let gap_ns = f64::from(size_byte) * 8e9 / rate;
    ((t::ROOM * ability.least_gap_ns / gap_ns).ceil() as u32).clamp(1, ability.most_group.max(1))
}

/// Time that a train shall take behind its head, s.
pub(super) fn seconds(
    evidence: &Evidence,
    history: &History,
    settings: &AbacusSettings,
    ability: &Ability,
    measures: bool,
    left: &Left,
) -> f64 {
    let packet_bit = evidence.path.packet_bit;
    let near = evidence.near.max(t::LITTLE * evidence.path.capacity);
    let group = f64::from(group(near, (packet_bit / 8.0) as u32, ability));
    // A point is an arrival with a stamp of its own: the last of a call, or of those that share a stamp.
    let point_s = (group * packet_bit / near).max(history.grain_s);
    let last = evidence.readings.last().map(|it| it.whole);
    if !measures {
        return (f64::from(settings.search_points) * point_s).max(settings.least_search_ns as f64 / 1e9);
    }
    let least = (settings.least_train_ns as f64 / 1e9).min(settings.least_train_byte as f64 * 8.0 / near);
    let least = least.max(f64::from(settings.points) * point_s);
    // As long as bursts ask for, and as long as makes the interval narrow.
    let bursts = evidence.burst / (settings.burst_share * near).powi(2);
    let wanted = evidence.answer().map_or(0.0, |(answer, _)| {
        let ratio = answer.width() / (settings.interval_share * answer.value()).max(1.0);
        let lasting = last.map_or(0.0, |last| last.seconds());
        // A link before a token bucket has the queue until the bucket is empty, and looks like the tight one.
        let sure = (settings.sure_train_ns as f64 / 1e9).min(settings.sure_train_byte as f64 * 8.0 / near);
        let narrow = if history.longest_s < long() * sure { sure } else { 0.0 };
        if ratio <= 1.0 { narrow } else { lasting * (t::ROOM * ratio).min(t::LONGER) }
    });
    // A train at a wrong rate is lost as a whole: step by step.
    let wrong = evidence.drained > 0 || evidence.astray;
    let (share, longer) = if wrong { (t::REST_SHARE, t::LONGER) } else { (t::LAST_SHARE, f64::INFINITY) };
    let most = longer * last.map_or(f64::INFINITY, |last| last.seconds().max(settings.least_search_ns as f64 / 1e9));
    let most_s = settings.most_train_ns as f64 / 1e9;
    let paid = (share * left.bytes as f64 * 8.0 / near).min(t::LAST_SHARE * share * left.seconds);
    bursts.max(wanted).min(most_s).max(least).min(most.max(least)).min(paid)
}

/// A train whose head fills the queue to what the cross traffic may drain in its time, and whose stream holds it; and
/// how many packets are its head.
pub(super) fn primed(
    evidence: &Evidence,
    history: &History,
    ability: &Ability,
    seconds: f64,
    measures: bool,
    left: &Left,
) -> (Train, u32) {
    let path = &evidence.path;
    let size_byte = (path.packet_bit / 8.0) as u32;
    let near = evidence.near.max(t::LITTLE * path.capacity);
    let group = group(near, size_byte, ability);
    let clumps_bit = history.bucket_byte.map_or(history.capacity.credit_bit(), |_| 0.0);
    let held = evidence.prime * (evidence.burst * seconds).sqrt()
        + path.capacity * (history.grain_s + t::BLUR * path.others_ns(path.dispersion) / 1e9)
        + clumps_bit
        + (t::FEW_PACKETS + f64::from(2 * (group - 1))) * path.packet_bit;
    let held =
        held.min(t::MOST_QUEUE_S * path.capacity).min(evidence.room_bit).min(t::REST_SHARE * left.bytes as f64 * 8.0);
    // A link before the tight one may stretch the head to its own capacity, and the tight link sends on meanwhile.
    let inflow = evidence.inflow(history);
    let kept = 1.0 - near / inflow;
    let needed = (held - left.queued_bit).max(0.0);
    let prime_bit = needed / kept.max(t::LEAST_KEPT);
    let prime_bit =
        prime_bit.min(t::REST_SHARE * left.seconds.max(0.0) * inflow).min(t::REST_SHARE * left.bytes as f64 * 8.0);
    let margin = if measures { t::LITTLE } else { t::FAR };
    // A queue that ran empty is filled faster by as much as the value changes from train to train.
    let swing = f64::from(evidence.drained) * (evidence.burst / seconds).sqrt();
    // Where hardly anything of a head is kept, the stream fills the queue.
    let fill = (needed - prime_bit * kept).max(0.0) / seconds;
    let rate = (near * (1.0 + margin) + swing + fill - (left.queued_bit - held).max(0.0) / seconds)
        .min(t::OUTGROWN * path.capacity)
        .max(0.5 * near);
    train(prime_bit, rate, seconds + t::SETTLE * prime_bit / path.capacity, inflow, size_byte, ability, left.bytes)
}

/// A train whose head has `prime_bit`, and whose stream at `rate` lasts `seconds`.
pub(super) fn train(
    prime_bit: f64,
    rate: f64,
    seconds: f64,
    inflow: f64,
    size_byte: u32,
    ability: &Ability,
    most_byte: u64,
) -> (Train, u32) {
    let bytes = (rate * seconds + prime_bit) / 8.0;
    let bits = f64::from(size_byte) * 8.0;
    let rate = rate.min(ability.most_bit_per_s(size_byte) / t::ROOM);
    let gap_ns = bits * 1e9 / rate;
    let group = group(rate, size_byte, ability);
    // Rounding up may add a packet to the head and a group to the stream.
    let most_byte = most_byte.saturating_sub(u64::from(size_byte) * u64::from(group + 2));
    let shrink = (most_byte as f64 / bytes.max(1.0)).min(1.0);
    let most = ability.most_packets.max(2);
    // Where a train may not be as long as this one wants to be, its head is cut last: an empty queue shows nothing.
    let head = ((prime_bit * shrink / bits).ceil() as u32).clamp(1, (most / 2).max(1));
    let rest = ((rate * seconds * shrink / bits).round() as u32).max(t::LEAST_POINTS as u32).min(most);
    let rest = rest.next_multiple_of(group).min(most - head);
    let after_ns =
        f64::from(head) * (bits * 1e9 / inflow).max(ability.least_gap_ns / f64::from(ability.most_group.max(1)));
    let spacing =
        Spacing::Primed { head, after_ns: after_ns.max(gap_ns), packets: group, gap_ns: gap_ns * f64::from(group) };
    (Train { packets: head + rest, size_byte, spacing, idle_before_ns: 0 }, head)
}

/// The train with a stream whose packets leave at random times.
pub(super) fn scattered(train: Train, seed: u64) -> Train {
    let Spacing::Primed { head, after_ns, packets, gap_ns } = train.spacing else { return train };
    Train { spacing: Spacing::Scattered { head, after_ns, packets, gap_ns, seed }, ..train }
}
