use crate::format::{LARGEST_BYTE, VERSION};

/// Why bytes are no datagram of ours, or why a datagram cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the header has.
    #[error("datagram of {found_byte} B, its header needs {need_byte} B")]
    TooShort {
        /// Bytes there are.
        found_byte: usize,
        /// Bytes the header takes.
        need_byte: usize,
    },
    /// More bytes than the format allows.
    #[error("datagram of {found_byte} B, at most {LARGEST_BYTE} B are allowed")]
    TooLong {
        /// Bytes there are.
        found_byte: usize,
    },
    /// Another version of the format, or another protocol.
    #[error("wire version {found}, this program speaks {VERSION}: use the same release of vtare at both ends")]
    Version {
        /// The version in the datagram.
        found: u8,
    },
    /// A kind this decoder is not for, or none of the known ones.
    #[error("datagram kind {found} does not belong here")]
    Kind {
        /// The lower half of the first byte.
        found: u8,
    },
    /// Bits that must be zero are not.
    #[error("reserved bits are set: {found:#04x}")]
    Reserved {
        /// The offending byte.
        found: u8,
    },
    /// The size in the header is not the size of the datagram: it was cut or padded on its way.
    #[error("found a datagram of {found_byte} B whose header states {stated_byte} B")]
    Size {
        /// Bytes there are.
        found_byte: usize,
        /// Bytes the header states.
        stated_byte: usize,
    },
    /// The tag does not fit the key: a forgery, a flipped bit, or another session's packet.
    #[error("the tag does not fit the session's key")]
    Tag,
}
