//! The figures of `vtare rpm`, one cell a direction, and one row of samples a probe.

use serde::Serialize;
use vtare_methods::rpm::{Confidence, Direction, RpmFigures, RpmProbe, grade};

use crate::samples::count;

/// One direction of the path. Times are trimmed means of the last intervals: without the slowest 5 %.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct RpmCell {
    /// The far end, as it was given.
    pub(crate) peer: String,
    /// Where connections went.
    pub(crate) address: String,
    /// `down`: the far end sends the load; `up`: it receives it.
    pub(crate) direction: &'static str,
    /// TCP congestion control of the load; null where the far end sends it, which does not report its own.
    pub(crate) congestion: Option<String>,
    /// Round trips a minute: the mean of the next two; null where one kind of probes was not answered.
    pub(crate) rpm: Option<f64>,
    /// By probes on connections of their own.
    pub(crate) foreign_rpm: Option<f64>,
    /// By probes on load-generating connections.
    pub(crate) loaded_rpm: Option<f64>,
    /// The draft's word for it.
    pub(crate) grade: Option<&'static str>,
    /// How stable it became.
    pub(crate) confidence: Confidence,
    /// Median TCP handshake of the idle path.
    pub(crate) idle_rtt_ns: Option<f64>,
    /// TCP handshakes of foreign probes.
    pub(crate) tcp_foreign_ns: Option<f64>,
    /// TLS handshakes of foreign probes.
    pub(crate) tls_foreign_ns: Option<f64>,
    /// Requests of foreign probes.
    pub(crate) http_foreign_ns: Option<f64>,
    /// Requests on load-generating connections.
    pub(crate) http_loaded_ns: Option<f64>,
    /// Payload of all load-generating connections.
    pub(crate) goodput_bit_per_s: Option<f64>,
    /// How stable that became.
    pub(crate) goodput_confidence: Confidence,
    /// Load-generating connections at the end.
    pub(crate) connections: u64,
    /// Foreign probes that were answered.
    pub(crate) foreign_probes: u64,
    /// Self probes that were answered.
    pub(crate) self_probes: u64,
    /// Probes that failed or were not answered in time.
    pub(crate) failed_probes: u64,
    /// Payload of the load.
    pub(crate) load_byte: u64,
    /// Time that it took, s.
    pub(crate) elapsed_s: f64,
}

impl RpmCell {
    /// The cell of a direction.
    pub(super) fn of(direction: Direction, figures: &RpmFigures, failed_probes: u64) -> Self {
        let found = figures.responsiveness;
        Self {
            direction: direction.name(),
            rpm: found.map(|found| found.rpm),
            foreign_rpm: found.map(|found| found.foreign_rpm),
            loaded_rpm: found.map(|found| found.loaded_rpm),
            grade: found.map(|found| grade(found.rpm)),
            confidence: figures.confidence,
            tcp_foreign_ns: found.map(|found| found.tcp_foreign_ns),
            tls_foreign_ns: found.map(|found| found.tls_foreign_ns),
            http_foreign_ns: found.map(|found| found.http_foreign_ns),
            http_loaded_ns: found.map(|found| found.http_loaded_ns),
            goodput_bit_per_s: figures.goodput_bit_per_s,
            goodput_confidence: figures.goodput_confidence,
            connections: figures.connections,
            foreign_probes: figures.foreign_probes,
            self_probes: figures.self_probes,
            failed_probes,
            load_byte: figures.load_byte,
            elapsed_s: figures.elapsed_s,
            ..Self::default()
        }
    }
}

/// A probe that was answered, for the samples.
pub(super) struct ProbeRow {
    pub(super) direction: Direction,
    pub(super) interval: u64,
    pub(super) probe: RpmProbe,
}

impl ProbeRow {
    /// TCP and TLS handshake, and the request.
    fn times(&self) -> (Option<u64>, Option<u64>, u64) {
        match self.probe {
            RpmProbe::Foreign { tcp_ns, tls_ns, http_ns } => (Some(tcp_ns), Some(tls_ns), http_ns),
            RpmProbe::OnLoad { http_ns } => (None, None, http_ns),
        }
    }
}

columns!(row: ProbeRow {
    string "direction" = row.direction.name(), "down: the far end sends the load; up: it receives it";
    int64 "interval" = count(row.interval), "number of the interval of 1 s in which it was answered, from 0";
    boolean "foreign" = row.times().0.is_some(), "on a connection of its own; otherwise on a load-generating one";
    optional_int64 "tcp_ns" = row.times().0.map(count), "TCP handshake; null on a load-generating connection";
    optional_int64 "tls_ns" = row.times().1.map(count), "TLS handshake; null on a load-generating connection";
    int64 "http_ns" = count(row.times().2), "the request and its answer";
});
