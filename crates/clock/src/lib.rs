//! Time read from the CPU's own counter, when that can be trusted, and sleeps that end when they should. May touch:
//! units, sys.
//!
//! [`Clock`] reads CLOCK_MONOTONIC at the cost of a bare counter reading. [`sleep::Sleeper`] ends a sleep within tens
//! of nanoseconds of its deadline. Decisions ([`trust`], [`renew`], [`sleep::adaptive`]) are pure and tested on
//! [`sim`]; only [`source::System`], [`cross_core`] and the sleeper touch the machine.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod calibrate;
mod checked;
mod clock;
mod confirm;
pub mod cross_core;
mod info;
mod keeper;
pub mod kernel_rate;
pub mod lattice;
pub mod line;
pub mod offset;
#[cfg(test)]
mod on_sim;
mod options;
mod read_loop;
pub mod renew;
pub mod sim;
pub mod simulated;
pub mod sleep;
pub mod source;
mod steered_line;
pub mod trust;
mod utc;
mod utc_page;
pub mod vvar;
mod watch;

pub use clock::Clock;
pub use confirm::{Confirmed, Patience, Unconfirmed, WitnessAnswer, confirm, liars_of};
pub use info::{ClockInfo, Event, EventCount, ExactMultiplier, ReadPath};
pub use keeper::{HEARTBEAT, Keeper, Round, UtcLine};
pub use offset::ClockOffset;
pub use options::{ClockOptions, SourceChoice};
pub use read_loop::reads_per_loop;
pub use utc::{UtcInterval, UtcStatement, UtcStatus};
pub use utc_page::{PAGE_WORDS, UtcPage};
pub use watch::{Checked, Disruption};
