//! Probes: how they look on the wire, when they leave, what carries them, and who may send them.
//!
//! - [`wire`]: the datagrams. Encoding and decoding on byte slices; a reply is a rewritten request and cannot be longer.
//! - [`schedule`]: when each probe is due, as data and as an iterator without drift.
//! - [`link`]: one small trait for all that carries probes, and [`link::sim`], a simulated path with its own time.
//! - [`control`]: the encrypted TCP connection over which sessions are opened.
//! - [`serve`]: the responder.
//! - [`capture`]: probes as a capture point on a host sees them, live or out of a file.
//! - [`session`]: who may send how much for how long; both ends as state machines without sockets.
//! - [`train`]: trains of one-way probes, sent and asked for, and what became of each packet.
//! - [`streams`]: data connections of the kernel's TCP, for its throughput.
//! - [`emulator`]: a WAN between two interfaces.
//! - [`tester`]: generator and analyser for tests of what forwards frames.
//! - [`xdp`]: probes that the kernel sends, answers and takes itself.
//! - [`open_loop`]: the loop of a sender that never waits for replies, over any link.
//!
//! Time is an argument or comes from the link; only what drives real sockets (`control::client`, `serve`) reads a clock.
#![forbid(unsafe_code)]

pub mod capture;
pub mod closed_loop;
pub mod control;
pub mod emulator;
pub mod link;
pub mod open_loop;
pub mod random;
pub mod schedule;
pub mod serve;
pub mod session;
pub mod streams;
pub mod tester;
pub mod train;
pub mod wire;
pub mod xdp;
