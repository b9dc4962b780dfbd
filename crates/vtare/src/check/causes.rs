//! What made timings longer while the check ran. Every cause is a share of the time that was measured; nothing is
//! derived from the load average, which also counts work that ended minutes ago.

use serde::Serialize;

use crate::answer::LOST_WORTH_A_CHANGE;
use crate::sentences::check as words;
use crate::table::{rough_percent, time};

use super::figures::Measured;
use super::resolution::{Resolution, Status};

/// From this share of a clock's own error in the deciding row on, the clock is a cause.
const MOSTLY: f64 = 0.5;

/// One cause.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Cause {
    /// Short and stable, for programs.
    pub(crate) id: &'static str,
    /// The sentence, for people.
    pub(crate) text: String,
    /// The share of the time that it took from a busy loop; of the clock, of the error of the row that decides.
    pub(crate) share: f64,
}

/// Who took the time of an account.
pub(super) fn who(id: &str) -> String {
    match id {
        "other_threads" => words::other_programs(),
        "quota" => words::its_quota(),
        "steal" => words::the_hypervisor(),
        "outside" => words::outside(),
        _ => words::interrupts_or_the_host(),
    }
}

/// The accounts of lost time: id, the share of the time.
pub(super) fn accounts(figures: &Measured) -> Vec<(&'static str, f64)> {
    let Some(lost) = figures.lost_fraction() else { return Vec::new() };
    let outside = figures.cause_share(|causes| causes.outside_ns_min);
    let unseen = figures
        .cause_share(|causes| causes.unattributed_ns)
        .map(|unattributed| (unattributed - outside.unwrap_or(0.0)).max(0.0));
    let taken = [
        ("other_threads", figures.cause_share(|causes| causes.other_threads_ns)),
        ("quota", figures.cause_share(|causes| causes.quota_ns)),
        ("steal", figures.cause_share(|causes| causes.steal_ns)),
        ("outside", outside),
        ("unattributed", unseen),
    ];
    let mut known: Vec<_> = taken
        .into_iter()
        .filter_map(|(id, share)| Some((id, lost * share?.min(1.0))))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    known
}

/// What made timings longer, the greatest cause first: everything worth a change, and where the machine is not good at
/// least the greatest.
pub(super) fn causes(figures: &Measured, resolution: Option<&Resolution>) -> Vec<Cause> {
    let is_good = resolution.is_none_or(|found| found.status == Status::Good);
    let clock = resolution.filter(|_| !is_good).and_then(|found| clock(figures, found));
    let has_other = clock.is_some();
    let taken = accounts(figures)
        .into_iter()
        .enumerate()
        .filter(|(place, (_, share))| *share >= LOST_WORTH_A_CHANGE || (*place == 0 && !is_good && !has_other));
    let sentence = |(_, (id, share)): (usize, (&'static str, f64))| Cause {
        id,
        text: words::lost_to(rough_percent(share), who(id)),
        share,
    };
    clock.into_iter().chain(taken.map(sentence)).collect()
}

/// The clock, where most of the error of the deciding row is its own.
fn clock(figures: &Measured, resolution: &Resolution) -> Option<Cause> {
    let duration_ns = resolution.rests_on.duration_ns? as f64;
    let cost_ns = figures.read_cost_ns()?;
    let own = (cost_ns + figures.clock.quantum_ns.unwrap_or(0.0)) / duration_ns / resolution.rests_on.error;
    (own >= MOSTLY).then(|| {
        let text = words::reading_takes(time(Some(cost_ns)));
        Cause { id: "clock", text, share: own.min(1.0) }
    })
}

#[cfg(test)]
mod tests {
    use super::super::figures::ClockFigures;
    use super::super::resolution::Row;
    use super::*;
    use crate::noise::{Causes, NoiseCell};

    fn lost(share: f64, causes: Causes) -> Measured {
        let cell = NoiseCell { lost_fraction: Some(share), causes, ..NoiseCell::default() };
        Measured { noise: vec![cell], ..Measured::default() }
    }

    fn verdict(error: f64) -> Option<Resolution> {
        Resolution::of(&[Row { duration_ns: Some(1_000_000), error }])
    }

    fn ids(figures: &Measured, error: f64) -> Vec<&'static str> {
        causes(figures, verdict(error).as_ref()).iter().map(|cause| cause.id).collect()
    }

    #[test]
    fn causes_are_what_took_the_time_the_greatest_first() {
        let taken = Causes {
            lost_ns: 100,
            other_threads_ns: Some(20),
            quota_ns: Some(70),
            steal_ns: Some(0),
            unattributed_ns: Some(10),
            outside_ns_min: Some(4),
            ..Causes::default()
        };
        let figures = lost(0.5, taken);
        assert_eq!(ids(&figures, 1.0), ["quota", "other_threads", "unattributed", "outside"]);
        let first = &causes(&figures, verdict(1.0).as_ref())[0];
        assert_eq!(first.text, "A busy loop lost 35 % of its time to its CPU quota.");
        assert!((first.share - 0.35).abs() < 1e-12);
    }

    #[test]
    fn what_takes_next_to_nothing_is_a_cause_only_where_the_machine_is_not_good() {
        let taken = Causes { lost_ns: 100, unattributed_ns: Some(100), ..Causes::default() };
        let figures = lost(0.000_4, taken);
        assert_eq!(ids(&figures, 0.01), [] as [&str; 0]);
        assert_eq!(ids(&figures, 0.06), ["unattributed"]);
        assert_eq!(ids(&Measured::default(), 0.06), [] as [&str; 0], "nothing was measured");
    }

    #[test]
    fn a_slow_clock_is_the_cause_of_an_error_that_is_mostly_its_own() {
        let clock = ClockFigures { read_cost_ns: Some(60_000.0), ..ClockFigures::default() };
        let figures = Measured { clock, ..lost(0.0, Causes::default()) };
        assert_eq!(ids(&figures, 0.1), ["clock"]);
        assert_eq!(ids(&figures, 0.5), [] as [&str; 0]);
    }
}
