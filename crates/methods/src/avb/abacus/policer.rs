//! What a policer leaves free: it drops what is too much and delays nothing.
//!
//! A policer of rate `P` with an empty bucket passes `P` of probes at a rate `R` and cross traffic `X` together, of
//! which it drops `R + X - P`. Whose packets those are is chance, and depends on how they come. With `p` and `c` the
//! shares of the probes and of the cross traffic that pass, and `w` their odds ratio,
//!
//! ```text
//! R p + X c = P        p/(1 - p) = w c/(1 - c)        A = P - X, 0 <= A <= P                     (3)
//! ```
//!
//! Evenly spaced probes have a `w` of 0.05 to 50: they fall into step with the bucket, or with even cross traffic.
//! Probes at random times (Poisson's) have 1 beside random cross traffic, and `1 - EVEN X/P` beside even one, which
//! finds the bucket filled more often than they do. Nearer to `A` there are fewer drops, and whose they are matters
//! less; too near, a bucket that runs full is wasted: the smaller the bucket, the farther from it.
//!
//! By a share `u` of `P`: arrivals at a rate `r P` in clumps of `d` packets find the bucket of `B` packets full where
//! they leave a gap that is long enough,
//!
//! ```text
//! u = (r - 1)/max(r, 1) / (exp(y (B - 1/2)/d) - 1)        y = r (1 - exp(-y))                           (4)
//! ```
//!
//! with the exponent of ruin theory (Lundberg's equation): income without an end, claims of one packet. `P (1 - u)` is
//! what (3) shares out.
//!
//! Each train begins with a head that empties the bucket, and counts from one drop to another: there the bucket is
//! empty, so what passed in between is what flowed in, to a packet. Trains at four times `P` show `P`, those near to
//! `A` show `A`. All together give each `P`, `A` and kind of cross traffic a probability.

use super::tight::CELLS;
use super::tuning as t;
use crate::avb::{Observation, Packet, Spacing};

/// One train behind its head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policed {
    /// Rate at which it was sent, bit/s.
    pub(super) rate: f64,
    /// Packets sent, and those that passed.
    pub(super) sent: f64,
    pub(super) passed: f64,
    /// Packets that were sent together.
    pub(super) together: f64,
}

/// What all trains show, bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Free {
    /// What is free: the median, and 95 %.
    pub(super) value: f64,
    pub(super) interval: [f64; 2],
    /// The policer's rate.
    pub(super) policer: f64,
}

/// How cross traffic may come.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// By how much probes' odds to pass are lower, times `X/P`.
    even: f64,
    /// Variance of the number of packets in a time, over its mean.
    dispersion: f64,
}

/// Evenly, at random, in bursts, in long ones.
const fn kinds() -> [Kind; 4] {
    [
        Kind { even: t::POLICE_EVEN, dispersion: 0.0 },
        Kind { even: 0.0, dispersion: 1.0 },
        Kind { even: 0.0, dispersion: t::POLICE_BURSTY },
        Kind { even: 0.0, dispersion: t::POLICE_BURSTY * t::POLICE_BURSTY },
    ]
}

/// How fast what is left unused grows rarer with the depth of the bucket: `y` of (4), for arrivals at this rate, in
/// rates of the policer.
fn steepness(rate: f64) -> f64 {
    // From the root of the first two terms; two of Newton's steps.
    let mut steep = 2.0 * (rate - 1.0) / rate.min(2.0);
    for _ in 0..2 {
        let rest = (-steep).exp();
        steep -= (steep + rate * (rest - 1.0)) / (1.0 - rate * rest);
    }
    steep
}

/// The share of the policer's rate that a bucket of this number of packets leaves unused because it is full: (4), for
/// arrivals at this rate, in rates of the policer, in clumps of this number of packets.
fn unused(rate: f64, steep: f64, clump: f64, bucket: f64) -> f64 {
    let excess = rate - 1.0;
    if excess.abs() < 1e-3 {
        return clump / (2.0 * bucket);
    }
    excess / rate.max(1.0) / (steep * (bucket - 0.5) / clump.max(1e-3)).exp_m1()
}

/// A train beside a policer and what crosses, bit/s.
struct Beside<'t> {
    train: &'t Policed,
    policer: f64,
    crossing: f64,
    bucket: f64,
    /// Of all that comes, and of the train alone, in rates of the policer.
    all: (f64, f64),
    alone: f64,
}

impl<'t> Beside<'t> {
    fn new(train: &'t Policed, policer: f64, crossing: f64, bucket: f64) -> Self {
        let [all, own] = [train.rate + crossing, train.rate].map(|rate| (rate / policer, steepness(rate / policer)));
        Self { train, policer, crossing, bucket, all, alone: unused(own.0, own.1, train.together, bucket) }
    }

    /// How far the share of the probes that passed is from the one by (3) and (4), in standard errors, squared; and
    /// twice the logarithm of that error.
    fn misfit(&self, kind: Kind) -> [f64; 2] {
        let &Self { train, policer, crossing, bucket, .. } = self;
        let clump = (train.rate * train.together + crossing * kind.dispersion) / (train.rate + crossing);
        // What crosses fills gaps and leaves less unused, however it comes.
        let unused = unused(self.all.0, self.all.1, clump, bucket).min(self.alone);
        let used = policer * (1.0 - unused);
        let over = train.rate + crossing - used;
        let expected = if over > 0.0 {
            // (3) as a quadratic equation for c/(1 - c).
            let odds = (1.0 - kind.even * crossing / policer).max(t::LITTLE);
            let linear = (odds * train.rate + crossing - used * (1.0 + odds)) / 2.0;
            let root = (linear * linear + odds * over * used).sqrt();
            let cross = if linear > 0.0 { used / (linear + root) } else { (root - linear) / (odds * over) };
            odds * cross / (1.0 + odds * cross)
        } else {
            1.0
        };
        // What passes of probes and cross traffic together is fixed by the policer; which of them it is, is chance.
        let crossed = crossing / (train.rate + crossing);
        let chance = crossed * expected * (1.0 - expected) / train.sent * train.together;
        // What crosses in the train's time differs from what does in all of the time.
        let crosses = crossing / train.rate * train.sent;
        let varies = (expected * crossed).powi(2) * kind.dispersion / crosses.max(1.0);
        let model = expected * t::POLICE_BURSTS.hypot(t::POLICE_WASTE * unused);
        let error = (chance + varies + train.sent.powi(-2) + model.powi(2)).sqrt();
        [((train.passed / train.sent - expected) / error).powi(2), 2.0 * error.ln()]
    }
}

/// A train as a policer let it through, without its head: from its first drop to its last one, or all of it where it
/// has fewer than two; `None` for too few packets.
pub(super) fn through(observation: &Observation, head: u32) -> Option<Policed> {
    let behind = observation.packets.iter().skip(head as usize);
    let mut stream: Vec<&Packet> = behind.filter(|packet| packet.left().is_some()).collect();
    let drop = |packet: &&Packet| packet.received.is_none();
    if let (Some(first), Some(last)) = (stream.iter().position(drop), stream.iter().rposition(drop))
        && first < last
    {
        stream.truncate(last + 1);
        stream.drain(..first);
    }
    let left = |packet: Option<&&Packet>| packet.and_then(|it| it.left());
    let (begin, end) = (left(stream.first())?, left(stream.last())?);
    // The first one is where the count begins.
    let sent = stream.len() as f64 - 1.0;
    let seconds = (end - begin).as_nanos() as f64 / 1e9;
    let bits = f64::from(observation.train.size_byte) * 8.0;
    let together = match observation.train.spacing {
        Spacing::Scattered { packets, .. } => f64::from(packets),
        _ => 1.0,
    };
    let passed = stream[1..].iter().filter(|packet| packet.received.is_some()).count() as f64;
    (sent >= t::FEW_PACKETS && seconds > 0.0).then(|| Policed { rate: sent * bits / seconds, sent, passed, together })
}

/// What is free by these trains; `None` where nothing passed.
pub(super) fn free(trains: &[Policed], bucket: f64) -> Option<Free> {
    let most = trains.iter().map(|it| it.rate * it.passed / it.sent).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let cells = CELLS;
    let share = |number: usize| number as f64 / (cells - 1) as f64;
    let policers = (0..cells).map(|number| most * (1.0 - t::FAR) * (1.0 + t::POLICE_HEAVY).powf(share(number)));
    let all = policers.flat_map(|policer| (0..cells).map(move |number| (policer, share(number) * policer)));
    let misfits: Vec<(f64, f64, [f64; 2])> = all
        .flat_map(|(policer, free)| misfits(trains, policer, free, bucket.max(1.0)).map(|it| (policer, free, it)))
        .collect();
    let of = |&[square, error]: &[f64; 2], bursts: f64| square / bursts + error;
    let best = misfits.iter().map(|it| &it.2).min_by(|a, b| of(a, 1.0).total_cmp(&of(b, 1.0)))?;
    // Trains that differ by more than chance show bursts.
    let bursts = (best[0] / (trains.len() as f64 - 1.0).max(1.0)).max(1.0);
    let least = of(best, bursts);
    // Nearly all of them are next to impossible; to sort what is left takes little time.
    let likely = |it: &(f64, f64, [f64; 2])| (it.0, it.1, of(&it.2, bursts) - least);
    let mut cells: Vec<(f64, f64, f64)> =
        misfits.iter().map(likely).filter(|it| (-it.2 / 2.0).exp() > f64::EPSILON).collect();
    // That nothing crosses is as likely as all else together.
    let idle = |cell: &(f64, f64, f64)| if cell.1 >= cell.0 { (CELLS - 1) as f64 } else { 1.0 };
    cells.iter_mut().for_each(|cell| cell.2 = idle(cell) * cell.0.recip() * (-cell.2 / 2.0).exp());
    let all: f64 = cells.iter().map(|cell| cell.2).sum();
    let mut quantiles = |shares: &[f64], of: fn(&(f64, f64, f64)) -> f64| {
        cells.sort_unstable_by(|a, b| of(a).total_cmp(&of(b)));
        let mut below = 0.0;
        let mut places = cells.iter().map(|cell| {
            below += cell.2;
            (below, of(cell))
        });
        let mut last = (0.0, 0.0);
        let at = |&q: &f64| {
            while last.0 < q * all {
                let Some(next) = places.next() else { break };
                last = next;
            }
            last.1
        };
        shares.iter().map(at).collect::<Vec<f64>>()
    };
    let free = quantiles(&[t::OUTSIDE, 0.5, 1.0 - t::OUTSIDE], |cell| cell.1);
    let policer = quantiles(&[0.5], |cell| cell.0)[0];
    Some(Free { value: free[1], interval: [free[0], free[2]], policer })
}

/// Squares of what the trains differ by from such a policer, in standard errors, for each kind of cross traffic.
fn misfits(trains: &[Policed], policer: f64, free: f64, bucket: f64) -> [[f64; 2]; 4] {
    let crossing = (policer - free).max(1e-9 * policer);
    let mut sums = [[0.0; 2]; 4];
    for train in trains {
        let beside = Beside::new(train, policer, crossing, bucket);
        for (sum, kind) in sums.iter_mut().zip(kinds()) {
            let [square, error] = beside.misfit(kind);
            *sum = [sum[0] + square, sum[1] + error];
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use vtare_units::{Random, Timestamp};

    use super::*;

    /// Packets that the bucket holds.
    const BUCKET: f64 = 50.0;

    /// 400 packets at each of these rates at a policer of 100 Mbit/s beside random cross traffic.
    fn trains(crossing: f64, rates: &[f64]) -> Vec<Policed> {
        let train = |&rate: &f64| {
            let passed = (400.0 * (1e8 / (rate + crossing)).min(1.0)).round();
            Policed { rate, sent: 400.0, passed, together: 1.0 }
        };
        rates.iter().map(train).collect()
    }

    #[test]
    fn three_rates_above_what_is_free_show_it_and_the_policer() {
        for crossing in [0.0, 2.5e7, 6e7] {
            let found =
                free(&trains(crossing, &[4e8, 1.1e8 - crossing, 1.5e8 - crossing]), BUCKET).expect("some passed");
            let [low, high] = found.interval;
            assert!(low <= 1e8 - crossing && 1e8 - crossing <= high, "{crossing}: {found:?}");
            assert!((found.value - 1e8 + crossing).abs() < 1e7, "{crossing}: {found:?}");
            assert!((found.policer / 1e8 - 1.0).abs() < 0.15, "{crossing}: {found:?}");
        }
    }

    #[test]
    fn one_train_leaves_open_what_crosses() {
        let [low, high] = free(&trains(2.5e7, &[1.5e8]), BUCKET).expect("some passed").interval;
        assert!(low < 6e7 && high > 8e7, "{low} {high}");
    }

    #[test]
    fn where_nothing_passes_nothing_is_known() {
        assert_eq!(free(&[Policed { rate: 1e8, sent: 100.0, passed: 0.0, together: 1.0 }], BUCKET), None);
    }

    /// Shares of probes and of cross traffic that a token bucket lets through, and of its rate that is unused, when
    /// probes come at random times and cross traffic evenly or at random; rates in those of the policer.
    fn simulated(probes: f64, crossing: f64, is_even: bool, bucket: f64) -> [f64; 3] {
        let random = &mut Random::new(24);
        let (mut own, mut other, mut at) = (random.exponential(1.0 / probes), random.unit() / crossing, 0.0);
        let (mut tokens, mut unused, mut sent, mut passed) = (0.0_f64, 0.0, [0.0; 2], [0.0; 2]);
        while at < 60_000.0 {
            let is_probe = own < other;
            let now = own.min(other);
            tokens += now - at;
            unused += (tokens - bucket).max(0.0);
            (tokens, at) = (tokens.min(bucket), now);
            let of = usize::from(!is_probe);
            sent[of] += 1.0;
            if tokens >= 1.0 {
                (tokens, passed[of]) = (tokens - 1.0, passed[of] + 1.0);
            }
            match (is_probe, is_even) {
                (true, _) => own += random.exponential(1.0 / probes),
                (false, true) => other += 1.0 / crossing,
                (false, false) => other += random.exponential(1.0 / crossing),
            }
        }
        [passed[0] / sent[0], passed[1] / sent[1], unused / at]
    }

    #[test]
    fn a_simulated_bucket_leaves_unused_what_the_equation_gives() {
        for (rate, bucket) in [(0.9, 4.0), (1.05, 4.0), (1.1, 20.0), (1.25, 4.0), (1.25, 8.0), (1.5, 4.0)] {
            let [_, _, found] = simulated(rate / 2.0, rate / 2.0, false, bucket);
            let expected = unused(rate, steepness(rate), 1.0, bucket);
            assert!((found - expected).abs() < 0.02, "{rate} {bucket}: {found} {expected}");
        }
    }

    #[test]
    fn random_probes_have_even_odds_beside_random_traffic_and_lower_ones_beside_even_traffic() {
        let odds = |share: f64| share / (1.0 - share);
        for crossing in [0.3, 0.6, 0.8] {
            for above in [1.25, 1.5] {
                let of = |is_even| simulated(above - crossing, crossing, is_even, 20.0);
                let [probes, others, _] = of(false);
                assert!((odds(probes) / odds(others) - 1.0).abs() < 0.1, "{crossing} {above}: {probes} {others}");
                let [probes, others, _] = of(true);
                let ratio = odds(probes) / odds(others);
                assert!((ratio - 1.0 + t::POLICE_EVEN * crossing).abs() < 0.2, "{crossing} {above}: {ratio}");
            }
        }
    }

    #[test]
    fn a_train_counts_from_its_first_drop_to_its_last() {
        let packet = |number: u64| crate::avb::Packet {
            scheduled: Timestamp::from_nanos(number * 1_000),
            sent: Some(Timestamp::from_nanos(number * 1_000)),
            kernel_sent: None,
            received: (![4, 7, 9].contains(&number)).then(|| Timestamp::from_nanos(number * 1_000)),
            place: None,
            size_byte: 1_500,
            call: number as u32,
            group: None,
            descheduled: false,
            ecn: None,
        };
        let seen = Observation {
            train: crate::avb::Train::back_to_back(12, 1_500),
            packets: (0..12).map(packet).collect(),
            finished: Timestamp::ZERO,
            receiver_drops: None,
        };
        let train = through(&seen, 2).expect("enough packets");
        assert_eq!((train.sent, train.passed), (5.0, 3.0), "5 and 6 and 8 passed, 7 and 9 did not");
        assert!((train.rate - 12e9).abs() < 1.0, "{train:?}");
    }
}
