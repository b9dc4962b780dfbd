//! UTC as a clock outside of this machine shows it: what a VMClock page and a PTP clock state alike.

use vtare_units::{Span, Timestamp, Wall};

/// What a clock shows that goes on while this machine is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideUtc {
    /// Its time.
    pub utc: Timestamp<Wall>,
    /// The greatest error of that against UTC; `None` where it states none.
    pub max_error: Option<Span>,
    /// A leap second is due or in progress: the time may be one second off.
    pub leap: bool,
}
