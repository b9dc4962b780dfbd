//! What can be read to learn the time, and how a reading becomes picoseconds.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_sys::{clocks, counter, cpu};
use vtare_units::{Monotonic, MonotonicRaw};

use vtare_clock::Clock;

/// A way to read the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The bare x86-64 counter.
    Rdtsc,
    /// The x86-64 counter, ordered by a fence.
    LfenceRdtsc,
    /// The x86-64 counter by the instruction that orders itself.
    Rdtscp,
    /// The bare aarch64 counter.
    Cntvct,
    /// The aarch64 counter, ordered by a barrier.
    IsbCntvct,
    /// CLOCK_MONOTONIC through the C library and the vDSO.
    ClockMonotonic,
    /// CLOCK_MONOTONIC_RAW.
    ClockMonotonicRaw,
    /// CLOCK_MONOTONIC_COARSE: the time of the last timer tick.
    ClockMonotonicCoarse,
    /// CLOCK_MONOTONIC by a real system call.
    ClockMonotonicSyscall,
    /// Wall time in whole microseconds.
    Gettimeofday,
    /// vtare's own clock, unordered.
    Vtare,
    /// vtare's own clock, ordered.
    VtareOrdered,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What one unit of a raw reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A tick of the CPU's counter.
    Tick,
    /// A nanosecond.
    Nanosecond,
}

/// Work to do with one source, compiled anew for each so that the read is inlined into the loop.
pub(super) trait Reads {
    /// What comes out.
    type Answer;
    /// Does it with `read`, which gives raw readings.
    fn with(self, read: impl Fn() -> u64) -> Self::Answer;
}

impl Source {
    /// The sources that this CPU, this build and this process have, in the order of the documentation. The counter's
    /// are left out where `clock` cannot turn its ticks into time.
    pub(crate) fn available(clock: &Clock) -> Vec<Self> {
        use Source::{
            ClockMonotonic, ClockMonotonicCoarse, ClockMonotonicRaw, ClockMonotonicSyscall, Cntvct, Gettimeofday,
            IsbCntvct, LfenceRdtsc, Rdtsc, Rdtscp, Vtare, VtareOrdered,
        };
        let mut sources = Vec::new();
        if counter::AVAILABLE && cpu::counter_permitted() && clock.counter_usable() {
            if cfg!(target_arch = "aarch64") {
                sources.extend([Cntvct, IsbCntvct]);
            } else {
                sources.extend([Rdtsc, LfenceRdtsc]);
            }
            if counter::HAS_RDTSCP && cpu::Features::read().rdtscp != Some(false) {
                sources.push(Rdtscp);
            }
        }
        sources.extend([ClockMonotonic, ClockMonotonicRaw, ClockMonotonicCoarse, ClockMonotonicSyscall, Gettimeofday]);
        sources.extend([Vtare, VtareOrdered]);
        sources
    }

    /// The unit of its raw readings.
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Rdtsc | Self::LfenceRdtsc | Self::Rdtscp | Self::Cntvct | Self::IsbCntvct => Unit::Tick,
            _ => Unit::Nanosecond,
        }
    }

    /// Does `work` with this source's read.
    pub(super) fn read_with<W: Reads>(self, clock: &Clock, work: W) -> W::Answer {
        match self {
            Self::Rdtsc | Self::Cntvct => work.with(|| counter::read().count()),
            Self::LfenceRdtsc | Self::IsbCntvct => work.with(|| counter::read_ordered().count()),
            Self::Rdtscp => work.with(|| counter::read_rdtscp().count()),
            Self::ClockMonotonic => work.with(|| clocks::now::<Monotonic>().as_nanos()),
            Self::ClockMonotonicRaw => work.with(|| clocks::now::<MonotonicRaw>().as_nanos()),
            Self::ClockMonotonicCoarse => work.with(|| clocks::now_coarse().as_nanos()),
            Self::ClockMonotonicSyscall => work.with(|| clocks::now_syscall().as_nanos()),
            Self::Gettimeofday => work.with(|| clocks::now_gettimeofday().as_nanos()),
            Self::Vtare => work.with(|| clock.now().as_nanos()),
            Self::VtareOrdered => work.with(|| clock.now_ordered().as_nanos()),
        }
    }
}

impl Unit {
    /// A raw difference in picoseconds; saturates.
    pub(super) fn picos(self, clock: &Clock, raw: i64) -> i64 {
        match self {
            Self::Tick => clock.picos_of(raw),
            Self::Nanosecond => raw.saturating_mul(1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_on_the_command_line_and_in_files() {
        use clap::ValueEnum;
        for source in Source::value_variants() {
            let shown = source.to_string();
            assert_eq!(Source::from_str(&shown, false), Ok(*source));
            assert_eq!(serde_json::to_value(source).expect("plain"), shown.as_str());
        }
        assert_eq!(Source::LfenceRdtsc.to_string(), "lfence_rdtsc");
    }
}
