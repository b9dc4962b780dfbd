//! What is sent next, within what may be spent.

use vtare_units::{Monotonic, Timestamp};

use super::plan::{self, Wanted};
use super::slope::Known;
use super::{SETTLE, Stage, Vtare};
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

/// A link that carries more than this share of the bytes in the time is fast: for each byte beyond, so many more may be spent, up to so
/// many times the bytes.
const SLOW_SHARE: f64 = 0.15;
const STEEP: u64 = 32;
const MORE: u64 = 8;

/// On a path that nothing crosses, what other links' queues may differ by is this share of what it is for even cross traffic.
const CALM_OTHERS: f64 = 0.8;

/// Calls of a first train whose packets leave several in a call, and bytes of each at most.
const FIRST_CALLS: u32 = 12;
const FIRST_CALL_BYTE: u32 = 36_000;

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
            Stage::Search | Stage::Measure => {}
        }
        let (capacity, _) = self.link.unwrap_or((self.line, 1.0));
        let near = self.near.max(LEAST_SHARE * capacity);
        let measuring = self.stage == Stage::Measure;
        let before = self.seconds;
        self.seconds = if measuring { self.measure_seconds() } else { self.search_seconds() };
        if measuring && before > 0.0 && self.capacity.clumps() {
            // Where packets come in clumps a short train says little, and a long one at the wrong rate is lost as a whole: step by step.
            self.seconds = self.seconds.min(LONGER * before);
        }
        // Between two groups the queue must last as well.
        let group = plan::group(near, size_byte, &self.setup.ability);
        let held = self.prime * (self.burst * self.seconds).sqrt()
            + capacity * self.grain_s
            + self.capacity.credit_bit()
            + f64::from(4 + 2 * (group - 1)) * packet_bit;
        let most_queue_bit = self.settings.most_queue_ns as f64 / 1e9 * capacity;
        let held = if self.calm { 0.0 } else { held };
        let held = held.min(most_queue_bit).min(self.room_bit).min(self.bytes_left() as f64 * 8.0 / 3.0);
        let since_s = self.epoch.map_or(0.0, |epoch| (epoch.since_ns(now) - self.left.0) / 1e9);
        let left = (capacity * self.left.1 / 1e9 - near * since_s.max(0.0)).max(0.0);
        // A link before the tight one may stretch the head to its own capacity, and the tight link sends on meanwhile: that much of the
        // head is gone when the stream begins.
        let inflow = self.inflow(capacity, near);
        let kept = 1.0 - near / inflow;
        let needed = (held - left).max(0.0);
        let prime_bit = needed / kept.max(LEAST_KEPT);
        let prime_bit =
            prime_bit.min(0.2 * self.seconds_left().max(0.0) * inflow).min(self.bytes_left() as f64 * 8.0 / 2.5);
        // What is in the queue already needs not be sent again: by the end of the train it shall hold as much as is wanted.
        let margin = match (measuring, self.calm) {
            (true, _) => 0.02,
            (false, true) => 0.03,
            (false, false) => 0.1,
        };
        // A queue that ran empty is filled more, and faster than the value by as much as the value changes from train to train.
        let swing = 1.0 * f64::from(self.drained) * (self.burst / self.seconds).sqrt();
        // Where hardly anything of a head is kept, the stream fills the queue.
        let fill = (needed - prime_bit * kept).max(0.0) / self.seconds;
        let rate = (near * (1.0 + margin) + swing + fill - (left - held).max(0.0) / self.seconds).min(1.2 * capacity);
        let wanted = Wanted { prime_bit, rate: rate.max(0.4 * near), seconds: self.seconds, inflow };
        let wanted = Wanted { seconds: self.seconds + SETTLE * prime_bit / capacity, ..wanted };
        let (train, head) = plan::train(&wanted, size_byte, &self.setup.ability, self.bytes_left());
        self.head = head;
        train
    }

    /// Bytes that may still be spent: of the budget, or else of what is decent on such a link.
    pub(super) fn bytes_left(&self) -> u64 {
        let decent = self.decent(self.settings.most_byte, self.settings.most_byte_ns);
        let of_round = decent.saturating_sub(self.spent.probe_byte - self.round.0);
        let budget = self.setup.budget.most_byte.map(|most| most.saturating_sub(self.spent.probe_byte));
        match (budget, self.settings.follow_ns) {
            (Some(budget), None) => budget,
            (Some(budget), Some(_)) => budget.min(of_round),
            (None, _) => of_round,
        }
    }

    /// So many bytes; on fast links what they carry in so much time. In between, where bursts are as long as trains of so few bytes and
    /// packets as short as the jitter of the machines, up to [`MORE`] times as many.
    pub(super) fn decent(&self, bytes: u64, time_ns: u64) -> u64 {
        // Before the link is known, the sender's own card is.
        let rate = self.link.map_or(self.line.min(UNKNOWN), |(capacity, _)| capacity);
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
        packets.min(self.settings.search_ns as f64 / 1e9).max(self.settings.least_search_ns as f64 / 1e9).max(grains)
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
        let least = least.max(f64::from(settings.points) * each);
        let bursts = self.burst / (settings.burst_share * near).powi(2);
        let burst_byte = self.decent(settings.burst_byte, settings.burst_byte_ns);
        let most_s = settings.most_train_ns as f64 / 1e9;
        // Where the interval is still too wide: what of its width goes with the time.
        let wanted = bursts.min(of_bytes(burst_byte)).max(self.wanted_seconds).min(most_s).max(least);
        // The head takes its part as well.
        wanted.min(of_bytes(self.bytes_left() / 2)).min(0.8 * self.seconds_left())
    }

    pub(super) fn known(&self) -> Option<Known> {
        let (capacity, capacity_error) = self.link?;
        let capacity_error = capacity_error.max(self.settings.least_capacity_error);
        let stamp_error_ns = self.setup.ability.stamp_error_ns;
        let service_ns = f64::from(self.packet_byte) * 8e9 / capacity;
        Some(Known {
            capacity,
            capacity_error,
            base_ns: self.base_ns,
            stamp_error_ns,
            held_ns: self.held_now_ns,
            grain_ns: self.grain_s * 1e9,
            service_ns,
            // Where nothing crosses there is next to nothing to wait for.
            other_packets: if self.calm { CALM_OTHERS } else { 1.0 } * self.settings.other_packets,
            other_packet_bit: f64::from(self.packet_byte) * 8.0,
        })
    }
}
