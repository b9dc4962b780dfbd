//! Sizes of frames.

/// The check sequence, which counts with a frame and is the card's business.
pub const FCS_BYTE: u32 = 4;
/// The smallest frame, as Ethernet has it: headers and tag fill it.
pub const SMALLEST_BYTE: u32 = 64;
/// The largest frame.
pub const LARGEST_BYTE: u32 = 9_018;
pub(crate) const ETHERNET_BYTE: u32 = 14;
