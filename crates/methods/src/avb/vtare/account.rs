//! Accounts over one train or many, and which of them says most.

use super::points::Point;
use super::train_estimate::{self, Known, Score};
use super::{Case, Vtare, idle};

/// Accounts that begin with one of so many of the last trains are looked at.
const BEGINS: usize = 24;

/// What other links' queues are held to differ by where trains begin, as a share of what they differ by within streams;
/// such ends are preferred as if it were less.
pub(super) const FRESH: f64 = 0.4;
const FRESH_PREFERRED: f64 = 0.1;

/// Times in which so many packets of the delay may hide that the queue was empty are avoided, with this weight against
/// the interval's width.
const HIDDEN_PACKETS: f64 = 10.0;
const HIDDEN: f64 = 6.0;

/// An account has so many points, at least.
const LEAST_POINTS: usize = 8;

impl Vtare {
    /// Adds the points of a train to the account, or begins it anew with those behind the train's head, where the queue
    /// may have been empty since the train before.
    pub(super) fn take_into_account(&mut self, points: &[Point], behind: usize, known: &Known) {
        let goes_on = match (self.account.last().copied(), points.first()) {
            (Some(last), Some(first)) => {
                let before = Point { sent_bit: 0.0, arrived_bit: 0.0, ..last };
                (!idle::may_be_empty(&before, first, known, self.jitter_ns)).then_some(last)
            }
            _ => None,
        };
        self.goes_on = goes_on.is_some();
        match goes_on {
            Some(last) => {
                self.begins.push(self.account.len());
                self.account.extend(points.iter().map(|point| Point {
                    sent_bit: point.sent_bit + last.sent_bit,
                    arrived_bit: point.arrived_bit + last.arrived_bit,
                    ..*point
                }));
            }
            None => {
                self.account = points[behind.min(points.len())..].to_vec();
                self.begins = vec![0];
            }
        }
    }

    /// The account with the narrowest interval of those that begin with a train, and end with another or now.
    pub(super) fn narrowest(&self, known: &Known) -> Option<Score> {
        let begins = &self.begins[self.begins.len().saturating_sub(BEGINS)..];
        let whole = train_estimate::score(&self.account[*begins.first()?..], known)?;
        // A short account may have seen fewer bursts than there are; and only the first one begins behind a head that a
        // link may still hold.
        let known = Known { unsettled_ns: 0.0, least_burst: whole.burst, ..*known };
        let preferring = Known { fresh_share: FRESH_PREFERRED, ..known };
        if !self.steers || self.without(Case::Narrowest) {
            return Some(whole);
        }
        let ends = |&from: &usize| begins.iter().map(|&to| to + 1).filter(move |&to| to >= from + LEAST_POINTS);
        let all = begins.iter().flat_map(|from| ends(from).chain([self.account.len()]).map(|to| (*from, to)));
        let width = |(from, to): (usize, usize)| {
            let score = train_estimate::score(&self.account[from..to], &preferring)?;
            let hidden = hidden_idle(&self.account[from..to], &preferring, HIDDEN_PACKETS);
            Some((4.0 * self.blurred(&score) + score.idle + HIDDEN * hidden, (from, to)))
        };
        let (_, (from, to)) = all.filter_map(width).min_by(|a, b| a.0.total_cmp(&b.0))?;
        train_estimate::score(&self.account[from..to], &known)
    }

    /// The error of a score, bit/s, where the traffic came in longer bursts than it saw itself.
    pub(super) fn blurred(&self, score: &Score) -> f64 {
        let Some(known) = self.known().filter(|_| self.steers) else { return score.error };
        let others_ns = score.others_share * known.others_ns(self.dispersion);
        let more_ns = (others_ns.powi(2) - score.others_ns.powi(2)).max(0.0).sqrt();
        score.error.hypot(known.capacity * more_ns / (score.seconds() * 1e9))
    }

    /// Keeps a score: it replaces those of an account of which it holds a part.
    pub(super) fn keep(&mut self, score: Score) {
        self.scores.retain(|last| last.to_ns <= score.from_ns);
        self.scores.push(score);
    }
}

/// The time for which the tight link's queue may have been empty, were so many packets of each delay in other links'
/// queues, as bit/s.
fn hidden_idle(points: &[Point], known: &Known, packets: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let hidden = Known { base_ns: known.base_ns + packets * known.service_ns, ..*known };
    let idle = points.windows(2).map(|pair| idle::after_queue_ns(&pair[0], &pair[1], &hidden).max(0.0)).sum::<f64>();
    known.capacity * idle / (last.at_ns - first.at_ns).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, VtareSettings};

    /// 4 of 10 Mbit/s are assumed to be free.
    fn steering() -> Vtare {
        let mut method = Vtare::new(VtareSettings::default(), Setup::default());
        (method.link, method.near, method.base_ns) = (Some((1e7, 0.01)), 4e6, 0.0);
        method.begin_steering();
        method
    }

    #[test]
    fn an_account_that_saw_few_bursts_is_known_no_better_than_one_that_saw_many() {
        let mut method = steering();
        let others_ns = method.known().expect("a link").others_ns(0.0);
        let short = Score { to_ns: 1e8, error: 1e4, others_ns, others_share: 1.0, ..Score::default() };
        assert_eq!(method.blurred(&short), 1e4);
        method.dispersion = 10.0;
        assert!(method.blurred(&short) > 5e5);
        method.steers = false;
        assert_eq!(method.blurred(&short), 1e4);
    }

    /// Trains of 20 packets of 1500 B each, 3 ms apart (4 Mbit/s) and 9 ms behind the last one's end, into a link of 10
    /// Mbit/s of which 3.5 are free, behind a queue of 60 ms; another link adds what is told for the place within
    /// the train.
    fn trains(count: u32, other_ns: impl Fn(u32, u32) -> f64) -> Vec<Vec<Point>> {
        let (mut at_ns, mut queue_bit) = (0.0, 6e5);
        let mut train = |number: u32| -> Vec<Point> {
            let mut packet = |index: u32| {
                let step_ns = if index > 0 { 3e6 } else { 9e6 };
                at_ns += step_ns;
                queue_bit -= 3.5e6 * step_ns / 1e9;
                let delay_ns = queue_bit / 1e7 * 1e9 + other_ns(number, index);
                queue_bit += 12e3;
                let bits = f64::from(index + 1) * 12e3;
                Point { index, at_ns, delay_ns, sent_bit: bits, arrived_bit: bits, call_bit: 12e3 }
            };
            (0..20).map(&mut packet).collect()
        };
        (0..count).map(&mut train).collect()
    }

    fn told(trains: &[Vec<Point>]) -> (Vtare, Score) {
        let mut method = steering();
        let known = method.known().expect("a link");
        trains.iter().for_each(|train| method.take_into_account(train, 0, &known));
        let score = method.narrowest(&known).expect("points");
        (method, score)
    }

    #[test]
    fn an_account_over_many_trains_begins_and_ends_where_trains_begin() {
        // Behind its first packet each train meets another link's queue, of another length each time.
        let (method, score) = told(&trains(5, |number, index| f64::from(index.min(1) * (number * 7 % 5)) * 3e6));
        assert_eq!(method.begins, [0, 20, 40, 60, 80]);
        assert!((score.value() / 3.5e6 - 1.0).abs() < 1e-6, "{}", score.value());
        let first_packets: Vec<f64> = method.begins.iter().map(|&place| method.account[place].at_ns).collect();
        assert!(first_packets.contains(&score.from_ns) && first_packets.contains(&score.to_ns));
        assert!((score.others_share - FRESH).abs() < 1e-9);
        // What it would say without.
        let mut all = method.clone();
        all.begins = vec![0];
        all.account[0].index = 1;
        let within = all.narrowest(&all.known().expect("a link")).expect("points");
        assert_eq!(within.others_share, 1.0);
        assert!((within.value() / 3.5e6 - 1.0).abs() > 0.02, "{}", within.value());
    }

    #[test]
    fn times_in_which_an_empty_queue_may_hide_are_avoided() {
        // The first two trains meet hardly a queue, the others a long one.
        let mut trains = trains(6, |_, _| 0.0);
        let lowest = trains[..2].iter().flatten().map(|point| point.delay_ns).fold(f64::INFINITY, f64::min);
        trains[..2].iter_mut().flatten().for_each(|point| point.delay_ns -= lowest - 9.5e6);
        let (method, _) = told(&trains);
        let known = method.known().expect("a link");
        let hidden = |from: usize, to: usize| hidden_idle(&method.account[from..to], &known, HIDDEN_PACKETS);
        assert!(hidden(0, 40) > 1e6 && hidden(40, 120) == 0.0, "{} {}", hidden(0, 40), hidden(40, 120));
        let score = method.narrowest(&known).expect("points");
        assert!(score.from_ns >= trains[2][0].at_ns, "{score:?}");
    }
}
