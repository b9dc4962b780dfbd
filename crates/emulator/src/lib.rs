//! A WAN between two interfaces: rate, delay, jitter, loss, duplication, disorder and damage, and the truth about each
//! 10 ms. May touch: units, sys, clock, wire, pathsim.
//!
//! - [`LaneSpec`], [`Lane`]: one direction as a state machine on arrival times. It shares its queue and its loss with
//!   the simulated path ([`vtare_pathsim`]) and has no I/O.
//! - [`frame`]: sizes, kinds and damaging of frames; [`segments`]: the packets of large ones. On byte slices.
//! - [`Emulator`]: the two directions on real interfaces.
//!
//! **The queue is served on a virtual clock**: a frame leaves it at max(its arrival, the departure before it) +
//! size/rate, where the arrival is the kernel's stamp. How late this program sees the frame, or lets it go, does not
//! enter: lateness of one frame is never the next one's, and the rate is exact. How late frames were let go is measured
//! for each of them.

#![forbid(unsafe_code)]

mod departures;
mod engine;
pub mod frame;
mod intake;
mod lane;
mod outgoing;
mod report;
pub mod segments;
mod spec;
mod store;
mod truth;

pub use engine::Emulator;
pub use lane::{Due, Fate, Lane};
pub use report::{EmulatorError, EmulatorOptions, Ended, Inlet, Outlet, Watch};
pub use spec::{Buffer, Jitter, JitterShape, LaneSpec, Layer, Phase, SpecError};
pub use truth::{BIN_NS, Bin, LaneCount};

#[cfg(test)]
mod tests;
