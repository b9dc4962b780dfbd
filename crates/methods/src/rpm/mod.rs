//! Responsiveness under working conditions, in round trips per minute (RPM), in one direction.
//!
//! [`RpmRun`] is a state machine without I/O and without a clock: whoever drives it moves the bytes, makes the probes
//! and closes an interval each second.
//!
//! ```text
//! Goodput         a load-generating connection more each interval, until the moving averages of the goodput are stable
//! Responsiveness  the same, until the RPM of the last intervals are stable
//! ```
//!
//! Stable: the standard deviation of the last [`RpmSettings::distance`] values is below [`RpmSettings::tolerance`]
//! times the last one.
//= draft-ietf-ippm-responsiveness-08, Measuring Responsiveness Under Working Conditions

mod events;
mod figures;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use events::{Direction, RpmEvent, RpmJob, RpmLimits};
pub use figures::{Confidence, Responsiveness, RpmFigures, grade};
use figures::{deviation, mean, responsiveness};

/// Bytes that a foreign probe and a self probe move, by the draft: its share of the path follows from them.
const PAIR_BYTE: f64 = 5_000.0 + 1_000.0;
/// Gap between pairs of probes before the first interval has shown what the path carries, ns.
const FIRST_GAP_NS: f64 = 100e6;
/// Longest gap between pairs: a window of four intervals has two of them on the slowest path, ns.
const LONGEST_GAP_NS: f64 = 2e9;
/// Share of the time after which the goodput need not be stable any more: the rest is for the responsiveness.
const GOODPUT_TIME: f64 = 0.5;

/// The parameters of the method. The names of the draft stand in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpmSettings {
    /// Intervals of a moving average, and values that must agree (MAD).
    pub distance: usize,
    /// Length of an interval, ns (ID).
    pub interval_ns: u64,
    /// Share of the probes that the trimmed mean keeps, the fastest (TMP).
    pub kept_share: f64,
    /// Deviation that is stable, as a share of the last value (SDT).
    pub tolerance: f64,
    /// Connections at the start (INP).
    pub initial_connections: usize,
    /// Connections that each interval adds (INC).
    pub added_connections: usize,
    /// Most connections (MNP).
    pub most_connections: usize,
    /// Most probes in a second, foreign and self together (MPS).
    pub most_probes_per_s: f64,
    /// Share of the goodput that probes may use (PTC).
    pub probe_share: f64,
    /// Time for the direction, ns.
    pub most_ns: u64,
}

impl Default for RpmSettings {
    fn default() -> Self {
        Self {
            distance: 4,
            interval_ns: 1_000_000_000,
            kept_share: 0.95,
            tolerance: 0.05,
            initial_connections: 1,
            added_connections: 1,
            most_connections: 16,
            most_probes_per_s: 100.0,
            probe_share: 0.05,
            most_ns: 20_000_000_000,
        }
    }
}

/// A probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RpmProbe {
    /// A request on a connection of its own.
    Foreign {
        /// The TCP handshake, ns.
        tcp_ns: u64,
        /// The TLS handshake, a round trip of it, ns.
        tls_ns: u64,
        /// The request and its answer, ns.
        http_ns: u64,
    },
    /// A request on a load-generating connection.
    #[serde(rename = "self")]
    OnLoad {
        /// The request and its answer, ns.
        http_ns: u64,
    },
}

/// What to do at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpmStep {
    /// Open this number of load-generating connections more, which may be none, and go on.
    Add(usize),
    /// The direction is measured: [`RpmRun::figures`].
    Done,
}

/// What an interval showed.
#[derive(Clone, Debug, Default)]
struct Interval {
    byte: u64,
    ns: u64,
    /// TCP, TLS, HTTP of each foreign probe, ns.
    foreign: [Vec<u64>; 3],
    on_load: Vec<u64>,
}

/// The values of a stage, one an interval, and whether the last ones agree.
#[derive(Clone, Debug, Default)]
struct Stage {
    values: Vec<f64>,
    intervals: usize,
    stable: bool,
}

impl Stage {
    fn push(&mut self, value: Option<f64>, settings: &RpmSettings) {
        self.intervals += 1;
        let Some(value) = value.filter(|value| *value > 0.0) else { return };
        self.values.push(value);
        let last = self.values.len().checked_sub(settings.distance).map(|from| &self.values[from..]);
        self.stable = last.is_some_and(|last| deviation(last) < settings.tolerance * value);
    }

    fn confidence(&self, settings: &RpmSettings) -> Confidence {
        match (self.stable, self.intervals < settings.distance) {
            (true, _) => Confidence::High,
            (false, false) => Confidence::Medium,
            (false, true) => Confidence::Low,
        }
    }
}

/// One direction.
#[derive(Clone, Debug)]
pub struct RpmRun {
    settings: RpmSettings,
    connections: usize,
    closed: Vec<Interval>,
    open: Interval,
    goodput: Stage,
    /// None while the goodput is not settled.
    responsiveness: Option<Stage>,
}

impl RpmRun {
    /// A run that begins with [`RpmSettings::initial_connections`].
    #[must_use]
    pub fn new(settings: RpmSettings) -> Self {
        Self {
            settings,
            connections: settings.initial_connections,
            closed: Vec::new(),
            open: Interval::default(),
            goodput: Stage::default(),
            responsiveness: None,
        }
    }

    /// Takes a probe that was answered in this interval.
    pub fn observe(&mut self, probe: RpmProbe) {
        match probe {
            RpmProbe::Foreign { tcp_ns, tls_ns, http_ns } => {
                for (values, value) in self.open.foreign.iter_mut().zip([tcp_ns, tls_ns, http_ns]) {
                    values.push(value);
                }
            }
            RpmProbe::OnLoad { http_ns } => self.open.on_load.push(http_ns),
        }
    }

    /// The gap to the next pair of probes, one foreign and one self, ns: [`RpmSettings::most_probes_per_s`], and less
    /// where they would use more of the path than [`RpmSettings::probe_share`].
    #[must_use]
    pub fn pair_gap_ns(&self) -> u64 {
        let least = 2e9 / self.settings.most_probes_per_s;
        let gap = self.closed.last().map_or(FIRST_GAP_NS, |interval| {
            let byte_per_ns = interval.byte as f64 / interval.ns.max(1) as f64;
            PAIR_BYTE / (self.settings.probe_share * byte_per_ns)
        });
        gap.clamp(least, LONGEST_GAP_NS) as u64
    }

    /// Closes an interval of `ns` in which the load-generating connections moved `byte`.
    pub fn close_interval(&mut self, byte: u64, ns: u64) -> RpmStep {
        self.closed.push(Interval { byte, ns, ..std::mem::take(&mut self.open) });
        let elapsed_ns = self.elapsed_ns();
        let rpm = self.current().map(|current| current.rpm);
        match &mut self.responsiveness {
            Some(stage) => stage.push(rpm, &self.settings),
            None => {
                let average = self.average_bit_per_s();
                self.goodput.push(average, &self.settings);
                if self.goodput.stable || elapsed_ns as f64 >= GOODPUT_TIME * self.settings.most_ns as f64 {
                    self.responsiveness = Some(Stage::default());
                }
            }
        }
        let stable = self.responsiveness.as_ref().is_some_and(|stage| stage.stable);
        if stable || elapsed_ns.saturating_add(self.settings.interval_ns / 2) >= self.settings.most_ns {
            return RpmStep::Done;
        }
        let added = self.settings.added_connections.min(self.settings.most_connections - self.connections);
        self.connections += added;
        RpmStep::Add(added)
    }

    /// What is known by the intervals that were closed.
    #[must_use]
    pub fn figures(&self) -> RpmFigures {
        let count = |of: fn(&Interval) -> usize| self.closed.iter().map(of).sum::<usize>() as u64;
        let confidence = |stage: &Stage| stage.confidence(&self.settings);
        RpmFigures {
            responsiveness: self.current(),
            confidence: self.responsiveness.as_ref().map_or(Confidence::Low, confidence),
            goodput_bit_per_s: self.average_bit_per_s(),
            goodput_confidence: confidence(&self.goodput),
            connections: self.connections as u64,
            foreign_probes: count(|interval| interval.foreign[0].len()),
            self_probes: count(|interval| interval.on_load.len()),
            load_byte: self.closed.iter().map(|interval| interval.byte).sum(),
            elapsed_s: self.elapsed_ns() as f64 / 1e9,
        }
    }

    fn elapsed_ns(&self) -> u64 {
        self.closed.iter().map(|interval| interval.ns).sum()
    }

    /// The last intervals, as many as a moving average has.
    fn window(&self) -> &[Interval] {
        &self.closed[self.closed.len().saturating_sub(self.settings.distance)..]
    }

    /// The moving average of the goodput. Over as many intervals as there are, where these are fewer.
    fn average_bit_per_s(&self) -> Option<f64> {
        let window = self.window();
        let rates = window.iter().map(|interval| interval.byte as f64 * 8e9 / interval.ns.max(1) as f64);
        mean(&rates.collect::<Vec<f64>>())
    }

    /// The responsiveness by the probes of the last intervals.
    fn current(&self) -> Option<Responsiveness> {
        let gathered = |of: fn(&Interval) -> &[u64]| -> Vec<u64> {
            self.window().iter().flat_map(|interval| of(interval).iter().copied()).collect()
        };
        let foreign = [
            gathered(|interval| &interval.foreign[0]),
            gathered(|interval| &interval.foreign[1]),
            gathered(|interval| &interval.foreign[2]),
        ];
        responsiveness(foreign, gathered(|interval| &interval.on_load), self.settings.kept_share)
    }
}
