//! Probes as a capture point on a host sees them (docs/guide/overhead.md). May touch: units, sys, clock, bpf, wire.
//!
//! - [`frame`]: from the bytes of a frame to its IP and UDP or ICMP headers.
//! - [`probe`]: from those to a probe: whose it is, which number it has, whether it asks or answers.
//! - [`pcap`]: frames out of files, as tcpdump and others write them.
//! - [`tc`]: probes by programs in the kernel at the entry and exit of an interface.
//! - [`ring`]: probes by an AF_PACKET ring.
//!
//! Nothing here knows a key: fields are taken from the packets unverified.

#![forbid(unsafe_code)]

mod direction;
pub mod frame;
mod header;
pub mod pcap;
pub mod probe;
pub mod ring;
#[cfg(test)]
mod sample;
mod tally;
pub mod tc;
mod tunnel;

pub use direction::Direction;
pub use tally::Tally;
