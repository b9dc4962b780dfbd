//! A simulated path there and back as a link, with its own time, and far ends that answer.
//!
//! Time is a number. It jumps from event to event, every run of a seed is the same, and ten minutes of 1 kpps over
//! several hops take tenths of a second. [`vtare_pathsim`] has the path itself.

mod far;
mod link;
mod spec;
mod trains;

pub use far::{Echo, FarSide, Responder};
pub use link::SimLink;
pub use spec::SimSpec;
pub use trains::{CrossSeen, RelaySpec, SenderSpec, TrainFar, TrainLink, TrainSpec};

#[cfg(test)]
mod tests;
