//! What both formats share: bounds, errors, and the head of a frame.

use std::io;

use crate::Direction;

/// The longest packet or block that is believed, in bytes. tcpdump captures 256 KiB at most; what is longer is a broken
/// length.
pub const LONGEST_BYTE: u32 = 1 << 24;
/// Interfaces that one section may name.
pub(super) const MOST_INTERFACES: usize = 65_536;

/// What the writer of a file counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Packets that the interface received; `None` where the file does not give it.
    pub received: Option<u64>,
    /// Packets that the interface dropped.
    pub dropped_by_interface: Option<u64>,
    /// Packets that the writer's system dropped.
    pub dropped_by_system: Option<u64>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The system's word.
    #[error("cannot read at byte {offset}: {source}")]
    Read {
        /// How far it was read.
        offset: u64,
        /// What the system answered.
        source: io::Error,
    },
    /// Neither format.
    #[error("is not a pcap or pcapng file: it begins with {found}. Use a file of tcpdump -w")]
    Magic {
        /// What it begins with, as text or as bytes.
        found: String,
    },
    /// A length, number or option that cannot be.
    #[error("byte {offset}: {what} is {found} but must be {wanted}: the file is damaged there")]
    Damaged {
        /// Where the field is, in bytes from the start.
        offset: u64,
        /// Which field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        wanted: String,
    },
}

/// A frame whose bytes lie in the source's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) captured_ns: Option<i64>,
    pub(super) link: u16,
    pub(super) interface: u32,
    pub(super) direction: Option<Direction>,
    pub(super) original_byte: u32,
    pub(super) at: usize,
    pub(super) captured_byte: usize,
}
