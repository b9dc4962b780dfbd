//! Trains of one-way probes and what became of each packet: what estimators of available bandwidth evaluate.
//!
//! [`AvbSession`] sends a [`Train`](vtare_traffic::Train) over any link and asks the far end for its arrivals; or it
//! has the far end send one. The far end is whatever is [`Far`]: `vtare serve` over its control connection, or the
//! session table at the end of a simulated path.

mod far;
mod gathered;
pub mod pacing;
mod plan;
mod reverse;
mod session;

pub use far::{Far, SimFar};
pub use pacing::Behind;
pub use plan::{Grouped, MOST_IN_BURST, TrainError, most_group};
pub use session::{AvbError, AvbSession, Settling};

#[cfg(test)]
mod tests;
