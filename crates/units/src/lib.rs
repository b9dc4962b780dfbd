//! Typed time, rates and sizes.
//!
//! Two timestamps subtract only when they come from the same clock, and a rate never meets a size without a span between
//! them. All types are plain integers inside, `no_std`, and cost nothing at run time.
//!
//! # Overflow
//!
//! Operators saturate at the ends of the range: a measurement that runs off the scale stays there and is visible, where a
//! wrapped one would look plausible. The `checked_*` methods return `None` instead.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod rate;
mod span;
mod timestamp;

pub use rate::{BitRate, Bytes, PacketRate};
pub use span::Span;
pub use timestamp::{Clock, CounterTick, Monotonic, MonotonicRaw, Peer, ThreadCpu, Timestamp, Wall};
