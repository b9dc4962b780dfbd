use super::points::{Point, median};
use super::tuning as t;
use crate::avb::Observation;

/// The link that forms the queue, as back-to-back packets show it: neighbours that had nothing between them leave it at
/// its capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    /// Time per bit between neighbours that were sent back to back, ns, sorted.
    per_bit_ns: Vec<f64>,
    /// Packets of all those neighbours.
    packets: f64,
    /// Highest rate at which back-to-back packets arrived, bit/s.
    arrived: f64,
    /// Packets that were handed over with the one before, at a stamp of their own, and all packets.
    clumped: (f64, f64),
    /// Bits of the longest back-to-back train behind the packets that came first together, and the time in which they
    /// came, ns.
    longest: (f64, f64),
    /// Rates at which stretches of trains came that had been sent much faster, bit/s: the fastest of each train.
    stretches: Vec<f64>,
    /// Bits that came first together, beyond a packet: what a token bucket passes at once, and what is to be sent
    /// before there is a queue.
    credit_bit: f64,
}

/// Packets that arrived together, within `clump_ns` of each other: when the last of them left, its stamp, ns, and their
/// bits; NaN bits where a packet is missing.
fn groups(observation: &Observation, head: usize, clump_ns: u64) -> Vec<(u64, u64, f64)> {
    let packets = &observation.packets[..head.min(observation.packets.len())];
    let mut groups: Vec<(u64, u64, f64)> = Vec::new();
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
            groups.push((0, 0, f64::NAN));
            continue;
        };
        let bits = f64::from(packet.size_byte) * 8.0;
        match groups.last_mut() {
            // Handed over together: their bits came by that time.
            Some(last) if !last.2.is_nan() && received.as_nanos().saturating_sub(last.1) <= clump_ns => {
                *last = (left.as_nanos(), last.1.max(received.as_nanos()), last.2 + bits);
            }
            _ => groups.push((left.as_nanos(), received.as_nanos(), bits)),
        }
    }
    groups
}

/// The rate at which the first `head` packets arrived, bit/s, by those that no later one overtook; `None` where they
/// have fewer than `least` different stamps.
pub(super) fn arrival_rate(observation: &Observation, head: usize, least: usize) -> Option<f64> {
    let groups: Vec<_> = groups(observation, head, 0).into_iter().filter(|group| !group.2.is_nan()).collect();
    let (first, last) = (groups.first()?, groups.last()?);
    let bits: f64 = groups[1..].iter().map(|group| group.2).sum();
    (groups.len() >= least && last.1 > first.1).then(|| bits * 1e9 / (last.1 - first.1) as f64)
}

/// The highest rate at which a stretch of a train arrived that took so long, ns, bit/s; not of its start, which a token
/// bucket may pass.
pub(super) fn fastest(observation: &Observation, least_ns: u64) -> Option<f64> {
    let groups: Vec<_> =
        groups(observation, observation.packets.len(), 0).into_iter().filter(|group| !group.2.is_nan()).collect();
    let mut until = 0;
    let mut sums = vec![0.0];
    sums.extend(groups.iter().scan(0.0, |sum, group| {
        *sum += group.2;
        Some(*sum)
    }));
    let stretches = groups.iter().enumerate().skip(groups.len() / 8).filter_map(|(from, first)| {
        while until < groups.len() && groups[until].1 < first.1 + least_ns {
            until += 1;
        }
        let last = groups.get(until)?;
        Some((sums[until + 1] - sums[from + 1]) * 1e9 / (last.1 - first.1) as f64)
    });
    stretches.max_by(f64::total_cmp)
}

impl Capacity {
    /// Takes the neighbours that left faster than they arrived.
    pub(super) fn add(&mut self, observation: &Observation, head: usize) {
        self.arrived = self.arrived.max(arrival_rate(observation, head, t::RATE_STAMPS).unwrap_or(0.0));
        let bits = f64::from(observation.train.size_byte) * 8.0;
        let clump_ns = if self.arrived > 0.0 { bits * 1e9 / (t::CLUMPED * self.arrived) } else { 0.0 };
        let each = groups(observation, head, 0).len() as f64;
        let groups = groups(observation, head, clump_ns as u64);
        self.clumped.0 += each - groups.len() as f64;
        self.clumped.1 += each;
        self.see_whole(&groups, bits);
        let packet_bit = f64::from(observation.train.size_byte) * 8.0;
        for pair in groups.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if before.2.is_nan() || after.2.is_nan() || after.1 <= before.1 {
                continue;
            }
            let apart_ns = (after.1 - before.1) as f64;
            if (after.0.saturating_sub(before.0) as f64) < 0.9 * apart_ns {
                self.per_bit_ns.push(apart_ns / after.2);
                self.packets += after.2 / packet_bit;
            }
        }
        self.per_bit_ns.sort_by(f64::total_cmp);
    }

    /// Takes a train whose packets came at its link's rate as a whole.
    fn see_whole(&mut self, groups: &[(u64, u64, f64)], packet_bit: f64) {
        let whole = groups.iter().all(|group| !group.2.is_nan());
        let [first, .., last] = groups else { return };
        let came_ns = last.1.saturating_sub(first.1) as f64;
        let bits: f64 = groups[1..].iter().map(|group| group.2).sum();
        // What a token bucket passes at once is in the first clump.
        if whole && bits > self.longest.0 && (last.0.saturating_sub(first.0) as f64) < 0.9 * came_ns {
            self.longest = (bits, came_ns);
            self.credit_bit = (first.2 - packet_bit).max(0.0);
        }
    }

    /// Takes the fastest stretch of a train that shows the link's rate.
    pub(super) fn see_stretch(&mut self, points: &[Point], packet_bit: f64) {
        let came_ns = |point: &Point| point.at_ns + point.delay_ns;
        let stretches = points.iter().enumerate().filter_map(|(place, first)| {
            let rest = &points[place..];
            let long = rest.partition_point(|it| it.arrived_bit - first.arrived_bit < t::STRETCH_PACKETS * packet_bit);
            let last = rest.get(long.max(t::STRETCH_POINTS))?;
            let (sent_ns, seconds) = (last.at_ns - first.at_ns, (came_ns(last) - came_ns(first)) / 1e9);
            let told = seconds > 0.0 && sent_ns / 1e9 < t::STRETCH_SENT * seconds;
            told.then(|| (last.arrived_bit - first.arrived_bit) / seconds)
        });
        self.stretches.extend(stretches.max_by(f64::total_cmp));
    }

    /// What passes before there is a queue, bits; 0 where packets come one by one.
    pub(super) fn credit_bit(&self) -> f64 {
        if self.clumps() { self.credit_bit } else { 0.0 }
    }

    /// Whether gaps are those of a hand-over.
    pub(super) fn clumps(&self) -> bool {
        self.clumped.0 > t::CLUMPED_SHARE * self.clumped.1 && self.longest.1 > 0.0
    }

    /// Capacity, bit/s, and its standard error as a share of it; `None` below 3 pairs.
    pub(super) fn estimate(&self) -> Option<(f64, f64)> {
        if self.clumps() {
            return Some(match self.stretches.len() {
                0 => (self.longest.0 * 1e9 / self.longest.1, t::CLUMPED_ERROR),
                1 => (self.stretches[0], t::STRETCH_ERROR),
                _ => (median(&mut self.stretches.clone()), t::STRETCHES_ERROR),
            });
        }
        if self.per_bit_ns.len() < 3 {
            return None;
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
        let coarse = if self.packets > t::COARSE * pairs { t::COARSE_ERROR } else { 0.0 };
        // Where the place holds few of the pairs, another one may be the link.
        let doubt = 0.2 / pairs * (1.0 - n / pairs);
        Some((1e9 / mean, (variance / n).sqrt() + doubt + coarse))
    }
}

/// Of several dense places the lowest: above it packets had cross traffic between them, and under high load most have.
fn lowest_mode(sorted: &[f64]) -> f64 {
    let mut mode = half_sample_mode(sorted);
    loop {
        let below = &sorted[..sorted.partition_point(|&it| it < t::MODE_CLEAR * mode)];
        if below.len() < 3 || (below.len() as f64) < t::MODE_LEAST_PART * sorted.len() as f64 {
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
        };
        Observation {
            train: crate::avb::Train::back_to_back(packets as u32, 1500),
            packets: (0..packets).map(packet).collect(),
            finished: Timestamp::from_nanos(0),
            receiver_drops: None,
            duplicates: Some(0),
        }
    }

    #[test]
    fn a_timer_that_lets_packets_go_together_does_not_make_the_link_faster() {
        for clump in [1, 3, 6] {
            let mut capacity = Capacity::default();
            capacity.add(&let_go(48, clump), 48);
            let (found, error) = capacity.estimate().expect("pairs");
            assert!((found / 1e9 - 1.0).abs() < 0.05, "{clump}: {found} {error}");
            assert_eq!(error >= t::CLUMPED_ERROR, clump > 1, "{clump}: {error}");
        }
    }

    /// Points 60 us apart in arrival at 1 Gbit/s, five packets each, of which the first `fast` were sent at ten times
    /// that rate, the others slower, since cross traffic doubled their time.
    fn arrived(fast: u32, all: u32) -> Vec<Point> {
        let point = |i: u32| {
            let (at, slow) = (f64::from(i.min(fast)), f64::from(i.saturating_sub(fast)));
            let at_ns = at * 6_000.0 + slow * 120_000.0;
            let came_ns = 100_000.0 + at * 60_000.0 + slow * 120_000.0;
            let bits = f64::from(i * 5) * 12e3;
            Point { index: i * 5, at_ns, delay_ns: came_ns - at_ns, sent_bit: bits, arrived_bit: bits, call_bit: 12e3 }
        };
        (0..all).map(point).collect()
    }

    #[test]
    fn a_stretch_that_was_sent_much_faster_than_it_came_shows_a_link_whose_packets_come_in_clumps() {
        let mut capacity = Capacity::default();
        capacity.add(&let_go(48, 6), 48);
        // What was sent slowly may have had anything between it, and a short stretch is as long as a clump.
        for points in [arrived(0, 60), arrived(20, 60), arrived(20, 21)] {
            capacity.see_stretch(&points, 12e3);
            assert_eq!(capacity.estimate().expect("clumps").1, t::CLUMPED_ERROR);
        }
        for error in [t::STRETCH_ERROR, t::STRETCHES_ERROR] {
            capacity.see_stretch(&arrived(40, 60), 12e3);
            let (found, stated) = capacity.estimate().expect("a stretch");
            assert!((found / 1e9 - 1.0).abs() < 0.01, "{found}");
            assert_eq!(stated, error);
        }
    }

    #[test]
    fn the_fastest_stretch_is_as_long_as_it_is_asked_to_be() {
        let mut seen = let_go(48, 1);
        assert!((fastest(&seen, 100_000).expect("it took longer") / 1e9 - 1.0).abs() < 1e-9);
        assert_eq!(fastest(&seen, 1_000_000), None);
        // The first half came at half the rate.
        for (packet, at) in seen.packets.iter_mut().zip((0_u64..).map(|i| i * 24_000 - i.saturating_sub(24) * 12_000)) {
            packet.received = Some(Timestamp::from_nanos(at));
        }
        assert!((fastest(&seen, 200_000).expect("half") / 1e9 - 1.0).abs() < 0.01);
        assert!(fastest(&seen, 500_000).expect("more than half") < 0.8e9);
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
