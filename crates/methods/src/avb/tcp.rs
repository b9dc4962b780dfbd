//! Achievable throughput of the kernel's TCP, as ttcp and netperf measure it: what follows from the far end's count by
//! bins of time.
//!
//! Not a [`super::Method`]: it sends no trains. The runner opens the connections, fills them, and hands over what was
//! seen.

use serde::{Deserialize, Serialize};

use super::{Estimate, SettingsError, Spent, Stopped};

/// The name by which it is asked for.
pub const TCP: &str = "tcp";

/// What it is, in a line.
pub const TCP_SUMMARY: &str = "what the kernel's TCP reaches while it fills the path: a throughput, not what was free";

/// Where it comes from.
pub const TCP_SOURCE: &str = "ttcp (Muuss 1984), netperf TCP_STREAM (Jones); docs/methods/avb-published.md";

/// Stands for the kernel's own choice of congestion control.
pub const SYSTEM: &str = "system";

/// Longest test, s: the longest session that a far end grants by itself.
const MOST_S: f64 = 3_500.0;

/// Settings of `tcp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpSettings {
    /// Congestion control of the sender's kernel, as `bbr` or `cubic`; `system`: what the kernel takes by itself.
    pub congestion: String,
    /// Time from the first byte at the far end that is left out of the mean, s: slow start.
    pub omit_s: f64,
    /// Time of sending, with what is left out, s.
    pub seconds: f64,
    /// Connections.
    pub streams: u8,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self { congestion: SYSTEM.to_owned(), omit_s: 1.0, seconds: 10.0, streams: 1 }
    }
}

impl TcpSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |what, found: String, want: String| Err(SettingsError { what, found, want });
        if !(self.seconds > 0.0 && self.seconds <= MOST_S) {
            return wrong("seconds", self.seconds.to_string(), format!("more than 0 and at most {MOST_S}"));
        }
        if !(self.omit_s >= 0.0 && self.omit_s < self.seconds) {
            let want = format!("0 or more and less than the {} seconds", self.seconds);
            return wrong("omit_s", self.omit_s.to_string(), want);
        }
        if self.streams == 0 {
            return wrong("streams", "0".to_owned(), "1 or more".to_owned());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if self.congestion.is_empty() || self.congestion.len() > 15 || !self.congestion.chars().all(plain) {
            let want = "a name of at most 15 letters, as bbr, cubic or system".to_owned();
            return wrong("congestion", format!("'{}'", self.congestion), want);
        }
        Ok(())
    }
}

/// What was seen of one test.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpSeen {
    /// Payload bytes at the far end by bins of time, from the first byte on; bins after the last byte are not there.
    pub bins: Vec<u64>,
    /// Length of a bin, s.
    pub bin_s: f64,
    /// From the first byte to the last at the far end, s; `None`: nothing came.
    pub elapsed_s: Option<f64>,
    /// How long the sender tried to send, s.
    pub sent_s: f64,
    /// When the sending began, s from the first step.
    pub began_s: f64,
    /// Bytes of IP and TCP headers for each payload byte.
    pub header_share: f64,
    /// Whether all bytes that were allowed have arrived: the test ends with the last of them, not with the time.
    pub drained: bool,
}

impl TcpSeen {
    /// The time that the mean is of, s from the first byte at the far end; `None` where no whole bin is behind the time
    /// left out.
    fn window(&self, settings: &TcpSettings) -> Option<[f64; 2]> {
        let from = (settings.omit_s / self.bin_s).ceil() * self.bin_s;
        let elapsed = self.elapsed_s?;
        let to = if self.drained {
            elapsed
        } else {
            // The sender kept the path full for so long: bins that are not there had no bytes.
            ((settings.seconds.min(self.sent_s)) / self.bin_s + 1e-9).floor() * self.bin_s
        };
        // The last byte's bin is cut where it came: a window shorter than a bin has no mean.
        (to - from > 0.999 * self.bin_s).then_some([from, to])
    }

    /// Payload bytes from `from` to `to`, which are ends of bins or the last byte.
    fn byte(&self, [from, to]: [f64; 2]) -> u64 {
        let place = |at: f64, up: bool| {
            let bins = at / self.bin_s;
            let whole = if up { (bins - 1e-6).ceil() } else { bins.round() };
            (whole as usize).min(self.bins.len())
        };
        let (first, last) = (place(from, false), place(to, true));
        self.bins.get(first..last.max(first)).unwrap_or_default().iter().sum()
    }

    /// Mean rate at the IP layer within `window`, bit/s.
    fn rate(&self, window: [f64; 2]) -> f64 {
        self.byte(window) as f64 * 8.0 / (window[1] - window[0]) * (1.0 + self.header_share)
    }
}

/// The answer of one test. `spent` has the packets and IP bytes that the kernel sent, and the time; its notes are the
/// runner's.
#[must_use]
pub fn tcp_estimate(settings: &TcpSettings, seen: &TcpSeen, spent: &Spent, stopped: Stopped) -> Estimate {
    if seen.elapsed_s.is_none() {
        return Estimate::none(spent, Stopped::NoAnswer);
    }
    let Some(window) = seen.window(settings) else {
        let mut estimate = Estimate::none(spent, stopped);
        estimate.notes.push(format!(
            "nothing is left behind the {} s that are left out (omit_s): send for longer, or leave out less",
            settings.omit_s
        ));
        return estimate;
    };
    let mut estimate = Estimate::of(spent, stopped, seen.rate(window));
    estimate.window_s = Some(window.map(|at| seen.began_s + at));
    estimate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bins: &[u64], elapsed_s: f64) -> TcpSeen {
        TcpSeen {
            bins: bins.to_vec(),
            bin_s: 0.1,
            elapsed_s: Some(elapsed_s),
            sent_s: 1.0,
            began_s: 0.25,
            header_share: 0.04,
            drained: false,
        }
    }

    fn settings(omit_s: f64) -> TcpSettings {
        TcpSettings { omit_s, seconds: 1.0, ..TcpSettings::default() }
    }

    fn estimate(omit_s: f64, seen: &TcpSeen) -> Estimate {
        tcp_estimate(&settings(omit_s), seen, &Spent::default(), Stopped::Converged)
    }

    fn rate(estimate: &Estimate) -> i64 {
        estimate.avb_bit_per_s.expect("an answer").round() as i64
    }

    #[test]
    fn the_mean_is_over_the_time_behind_what_is_left_out_with_headers() {
        let bins = [[1_000_u64; 3].as_slice(), &[50_000; 7], &[77_777; 2]].concat();
        let found = estimate(0.3, &seen(&bins, 1.15));
        // 7 * 50,000 B in 0.7 s, and 4 % headers; what drained afterwards is not in it.
        assert_eq!(rate(&found), 4_160_000);
        let window = found.window_s.expect("it is known");
        assert!((window[0] - 0.55).abs() < 1e-9 && (window[1] - 1.25).abs() < 1e-9, "{window:?}");
        assert!(!found.at_least && found.interval_bit_per_s.is_none());
    }

    #[test]
    fn time_in_which_nothing_came_at_the_end_counts() {
        let found = estimate(0.0, &seen(&[100_000; 5], 0.5));
        assert_eq!(rate(&found), 4_160_000);
    }

    #[test]
    fn a_test_that_ran_out_of_bytes_ends_with_its_last_byte() {
        let mut seen = seen(&[10_000, 10_000, 10_000, 5_000], 0.35);
        seen.drained = true;
        assert_eq!(rate(&estimate(0.1, &seen)), (25_000.0 * 8.0 / 0.25 * 1.04) as i64);
    }

    #[test]
    fn a_test_that_was_broken_off_has_the_time_that_it_had() {
        let mut seen = seen(&[10_000; 5], 0.45);
        seen.sent_s = 0.44;
        // Four whole bins.
        assert_eq!(rate(&estimate(0.0, &seen)), 832_000);
    }

    #[test]
    fn no_byte_or_no_time_is_no_answer_and_never_zero() {
        let mut none = seen(&[], 0.0);
        none.elapsed_s = None;
        let found = estimate(0.0, &none);
        assert_eq!((found.avb_bit_per_s, found.stopped), (None, Stopped::NoAnswer));
        let mut short = seen(&[10_000; 2], 0.15);
        short.sent_s = 0.2;
        let found = estimate(0.3, &short);
        assert_eq!(found.avb_bit_per_s, None);
        assert!(found.notes[0].contains("omit_s"), "{:?}", found.notes);
    }

    #[test]
    fn settings_that_cannot_be_are_refused_by_name() {
        let wrong = |change: fn(&mut TcpSettings)| {
            let mut settings = TcpSettings::default();
            change(&mut settings);
            settings.check().map_err(|error| error.what)
        };
        assert_eq!(wrong(|_| ()), Ok(()));
        assert_eq!(wrong(|it| it.seconds = 0.0), Err("seconds"));
        assert_eq!(wrong(|it| it.seconds = f64::NAN), Err("seconds"));
        assert_eq!(wrong(|it| it.omit_s = 10.0), Err("omit_s"));
        assert_eq!(wrong(|it| it.streams = 0), Err("streams"));
        assert_eq!(wrong(|it| it.congestion = "bbr\0x".to_owned()), Err("congestion"));
    }
}
