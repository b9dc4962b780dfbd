//! The control connection, both ends: TCP, authenticated by a pre-shared key and encrypted (docs/internals/security.md
//! gives the reasons). May touch: units, sys, wire, probe.
//!
//! | step | who | bytes |
//! |---|---|---|
//! | 1 | client | [`vtare_wire::preamble`]: 8 B in the clear, then message 1 of Noise NNpsk0 as a [`frame`] |
//! | 2 | responder | 8 B in the clear: go on, or why not; then message 2 as a frame |
//! | 3 | both | frames, encrypted, of JSON but for arrivals ([`vtare_wire::session::Arrivals::encode`]): [`vtare_wire::session::ToResponder`], [`vtare_wire::session::ToClient`], one answer to each message |
//!
//! A session for TCP throughput has its data on connections of their own to the same port: [`vtare_wire::hello`] is
//! what they begin with, [`streams`] the client's end of them.
//!
//! [`client`] talks over a blocking socket. [`server::Connection`] takes bytes and gives bytes, so that it can be
//! tested, fuzzed and driven by any loop.

#![forbid(unsafe_code)]

mod channel;
pub mod client;
pub mod dialogue;
mod far;
mod first_messages;
pub mod frame;
mod hangup;
mod key;
pub mod server;
pub mod streams;
mod surroundings;

pub use channel::{
    ChannelError, LARGEST_ANSWER_BYTE, LARGEST_MESSAGE_BYTE, decode, decode_answer, encode, encode_answer,
};
pub use client::{ControlError, OpenedSession};
pub use first_messages::FirstMessages;
pub use hangup::Hangup;
pub use key::{KeyError, PresharedKey};
pub use surroundings::{Event, Surroundings, TimeLimits};

#[cfg(test)]
mod tests;
