//! The figures of one source, and the samples.

use serde::Serialize;
use vtare_units::figures::Figures;

use super::sources::Source;

/// What one source costs.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct TimerCell {
    /// What was read.
    pub(crate) source: Option<Source>,
    /// The difference between one reading and the next, in ns.
    pub(crate) cost_ns: Figures,
    /// The time of a tight loop of reads divided by their number, in ns: it resolves what the clock's own steps hide.
    /// `n` counts the loops.
    pub(crate) read_cost_ns: Figures,
    /// Loops during which another thread had the CPU; they are not in `read_cost_ns`.
    pub(crate) preempted_loops: u64,
    /// Readings slower than `tail_ns` in a second of reading.
    pub(crate) exceed_per_s: Option<f64>,
}

/// One reading, or all readings of a histogram's cost.
pub(super) struct TimerRow<'a> {
    pub(super) source: &'a str,
    pub(super) index: Option<i64>,
    pub(super) cost_ps: i64,
    pub(super) count: u64,
}

columns!(row: TimerRow<'_> {
    string "source" = row.source, "what was read";
    optional_int64 "index" = row.index,
        "position of the reading in the series of its source, from 0; null for histogram rows";
    int64 "cost_ps" = row.cost_ps, "difference between one reading and the next, in picoseconds";
    int64 "count" = row.count.cast_signed(), "how many readings had this cost; 1 where index is given";
});
