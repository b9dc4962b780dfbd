//! One row of the log.

/// Bytes of IP in one bin: all that came to the link, the cross traffic in it, and what left the link; None where that
/// is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) came: Option<u32>,
    pub(super) cross: Option<u32>,
    pub(super) left: Option<u32>,
}

columns!(bin: Bin {
    optional_int64 "came_byte" = bin.came.map(i64::from), "bytes of IP that came to the link in this bin";
    optional_int64 "cross_byte" = bin.cross.map(i64::from), "bytes of cross traffic among them";
    optional_int64 "left_byte" = bin.left.map(i64::from), "bytes of IP that left the link in this bin";
});
