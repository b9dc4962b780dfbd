//! Clocks on the simulated machine, for the tests.

use crate::sim::SimClock;
use crate::trust::Evidence;
use crate::{Clock, ClockOptions};

/// What a machine shows whose counter may be trusted.
pub(crate) fn evidence() -> Evidence {
    Evidence {
        available: true,
        permitted: true,
        invariant: Some(true),
        clock_source: Some("tsc".to_owned()),
        ..Evidence::default()
    }
}

/// A clock on this machine, which trusts its counter.
pub(crate) fn on(machine: SimClock) -> Clock<SimClock> {
    Clock::with_source(machine, evidence(), &ClockOptions::fast(), |_| None)
}
