//! Sockets for measuring: many datagrams a call, kernel stamps, and what the kernel refused.
//!
//! - [`Socket`]: a UDP or ICMP socket with the options that matter for probes; each option answers whether it was
//!   obtained.
//! - [`SendBatch`], [`ReceiveBatch`]: `sendmmsg` and `recvmmsg` on buffers that are made once.
//! - [`configure`]: gives an interface its address, MTU and neighbours.
//! - [`control`]: the ancillary data of both, read and written as plain bytes.
//! - [`frames`]: a socket for whole frames of an interface.
//! - [`interface`]: the interfaces of this network namespace, their counters.
//! - [`hardware`]: stamps of network cards and the clocks they are on.
//! - [`packet_ring`]: copies of the packets that cross an interface.
//! - [`queue`]: queue disciplines of an interface.
//! - [`DmaLatency`]: keeps the CPUs of the machine out of deep sleep while it lives.
//! - [`route`]: route, neighbour and link of a packet.
//! - [`xsk`]: frames of one receive queue in shared memory (AF_XDP).
//! - [`namespace`]: moves a thread into a network namespace.
//! - [`netlink`]: messages of rtnetlink.
//! - [`tcp`]: the kernel's TCP: its congestion control, its account of a connection, and bytes thrown away unread.
//!
//! All stamps of sockets are on CLOCK_REALTIME, or on a network card's own clock; conversion is for the layers above.

mod address;
mod batch;
pub mod configure;
pub mod control;
pub mod frames;
pub mod hardware;
pub mod interface;
mod latency;
pub mod namespace;
pub mod netlink;
mod options;
pub mod packet_ring;
pub mod queue;
pub mod route;
mod socket;
pub mod tcp;
pub mod xsk;

pub use batch::{Message, ReceiveBatch, Received, SendBatch};
pub use latency::DmaLatency;
pub use options::{LaunchClock, PathMtu, StampFlags};
pub use socket::{Layer, Socket, Waited, wait_any_readable, wait_readable};

#[cfg(test)]
mod tests;
