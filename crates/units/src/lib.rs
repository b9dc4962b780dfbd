//! Typed time, rates and sizes; figures of readings ([`figures`]: quantiles, histograms). May touch: nothing.
//!
//! Two timestamps subtract only when they come from the same clock, and a rate never meets a size without a span
//! between them. All types are plain integers inside and cost nothing at run time. [`Random`] gives the numbers of
//! repeatable runs.
//!
//! # Overflow
//!
//! Operators saturate at the ends of the range: a measurement that runs off the scale stays there and is visible, where
//! a wrapped one would look plausible. The `checked_*` methods return `None` instead.
#![forbid(unsafe_code)]

pub mod figures;
mod pace;
mod random;
mod rate;
mod span;
mod timestamp;

pub use pace::Pace;
pub use random::Random;
pub use rate::{BitRate, Bytes, PacketRate};
pub use span::Span;
pub use timestamp::{Clock, CounterTick, Monotonic, MonotonicRaw, Peer, ThreadCpu, Timestamp, Wall};
