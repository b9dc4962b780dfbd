use crate::avb::{Ability, Spacing, Train};

/// A measuring train: packets back to back that fill the queue, then an even stream that keeps it filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Bits to be put into the queue at once.
    pub(super) prime_bit: f64,
    /// Rate behind it, bit/s.
    pub(super) rate: f64,
    /// For how long, s.
    pub(super) seconds: f64,
    /// Rate at which packets sent back to back come to the tight link, bit/s. The stream begins when the head has come
    /// there: links before it hold nothing of the head any more.
    pub(super) inflow: f64,
    /// Groups are due so many call times one after the other, at least: [`ROOM`] or [`SHARED_ROOM`].
    pub(super) room: f64,
}

/// A group is due so many call times after the one before, at least: pacing needs room ...
pub(super) const ROOM: f64 = 1.5;

/// ... and more, where the sender's processor has the path's work to do as well.
pub(super) const SHARED_ROOM: f64 = 2.5;

/// ... and still more, where single sends show that it has: a call with more packets is less work for each.
pub(super) const CROWDED_ROOM: f64 = 8.0;

/// Packets that must leave in one call for this rate, bit/s.
pub(super) fn group(rate: f64, size_byte: u32, ability: &Ability, room: f64) -> u32 {
    let gap_ns = f64::from(size_byte) * 8e9 / rate;
    ((room * ability.least_gap_ns / gap_ns).ceil() as u32).clamp(1, ability.most_group.max(1))
}

/// The train, and how many packets of it are its head.
pub(super) fn train(wanted: &Wanted, size_byte: u32, ability: &Ability, most_byte: u64) -> (Train, u32) {
    let bytes = (wanted.rate * wanted.seconds + wanted.prime_bit) / 8.0;
    let bits = f64::from(size_byte) * 8.0;
    let rate = wanted.rate.min(ability.most_bit_per_s(size_byte) / ROOM);
    let gap_ns = bits * 1e9 / rate;
    let group = group(rate, size_byte, ability, wanted.room);
    // Rounding up may add a packet to the head and a group to the stream.
    let most_byte = most_byte.saturating_sub(u64::from(size_byte) * u64::from(group + 2));
    let shrink = (most_byte as f64 / bytes.max(1.0)).min(1.0);
    let most = ability.most_packets.max(2);
    // Where a train may not be as long as this one wants to be, its head is cut last: an empty queue shows nothing.
    let head = ((wanted.prime_bit * shrink / bits).ceil() as u32).clamp(1, (most / 2).max(1));
    let rest = ((rate * wanted.seconds * shrink / bits).round() as u32).max(6).min(most);
    let rest = rest.next_multiple_of(group).min(most - head);
    let after_ns =
        f64::from(head) * (bits * 1e9 / wanted.inflow).max(ability.least_gap_ns / f64::from(ability.most_group.max(1)));
    let spacing =
        Spacing::Primed { head, after_ns: after_ns.max(gap_ns), packets: group, gap_ns: gap_ns * f64::from(group) };
    (Train { packets: head + rest, size_byte, spacing, idle_before_ns: 0 }, head)
}
