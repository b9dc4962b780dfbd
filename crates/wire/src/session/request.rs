//! What a client asks for.

use serde::{Deserialize, Deserializer, Serialize};
use vtare_traffic::Spacing;

use crate::{full, short};

/// The control versions that this program speaks.
pub const CONTROL_VERSION: VersionRange = VersionRange { least: 2, most: 4 };

/// The first control version that knows sessions for TCP throughput.
pub const FLOW_VERSION: u16 = 3;

/// The first control version that knows ECN.
pub const ECN_VERSION: u16 = 4;

/// A range of control versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRange {
    /// The oldest spoken.
    pub least: u16,
    /// The newest spoken.
    pub most: u16,
}

impl VersionRange {
    /// The newest version both speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.most.min(other.most);
        (newest >= self.least.max(other.least)).then_some(newest)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.least == self.most { write!(f, "{}", self.most) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Round-trip times.
    Rtt,
    /// Available bandwidth: one-way probes are recorded for the client, and trains can be asked for.
    Avb,
    /// Throughput.
    Throughput,
    /// Throughput of the kernel's TCP: data connections to the responder's port, whose bytes are counted and thrown
    /// away.
    Tcp,
}

/// Which native form the probes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireForm {
    /// [`crate::full`].
    Full,
    /// [`crate::short`].
    Short,
}

impl WireForm {
    /// Bytes of this form's header: the smallest datagram.
    #[must_use]
    pub const fn header_byte(self) -> usize {
        match self {
            Self::Full => full::HEADER_BYTE,
            Self::Short => short::HEADER_BYTE,
        }
    }
}

/// What a client wants of data connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowPlan {
    /// Data connections.
    pub streams: u8,
    /// Payload bytes on all of them together.
    pub byte: u64,
    /// Bytes are counted by bins of time this long, ns, from the first byte on.
    pub bin_ns: u64,
}

/// What a client asks for. It gets all of it, or a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// What for.
    pub purpose: Purpose,
    /// The form of the probes.
    pub form: WireForm,
    /// Mean rate, packet/s.
    pub rate_packet_per_s: u64,
    /// Packets that may come back to back, at any rate: the length of a train. 1 for a smooth sender.
    pub burst_packet: u64,
    /// From the first probe to the last, ns.
    pub duration_ns: u64,
    /// Packets in all.
    pub packets: u64,
    /// The largest datagram, bytes of payload.
    pub size_byte: u16,
    /// The data connections, for [`Purpose::Tcp`] and for nothing else; since control version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowPlan>,
    /// Trains back leave ECN-capable, and arrivals have their ECN field; since control version 4.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
}

/// A train that a client wants to be sent to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReversePlan {
    /// Packets.
    pub packets: u32,
    /// Bytes of each datagram's payload.
    pub size_byte: u16,
    /// How they follow each other.
    #[serde(rename = "shape", deserialize_with = "with_shape")]
    pub spacing: Spacing,
    /// Packets of one large send; 1 sends each by itself.
    pub burst_packet: u16,
}

/// A spacing that a few numbers define.
fn with_shape<'de, D: Deserializer<'de>>(from: D) -> Result<Spacing, D::Error> {
    let spacing = Spacing::deserialize(from)?;
    if spacing.has_shape() { Ok(spacing) } else { Err(serde::de::Error::custom("single gaps are no shape")) }
}
