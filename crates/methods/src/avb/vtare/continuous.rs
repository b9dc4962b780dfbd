//! One account over many trains: each goes on where the one before ended.
//!
//! Between two trains the queue drains for as long as it takes to hear of the first: its own wait and a *turn*, the
//! delay there and back. So each train is made such that the queue holds enough for that when it ends, and the last is
//! followed by a few packets far apart, which meet other links' queues without a stream in them. On slow links, and
//! where other links' queues blur the ends of an account, this makes it last for nearly all of the time. An account
//! begins and ends with the first packet of a train where it can: behind the silence other links have sent on what they
//! held of the stream before, and the tight link, which drains last, has not.

use super::Case;
use vtare_units::{Monotonic, Timestamp};

use super::plan::{self, Wanted};
use super::points::Point;
use super::train_estimate::{Known, Score};
use super::{Stage, Vtare};
use crate::avb::{Spacing, Stopped, Train};

/// A link is slow where the time is enough for fewer packets than this.
const SLOW_PACKETS: f64 = 2_000.0;

/// Bursts on a link of which less than this share is free, with so many times the variance of Poisson's, are best
/// followed as well.
const CROWDED: f64 = 0.1;
pub(super) const BURSTY: f64 = 3.0;

/// The value is known so poorly before the first train (one standard deviation): to this share of it, and to this of
/// the capacity.
const FIRST_ERROR: f64 = 0.5;
const PRIOR_ERROR: f64 = 0.1;

/// What was known to so much is known to so many times that for an account that begins anew.
const OLDER: f64 = 1.2;

/// The value is assumed to be no less than this share of the capacity: else trains would take for ever.
const LEAST_SHARE: f64 = 0.02;
const MOST_SHARE: f64 = 0.98;

/// The queue outlasts so many standard deviations of the cross traffic: the more, the more of the link is free, since
/// what is left goes through other links faster than it drains. And it holds so many packets besides.
const DEVIATIONS: f64 = 2.0;
const DEVIATIONS_FREE: f64 = 7.0;
const SPARE_PACKETS: f64 = 8.0;

/// It holds so many times what drains between two packets of the stream, at least, and no more than this share of the
/// most queue.
const BETWEEN: f64 = 1.5;
const MOST_QUEUE: f64 = 0.6;

/// The first guess is raised by so many times the share of the link that seems free: one too low empties the queue, and
/// the account begins anew; one too high makes it longer.
const UPWARD: f64 = 4.0;

/// Packets that the queue begins with, at least, beside what drains between two.
const BEGIN_PACKETS: f64 = 4.0;

/// Links before the tight one are held to carry half its traffic: a stream may be faster than the value by this share
/// of what they have left beyond it.
const ROOM: f64 = 0.8;

/// A train lasts for so many packets, and for so many times the queue, at least.
const LEAST_PACKETS: f64 = 8.0;
const LEAST_QUEUES: f64 = 1.0;

/// A head of which less than this share is kept is no way to fill a queue.
const LEAST_KEPT: f64 = 0.35;

/// The stream is no slower than this share of the value.
const SLOWEST: f64 = 0.3;

/// Packets that close an account, in this share of the time that the queue lasts, and of the time that is left.
const CLOSING: u32 = 5;
const CLOSING_QUEUE: f64 = 0.5;
const CLOSING_TIME: f64 = 0.25;

/// Where fewer packets than this are left, it was the bytes that ended it.
const FEW_LEFT: u64 = 100;

/// Standard deviations of the cross traffic that the queue outlasts, where this share of the link is free.
fn deviations(free: f64) -> f64 {
    DEVIATIONS + DEVIATIONS_FREE * free.min(1.0)
}

impl Vtare {
    /// Whether the time is enough for few packets only, so that it should be one account.
    pub(super) fn is_slow(&self) -> bool {
        if self.without(Case::Slow) {
            return false;
        }
        let packets = self.near * self.seconds_left() / (f64::from(self.packet_byte) * 8.0);
        !self.calm && !self.capacity.clumps() && self.bucket_byte.is_none() && packets < SLOW_PACKETS
    }

    /// Whether next to nothing is free, and the traffic comes in bursts.
    pub(super) fn is_crowded(&self, score: &Score, known: &Known) -> bool {
        if self.without(Case::Crowded) {
            return false;
        }
        self.dispersion > BURSTY && score.value() < CROWDED * known.capacity && !self.capacity.clumps()
    }

    /// From the first train on each goes on where the one before ended.
    pub(super) fn steer_from(&mut self, first: &[Point], free: f64) {
        let capacity = self.link.map_or(f64::INFINITY, |(capacity, _)| capacity);
        self.near = (self.near * (1.0 + UPWARD * free)).min(MOST_SHARE * capacity);
        self.begin_steering();
        self.account = first.to_vec();
        self.begins = vec![0];
    }

    /// From now on each train goes on where the one before ended.
    pub(super) fn begin_steering(&mut self) {
        let capacity = self.link.map_or(0.0, |(capacity, _)| capacity);
        self.steers = true;
        self.near_error = FIRST_ERROR;
        self.prior = (self.near, FIRST_ERROR * self.near + PRIOR_ERROR * capacity);
        self.account.clear();
    }

    /// The value to steer by, after a train that said `score`, and how well it is known. What was held before the
    /// account counts by its error.
    pub(super) fn steer_by(&mut self, score: &Score, spread: f64, before: f64, capacity: f64) {
        if !self.goes_on {
            self.prior = (before, OLDER * self.near_error * before + PRIOR_ERROR * capacity);
        }
        let own = score.error.powi(2) + spread.powi(2) + (score.idle / 2.0).powi(2);
        let prior = self.prior.1.powi(2);
        let both = (score.value() * prior + self.prior.0 * own) / (own + prior);
        self.near = both.max(score.least + score.idle_mean / 2.0).clamp(LEAST_SHARE * capacity, capacity);
        self.near_error = (own * prior / (own + prior)).sqrt() / self.near;
        self.prime = self.settings.prime_deviations;
        self.drained = 0;
    }

    /// The next train of an account that goes on.
    pub(super) fn steer(&mut self, now: Timestamp<Monotonic>) -> Option<Train> {
        if !self.steers || self.stage != Stage::Measure || self.capacity.clumps() {
            return None;
        }
        let (capacity, _) = self.link?;
        let since_s = self.epoch.map_or(0.0, |epoch| (epoch.since_ns(now) - self.left.0) / 1e9);
        self.turn_s = self.turn_s.min((since_s - self.left.1 / 1e9 - self.rested_s).max(0.0));
        let near = self.near.max(LEAST_SHARE * capacity);
        let packet_bit = f64::from(self.packet_byte) * 8.0;
        let burst = self.burst.max((capacity - near) * packet_bit);
        let queue_bit = self.queue_between(near, capacity, burst);
        let queue_s = queue_bit / capacity;
        let holds = (capacity * self.left.1 / 1e9 - near * since_s).max(0.0);

        let deviations = deviations(near / capacity);
        // So long that neither the cross traffic nor what is not known of the value empties the queue.
        let by_guess = queue_bit / (2.0 * self.near_error * near).max(1.0);
        let by_bursts = (queue_bit / deviations).powi(2) / burst;
        let seconds = by_guess.min(by_bursts).max(LEAST_QUEUES * queue_s).max(LEAST_PACKETS * packet_bit / near);
        // It shall not run empty on the way either, while it grows.
        let varies = deviations.powi(2) * burst * seconds;
        let begins = (queue_bit - (queue_bit.powi(2) - varies).max(0.0).sqrt()) / 2.0;
        let begins = begins.max(BEGIN_PACKETS * packet_bit + capacity * packet_bit / near).min(queue_bit);
        let inflow = self.head_inflow(capacity, near);
        let prime_bit = (begins - holds).max(0.0) / (1.0 - near / inflow).max(LEAST_KEPT);
        let grows = queue_bit - holds.max(begins);

        let room = ROOM * 0.5 * (capacity - near).max(LEAST_SHARE * capacity);
        let closing_s = (CLOSING_QUEUE * holds / near).min(CLOSING_TIME * self.seconds_left());
        let most_bit = self.bytes_left() as f64 * 8.0 - f64::from(CLOSING + 2) * packet_bit - prime_bit;
        // A queue that is longer than it need be saves bytes.
        let of_bytes = (most_bit / (near + room)).max((most_bit - grows) / near);
        let most_s = of_bytes.min(self.seconds_left() - 2.0 * (queue_s + self.turn_s) - closing_s);
        if most_s < queue_s.max(packet_bit * BEGIN_PACKETS / near) && !self.account.is_empty() {
            return Some(self.closing(closing_s.max(f64::from(CLOSING) * packet_bit / capacity)));
        }
        // What would be left may be too short for another one; and no more is needed than makes the interval narrow
        // enough.
        let seconds = if most_s < 2.0 * seconds { most_s } else { seconds };
        let has_s = self.scores.last().filter(|_| !self.account.is_empty()).map_or(0.0, Score::seconds);
        let wants_s = if self.wanted_seconds > has_s { self.wanted_seconds - has_s } else { f64::INFINITY };
        let seconds = seconds.min(wants_s.max(LEAST_QUEUES * queue_s));
        let rate = (near + grows / seconds).clamp(SLOWEST * near, near + room);
        let wanted = Wanted { prime_bit, rate, seconds, inflow, room: plan::ROOM };
        self.seconds = seconds;
        let (train, head) = plan::train(&wanted, self.packet_byte, &self.setup.ability, self.bytes_left());
        self.head = head;
        Some(train)
    }

    /// What the queue must hold when a train ends, so that it still holds as much as says that it was not empty when
    /// the next one begins, bits.
    fn queue_between(&self, near: f64, capacity: f64, burst: f64) -> f64 {
        let share = (near / capacity).min(MOST_SHARE);
        let packet_bit = f64::from(self.packet_byte) * 8.0;
        let group = plan::group(near, self.packet_byte, &self.setup.ability, plan::ROOM);
        let spare = (SPARE_PACKETS + 2.0 * f64::from(group - 1)) * packet_bit + capacity * self.grain_s;
        let varies = deviations(share) * (burst * self.turn_s / (1.0 - share)).sqrt();
        let queue = (self.turn_s * capacity * (1.0 + share) + spare + varies) / (1.0 - share);
        let most = MOST_QUEUE * self.settings.most_queue_ns as f64 / 1e9 * capacity;
        queue.max(BETWEEN * capacity * packet_bit / near).min(most).min(self.room_bit)
    }

    /// A few packets far apart: the last of an account.
    fn closing(&mut self, seconds: f64) -> Train {
        let few = self.bytes_left() < FEW_LEFT * u64::from(self.packet_byte);
        self.closed = Some(if few { Stopped::ByteBudget } else { Stopped::TimeBudget });
        (self.head, self.seconds) = (1, seconds);
        let spacing = Spacing::Constant { gap_ns: seconds * 1e9 / f64::from(CLOSING) };
        Train { packets: CLOSING, size_byte: self.packet_byte, spacing, idle_before_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::vtare::points::Epoch;
    use crate::avb::{Ability, Setup, VtareSettings};

    /// 4 of 10 Mbit/s are assumed to be free; a turn takes 2 ms.
    fn slow() -> Vtare {
        let ability = Ability { least_gap_ns: 1_000.0, ..Ability::default() };
        let mut method = Vtare::new(VtareSettings::default(), Setup { ability, ..Setup::default() });
        (method.link, method.near, method.line) = (Some((1e7, 0.01)), 4e6, 1e10);
        method.epoch = Some(Epoch::at(Timestamp::from_nanos(0), Timestamp::from_nanos(0)));
        method.stage = Stage::Measure;
        method.begin_steering();
        method
    }

    fn rate(train: &Train) -> f64 {
        let Spacing::Primed { packets, gap_ns, .. } = train.spacing else { panic!("{train:?}") };
        f64::from(packets * train.size_byte) * 8e9 / gap_ns
    }

    #[test]
    fn a_link_is_slow_where_the_time_is_enough_for_few_packets() {
        let mut method = slow();
        assert!(method.is_slow());
        method.near = 4e7;
        assert!(!method.is_slow());
        (method.near, method.bucket_byte) = (4e6, Some(1e5));
        assert!(!method.is_slow(), "a token bucket would fill between trains");
    }

    #[test]
    fn the_first_train_begins_the_account_and_the_first_guess_is_high() {
        let mut method = slow();
        let point = Point { index: 0, at_ns: 0.0, delay_ns: 0.0, sent_bit: 12e3, arrived_bit: 12e3, call_bit: 12e3 };
        method.steer_from(&[point, point], 0.3);
        assert_eq!((method.account.len(), method.begins.clone(), method.steers), (2, vec![0], true));
        assert!((method.near / (4e6 * (1.0 + 0.3 * UPWARD)) - 1.0).abs() < 1e-9, "{}", method.near);
        // No more than the link carries, and unchanged where nothing seems free.
        method.steer_from(&[point], 1.0);
        assert_eq!(method.near, MOST_SHARE * 1e7);
        method.near = 1e6;
        method.steer_from(&[point], 0.0);
        assert_eq!(method.near, 1e6);
    }

    #[test]
    fn the_queue_outlasts_more_where_more_is_free() {
        let mut method = slow();
        method.turn_s = 0.002;
        assert!(deviations(0.9) > 2.0 * deviations(0.1));
        let most = MOST_QUEUE * method.settings.most_queue_ns as f64 / 1e9 * 1e7;
        assert_eq!(method.queue_between(9e6, 1e7, 1e12), most);
    }

    #[test]
    fn a_train_leaves_enough_in_the_queue_for_the_next_one_to_go_on() {
        let mut method = slow();
        // The last packet waited 30 ms, and 32 ms later it is known.
        method.left = (0.0, 30e6);
        let train = method.steer(Timestamp::from_nanos(32_000_000)).expect("a train");
        assert!((method.turn_s - 0.002).abs() < 1e-9);
        let queue = method.queue_between(4e6, 1e7, 6e6 * 12e3);
        // When the next train begins it holds what drained meanwhile less, and still more than a turn.
        assert!(queue - 4e6 * (queue / 1e7 + 0.002) > 1e7 * 0.002, "{queue}");
        // The stream brings what is free and what the queue wants.
        let (sent, held) = (train.bytes() as f64 * 8.0, 3e5 - 4e6 * 0.032);
        assert!((sent - (4e6 * method.seconds + queue - held)).abs() < 4.0 * 12e3, "{train:?}");
        assert!(rate(&train) < 4e6 + 3e6, "links before the tight one carry traffic of their own");
    }

    #[test]
    fn the_last_train_of_an_account_is_a_few_packets_far_apart() {
        let mut method = slow();
        method.left = (0.0, 30e6);
        method.settings.most_ns = 40_000_000;
        let point = super::super::Point {
            index: 0,
            at_ns: 0.0,
            delay_ns: 0.0,
            sent_bit: 0.0,
            arrived_bit: 0.0,
            call_bit: 12e3,
        };
        method.account.push(point);
        let train = method.steer(Timestamp::from_nanos(32_000_000)).expect("a train");
        assert_eq!((train.packets, method.closed), (CLOSING, Some(Stopped::TimeBudget)));
    }

    #[test]
    fn what_was_known_before_counts_by_its_error() {
        let mut method = slow();
        let told = |least: f64, error: f64| Score { least, error, to_ns: 1e9, ..Score::default() };
        method.steer_by(&told(6e6, 1e4), 0.0, 4e6, 1e7);
        assert!((method.near / 6e6 - 1.0).abs() < 0.01 && method.near_error < 0.01);
        let mut method = slow();
        method.steer_by(&told(-5e6, 9e6), 0.0, 4e6, 1e7);
        assert!(method.near > 1.5e6, "a hazy train moves it little: {}", method.near);
    }
}
