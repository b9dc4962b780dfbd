//! The responder: one port, TCP for control and UDP for probes; one daemon for round-trip times, available bandwidth
//! and throughput. May touch: units, sys, clock, bpf, wire, probe, link, control.
//!
//! [`Responder::bind`] opens the sockets, [`Responder::run`] serves until it is stopped. Between the two the
//! caller gives up its privileges. Threads serve: the caller's reflects probes and touches nothing else, so that no
//! handshake delays a reply; a second one holds the control connections, ends sessions and writes the [`journal`]; a
//! third sends the trains that clients asked for; a fourth reads data connections; a fifth reflects STAMP packets,
//! where that was asked for. They share the table of sessions, whose lock none holds during a system call.
//!
//! docs/internals/security.md is the account of what bounds each resource.

#![forbid(unsafe_code)]

mod control_server;
mod error;
pub mod journal;
mod journal_text;
pub mod kernel;
mod options;
mod probe_socket;
mod rates;
mod reflector;
mod replies;
mod responder;
mod reverse;
mod sink;
mod stamp;
mod tally;
mod witness;

pub use error::ServeError;
pub use options::{ConnectionLimits, Options};
pub use responder::{Obtained, Responder, Summary};
pub use stamp::StampOptions;
