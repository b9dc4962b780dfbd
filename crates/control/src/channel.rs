use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, TransportState};
use vtare_wire::session::{ARRIVALS_MARK, Arrivals, ArrivalsError, ToClient};

use crate::frame;
use crate::key::PresharedKey;

/// Noise, pattern NN with the pre-shared key before everything else; docs/internals/security.md.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Bytes that encryption adds.
const SEAL_BYTE: usize = 16;

/// Bytes of either handshake message: a public key and a seal over nothing.
pub(crate) const HANDSHAKE_BYTE: usize = 32 + SEAL_BYTE;

/// The longest message of a client, in bytes of JSON. Names of programs and all numbers at their longest take less than
/// half.
pub const LARGEST_MESSAGE_BYTE: usize = 1024;

/// The longest message of a responder, in bytes of JSON.
pub const LARGEST_ANSWER_BYTE: usize = 4096;

/// Why a frame or a message is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The frame is longer than any message.
    #[error(transparent)]
    TooLong(#[from] frame::TooLong),
    /// Decryption failed: another key, or bytes that were changed on the way.
    #[error("decryption failed")]
    Seal,
    /// The cipher could not be set up or used.
    #[error("cipher: {0}")]
    Cipher(snow::Error),
    /// Decrypted well, but no message that this program knows.
    #[error("no message of this control version: {0}")]
    Message(serde_json::Error),
    /// Decrypted well, but no arrivals.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
}

/// Reads a decrypted message.
///
/// # Errors
/// [`ChannelError::Message`].
pub fn decode<M: DeserializeOwned>(text: &[u8]) -> Result<M, ChannelError> {
    serde_json::from_slice(text).map_err(ChannelError::Message)
}

/// Writes a message, as it is before encryption.
///
/// # Errors
/// [`ChannelError::Message`], which messages of this crate never give.
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, ChannelError> {
    serde_json::to_vec(message).map_err(ChannelError::Message)
}

/// Reads a responder's decrypted answer: arrivals by their first byte, all others as JSON.
///
/// # Errors
/// [`ChannelError::Message`], [`ChannelError::Arrivals`].
pub fn decode_answer(text: &[u8]) -> Result<ToClient, ChannelError> {
    if text.first() == Some(&ARRIVALS_MARK) {
        return Ok(ToClient::Arrivals(Arrivals::decode(text)?));
    }
    decode(text)
}

/// Writes a responder's answer, as it is before encryption.
///
/// # Errors
/// As [`encode`].
pub fn encode_answer(answer: &ToClient) -> Result<Vec<u8>, ChannelError> {
    match answer {
        ToClient::Arrivals(arrivals) => Ok(arrivals.encode()),
        other => encode(other),
    }
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Handshake(HandshakeState);

impl Handshake {
    pub(crate) fn of_client(key: Option<&PresharedKey>, prologue: &[u8]) -> Result<Self, ChannelError> {
        Self::start(key, prologue, Builder::build_initiator)
    }

    /// The responder's handshake after message 1, with the key that made the message; `None` where none of `keys` did.
    /// Without a key the public one stands in. Costs hashes and one cipher block for each key, no curve: it is checked
    /// before any expensive work.
    pub(crate) fn answer(keys: &[PresharedKey], prologue: &[u8], message: &[u8]) -> Result<Option<Self>, ChannelError> {
        let keyed = keys.iter().map(Some).chain(keys.is_empty().then_some(None));
        for key in keyed {
            let mut handshake = Self::start(key, prologue, Builder::build_responder)?;
            let fits = handshake.read(message).is_ok();
            handshake.forget_key()?;
            if fits {
                return Ok(Some(handshake));
            }
        }
        Ok(None)
    }

    /// Appends message 2 to `out` as a frame; the connection is encrypted from then on.
    pub(crate) fn finish_with_answer(mut self, out: &mut Vec<u8>) -> Result<Channel, ChannelError> {
        self.write(out)?;
        self.finish()
    }

    fn start<'b>(
        key: Option<&'b PresharedKey>,
        prologue: &'b [u8],
        build: impl FnOnce(Builder<'b>) -> Result<HandshakeState, snow::Error>,
    ) -> Result<Self, ChannelError> {
        let pattern = PATTERN.parse().map_err(ChannelError::Cipher)?;
        Builder::new(pattern)
            .psk(0, PresharedKey::bytes_or_public(key))
            .and_then(|builder| builder.prologue(prologue))
            .and_then(build)
            .map(Self)
            .map_err(ChannelError::Cipher)
    }

    /// Appends the next handshake message to `out` as a frame.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let mut body = [0; HANDSHAKE_BYTE];
        let length = self.0.write_message(&[], &mut body).map_err(ChannelError::Cipher)?;
        Ok(frame::append(out, &body[..length])?)
    }

    /// Takes the other end's handshake message.
    pub(crate) fn read(&mut self, body: &[u8]) -> Result<(), ChannelError> {
        let mut nothing = [0; HANDSHAKE_BYTE];
        match self.0.read_message(body, &mut nothing) {
            Ok(0) => Ok(()),
            _ => Err(ChannelError::Seal),
        }
    }

    /// Overwrites the handshake's own copy of the pre-shared key, which is needed for message 1 only.
    pub(crate) fn forget_key(&mut self) -> Result<(), ChannelError> {
        self.0.set_psk(0, &[0; 32]).map_err(ChannelError::Cipher)
    }

    pub(crate) fn finish(self) -> Result<Channel, ChannelError> {
        self.0.into_transport_mode().map(Channel).map_err(ChannelError::Cipher)
    }
}

/// Overwrites the part of this thread's stack below the caller, where the handshake of a crate that does not do it
/// itself has left copies of the pre-shared key. Called from where the handshake was.
#[inline(never)]
pub(crate) fn scrub_stack() {
    use zeroize::Zeroize;

    let mut room = [u64::MAX; 4_096];
    std::hint::black_box(&mut room);
    room.zeroize();
    std::hint::black_box(&room);
}

/// An encrypted connection in both directions.
#[derive(Debug)]
pub(crate) struct Channel(TransportState);

impl Channel {
    /// Appends a message to `out` as an encrypted frame.
    pub(crate) fn write<M: Serialize>(&mut self, message: &M, out: &mut Vec<u8>) -> Result<(), ChannelError> {
        self.write_text(&encode(message)?, out)
    }

    /// Appends a responder's answer to `out` as an encrypted frame.
    pub(crate) fn write_answer(&mut self, answer: &ToClient, out: &mut Vec<u8>) -> Result<(), ChannelError> {
        self.write_text(&encode_answer(answer)?, out)
    }

    fn write_text(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), ChannelError> {
        let mut body = vec![0; text.len() + SEAL_BYTE];
        let length = self.0.write_message(text, &mut body).map_err(ChannelError::Cipher)?;
        Ok(frame::append(out, &body[..length])?)
    }

    /// Decrypts the body of a frame.
    pub(crate) fn read(&mut self, body: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut text = vec![0; body.len()];
        let length = self.0.read_message(body, &mut text).map_err(|_| ChannelError::Seal)?;
        text.truncate(length);
        Ok(text)
    }
}

/// The longest frame that carries a message of `text_byte`.
pub(crate) const fn sealed_byte(text_byte: usize) -> usize {
    text_byte + SEAL_BYTE
}
