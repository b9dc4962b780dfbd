//! What every injection gets.

use crate::context::Context;

/// The surroundings of one injection.
pub(super) struct Bench<'a> {
    pub(super) context: &'a Context,
    /// Shorter measurements.
    pub(super) quick: bool,
    /// Runs of what is measured more than once.
    pub(super) repeats: usize,
    /// Where the CPU is taken.
    pub(super) cpu: usize,
    /// Of this attempt.
    pub(super) seed: u64,
    /// Nothing is injected: for the test that the fault is then missed.
    pub(super) broken: bool,
}
