//! Responsiveness over HTTP/2 and TLS: drives a measurement, and is its far end for any client. May touch:
//! units, sys, wire, methods.
//!
//! What to do and what the probes mean is decided in [`vtare_methods::rpm`]. This room alone has an executor and
//! somebody else's TLS; its program, `vtare-rpm`, is one of its own, so that none of it is in `vtare`.
//!
//! - [`measure`]: the client.
//! - [`serve`]: the far end. It reads what strangers send and sends more than it receives: each connection is bounded
//!   in time and bytes ([`meter`]), all together in number and rate; its process is confined ([`confine`]).
#![forbid(unsafe_code)]

pub mod confine;
pub mod connect;
pub mod content;
mod error;
mod http1;
mod load;
pub mod measure;
pub mod meter;
mod places;
pub mod serve;
pub mod site;

pub use error::RpmError;

use vtare_units::{Monotonic, Timestamp};

/// The time now.
fn now() -> Timestamp<Monotonic> {
    vtare_sys::clocks::now()
}

/// Nanoseconds since then.
fn since(then: Timestamp<Monotonic>) -> u64 {
    (now() - then).as_nanos().max(0).cast_unsigned()
}

/// Bytes that may wait unsent in a socket, in TLS, and in a stream: what waits there adds to the delay of probes, and
/// none of it is the path's.
const UNSENT_MOST: usize = 4_096;
