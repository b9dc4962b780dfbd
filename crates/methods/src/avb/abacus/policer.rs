//! What a policer leaves free: it drops what is too much and delays nothing.
//!
//! A policer of rate `P` with an empty bucket passes `P` of probes at a rate `R` and cross traffic `X` together, and is
//! blind for the time of a packet behind each that passed. Which one passes next is chance: of random arrivals each
//! has its share; evenly spaced probes come sooner than random cross traffic does:
//!
//! ```text
//! passed = P R/(R + X)   or   P (R/X)(1 - exp(-X/R))         A = P - X, 0 <= A <= P               (3)
//! ```
//!
//! Trains at several rates above `A` give each `P`, `A` and mixture of both (up to `POLICE_EVEN` of the second) a
//! probability. A head empties the bucket first. How near that comes to `A` is limited by the mixture, which nobody
//! knows.

use super::tuning as t;
use crate::avb::{Observation, Packet};

/// One train behind its head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policed {
    /// Rate at which it was sent, bit/s.
    pub(super) rate: f64,
    /// Packets sent, and those that passed.
    pub(super) sent: f64,
    pub(super) passed: f64,
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

impl Policed {
    /// Packets sent for each that passed, and its standard error beside this share of probes among all that comes.
    /// What passes of both together is fixed by the policer; which of them it is, is chance.
    fn sent_a_passed(&self, probes: f64) -> (f64, f64) {
        let passed = self.passed.max(0.5);
        let chance = (1.0 - probes) * (1.0 - self.passed / self.sent) / passed;
        let ratio = self.sent / passed;
        (ratio, ratio * (chance + passed.powi(-2) + t::POLICE_BURSTS.powi(2)).sqrt())
    }
}

/// A train as a policer let it through, without its head; `None` for fewer than 4 packets.
pub(super) fn through(observation: &Observation, head: u32) -> Option<Policed> {
    let stream = || observation.packets.iter().skip(head as usize).filter(|packet| packet.left().is_some());
    let left = |packet: Option<&Packet>| packet.and_then(Packet::left);
    let (begin, end) = (left(stream().next())?, left(stream().next_back())?);
    let sent = stream().count() as f64;
    let seconds = (end - begin).as_nanos() as f64 / 1e9;
    let bits = f64::from(observation.train.size_byte) * 8.0;
    let passed = stream().filter(|packet| packet.received.is_some()).count() as f64;
    (sent >= 4.0 && seconds > 0.0).then(|| Policed { rate: (sent - 1.0) * bits / seconds, sent, passed })
}

/// What is free by these trains; `None` where nothing passed.
pub(super) fn free(trains: &[Policed]) -> Option<Free> {
    let most = trains.iter().map(|it| it.rate * it.passed / it.sent).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let cells = t::POLICE_CELLS;
    let share = |number: usize| number as f64 / (cells - 1) as f64;
    let policers = (0..cells).map(|number| most * 0.9 * 4.0_f64.powf(share(number)));
    let all = policers.flat_map(|policer| (0..cells).map(move |number| (policer, share(number) * policer)));
    let mut cells: Vec<(f64, f64, f64)> =
        all.flat_map(|(policer, free)| misfits(trains, policer, free).map(|misfit| (policer, free, misfit))).collect();
    let least = cells.iter().map(|cell| cell.2).fold(f64::INFINITY, f64::min);
    // Trains that differ by more than chance show bursts.
    let bursts = (least / (trains.len() as f64 - 1.0).max(1.0)).max(1.0);
    // Nearly all of them are next to impossible; to sort what is left takes little time.
    cells.retain(|cell| cell.2 - least < 2.0 * bursts * t::POLICE_UNLIKELY);
    cells.iter_mut().for_each(|cell| cell.2 = cell.0.recip() * (-(cell.2 - least) / 2.0 / bursts).exp());
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

/// Squares of what the trains differ by from such a policer, in standard errors, for each mixture.
fn misfits(trains: &[Policed], policer: f64, free: f64) -> [f64; 3] {
    let crossing = (policer - free).max(1e-9 * policer);
    let mut sums = [0.0; 3];
    for train in trains {
        let chance = train.rate / (train.rate + crossing);
        let sooner = train.rate / crossing * (1.0 - (-crossing / train.rate).exp());
        let (found, error) = train.sent_a_passed(chance);
        for (sum, mixture) in sums.iter_mut().zip([0.0, 0.5, 1.0]) {
            let even = mixture * t::POLICE_EVEN;
            let expected = (train.rate / (policer * (even * sooner + (1.0 - even) * chance))).max(1.0);
            *sum += ((found - expected) / error).powi(2);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 packets at each of these rates at a policer of 100 Mbit/s beside cross traffic.
    fn trains(crossing: f64, rates: &[f64]) -> Vec<Policed> {
        let train = |&rate: &f64| {
            let passed = (200.0 * (1e8 / (rate + crossing)).min(1.0)).round();
            Policed { rate, sent: 200.0, passed }
        };
        rates.iter().map(train).collect()
    }

    #[test]
    fn two_rates_above_what_is_free_show_it_and_the_policer() {
        for crossing in [0.0, 2.5e7, 6e7] {
            let found = free(&trains(crossing, &[1.5e8, 1.1e8])).expect("packets passed");
            let [low, high] = found.interval;
            assert!(low <= 1e8 - crossing && 1e8 - crossing <= high, "{crossing}: {found:?}");
            assert!((found.value - 1e8 + crossing).abs() < 1.5e7, "{crossing}: {found:?}");
            assert!((found.policer / 1e8 - 1.0).abs() < 0.25, "{crossing}: {found:?}");
        }
    }

    #[test]
    fn one_train_leaves_open_what_crosses() {
        let [low, high] = free(&trains(2.5e7, &[1.5e8])).expect("packets passed").interval;
        assert!(low < 5e7 && high > 8e7, "{low} {high}");
    }

    #[test]
    fn where_nothing_passes_nothing_is_known() {
        assert_eq!(free(&[Policed { rate: 1e8, sent: 100.0, passed: 0.0 }]), None);
    }
}
