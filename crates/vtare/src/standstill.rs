//! Times in which this process did not run although it wanted to and waited for no CPU: somebody stopped it (SIGSTOP, a
//! frozen control group), or its machine was suspended or stalled. They are no part of what is measured, and are
//! listed as outages, as `vtare rtt` does.

use serde::Serialize;
use vtare_methods::rtt::Place;
use vtare_sys::proc::{Difference, Schedstat};
use vtare_sys::{clocks, kernel_file};
use vtare_units::Span;

use crate::instrument::Note;
use crate::sentences::standstill as words;
use crate::table::time;

/// Shorter gaps may have any cause.
pub(crate) const LEAST: Span = Span::from_millis(200);
/// It must be this number of times as long as anything else.
const FAR_ABOVE: i64 = 3;

/// What is known of the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The machine was suspended: its clocks show it.
    Suspended,
    /// The thread neither ran nor waited for a CPU.
    Stopped,
    /// The kernel counts the time as run by the thread, which did nothing.
    MachineStalled,
    /// It waited for no CPU; a thread that sleeps would not have run anyway.
    StoppedOrMachineStalled,
}

impl Cause {
    fn in_words(self) -> String {
        match self {
            Self::Suspended => words::suspended(),
            Self::Stopped => words::stopped(),
            Self::MachineStalled => words::machine_stalled(),
            Self::StoppedOrMachineStalled => words::stopped_or_machine_stalled(),
        }
    }
}

/// A time in which the process stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Outage {
    /// Always here: there is no path.
    pub(crate) place: Place,
    /// When it began, ns after the start.
    pub(crate) began_ns: u64,
    /// How long it lasted, ns.
    pub(crate) length_ns: u64,
    /// Why.
    pub(crate) cause: Cause,
}

impl Outage {
    /// From figures in ns.
    pub(crate) fn new(began_ns: i64, length_ns: i64, cause: Cause) -> Self {
        let positive = |ns: i64| ns.max(0).cast_unsigned();
        Self { place: Place::Here, began_ns: positive(began_ns), length_ns: positive(length_ns), cause }
    }
}

/// What the kernel's accounts show of a time in which a thread did not go on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounts {
    /// How long the thread ran; `None` where that shows nothing, as of a thread that sleeps.
    pub(crate) idle: Option<Span>,
    /// How long it waited for a CPU, or for its quota; `None` where the kernel keeps no account.
    pub(crate) waited: Option<Span>,
    /// What the hypervisor states to have taken.
    pub(crate) stolen: Span,
    /// How long the machine was suspended.
    pub(crate) suspended: Span,
}

impl Accounts {
    /// Of a thread that never sleeps, over `elapsed`.
    pub(crate) fn of_spinning(cpu: usize, gained: &Difference, elapsed: Span, suspended: Span) -> Self {
        Self {
            idle: gained.schedstat.map(|scheduled| elapsed - scheduled.ran - scheduled.waited),
            waited: gained.schedstat.map(|scheduled| scheduled.waited),
            stolen: gained.steal_on(cpu).unwrap_or(Span::ZERO),
            suspended,
        }
    }

    /// The cause of a gap; `None` where other accounts explain half of it or more, or none shows anything.
    pub(crate) fn cause(&self, gap: Span) -> Option<Cause> {
        let explains = |span: Span| span * 2 >= gap;
        if explains(self.suspended) {
            return Some(Cause::Suspended);
        }
        if explains(self.waited?) || explains(self.stolen) {
            return None;
        }
        Some(match self.idle {
            Some(idle) if explains(idle) => Cause::Stopped,
            Some(_) => Cause::MachineStalled,
            None => Cause::StoppedOrMachineStalled,
        })
    }
}

/// Whether a gap is so long that it is looked at, where `others` is the longest of the others.
pub(crate) fn stands_out(gap_ns: i64, others_ns: i64) -> bool {
    gap_ns >= LEAST.as_nanos() && gap_ns / FAR_ABOVE >= others_ns
}

/// What the calling thread waited for a CPU so far, and how long the machine was suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    waited: Option<Span>,
    suspended: Span,
}

impl Watch {
    /// From now on. Takes some 10 us.
    pub(crate) fn start() -> Self {
        let scheduled = kernel_file::text("/proc/thread-self/schedstat").and_then(|text| Schedstat::parse(&text));
        Self { waited: scheduled.map(|scheduled| scheduled.waited), suspended: clocks::suspended() }
    }

    /// The accounts since then; `idle` is the time in which the thread did not run, where that shows something.
    pub(crate) fn accounts(&self, idle: Option<Span>) -> Accounts {
        let now = Self::start();
        let waited = now.waited.zip(self.waited).map(|(now, then)| now - then);
        Accounts { idle, waited, stolen: Span::ZERO, suspended: now.suspended - self.suspended }
    }
}

/// What a reader must know of the outages in one place of a run; `of` names it.
pub(crate) fn note(of: &str, outages: &[Outage]) -> Option<Note> {
    let longest = outages.iter().max_by_key(|outage| outage.length_ns)?;
    let (length, began) = (time(Some(longest.length_ns as f64)), time(Some(longest.began_ns as f64)));
    let why = longest.cause.in_words();
    Some(Note::new(
        "stalled",
        match outages.len() {
            1 => words::once(of, length, began, why),
            times => words::often(of, length, began, times, why),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Span = Span::from_millis(500);

    #[test]
    fn a_gap_has_a_cause_only_where_no_account_explains_it() {
        let stopped = Accounts { idle: Some(GAP), waited: Some(Span::ZERO), ..Accounts::default() };
        assert_eq!(stopped.cause(GAP), Some(Cause::Stopped));
        assert_eq!(Accounts { idle: Some(Span::ZERO), ..stopped }.cause(GAP), Some(Cause::MachineStalled));
        assert_eq!(Accounts { idle: None, ..stopped }.cause(GAP), Some(Cause::StoppedOrMachineStalled));
        assert_eq!(Accounts { suspended: GAP, ..stopped }.cause(GAP), Some(Cause::Suspended));
        for explained in [
            Accounts { waited: Some(GAP), ..stopped },
            Accounts { stolen: GAP, ..stopped },
            Accounts { waited: None, ..stopped },
        ] {
            assert_eq!(explained.cause(GAP), None, "{explained:?}");
        }
    }

    #[test]
    fn a_long_gap_among_long_ones_does_not_stand_out() {
        let ms = |ms: i64| ms * 1_000_000;
        assert!(stands_out(ms(200), ms(66)) && !stands_out(ms(199), 0) && !stands_out(ms(300), ms(101)));
    }
}
