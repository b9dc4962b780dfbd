//! What is sent next, within what may be spent.

use super::Case;
use vtare_units::{Monotonic, Timestamp};

use super::plan::{self, Wanted};
use super::tight::{self, Ratio, Response};
use super::train_estimate::{self, Known, Score};
use super::{SETTLE, Stage, Vtare, account, shared_cpu};
use crate::avb::{Spacing, Train};

/// Trains are planned for no less than this share of the capacity: else they would take for ever.
const LEAST_SHARE: f64 = 0.03;

/// Length of a train that finds what a policer lets through, s, and the least and most packets of it.
const POLICE_S: f64 = 0.02;
const POLICE_PACKETS: (u32, u32) = (100, 400);

/// A link of which nothing is known is reckoned no faster than this, bit/s.
const UNKNOWN: f64 = 2e10;

/// A head of which less than this share is kept is no way to fill a queue.
const LEAST_KEPT: f64 = 0.35;

/// A train is so many times as long as the one before, at most, on paths where packets come in clumps.
const LONGER: f64 = 4.0;

/// The same behind a train whose rate was astray: it emptied the queue, or was corrected by more than so much of its
/// rate.
const LONGER_ASTRAY: f64 = 1.5;
const ASTRAY: f64 = 0.15;

/// The same on other paths, behind a train that emptied the queue and behind another that was astray: there a train at
/// a wrong rate costs bytes as well, but less is wrong.
const LONGER_DRAINED: f64 = 3.0;
const LONGER_FAR: f64 = 8.0;

/// All of these count from so many times the shortest train of the search.
const SHORTEST: f64 = 5.0;

/// The time is enough for another train where it is for so many like the one before.
const TRAINS_LEFT: f64 = 20.0;

/// A capacity that is known no better than this, as a share, tells a slope's correction poorly: then the rate is kept
/// so near to the value that what the capacity leaves open of the correction is no more than this share of it, and so
/// much above it at least.
const UNSURE: f64 = 0.1;
const TRUST: f64 = 0.02;
const UNSURE_MARGIN: f64 = 0.04;

/// The trains so far are held to say where the value is where the upper of the belief's bounds (80 %) is below so many
/// times the lower.
const INFORMED: f64 = 2.0;

/// A link that carries more than this share of the bytes in the time is fast: for each byte beyond, so many more may be
/// spent, up to so many times the bytes.
const SLOW_SHARE: f64 = 0.15;
const STEEP: u64 = 32;
const MORE: u64 = 8;

/// Where the time is enough for few packets only, so many times the bytes may be spent in it; but where that is so
/// since little is free of a link that carries more than so much, bit/s, only if more than on slow links is usual
/// anyway.
const SLOW_MORE: u64 = 2;
const SLOW_LINK: f64 = 2e8;

/// On a path that nothing crosses, what other links' queues may differ by is this share of what it is for even cross
/// traffic.
const CALM_OTHERS: f64 = 0.8;

/// Calls of a first train whose packets leave several in a call, and bytes of each at most.
const FIRST_CALLS: u32 = 12;
const FIRST_CALL_BYTE: u32 = 36_000;

/// Where the tight link is another one than the narrow, errors are so many times what one link makes, and a value may
/// go on moving by so much of what it moved by.
const DOUBT: f64 = 2.5;
const MOVING: f64 = 1.0;

/// Trains from which the tight link's capacity is estimated.
const MOST_RESPONSES: usize = 24;

impl Vtare {
    /// The next train.
    pub(super) fn plan(&mut self, now: Timestamp<Monotonic>) -> Train {
        let size_byte = self.packet_byte;
        let packet_bit = f64::from(size_byte) * 8.0;
        match self.stage {
            Stage::First => {
                // More, if the ones before came too close together for their stamps.
                let ability = &self.setup.ability;
                self.head = (self.settings.first_packets << self.spoiled.min(10)).min(ability.most_packets);
                if self.spoiled > 0 && ability.most_group > 1 {
                    // Packets of one call have one stamp: more calls with less in each.
                    let packets = (FIRST_CALL_BYTE / size_byte).clamp(1, ability.most_group);
                    self.head = self.head.max(FIRST_CALLS * packets).min(ability.most_packets);
                    // A gap that no sender keeps: as close together as calls can be.
                    let spacing = Spacing::Groups { packets, gap_ns: 1.0 };
                    return Train { packets: self.head, size_byte, spacing, idle_before_ns: 0 };
                }
                return Train::back_to_back(self.head, size_byte);
            }
            Stage::Flood => {
                // Four times as many as before: what passes at once may be a token bucket, and behind it a slow link.
                let most = self.setup.ability.most_packets.min((self.bytes_left() / u64::from(size_byte)) as u32);
                self.head = (4 * self.head).min(most.max(self.head));
                return Train::back_to_back(self.head, size_byte);
            }
            Stage::Police => {
                let rate = 1.5 * self.near;
                self.head = ((rate * POLICE_S / packet_bit) as u32).clamp(POLICE_PACKETS.0, POLICE_PACKETS.1);
                self.head = self.head.min(self.setup.ability.most_packets);
                return Train::constant(self.head, size_byte, rate);
            }
            Stage::Search | Stage::Links | Stage::Measure => {}
        }
        if self.stage == Stage::Links {
            // Nobody answered.
            self.stage = self.asked_in;
        }
        if let Some(train) = self.sound_links().or_else(|| self.steer(now)) {
            return train;
        }
        let (capacity, capacity_error) = self.link.unwrap_or((self.line, 1.0));
        let near = self.near.max(LEAST_SHARE * capacity);
        let measuring = self.stage == Stage::Measure;
        let before = self.seconds;
        let affordable = self.affords_another();
        self.seconds = if measuring { self.measure_seconds() } else { self.search_seconds() };
        if measuring && before > 0.0 {
            // A long train at the wrong rate is lost as a whole: step by step. Where packets come in clumps a short one
            // shows little.
            let longer = match (self.capacity.clumps(), self.astray) {
                (true, true) => LONGER_ASTRAY,
                (true, false) => LONGER,
                (false, true) if affordable && self.drained > 0 => LONGER_DRAINED,
                (false, true) if affordable => LONGER_FAR,
                (false, _) => f64::INFINITY,
            };
            self.seconds = self.seconds.min(longer * before.max(SHORTEST * self.settings.least_search_ns as f64 / 1e9));
        }
        // Between two groups the queue must last as well.
        let room = match (self.shares_processor(), self.unsure()) {
            (true, _) => plan::CROWDED_ROOM,
            (false, true) => plan::SHARED_ROOM,
            (false, false) => plan::ROOM,
        };
        let group = plan::group(near, size_byte, &self.setup.ability, room);
        let held = self.prime * (self.burst * self.seconds).sqrt()
            + capacity * self.grain_s
            + self.capacity.credit_bit()
            + self.still_bit(near)
            + f64::from(4 + 2 * (group - 1)) * packet_bit;
        let most_queue_bit = self.settings.most_queue_ns as f64 / 1e9 * capacity;
        let held = if self.calm { 0.0 } else { held };
        let held = held.min(most_queue_bit).min(self.room_bit).min(self.bytes_left() as f64 * 8.0 / 3.0);
        let since_s = self.epoch.map_or(0.0, |epoch| (epoch.since_ns(now) - self.left.0) / 1e9);
        let left = (capacity * self.left.1 / 1e9 - near * since_s.max(0.0)).max(0.0);
        // A link before the tight one may stretch the head to its own capacity, and the tight link sends on meanwhile:
        // that much of the head is gone when the stream begins.
        let inflow = self.head_inflow(capacity, near);
        let kept = 1.0 - near / inflow;
        let needed = (held - left).max(0.0);
        let prime_bit = needed / kept.max(LEAST_KEPT);
        let prime_bit =
            prime_bit.min(0.2 * self.seconds_left().max(0.0) * inflow).min(self.bytes_left() as f64 * 8.0 / 2.5);
        // What is in the queue already needs not be sent again: by the end of the train it shall hold as much as is
        // wanted.
        let margin = match (measuring, self.calm) {
            (true, _) if self.unsure() => UNSURE_MARGIN,
            (true, _) => 0.02,
            (false, true) => 0.03,
            (false, false) => 0.1,
        };
        // A queue that ran empty is filled more, and faster than the value by as much as the value changes from train
        // to train.
        let swing = 1.0 * f64::from(self.drained) * (self.burst / self.seconds).sqrt();
        // Where hardly anything of a head is kept, the stream fills the queue.
        let fill = (needed - prime_bit * kept).max(0.0) / self.seconds;
        let rate = (near * (1.0 + margin) + swing + fill - (left - held).max(0.0) / self.seconds).min(1.2 * capacity);
        let rate = if measuring && self.unsure() { rate.min(near * (1.0 + TRUST / capacity_error)) } else { rate };
        let wanted = Wanted { prime_bit, rate: rate.max(0.4 * near), seconds: self.seconds, inflow, room };
        let wanted = Wanted { seconds: self.seconds + SETTLE * prime_bit / capacity, ..wanted };
        let (train, head) = plan::train(&wanted, size_byte, &self.setup.ability, self.bytes_left());
        self.head = head;
        train
    }

    /// Bytes that may still be spent: of the budget, or else of what is decent on such a link.
    pub(super) fn bytes_left(&self) -> u64 {
        let decent = self.decent(self.settings.most_byte, self.settings.most_byte_ns);
        let decent = if self.link.is_some() && self.may_share() { decent.max(self.shared_bytes()) } else { decent };
        let slow_link = self.link.is_some_and(|(capacity, _)| capacity < SLOW_LINK);
        let slow = self.steers && self.slow && (slow_link || decent > self.settings.most_byte);
        let decent = match (self.several(), slow) {
            (true, _) => decent.max(self.several_bytes()),
            (false, true) => decent.saturating_mul(SLOW_MORE),
            (false, false) => decent.saturating_sub(self.links_byte()),
        };
        let of_round = decent.saturating_sub(self.spent.probe_byte - self.round.0);
        let budget = self.setup.budget.most_byte.map(|most| most.saturating_sub(self.spent.probe_byte));
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    /// So many bytes; on fast links what they carry in so much time. In between, where bursts are as long as trains of
    /// so few bytes and packets as short as the jitter of the machines, up to [`MORE`] times as many.
    pub(super) fn decent(&self, bytes: u64, time_ns: u64) -> u64 {
        // Before the link is known, the sender's own card is. One whose gaps do not show may be slower than it seems.
        let doubt = |error: f64| if self.capacity.clumps() { 1.0 + error } else { 1.0 };
        let rate = self.link.map_or(self.line.min(UNKNOWN), |(capacity, error)| capacity / doubt(error));
        let carried = (rate * time_ns as f64 / 8e9) as u64;
        // A capacity may be absurd: then all that is decent is the most.
        let beyond = carried.saturating_sub((SLOW_SHARE * bytes as f64) as u64);
        let more = STEEP.saturating_mul(beyond).min((MORE - 1).saturating_mul(bytes));
        carried.max(bytes.saturating_add(more))
    }

    /// Time that is left, s.
    pub(super) fn seconds_left(&self) -> f64 {
        let elapsed_s = self.spent.elapsed_s();
        let of_round = self.settings.most_ns as f64 / 1e9 - (elapsed_s - self.round.1);
        let budget = self.setup.budget.most_ns.map(|most| most as f64 / 1e9 - elapsed_s);
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    /// For as many points as a train needs that has only the ends' own noise to outlast, s.
    fn calm_seconds(&self) -> f64 {
        f64::from(self.settings.calm_points * self.packet_byte * 8) / self.near.max(1.0)
    }

    pub(super) fn search_seconds(&self) -> f64 {
        if self.calm {
            return self.calm_seconds();
        }
        let packets = f64::from(self.settings.search_points * self.packet_byte * 8) / self.near.max(1.0);
        let grains = f64::from(self.settings.search_points) * self.grain_s;
        let calls = self.calls_seconds(shared_cpu::SEARCH_CALLS, self.near.max(1.0));
        let packets = packets.max(calls).min(self.settings.search_ns as f64 / 1e9);
        packets.max(self.settings.least_search_ns as f64 / 1e9).max(grains)
    }

    /// As long as the cross traffic's bursts ask for, as far as bytes and time allow.
    pub(super) fn measure_seconds(&self) -> f64 {
        if self.calm {
            return self.calm_seconds().max(self.wanted_seconds);
        }
        let settings = &self.settings;
        let near = self.near.max(self.link.map_or(1.0, |(capacity, _)| LEAST_SHARE * capacity));
        let of_bytes = |bytes: u64| bytes as f64 * 8.0 / near;
        let least = (settings.least_train_ns as f64 / 1e9).min(of_bytes(settings.least_train_byte));
        let each = (f64::from(self.packet_byte) * 8.0 / near).max(self.grain_s);
        let least = least.max(f64::from(settings.points) * each).max(self.calls_seconds(shared_cpu::CALLS, near));
        let bursts = self.burst / (settings.burst_share * near).powi(2);
        let burst_byte = self.decent(settings.burst_byte, settings.burst_byte_ns);
        let most_s = settings.most_train_ns as f64 / 1e9;
        // Where the interval is still too wide: what of its width goes with the time.
        let wanted = bursts.min(of_bytes(burst_byte)).max(self.wanted_seconds).min(most_s).max(least);
        // The head takes its part as well.
        wanted.min(of_bytes(self.bytes_left() / 2)).min(0.8 * self.seconds_left())
    }

    /// Whether the time is enough for many more trains like the last one.
    pub(super) fn affords_another(&self) -> bool {
        TRAINS_LEFT * self.seconds < self.seconds_left()
    }

    /// Whether the capacity is known so poorly that the rate must stay next to the value: packets come in clumps.
    pub(super) fn unsure(&self) -> bool {
        if self.without(Case::Unsure) {
            return false;
        }
        self.capacity.clumps() && self.link.is_some_and(|(_, error)| error > UNSURE)
    }

    /// Notes whether a train's rate was so far from the value that a longer one like it would be lost.
    pub(super) fn see_astray(&mut self, score: &Score, drained: bool, known: &Known) {
        self.astray = drained || known.capacity * score.slope.abs() > ASTRAY * score.rate;
    }

    /// What all trains have told, as the bounds of so much of the belief; `None` where the capacity is known well, or
    /// they tell little.
    fn informed(&self) -> Option<(f64, f64)> {
        let belief = self.belief.as_ref().filter(|_| self.unsure())?;
        let informed = belief.quantile(0.9) <= INFORMED * belief.quantile(0.1);
        informed.then(|| (belief.quantile(0.25), belief.quantile(0.75)))
    }

    /// A value that is open to one side, within what all trains have told.
    pub(super) fn within_told(&self, value: f64) -> f64 {
        self.informed().map_or(value, |(low, high)| value.clamp(low, high))
    }

    /// The value to steer by, after a train that said `value`. Where the capacity is known poorly, so is a correction:
    /// one train weighs no more than its error lets it, against all others or, as long as they tell little, against
    /// a value anywhere below the capacity.
    pub(super) fn steadied(&self, value: f64, score: &Score, drained: bool, known: &Known) -> f64 {
        if !self.unsure() {
            return value;
        }
        let least = score.least.min(known.capacity);
        if let Some((low, high)) = self.informed() {
            return value.clamp(low, high).max(least);
        }
        if drained {
            return value.max(least);
        }
        let (own, anywhere) = (score.error.powi(2), known.capacity.powi(2) / 12.0);
        (value * anywhere + known.capacity / 2.0 * own) / (own + anywhere)
    }

    /// The ratio of the tight link's capacity to the one that gaps show, and its standard error.
    pub(super) fn tight_ratio(&self, narrow: f64) -> Ratio {
        if self.without(Case::TightLink) {
            return Ratio::ONE;
        }
        // Where nothing crosses no link is tight but the narrow one, and gaps of a hand-over show no link.
        // Where a run follows changes, what moved from train to train may be the path.
        if self.calm || self.settings.follow_ns.is_some() {
            return Ratio::ONE;
        }
        tight::ratio(&self.responses, narrow)
    }

    /// Where the tight link may not be the narrow one, a value that still moves from train to train may go on moving:
    /// other links fill and drain as well.
    pub(super) fn doubt(&self, score: &mut Score) {
        if self.without(Case::Doubt) {
            return;
        }
        let Some((narrow, _)) = self.link else { return };
        let other = self.tight_ratio(narrow).other;
        let moved = self.told.map_or(0.0, |(before, ..)| (score.value() - before).abs());
        score.error = (score.error * (1.0 + (DOUBT - 1.0) * other)).hypot(MOVING * other * moved);
    }

    /// Keeps what a train reports of the tight link.
    pub(super) fn respond(&mut self, score: &Score, known: &Known) {
        if self.responses.len() == MOST_RESPONSES {
            self.responses.remove(0);
        }
        let mut response = Response {
            rate: score.rate,
            slope: score.slope,
            slope_error: score.end_error / known.capacity,
            spread: (score.burst / score.seconds()).sqrt().hypot(score.idle),
        };
        if self.steers {
            // An account over many trains has one slope; each of its trains has its own.
            let [.., from, to] = self.begins[..] else { return };
            let (from, to) = (&self.account[from], &self.account[to]);
            let seconds = (to.at_ns - from.at_ns) / 1e9;
            let bits = (to.sent_bit - from.sent_bit + to.arrived_bit - from.arrived_bit) / 2.0;
            let (rate, slope) = (bits / seconds, (to.delay_ns - from.delay_ns) / (seconds * 1e9));
            let slope_error = account::FRESH * known.others_ns(score.dispersion) / (seconds * 1e9);
            response = Response { rate, slope, slope_error, spread: (score.burst / seconds).sqrt() };
        }
        self.responses.push(response);
    }

    pub(super) fn known(&self) -> Option<Known> {
        let (narrow, narrow_error) = self.link?;
        let ratio = self.tight_ratio(narrow);
        let capacity = ratio.value * narrow;
        let capacity_error = narrow_error.max(self.settings.least_capacity_error).hypot(ratio.error / ratio.value);
        let stamp_error_ns = self.setup.ability.stamp_error_ns;
        let service_ns = f64::from(self.packet_byte) * 8e9 / capacity;
        let shared = self.shares_processor() && !self.steers;
        let alone = self.links.is_some() || self.capacity.clumps();
        Some(Known {
            capacity,
            capacity_error,
            base_ns: self.base_ns,
            stamp_error_ns,
            held_ns: self.held_now_ns,
            unsettled_ns: 0.0,
            least_burst: 0.0,
            // Nothing but the one link has been seen on it.
            most_dispersion: if shared && alone { train_estimate::FEW_BURSTS } else { f64::INFINITY },
            shared,
            found: self.steers,
            fresh_share: account::FRESH,
            drains: !self.without(Case::Drains),
            grain_ns: self.grain_s * 1e9,
            service_ns,
            idle_share: self.settings.idle_share,
            // Where nothing crosses there is next to nothing to wait for.
            other_packets: if self.calm { CALM_OTHERS } else { 1.0 } * self.settings.other_packets,
            other_packet_bit: f64::from(self.packet_byte) * 8.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::vtare::belief::Belief;
    use crate::avb::vtare::capacity::Capacity;
    use crate::avb::{Ability, Setup, VtareSettings};

    /// Half of 1 Gbit/s is assumed to be free, the queue ran empty three times, and the cross traffic varies.
    fn astray(clumps: bool) -> Vtare {
        let ability = Ability { least_gap_ns: 18_000.0, most_group: 44, ..Ability::default() };
        let mut method = Vtare::new(VtareSettings::default(), Setup { ability, ..Setup::default() });
        method.stage = Stage::Measure;
        method.link = Some((1e9, 0.2));
        method.near = 5e8;
        // Several links are out of the question, and one was not told.
        method.links = Some(0.0);
        (method.drained, method.astray, method.burst, method.seconds) = (3, true, 5e13, 0.003);
        method.capacity = if clumps { Capacity::clumped() } else { Capacity::default() };
        method.belief = Some(Belief::up_to(1e9));
        method
    }

    #[test]
    fn where_the_capacity_is_known_poorly_a_train_stays_next_to_the_value_and_is_no_longer_for_being_wrong() {
        let planned = |clumps| {
            let mut method = astray(clumps);
            let train = method.plan(Timestamp::from_nanos(1_000_000));
            let Spacing::Primed { packets, gap_ns, .. } = train.spacing else { panic!("{train:?}") };
            (f64::from(packets) * 12e12 / gap_ns, packets, method.seconds)
        };
        let ((free, _, _), (kept, group, seconds)) = (planned(false), planned(true));
        assert!(free > 6e8, "{free}");
        assert!((5e8..=5.51e8).contains(&kept), "{kept}");
        assert!(group >= 2 && seconds <= 0.003 * LONGER_ASTRAY + 1e-9, "{group} {seconds}");
    }

    #[test]
    fn what_all_trains_told_outweighs_a_value_that_is_open_to_one_side() {
        let mut method = astray(true);
        assert_eq!(method.within_told(9e8), 9e8);
        let belief = method.belief.as_mut().expect("given");
        belief.learn(4.8e8, 1e9, 5e6);
        belief.learn(5.1e8, 5.1e8, 2e7);
        assert!(method.within_told(9e8) < 5.5e8);
        // A capacity that is known leaves the value as the account has it.
        method.capacity = Capacity::default();
        assert_eq!(method.within_told(9e8), 9e8);
    }
}
