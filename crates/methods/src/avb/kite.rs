use serde::{Deserialize, Serialize};

use super::classic::{Rules, between, gap_ns, least, mean, rate, rate_bit_per_s, size_within, whole_ns};
use super::{Ability, Estimate, Observation, SettingsError, Setup, Spent, Stopped, Train};

/// Parameters of Kite (the Estimator): trains at a constant rate that climbs by a step which shrinks each time the rate
/// was too high.
///
/// A reconstruction: no text of the rules was found beyond the paper's description. Known are the size, the number
/// of samples that it starts with, an automatic start rate, a number of samples that adjusts itself, and a Step
/// Decreasing Factor by which the rate is raised.
//= Kachan, Kirova, Korniiichuk 2017, Investigated tools and Table 2; Kachan, Siemens 2015
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KiteSettings {
    /// Payload of a packet (MSS), bytes of UDP payload.
    pub mss_byte: u32,
    /// Packets of the first train; later ones have more at higher rates, so that they take as long.
    pub first_samples: u32,
    /// Rate to start with, bit/s; null: half of the rate at which a back-to-back train arrives.
    pub start_bit_per_s: Option<f64>,
    /// First step, share of the start rate. Reconstructed.
    pub step_share: f64,
    /// What the step is divided by when the rate was too high (Step Decreasing Factor). Its value is reconstructed.
    pub step_decreasing_factor: f64,
    /// What the path may add to the mean gap, share of the gap. Reconstructed.
    pub tolerance_share: f64,
    /// Loss that is congestion. Reconstructed: the tool was seen to work at 1 %.
    pub most_loss: f64,
    /// The answer is found when the step is below this share of the rate. Reconstructed.
    pub resolution_share: f64,
    /// Share of the rate that all probes occupy: 300 Mbit/s were seen on 10 Gbit/s.
    pub occupied_share: f64,
    /// Trains after which it ends with what it has.
    pub most_trains: u32,
}

impl Default for KiteSettings {
    fn default() -> Self {
        Self {
            mss_byte: 1472,
            first_samples: 20,
            start_bit_per_s: None,
            step_share: 0.5,
            step_decreasing_factor: 2.0,
            tolerance_share: 0.01,
            most_loss: 0.05,
            resolution_share: 0.01,
            occupied_share: 0.03,
            most_trains: 200,
        }
    }
}

impl KiteSettings {
    /// The optimised column of Table 2: the unit of the rate 1 is not printed; 1 Gbit/s as for Kite2.
    //= Kachan, Kirova, Korniiichuk 2017, Table 2
    #[must_use]
    pub fn kachan_optimized() -> Self {
        Self { mss_byte: 8972, first_samples: 100, start_bit_per_s: Some(1e9), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        least("mss_byte", self.mss_byte, 1)?;
        least("first_samples", self.first_samples, 2)?;
        self.start_bit_per_s.map_or(Ok(()), |start| rate("start_bit_per_s", start))?;
        between("step_share", self.step_share, 0.0, 10.0)?;
        between("step_decreasing_factor", self.step_decreasing_factor, 1.0, 1e3)?;
        between("tolerance_share", self.tolerance_share, 0.0, 1.0)?;
        between("most_loss", self.most_loss, 0.0, 1.0)?;
        between("resolution_share", self.resolution_share, 0.0, 1.0)?;
        between("occupied_share", self.occupied_share, 0.0, 1.0)?;
        least("most_trains", self.most_trains, 1)
    }
}

/// Trains in a row that leave more slowly than asked, after which it is the sender and not a pause.
pub(super) const SLOW_TRAINS: u32 = 3;

/// Mean gaps of a train, sent and received, ns; `None` without two neighbours.
pub(super) fn mean_gaps_ns(observation: &Observation) -> Option<(f64, f64)> {
    let (sent, received): (Vec<f64>, Vec<f64>) = observation.gaps_ns().into_iter().unzip();
    mean(&sent).zip(mean(&received)).filter(|&(sent, received)| sent > 0.0 && received > 0.0)
}

/// Kite under way.
#[derive(Clone, Debug)]
pub(super) struct Kite {
    settings: KiteSettings,
    ability: Ability,
    size_byte: u32,
    /// Start rate, present rate and step, bit/s; `None` before the start rate is known.
    climb: Option<Climb>,
    trains: u32,
    /// Trains in a row that left more slowly than asked.
    slow: u32,
    end: Option<Stopped>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Climb {
    start: f64,
    rate: f64,
    step: f64,
    /// The highest rate that was not too high, as it was sent.
    passed: Option<f64>,
    congested: bool,
}

impl Kite {
    pub(super) fn new(settings: KiteSettings, setup: &Setup) -> Self {
        let size_byte = size_within(settings.mss_byte.saturating_add(setup.ability.ip_header_byte), &setup.ability);
        let mut it = Self { settings, ability: setup.ability, size_byte, climb: None, trains: 0, slow: 0, end: None };
        if let Some(start) = settings.start_bit_per_s {
            it.start(start);
        }
        it
    }

    fn most_bit_per_s(&self) -> f64 {
        rate_bit_per_s(self.size_byte, self.ability.least_gap_ns.max(1e-3))
    }

    fn start(&mut self, rate_bit_per_s: f64) {
        let rate = rate_bit_per_s.min(self.most_bit_per_s());
        self.climb =
            Some(Climb { start: rate, rate, step: rate * self.settings.step_share, passed: None, congested: false });
    }

    fn judge(&mut self, sent_bit_per_s: f64, too_high: bool) {
        let most = self.most_bit_per_s();
        let Some(climb) = &mut self.climb else { return };
        if too_high {
            climb.congested = true;
            climb.step /= self.settings.step_decreasing_factor;
            // What passed before may have been luck; the rate must be able to fall below it.
            if climb.passed.is_some_and(|passed| passed >= climb.rate) {
                climb.passed = None;
            }
            let lower = (climb.rate - climb.step).max(climb.rate / 2.0);
            climb.rate = lower;
            if climb.passed.is_none() {
                // Nothing passed yet: the step stays large enough to get down.
                climb.step = climb.step.max(climb.rate / 4.0);
            }
        } else {
            climb.passed = Some(climb.passed.map_or(sent_bit_per_s, |passed| passed.max(sent_bit_per_s)));
            let slow = sent_bit_per_s < 0.95 * climb.rate;
            self.slow = if slow { self.slow + 1 } else { 0 };
            if climb.rate >= most || self.slow >= SLOW_TRAINS {
                self.end = Some(Stopped::SenderLimited);
                return;
            }
            if slow {
                // It may have been a pause of this machine: the same rate again.
                return;
            }
            if climb.congested {
                climb.step /= self.settings.step_decreasing_factor;
            }
            climb.rate = (climb.rate + climb.step).min(most);
        }
        if climb.congested && climb.passed.is_some() && climb.step < self.settings.resolution_share * climb.rate {
            self.end = Some(Stopped::Converged);
        } else if climb.rate < 1e3 {
            self.end = Some(Stopped::GaveUp);
        }
    }
}

impl Rules for Kite {
    fn name(&self) -> &'static str {
        "kite"
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
        let Some(climb) = &self.climb else {
            return Ok(Train::back_to_back(self.settings.first_samples, self.size_byte));
        };
        let first = f64::from(self.settings.first_samples);
        let packets = (first * (climb.rate / climb.start).max(1.0)).round().min(f64::from(u32::MAX)) as u32;
        let train = Train::constant(packets, self.size_byte, climb.rate);
        let busy_ns = f64::from(packets) * gap_ns(self.size_byte, climb.rate);
        let idle_ns = if self.trains == 0 { 0.0 } else { busy_ns * (1.0 / self.settings.occupied_share - 1.0) };
        Ok(train.after_idle(whole_ns(idle_ns)))
    }

    fn observe(&mut self, observation: &Observation) {
        self.trains += 1;
        if self.climb.is_none() {
            if let Some(arrived) = observation.received_bit_per_s().filter(|rate| rate.is_finite() && *rate > 0.0) {
                self.start(arrived / 2.0);
            }
            return;
        }
        let lossy = observation.loss().is_some_and(|loss| loss > self.settings.most_loss);
        match mean_gaps_ns(observation) {
            Some((sent_ns, received_ns)) => {
                let too_high = lossy || received_ns > sent_ns * (1.0 + self.settings.tolerance_share);
                self.judge(rate_bit_per_s(self.size_byte, sent_ns), too_high);
            }
            None => self.judge(0.0, true),
        }
    }

    fn silent(&mut self) {
        self.trains += 1;
        self.judge(0.0, true);
    }

    fn estimate(&self, spent: &Spent, stopped: Stopped) -> Estimate {
        let Some(passed) = self.climb.and_then(|climb| climb.passed) else { return Estimate::none(spent, stopped) };
        let mut estimate = Estimate::of(spent, stopped, passed);
        estimate.at_least = stopped == Stopped::SenderLimited;
        estimate
            .notes
            .push("Kite's rules are reconstructed: its step law and thresholds were not published".to_owned());
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::even;
    use super::*;

    fn rate_of(it: &mut Kite) -> f64 {
        let train = it.next().expect("more");
        (f64::from(train.packets - 1) * f64::from(train.size_byte) * 8e9 / train.duration_ns()).round()
    }

    #[test]
    fn it_starts_at_half_of_what_arrives_and_the_step_halves_when_the_rate_was_too_high() {
        let mut it = Kite::new(KiteSettings::default(), &Setup::default());
        let train = it.next().expect("first");
        assert_eq!((train.packets, train.size_byte), (20, 1500));
        it.observe(&even(20, 1500, 1_000.0, 120_000.0));
        assert_eq!(rate_of(&mut it), 50e6);
        // 240 us as sent: the step is half of the start rate.
        it.observe(&even(20, 1500, 240_000.0, 240_000.0));
        assert_eq!(rate_of(&mut it), 75e6);
        it.observe(&even(30, 1500, 160_000.0, 163_000.0));
        assert_eq!(rate_of(&mut it), 62.5e6);
        it.observe(&even(25, 1500, 192_000.0, 192_000.0));
        assert_eq!(rate_of(&mut it), 68.75e6);
        assert_eq!(it.climb.expect("started").passed, Some(62.5e6));
    }

    #[test]
    fn trains_have_more_samples_at_higher_rates_and_take_as_long() {
        let mut it = Kite::new(
            KiteSettings::kachan_optimized(),
            &Setup { ability: Ability { most_packet_byte: 9000, ..Ability::default() }, ..Setup::default() },
        );
        let train = it.next().expect("first");
        assert_eq!((train.packets, train.size_byte, train.duration_ns()), (100, 9000, 99.0 * 72_000.0));
        it.judge(1e9, false);
        let train = it.next().expect("second");
        assert_eq!((train.packets, train.duration_ns()), (150, 149.0 * 48_000.0));
        // 3 % of the time: 150 packets of 48 us, and 32 times that of silence.
        it.silent();
        let train = it.next().expect("third");
        let busy_ns = f64::from(train.packets) * gap_ns(9000, it.climb.expect("started").rate);
        assert!((train.idle_before_ns as f64 / busy_ns - 97.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_sender_that_cannot_go_faster_states_at_least() {
        let mut it =
            Kite::new(KiteSettings { start_bit_per_s: Some(1e9), ..KiteSettings::default() }, &Setup::default());
        // Once may be a pause; a train that leaves as asked starts the count again.
        it.judge(0.9e9, false);
        it.judge(0.9e9, false);
        assert_eq!(it.climb.expect("started").rate, 1e9);
        it.judge(1e9, false);
        (0..2).for_each(|_| it.judge(0.9e9, false));
        assert!(it.next().is_ok());
        it.judge(0.9e9, false);
        assert_eq!(it.next(), Err(Stopped::SenderLimited));
        assert!(it.estimate(&Spent::default(), Stopped::SenderLimited).at_least);
    }
}
