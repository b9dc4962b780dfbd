//! Cross traffic with a measured rate: a sender, and a sink that counts what came.
//!
//! Arrivals come from the simulated path's own sources ([`vtare_pathsim::Source`]): the same seed makes the
//! same traffic in both. Rates and bytes are at the IP layer. What was asked for is a wish; what was sent, and what the
//! sink's kernel stamped, is the truth.

mod bins;
mod sender;
mod sink;

use std::net::SocketAddr;

pub use bins::NetBin;
pub use sender::send;
use serde::Serialize;
pub use sink::count;
use vtare_pathsim::{Cross, SimError, Traffic};
use vtare_units::Span;
use vtare_wire::{IPV4_UDP_BYTE, IPV6_UDP_BYTE};

/// What to send.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderOptions {
    /// Where to.
    pub to: SocketAddr,
    /// Mean rate, bit/s of IP packets.
    pub rate_bit_per_s: u64,
    /// UDP payload of each packet, bytes.
    pub size_byte: u16,
    /// How packets follow each other.
    pub arrivals: Arrivals,
    /// Seed of all that is random.
    pub seed: u64,
    /// For how long, from `ready`; `None` until stopped.
    pub limit: Option<Span>,
    /// How late a packet may leave without need: what is not spun for spares the CPU.
    pub tolerance: Span,
    /// Packets later than this are left out instead of being sent in a burst.
    pub catch_up: Span,
    /// Whether packets that are due together may leave as one large send (UDP_SEGMENT).
    pub segments: bool,
    /// The CPU of the sending thread.
    pub cpu: Option<usize>,
    /// Length of a [`NetBin`].
    pub bin: Span,
}

/// What to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkOptions {
    /// Where packets come to.
    pub at: SocketAddr,
    /// For how long, from `ready`; `None` until stopped.
    pub limit: Option<Span>,
    /// The CPU of the counting thread.
    pub cpu: Option<usize>,
    /// Length of a [`NetBin`].
    pub bin: Span,
}

/// How packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// With exponential gaps.
    Poisson,
    /// Evenly at the peak rate for a while, then not at all, both for Pareto times.
    Onoff {
        /// Rate while on, bit/s of IP packets.
        peak_bit_per_s: u64,
        /// Mean length of a burst, ns.
        burst_ns: u64,
        /// Shape of both durations, above 1; below 2 they have no variance.
        shape: f64,
    },
}

impl SenderOptions {
    /// The traffic, as the simulated path knows it.
    ///
    /// # Errors
    /// For values that make none.
    pub fn traffic(&self) -> Result<Cross, SimError> {
        let (rate_bit_per_s, size_byte) = (self.rate_bit_per_s, u32::from(self.size_byte) + header_byte(self.to));
        let cross = Cross::always(match self.arrivals {
            Arrivals::Constant => Traffic::Constant { rate_bit_per_s, size_byte },
            Arrivals::Poisson => Traffic::Poisson { rate_bit_per_s, size_byte },
            Arrivals::Onoff { peak_bit_per_s, burst_ns, shape } => {
                Traffic::ParetoOnOff { rate_bit_per_s, peak_bit_per_s, size_byte, on_ns: burst_ns, shape }
            }
        });
        cross.check().map(|()| cross)
    }
}

/// Bytes of the IP and UDP headers.
pub(crate) fn header_byte(address: SocketAddr) -> u32 {
    (if address.is_ipv6() { IPV6_UDP_BYTE } else { IPV4_UDP_BYTE }) as u32
}

/// What a net load did.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NetReport {
    /// `sender` or `sink`.
    pub role: &'static str,
    /// The sink's address.
    pub address: SocketAddr,
    /// Packets sent, or received.
    pub packets: u64,
    /// Their bytes from the IP header on.
    pub ip_byte: u64,
    /// Sender: those bytes in the time from `ready` to the end. Sink: the bytes behind the first packet, from the
    /// first packet's stamp to the last's; `None` with fewer than two.
    pub rate_bit_per_s: Option<f64>,
    /// When the first packet was sent, or stamped by the sink's kernel, on CLOCK_MONOTONIC; `None` without packets.
    pub first_monotonic_ns: Option<u64>,
    /// The same for the last.
    pub last_monotonic_ns: Option<u64>,
    /// Only of a sender.
    pub sender: Option<SenderReport>,
    /// Only of a sink.
    pub sink: Option<SinkReport>,
}

/// What only a sender knows.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SenderReport {
    /// The rate asked for, bit/s of IP packets.
    pub asked_bit_per_s: u64,
    /// UDP payload of each packet, bytes.
    pub size_byte: u16,
    /// How packets followed each other.
    pub arrivals: Arrivals,
    /// The seed.
    pub seed: u64,
    /// Packets left out because they were too late.
    pub skipped: u64,
    /// Packets that the kernel had no room for.
    pub refused: u64,
    /// Times the far end refused a packet: no socket on the port.
    pub unreachable: u64,
    /// System calls that sent: with fewer calls than packets, some left in bursts.
    pub calls: u64,
    /// The most packets of one call.
    pub largest_burst: u64,
}

/// What only a sink knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SinkReport {
    /// Datagrams dropped because the socket's buffer was full; `None` where the kernel does not count them.
    pub socket_drops: Option<u64>,
    /// Packets without a stamp of the kernel: they count for the time at which they were read.
    pub unstamped: u64,
    /// Half the width of the interval that is sure to hold the place of the stamps on CLOCK_MONOTONIC, ns.
    pub stamp_error_ns: u64,
}

#[cfg(test)]
mod tests;
