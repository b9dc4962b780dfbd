//! The figures of one argument.

use serde::Serialize;
use vtare_units::figures::Figures;

use super::cause::{Cause, CauseShares};
use crate::standstill::Outage;

/// How evenly one argument ran.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct CounterCell {
    /// The language of the counter function.
    pub(crate) language: &'static str,
    /// The argument a, a power of two.
    pub(crate) argument: u64,
    /// Steps of the counter function that this argument makes on this machine: the argument times the machine speed
    /// index.
    pub(crate) steps: u64,
    /// Run time, in ns.
    pub(crate) runtime_ns: Figures,
    /// Coefficient of variation of the run time, as published.
    pub(crate) cv: Option<f64>,
    /// Its part inside batches.
    pub(crate) cv_within: Option<f64>,
    /// Its part between batches.
    pub(crate) cv_between: Option<f64>,
    /// CV of the thread's CPU time.
    pub(crate) cv_thread_cpu: Option<f64>,
    /// Its part inside batches.
    pub(crate) cv_thread_cpu_within: Option<f64>,
    /// Its part between batches.
    pub(crate) cv_thread_cpu_between: Option<f64>,
    /// CV of the run time without the gaps.
    pub(crate) cv_gap_corrected: Option<f64>,
    /// Its part inside batches.
    pub(crate) cv_gap_corrected_within: Option<f64>,
    /// Its part between batches.
    pub(crate) cv_gap_corrected_between: Option<f64>,
    /// The single gaps, in ns, in steps of `GAP_STEP_NS`.
    pub(crate) gap_ns: Figures,
    /// What most of the variance comes from; null where there is none to explain.
    pub(crate) dominant_cause: Option<Cause>,
    /// Shares of the variance of the run time; they add up to 1.
    pub(crate) cause_share: CauseShares,
    /// Calls in which this process was stopped or its machine stalled. No other figure includes them.
    pub(crate) outages: Vec<Outage>,
}
