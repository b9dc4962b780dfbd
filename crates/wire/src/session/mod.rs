//! Who may send how much for how long: both ends of a session as state machines, without sockets and without a clock.
//!
//! A session is opened over an encrypted control connection: the client sends [`ToResponder`] messages and gets
//! [`ToClient`] ones ([`Client`] and [`Control`] are the two ends of that talk). The responder's [`Table`] then judges
//! every datagram: known session, right address, right tag, not seen before, within rate, count and time. Framing,
//! encryption, sockets and the random bytes for [`Secrets`] are the caller's.

mod admission;
mod arrivals;
mod bucket;
mod cause;
mod client;
mod control;
mod flow;
mod limits;
mod log_gate;
mod messages;
mod offload;
mod request;
mod reverse;
mod table;
mod verdict;
mod window;

pub use arrivals::{ARRIVALS_MARK, ArrivalSource, Arrivals, ArrivalsError, Arrived, LARGEST_ARRIVALS_BYTE};
pub use bucket::Bucket;
pub use cause::{Cause, Discards};
pub use client::{Client, ClientError, Step};
pub use control::Control;
pub use flow::{FlowCause, FlowReport, Joined};
pub use limits::{FlowLimits, Limits, Reason, Refusal, ReverseBound};
pub use log_gate::LogGate;
pub use messages::{Counters, Grant, Hello, ToClient, ToResponder};
pub use offload::{Offload, OffloadState};
pub use request::{
    CONTROL_VERSION, ECN_VERSION, FLOW_VERSION, FlowPlan, Open, Purpose, ReversePlan, VersionRange, WireForm,
};
pub use reverse::{Credit, ReverseOrder};
pub use table::{Secrets, Table};
pub use verdict::{Arrival, Verdict};
pub use window::{Fresh, Window};

#[cfg(test)]
mod tests;
