//! Sleeps that end when they should.
//!
//! | method | how it waits | price |
//! |---|---|---|
//! | `usleep` | the C library's relative sleep | wakes tens of us late: timer slack and wake-up |
//! | `clock_nanosleep` | the kernel, to an absolute deadline | the same without drift |
//! | `two_phase` | the kernel until one timer tick (1/HZ) before the deadline, then spinning (HPTSleep, Kirova 2019) | a whole core for sleeps up to a tick |
//! | `two_phase_capped` | the same, spinning 1 ms at most | |
//! | `adaptive` | the kernel until a margin learned from its own lateness, then spinning ([`adaptive`]) | the CPU time that the user's price allows |
//! | `spin` | spinning all the way | a whole core |
//! | `cheap` | as `adaptive`, for at most a stated share of a CPU ([`cheap`]) | the deadline may be missed |
//! | `never_early` | as `adaptive`, to the kernel's own clock | some ten ns more |

pub mod adaptive;
pub mod cheap;
mod overshoots;
mod policy;
pub mod sim;
mod sleeper;
mod ticker;

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use vtare_units::Span;

pub use sleeper::{Approach, LastLeg, Phase, Refused, Sleeper, spin_until};
pub use ticker::{Tick, Ticker};

/// How to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The C library's `usleep`: relative, whole microseconds.
    Usleep,
    /// `clock_nanosleep` to an absolute time on CLOCK_MONOTONIC.
    ClockNanosleep,
    /// Kernel sleep until one timer tick (1/HZ) before the deadline, then spinning: HPTSleep.
    TwoPhase,
    /// As [`Method::TwoPhase`], spinning 1 ms at most.
    TwoPhaseCapped,
    /// Kernel sleep until a learned margin before the deadline, then spinning.
    Adaptive,
    /// Spinning all the way.
    Spin,
    /// As [`Method::Adaptive`], for at most [`SleepOptions::cpu_share`] of a CPU: where that is not enough, the
    /// deadline is missed.
    Cheap,
    /// As [`Method::Adaptive`], and CLOCK_MONOTONIC as the kernel reports it has reached the deadline when the sleep
    /// ends: the other methods end by vtare's clock, which may be ahead of it by what
    /// [`ClockInfo`](crate::ClockInfo) states.
    NeverEarly,
}

impl Method {
    /// All methods, from the system's own to pure spinning.
    pub const ALL: [Self; 8] = [
        Self::Usleep,
        Self::ClockNanosleep,
        Self::TwoPhase,
        Self::TwoPhaseCapped,
        Self::Adaptive,
        Self::Spin,
        Self::Cheap,
        Self::NeverEarly,
    ];

    /// The name on command lines and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usleep => "usleep",
            Self::ClockNanosleep => "clock_nanosleep",
            Self::TwoPhase => "two_phase",
            Self::TwoPhaseCapped => "two_phase_capped",
            Self::Adaptive => "adaptive",
            Self::Spin => "spin",
            Self::Cheap => "cheap",
            Self::NeverEarly => "never_early",
        }
    }

    /// Whether the method learns how late the kernel wakes it, and sets the thread's slack and slice so that it is less
    /// late.
    const fn learns(self) -> bool {
        matches!(self, Self::Adaptive | Self::Cheap | Self::NeverEarly)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no sleep method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown sleep method `{found}`: choose one of {}", Method::ALL.map(Method::name).join(", "))]
pub struct UnknownMethod {
    /// What was asked for.
    pub found: String,
}

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod { found: name.to_owned() })
    }
}

/// Knobs of a sleeper. All but [`SleepOptions::fifo`] concern only the methods that learn: adaptive, cheap, never
/// early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SleepOptions {
    /// The cheap method: sleeping takes at most this share of a CPU while it lasts, above 0 to 1, over a quarter of a
    /// second and more; what the kernel's part takes is counted, and is all that is taken where the share is less.
    /// Default 0.01.
    pub cpu_share: f64,
    /// The price of CPU time: the method spins one more microsecond where that raises the share of sleeps that end on
    /// time by at least 1 us / lambda. Default 2 ms; larger is more precise and takes more CPU time.
    pub lambda: Span,
    /// A miss up to this is as good as none, so less is spun for it. Default zero.
    pub tolerance: Span,
    /// Timer slack while in the kernel; the thread's own is put back at wake-up. Default 1 ns, the least; `None`
    /// leaves it alone.
    pub slack: Option<Span>,
    /// Time slice asked of the scheduler for this thread at its first sleep (EEVDF, Linux 6.12): a short one gets an
    /// earlier turn after a wake-up on a busy machine. Default 100 us, the least; `None` leaves it alone.
    pub slice: Option<Span>,
    /// Real-time priority for this thread from its first sleep on (SCHED_FIFO, 1 to 99), where the system allows it;
    /// the thread then runs before all ordinary ones, its work too. Default `None`. Any method.
    pub fifo: Option<i32>,
}

impl Default for SleepOptions {
    fn default() -> Self {
        Self {
            cpu_share: 0.01,
            lambda: Span::from_millis(2),
            tolerance: Span::ZERO,
            slack: Some(Span::from_nanos(1)),
            slice: Some(Span::from_micros(100)),
            fifo: None,
        }
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Actual minus target wake-up; negative only where a signal ended the sleep early.
    pub miss: Span,
    /// Time spent spinning.
    pub spin: Span,
    /// The machine took the CPU away while this sleep was spinning, or the guard against oversubscription held
    /// spinning back.
    pub disturbed: bool,
    /// A signal handler ran and ended the sleep.
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found_by_its_name_and_no_other() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
            let json = serde_json::to_string(&method).expect("a name serialises");
            assert_eq!(json, format!("\"{method}\""));
        }
        let error = "nanosleep".parse::<Method>().expect_err("not a method");
        assert!(error.to_string().contains("`nanosleep`") && error.to_string().contains("clock_nanosleep"));
    }
}
