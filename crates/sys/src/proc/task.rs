//! Small files: load average, pressure, scheduling of one thread.

use vtare_units::Span;

use super::grown;

/// `/proc/loadavg`: threads that run or want to, averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadAverage {
    /// Over one minute, in threads.
    pub minutes_1: f64,
    /// Over five minutes.
    pub minutes_5: f64,
    /// Over fifteen minutes.
    pub minutes_15: f64,
}

impl LoadAverage {
    /// Parses `/proc/loadavg`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut loads = text
            .split_whitespace()
            .map(|word| word.parse::<f64>().ok().filter(|load| load.is_finite() && *load >= 0.0));
        Some(Self { minutes_1: loads.next()??, minutes_5: loads.next()??, minutes_15: loads.next()?? })
    }
}

/// A file of `/proc/pressure`: time in which threads waited for a resource, since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// At least one thread waited.
    pub some: Span,
    /// All threads waited; not stated for the CPU before Linux 5.13.
    pub full: Option<Span>,
}

impl Pressure {
    /// Parses `/proc/pressure/cpu`, `io` or `memory`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
            let micros: i64 = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()?;
            (micros >= 0).then(|| Span::from_micros(micros))
        };
        Some(Self { some: total("some")?, full: total("full") })
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let full = self.full.zip(earlier.full).and_then(|(now, then)| grown(now, then));
        Some(Self { some: grown(self.some, earlier.some)?, full })
    }
}

/// `/proc/thread-self/schedstat`: how the scheduler treated this thread since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU.
    pub ran: Span,
    /// Time ready to run while other threads had the CPU. To the nanosecond, where `/proc/stat` has ticks.
    pub waited: Span,
    /// Turns on a CPU.
    pub turns: u64,
}

impl Schedstat {
    /// Parses the three numbers; `None` too where the kernel does not keep them (all are 0).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
        let span = |nanos: u64| Some(Span::from_nanos(i64::try_from(nanos).ok()?));
        let (ran, waited, turns) = (span(numbers.next()??)?, span(numbers.next()??)?, numbers.next()??);
        // A thread that reads its own file has run; zeros mean CONFIG_SCHED_INFO is off.
        (ran > Span::ZERO || turns > 0).then_some(Self { ran, waited, turns })
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            ran: grown(self.ran, earlier.ran)?,
            waited: grown(self.waited, earlier.waited)?,
            turns: self.turns.checked_sub(earlier.turns)?,
        })
    }
}

/// Context switches of one thread, from `/proc/thread-self/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Away because the thread waited.
    pub voluntary: u64,
    /// Away although it could have run on.
    pub involuntary: u64,
}

impl Switches {
    /// Parses `/proc/thread-self/status`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let count =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?.trim().parse().ok();
        Some(Self { voluntary: count("voluntary_ctxt_switches")?, involuntary: count("nonvoluntary_ctxt_switches")? })
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            voluntary: self.voluntary.checked_sub(earlier.voluntary)?,
            involuntary: self.involuntary.checked_sub(earlier.involuntary)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn load_averages_are_read() {
        let load = LoadAverage::parse("0.52 0.58 0.59 1/467 11213\n").expect("a recorded text");
        assert_eq!((load.minutes_1, load.minutes_5, load.minutes_15), (0.52, 0.58, 0.59));
        assert_eq!(LoadAverage::parse("0.52 nan 0.59\n"), None);
    }

    #[test]
    fn pressure_is_a_time_and_full_may_be_missing() {
        let both =
            "some avg10=0.80 avg60=0.42 avg300=0.74 total=11051178\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let found = Pressure::parse(both).expect("a recorded text");
        assert_eq!(found, Pressure { some: Span::from_micros(11_051_178), full: Some(Span::from_micros(7)) });
        let old = Pressure::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n").expect("a recorded text");
        assert_eq!(old.full, None);
        assert_eq!(found.since(&old).map(|added| added.full), Some(None));
        assert_eq!(old.since(&found), None);
    }

    #[test]
    fn a_kernel_that_keeps_no_schedstat_states_nothing() {
        assert_eq!(Schedstat::parse("0 0 0\n"), None);
        let found = Schedstat::parse("84236 68833 2\n").expect("a recorded text");
        assert_eq!((found.ran, found.waited, found.turns), (Span::from_nanos(84_236), Span::from_nanos(68_833), 2));
    }

    #[test]
    fn switches_of_both_kinds_are_read() {
        let status = "Name:\tcat\nThreads:\t1\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t11\n";
        let found = Switches::parse(status).expect("a recorded text");
        assert_eq!(found, Switches { voluntary: 3, involuntary: 11 });
        assert_eq!(Switches::parse("Name:\tcat\n"), None);
        assert_eq!(found.since(&Switches { voluntary: 1, involuntary: 12 }), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "((some|full|voluntary_ctxt_switches:) ?(total=)?-?[0-9.e]{0,25}[ \
            \n]){0,6}", other: String) {
            for text in [&text, &other] {
                let _ = (LoadAverage::parse(text), Pressure::parse(text));
                let _ = (Schedstat::parse(text), Switches::parse(text));
            }
        }
    }
}
