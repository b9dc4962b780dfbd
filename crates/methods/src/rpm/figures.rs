//! What follows from the probes: trimmed means, RPM, and how far they can be relied on.

use serde::{Deserialize, Serialize};

/// Nanoseconds of a minute: RPM of a round trip.
const MINUTE_NS: f64 = 60e9;

/// How far a stage got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It has fewer intervals than a moving average.
    #[default]
    Low,
    /// Its values did not become stable in time.
    Medium,
    /// They did.
    High,
}

/// Responsiveness, and the trimmed means that it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Responsiveness {
    /// The mean of both below, round trips a minute.
    pub rpm: f64,
    /// By connections of their own.
    pub foreign_rpm: f64,
    /// By requests on load-generating connections.
    pub loaded_rpm: f64,
    /// TCP handshakes of foreign probes, ns.
    pub tcp_foreign_ns: f64,
    /// TLS handshakes of foreign probes, a round trip of them, ns.
    pub tls_foreign_ns: f64,
    /// Requests of foreign probes, ns.
    pub http_foreign_ns: f64,
    /// Requests on load-generating connections, ns.
    pub http_loaded_ns: f64,
}

/// What one direction showed. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RpmFigures {
    /// By the probes of the last intervals; null where one kind of them was not answered.
    pub responsiveness: Option<Responsiveness>,
    /// How stable it became.
    pub confidence: Confidence,
    /// Payload that all load-generating connections moved, last moving average.
    pub goodput_bit_per_s: Option<f64>,
    /// How stable that became.
    pub goodput_confidence: Confidence,
    /// Load-generating connections at the end.
    pub connections: u64,
    /// Foreign probes that were answered.
    pub foreign_probes: u64,
    /// Self probes that were answered.
    pub self_probes: u64,
    /// Payload of all load-generating connections.
    pub load_byte: u64,
    /// Time of all intervals, s.
    pub elapsed_s: f64,
}

/// The draft's word for a number of round trips a minute: poor up to 300 (200 ms), fair to 1,000 (60 ms), good to 6,000
/// (10 ms), then excellent.
#[must_use]
pub fn grade(rpm: f64) -> &'static str {
    match rpm {
        rpm if rpm <= 300.0 => "poor",
        rpm if rpm < 1_000.0 => "fair",
        rpm if rpm < 6_000.0 => "good",
        _ => "excellent",
    }
}

/// The responsiveness by the times of probes; `None` without probes of either kind.
pub(super) fn responsiveness(foreign: [Vec<u64>; 3], on_load: Vec<u64>, kept_share: f64) -> Option<Responsiveness> {
    let [tcp_foreign_ns, tls_foreign_ns, http_foreign_ns] = foreign.map(|times| trimmed_mean(times, kept_share));
    let (tcp_foreign_ns, tls_foreign_ns, http_foreign_ns) = (tcp_foreign_ns?, tls_foreign_ns?, http_foreign_ns?);
    let http_loaded_ns = trimmed_mean(on_load, kept_share)?;
    let foreign_rpm = MINUTE_NS / ((tcp_foreign_ns + tls_foreign_ns + http_foreign_ns) / 3.0);
    let loaded_rpm = MINUTE_NS / http_loaded_ns;
    Some(Responsiveness {
        rpm: f64::midpoint(foreign_rpm, loaded_rpm),
        foreign_rpm,
        loaded_rpm,
        tcp_foreign_ns,
        tls_foreign_ns,
        http_foreign_ns,
        http_loaded_ns,
    })
}

/// The mean without the slowest: of 20 values at a share of 0.95 all but one.
fn trimmed_mean(mut times: Vec<u64>, kept_share: f64) -> Option<f64> {
    times.sort_unstable();
    times.truncate((times.len() as f64 * kept_share).ceil() as usize);
    mean(&times.iter().map(|ns| *ns as f64).collect::<Vec<f64>>()).filter(|mean| *mean > 0.0)
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of these values themselves, not of what they were drawn from; 0 for none.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let Some(centre) = mean(values) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_twentieth_is_left_out_and_a_few_probes_are_all_kept() {
        let mut times = vec![10; 19];
        times.push(1_000_000);
        assert_eq!(trimmed_mean(times, 0.95), Some(10.0));
        assert_eq!(trimmed_mean(vec![10, 30], 0.95), Some(20.0));
        assert_eq!(trimmed_mean(Vec::new(), 0.95), None);
    }

    #[test]
    fn rpm_is_the_mean_of_that_on_connections_of_their_own_and_that_on_loaded_ones() {
        let ms = |value: u64| vec![value * 1_000_000; 5];
        let found = responsiveness([ms(20), ms(30), ms(40)], ms(60), 0.95).expect("both kinds are there");
        assert_eq!((found.foreign_rpm, found.loaded_rpm, found.rpm), (2_000.0, 1_000.0, 1_500.0));
        assert_eq!(responsiveness([ms(20), ms(30), ms(40)], Vec::new(), 0.95), None);
        assert_eq!(responsiveness(Default::default(), ms(60), 0.95), None);
    }

    #[test]
    fn grades_have_the_limits_of_the_draft() {
        assert_eq!([300.0, 301.0, 1_000.0, 5_999.0, 6_000.0].map(grade), ["poor", "fair", "good", "good", "excellent"]);
    }
}
