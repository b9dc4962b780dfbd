use std::fmt;

use siphasher::sip::SipHasher24;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The name of a session: 64 random bits that cannot be guessed. Shown in full in logs; it is no secret without the
/// key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The key of one session: 128 random bits, made by the responder and sent over the encrypted control connection.
///
/// The tag is SipHash-2-4 with 64 bits of output: a pseudo-random function made for short inputs, four 64-bit words of
/// state and only additions, rotations and exclusive ors. A full header costs about 20 ns, and a BPF program can
/// compute the same tag within its stack, which keyed BLAKE3 (7 rounds over 64 words) could not.
///
/// Overwritten when dropped, and copied only where that is written down.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(transparent)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    /// A key of these bytes, which must come from the operating system's random source.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key: for the kernel's programs, which need it in a map. Never print them.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn tag(&self, covered: &[u8]) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(covered)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}
