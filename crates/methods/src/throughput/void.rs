use serde::Serialize;

/// Why a trial shows nothing about the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Void {
    /// The generator did not reach the intended rate.
    GeneratorShort {
        /// What it reached, frames a second.
        achieved_packet_per_s: f64,
    },
    /// The generator stalled for this share of the time: a burst followed that nobody asked for.
    Stalled {
        /// The share.
        share: f64,
    },
    /// Others used this share of the machine's CPUs.
    Busy {
        /// The share of one CPU's time.
        share: f64,
    },
    /// Frames came changed: they are not those that left.
    Uncounted,
    /// Frames came that the analyser had no room for.
    Overrun {
        /// What it counted, frames a second.
        counted_packet_per_s: f64,
    },
}

impl Void {
    /// Short and stable, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::GeneratorShort { .. } => "generator_short",
            Self::Stalled { .. } => "stalled",
            Self::Busy { .. } => "busy",
            Self::Uncounted => "uncounted",
            Self::Overrun { .. } => "overrun",
        }
    }
}
