use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, from_0, least, mean, rate_bit_per_s, size_within, whole_ns};
use super::pairs::strongest_gap_ns;
use super::{Estimate, Observation, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of abing (ABwE): back-to-back pairs, the gap that most of them have, and how much longer the mean gap is.
/// From memory of the paper, not of the source.
//= Navratil, Cottrell 2003, ABwE: a practical approach to available bandwidth estimation
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AbingSettings {
    /// Pairs an estimate.
    pub pairs: u32,
    /// Estimates; the answer is their moving average.
    pub rounds: u32,
    /// Size of a packet, bytes (IP).
    pub size_byte: u32,
    /// From the start of a pair to the start of the next, ns.
    pub between_ns: f64,
    /// Silence between the pairs of one estimate and the next, ns.
    pub idle_ns: f64,
    /// Weight of what was known before in the moving average.
    pub average_weight: f64,
}

impl Default for AbingSettings {
    fn default() -> Self {
        Self {
            pairs: 20,
            rounds: 5,
            size_byte: 1478,
            between_ns: 25_000_000.0,
            idle_ns: 25_000_000.0,
            average_weight: 0.75,
        }
    }
}

impl AbingSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("pairs", self.pairs, 1)?;
        least("rounds", self.rounds, 1)?;
        least("size_byte", self.size_byte, 1)?;
        between("between_ns", self.between_ns, 0.0, 1e12)?;
        from_0("idle_ns", self.idle_ns, 1e12)?;
        from_0("average_weight", self.average_weight, 0.999)
    }
}

/// abing under way.
#[derive(Clone, Debug)]
pub(super) struct Abing {
    settings: AbingSettings,
    size_byte: u32,
    rounds: u32,
    /// Moving averages: available bandwidth, capacity.
    average: Option<(f64, f64)>,
}

impl Abing {
    pub(super) fn new(settings: AbingSettings, setup: &Setup) -> Self {
        Self { settings, size_byte: size_within(settings.size_byte, &setup.ability), rounds: 0, average: None }
    }

    /// Available bandwidth and capacity from the gaps of one set of pairs.
    fn of_gaps(&self, gaps_ns: &[f64]) -> Option<(f64, f64)> {
        let narrow_ns = strongest_gap_ns(gaps_ns)?;
        let mean_ns = mean(gaps_ns)?;
        let capacity = rate_bit_per_s(self.size_byte, narrow_ns);
        // U = q / (q + 1), where q is what cross traffic added to the gap, in gaps at capacity.
        let added = (mean_ns / narrow_ns - 1.0).max(0.0);
        Some((capacity * (1.0 - added / (added + 1.0)), capacity))
    }
}

impl Rules for Abing {
    fn name(&self) -> &'static str {
        "abing"
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if self.rounds >= self.settings.rounds {
            return Err(if self.average.is_some() { Stopped::Converged } else { Stopped::Lossy });
        }
        let idle_ns = if self.rounds == 0 { 0.0 } else { self.settings.idle_ns };
        Ok(Train {
            packets: self.settings.pairs.saturating_mul(2),
            size_byte: self.size_byte,
            spacing: Spacing::Pairs { inside_ns: 0.0, between_ns: self.settings.between_ns },
            idle_before_ns: whole_ns(idle_ns),
        })
    }

    fn observe(&mut self, observation: &Observation) {
        self.rounds += 1;
        let arrivals = observation.arrivals();
        let pairs = arrivals.windows(2).filter(|pair| pair[0].index % 2 == 0 && pair[1].index == pair[0].index + 1);
        let gaps: Vec<f64> =
            pairs.map(|pair| pair[1].received_ns - pair[0].received_ns).filter(|&gap| gap > 0.0).collect();
        let Some((avb, capacity)) = self.of_gaps(&gaps) else { return };
        let old = self.settings.average_weight;
        let mix = |before: f64, now: f64| old * before + (1.0 - old) * now;
        self.average = Some(match self.average {
            Some((avb_before, capacity_before)) => (mix(avb_before, avb), mix(capacity_before, capacity)),
            None => (avb, capacity),
        });
    }

    fn silent(&mut self) {
        self.rounds += 1;
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some((avb, capacity)) = self.average else { return Estimate::none(spent, stopped) };
        Estimate { capacity_bit_per_s: Some(capacity), ..Estimate::of(spent, stopped, avb) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::seen;
    use super::*;

    fn pairs(gaps_ns: &[f64]) -> Observation {
        let at = |(i, gap): (u32, &f64)| {
            let start = f64::from(i) * 25e6;
            [(start, Some(start)), (start, Some(start + gap))]
        };
        seen(1478, &(0..).zip(gaps_ns).flat_map(at).collect::<Vec<_>>())
    }

    #[test]
    fn what_cross_traffic_adds_to_the_gap_is_the_share_it_has() {
        let mut it = Abing::new(AbingSettings::default(), &Setup::default());
        // Three pairs at 118.24 us, which is 100 Mbit/s, and one at five times that: the mean is twice the mode.
        it.observe(&pairs(&[118_240.0, 118_240.0, 118_240.0, 591_200.0]));
        let (avb, capacity) = it.average.expect("four gaps");
        assert!((capacity / 100e6 - 1.0).abs() < 1e-9 && (avb / 50e6 - 1.0).abs() < 1e-9, "{avb} {capacity}");
        // The next estimate is 100 and has a quarter of the weight.
        it.observe(&pairs(&[118_240.0; 4]));
        assert!((it.average.expect("two").0 / 62.5e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_gap_between_pairs_or_over_a_lost_packet_does_not_count() {
        let mut it = Abing::new(AbingSettings::default(), &Setup::default());
        it.observe(&seen(1478, &[(0.0, Some(0.0)), (0.0, None), (1e6, Some(1e6)), (1e6, None)]));
        assert_eq!((it.average, it.rounds), (None, 1));
    }
}
