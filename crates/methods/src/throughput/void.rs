use serde::Serialize;

/// Why a trial shows nothing about the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    /// Each cause by its number: short and stable, for programs.
    pub(super) const NAMES: [&'static str; 5] = ["generator_short", "stalled", "busy", "uncounted", "overrun"];

    pub(super) const fn number(&self) -> usize {
        match self {
            Self::GeneratorShort { .. } => 0,
            Self::Stalled { .. } => 1,
            Self::Busy { .. } => 2,
            Self::Uncounted => 3,
            Self::Overrun { .. } => 4,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.number()]
    }
}
