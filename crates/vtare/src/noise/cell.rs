//! What was seen on one CPU.

use serde::Serialize;
use vtare_units::figures::Figures;

use super::causes::Causes;
use super::decades::Decade;
use crate::standstill::Outage;

/// What was seen on one CPU.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct NoiseCell {
    /// The CPU.
    pub(crate) cpu: usize,
    /// Lengths of the gaps in ns; of those for which there was room.
    pub(crate) gap_ns: Figures,
    /// How many gaps there were.
    pub(crate) gaps: u64,
    /// The sum of all gaps as a share of the time.
    pub(crate) lost_fraction: Option<f64>,
    /// Gaps in a second.
    pub(crate) gaps_per_s: Option<f64>,
    /// What took the time, as far as the system accounts for it.
    pub(crate) causes: Causes,
    /// The gaps by length, a class for each power of ten.
    pub(crate) decades: Vec<Decade>,
    /// Times in which this process was stopped or its machine stalled. They are no gaps.
    pub(crate) outages: Vec<Outage>,
}
