//! HMAC-SHA-256, cut to 128 bits: what the authenticated mode and the HMAC TLV use.
//= RFC 8762, 4.4 (integrity protection); RFC 8972, 4.8 (HMAC TLV)

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a code as sent: the first 128 of 256 bits.
pub(super) const CODE_BYTE: usize = 16;

/// The key of STAMP's authenticated mode, shared by both ends out of band: 32 B. HMAC fills shorter keys up with zeros,
/// so a shorter one of another program is the same key with zeros behind it. Overwritten when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct StampKey([u8; 32]);

impl StampKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The code over `parts`, one behind the other.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> [u8; CODE_BYTE] {
        let mut code = [0; CODE_BYTE];
        code.copy_from_slice(&self.whole_code(parts)[..CODE_BYTE]);
        code
    }

    /// All 256 bits of it.
    pub(crate) fn whole_code(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `code` is the code over `parts`; takes the same time wherever they differ.
    pub(crate) fn fits(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        code.len() == CODE_BYTE && self.mac(parts).verify_truncated_left(code).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

impl fmt::Debug for StampKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StampKey(..)")
    }
}
