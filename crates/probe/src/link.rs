//! What carries probes: one small trait, and the facts of a link.
//!
//! A link moves payloads (all behind the UDP or ICMP header) between this host and one far end. It knows nothing of
//! sessions or of what the bytes mean. It owns the clock of its run: [`ProbeLink::now`], so that a simulated link
//! brings its own time.
//!
//! **One clock.** Every local stamp a link gives is on CLOCK_MONOTONIC.

use std::io::ErrorKind;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
pub use vtare_traffic::LocalDrops;
use vtare_units::{Monotonic, Span, Timestamp};

/// Who took a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StampSource {
    /// The kernel's network stack.
    Software,
    /// The network card.
    Hardware,
}

/// A stamp that was not taken by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When, on this host's monotonic clock.
    pub at: Timestamp<Monotonic>,
    /// By whom.
    pub source: StampSource,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its number: the key under which a kernel stamp of its departure comes back.
    pub sequence: u64,
    /// What follows the UDP or ICMP header. An ICMP engine puts its own echo header before it.
    pub payload: &'a [u8],
    /// When the kernel shall let it go, for links with [`Capabilities::launch_time`]; `None`: at once.
    pub launch: Option<Timestamp<Monotonic>>,
}

/// What became of a call to [`ProbeLink::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How many datagrams, from the first, the kernel took. The others are unsent: the kernel had no room for them.
    pub accepted: usize,
    /// Just before the kernel was called: the send time of the first.
    pub before: Timestamp<Monotonic>,
    /// Just after: each datagram of the burst left between the two.
    pub after: Timestamp<Monotonic>,
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// What follows the UDP or ICMP header.
    pub payload: &'a [u8],
    /// When the program got it.
    pub arrived: Timestamp<Monotonic>,
    /// When the kernel or the card got it, where it is known.
    pub stamp: Option<Stamp>,
    /// TTL or hop limit that it arrived with, where the link knows.
    pub ttl: Option<u8>,
    /// DSCP and ECN that it arrived with, as the byte of IPv4's TOS, where the link knows.
    pub class: Option<u8>,
}

/// The departure of one datagram as the kernel or the card saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Which datagram.
    pub sequence: u64,
    /// When it left.
    pub stamp: Stamp,
}

/// What the kernel and the card gave to this link. Each is what was *obtained*, not what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Capabilities {
    /// Who stamps departures; `None`: nobody.
    pub tx_stamp: Option<StampSource>,
    /// Every how many packets a departure is stamped: 1 is each, 64 is one in 64. 0 where nobody stamps.
    pub tx_stamp_every: u32,
    /// Who stamps arrivals; `None`: nobody.
    pub rx_stamp: Option<StampSource>,
    /// Many datagrams leave in one call as one large packet (UDP_SEGMENT).
    pub gso: bool,
    /// Arrivals may come several at once, as one large packet (UDP_GRO): they then share one kernel stamp.
    pub gro: bool,
    /// The kernel lets packets go at a given time (SO_TXTIME, with a queue that keeps such times).
    pub launch_time: bool,
    /// Drops in the receive buffer are counted.
    pub counts_drops: bool,
    /// Datagrams of one [`ProbeLink::send`] call; more are taken, in several system calls.
    pub batch: usize,
}

/// Something the link wanted and did not get; goes to the screen and into the footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Refusal {
    /// What was wanted, as an identifier: `gso`, `tx_stamp_hardware`, `rx_stamp`, `launch_time`, `receive_buffer`.
    pub wanted: String,
    /// The system's error: found, wanted, the way out.
    // Documents of the binary keep the keys that they once had.
    #[serde(rename = "said")]
    pub reason: String,
}

/// What a link has and does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Facts {
    /// The engine: `udp`, `icmp`, `af_xdp`, `xdp`, `sim`.
    pub engine: String,
    /// Why this engine: chosen by rate, forced, or the next best after a refusal.
    pub chosen_because: String,
    /// What it got.
    pub capabilities: Capabilities,
    /// What it did not get.
    pub refusals: Vec<Refusal>,
    /// Half the width of the interval that is sure to hold the true conversion of kernel stamps to the monotonic
    /// clock, ns; `None` where stamps need no conversion.
    pub stamp_error_ns: Option<u64>,
    /// Bytes of the headers before the payload, from the IP header on: 28 for IPv4 and UDP, 48 for IPv6.
    pub ip_header_byte: usize,
    /// Largest payload that needs no fragments, where known.
    pub most_payload_byte: Option<usize>,
}

/// Why a link cannot go on. What merely was not sent or not granted is no error.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The far end's host answered that nobody listens there.
    #[error("{peer} refuses: is `vtare serve` running there?")]
    Refused {
        /// The far end.
        peer: String,
    },
    /// A datagram is larger than the path or the interface carries.
    #[error("datagram of {found_byte} B, the path carries {most_byte} B: choose a smaller size")]
    TooLarge {
        /// Bytes of the payload.
        found_byte: usize,
        /// Bytes that fit.
        most_byte: usize,
    },
    /// No packet can leave for the far end.
    #[error("cannot reach {peer}: {source}{}", unreachable_remedy(source))]
    Unreachable {
        /// The far end.
        peer: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The interface went down, the socket died, memory ran out.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// `: ` and the way out where a far end cannot be reached, else nothing.
#[must_use]
pub fn unreachable_remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => ": start `vtare serve` there",
        ErrorKind::HostUnreachable => ": is the address right, and is that machine up?",
        ErrorKind::NetworkUnreachable => ": is an interface of this machine up, and is there a route (`ip route`)?",
        _ => "",
    }
}

/// Sends and receives probes. The links of real networks are in `vtare_link`; [`crate::sim`] is a simulated one.
///
/// A link is used by one thread. The loop that drives it is [`crate::open_loop`].
pub trait ProbeLink {
    /// What the link got and did not get.
    fn facts(&self) -> &Facts;

    /// The clock of this run.
    fn now(&self) -> Timestamp<Monotonic>;

    /// Sends datagrams in their order, without waiting for room in the kernel's buffers.
    ///
    /// # Errors
    /// Where the link cannot go on.
    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError>;

    /// Gives every datagram that arrives to `sink` until `until`, and returns as close behind `until` as the engine can
    /// (spinning, where it spins). With `until` in the past: what is there already, once. Datagrams are given in
    /// the order of arrival.
    ///
    /// # Errors
    /// Where the link cannot go on.
    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError>;

    /// Waits until `until`, as close behind it as the engine can, and checks nothing but the clock: between two
    /// packets of a train reading what has arrived would make the next one late. Sleeps only far from `until`.
    /// Links without a better way receive and forget.
    ///
    /// # Errors
    /// Where the link cannot go on.
    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        self.receive(until, &mut |_| ())
    }

    /// Gives the departures that were stamped since the last call. Costs a system call: once a millisecond is enough.
    ///
    /// # Errors
    /// Where the link cannot go on.
    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError>;

    /// Datagrams lost on this host since the link was opened.
    ///
    /// # Errors
    /// Where the link cannot go on.
    fn local_drops(&mut self) -> Result<LocalDrops, LinkError>;
}

impl Facts {
    /// How well kernel stamps are placed on the monotonic clock; zero where they are taken on it.
    #[must_use]
    pub fn stamp_error(&self) -> Span {
        Span::from_unsigned_nanos(self.stamp_error_ns.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_keys_in_documents() {
        let refusal = Refusal { wanted: "gso".to_owned(), reason: "found Linux 4.4".to_owned() };
        let document = serde_json::to_value(&refusal).expect("serializes");
        assert_eq!(document, serde_json::json!({"wanted": "gso", "said": "found Linux 4.4"}));
    }
}
