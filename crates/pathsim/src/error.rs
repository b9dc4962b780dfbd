/// A path that cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A probability outside 0..=1.
    #[error("{what} is {found}: use a probability from 0 to 1")]
    Probability {
        /// Which.
        what: &'static str,
        /// Its value.
        found: f64,
    },
    /// A value that must be above 0.
    #[error("{what} is 0: use more")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// A Pareto shape of 1 or less has no mean.
    #[error("Pareto shape is {found}: use more than 1, or the mean does not exist")]
    Shape {
        /// Its value.
        found: f64,
    },
    /// An on-off source that is on all the time, or more.
    #[error("mean rate is {mean_bit_per_s} bit/s and peak rate {peak_bit_per_s} bit/s: use a mean below the peak")]
    Peak {
        /// Mean rate.
        mean_bit_per_s: u64,
        /// Rate while on.
        peak_bit_per_s: u64,
    },
}

/// Checks that `found` is a probability; `what` names it in the error.
///
/// # Errors
/// [`SimError::Probability`].
pub fn probability(what: &'static str, found: f64) -> Result<(), SimError> {
    if (0.0..=1.0).contains(&found) { Ok(()) } else { Err(SimError::Probability { what, found }) }
}

/// Checks that `found` is not 0; `what` names it in the error.
///
/// # Errors
/// [`SimError::Zero`].
pub fn above_zero(what: &'static str, found: u64) -> Result<(), SimError> {
    if found > 0 { Ok(()) } else { Err(SimError::Zero { what }) }
}
