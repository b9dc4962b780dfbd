use serde::{Deserialize, Serialize};

use super::chirp::{Chirp, Excursions};
use super::classic::{Rules, between, least, mean, rate, rate_bit_per_s, size_within, whole_ns};
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spent, Stopped, Train};

/// Parameters of pathChirp: trains whose rate rises exponentially, and where in them the delay starts to rise.
//= Ribeiro et al. 2003, pathChirp: efficient available bandwidth estimation for network paths
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathchirpSettings {
    /// Size of a packet, bytes (IP).
    pub size_byte: u32,
    /// From rate to rate in a chirp.
    pub spread_factor: f64,
    /// Lowest rate of the first chirps, bit/s.
    pub low_bit_per_s: f64,
    /// Highest rate of the first chirps, bit/s.
    pub high_bit_per_s: f64,
    /// An excursion of the delay is over below its highest over this.
    pub decrease_factor: f64,
    /// Least packets of an excursion.
    pub busy_packets: u32,
    /// Chirps; the answer is the mean of their estimates.
    pub chirps: u32,
    /// Mean load of all probes, bit/s: it sets the silence between chirps.
    pub mean_bit_per_s: f64,
    /// Estimates in a row at an end of the range after which it moves.
    pub shift_estimates: u32,
    /// How far it moves.
    pub shift_factor: f64,
    /// Above this share of the highest rate the range is too low.
    pub shift_up_share: f64,
    /// Below this many times the lowest rate the range is too high.
    pub shift_down_factor: f64,
    /// Chirps, counted or not, after which it ends with what it has.
    pub most_chirps: u32,
}

impl Default for PathchirpSettings {
    fn default() -> Self {
        Self {
            size_byte: 1000,
            spread_factor: 1.2,
            low_bit_per_s: 10e6,
            high_bit_per_s: 200e6,
            decrease_factor: 1.5,
            busy_packets: 5,
            chirps: 11,
            mean_bit_per_s: 300e3,
            shift_estimates: 3,
            shift_factor: 7.0,
            shift_up_share: 0.66,
            shift_down_factor: 1.5,
            most_chirps: 200,
        }
    }
}

impl PathchirpSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        between("spread_factor", self.spread_factor, 1.0, 10.0)?;
        least("size_byte", self.size_byte, 1)?;
        rate("low_bit_per_s", self.low_bit_per_s)?;
        rate("high_bit_per_s", self.high_bit_per_s)?;
        between("high_bit_per_s", self.high_bit_per_s, self.low_bit_per_s, 1e15)?;
        between("decrease_factor", self.decrease_factor, 1.0, 1e6)?;
        least("chirps", self.chirps, 1)?;
        rate("mean_bit_per_s", self.mean_bit_per_s)?;
        least("shift_estimates", self.shift_estimates, 1)?;
        between("shift_factor", self.shift_factor, 1.0, 1e3)?;
        between("shift_up_share", self.shift_up_share, 0.0, 1.0)?;
        between("shift_down_factor", self.shift_down_factor, 1.0, 1e3)?;
        least("most_chirps", self.most_chirps, self.chirps)
    }
}

/// pathChirp, not yet begun.
pub(super) fn pathchirp(settings: PathchirpSettings, setup: &Setup) -> Chirps<impl Fn(f64, f64) -> Chirp + use<>> {
    let make = move |low, high| Chirp::exponential(low, high, settings.spread_factor);
    Chirps::new("pathchirp", settings, make, setup)
}

/// Chirps of a range of rates that follows what they find.
#[derive(Clone, Debug)]
pub(super) struct Chirps<M> {
    name: &'static str,
    settings: PathchirpSettings,
    ability: Ability,
    make: M,
    size_byte: u32,
    low_bit_per_s: f64,
    high_bit_per_s: f64,
    chirp: Chirp,
    estimates: Vec<f64>,
    /// Estimates in a row at the upper (positive) or lower end.
    at_end: i64,
    sent: u32,
}

impl<M: Fn(f64, f64) -> Chirp> Chirps<M> {
    pub(super) fn new(name: &'static str, settings: PathchirpSettings, make: M, setup: &Setup) -> Self {
        let (low_bit_per_s, high_bit_per_s) = (settings.low_bit_per_s, settings.high_bit_per_s);
        Self {
            name,
            settings,
            ability: setup.ability,
            chirp: make(low_bit_per_s, high_bit_per_s),
            make,
            size_byte: size_within(settings.size_byte, &setup.ability),
            low_bit_per_s,
            high_bit_per_s,
            estimates: Vec::new(),
            at_end: 0,
            sent: 0,
        }
    }

    fn most_bit_per_s(&self) -> f64 {
        rate_bit_per_s(self.size_byte, self.ability.least_gap_ns.max(1e-3))
    }

    /// How far the range can go up with this sender, at most the factor of the settings.
    fn up_factor(&self) -> f64 {
        (self.most_bit_per_s() / self.high_bit_per_s).clamp(1.0, self.settings.shift_factor)
    }

    fn at_the_top(&self) -> bool {
        self.up_factor() < 1.05
    }

    fn is_high(&self, estimate: f64) -> bool {
        estimate > self.settings.shift_up_share * self.high_bit_per_s
    }

    fn follow(&mut self, estimate: f64) {
        self.at_end = if self.is_high(estimate) {
            self.at_end.max(0) + 1
        } else if estimate < self.settings.shift_down_factor * self.low_bit_per_s {
            self.at_end.min(0) - 1
        } else {
            0
        };
        if self.at_end.unsigned_abs() < u64::from(self.settings.shift_estimates) {
            return;
        }
        let up = self.at_end > 0;
        self.at_end = 0;
        // Below 1 kbit/s a chirp would take minutes.
        if (up && self.at_the_top()) || (!up && self.low_bit_per_s < 1e3 * self.settings.shift_factor) {
            return;
        }
        let factor = if up { self.up_factor() } else { 1.0 / self.settings.shift_factor };
        self.low_bit_per_s *= factor;
        self.high_bit_per_s *= factor;
        self.chirp = (self.make)(self.low_bit_per_s, self.high_bit_per_s);
        self.estimates.clear();
    }
}

impl<M: Fn(f64, f64) -> Chirp> Rules for Chirps<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn wanted_byte(&self) -> Option<u32> {
        Some(self.settings.size_byte)
    }

    fn next(&mut self) -> Result<Train, Stopped> {
        if self.estimates.len() >= self.settings.chirps as usize {
            return Err(Stopped::Converged);
        }
        if self.sent >= self.settings.most_chirps {
            return Err(if self.estimates.is_empty() { Stopped::Lossy } else { Stopped::GaveUp });
        }
        let train = self.chirp.train(self.size_byte);
        if self.sent == 0 {
            return Ok(train);
        }
        let silence_ns = train.bytes() as f64 * 8e9 / self.settings.mean_bit_per_s - train.duration_ns();
        Ok(train.after_idle(whole_ns(silence_ns)))
    }

    fn observe(&mut self, observation: &Observation) {
        self.sent += 1;
        let PathchirpSettings { decrease_factor, busy_packets, .. } = self.settings;
        let excursions = Excursions { decrease_factor, busy_packets };
        if let Some(estimate) = self.chirp.estimate(observation, &excursions) {
            self.estimates.push(estimate);
            self.follow(estimate);
        }
    }

    fn silent(&mut self) {
        self.sent += 1;
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some(avb) = mean(&self.estimates) else { return Estimate::none(spent, stopped) };
        let mut estimate = Estimate::of(spent, stopped, avb);
        if self.at_the_top() && self.is_high(avb) {
            estimate.at_least = true;
            // The last steps of a chirp may be beyond what the sender can: no claim from those.
            estimate.avb_bit_per_s = Some(avb.min(self.most_bit_per_s()));
            if stopped == Stopped::Converged {
                estimate.stopped = Stopped::SenderLimited;
            }
            let note = "at the upper end of the range of rates, and this sender cannot send a higher one";
            estimate.notes.push(note.to_owned());
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_estimates_at_an_end_move_the_range_by_seven() {
        let mut it = pathchirp(PathchirpSettings::default(), &Setup::default());
        // 0.66 of 200 is 132; 1.5 times 10 is 15.
        for estimate in [140e6, 150e6, 131e6, 140e6, 140e6] {
            it.follow(estimate);
            assert_eq!(it.low_bit_per_s, 10e6);
        }
        it.follow(133e6);
        assert_eq!((it.low_bit_per_s, it.high_bit_per_s), (70e6, 1.4e9));
        for estimate in [100e6, 106e6, 100e6, 100e6] {
            it.follow(estimate);
            assert_eq!(it.low_bit_per_s, 70e6);
        }
        it.follow(104e6);
        assert!((it.low_bit_per_s / 10e6 - 1.0).abs() < 1e-12 && it.estimates.is_empty());
    }

    #[test]
    fn the_mean_load_is_the_one_asked_for() {
        let mut it = pathchirp(PathchirpSettings::default(), &Setup::default());
        let first = it.next().expect("first");
        assert_eq!(first.idle_before_ns, 0);
        it.silent();
        let train = it.next().expect("second");
        // 19 packets of 1000 B at 300 kbit/s take 507 ms, chirp included.
        let all_ns = train.idle_before_ns as f64 + train.duration_ns();
        assert!((all_ns / 1e6 - 19.0 * 8_000.0 / 300.0).abs() < 1e-3, "{all_ns}");
    }
}
