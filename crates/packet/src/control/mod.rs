//! The control connection: TCP, authenticated by a pre-shared key and encrypted; docs/security.md says why it is made as it is.
//!
//! | step | who | bytes |
//! |---|---|---|
//! | 1 | client | [`preamble`]: 8 B in the clear, then message 1 of Noise NNpsk0 as a [`frame`] |
//! | 2 | responder | 8 B in the clear: go on, or why not; then message 2 as a frame |
//! | 3 | both | frames, encrypted, of JSON but for arrivals ([`crate::session::Arrivals::encode`]): [`crate::session::ToResponder`], [`crate::session::ToClient`], one answer to each message |
//!
//! A session for TCP throughput has its data on connections of their own to the same port: [`stream`] is what they begin with.
//!
//! [`client`] talks over a blocking socket. [`server::Connection`] takes bytes and gives bytes, so that it can be tested, fuzzed and
//! driven by any loop.

mod channel;
pub mod client;
pub mod dialogue;
mod first_messages;
pub mod frame;
mod key;
pub mod preamble;
pub mod server;
pub mod stream;

pub use channel::{
    ChannelError, LARGEST_ANSWER_BYTE, LARGEST_MESSAGE_BYTE, decode, decode_answer, encode, encode_answer,
};
pub use client::{ControlError, OpenedSession};
pub use first_messages::FirstMessages;
pub use key::{KeyError, PresharedKey};

#[cfg(test)]
mod tests;
