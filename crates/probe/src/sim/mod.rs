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

use vtare_wire::{IPV4_UDP_BYTE, LARGEST_BYTE};

use crate::link::{Capabilities, Facts};

/// The facts of a simulated link with these capabilities.
fn facts(capabilities: Capabilities) -> Facts {
    Facts {
        engine: "sim".to_owned(),
        chosen_because: "a simulated path was asked for".to_owned(),
        capabilities,
        refusals: Vec::new(),
        stamp_error_ns: None,
        ip_header_byte: IPV4_UDP_BYTE,
        most_payload_byte: Some(LARGEST_BYTE),
    }
}

#[cfg(test)]
mod tests;
