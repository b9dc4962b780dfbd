use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use vtare_units::Span;

use crate::launch::Keeper;

/// How a link passes the time until the next packet is due or arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Asks the socket without pause, from shortly before a packet is due until 50 ms after it was sent; else it sleeps
    /// in the kernel. Above 20 packets a second that is a whole core, and no wake-up is ever waited for.
    #[default]
    Spin,
    /// Sleeps in the kernel until something arrives or is due, as ordinary programs do.
    Block,
}

/// A spinning link goes on spinning for this long after a packet was sent: a reply may come any moment.
pub(crate) const LINGER: Span = Span::from_millis(50);
/// A sleeping link wakes this long before a packet is due: the kernel's wake-ups are late by less, nearly always.
pub(crate) const WAKE_BEFORE: Span = Span::from_millis(1);

/// What is wanted of a socket link. What was obtained is in [`vtare_probe::link::Facts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Local address; `None` leaves the choice to the routing table.
    pub local: Option<IpAddr>,
    /// How to wait.
    pub wait: Wait,
    /// Every how many packets a departure is stamped; 0: none.
    pub tx_stamp_every: u32,
    /// Whether arrivals are stamped.
    pub rx_stamps: bool,
    /// Whether the network card shall stamp, too.
    pub hardware: bool,
    /// Whether bursts of equal size may leave in one large send (UDP only).
    pub gso: bool,
    /// Whether arrivals may come merged (UDP only). They then share one kernel stamp.
    pub gro: bool,
    /// Packets may carry the time at which they shall go, and this keeps it; `None`: they go at once.
    pub launch: Option<Keeper>,
    /// Poll the network card's queue for this many microseconds; `None`: leave what the system has.
    pub busy_poll_us: Option<u32>,
    /// Bytes of the largest payload that arrives.
    pub largest_byte: usize,
    /// Bytes of the socket's buffers, in each direction.
    pub buffer_byte: usize,
    /// Differences between two readings of the clock that count as gaps, from this many ns on.
    pub gap_ns: u64,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            local: None,
            wait: Wait::Spin,
            tx_stamp_every: 1,
            rx_stamps: true,
            hardware: false,
            gso: true,
            gro: false,
            launch: None,
            busy_poll_us: None,
            largest_byte: vtare_wire::LARGEST_BYTE,
            buffer_byte: 1 << 23,
            gap_ns: 10_000,
        }
    }
}

/// Above this rate one departure in [`SPARSE_TX_STAMPS`] is stamped: reading each stamp costs a system call.
const DENSE_TX_STAMPS_UP_TO: u64 = 20_000;
const SPARSE_TX_STAMPS: u32 = 64;
/// From this rate on packets leave and arrive in bunches anyway.
const BUNCHED_FROM: u64 = 100_000;

impl SocketOptions {
    /// The options that suit a rate, in packets a second.
    #[must_use]
    pub fn for_rate(packet_per_s: u64) -> Self {
        let tx_stamp_every = if packet_per_s > DENSE_TX_STAMPS_UP_TO { SPARSE_TX_STAMPS } else { 1 };
        let bunched = packet_per_s >= BUNCHED_FROM;
        // A large send is one packet to queues and filters on its way, which then drop all of it: not below the rates
        // that need it.
        Self { tx_stamp_every, gso: bunched, gro: bunched, ..Self::default() }
    }
}
