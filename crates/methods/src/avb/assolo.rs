use serde::{Deserialize, Serialize};

use super::chirp::Chirp;
use super::classic::between;
use super::pathchirp::{Chirps, PathchirpSettings};
use super::{SettingsError, Setup};

/// Parameters of ASSOLO: pathChirp with rates that are dense in the middle of the range.
//= Goldoni, Rossi, Torelli 2009, Assolo, a new method for available bandwidth estimation
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AssoloSettings {
    /// Size of a packet, bytes (IP).
    pub size_byte: u32,
    /// From step to step away from the middle.
    pub spread_factor: f64,
    /// First step away from the middle, share of half the range.
    pub step_share: f64,
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
    /// Mean load of all probes, bit/s: it sets the silence between chirps. 0.4 MB in 0.9 s is what the tool was seen
    /// to do.
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

impl Default for AssoloSettings {
    fn default() -> Self {
        Self {
            size_byte: 1000,
            spread_factor: 1.2,
            step_share: 0.05,
            low_bit_per_s: 10e6,
            high_bit_per_s: 200e6,
            decrease_factor: 1.5,
            busy_packets: 5,
            chirps: 11,
            mean_bit_per_s: 3.5e6,
            shift_estimates: 3,
            shift_factor: 7.0,
            shift_up_share: 0.66,
            shift_down_factor: 1.5,
            most_chirps: 200,
        }
    }
}

impl AssoloSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        between("step_share", self.step_share, 0.0, 0.999)?;
        self.range().check()
    }

    /// What it has in common with pathChirp.
    fn range(&self) -> PathchirpSettings {
        PathchirpSettings {
            size_byte: self.size_byte,
            spread_factor: self.spread_factor,
            low_bit_per_s: self.low_bit_per_s,
            high_bit_per_s: self.high_bit_per_s,
            decrease_factor: self.decrease_factor,
            busy_packets: self.busy_packets,
            chirps: self.chirps,
            mean_bit_per_s: self.mean_bit_per_s,
            shift_estimates: self.shift_estimates,
            shift_factor: self.shift_factor,
            shift_up_share: self.shift_up_share,
            shift_down_factor: self.shift_down_factor,
            most_chirps: self.most_chirps,
        }
    }
}

/// ASSOLO, not yet begun.
pub(super) fn assolo(settings: AssoloSettings, setup: &Setup) -> Chirps<impl Fn(f64, f64) -> Chirp + use<>> {
    let make = move |low, high| Chirp::symmetric(low, high, settings.step_share, settings.spread_factor);
    Chirps::new("assolo", settings.range(), make, setup)
}
