//! Settings from `vtare exec` to the library, as text in one environment variable. Pure.
//!
//! This file is also part of `vtare exec` (crates/vtare/src/exec): the two ends cannot share a crate, because whatever
//! links the library's crate has its C functions replaced.

use core::fmt;
use core::str::FromStr;

/// The environment variable.
pub(crate) const VARIABLE: &str = "VTARE_EXEC";

/// Who answers the clock functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClockChoice {
    /// The counter where that gains safely, else the kernel.
    #[default]
    Auto,
    /// The counter, ordered as the kernel's own reading is.
    Ordered,
    /// The counter, unordered.
    Unordered,
    /// The kernel.
    Os,
}

/// How sleeps are slept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SleepChoice {
    /// In the kernel until a learned margin before the deadline, then spinning.
    #[default]
    Adaptive,
    /// In the kernel until one timer tick before the deadline, then spinning.
    TwoPhase,
    /// Spinning, for 10 ms at most.
    Spin,
    /// In the kernel.
    Os,
}

impl ClockChoice {
    /// All choices.
    pub(crate) const ALL: [Self; 4] = [Self::Auto, Self::Ordered, Self::Unordered, Self::Os];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ordered => "ordered",
            Self::Unordered => "unordered",
            Self::Os => "os",
        }
    }
}

impl SleepChoice {
    /// All choices.
    pub(crate) const ALL: [Self; 4] = [Self::Adaptive, Self::TwoPhase, Self::Spin, Self::Os];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::TwoPhase => "two_phase",
            Self::Spin => "spin",
            Self::Os => "os",
        }
    }
}

/// The settings of one run. Written as `clock=auto,sleep=adaptive,report=PATH`; what is left out has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Who answers the clock functions.
    pub(crate) clock: ClockChoice,
    /// How sleeps are slept.
    pub(crate) sleep: SleepChoice,
    /// The file that counts are kept in; `None`: nothing is counted.
    pub(crate) report: Option<String>,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clock={},sleep={}", self.clock.name(), self.sleep.name())?;
        match &self.report {
            Some(path) => write!(f, ",report={path}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        // The path comes last and may hold anything.
        let (choices, report) = match text.split_once("report=") {
            Some((choices, path)) => (choices, Some(path)),
            None => (text, None),
        };
        for choice in choices.split(',').filter(|choice| !choice.is_empty()) {
            match choice.split_once('=') {
                Some(("clock", name)) => settings.clock = named(name, &ClockChoice::ALL, |c| c.name())?,
                Some(("sleep", name)) => settings.sleep = named(name, &SleepChoice::ALL, |s| s.name())?,
                _ => return Err(format!("`{choice}` is unknown: use clock=NAME, sleep=NAME or report=PATH")),
            }
        }
        settings.report = report.map(str::to_owned);
        Ok(settings)
    }
}

fn named<T: Copy>(name: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|choice| name_of(*choice) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().copied().map(name_of).collect();
        format!("`{name}` is unknown: use one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_as_they_were_written() {
        for clock in ClockChoice::ALL {
            for sleep in SleepChoice::ALL {
                for report in [None, Some("/proc/12/fd/3".to_owned()), Some("/tmp/a,b=c".to_owned())] {
                    let settings = Settings { clock, sleep, report };
                    assert_eq!(settings.to_string().parse(), Ok(settings));
                }
            }
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        assert_eq!("".parse(), Ok(Settings::default()));
        assert_eq!("sleep=os".parse(), Ok(Settings { sleep: SleepChoice::Os, ..Settings::default() }));
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_known() {
        let error = "clock=tsc".parse::<Settings>().expect_err("no such clock");
        assert_eq!(error, "`tsc` is unknown: use one of auto, ordered, unordered, os");
        let error = "slack=1".parse::<Settings>().expect_err("no such setting");
        assert!(error.contains("`slack=1` is unknown"), "{error}");
    }
}
