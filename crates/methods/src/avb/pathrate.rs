use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, from_0, least, mean, quantile, rate_bit_per_s, size_within, whole_ns};
use super::modes::{Mode, modes};
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spent, Stopped, Train};

/// Parameters of pathrate: capacity from the modes of packet pairs of many sizes, and long trains that show which
/// modes are too low. Numbers from memory of the paper.
//= Dovrolis, Ramanathan, Moore 2004, Packet-dispersion techniques and a capacity-estimation methodology
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathrateSettings {
    /// Trains of the first look, of 2 to `first_packets` packets in turn.
    pub first_trains: u32,
    /// Longest train of the first look, packets.
    pub first_packets: u32,
    /// Coefficient of variation of the first look below which its mean is the answer.
    pub quick_cv: f64,
    /// Pairs.
    pub pairs: u32,
    /// Sizes that pairs go through.
    pub pair_sizes: u32,
    /// Least size of a packet of a pair, bytes (IP).
    pub least_size_byte: u32,
    /// Long trains.
    pub trains: u32,
    /// Packets of a long train.
    pub train_packets: u32,
    /// Width of a bin, share of the interquartile range of the pairs.
    pub bin_share: f64,
    /// Least width of a bin, share of the median.
    pub least_bin_share: f64,
    /// Silence between trains, ns.
    pub idle_ns: f64,
}

impl Default for PathrateSettings {
    fn default() -> Self {
        Self {
            first_trains: 60,
            first_packets: 10,
            quick_cv: 0.05,
            pairs: 1000,
            pair_sizes: 40,
            least_size_byte: 550,
            trains: 500,
            train_packets: 24,
            bin_share: 0.1,
            least_bin_share: 0.01,
            idle_ns: 10_000_000.0,
        }
    }
}

impl PathrateSettings {
    /// A tenth of the pairs and trains.
    #[must_use]
    pub fn short() -> Self {
        Self { pairs: 100, trains: 50, first_trains: 18, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("first_trains", self.first_trains, 1)?;
        least("first_packets", self.first_packets, 2)?;
        from_0("quick_cv", self.quick_cv, 10.0)?;
        least("pairs", self.pairs, 1)?;
        least("pair_sizes", self.pair_sizes, 1)?;
        least("least_size_byte", self.least_size_byte, 1)?;
        least("trains", self.trains, 1)?;
        least("train_packets", self.train_packets, 2)?;
        between("bin_share", self.bin_share, 0.0, 10.0)?;
        between("least_bin_share", self.least_bin_share, 0.0, 1.0)?;
        from_0("idle_ns", self.idle_ns, 1e12)
    }
}

/// pathrate under way.
#[derive(Clone, Debug)]
pub(super) struct Pathrate {
    settings: PathrateSettings,
    ability: Ability,
    sent: u32,
    first: Vec<f64>,
    pairs: Vec<f64>,
    trains: Vec<f64>,
    answer: Option<f64>,
    note: &'static str,
}

/// Mean and coefficient of variation of the middle eight tenths.
fn trimmed(values: &[f64]) -> Option<(f64, f64)> {
    let (low, high) = (quantile(values, 0.1)?, quantile(values, 0.9)?);
    let middle: Vec<f64> = values.iter().copied().filter(|value| (low..=high).contains(value)).collect();
    let center = mean(&middle)?;
    let squares: Vec<f64> = middle.iter().map(|value| (value - center).powi(2)).collect();
    Some((center, mean(&squares)?.sqrt() / center))
}

impl Pathrate {
    pub(super) fn new(settings: PathrateSettings, setup: &Setup) -> Self {
        Self {
            settings,
            ability: setup.ability,
            sent: 0,
            first: Vec::new(),
            pairs: Vec::new(),
            trains: Vec::new(),
            answer: None,
            note: "",
        }
    }

    fn ends(&self) -> [u32; 3] {
        let it = &self.settings;
        let pairs = it.first_trains.saturating_add(it.pairs);
        [it.first_trains, pairs, pairs.saturating_add(it.trains)]
    }

    fn width(&self, values: &[f64]) -> f64 {
        let range = quantile(values, 0.75).zip(quantile(values, 0.25)).map_or(0.0, |(high, low)| high - low);
        let least = quantile(values, 0.5).unwrap_or(0.0) * self.settings.least_bin_share;
        (range * self.settings.bin_share).max(least)
    }

    /// After the first look: whether its rates agree so well that nothing else is needed.
    fn quick(&mut self) -> bool {
        match trimmed(&self.first) {
            Some((center, cv)) if cv <= self.settings.quick_cv => {
                self.answer = Some(center);
                self.note = "quick answer: trains of all lengths agreed";
                true
            }
            _ => false,
        }
    }

    /// The mode of the pairs above the rate of long trains that is strongest and narrowest; where there is none, that
    /// rate.
    fn conclude(&self) -> Option<(f64, &'static str)> {
        let trains = modes(&self.trains, self.width(&self.trains));
        let floor = trains.first().map(|mode| mode.value);
        let merit = |mode: &Mode, width: f64| mode.count as f64 / (mode.width + width);
        let width = self.width(&self.pairs);
        let pairs = modes(&self.pairs, width);
        // A mode that holds the rate of the trains in its bin is not below it.
        let above = pairs.iter().filter(|mode| floor.is_none_or(|floor| mode.value + width >= floor));
        let best = above.max_by(|a, b| merit(a, width).total_cmp(&merit(b, width)));
        match (best, floor) {
            (Some(mode), _) => {
                Some((mode.value, "the strongest and narrowest mode of packet pairs above the rate of long trains"))
            }
            (None, Some(floor)) => {
                Some((floor, "no mode of packet pairs above the rate of long trains: at least that rate"))
            }
            (None, None) => None,
        }
    }
}

impl Rules for Pathrate {
    fn name(&self) -> &'static str {
        "pathrate"
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        let [first, pairs, all] = self.ends();
        if self.sent == first && self.answer.is_none() {
            self.quick();
        }
        if self.sent >= all && self.answer.is_none() {
            (self.answer, self.note) = self.conclude().map_or((None, ""), |(rate, note)| (Some(rate), note));
            if self.answer.is_none() {
                return Err(Stopped::Lossy);
            }
        }
        if self.answer.is_some() {
            return Err(Stopped::Converged);
        }
        let most_byte = self.ability.most_packet_byte;
        let (packets, size_byte) = if self.sent < first {
            (2 + self.sent % (self.settings.first_packets - 1), most_byte)
        } else if self.sent < pairs {
            let (sizes, turn) = (self.settings.pair_sizes, (self.sent - first) % self.settings.pair_sizes);
            let span = f64::from(most_byte.saturating_sub(self.settings.least_size_byte));
            let size = f64::from(self.settings.least_size_byte) + span * f64::from(turn + 1) / f64::from(sizes);
            (2, size.round() as u32)
        } else {
            (self.settings.train_packets, most_byte)
        };
        let idle_ns = if self.sent == 0 { 0.0 } else { self.settings.idle_ns };
        Ok(Train::back_to_back(packets, size_within(size_byte, &self.ability)).after_idle(whole_ns(idle_ns)))
    }

    fn observe(&mut self, observation: &Observation) {
        let [first, pairs, _] = self.ends();
        let rate = if observation.received() < observation.packets.len() {
            // A lost packet leaves a gap that no link has.
            None
        } else if observation.packets.len() == 2 {
            let gap = observation.gaps_ns().first().map(|&(_, received)| received);
            gap.filter(|&gap| gap > 0.0).map(|gap| rate_bit_per_s(observation.packets[0].size_byte, gap))
        } else {
            observation.received_bit_per_s()
        };
        let list = if self.sent < first {
            &mut self.first
        } else if self.sent < pairs {
            &mut self.pairs
        } else {
            &mut self.trains
        };
        list.extend(rate.filter(|rate| rate.is_finite()));
        self.sent += 1;
    }

    fn silent(&mut self) {
        self.sent += 1;
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let found = self.answer.map(|rate| (rate, self.note)).or_else(|| self.conclude());
        let mut estimate = Estimate::none(spent, stopped);
        estimate.capacity_bit_per_s = found.map(|(rate, _)| rate);
        estimate.notes.extend(found.map(|(_, note)| note.to_owned()));
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::even;
    use super::*;

    fn pathrate() -> Pathrate {
        Pathrate::new(
            PathrateSettings { pairs: 20, trains: 5, first_trains: 1, ..PathrateSettings::default() },
            &Setup::default(),
        )
    }

    #[test]
    fn the_strongest_mode_below_the_rate_of_long_trains_is_not_the_capacity() {
        let mut it = pathrate();
        // Cross traffic makes most pairs slow; the narrow mode at the true 100 Mbit/s is weaker, but above what trains
        // get.
        it.pairs = [vec![40e6; 12], vec![100e6; 7], vec![150e6; 1]].concat();
        it.trains = vec![60e6, 61e6, 60.5e6, 59e6, 60e6];
        assert_eq!(it.conclude().map(|(rate, _)| rate), Some(100e6));
        it.trains.clear();
        assert_eq!(it.conclude().map(|(rate, _)| rate), Some(40e6));
        it.pairs = vec![40e6; 12];
        it.trains = vec![60e6; 5];
        assert_eq!(it.conclude().map(|(rate, _)| rate), Some(60e6));
    }

    #[test]
    fn trains_that_agree_are_enough() {
        let settings = PathrateSettings { first_trains: 3, ..PathrateSettings::default() };
        let mut it = Pathrate::new(settings, &Setup::default());
        for packets in [2, 3, 4] {
            assert_eq!(it.next().expect("more").packets, packets);
            it.observe(&even(packets, 1500, 0.0, 120_000.0));
        }
        assert_eq!((it.next(), it.answer), (Err(Stopped::Converged), Some(100e6)));
    }

    #[test]
    fn pairs_go_through_all_sizes_and_a_torn_train_does_not_count() {
        let mut it = pathrate();
        it.first = vec![1e6, 9e6];
        it.sent = 1;
        let sizes: Vec<u32> = (0..20)
            .map(|_| {
                let train = it.next().expect("a pair");
                it.silent();
                train.size_byte
            })
            .collect();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]) && sizes[0] >= 550, "{sizes:?}");
        assert_eq!(it.next().expect("a train").packets, 24);
    }
}
