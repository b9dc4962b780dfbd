//! The first bytes of a data connection: which session it belongs to, which of its streams it is, and the proof.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | [`preamble`]: `vtare`, version of the connection, 2, number of the stream |
//! | 8..16 | session id |
//! | 16..24 | tag over bytes 0..16, with the session's key |
//!
//! The tag is that of probes, over another length and another first byte, so that neither passes for the other. The
//! responder takes each number of a session once: a copy opens nothing. It answers with the 8 bytes of its own
//! preamble, fewer than came.

use crate::preamble::{self, PREAMBLE_BYTE};
use crate::{SessionId, SessionKey};

/// Bytes of a hello.
pub const HELLO_BYTE: usize = 24;

const COVERED_BYTE: usize = 16;

/// The first bytes of a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its session.
    pub session: SessionId,
    /// Its number among the session's streams, from 0.
    pub number: u8,
}

/// A hello whose tag has not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unverified {
    hello: Hello,
    bytes: [u8; HELLO_BYTE],
}

impl Hello {
    /// The bytes, with the tag of the session's key.
    #[must_use]
    pub fn encode(&self, key: &SessionKey) -> [u8; HELLO_BYTE] {
        let mut bytes = [0; HELLO_BYTE];
        bytes[..PREAMBLE_BYTE].copy_from_slice(&preamble::of_stream(self.number));
        bytes[PREAMBLE_BYTE..COVERED_BYTE].copy_from_slice(&self.session.0.to_be_bytes());
        let tag = key.tag(&bytes[..COVERED_BYTE]);
        bytes[COVERED_BYTE..].copy_from_slice(&tag.to_be_bytes());
        bytes
    }
}

impl Unverified {
    /// Reads a hello; `None` where these bytes are none.
    #[must_use]
    pub fn parse(bytes: &[u8; HELLO_BYTE]) -> Option<Self> {
        let number = preamble::read_stream(bytes.first_chunk()?)?;
        let session = bytes.get(PREAMBLE_BYTE..COVERED_BYTE)?.try_into().ok().map(u64::from_be_bytes)?;
        Some(Self { hello: Hello { session: SessionId(session), number }, bytes: *bytes })
    }

    /// The session it names.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.hello.session
    }

    /// What it states, where its tag is that of `key`.
    #[must_use]
    pub fn verify(&self, key: &SessionKey) -> Option<Hello> {
        (self.hello.encode(key) == self.bytes).then_some(self.hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello { session: SessionId(0x0102_0304_0506_0708), number: 3 };
    static KEY: SessionKey = SessionKey::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let bytes = HELLO.encode(&KEY);
        assert_eq!(bytes[..COVERED_BYTE], *b"vtare\x01\x02\x03\x01\x02\x03\x04\x05\x06\x07\x08");
        // SipHash-2-4 computed by another program.
        assert_eq!(bytes[COVERED_BYTE..], 0x40d3_2591_497a_d302_u64.to_be_bytes());
        assert_eq!(Unverified::parse(&bytes).and_then(|it| it.verify(&KEY)), Some(HELLO));
    }

    #[test]
    fn each_flipped_bit_and_another_key_are_found() {
        let bytes = HELLO.encode(&KEY);
        for bit in 0..HELLO_BYTE * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Unverified::parse(&changed).and_then(|it| it.verify(&KEY)), None, "bit {bit}");
        }
        let other = SessionKey::new([9; 16]);
        assert_eq!(Unverified::parse(&bytes).and_then(|it| it.verify(&other)), None);
    }
}
