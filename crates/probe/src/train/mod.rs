//! Trains of one-way probes and what became of each packet: what estimators of available bandwidth evaluate.
//!
//! [`AvbSession`] sends a [`TrainPlan`] over any link and asks the far end for its arrivals; or it has the far end send
//! one. The far end is whatever is [`Far`]: `vtare serve` over its control connection, or the session table at the end
//! of a simulated path.

mod far;
mod gathered;
mod methods;
pub mod pacing;
mod plan;
mod report;
mod reverse;
mod session;

pub use far::{Far, SimFar};
pub use methods::Grouped;
pub use pacing::Behind;
pub use plan::{Bursts, TrainError, TrainPlan, most_group};
pub use report::{PacketFate, Received, ReverseReport, Sent, TrainReport};
pub use session::{AvbError, AvbSession, Settling};

#[cfg(test)]
mod tests;
