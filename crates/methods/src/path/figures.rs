use serde::{Deserialize, Serialize};

use crate::avb::Estimate;

/// What one direction of a path is worth: what is free, what latency becomes when it is used, and the buffer that makes
/// it so. What is not known is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PathFigures {
    /// Available bandwidth, bit/s: what the cross traffic that all trains saw leaves of the link. Abacus's estimate
    /// where no queue was seen, or where it agrees and is narrower. Null where nothing is known.
    pub free_bit_per_s: Option<f64>,
    /// Where it lies, bit/s (95 %).
    pub free_interval_bit_per_s: Option<[f64; 2]>,
    /// Abacus's estimate, with which the measurement begins, and its cost alone.
    pub estimate: Estimate,
    /// Latency under load: one entry for each share of what is free, in their order.
    pub loaded: Vec<Loaded>,
    /// Depth of the buffer that the probes filled; null where none was seen to fill or drop.
    pub depth: Option<Depth>,
    /// What the queue does where it is long.
    pub queue: QueueKind,
    /// Chance that as many packets are lost or marked in a long queue where the queue is not the cause (Fisher's exact
    /// test, one side, of two ways to call a queue long the clearer, times two): small where it is. Null where one of
    /// both, long or short, was not seen.
    pub queue_loss_p: Option<f64>,
    /// Packets sent into a short queue, and those of them that were lost or marked.
    pub short_queue: Lost,
    /// Packets sent into a long queue, and those of them that were lost or marked.
    pub long_queue: Lost,
    /// What the ECN field of packets that left ECN-capable became; null where that is not known.
    pub ecn: Option<EcnSeen>,
    /// Receive stamp less send stamp of the fastest packet, ns. They are of two clocks: the value alone means nothing,
    /// and those of both directions add up to a round trip of the idle path. Null where no packet arrived.
    pub least_delay_ns: Option<i64>,
    /// Bytes of probes (IP), those of the estimate among them.
    pub probe_byte: u64,
    /// From the first step to the last answer, s.
    pub elapsed_s: f64,
}

/// Packets, and those of them that were lost or marked on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lost {
    /// All of them.
    pub sent: u64,
    /// Those that did not arrive.
    pub lost: u64,
    /// Those that arrived with the mark of congestion (CE).
    pub marked: u64,
}

impl std::ops::Add for Lost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (sent, lost) = (self.sent + other.sent, self.lost + other.lost);
        Self { sent, lost, marked: self.marked + other.marked }
    }
}

impl Lost {
    /// Those that a queue may have dropped or marked.
    pub(super) const fn hit(self) -> u64 {
        self.lost + self.marked
    }
}

/// What the ECN field of packets was when they arrived, that had left ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EcnSeen {
    /// Packets that arrived.
    pub arrived: u64,
    /// With the mark of congestion (CE): a queue on the way marks.
    pub marked: u64,
    /// Not ECN-capable any more: something on the way clears the field, and no queue behind it can mark.
    pub cleared: u64,
}

/// Latency while a share of what is free is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Loaded {
    /// The share: 0.5 is half of what is free.
    pub share: f64,
    /// The rate of the probes, bit/s; null where the value follows from the depth of the buffer.
    pub rate_bit_per_s: Option<f64>,
    /// One-way delay above that of the idle path, median of the packets, ns.
    pub added_ns: f64,
    /// The same, 95 of 100 packets have less, ns.
    pub added_p95_ns: f64,
    /// Where the median lies in the long run, ns (95 %); null where a short train was measured.
    pub added_interval_ns: Option<[f64; 2]>,
    /// Share of the packets that were lost; null where the value is computed.
    pub lost_share: Option<f64>,
    /// Computed from the cross traffic seen, or from the depth; otherwise a train at that rate waited for so long.
    pub computed: bool,
    /// The value is a lower bound: the queue was not filled.
    pub at_least: bool,
}

/// How deep a queue becomes when probes that do not back off fill it: the worst case, not what TCP makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Depth {
    /// Time that a full queue takes to drain, ns.
    pub time_ns: f64,
    /// Where that lies, ns: what was seen to fit, and what was seen not to.
    pub time_interval_ns: [f64; 2],
    /// The same in bytes of IP packets: the time at the drain rate.
    pub byte: f64,
    /// Where those lie: the interval of the time at the lowest and the highest drain rate seen.
    pub byte_interval: [f64; 2],
    /// The rate at which the queue drains, bit/s.
    pub drain_bit_per_s: f64,
    /// The values are lower bounds: this was queued, and the buffer was not full.
    pub at_least: bool,
}

/// What a queue does with packets where it is long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// It drops what finds it full, and nothing else.
    DropTail,
    /// It drops or marks packets while there is room: active queue management.
    Aqm,
    /// Packets are dropped and not delayed.
    Policer,
    /// Nothing was dropped in the longest queue that the probes made.
    #[default]
    NotSeen,
}
