//! One row of the log.

use crate::samples::count;

/// Bytes of IP in one bin: all that came to the link, the cross traffic in it, and what left the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) came: u32,
    pub(super) cross: u32,
    pub(super) left: u32,
}

columns!(bin: Bin {
    int64 "came_byte" = count(bin.came.into()), "bytes of IP that came to the link in this bin";
    int64 "cross_byte" = count(bin.cross.into()), "bytes of cross traffic among them";
    int64 "left_byte" = count(bin.left.into()), "bytes of IP that left the link in this bin";
});
