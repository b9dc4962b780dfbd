use std::net::SocketAddr;

use crate::launch::Keeper;
use crate::rate::RatePolicy;
use crate::wait::Wait;

/// What is wanted of a socket link. What was obtained is in [`vtare_probe::link::Facts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Local address, whose port is not used; `None` leaves the choice to the routing table.
    pub local: Option<SocketAddr>,
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
    /// DSCP and ECN of packets, as the byte of IPv4's TOS, and those of arrivals are wanted; `None`: what the system
    /// gives.
    pub class: Option<u8>,
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
            class: None,
            largest_byte: vtare_wire::LARGEST_BYTE,
            buffer_byte: 1 << 23,
            gap_ns: 10_000,
        }
    }
}

impl SocketOptions {
    /// The options that suit a rate.
    #[must_use]
    pub fn for_rate(policy: RatePolicy) -> Self {
        let RatePolicy { tx_stamp_every, bunched, .. } = policy;
        Self { tx_stamp_every, gso: bunched, gro: bunched, ..Self::default() }
    }
}
