use serde::{Deserialize, Serialize};

use super::classic::{
    Rules, between, from_0, gap_ns, least, mean, median, rate, rate_bit_per_s, size_within, whole_ns,
};
use super::kite::SLOW_TRAINS;
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of Kite2: trains, or trains of pairs, from a rate that is too high down until gaps arrive as they were
/// sent.
///
/// A reconstruction: known are the two kinds of train, at least three iterations from the highest rate downwards until
/// the gaps agree, instant values that are reduced to one, an adaptive size of the train, and the values of Table 2.
/// Step law, thresholds and the final statistic are not.
//= Kachan, Kirova, Korniiichuk 2017, Investigated tools and Table 2; Kirova et al. 2019, section 2.1
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kite2Settings {
    /// What is sent.
    pub kind: Kite2Kind,
    /// Payload of a packet (MSS), bytes of UDP payload.
    pub mss_byte: u32,
    /// Rate to start with, bit/s. While the path adds nothing to the gaps it doubles, up to what the sender can.
    pub send_bit_per_s: f64,
    /// Share of the send rate that all probes are to occupy: it sets the silence between trains.
    pub occupied_share: f64,
    /// Longest silence between trains, ns. Reconstructed: the share alone would mean minutes, and the paper saw 16 %
    /// occupied where it asked for 1 %.
    pub most_idle_ns: f64,
    /// Instant values that are reduced to one, by their median. At least three iterations are known; the median is
    /// reconstructed.
    pub iterations: u32,
    /// Packets of the first train.
    pub packets: u32,
    /// Most packets that a train grows to.
    pub most_packets: u32,
    /// The train doubles when instant values differ by more than this share, and halves when they agree within a
    /// quarter of it. Reconstructed.
    pub spread_share: f64,
    /// Gaps agree within this share. Reconstructed.
    pub tolerance_share: f64,
    /// From pair to pair in units of the gap inside. Reconstructed.
    pub pair_spacing: f64,
    /// Loss that is congestion. Reconstructed: the tool was seen to work at 1 %.
    pub most_loss: f64,
    /// Trains after which it ends with what it has.
    pub most_trains: u32,
}

/// What Kite2 sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kite2Kind {
    /// Pairs with long gaps between them.
    #[default]
    TrainOfPairs,
    /// A train at a constant rate.
    PacketTrain,
}

impl Default for Kite2Settings {
    fn default() -> Self {
        Self {
            kind: Kite2Kind::TrainOfPairs,
            mss_byte: 1472,
            send_bit_per_s: 100e6,
            occupied_share: 0.0001,
            most_idle_ns: 100_000_000.0,
            iterations: 3,
            packets: 100,
            most_packets: 400,
            spread_share: 0.1,
            tolerance_share: 0.05,
            pair_spacing: 10.0,
            most_loss: 0.05,
            most_trains: 200,
        }
    }
}

impl Kite2Settings {
    /// The optimised column of Table 2.
    //= Kachan, Kirova, Korniiichuk 2017, Table 2
    #[must_use]
    pub fn kachan_optimized() -> Self {
        Self {
            kind: Kite2Kind::PacketTrain,
            mss_byte: 8972,
            send_bit_per_s: 1e9,
            occupied_share: 0.01,
            ..Self::default()
        }
    }

    /// Packet trains, all else as by default.
    #[must_use]
    pub fn packet_train() -> Self {
        Self { kind: Kite2Kind::PacketTrain, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("mss_byte", self.mss_byte, 1)?;
        rate("send_bit_per_s", self.send_bit_per_s)?;
        between("occupied_share", self.occupied_share, 0.0, 1.0)?;
        from_0("most_idle_ns", self.most_idle_ns, 1e12)?;
        least("iterations", self.iterations, 1)?;
        least("packets", self.packets, 2)?;
        least("most_packets", self.most_packets, self.packets)?;
        between("spread_share", self.spread_share, 0.0, 10.0)?;
        between("tolerance_share", self.tolerance_share, 0.0, 1.0)?;
        between("pair_spacing", self.pair_spacing, 1.0, 1e6)?;
        between("most_loss", self.most_loss, 0.0, 1.0)?;
        least("most_trains", self.most_trains, 1)
    }
}

/// Where the search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Up to a rate at which gaps grow.
    Up,
    /// Down to one at which they do not.
    Down,
}

/// Kite2 under way.
#[derive(Clone, Debug)]
pub(super) struct Kite2 {
    settings: Kite2Settings,
    ability: Ability,
    size_byte: u32,
    packets: u32,
    rate_bit_per_s: f64,
    phase: Phase,
    /// Iterations downwards.
    downs: u32,
    /// The last rate at which gaps grew, bit/s.
    grew_bit_per_s: f64,
    instant: Vec<f64>,
    trains: u32,
    /// Trains in a row that left more slowly than asked.
    slow: u32,
    end: Option<Stopped>,
}

impl Kite2 {
    pub(super) fn new(settings: Kite2Settings, setup: &Setup) -> Self {
        let size_byte = size_within(settings.mss_byte.saturating_add(setup.ability.ip_header_byte), &setup.ability);
        let mut it = Self {
            settings,
            ability: setup.ability,
            size_byte,
            packets: settings.packets,
            rate_bit_per_s: settings.send_bit_per_s,
            phase: Phase::Up,
            downs: 0,
            grew_bit_per_s: 0.0,
            instant: Vec::new(),
            trains: 0,
            slow: 0,
            end: None,
        };
        it.rate_bit_per_s = it.rate_bit_per_s.min(it.most_bit_per_s());
        it
    }

    fn most_bit_per_s(&self) -> f64 {
        rate_bit_per_s(self.size_byte, self.ability.least_gap_ns.max(1e-3))
    }

    /// Mean gaps, sent and received, ns; in a train of pairs those inside the pairs.
    fn gaps_ns(&self, observation: &Observation) -> Option<(f64, f64)> {
        let arrivals = observation.arrivals();
        let pairs = self.settings.kind == Kite2Kind::TrainOfPairs;
        let wanted = arrivals
            .windows(2)
            .filter(|pair| pair[1].index == pair[0].index + 1 && (!pairs || pair[0].index.is_multiple_of(2)));
        let (sent, received): (Vec<f64>, Vec<f64>) =
            wanted.map(|pair| (pair[1].sent_ns - pair[0].sent_ns, pair[1].received_ns - pair[0].received_ns)).unzip();
        mean(&sent).zip(mean(&received)).filter(|&(sent, received)| sent > 0.0 && received > 0.0)
    }

    fn judge(&mut self, sent_ns: f64, received_ns: f64, lossy: bool) {
        let (sent, received) = (rate_bit_per_s(self.size_byte, sent_ns), rate_bit_per_s(self.size_byte, received_ns));
        let agree = received_ns <= sent_ns * (1.0 + self.settings.tolerance_share) && !lossy;
        match (self.phase, agree) {
            (Phase::Up, true) => {
                let most = self.most_bit_per_s();
                let slow = sent < 0.95 * self.rate_bit_per_s;
                self.slow = if slow { self.slow + 1 } else { 0 };
                if self.rate_bit_per_s >= most || self.slow >= SLOW_TRAINS {
                    self.instant.push(sent);
                    self.end = Some(Stopped::SenderLimited);
                    return;
                }
                if slow {
                    // It may have been a pause of this machine: the same rate again.
                    return;
                }
                self.rate_bit_per_s = (2.0 * self.rate_bit_per_s).min(most);
            }
            (_, false) => {
                self.phase = Phase::Down;
                self.downs += 1;
                self.grew_bit_per_s = self.rate_bit_per_s;
                // What arrived is the next to be tried; a little less where that would not be less.
                let next = if lossy { received.min(0.9 * sent) } else { received };
                self.rate_bit_per_s = next.min(self.rate_bit_per_s * (1.0 - self.settings.tolerance_share / 2.0));
            }
            (Phase::Down, true) => {
                self.downs += 1;
                self.instant.push(received.min(sent));
                self.adapt();
                // One train may agree by luck, or the one before may have met a burst: the next value is looked for
                // half way back.
                if self.grew_bit_per_s > self.rate_bit_per_s * (1.0 + self.settings.tolerance_share) {
                    self.rate_bit_per_s = f64::midpoint(self.rate_bit_per_s, self.grew_bit_per_s);
                }
                if self.instant.len() >= self.settings.iterations as usize && self.downs >= self.settings.iterations {
                    self.end = Some(Stopped::Converged);
                }
            }
        }
        if self.rate_bit_per_s < 1e3 {
            self.end = Some(Stopped::GaveUp);
        }
    }

    /// The size of the train follows the spread of the instant values.
    fn adapt(&mut self) {
        let [.., before, now] = self.instant[..] else { return };
        let spread = (before - now).abs() / before.max(now);
        if spread > self.settings.spread_share {
            self.packets = self.packets.saturating_mul(2).min(self.settings.most_packets);
        } else if spread < self.settings.spread_share / 4.0 {
            self.packets = (self.packets / 2).max(self.settings.packets);
        }
    }
}

impl Rules for Kite2 {
    fn name(&self) -> &'static str {
        "kite2"
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.mss_byte.saturating_add(self.ability.ip_header_byte))
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if let Some(end) = self.end {
            return Err(end);
        }
        if self.trains >= self.settings.most_trains {
            return Err(Stopped::GaveUp);
        }
        let inside_ns = gap_ns(self.size_byte, self.rate_bit_per_s);
        let spacing = match self.settings.kind {
            Kite2Kind::PacketTrain => Spacing::Constant { gap_ns: inside_ns },
            Kite2Kind::TrainOfPairs => Spacing::Pairs { inside_ns, between_ns: inside_ns * self.settings.pair_spacing },
        };
        // Pairs are whole.
        let packets = self.packets.next_multiple_of(2);
        let train = Train { packets, size_byte: self.size_byte, spacing, idle_before_ns: 0 };
        let share_ns = train.bytes() as f64 * 8e9 / (self.settings.occupied_share * self.settings.send_bit_per_s);
        let idle_ns = if self.trains == 0 { 0.0 } else { share_ns.min(self.settings.most_idle_ns) };
        Ok(train.after_idle(whole_ns(idle_ns)))
    }

    fn observe(&mut self, observation: &Observation) {
        self.trains += 1;
        let lossy = observation.loss().is_some_and(|loss| loss > self.settings.most_loss);
        if let Some((sent_ns, received_ns)) = self.gaps_ns(observation) {
            self.judge(sent_ns, received_ns, lossy);
        }
    }

    fn silent(&mut self) {
        self.trains += 1;
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some(avb) = median(&self.instant) else { return Estimate::none(spent, stopped) };
        let mut estimate = Estimate::of(spent, stopped, avb);
        estimate.at_least = stopped == Stopped::SenderLimited;
        estimate.notes.push(
            "Kite2's rules are reconstructed: its step law, thresholds and final statistic were not published"
                .to_owned(),
        );
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::{even, seen};
    use super::*;

    #[test]
    fn it_doubles_until_gaps_grow_and_then_follows_what_arrives() {
        let mut it = Kite2::new(Kite2Settings::packet_train(), &Setup::default());
        assert_eq!(it.next().expect("first").spacing, Spacing::Constant { gap_ns: 120_000.0 });
        it.observe(&even(50, 1500, 120_000.0, 120_000.0));
        assert_eq!(it.next().expect("second").spacing, Spacing::Constant { gap_ns: 60_000.0 });
        it.observe(&even(50, 1500, 60_000.0, 80_000.0));
        assert_eq!(it.next().expect("third").spacing, Spacing::Constant { gap_ns: 80_000.0 });
        it.observe(&even(50, 1500, 80_000.0, 80_100.0));
        it.observe(&even(50, 1500, 80_000.0, 80_100.0));
        assert!(it.next().is_ok());
        it.observe(&even(50, 1500, 80_000.0, 80_000.0));
        assert_eq!(it.next(), Err(Stopped::Converged));
        let avb = it.estimate(&Spent::default(), Stopped::Converged).avb_bit_per_s.expect("three values");
        assert!((avb / 149.81e6 - 1.0).abs() < 1e-4, "{avb}");
    }

    #[test]
    fn three_slow_trains_in_a_row_are_the_sender_and_one_is_a_pause() {
        let mut it = Kite2::new(Kite2Settings::packet_train(), &Setup::default());
        (0..2).for_each(|_| it.judge(150_000.0, 150_000.0, false));
        assert_eq!((it.rate_bit_per_s, it.end), (100e6, None));
        it.judge(120_000.0, 120_000.0, false);
        assert_eq!(it.rate_bit_per_s, 200e6);
        (0..3).for_each(|_| it.judge(80_000.0, 80_000.0, false));
        assert_eq!((it.end, it.instant), (Some(Stopped::SenderLimited), vec![150e6]));
    }

    #[test]
    fn where_packets_are_lost_it_goes_down_by_a_tenth_at_least() {
        let mut it = Kite2::new(Kite2Settings::packet_train(), &Setup::default());
        it.judge(120_000.0, 120_000.0, true);
        assert_eq!((it.rate_bit_per_s, it.phase), (90e6, Phase::Down));
    }

    #[test]
    fn after_gaps_that_agreed_it_looks_half_way_back_to_those_that_grew() {
        let mut it = Kite2::new(Kite2Settings::packet_train(), &Setup::default());
        it.judge(120_000.0, 200_000.0, false);
        assert_eq!(it.rate_bit_per_s, 60e6);
        it.judge(200_000.0, 200_000.0, false);
        assert_eq!(it.rate_bit_per_s, 80e6);
        it.judge(150_000.0, 160_000.0, false);
        assert_eq!(it.rate_bit_per_s, 75e6);
    }

    #[test]
    fn of_a_train_of_pairs_only_the_gaps_inside_count() {
        let it = Kite2::new(Kite2Settings::default(), &Setup::default());
        let packets = [(0.0, 0.0), (10.0, 30.0), (100.0, 110.0), (110.0, 130.0), (200.0, 205.0), (210.0, 245.0)];
        let packets = packets.map(|(sent, received)| (sent * 1e3, Some(received * 1e3)));
        assert_eq!(it.gaps_ns(&seen(1500, &packets)), Some((10_000.0, 30_000.0)));
    }

    #[test]
    fn the_train_grows_where_instant_values_differ() {
        let mut it = Kite2::new(Kite2Settings { iterations: 9, ..Kite2Settings::packet_train() }, &Setup::default());
        it.phase = Phase::Down;
        it.judge(100_000.0, 100_000.0, false);
        it.judge(80_000.0, 80_000.0, false);
        assert_eq!(it.packets, 200);
        it.judge(100_000.0, 100_000.0, false);
        assert_eq!(it.packets, 400);
        it.judge(100_000.0, 100_000.0, false);
        assert_eq!(it.packets, 200);
    }

    #[test]
    fn silence_is_set_by_the_share_and_has_a_limit() {
        let mut it = Kite2::new(
            Kite2Settings::kachan_optimized(),
            &Setup { ability: Ability { most_packet_byte: 9000, ..Ability::default() }, ..Setup::default() },
        );
        it.silent();
        // 100 packets of 9000 B at 1 % of 1 Gbit/s are 720 ms.
        assert_eq!(it.next().expect("second").idle_before_ns, 100_000_000);
        it.settings.most_idle_ns = 1e9;
        assert_eq!(it.next().expect("second").idle_before_ns, 720_000_000);
    }
}
