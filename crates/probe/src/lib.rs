//! How probes are sent and taken: schedules, the trait of what carries them, the loops over it, and trains; no I/O and
//! no clock. May touch: units, traffic, wire, pathsim.
//!
//! - [`link`]: what carries probes, as one small trait; [`sim`], simulated paths behind it; [`many`], several as one.
//! - [`schedule`]: when each probe is due, as data and as an iterator without drift.
//! - [`open_loop`]: the loop of a sender that never waits for replies; [`closed_loop`]: of one that waits for each.
//! - [`train`]: trains of one-way probes, sent and asked for, and what became of each packet.
#![forbid(unsafe_code)]

pub mod closed_loop;
pub mod link;
pub mod many;
pub mod open_loop;
pub mod schedule;
pub mod sim;
pub mod train;
