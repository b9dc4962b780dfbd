use std::fmt;

use serde::{Deserialize, Serialize};

use super::request::{Open, Purpose, VersionRange};
use crate::LARGEST_BYTE;

/// What a responder allows. Shown to the client in every refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Highest rate of one session, packet/s.
    pub rate_packet_per_s: u64,
    /// Most packets that may come back to back.
    pub burst_packet: u64,
    /// Longest session, ns.
    pub duration_ns: u64,
    /// Most packets of one session.
    pub packets: u64,
    /// Largest datagram, bytes of payload.
    pub size_byte: u16,
    /// Most sessions of one address at the same time.
    pub sessions_per_peer: u16,
    /// Most sessions of all addresses together; each takes about 9 KiB.
    pub sessions: u16,
    /// A session is closed after a silence of this length, ns.
    pub idle_ns: u64,
    /// Most arrivals that are kept for one client until it fetches them; each takes 24 B.
    pub arrivals: u32,
    /// Most arrivals that are kept for all clients together.
    pub arrivals_in_all: u32,
    /// Longest train that is sent back, ns.
    pub reverse_ns: u64,
    /// Of sessions for TCP throughput. `None` in answers to a client of a control version without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<FlowLimits>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rate_packet_per_s: 1_000_000,
            burst_packet: 10_000,
            duration_ns: 3_600_000_000_000,
            packets: 3_600_000_000,
            size_byte: LARGEST_BYTE as u16,
            sessions_per_peer: 8,
            sessions: 256,
            idle_ns: 30_000_000_000,
            arrivals: 32_768,
            arrivals_in_all: 524_288,
            reverse_ns: 1_000_000_000,
            tcp: Some(FlowLimits::default()),
        }
    }
}

/// What a responder allows of data connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowLimits {
    /// Most data connections of one session.
    pub streams: u8,
    /// Most payload bytes of one session.
    pub byte: u64,
    /// Most bins of one session, 8 B each.
    pub bins: u32,
    /// A data connection without bytes is closed after this time, ns.
    pub silent_ns: u64,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self { streams: 16, byte: 1_000_000_000_000, bins: 1_024, silent_ns: 10_000_000_000 }
    }
}

impl FlowLimits {
    /// Checks the data connections that a request asks for.
    fn check(&self, open: &Open) -> Result<(), Reason> {
        let Some(plan) = open.flows.filter(|_| open.purpose == Purpose::Tcp) else {
            let neither = open.flows.is_none() && open.purpose != Purpose::Tcp;
            return if neither { Ok(()) } else { Err(Reason::FlowPurpose) };
        };
        let bins = bins(open.duration_ns, plan.bin_ns);
        if !(1..=self.streams).contains(&plan.streams) {
            Err(Reason::Streams { found: plan.streams })
        } else if plan.byte > self.byte {
            Err(Reason::FlowByte { found_byte: plan.byte })
        } else if bins > self.bins.into() {
            Err(Reason::Bins { found: bins })
        } else {
            Ok(())
        }
    }
}

/// Bins that a session of this length fills.
const fn bins(duration_ns: u64, bin_ns: u64) -> u64 {
    match duration_ns.checked_div(bin_ns) {
        Some(whole) => whole.saturating_add(1),
        None => u64::MAX,
    }
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// No control version in common.
    Version {
        /// What the client speaks.
        client: VersionRange,
        /// What the responder speaks.
        responder: VersionRange,
    },
    /// A message that does not fit the state of the exchange: an open before a hello, a second hello.
    OutOfTurn,
    /// A session that this connection has not opened, or that has ended.
    UnknownSession,
    /// The rate is above the limit.
    Rate {
        /// Asked for.
        found_packet_per_s: u64,
    },
    /// The burst is above the limit, or 0.
    Burst {
        /// Asked for.
        found_packet: u64,
    },
    /// The duration is above the limit.
    Duration {
        /// Asked for.
        found_ns: u64,
    },
    /// The number of packets is above the limit.
    Packets {
        /// Asked for.
        found: u64,
    },
    /// The size is above the limit, or below the header.
    Size {
        /// Asked for.
        found_byte: u16,
        /// The header of the form asked for.
        least_byte: u16,
    },
    /// This address has as many sessions as it may have.
    PeerSessions,
    /// All sessions are taken.
    Sessions,
    /// No memory is left for the arrivals of another session.
    Arrivals,
    /// The session was opened for something else than available bandwidth.
    Purpose,
    /// No valid probe has come from the client's UDP port yet, so it is not known where to send.
    Unproven,
    /// A train of this session is still being sent.
    Reversing,
    /// Data connections belong to a session for TCP, and to no other.
    FlowPurpose,
    /// The number of data connections is above the limit, or 0.
    Streams {
        /// Asked for.
        found: u8,
    },
    /// The bytes on data connections are above the limit.
    FlowByte {
        /// Asked for.
        found_byte: u64,
    },
    /// The bins of the session's time are too many.
    Bins {
        /// Asked for: the duration in bins.
        found: u64,
    },
    /// A train that may not be sent back.
    Reverse {
        /// What is too much.
        bound: ReverseBound,
        /// Asked for.
        found: u64,
        /// Allowed, now and in this session.
        most: u64,
    },
}

/// What bounds a train that is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReverseBound {
    /// Packets of one train: the session's burst.
    Packets,
    /// Bytes of a datagram: the session's size.
    SizeByte,
    /// Time from its first packet to its last, ns.
    LastsNs,
    /// Packets that have come from the client and not been answered.
    CreditPackets,
    /// Bytes that have come from the client and not been answered, IP and UDP headers included.
    CreditByte,
}

impl ReverseBound {
    const fn in_words(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::SizeByte => "B a packet",
            Self::LastsNs => "ns long",
            Self::CreditPackets => "packets, more than came from here",
            Self::CreditByte => "B, more than came from here",
        }
    }
}

/// A refusal, with all the limits, so that the next request can be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// What is allowed.
    pub limits: Limits,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.limits;
        match self.reason {
            Reason::Version { client, responder } => {
                let older = if client.most < responder.least { "here" } else { "at the responder" };
                write!(
                    f,
                    "the responder speaks control version {responder}, this program {client}: install the newer vtare \
                     {older}"
                )
            }
            Reason::OutOfTurn => f.write_str("the message came out of turn: hello first and once, then open"),
            Reason::UnknownSession => f.write_str("no such session on this connection: it was closed or has expired"),
            Reason::Rate { found_packet_per_s } => write!(
                f,
                "{found_packet_per_s} packet/s asked, the responder allows {}: lower the rate, or raise its limit",
                limits.rate_packet_per_s
            ),
            Reason::Burst { found_packet } => write!(
                f,
                "trains of {found_packet} packets asked, the responder allows 1 to {}: send shorter trains",
                limits.burst_packet
            ),
            Reason::Duration { found_ns } => write!(
                f,
                "{} s asked, the responder allows {} s: measure for a shorter time, or raise its limit",
                seconds(found_ns),
                seconds(limits.duration_ns)
            ),
            Reason::Packets { found } => write!(
                f,
                "{found} packets asked, the responder allows {}: send fewer, or raise its limit",
                limits.packets
            ),
            Reason::Size { found_byte, least_byte } => write!(
                f,
                "datagrams of {found_byte} B asked, the responder allows {least_byte} to {} B in this form",
                limits.size_byte
            ),
            Reason::PeerSessions => write!(
                f,
                "this address has {} sessions, as many as the responder allows: wait for one to end",
                limits.sessions_per_peer
            ),
            Reason::Sessions => {
                write!(f, "all {} sessions of the responder are taken: try again later", limits.sessions)
            }
            Reason::Arrivals => write!(
                f,
                "the responder keeps {} arrivals for all its clients, and they are taken: try again later",
                limits.arrivals_in_all
            ),
            Reason::Purpose => f.write_str("the session was not opened for available bandwidth"),
            Reason::Unproven => {
                f.write_str("no valid probe has come from this client's UDP port yet: send one-way probes first")
            }
            Reason::FlowPurpose => f.write_str("data connections belong to a session for tcp, and to no other"),
            Reason::Streams { found } => {
                write!(f, "{found} streams asked, the responder allows 1 to {}: ask for fewer", limits.flows().streams)
            }
            Reason::FlowByte { found_byte } => write!(
                f,
                "{found_byte} B over TCP asked, the responder allows {}: lower --max-bytes or the time, or raise its \
                 limit",
                limits.flows().byte
            ),
            Reason::Bins { found } => {
                write!(f, "{found} bins asked, the responder keeps {}: ask for longer bins", limits.flows().bins)
            }
            Reason::Reversing => f.write_str("a train of this session is still being sent back: wait for its end"),
            Reason::Reverse { bound, found, most } => {
                let words = bound.in_words();
                let way_out = match bound {
                    ReverseBound::CreditPackets | ReverseBound::CreditByte => "send one-way probes first",
                    _ => "ask for a shorter train",
                };
                write!(f, "a train back of {found} {words}, at most {most} now: {way_out}")
            }
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Limits {
    /// The refusal for `reason` under these limits.
    #[must_use]
    pub const fn refuse(&self, reason: Reason) -> Refusal {
        Refusal { reason, limits: *self }
    }

    /// What is allowed of data connections: none where the limits do not mention them.
    fn flows(&self) -> FlowLimits {
        self.tcp.unwrap_or(FlowLimits { streams: 0, byte: 0, bins: 0, silent_ns: 0 })
    }

    /// Checks a request by itself; how many sessions there are is the table's to know.
    ///
    /// # Errors
    /// The first limit that the request crosses.
    pub fn check(&self, open: &Open) -> Result<(), Refusal> {
        let least_byte = open.form.header_byte() as u16;
        let reason = if open.rate_packet_per_s > self.rate_packet_per_s {
            Reason::Rate { found_packet_per_s: open.rate_packet_per_s }
        } else if !(1..=self.burst_packet).contains(&open.burst_packet) {
            Reason::Burst { found_packet: open.burst_packet }
        } else if open.duration_ns > self.duration_ns {
            Reason::Duration { found_ns: open.duration_ns }
        } else if open.packets > self.packets {
            Reason::Packets { found: open.packets }
        } else if !(least_byte..=self.size_byte).contains(&open.size_byte) {
            Reason::Size { found_byte: open.size_byte, least_byte }
        } else if let Err(reason) = self.flows().check(open) {
            reason
        } else {
            return Ok(());
        };
        Err(self.refuse(reason))
    }
}
