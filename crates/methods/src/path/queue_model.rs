//! The queue of the path under any load, computed from the cross traffic that the trains saw: pure functions.
//!
//! Between two probes `T` apart a queue that does not run empty sends for `T` and holds `w2 - w1` more at the end
//! (waits, in time of the link). What came is both together; without the first probe, which takes `p`, that is the
//! cross traffic:
//!
//! ```text
//! x = T + w2 - w1 - p                                                                                     (1)
//! ```
//!
//! Where it may have been empty for `E`, `x` is less by the part of `E` in which nothing crossed. A probe that found no
//! room found a full queue. All pairs of probes together are a record of the cross traffic. With it a queue of the same
//! depth is computed that probes at any share of what that record leaves free use as well: parts of it drawn at random
//! (a moving block bootstrap) follow each other for as long as the queue needs to be as it is in the long run.
//!
//! A train at that rate would have to last for thousands of packets to show the same, since near the full load a queue
//! moves slowly, and its rate would be wrong by what the estimate of the free bandwidth is wrong.
//= Lindley 1952, The theory of queues with a single server; Kuensch 1989, the jackknife and the bootstrap for
//= general stationary observations

use vtare_units::Random;

use super::trace::Trace;
use super::tuning::ModelTuning;
use crate::avb::quantile;

/// Slots of a drawn record at most.
const MOST_SLOTS: usize = 300_000;
/// Rounds in which the share of time without cross traffic is found.
const ROUNDS: u32 = 20;
/// What of the draws is in the interval.
const INTERVAL: (f64, f64) = (0.025, 0.975);
/// How many times more of a train may be lost, or empty, until there are enough pairs.
const ALLOWANCES: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// The stretches, in parts of the record, between which the growth of bursts is taken.
const STRETCHES: (f64, f64) = (64.0, 8.0);

/// A time between two probes, and what others sent in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slot {
    ns: f64,
    /// What the link takes to send it, ns.
    work_ns: f64,
}

/// The link, and the queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// What the link takes for a probe, ns.
    pub(super) packet_ns: f64,
    /// Wait in a full queue, ns; infinite where it is not known.
    pub(super) depth_ns: f64,
    /// What passes at once when nothing came for long, in time of the link, ns: a token bucket.
    pub(super) credit_ns: f64,
}

/// The record of the cross traffic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cross {
    slots: Vec<Slot>,
    link: Link,
    tuning: ModelTuning,
}

/// Waits of probes at one load, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Waits {
    pub(super) median_ns: f64,
    pub(super) p95_ns: f64,
    /// Where the median lies.
    pub(super) interval_ns: [f64; 2],
}

impl Cross {
    /// What the trains show; `None` where that is too little.
    pub(super) fn seen(trains: &[(&Trace, Vec<Option<f64>>)], link: Link, tuning: ModelTuning) -> Option<Self> {
        let packet_ns = link.packet_ns;
        let lost = |trace: &Trace| {
            let lost = trace.probes.iter().filter(|probe| probe.received_ns.is_none()).count();
            if trace.overrun { f64::INFINITY } else { lost as f64 / trace.probes.len().max(1) as f64 }
        };
        let shares: Vec<(f64, f64)> =
            trains.iter().map(|(trace, waits)| (lost(trace), empty_share(trace, waits, packet_ns))).collect();
        let allowed = ALLOWANCES.iter().flat_map(|empty| ALLOWANCES.map(|lost| (*empty, lost)));
        for (more_empty, more_lost) in allowed {
            let (most_empty, most_lost) = (more_empty * tuning.most_empty, more_lost * tuning.most_lost);
            let good = || {
                let fit = trains.iter().zip(&shares).filter(|(_, it)| it.0 <= most_lost && it.1 <= most_empty);
                fit.map(|(train, _)| train)
            };
            let (mut idle_share, mut slots) = (0.5, Vec::new());
            for _ in 0..ROUNDS {
                let model = Pairs { link, idle_share, tuning };
                slots = good().flat_map(|(trace, waits)| model.of(trace, waits)).collect();
                idle_share = free_share(&slots);
            }
            let cross = Self { slots, link, tuning };
            if cross.slots.len() as f64 >= tuning.least && cross.span_ns() >= tuning.least * packet_ns {
                return Some(cross);
            }
        }
        None
    }

    /// Share of the link's time that the cross traffic leaves free.
    pub(super) fn free_share(&self) -> f64 {
        free_share(&self.slots)
    }

    fn span_ns(&self) -> f64 {
        self.slots.iter().map(|slot| slot.ns).sum()
    }

    /// Variance of what comes in stretches of this length, over their length, ns.
    fn dispersion(&self, length_ns: f64) -> f64 {
        let (mut sums, mut left_ns) = (vec![0.0], length_ns);
        for slot in &self.slots {
            let mut ns = slot.ns;
            while ns > 0.0 {
                let taken = ns.min(left_ns);
                if let Some(sum) = sums.last_mut() {
                    *sum += slot.work_ns * taken / slot.ns;
                }
                (ns, left_ns) = (ns - taken, left_ns - taken);
                if left_ns <= 0.0 {
                    sums.push(0.0);
                    left_ns = length_ns;
                }
            }
        }
        // The last one is not whole.
        sums.pop();
        let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        let squares: f64 = sums.iter().map(|sum| (sum - mean).powi(2)).sum();
        squares / (sums.len().max(2) - 1) as f64 / length_ns
    }

    /// What the link takes for a packet of the cross traffic, ns: packets that come at random have a dispersion of one
    /// of them for each that the link carries.
    fn grain_ns(&self) -> f64 {
        let load = (1.0 - self.free_share()).max(f64::MIN_POSITIVE);
        let grain_ns = self.dispersion(self.tuning.grain_stretch * self.link.packet_ns) / load;
        if grain_ns.is_finite() {
            grain_ns.clamp(self.tuning.least_grain * self.link.packet_ns, self.link.packet_ns)
        } else {
            self.link.packet_ns
        }
    }

    /// How the dispersion grows with the length of stretches: 0 where bursts are short, as Poisson's are; the variance
    /// of stretches `t` long grows as `t^(1 + growth)`.
    //= Leland et al. 1994, On the self-similar nature of Ethernet traffic: variance-time plots, growth = 2 H - 1
    fn growth(&self) -> f64 {
        let [short, long] = [STRETCHES.0, STRETCHES.1].map(|parts| self.dispersion(self.span_ns() / parts));
        let growth = (long / short).ln() / (STRETCHES.0 / STRETCHES.1).ln();
        if growth.is_finite() { growth } else { 0.0 }
    }

    /// A growth that the record may stand for.
    fn growth_draw(&self, growth: f64, random: &mut Random) -> f64 {
        // As good as normal.
        let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        (growth + self.tuning.growth_error * normal).clamp(0.0, self.tuning.most_growth)
    }

    fn draws(&self) -> usize {
        self.tuning.draws as usize
    }

    /// Where the share that is free lies: that of as many parts as are independent of each other.
    pub(super) fn free_interval(&self, random: &mut Random) -> [f64; 2] {
        let (growth, parts) = (self.growth(), self.tuning.parts_interval);
        let shares: Vec<f64> = (0..self.draws())
            .map(|_| {
                let span_ns = self.span_ns() * parts.powf(-self.growth_draw(growth, random));
                free_share(&drawn(&self.slots, self.span_ns() / parts, 1, span_ns, random))
            })
            .collect();
        let end = |at: f64| quantile(&shares, at).unwrap_or(f64::NAN);
        [end(INTERVAL.0).min(self.free_share()), end(INTERVAL.1).max(self.free_share())]
    }

    /// What probes wait that take `share` of what is free.
    pub(super) fn waits(&self, share: f64, random: &mut Random) -> Option<Waits> {
        let gap_ns = |free: f64| self.link.packet_ns / (share * free);
        let (span_ns, tuning) = (self.span_ns(), &self.tuning);
        let free = self.free_share();
        let long = drawn(&self.slots, span_ns / tuning.parts, 1, tuning.probes * gap_ns(free), random);
        let waits = self.queue(&long, gap_ns(free_share(&long)), share, random);
        let (median_ns, p95_ns) = (quantile(&waits, 0.5)?, quantile(&waits, 0.95)?);
        let part_ns = span_ns / tuning.parts_interval;
        let growth = self.growth();
        let medians: Vec<f64> = (0..self.draws())
            .filter_map(|_| {
                let record = drawn(&self.slots, part_ns, 1, span_ns, random);
                // Bursts as long as the record are seen once or not at all: parts follow themselves as often as makes
                // the dispersion what it is in the long run.
                let times = (tuning.long_run * self.link.packet_ns / part_ns)
                    .max(1.0)
                    .powf(self.growth_draw(growth, random))
                    .round()
                    .max(1.0);
                let gap_ns = gap_ns(free_share(&record));
                let long = drawn(&record, part_ns, times as usize, tuning.probes_interval * gap_ns, random);
                quantile(&self.queue(&long, gap_ns, share, random), 0.5)
            })
            .collect();
        let (low, high) = (quantile(&medians, INTERVAL.0)?, quantile(&medians, INTERVAL.1)?);
        Some(Waits { median_ns, p95_ns, interval_ns: [low.min(median_ns), high.max(median_ns)] })
    }

    /// Waits of probes this far apart beside these slots; those that found no room are not among them.
    fn queue(&self, slots: &[Slot], gap_ns: f64, share: f64, random: &mut Random) -> Vec<f64> {
        let Link { packet_ns, depth_ns, credit_ns } = self.link;
        // Below 0 it is the credit of a token bucket.
        let mut queued = if share > 1.0 && depth_ns.is_finite() { depth_ns } else { -credit_ns };
        let (mut waits, mut next, mut others) = (Vec::new(), 0.0, Vec::new());
        let grain_ns = self.grain_ns();
        for slot in slots {
            // Packets of the usual size, somewhere in the slot.
            let packets = (slot.work_ns / grain_ns).ceil();
            others.clear();
            others.extend((0..packets as usize).map(|_| slot.ns * random.unit()));
            others.sort_by(f64::total_cmp);
            let (mut now, mut of) = (0.0, others.iter().copied().peekable());
            loop {
                let other = of.peek().copied().unwrap_or(f64::INFINITY);
                let at = other.min(next);
                if at >= slot.ns {
                    break;
                }
                queued = f64::max(queued - (at - now), -credit_ns);
                now = at;
                let probes = next <= other;
                let work = if probes { packet_ns } else { slot.work_ns / packets };
                let fits = queued <= 0.0 || queued + work <= depth_ns;
                if probes {
                    waits.extend(fits.then_some(queued.max(0.0)));
                    next += gap_ns;
                } else {
                    of.next();
                }
                queued += if fits { work } else { 0.0 };
            }
            queued = f64::max(queued - (slot.ns - now), -credit_ns);
            next -= slot.ns;
        }
        waits.drain(..(self.tuning.warm_up * waits.len() as f64) as usize);
        waits
    }
}

/// Share of a train's time for which the queue may have been empty.
fn empty_share(trace: &Trace, waits: &[Option<f64>], packet_ns: f64) -> f64 {
    let (mut all_ns, mut empty_ns, mut before) = (0.0, 0.0, None);
    for (probe, wait) in trace.probes.iter().zip(waits) {
        if let (Some((sent_ns, left_ns)), Some(_)) = (before, wait) {
            let ns: f64 = probe.sent_ns - sent_ns;
            all_ns += ns;
            empty_ns += f64::max(ns - left_ns, 0.0);
        }
        before = wait.map(|wait| (probe.sent_ns, wait + packet_ns));
    }
    if all_ns > 0.0 { empty_ns / all_ns } else { 0.0 }
}

/// What the times between the packets of a train are made with.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    link: Link,
    /// This share of the time that the queue may have been empty for it was.
    idle_share: f64,
    tuning: ModelTuning,
}

impl Pairs {
    /// The times between the packets of a train, by equation (1).
    fn of(&self, trace: &Trace, waits: &[Option<f64>]) -> Vec<Slot> {
        let Self { link: Link { packet_ns, depth_ns, .. }, idle_share, ref tuning } = *self;
        let (mut slots, mut open) = (Vec::new(), Slot::default());
        // When the packet before was sent, and what was queued behind it; and the wait of the last that arrived.
        let (mut before, mut last_ns): (Option<(f64, f64)>, f64) = (None, 0.0);
        for (probe, wait) in trace.probes.iter().zip(waits) {
            let (wait_ns, own_ns) = match (wait, probe.received_ns) {
                (Some(wait), Some(_)) => {
                    last_ns = *wait;
                    (*wait, packet_ns)
                }
                (None, None) if !probe.stalled && last_ns > tuning.full_share * depth_ns => {
                    (depth_ns - 0.5 * packet_ns, 0.0)
                }
                _ => {
                    before = None;
                    continue;
                }
            };
            if let Some((sent_ns, left_ns)) = before {
                let ns = probe.sent_ns - sent_ns;
                let most = ns + wait_ns - left_ns;
                let idle_ns = idle_share * (ns - left_ns).max(0.0);
                open.ns += ns;
                open.work_ns += if idle_ns > 0.0 { (most - idle_ns).max(wait_ns.min(most)) } else { most };
                // Packets sent in one call have no time between them.
                let is_long = open.ns >= tuning.least_slot * packet_ns;
                if is_long && (open.work_ns >= 0.0 || open.ns >= tuning.most_empty_slot * packet_ns) {
                    slots.push(Slot { work_ns: open.work_ns.max(0.0), ..open });
                    open = Slot::default();
                }
            }
            before = Some((probe.sent_ns, wait_ns + own_ns));
        }
        slots
    }
}

fn free_share(slots: &[Slot]) -> f64 {
    let (ns, work_ns) = slots.iter().fold((0.0, 0.0), |sum, slot| (sum.0 + slot.ns, sum.1 + slot.work_ns));
    if ns > 0.0 { (1.0 - work_ns / ns).clamp(0.01, 1.0) } else { 1.0 }
}

/// Parts of `part_ns` that begin anywhere, each `times` over, until they last for `span_ns`.
fn drawn(slots: &[Slot], part_ns: f64, times: usize, span_ns: f64, random: &mut Random) -> Vec<Slot> {
    let mut ends: Vec<f64> = slots.iter().map(|slot| slot.ns).collect();
    (1..ends.len()).for_each(|index| ends[index] += ends[index - 1]);
    let all_ns = ends.last().copied().unwrap_or(0.0);
    let (mut out, mut taken_ns) = (Vec::new(), 0.0);
    while taken_ns < span_ns && out.len() < MOST_SLOTS {
        let at = random.unit() * all_ns;
        let start = ends.partition_point(|end| *end < at).min(slots.len() - 1);
        let (from, mut part) = (out.len(), 0.0);
        for slot in slots[start..].iter().chain(&slots[..start]) {
            out.push(*slot);
            part += slot.ns;
            if part >= part_ns {
                break;
            }
        }
        taken_ns += times as f64 * part;
        let to = out.len();
        (1..times).for_each(|_| out.extend_from_within(from..to));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::trace::{hand::trace, waits_ns};
    use super::*;

    const PACKET_NS: f64 = 1e6;

    fn seen(trains: &[(&Trace, Vec<Option<f64>>)]) -> Option<Cross> {
        let link = Link { packet_ns: PACKET_NS, depth_ns: f64::INFINITY, credit_ns: 0.0 };
        Cross::seen(trains, link, ModelTuning::SET)
    }

    /// Cross traffic of Poisson at this share of the link, in slots of half a packet.
    fn poisson(load: f64, slots: usize) -> Cross {
        poisson_of(1, load, slots)
    }

    fn poisson_of(seed: u64, load: f64, slots: usize) -> Cross {
        let mut random = Random::new(seed);
        let mut next = random.exponential(PACKET_NS / load);
        let slot = |index: usize| {
            let end = (index + 1) as f64 * 0.5 * PACKET_NS;
            let mut work_ns = 0.0;
            while next < end {
                work_ns += PACKET_NS;
                next += random.exponential(PACKET_NS / load);
            }
            Slot { ns: 0.5 * PACKET_NS, work_ns }
        };
        Cross {
            slots: (0..slots).map(slot).collect(),
            link: Link { packet_ns: PACKET_NS, depth_ns: 50.0 * PACKET_NS, credit_ns: 0.0 },
            tuning: ModelTuning::SET,
        }
    }

    #[test]
    fn the_mean_wait_of_few_probes_in_poisson_traffic_is_that_of_the_formula() {
        let cross = poisson(0.5, 200_000);
        let waits = cross.queue(&cross.slots, 200.0 * PACKET_NS, 0.01, &mut Random::new(2));
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        //= Pollaczek and Khinchine: load times service time over 2 (1 - load), for constant sizes
        assert!((mean / (0.505 * PACKET_NS) - 1.0).abs() < 0.15, "{mean}");
    }

    #[test]
    fn the_credit_of_a_token_bucket_carries_bursts() {
        let cross = poisson(0.5, 20_000);
        let median_ns = |credit_ns: f64| {
            let cross = Cross { link: Link { credit_ns, ..cross.link }, ..cross.clone() };
            cross.waits(0.9, &mut Random::new(2)).expect("enough slots").median_ns
        };
        let (without, with) = (median_ns(0.0), median_ns(2.0 * PACKET_NS));
        // The same queue, 2 packets shorter.
        assert!((without - with - 2.0 * PACKET_NS).abs() < 0.1 * PACKET_NS, "{without} {with}");
        assert_eq!(median_ns(40.0 * PACKET_NS), 0.0);
    }

    #[test]
    fn nothing_waits_beside_no_cross_traffic_until_more_is_sent_than_the_link_carries() {
        let slots = vec![Slot { ns: PACKET_NS, work_ns: 0.0 }; 500];
        let cross = Cross {
            slots,
            link: Link { depth_ns: 20.0 * PACKET_NS, ..poisson(0.5, 1).link },
            tuning: ModelTuning::SET,
        };
        let waits = [0.5, 0.9, 1.1].map(|share| cross.waits(share, &mut Random::new(3)).expect("enough slots"));
        assert_eq!(cross.free_interval(&mut Random::new(3)), [1.0, 1.0]);
        assert!(waits[0].median_ns < 1.0 && waits[1].median_ns < 1.0, "{waits:?}");
        assert!((waits[2].median_ns / PACKET_NS - 19.0).abs() < 1.0, "{waits:?}");
    }

    #[test]
    fn a_busy_queue_shows_what_came_between_two_probes_and_an_idle_one_bounds() {
        // Sent every 2 ms; each takes 1 ms. The second finds 2 ms queued: 3 ms came beside the first packet.
        let trace = trace(&[(0.0, Some(1.5e6)), (2e6, Some(2.5e6)), (8e6, Some(0.0)), (10e6, Some(0.0))]);
        let waits = waits_ns(&trace, 0.0);
        let pairs = Pairs {
            link: Link { depth_ns: f64::INFINITY, ..poisson(0.5, 1).link },
            idle_share: 1.0,
            tuning: ModelTuning::SET,
        };
        let slots = pairs.of(&trace, &waits);
        let work: Vec<f64> = slots.iter().map(|slot| slot.work_ns).collect();
        // From the packet before all, 1 ms earlier, to the first: what it found.
        assert_eq!(work, [1.5e6, 2e6, 0.0, 0.0], "an empty queue is found: nothing came while it was empty");
    }

    #[test]
    fn an_idle_path_whose_rate_is_taken_for_a_little_less_is_all_free() {
        // Packets take 1 % less than is assumed.
        let packets: Vec<(f64, Option<f64>)> = (0..600).map(|n| (f64::from(n) * 0.99e6, Some(3e6))).collect();
        let trace = trace(&packets);
        let cross = seen(&[(&trace, waits_ns(&trace, 0.0))]).expect("enough slots");
        assert!(cross.free_share() > 0.99, "{}", cross.free_share());
    }

    #[test]
    fn trains_that_lost_much_and_too_few_packets_show_nothing() {
        let packets: Vec<(f64, Option<f64>)> = (0..200).map(|n| (f64::from(n) * 2e6, Some(5e5))).collect();
        let good = trace(&packets);
        let waits = waits_ns(&good, 0.0);
        let cross = seen(&[(&good, waits.clone())]).expect("enough");
        // The queue may be empty for 0.5 ms of 2 ms: for that times the share that is free, 1 - (1 - 0.5 s)/2 = s.
        assert!((cross.free_share() - 2.0 / 3.0).abs() < 0.01, "{}", cross.free_share());
        let overrun = Trace { overrun: true, ..good.clone() };
        assert_eq!(seen(&[(&overrun, waits)]), None);
        let few = trace(&packets[..20]);
        assert_eq!(seen(&[(&few, waits_ns(&few, 0.0))]), None);
    }

    #[test]
    fn a_train_that_found_the_queue_empty_is_left_out_where_others_held_it_filled() {
        // Half of the link crosses; the light train sends every 4 ms, and cross traffic comes in its silence.
        let held: Vec<(f64, Option<f64>)> = (0..300).map(|n| (f64::from(n) * 2e6, Some(9e6))).collect();
        let light: Vec<(f64, Option<f64>)> = (0..300).map(|n| (f64::from(n) * 4e6, Some(0.0))).collect();
        let [held, light] = [trace(&held), trace(&light)];
        let cross = seen(&[(&held, waits_ns(&held, 0.0)), (&light, waits_ns(&light, 0.0))]).expect("enough pairs");
        assert!((cross.free_share() - 0.5).abs() < 0.02, "{}", cross.free_share());
    }

    #[test]
    fn bursts_of_poisson_traffic_do_not_grow_and_those_of_long_phases_do() {
        // The growth of one record has an error of 0.26: 8 stretches show the longer dispersion. So the mean of 40.
        let growths: Vec<f64> = (1..=40).map(|seed| poisson_of(seed, 0.5, 20_000).growth()).collect();
        let mean = growths.iter().sum::<f64>() / 40.0;
        assert!(mean.abs() < 0.2, "{mean}: {growths:?}");
        let even = poisson(0.5, 20_000);
        // Two of the eight stretches in each phase.
        let phase = |index: usize| if (index / 5_000).is_multiple_of(2) { 0.1 } else { 0.9 };
        let slots = (0..20_000).map(|index| Slot { ns: PACKET_NS, work_ns: phase(index) * PACKET_NS }).collect();
        let long = Cross { slots, ..even };
        assert!(long.growth() > 0.5, "{}", long.growth());
    }

    #[test]
    fn the_interval_of_bursty_traffic_is_wider_than_that_of_even_traffic() {
        let even = Cross { slots: vec![Slot { ns: PACKET_NS, work_ns: 0.5 * PACKET_NS }; 500], ..poisson(0.5, 1) };
        let width = |cross: &Cross| {
            let waits = cross.waits(0.9, &mut Random::new(4)).expect("enough slots");
            waits.interval_ns[1] - waits.interval_ns[0]
        };
        assert!(width(&poisson(0.5, 1_000)) > 3.0 * width(&even));
    }
}
