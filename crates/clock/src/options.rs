//! How a clock is started.

use vtare_units::Span;

use crate::calibrate::CalibrationOptions;

/// Which clock to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The counter where it can be trusted, else the operating system's clock.
    #[default]
    Auto,
    /// The operating system's clock.
    Os,
}

/// How to start a [`Clock`](crate::Clock).
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// Which clock to read.
    pub source: SourceChoice,
    /// How to calibrate.
    pub calibration: CalibrationOptions,
    /// Read the kernel's own time page where it proves right.
    pub kernel_page: bool,
    /// Test the counters of all allowed CPUs (16 at most) against each other, for at most this long a pair. `None`
    /// skips the test: the kernel's own stands.
    pub cross_core: Option<Span>,
}

impl Default for ClockOptions {
    fn default() -> Self {
        Self {
            source: SourceChoice::Auto,
            calibration: CalibrationOptions::default(),
            kernel_page: true,
            cross_core: Some(Span::from_millis(5)),
        }
    }
}

impl ClockOptions {
    /// Starts in well under a millisecond where the kernel's own time page can be read, in 5 to 30 ms else: no
    /// cross-core test.
    #[must_use]
    pub fn fast() -> Self {
        Self { cross_core: None, ..Self::default() }
    }
}
