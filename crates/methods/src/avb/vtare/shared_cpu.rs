//! Paths whose work is done by the sender's own processor: namespaces and containers of one machine, a router in the
//! kernel.
//!
//! There packets wait for the processor and not for the link alone, a sender stalls for longer than a queue
//! lasts, and packets leave many in a call. What helps: an account is exact between *any* two packets between which the
//! queue was never empty, so a train tells the mean of that part of it that tells it best. The part may begin in the
//! head, since packets of one call come to the link as fast as they leave. Where its ends have the same delay, the
//! capacity does not matter.

use super::Case;
use super::points::Point;
use super::train_estimate::{self, Known, Score};
use super::{Stage, Vtare, idle, plan};
use crate::avb::{Observation, Packet, Spacing};

/// A single send that takes longer than this share of what the link takes for the packet, and so long, ns, does the
/// path's work as well: a system call that leaves a packet with a card takes 1 to 3 us.
const SHARES: f64 = 0.9;
const SHARES_NS: f64 = 6_000.0;

/// Points that a part has at least.
const LEAST_POINTS: usize = 12;

/// A part begins and ends at one of so many places, each in this share of a busy stretch.
const PLACES: usize = 20;
const REACH: f64 = 0.6;

/// The longest time for which a sender stalled is assumed to be the same from train to train, but for this share.
const FADES: f64 = 0.7;

/// So much of a train's time may be allowed for that at most, as a share.
const MOST_STILL: f64 = 0.3;

/// A queue that ran empty though a part of the train told its own mean is filled so much more, up to so many standard
/// deviations.
const FULLER: f64 = 1.4;
const FULLEST: f64 = 10.0;

/// A head tells the capacity if it made the delay grow by this share of the time in which it came, and by what so many
/// packets take.
const GROWN: f64 = 0.3;
const GROWN_SERVICES: f64 = 16.0;

/// It is known no better than this, as a share; and an arrival may be so many packets' time early or late.
const OVERLOAD_ERROR: f64 = 0.03;
const BLUR_SERVICES: f64 = 8.0;

/// Heads kept.
const MOST_OVERLOADS: usize = 16;

/// Calls of a stream, at least: in the search and behind it.
pub(super) const SEARCH_CALLS: f64 = 10.0;
pub(super) const CALLS: f64 = 16.0;

/// A flood tells the value if a busy part of it lasts for so many of the shortest measuring trains, and it is known to
/// this share.
const FLOOD: f64 = 0.4;
const FLOOD_ERROR: f64 = 0.1;

/// What the link carries in so much time, s, may be spent.
const SHARED_S: f64 = 0.012;

/// A head that overloaded the link: bits of its packets behind the first call, the time in which they left and that in
/// which they came, s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overload {
    bits: f64,
    left_s: f64,
    came_s: f64,
}

impl Overload {
    /// From the first `head` packets of a train. What a token bucket passes at once is assumed to be in the first call.
    fn of(observation: &Observation, head: usize) -> Option<Self> {
        let packets = &observation.packets[..head.min(observation.packets.len())];
        let behind = packets.iter().position(|packet| packet.call != packets[0].call)?;
        let (first, last) = (packets.get(behind)?, packets.last()?);
        let came = last.received? - first.received?;
        let arrived = packets[behind + 1..].iter().filter(|packet| packet.received.is_some());
        Some(Self {
            bits: arrived.map(|packet| f64::from(packet.size_byte) * 8.0).sum(),
            left_s: (last.left()? - first.left()?).as_nanos() as f64 / 1e9,
            came_s: came.as_nanos() as f64 / 1e9,
        })
    }

    fn grown_s(&self) -> f64 {
        self.came_s - self.left_s
    }

    /// The capacity, bit/s, where so much of it is available: what is not came between the packets while they left.
    fn capacity(&self, available: f64) -> f64 {
        let came = self.bits / self.came_s;
        ((self.bits - available * self.left_s) / self.grown_s()).max(came)
    }
}

impl Vtare {
    /// Whether the path's work may be done by the sender's own processor, as far as single sends tell.
    pub(super) fn may_share(&self) -> bool {
        if self.without(Case::SharedCpu) {
            return false;
        }
        let ability = &self.setup.ability;
        let service_ns = self.link.map_or(0.0, |(capacity, _)| f64::from(self.packet_byte) * 8e9 / capacity);
        let slow = ability.least_gap_ns > SHARES_NS.max(SHARES * service_ns);
        ability.most_group > 1 && slow && !self.several() && !self.many_links
    }

    /// Whether it is, and there is one link: its packets come in clumps, or small packets told that. Of several links a
    /// head is still in the first one when the stream begins.
    pub(super) fn shares_processor(&self) -> bool {
        self.may_share() && (self.capacity.clumps() || self.one_link)
    }

    /// Whether small packets shall tell now whether there is one link.
    pub(super) fn asks_for_one_link(&self) -> bool {
        matches!(self.stage, Stage::Search | Stage::Measure) && !self.steers && self.may_share() && self.links.is_none()
    }

    /// How long so many calls of a stream at this rate take there, s: of each call one packet tells its delay.
    pub(super) fn calls_seconds(&self, calls: f64, near: f64) -> f64 {
        if !self.shares_processor() {
            return 0.0;
        }
        let group = plan::group(near, self.packet_byte, &self.setup.ability, plan::CROWDED_ROOM);
        calls * f64::from(group * self.packet_byte) * 8.0 / near
    }

    /// Bytes that may be spent there: a flood that finds whether the sender is able to overload the link leaves enough
    /// for trains that measure.
    pub(super) fn shared_bytes(&self) -> u64 {
        (self.link.map_or(0.0, |(capacity, _)| capacity) * SHARED_S / 8.0) as u64
    }

    /// What a sender that stalls now and then wants the queue to hold, bits.
    pub(super) fn still_bit(&self, near: f64) -> f64 {
        if self.shares_processor() { near * self.still_s.min(MOST_STILL * self.seconds) } else { 0.0 }
    }

    /// Notes for how long the sender stalled in a train's stream.
    pub(super) fn see_stills(&mut self, observation: &Observation) {
        let Spacing::Primed { gap_ns, .. } = observation.train.spacing else { return };
        let left: Vec<_> = observation.packets.iter().skip(self.head as usize).filter_map(Packet::left).collect();
        let longest = left.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).max().unwrap_or(0);
        self.still_s = (FADES * self.still_s).max((longest as f64 - gap_ns).max(0.0) / 1e9);
    }

    /// Notes what a train's head says of the capacity.
    pub(super) fn see_overload(&mut self, observation: &Observation) {
        let Some((capacity, _)) = self.link.filter(|_| self.may_share()) else { return };
        let least_s = GROWN_SERVICES * f64::from(self.packet_byte) * 8.0 / capacity;
        let told = Overload::of(observation, self.head as usize)
            .filter(|it| it.came_s > 0.0 && it.grown_s() > (GROWN * it.came_s).max(least_s));
        if told.is_some() && self.overloads.len() == MOST_OVERLOADS {
            self.overloads.remove(0);
        }
        self.overloads.extend(told);
    }

    /// The capacity as all heads together tell it, and its error as a share.
    pub(super) fn overloaded(&self) -> Option<(f64, f64)> {
        if !self.shares_processor() {
            return None;
        }
        let mut told: Vec<(f64, f64)> =
            self.overloads.iter().map(|it| (it.capacity(self.near.max(0.0)), it.grown_s())).collect();
        told.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all_s: f64 = told.iter().map(|it| it.1).sum();
        let mut below_s = 0.0;
        // The median of their time: one that something held up does not count.
        let &(capacity, _) = told.iter().find(|it| {
            below_s += it.1;
            below_s >= all_s / 2.0
        })?;
        let blur_s = BLUR_SERVICES * f64::from(self.packet_byte) * 8.0 / capacity;
        Some((capacity, OVERLOAD_ERROR.hypot(blur_s / all_s)))
    }

    /// What a flood tells that overloaded the link for long: it is an account as any other.
    pub(super) fn hear_flood(&mut self) {
        if !self.shares_processor() || self.steers || self.flood.is_empty() {
            return;
        }
        let points = &std::mem::take(&mut self.flood);
        if let (Some(told), Some((_, error))) = (self.overloaded(), self.link)
            && told.1 < error
        {
            self.link = Some(told);
        }
        let Some(known) = self.known() else { return };
        let Some(whole) = train_estimate::score(points, &known) else { return };
        let score = self.busiest(points, &known, whole);
        let long = score.seconds() * 1e9 >= FLOOD * self.settings.least_train_ns as f64;
        if !long || score.error > FLOOD_ERROR * score.value() || score.idle > FLOOD_ERROR * score.least.max(0.0) {
            return;
        }
        if let Some(belief) = &mut self.belief {
            belief.learn(score.least, score.least + score.idle, score.error);
        }
        self.near = score.value().clamp(0.0, known.capacity);
        self.burst = score.burst;
        self.dispersion = self.dispersion.max(score.dispersion);
        self.stage = Stage::Measure;
        self.keep(score);
        self.judge(&known);
    }

    /// The part of a train that tells its own mean best, or the whole.
    pub(super) fn busiest(&mut self, points: &[Point], known: &Known, whole: Score) -> Score {
        if !self.shares_processor() || self.steers {
            return whole;
        }
        let known = Known { unsettled_ns: 0.0, ..*known };
        let idle_ns = idle::idle_gaps_ns(points, &known, whole.jitter_ns);
        let mut idle = idle_ns.iter();
        let busy = points.chunk_by(|_, _| idle.next().is_some_and(|&idle_ns| idle_ns <= 0.0));
        let parts = busy.filter_map(|stretch| {
            let (from, to) = flattest(stretch, &known)?;
            train_estimate::score(&stretch[from..=to], &known)
        });
        let width = |score: &Score| 4.0 * score.error + score.idle;
        let best = parts.chain([whole]).min_by(|a, b| width(a).total_cmp(&width(b))).unwrap_or(whole);
        let ran_empty = |score: &Score| score.idle > self.settings.idle_share * score.least.max(0.0);
        if ran_empty(&whole) && !ran_empty(&best) {
            self.prime = (FULLER * self.prime).min(FULLEST);
        }
        best
    }
}

/// The places between which a busy stretch is long and its delay changes little.
fn flattest(stretch: &[Point], known: &Known) -> Option<(usize, usize)> {
    let last = stretch.len().checked_sub(LEAST_POINTS)? + LEAST_POINTS - 1;
    let place = |number: usize| (REACH * (number * last) as f64 / PLACES as f64) as usize;
    let pairs = (0..PLACES).flat_map(|begin| (0..PLACES).map(move |end| (place(begin), last - place(end))));
    let blur = |&(from, to): &(usize, usize)| {
        let (from, to) = (&stretch[from], &stretch[to]);
        let ns = to.at_ns - from.at_ns;
        let slope = (to.delay_ns - from.delay_ns).abs() / ns;
        let ends = 2.0 * known.others_ns(0.5) / ns;
        ends.hypot(known.capacity_error * slope)
    };
    pairs.filter(|&(from, to)| from + LEAST_POINTS <= to + 1).min_by(|a, b| blur(a).total_cmp(&blur(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Ability, Setup, Train, VtareSettings};
    use vtare_units::Timestamp;

    const CAPACITY: f64 = 1e9;

    fn shared() -> Vtare {
        let ability = Ability { least_gap_ns: 16_000.0, most_group: 44, ..Ability::default() };
        let mut method = Vtare::new(VtareSettings::default(), Setup { ability, ..Setup::default() });
        (method.link, method.near, method.base_ns) = (Some((CAPACITY, 0.2)), 6e8, 0.0);
        method.one_link = true;
        method
    }

    /// Calls of 10 packets of 1500 B at these times, us, over a link of 1 Gbit/s of which 600 Mbit/s are available.
    fn observed(calls_us: &[u64]) -> Observation {
        let mut free_ns = 0.0_f64;
        let mut last_ns = 0.0;
        let packets = (0..calls_us.len() as u32 * 10).map(|index| {
            let call = index / 10;
            let at_ns = calls_us[call as usize] as f64 * 1e3;
            // What crosses comes as evenly as the link carries it.
            free_ns = (free_ns + 0.4 * (at_ns - last_ns)).max(at_ns) + 12_000.0;
            last_ns = at_ns;
            crate::avb::Packet {
                scheduled: Timestamp::from_nanos(at_ns as u64),
                sent: Some(Timestamp::from_nanos(at_ns as u64)),
                kernel_sent: None,
                received: Some(Timestamp::from_nanos(free_ns as u64)),
                place: Some(index),
                size_byte: 1500,
                call,
                group: None,
                descheduled: false,
            }
        });
        let packets: Vec<_> = packets.collect();
        Observation {
            train: Train::back_to_back(packets.len() as u32, 1500),
            packets,
            finished: Timestamp::from_nanos(1_000_000_000),
            receiver_drops: None,
            duplicates: None,
        }
    }

    fn points_of(observation: &Observation) -> Vec<Point> {
        let epoch = super::super::points::Epoch::at(Timestamp::from_nanos(0), Timestamp::from_nanos(0));
        super::super::points::points(observation, epoch, 0.0).0
    }

    #[test]
    fn only_where_single_sends_are_slower_than_the_link_does_the_sender_do_the_paths_work() {
        let mut method = shared();
        assert!(method.shares_processor());
        // Of several links that is not so, nor as long as nobody knows.
        method.links = Some(3.0);
        assert!(!method.shares_processor());
        (method.links, method.one_link) = (None, false);
        assert!(!method.shares_processor() && method.may_share());
        method.one_link = true;
        method.setup.ability.least_gap_ns = 5_000.0;
        assert!(!method.shares_processor());
        (method.setup.ability.least_gap_ns, method.setup.ability.most_group) = (16_000.0, 1);
        assert!(!method.shares_processor());
    }

    #[test]
    fn heads_that_overload_the_link_tell_its_capacity() {
        let mut method = shared();
        method.head = 200;
        assert_eq!(method.overloaded(), None);
        let head = observed(&(0..20).map(|call| call * 40).collect::<Vec<_>>());
        method.see_overload(&head);
        let (found, error) = method.overloaded().expect("a head");
        assert!((found / CAPACITY - 1.0).abs() < 0.02, "{found}");
        assert!(error < 0.1, "{error}");
        // One that is no overload shows nothing, and one that was delayed does not count.
        method.see_overload(&observed(&(0..20).map(|call| call * 200).collect::<Vec<_>>()));
        assert_eq!(method.overloads.len(), 1);
        method.overloads.push(Overload { bits: 1e6, left_s: 1e-4, came_s: 1e-3 });
        assert!((method.overloaded().expect("two").0 / CAPACITY - 1.0).abs() < 0.02);
    }

    #[test]
    fn of_a_train_whose_queue_ran_empty_the_busy_part_tells_the_value() {
        let mut method = shared();
        method.link = Some((CAPACITY, 0.03));
        // 600 Mbit/s behind a head, and then nothing for long, and slowly.
        let times = (0..60).map(|call| if call < 10 { 20 * call } else { 200 * call - 1_800 });
        let times: Vec<u64> = times.chain((0..40).map(|call| 14_000 + 400 * call)).collect();
        let points = points_of(&observed(&times));
        let known = method.known().expect("a link");
        let whole = train_estimate::score(&points, &known).expect("points");
        assert!(whole.idle > 0.2 * whole.least, "{whole:?}");
        let score = method.busiest(&points, &known, whole);
        assert!((score.value() / 6e8 - 1.0).abs() < 0.02, "{score:?}");
        assert!(score.idle < 0.01 * score.least && score.seconds() > 0.004, "{score:?}");
        assert!(method.prime > VtareSettings::default().prime_deviations);
    }

    #[test]
    fn a_sender_that_stands_still_is_allowed_for_in_the_queue() {
        let mut method = shared();
        let mut times: Vec<u64> = (0..20).map(|call| 200 * call).collect();
        times.iter_mut().skip(10).for_each(|at| *at += 1_000);
        let mut seen = observed(&times);
        seen.train.spacing = Spacing::Primed { head: 10, after_ns: 0.0, packets: 10, gap_ns: 200_000.0 };
        (method.head, method.seconds) = (10, 0.01);
        method.see_stills(&seen);
        assert!((method.still_bit(6e8) / (6e8 * 0.001) - 1.0).abs() < 0.01, "{}", method.still_s);
        method.setup.ability.most_group = 1;
        assert_eq!(method.still_bit(6e8), 0.0);
    }
}
