use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, from_0, gap_ns, least, mean, rate, size_within, whole_ns};
use super::pairs::CapacityProbe;
use super::{Estimate, Observation, Random, SettingsError, Setup, Spacing, Spent, Stopped, Train};

/// Parameters of Spruce: pairs sent at the capacity, and what came between their packets.
//= Strauss, Katabi, Kaashoek 2003, A measurement study of available bandwidth estimation tools
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpruceSettings {
    /// Capacity of the tight link, bit/s, an input of the original; null: measured first with back-to-back
    /// pairs.
    pub capacity_bit_per_s: Option<f64>,
    /// Pairs for that measurement.
    pub capacity_pairs: u32,
    /// Pairs.
    pub pairs: u32,
    /// Size of a packet, bytes (IP).
    pub size_byte: u32,
    /// Least mean of the exponential time from pair to pair, ns.
    pub idle_ns: f64,
    /// Most load of the link by the probes, share of the capacity: makes that time longer.
    pub most_load_share: f64,
    /// Least share of the capacity that one pair may give: it is below 0 where a pair was torn apart.
    pub least_share: f64,
}

impl Default for SpruceSettings {
    fn default() -> Self {
        Self {
            capacity_bit_per_s: None,
            capacity_pairs: 40,
            pairs: 100,
            size_byte: 1500,
            idle_ns: 100_000_000.0,
            most_load_share: 0.05,
            least_share: -0.8,
        }
    }
}

impl SpruceSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("pairs", self.pairs, 1)?;
        least("capacity_pairs", self.capacity_pairs, 1)?;
        least("size_byte", self.size_byte, 1)?;
        from_0("idle_ns", self.idle_ns, 1e12)?;
        between("most_load_share", self.most_load_share, 0.0, 1.0)?;
        between("least_share", self.least_share, -1e6, 1.0)?;
        self.capacity_bit_per_s.map_or(Ok(()), |capacity| rate("capacity_bit_per_s", capacity))
    }
}

/// Spruce under way.
#[derive(Clone, Debug)]
pub(super) struct Spruce {
    settings: SpruceSettings,
    capacity: CapacityProbe,
    size_byte: u32,
    random: Random,
    /// Pairs sent.
    sent: u32,
    /// Available share of the capacity, by each pair.
    shares: Vec<f64>,
}

impl Spruce {
    pub(super) fn new(settings: SpruceSettings, setup: &Setup) -> Self {
        let size_byte = size_within(settings.size_byte, &setup.ability);
        Self {
            capacity: CapacityProbe::new(settings.capacity_bit_per_s, settings.capacity_pairs, size_byte),
            settings,
            size_byte,
            random: Random::new(setup.seed),
            sent: 0,
            shares: Vec::new(),
        }
    }

    /// The estimate of one pair: the share of the capacity that is free.
    fn share(&self, capacity_bit_per_s: f64, sent_ns: f64, received_ns: f64) -> Option<f64> {
        let narrow_ns = gap_ns(self.size_byte, capacity_bit_per_s);
        (sent_ns > 0.0).then(|| (1.0 - (received_ns - narrow_ns) / sent_ns).max(self.settings.least_share))
    }
}

impl Rules for Spruce {
    fn name(&self) -> &'static str {
        "spruce"
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        let capacity = match self.capacity.next() {
            Ok(capacity) => capacity?,
            Err(train) => return Ok(train),
        };
        if self.sent >= self.settings.pairs {
            return Err(if self.shares.is_empty() { Stopped::Lossy } else { Stopped::Converged });
        }
        let load_ns = 2.0 * gap_ns(self.size_byte, capacity) / self.settings.most_load_share;
        let idle_ns = self.random.exponential(self.settings.idle_ns.max(load_ns));
        let spacing = Spacing::Constant { gap_ns: gap_ns(self.size_byte, capacity) };
        Ok(Train { packets: 2, size_byte: self.size_byte, spacing, idle_before_ns: whole_ns(idle_ns) })
    }

    fn observe(&mut self, observation: &Observation) {
        if self.capacity.observe(observation) {
            return;
        }
        self.sent += 1;
        let Some(capacity) = self.capacity.known() else { return };
        let gaps = observation.gaps_ns();
        self.shares.extend(gaps.first().and_then(|&(sent, received)| self.share(capacity, sent, received)));
    }

    fn silent(&mut self) {
        if !self.capacity.silent() {
            self.sent += 1;
        }
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let (Some(share), Some(capacity)) = (mean(&self.shares), self.capacity.known()) else {
            return Estimate { capacity_bit_per_s: self.capacity.known(), ..Estimate::none(spent, stopped) };
        };
        let mut estimate = Estimate::of(spent, stopped, (capacity * share).max(0.0));
        estimate.capacity_bit_per_s = Some(capacity);
        self.capacity.note(&mut estimate);
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::even;
    use super::*;

    #[test]
    fn a_pair_at_the_capacity_states_what_did_not_come_between() {
        let settings = SpruceSettings { capacity_bit_per_s: Some(100e6), ..SpruceSettings::default() };
        let mut it = Spruce::new(settings, &Setup::default());
        // 1500 B at 100 Mbit/s are 120 us; 60 us more between them is half of the link.
        for (received_ns, share) in [(120_000.0, 1.0), (180_000.0, 0.5), (240_000.0, 0.0), (1e6, -0.8)] {
            it.observe(&even(2, 1500, 120_000.0, received_ns));
            assert_eq!(it.shares.last(), Some(&share), "{received_ns}");
        }
        let estimate = it.estimate(&Spent::default(), Stopped::Converged);
        assert_eq!(estimate.avb_bit_per_s, Some(100e6 * 0.7 / 4.0));
    }

    #[test]
    fn pairs_load_the_link_by_at_most_5_percent() {
        let settings = SpruceSettings { capacity_bit_per_s: Some(1e6), pairs: 2_000, ..SpruceSettings::default() };
        let mut it = Spruce::new(settings, &Setup::default());
        let mut idle_ns = 0.0;
        for _ in 0..2_000 {
            idle_ns += it.next().expect("a pair").idle_before_ns as f64;
            it.silent();
        }
        // 24 kbit a pair at 50 kbit/s: 480 ms; the mean of 2000 exponential times is within a tenth.
        assert!((idle_ns / 2_000.0 / 480e6 - 1.0).abs() < 0.1, "{idle_ns}");
    }
}
