//! Counters of the kernel under `/proc` that explain lost time: steal, interrupts, pressure, waiting.
//!
//! Parsers are pure functions over text and never panic. Differences between two readings are `None` where either
//! reading is missing or a counter went back (CPU hot-plug, a container's own `/proc`): missing is never zero.

mod interrupts;
mod snapshot;
mod stat;
mod task;

pub use interrupts::{CountedLine, PerCpuCounts};
pub use snapshot::{Difference, Snapshot};
pub use stat::{CpuTimes, Stat, user_hz};
pub use task::{LoadAverage, Pressure, Schedstat, Switches};

use vtare_units::Span;

/// `later - earlier` of a counter that only grows, or `None` where it went back.
fn grown(later: Span, earlier: Span) -> Option<Span> {
    let difference = later - earlier;
    (!difference.is_negative()).then_some(difference)
}
