use serde::{Deserialize, Serialize};

use super::spent::Spent;
use super::stopped::Stopped;

/// The answer of a method. What it does not know is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Estimate {
    /// Available bandwidth, bit/s at `layer`; null: no answer (see `stopped`), or the method estimates capacity only.
    pub avb_bit_per_s: Option<f64>,
    /// Where it lies, lower and upper end, bit/s; null where the method gives none. The method's page
    /// states what it covers.
    pub interval_bit_per_s: Option<[f64; 2]>,
    /// Where the mean lies over longer periods if the other traffic stays the same, bit/s: the interval above, which
    /// is for `window_s` alone, widened by what bursts do to so short a window. Null where the method gives none.
    pub long_run_bit_per_s: Option<[f64; 2]>,
    /// The value is a lower bound: the sender could not send faster.
    pub at_least: bool,
    /// Capacity of the link that forms the queue, bit/s.
    pub capacity_bit_per_s: Option<f64>,
    /// Depth of a token bucket on the way, where one was seen, bytes: at least that, since it may not have been full.
    pub token_bucket_byte: Option<f64>,
    /// The most that the probes themselves made the queue wait, ns.
    pub queued_ns: Option<f64>,
    /// Probe bytes over the time taken, bit/s: the load that the measurement was.
    pub occupied_bit_per_s: Option<f64>,
    /// Probe packets, bytes (IP).
    pub probe_byte: u64,
    /// Probe packets.
    pub packets: u64,
    /// Trains.
    pub trains: u32,
    /// From the first step to the answer, s.
    pub elapsed_s: f64,
    /// The time that the value is the mean of: start and end as send times, s since the first step; null where the
    /// method does not know it.
    pub window_s: Option<[f64; 2]>,
    /// Why it stopped.
    pub stopped: Stopped,
    /// What the rates count.
    pub layer: Layer,
    /// What the reader should know, one sentence each.
    pub notes: Vec<String>,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// IP packets with their headers.
    #[default]
    Ip,
    /// UDP payload, as some original tools print.
    Payload,
    /// What another program counts, which does not report what that is.
    Program,
}

impl Estimate {
    /// No answer.
    #[must_use]
    pub fn none(spent: &Spent, stopped: Stopped) -> Self {
        let elapsed_s = spent.elapsed_s();
        Self {
            avb_bit_per_s: None,
            interval_bit_per_s: None,
            long_run_bit_per_s: None,
            at_least: false,
            capacity_bit_per_s: None,
            token_bucket_byte: None,
            queued_ns: None,
            occupied_bit_per_s: (elapsed_s > 0.0).then(|| spent.probe_byte as f64 * 8.0 / elapsed_s),
            probe_byte: spent.probe_byte,
            packets: spent.packets,
            trains: spent.trains,
            elapsed_s,
            window_s: None,
            stopped,
            layer: Layer::Ip,
            notes: Vec::new(),
        }
    }

    /// This available bandwidth, bit/s, without an interval.
    #[must_use]
    pub fn of(spent: &Spent, stopped: Stopped, avb_bit_per_s: f64) -> Self {
        Self { avb_bit_per_s: Some(avb_bit_per_s), ..Self::none(spent, stopped) }
    }
}
