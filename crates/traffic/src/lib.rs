//! Trains of packets: what is to be sent, and what came of it. May touch: units.
//!
//! Methods ask for a [`Train`] and judge its [`Observation`]; links, real or simulated, make the one from the other.
#![forbid(unsafe_code)]

mod ability;
mod drops;
mod observation;
mod train;

pub use ability::Ability;
pub use drops::LocalDrops;
pub use observation::{Ecn, Observation, Packet, SortedArrival};
pub use train::{Spacing, Train};
