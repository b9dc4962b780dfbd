//! Whether several links store and forward, so that their queues are in the delays as well.
//!
//! A link sends a packet on when it has come whole. So a small packet takes less time than a large one, on an empty
//! path, by the difference of their bits over each link's capacity: `d_large - d_small = (L - l) sum of 1/C_i`. In
//! units of what the tight link takes that is how many links there are which are as slow; a fast card, or a shaper that
//! counts bytes, adds next to nothing.
//= Jacobson 1997 (pathchar); Downey 1999, Using pathchar to estimate Internet link characteristics: the least of many
//= delays

use super::Case;
use super::continuous::BURSTY;
use super::points::Epoch;
use super::{Stage, Vtare};
use crate::avb::{Observation, Packet, Spacing, Train};

/// Small packets, so many packets of the tight link apart, and so many times what a call takes.
const PACKETS: u32 = 48;
const APART: f64 = 8.0;
const CALLS: f64 = 4.0;

/// Links as slow as the tight one, at least, for them to be several: one link and a card twice as fast before it make
/// 1.5. More than the second are a queue that was there all the time.
const SEVERAL: f64 = 2.2;
const MOST: f64 = 12.0;

/// Fewer than this are none: the small packets met a queue. So often they are sent.
const NONE: f64 = -0.5;
const TRIES: u32 = 3;

/// So many packets of a train must have its least delay, to so much of what the tight link takes for one.
const CONFIRMED: usize = 3;
const ALIKE: f64 = 1.0;

/// Where less than this share of the link is free, hardly a packet meets empty queues.
const LEAST_FREE: f64 = 0.1;

/// One link is told where this share of the small packets met no queue.
const EMPTY: f64 = 0.25;

/// A packet is small below one part in so many of a large one.
const SMALLER: u32 = 4;

/// Such a train takes this share of the time that is left, at most.
const SHARE: f64 = 0.1;

/// On fast links the bytes are what they carry in this time, s, up to so many times the setting.
const SEVERAL_S: f64 = 0.025;
const SEVERAL_MORE: f64 = 4.0;

impl Vtare {
    /// Small packets, far apart, where it matters whether there are several links and nobody knows yet; large ones
    /// behind them, if it seems so: the least delay so far may be that of a queue that was never seen empty.
    pub(super) fn sound_links(&mut self) -> Option<Train> {
        if self.without(Case::Links) {
            return None;
        }
        let (capacity, _) = self.link?;
        let least_byte = self.setup.ability.least_packet_byte;
        let asks = self.asks_for_one_link();
        let measures = self.stage == Stage::Measure || asks;
        let open = self.several_open() && measures && least_byte * SMALLER < self.packet_byte;
        let seems = self.small_ns.is_some_and(|small_ns| self.links_of(self.base_ns, small_ns, capacity) > SEVERAL);
        // Where the time is short it is asked at once or never, else where bursts were seen.
        let first = self.slow && self.account.is_empty() && self.scores.is_empty() && (self.tries == 0 || seems);
        let bursts = !self.steers && self.dispersion > BURSTY && self.near > LEAST_FREE * capacity;
        let gap_ns = APART * f64::from(self.packet_byte) * 8e9 / capacity;
        let gap_ns = gap_ns.max(CALLS * self.setup.ability.least_gap_ns);
        let short = gap_ns * f64::from(PACKETS) / 1e9 < SHARE * self.seconds_left();
        if !(open && (first || bursts || asks) && short && (seems || self.tries < TRIES)) {
            return None;
        }
        self.asked_in = std::mem::replace(&mut self.stage, Stage::Links);
        self.tries += u32::from(!seems);
        let size_byte = if seems { self.packet_byte } else { least_byte };
        Some(Train { packets: PACKETS, size_byte, spacing: Spacing::Constant { gap_ns }, idle_before_ns: 0 })
    }

    /// What packets far apart tell. The delays of small ones are no others' points: the least delay depends on the
    /// size.
    pub(super) fn hear_links(&mut self, observation: &Observation, epoch: Epoch) {
        self.stage = self.asked_in;
        self.account.clear();
        let mut delays: Vec<f64> = observation.packets.iter().filter_map(|packet| epoch.delay_ns(packet)).collect();
        delays.sort_by(f64::total_cmp);
        let &[least_ns, .., confirmed_ns] = &delays[..CONFIRMED.min(delays.len())] else { return };
        let large = observation.train.size_byte == self.packet_byte;
        if large {
            self.base_ns = self.base_ns.min(least_ns);
        } else {
            self.small_ns = Some(self.small_ns.map_or(least_ns, |before| before.min(least_ns)));
        }
        let (Some((capacity, _)), Some(small_ns)) = (self.link, self.small_ns) else { return };
        // A least delay that others do not have as well is that of something that stalled, and let all go at once.
        let alike = self.links_of(confirmed_ns, least_ns, capacity) < ALIKE;
        let links = if alike { self.links_of(self.base_ns, small_ns, capacity) } else { NONE };
        let told = if links > SEVERAL { large } else { large || links > NONE || self.tries >= TRIES };
        // Where most packets met queues, the least delay of small ones may be that of a queue.
        let empty = delays.partition_point(|&ns| self.links_of(ns, least_ns, capacity) < ALIKE);
        self.one_link = told && links < SEVERAL && empty as f64 >= EMPTY * delays.len() as f64;
        // Without bursts several links are no matter but for what a single one allows.
        self.many_links = told && links > SEVERAL && self.may_share() && self.dispersion <= BURSTY;
        self.links = (told && !self.many_links).then_some(links);
        if self.several() {
            self.begin_steering();
        }
        // What they left is next to nothing.
        let last = observation.packets.iter().rev().find_map(Packet::left);
        self.left = last.map_or(self.left, |last| (epoch.since_ns(last), 0.0));
        self.hear_flood();
    }

    /// Links as slow as the tight one: what large packets take longer than small ones.
    fn links_of(&self, large_ns: f64, small_ns: f64, capacity: f64) -> f64 {
        let smaller_byte = self.packet_byte.saturating_sub(self.setup.ability.least_packet_byte);
        (large_ns - small_ns) * capacity / (f64::from(smaller_byte) * 8e9)
    }

    /// Whether it is to be found out.
    fn several_open(&self) -> bool {
        let may = self.settings.several_byte > 0 && self.setup.budget.most_byte.is_none() && self.bucket_byte.is_none();
        may && self.links.is_none() && !self.calm && !self.capacity.clumps()
    }

    /// Bytes that are kept for that as long as nobody knows.
    pub(super) fn links_byte(&self) -> u64 {
        let open = self.several_open() && self.link.is_some() && self.stage != Stage::Links;
        let least_byte = self.setup.ability.least_packet_byte;
        if open { u64::from(PACKETS) * u64::from(self.packet_byte + TRIES * least_byte) } else { 0 }
    }

    /// Whether several links were found.
    pub(super) fn several(&self) -> bool {
        self.links.is_some_and(|links| links > SEVERAL && links < MOST)
    }

    /// Bytes for an account that several links' queues blur.
    pub(super) fn several_bytes(&self) -> u64 {
        let carried = self.link.map_or(0.0, |(capacity, _)| capacity * SEVERAL_S / 8.0);
        let least = self.settings.several_byte as f64;
        carried.clamp(least, SEVERAL_MORE * least) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avb::{Setup, VtareSettings};
    use vtare_units::Timestamp;

    /// Packets of a train that met these queues, us, on links of 100 Mbit/s each with 300 us of delay.
    fn seen(train: &Train, links: u64, queued_us: impl Fn(u64) -> u64) -> Observation {
        let Spacing::Constant { gap_ns } = train.spacing else { panic!("{train:?}") };
        let packet = |index: u64| {
            let left = 1_000_000_000 + index * gap_ns as u64;
            let service_ns = u64::from(train.size_byte) * 80 * links;
            Packet {
                scheduled: Timestamp::from_nanos(left),
                sent: Some(Timestamp::from_nanos(left)),
                kernel_sent: None,
                received: Some(Timestamp::from_nanos(left + links * 300_000 + service_ns + queued_us(index) * 1_000)),
                place: Some(index as u32),
                size_byte: train.size_byte,
                call: index as u32,
                group: None,
                descheduled: false,
            }
        };
        let packets = (0..u64::from(train.packets)).map(packet).collect();
        let finished = Timestamp::from_nanos(2_000_000_000);
        Observation { train: train.clone(), packets, finished, receiver_drops: None, duplicates: None }
    }

    /// Behind a train that saw bursts, and an empty queue if `base_us` is what an empty path takes.
    fn measuring(base_us: u64) -> (Vtare, Epoch) {
        let mut method = Vtare::new(VtareSettings::default(), Setup::default());
        (method.link, method.near, method.dispersion) = (Some((1e8, 0.01)), 5e7, 8.0);
        (method.stage, method.base_ns) = (Stage::Measure, base_us as f64 * 1e3);
        (method, Epoch::at(Timestamp::from_nanos(0), Timestamp::from_nanos(0)))
    }

    #[test]
    fn three_links_are_told_by_small_packets_and_large_ones_behind_them() {
        let (mut method, epoch) = measuring(3 * 420);
        let small = method.sound_links().expect("bursts were seen");
        assert!(small.size_byte < 100 && small.bytes() < 5_000, "{small:?}");
        // One in four meets empty queues.
        method.hear_links(&seen(&small, 3, |index| index % 4 * 200), epoch);
        assert_eq!((method.several(), method.steers), (false, false));
        let large = method.sound_links().expect("it seems so");
        assert_eq!(large.size_byte, 1500);
        method.hear_links(&seen(&large, 3, |index| index % 4 * 200), epoch);
        assert!((method.links.expect("told") - 3.0).abs() < 0.01);
        assert!(method.several() && method.steers && method.sound_links().is_none());
        assert_eq!(method.bytes_left(), method.settings.several_byte);
    }

    #[test]
    fn one_link_is_told_by_small_packets_alone_and_nothing_changes() {
        let (mut method, epoch) = measuring(420);
        let before = method.bytes_left();
        let small = method.sound_links().expect("bursts were seen");
        method.hear_links(&seen(&small, 1, |_| 0), epoch);
        assert_eq!((method.links.map(f64::round), method.several(), method.steers), (Some(1.0), false, false));
        assert!(method.sound_links().is_none());
        assert!(method.bytes_left() > before, "what was kept for large ones is free again");
    }

    #[test]
    fn a_queue_that_was_never_seen_empty_is_not_several_links() {
        // All trains before met 300 us.
        let (mut method, epoch) = measuring(420 + 300);
        let small = method.sound_links().expect("bursts were seen");
        method.hear_links(&seen(&small, 1, |_| 0), epoch);
        let large = method.sound_links().expect("it seems so");
        method.hear_links(&seen(&large, 1, |index| if index > 40 { 0 } else { 300 }), epoch);
        assert_eq!((method.several(), method.base_ns), (false, 420e3));
        // Small packets that met one are sent again, three times at most.
        let (mut method, epoch) = measuring(420);
        for _ in 0..TRIES {
            let small = method.sound_links().expect("not told yet");
            method.hear_links(&seen(&small, 1, |_| 900), epoch);
        }
        assert!(method.sound_links().is_none() && !method.several());
    }

    #[test]
    fn what_was_let_go_at_once_tells_no_links() {
        let (mut method, epoch) = measuring(3 * 420);
        let small = method.sound_links().expect("bursts were seen");
        method.hear_links(&seen(&small, 3, |index| index % 4 * 200), epoch);
        let large = method.sound_links().expect("it seems so");
        method.hear_links(&seen(&large, 3, |index| (48 - index) * 900), epoch);
        assert!(!method.several() && method.links.is_some());
    }

    #[test]
    fn small_packets_that_do_not_come_through_are_not_waited_for() {
        let (mut method, _) = measuring(420);
        for _ in 0..TRIES {
            let train = method.plan(Timestamp::from_nanos(0));
            assert_eq!((train.packets, method.stage), (PACKETS, Stage::Links));
            let nobody = Observation { packets: Vec::new(), ..seen(&train, 1, |_| 0) };
            method.hear(&nobody);
        }
        let train = method.plan(Timestamp::from_nanos(0));
        assert_eq!((train.size_byte, method.stage), (1500, Stage::Measure));
    }

    #[test]
    fn it_is_not_asked_for_where_the_bytes_are_the_users_or_the_setting_says_no() {
        let (mut method, _) = measuring(420);
        method.setup.budget.most_byte = Some(10_000_000);
        assert!(method.sound_links().is_none());
        let (mut method, _) = measuring(420);
        method.settings.several_byte = 0;
        assert!(method.sound_links().is_none());
    }
}
