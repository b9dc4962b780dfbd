use super::gate::{Verdict, Voids};
use super::{Cap, Seen, SettingsError, Trial};

/// Parameters of the search for the longest burst that passes whole.
//= RFC 2544, 26.4; RFC 9004
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackToBackSettings {
    /// The rate of the bursts, frames a second: the greatest that link and generator have.
    pub packet_per_s: u64,
    /// Frames of the shortest burst that is tried.
    pub least_frames: u64,
    /// Frames of a burst at most.
    pub most_frames: u64,
    /// The search ends where the bounds are this share of the upper one apart.
    pub resolution: f64,
}

/// The longest burst that passed whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestBurst {
    /// Its frames; `None` where the shortest lost some, or none could be sent.
    pub frames: Option<u64>,
    /// Frames of the shortest burst that lost some; `None` where none did.
    pub lossy_frames: Option<u64>,
    /// The rate of the bursts, frames a second: less than was asked for where the generator was no faster.
    pub packet_per_s: u64,
    /// What kept the search from longer bursts.
    pub censored: Option<Cap>,
    /// Bursts that counted.
    pub trials: u64,
    /// Bursts that were void and made again.
    pub void_trials: u64,
}

/// Where the tester is not even fast enough for this part of the rate, it is disturbed, and the search ends.
const SLOWEST: u64 = 4;

/// The search: bursts twice as long until one loses frames, then halfway between the bounds.
///
/// A device that forwards less than comes keeps the rest of a burst in its buffers: how long a burst may be shows how
/// deep they are ([`corrected_buffer_ns`]).
#[derive(Clone, Debug)]
pub struct BackToBack {
    settings: BackToBackSettings,
    packet_per_s: u64,
    lower: Option<u64>,
    upper: Option<u64>,
    asked: Option<u64>,
    again: bool,
    /// What the tester could not do.
    beyond: Option<Cap>,
    trials: u64,
    voids: Voids,
}

impl BackToBack {
    /// A search for one burst.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub fn new(settings: BackToBackSettings) -> Result<Self, SettingsError> {
        if settings.packet_per_s == 0 {
            return Err(SettingsError::new("rate of bursts", 0, "1 frame a second or more"));
        }
        if settings.least_frames == 0 || settings.least_frames > settings.most_frames {
            return Err(SettingsError::new("frames of a burst", settings.least_frames, "1 or more, the most at most"));
        }
        if !(settings.resolution > 0.0 && settings.resolution < 1.0) {
            return Err(SettingsError::new("resolution", settings.resolution, "a share above 0 and below 1"));
        }
        let packet_per_s = settings.packet_per_s;
        let (beyond, voids) = (None, Voids::default());
        Ok(Self {
            settings,
            packet_per_s,
            lower: None,
            upper: None,
            asked: None,
            again: false,
            beyond,
            trials: 0,
            voids,
        })
    }

    /// The next burst; `None` at the end.
    pub fn step(&mut self) -> Option<Trial> {
        let frames = if std::mem::take(&mut self.again) { self.asked } else { self.next() };
        self.asked = frames;
        // Of the same number of frames at any rate, whatever is rounded.
        let lasting = |frames: u64| (u128::from(frames) * 1_000_000_000).div_ceil(u128::from(self.packet_per_s)) as u64;
        frames.map(|frames| Trial { packet_per_s: self.packet_per_s, duration_ns: lasting(frames) })
    }

    fn next(&self) -> Option<u64> {
        let BackToBackSettings { least_frames, most_frames, resolution, .. } = self.settings;
        match (self.lower, self.upper) {
            _ if self.beyond.is_some() => None,
            (None, None) => Some(least_frames),
            (Some(lower), None) => (lower < most_frames).then(|| (2 * lower).min(most_frames)),
            (None, Some(_)) => None,
            (Some(lower), Some(upper)) => {
                let close = upper - lower <= 1 || (upper - lower) as f64 <= resolution * upper as f64;
                (!close).then(|| lower + (upper - lower) / 2)
            }
        }
    }

    /// What became of the burst of the last step.
    pub fn observe(&mut self, seen: &Seen) {
        let Some(asked) = self.asked else { return };
        match self.voids.judge(self.packet_per_s, seen, 0.0) {
            Verdict::Again => self.again = true,
            Verdict::TooFast(most, cap) if most < self.settings.packet_per_s.div_ceil(SLOWEST) => {
                self.beyond = Some(cap)
            }
            Verdict::TooFast(most, _) => {
                // What passed at a higher rate passes at a lower one, too; what did not may.
                self.packet_per_s = most.min(self.packet_per_s);
                self.upper = None;
                self.again = true;
            }
            Verdict::Counts => {
                self.trials += 1;
                if seen.loss_ratio() == Some(0.0) { self.lower = Some(asked) } else { self.upper = Some(asked) }
            }
        }
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> LongestBurst {
        let longest = self.lower == Some(self.settings.most_frames);
        LongestBurst {
            frames: self.lower,
            lossy_frames: self.upper,
            packet_per_s: self.packet_per_s,
            censored: self.beyond.or(longest.then_some(Cap::Range)),
            trials: self.trials,
            void_trials: self.voids.void(),
        }
    }
}

/// For how long the buffers can take a burst of `frames` at `burst_packet_per_s`, ns, less what the device forwards
/// meanwhile at its throughput.
///
/// ```
/// use vtare_methods::throughput::corrected_buffer_ns;
/// // 1,000 frames in 1 ms, of which a device that forwards a quarter as much keeps 750.
/// assert_eq!(corrected_buffer_ns(1_000.0, 1e6, 250e3), Some(750e3));
/// assert_eq!(corrected_buffer_ns(1_000.0, 1e6, 1e6), None);
/// ```
//= RFC 9004, 5.4: corrected DUT buffer time. `None` where the device forwards all that comes, and keeps nothing.
#[must_use]
pub fn corrected_buffer_ns(frames: f64, burst_packet_per_s: f64, throughput_packet_per_s: f64) -> Option<f64> {
    let kept = 1.0 - throughput_packet_per_s / burst_packet_per_s;
    (kept > 0.0).then(|| frames / burst_packet_per_s * 1e9 * kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Void;
    use proptest::prelude::*;

    const SETTINGS: BackToBackSettings =
        BackToBackSettings { packet_per_s: 1_000_000, least_frames: 16, most_frames: 1 << 20, resolution: 0.01 };

    /// A device that forwards a share of what comes and keeps up to a number of frames.
    fn offered(trial: Trial, forwarded: f64, buffer: f64) -> Seen {
        let sent = (u128::from(trial.packet_per_s) * u128::from(trial.duration_ns) / 1_000_000_000) as u64;
        let excess = (sent as f64 * (1.0 - forwarded) - buffer).max(0.0).round() as u64;
        Seen { sent, received: sent - excess, void: None }
    }

    fn found(settings: BackToBackSettings, mut offer: impl FnMut(Trial) -> Seen) -> LongestBurst {
        let mut search = BackToBack::new(settings).expect("good settings");
        for _ in 0..200 {
            let Some(trial) = search.step() else { return search.found() };
            let seen = offer(trial);
            search.observe(&seen);
        }
        panic!("no end: {:?}", search.found());
    }

    proptest! {
        #[test]
        fn the_buffer_that_follows_is_that_of_the_device(forwarded in 0.0..0.9_f64, buffer in 40.0..50_000.0_f64) {
            let burst = found(SETTINGS, |trial| offered(trial, forwarded, buffer));
            let frames = burst.frames.expect("the shortest burst fits") as f64;
            let kept_ns = corrected_buffer_ns(frames, 1e6, forwarded * 1e6).expect("it keeps some");
            let kept = kept_ns / 1e9 * 1e6;
            prop_assert!((kept - buffer).abs() <= 0.011 * buffer + 2.0, "{kept} for {buffer}: {burst:?}");
            prop_assert_eq!(burst.censored, None);
        }
    }

    #[test]
    fn a_device_as_fast_as_the_bursts_is_censored_and_one_without_buffer_has_none() {
        let all = found(SETTINGS, |trial| offered(trial, 1.0, 0.0));
        assert_eq!((all.frames, all.censored), (Some(1 << 20), Some(Cap::Range)));
        let none = found(SETTINGS, |trial| offered(trial, 0.5, 0.0));
        assert_eq!((none.frames, none.lossy_frames, none.censored), (None, Some(16), None));
    }

    #[test]
    fn a_generator_that_is_slower_sends_slower_bursts_and_void_ones_are_repeated() {
        let burst = found(SETTINGS, |trial| {
            let void = (trial.packet_per_s > 500_000).then_some(Void::GeneratorShort { achieved_packet_per_s: 500e3 });
            Seen { void, ..offered(trial, 0.5, 1_000.0) }
        });
        assert_eq!((burst.packet_per_s, burst.void_trials), (485_000, 5));
        assert!(burst.frames.is_some_and(|frames| (1_980..=2_002).contains(&frames)), "{burst:?}");
        // One frame of a burst left: no rate is slow enough for such a machine.
        let achieved_packet_per_s = 1.0;
        let none = found(SETTINGS, |_| Seen {
            sent: 1,
            received: 1,
            void: Some(Void::GeneratorShort { achieved_packet_per_s }),
        });
        assert_eq!((none.frames, none.censored, none.trials), (None, Some(Cap::Generator), 0));
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        for (settings, what) in [
            (BackToBackSettings { packet_per_s: 0, ..SETTINGS }, "rate of bursts is 0: use "),
            (BackToBackSettings { least_frames: 0, ..SETTINGS }, "frames of a burst is 0: use "),
            (BackToBackSettings { most_frames: 15, ..SETTINGS }, "frames of a burst is 16: use "),
            (BackToBackSettings { resolution: 1.0, ..SETTINGS }, "resolution is 1: use "),
        ] {
            let error = BackToBack::new(settings).expect_err(what).to_string();
            assert!(error.starts_with(what), "{error}");
        }
    }
}
