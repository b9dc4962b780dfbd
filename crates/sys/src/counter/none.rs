use vtare_units::CounterTick;

/// Whether this architecture has a counter that user code may read.
pub const AVAILABLE: bool = false;
/// Whether [`read_rdtscp`] is an instruction of its own here.
pub const HAS_RDTSCP: bool = false;
/// The instruction behind [`read`].
pub const NAME: &str = "none";
/// The instructions behind [`read_ordered`].
pub const ORDERED_NAME: &str = "none";

/// No counter here: always 0.
#[must_use]
pub fn read() -> CounterTick {
    CounterTick::new(0)
}

pub use read as read_ordered;
pub use read as read_rdtscp;
pub use read as read_start;
pub use read as read_stop;

/// Nothing here: the hint is worth something only where it was measured.
#[inline(always)]
pub(super) fn fetch_code_ahead() {}

#[inline(always)]
pub(super) fn fetch_code_at(_address: *const u8) {}

pub(super) fn stated_frequency_hz() -> Option<u64> {
    None
}
