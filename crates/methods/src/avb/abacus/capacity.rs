use super::tuning as t;
use crate::avb::{Observation, median};

/// The link that forms the queue, as back-to-back packets show it: neighbours that had nothing between them leave it at
/// its capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    /// Time per bit between neighbours that were sent back to back, ns, sorted.
    per_bit_ns: Vec<f64>,
    /// Bits of a packet.
    packet_bit: f64,
    /// Packets of all those neighbours.
    packets: f64,
    /// Highest rate at which back-to-back packets arrived, bit/s.
    arrived: f64,
    /// Packets that were handed over with the one before, at a stamp of their own, and all packets.
    clumped: (f64, f64),
    /// Bits of back-to-back packets behind those that passed a token bucket, and the time in which they came, ns.
    tails: (f64, f64),
    /// The longest of those behind packets that did pass one, likewise.
    emptied: (f64, f64),
    /// Bits that came first together, beyond a packet: what a token bucket passes at once, and what is to be sent
    /// before there is a queue.
    credit_bit: f64,
}

/// Packets that arrived together.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// When the last of them left.
    left_ns: u64,
    /// Its stamp.
    at_ns: u64,
    /// Of all of them; NaN where a packet is missing.
    bits: f64,
}

/// Packets that arrived within `clump_ns` of each other.
fn groups(observation: &Observation, head: usize, clump_ns: u64) -> Vec<Group> {
    let packets = &observation.packets[..head.min(observation.packets.len())];
    let mut groups: Vec<Group> = Vec::new();
    // The earliest arrival of all that were sent later: what comes behind it was overtaken.
    let mut earliest = vec![None; packets.len() + 1];
    for (index, packet) in packets.iter().enumerate().rev() {
        let later = earliest[index + 1];
        earliest[index] = packet.received.map_or(later, |received| Some(later.map_or(received, |at| received.min(at))));
    }
    for (packet, later) in packets.iter().zip(&earliest[1..]) {
        let overtaken = packet.received.zip(*later).is_some_and(|(received, later)| received > later);
        let (Some(left), Some(received), false) = (packet.left(), packet.received, overtaken) else {
            // Behind a gap in the train nothing is back to back.
            groups.push(Group { left_ns: 0, at_ns: 0, bits: f64::NAN });
            continue;
        };
        let bits = f64::from(packet.size_byte) * 8.0;
        match groups.last_mut() {
            // Handed over together: their bits came by that time.
            Some(last) if !last.bits.is_nan() && received.as_nanos().saturating_sub(last.at_ns) <= clump_ns => {
                let at_ns = last.at_ns.max(received.as_nanos());
                *last = Group { left_ns: left.as_nanos(), at_ns, bits: last.bits + bits };
            }
            _ => groups.push(Group { left_ns: left.as_nanos(), at_ns: received.as_nanos(), bits }),
        }
    }
    groups
}

/// The packets that arrived, each by its stamp.
fn arrived(observation: &Observation, head: usize) -> Vec<Group> {
    let mut groups = groups(observation, head, 0);
    groups.retain(|group| !group.bits.is_nan());
    groups
}

/// The bits up to and with each group.
fn sums(groups: &[Group]) -> Vec<f64> {
    let add = |sum: &mut f64, group: &Group| {
        *sum += group.bits;
        Some(*sum)
    };
    groups.iter().scan(0.0, add).collect()
}

/// The rate at which the first `head` packets arrived, bit/s, by those that no later one overtook; `None` where they
/// have fewer than `least` different stamps.
pub(super) fn arrival_rate(observation: &Observation, head: usize, least: usize) -> Option<f64> {
    let groups = arrived(observation, head);
    let (first, last) = (groups.first()?, groups.last()?);
    let bits: f64 = groups[1..].iter().map(|group| group.bits).sum();
    (groups.len() >= least && last.at_ns > first.at_ns).then(|| bits * 1e9 / (last.at_ns - first.at_ns) as f64)
}

/// What came of packets sent back to back behind what a token bucket let through at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tail {
    /// Packets that passed at once: they show the line before the bucket, and not the link.
    pub(super) credit: usize,
    /// Bits behind them, and the time in which those came, ns.
    pub(super) bits: f64,
    pub(super) ns: f64,
}

impl Tail {
    /// The rate of the link, bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bits * 1e9 / self.ns
    }
}

/// The first `head` packets, apart at the last place up to which hardly any queue grew although they came much faster
/// than the last of them did.
pub(super) fn tail(observation: &Observation, head: usize) -> Option<Tail> {
    let groups = arrived(observation, head);
    let (first, last) = (groups.first()?, groups.last()?);
    let sums = sums(&groups);
    let sum = *sums.last()?;
    // The last of them come at the link's rate, whatever the bucket holds.
    let late = groups.len() - (groups.len() / t::MORE as usize).max(t::LEAST_POINTS).min(groups.len() / 2);
    let late = late.min(groups.len() - 1);
    let (since, all) = ((last.at_ns - groups[late].at_ns) as f64, (last.at_ns - first.at_ns) as f64);
    let per_bit_ns = since / (sum - sums[late]);
    let passed = |place: &usize| {
        let bits = sums[*place] - first.bits;
        let came_ns = (groups[*place].at_ns - first.at_ns) as f64;
        let delay_ns = came_ns - groups[*place].left_ns.saturating_sub(first.left_ns) as f64;
        let least_ns = bits * per_bit_ns;
        delay_ns < t::CREDIT * least_ns && came_ns < (1.0 - t::CREDIT) * least_ns
    };
    let place = (t::FEW_PACKETS as usize..groups.len()).rev().find(passed).unwrap_or(0);
    let ns = all - (groups[place].at_ns - first.at_ns) as f64;
    let packet_bit = f64::from(observation.train.size_byte) * 8.0;
    let credit = if place > 0 { (sums[place] / packet_bit).round() as usize } else { 0 };
    (ns > 0.0).then(|| Tail { credit, bits: sum - sums[place], ns })
}

/// The rate at which half of the stretches of a train arrived that took so long, ns, and the others did not, bit/s; not
/// of its first half, which a token bucket may pass.
pub(super) fn sustained(observation: &Observation, least_ns: u64) -> Option<f64> {
    let groups = arrived(observation, observation.packets.len());
    let mut until = 0;
    let sums = sums(&groups);
    let rates: Vec<f64> = groups
        .iter()
        .enumerate()
        .skip(groups.len() / 2)
        .filter_map(|(from, first)| {
            while until < groups.len() && groups[until].at_ns < first.at_ns + least_ns {
                until += 1;
            }
            let last = groups.get(until)?;
            Some((sums[until] - sums[from]) * 1e9 / (last.at_ns - first.at_ns) as f64)
        })
        .collect();
    median(&rates)
}

impl Capacity {
    /// Takes the neighbours that left faster than they arrived.
    pub(super) fn add(&mut self, observation: &Observation, head: usize) {
        let Some(tail) = tail(observation, head) else { return };
        let packet_bit = f64::from(observation.train.size_byte) * 8.0;
        self.packet_bit = packet_bit;
        if tail.bits >= t::LEAST_POINTS as f64 * packet_bit {
            self.arrived = self.arrived.max(tail.rate());
            self.tails.0 += tail.bits;
            self.tails.1 += tail.ns;
            if tail.credit > 0 && tail.bits > self.emptied.0 {
                self.emptied = (tail.bits, tail.ns);
            }
        }
        let clump_ns = if self.arrived > 0.0 { packet_bit * 1e9 / (t::CLUMPED * self.arrived) } else { 0.0 };
        let behind = |clump_ns: u64| {
            let mut left = tail.credit as f64 * packet_bit;
            let mut groups = groups(observation, head, clump_ns);
            groups.retain(|group| {
                left -= if group.bits.is_nan() { packet_bit } else { group.bits };
                left < 0.0
            });
            groups
        };
        let each = behind(0).len() as f64;
        let groups = behind(clump_ns as u64);
        self.clumped.0 += each - groups.len() as f64;
        self.clumped.1 += each;
        self.credit_bit = self.credit_bit.max(groups.first().map_or(0.0, |first| first.bits - packet_bit));
        for pair in groups.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if before.bits.is_nan() || after.bits.is_nan() || after.at_ns <= before.at_ns {
                continue;
            }
            let apart_ns = (after.at_ns - before.at_ns) as f64;
            if (after.left_ns.saturating_sub(before.left_ns) as f64) < (1.0 - t::FAR) * apart_ns {
                self.per_bit_ns.push(apart_ns / after.bits);
                self.packets += after.bits / packet_bit;
            }
        }
        self.per_bit_ns.sort_by(f64::total_cmp);
    }

    /// The rate at which packets sent back to back came behind those that passed a token bucket, bit/s, and its
    /// standard error as a share of it: the link is no slower, and no more than that was free meanwhile.
    pub(super) fn behind_bucket(&self) -> Option<(f64, f64)> {
        let packets = self.emptied.0 / self.packet_bit;
        (packets >= t::TAIL_PACKETS).then(|| (self.emptied.0 * 1e9 / self.emptied.1, t::FEW_PACKETS / packets))
    }

    /// What passes before there is a queue, bits; 0 where packets come one by one.
    pub(super) fn credit_bit(&self) -> f64 {
        if self.clumps() { self.credit_bit } else { 0.0 }
    }

    /// Whether gaps are those of a hand-over.
    pub(super) fn clumps(&self) -> bool {
        self.clumped.0 > t::CLUMPED_SHARE * self.clumped.1 && self.tails.1 > 0.0
    }

    /// Capacity, bit/s, and its standard error as a share of it; `None` below 3 pairs.
    pub(super) fn estimate(&self) -> Option<(f64, f64)> {
        if self.clumps() {
            // A clump of a few packets more or less at either end.
            let packets = self.tails.0 / self.packet_bit;
            return Some((self.tails.0 * 1e9 / self.tails.1, t::CAPACITY_ERROR + t::FEW_PACKETS / packets));
        }
        // Gaps of what a bucket passed are among the others.
        let behind = self.behind_bucket().map(|(rate, error)| (rate, error + t::SCATTERED_ERROR));
        if self.per_bit_ns.len() <= 2 {
            return behind;
        }
        let mode = lowest_mode(&self.per_bit_ns);
        let near: Vec<f64> =
            self.per_bit_ns.iter().copied().filter(|it| (it / mode - 1.0).abs() < t::MODE_NEAR).collect();
        if near.is_empty() {
            // The densest place is two gaps that have nothing to do with each other.
            return Some((1e9 / mode, t::SCATTERED_ERROR));
        }
        let n = near.len() as f64;
        let mean = near.iter().sum::<f64>() / n;
        let variance = near.iter().map(|it| (it / mean - 1.0).powi(2)).sum::<f64>() / n;
        let pairs = self.per_bit_ns.len() as f64;
        // Stamps shared by many packets: cross traffic is between all of them, and the link is faster than it seems.
        let coarse = if self.packets > t::CLUMPED * pairs { t::SCATTERED_ERROR } else { 0.0 };
        if coarse > 0.0 && behind.is_some() {
            return behind;
        }
        // Where the place holds few of the pairs, another one may be the link.
        let doubt = t::SCATTERED_ERROR / pairs * (1.0 - n / pairs);
        Some((1e9 / mean, (variance / n).sqrt() + doubt + coarse))
    }
}

/// Of several dense places the lowest: above it packets had cross traffic between them, and under high load most have.
fn lowest_mode(sorted: &[f64]) -> f64 {
    let mut mode = half_sample_mode(sorted);
    loop {
        let below = &sorted[..sorted.partition_point(|&it| it < t::MODE_CLEAR * mode)];
        if below.len() <= 2 || (below.len() as f64) < t::MODE_LEAST_PART * sorted.len() as f64 {
            return mode;
        }
        let lower = half_sample_mode(below);
        // Compressed gaps lie anywhere; those of a link lie together.
        let near = below.iter().filter(|it| (*it / lower - 1.0).abs() < t::MODE_NEAR / 2.0).count();
        if near * 2 < below.len() {
            return mode;
        }
        mode = lower;
    }
}

/// The densest place of sorted values.
//= Bickel & Fruehwirth 2006, On a fast, robust estimator of the mode
fn half_sample_mode(sorted: &[f64]) -> f64 {
    let mut part = sorted;
    while part.len() > 2 {
        let half = part.len().div_ceil(2);
        // The earliest of equally dense halves: what lies above the capacity's gap holds cross traffic.
        let begin = (0..=part.len() - half)
            .min_by(|&a, &b| (part[a + half - 1] - part[a]).total_cmp(&(part[b + half - 1] - part[b])))
            .unwrap_or(0);
        part = &part[begin..begin + half];
    }
    part.iter().sum::<f64>() / part.len() as f64
}

#[cfg(test)]
mod tests {
    use vtare_units::Timestamp;

    use super::*;

    /// Packets of 1500 B that left at once over 1 Gbit/s, through a timer that lets `clump` of them go together, 200 ns
    /// apart.
    fn let_go(packets: u64, clump: u64) -> Observation {
        let at = |i: u64| (i / clump + 1) * clump * 12_000 + (i % clump) * 200;
        let packet = |i: u64| crate::avb::Packet {
            scheduled: Timestamp::from_nanos(0),
            sent: Some(Timestamp::from_nanos(0)),
            kernel_sent: None,
            received: Some(Timestamp::from_nanos(at(i))),
            place: Some(i as u32),
            size_byte: 1500,
            call: 0,
            group: None,
            descheduled: false,
            ecn: None,
        };
        Observation {
            train: crate::avb::Train::back_to_back(packets as u32, 1500),
            packets: (0..packets).map(packet).collect(),
            finished: Timestamp::from_nanos(0),
            receiver_drops: None,
        }
    }

    #[test]
    fn a_timer_that_lets_packets_go_together_does_not_make_the_link_faster() {
        for clump in [1, 3, 6] {
            let mut capacity = Capacity::default();
            capacity.add(&let_go(48, clump), 48);
            let (found, error) = capacity.estimate().expect("pairs");
            assert!((found / 1e9 - 1.0).abs() < 0.05, "{clump}: {found} {error}");
            assert_eq!(error >= t::CAPACITY_ERROR, clump > 1, "{clump}: {error}");
        }
    }

    #[test]
    fn the_sustained_rate_is_that_of_stretches_of_the_second_half() {
        let mut seen = let_go(48, 1);
        assert!((sustained(&seen, 100_000).expect("it took longer") / 1e9 - 1.0).abs() < 1e-9);
        assert_eq!(sustained(&seen, 1_000_000), None);
        // A token bucket passed the first half at three times the rate; one pause is between the others.
        for (packet, at) in seen.packets.iter_mut().zip((0_u64..).map(|i| match i {
            0..24 => i * 4_000,
            24..40 => 24 * 4_000 + (i - 24) * 12_000,
            _ => 24 * 4_000 + (i - 24) * 12_000 + 100_000,
        })) {
            packet.received = Some(Timestamp::from_nanos(at));
        }
        assert!((sustained(&seen, 40_000).expect("half") / 1e9 - 1.0).abs() < 0.01);
    }

    #[test]
    fn gaps_of_which_no_two_are_alike_are_a_poor_capacity_and_not_none() {
        let capacity = Capacity { per_bit_ns: vec![1.0, 2.0, 4.0], packets: 3.0, ..Capacity::default() };
        let (found, error) = capacity.estimate().expect("pairs");
        assert!(found > 2e8 && found < 1e9 && error >= t::SCATTERED_ERROR, "{found} {error}");
    }

    #[test]
    fn the_mode_is_the_densest_place_and_not_the_middle() {
        assert_eq!(half_sample_mode(&[1.0, 1.0, 1.0, 2.0, 3.0, 3.5, 5.0]), 1.0);
    }

    #[test]
    fn under_high_load_the_lower_of_two_dense_places_is_the_link() {
        let mut gaps = vec![2.0; 20];
        gaps.extend([1.0, 1.01, 0.99]);
        gaps.sort_by(f64::total_cmp);
        assert!((lowest_mode(&gaps) - 1.0).abs() < 0.02);
        // Three compressed gaps at different places are no link.
        let mut gaps = vec![2.0; 20];
        gaps.extend([0.1, 0.5, 1.2]);
        gaps.sort_by(f64::total_cmp);
        assert_eq!(lowest_mode(&gaps), 2.0);
    }
}
