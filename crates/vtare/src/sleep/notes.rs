//! Remarks on how the threads slept: what was set, left, refused or cut short.

use std::collections::BTreeMap;

use super::cell::{Measured, SleepCell};
use super::parameters::Parameters;
use crate::check::published_sleeps;
use crate::instrument::Note;
use crate::sentences::{run, sleep as words};
use crate::standstill;
use crate::table::time;
use vtare_clock::sleep::Method;

/// The remarks on a run and its cells.
pub(super) fn of(parameters: &Parameters, cells: &[Measured], interrupted: bool) -> Vec<Note> {
    let mut notes = vec![slack(parameters)];
    for cell in cells {
        let of = format!("{} of {}", cell.method, time(Some(cell.target_ns as f64)));
        notes.extend(standstill::note(&of, &cell.outages));
    }
    if parameters.cpu.is_none() {
        notes.push(Note::new("not_pinned", run::not_pinned()));
    }
    if let Some(priority) = parameters.fifo {
        notes.extend(fifo(priority, cells));
    }
    if cells.iter().any(|cell| cell.refused.slice) {
        notes.push(Note::new("slice_refused", words::slice_refused()));
    }
    if let Some(why) = cells.iter().find_map(|cell| cell.refused.slack.as_deref()) {
        notes.push(Note::new("slack_refused", run::slack_refused(why)));
    }
    if !interrupted {
        notes.extend(time_capped(parameters, cells));
    }
    notes
}

fn slack(parameters: &Parameters) -> Note {
    match parameters.slack_ns {
        Some(set) => Note::new("slack_set", words::slack_set(set)),
        None => match vtare_sys::sched::timer_slack() {
            Some(slack) => Note::new("slack_kept", words::slack_kept(slack)),
            None => Note::new("slack_unknown", words::slack_unknown()),
        },
    }
}

/// Which methods slept with the real-time priority, and which were refused it and why. A cell without a turn
/// proves nothing.
fn fifo(priority: u8, cells: &[Measured]) -> Vec<Note> {
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut given = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.readings.is_empty()) {
        let methods = match &cell.refused.fifo {
            Some(why) => refused.entry(why).or_default(),
            None => &mut given,
        };
        if !methods.contains(&cell.method.name()) {
            methods.push(cell.method.name());
        }
    }
    let mut notes = Vec::new();
    if !given.is_empty() {
        notes.push(Note::new("fifo_set", words::fifo_set(priority, given.join(", "))));
    }
    for (why, methods) in refused {
        notes.push(Note::new("fifo_refused", words::fifo_refused(priority, methods.join(", "), why)));
    }
    notes
}

/// What was published of sleeps that end in a spin: under load where other threads made sleeps late here, else idle.
pub(super) fn published(cells: &[SleepCell]) -> Option<Note> {
    let spins = |cell: &SleepCell| matches!(cell.method, Some(Method::Adaptive | Method::TwoPhase));
    cells.iter().find(|cell| spins(cell))?;
    let crowded = cells.iter().any(SleepCell::is_crowded);
    let medians = published_sleeps("HPTSleep", if crowded { "cpu" } else { "idle" });
    let list = medians.iter().map(|(platform, ns)| format!("{platform} {}", time(Some(*ns)))).collect::<Vec<_>>();
    let list = list.join(", ");
    Some(Note::new("published", if crowded { words::published_loaded(list) } else { words::published_idle(list) }))
}

fn time_capped(parameters: &Parameters, cells: &[Measured]) -> Option<Note> {
    let short: Vec<String> = cells
        .iter()
        .filter(|cell| (cell.readings.len() as u64) < parameters.samples)
        .map(|cell| format!("{} {}", cell.method, time(Some(cell.target_ns as f64))))
        .collect();
    (!short.is_empty()).then(|| {
        let (asked, seconds) = (parameters.samples, parameters.seconds.unwrap_or_default());
        Note::new("time_capped", words::time_capped(seconds, asked, short.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use vtare_units::figures::Figures;

    use super::super::worker::{Reading, Refused};
    use super::*;

    fn cell(method: Method, refused: Refused) -> Measured {
        let mut cell = Measured::new(method, 1_000);
        cell.readings = vec![Reading { miss_ns: 5, spin_ns: 0, disturbed: false }; 3];
        cell.refused = refused;
        cell
    }

    fn noted(parameters: &Parameters, cells: &[Measured]) -> Vec<(String, String)> {
        of(parameters, cells, false).into_iter().map(|note| (note.id, note.text)).collect()
    }

    #[test]
    fn a_refused_priority_is_named_with_its_methods_and_reason() {
        let asked = Parameters { fifo: Some(7), samples: 3, ..Parameters::default() };
        let no = || Refused { fifo: Some("EPERM: raise RLIMIT_RTPRIO".to_owned()), slice: false, slack: None };
        let cells = [cell(Method::Usleep, no()), cell(Method::Usleep, no()), cell(Method::Spin, no())];
        let notes = noted(&asked, &cells);
        let text =
            "Real-time priority 7 was refused, so these slept without it: usleep, spin: EPERM: raise RLIMIT_RTPRIO.";
        assert!(notes.contains(&("fifo_refused".to_owned(), text.to_owned())), "{notes:?}");
        assert!(notes.iter().all(|(id, _)| id != "fifo_set"), "{notes:?}");
    }

    #[test]
    fn a_priority_that_is_held_is_stated_and_one_not_asked_for_is_not_mentioned() {
        let asked = Parameters { fifo: Some(7), samples: 3, ..Parameters::default() };
        let cells = [cell(Method::Adaptive, Refused::default())];
        let notes = noted(&asked, &cells);
        assert!(notes.iter().any(|(id, text)| id == "fifo_set" && text.contains("threads of adaptive")), "{notes:?}");
        let notes = noted(&Parameters { fifo: None, ..asked }, &cells);
        assert!(notes.iter().all(|(id, _)| !id.starts_with("fifo")), "{notes:?}");
    }

    #[test]
    fn published_medians_are_those_of_the_load_that_was_met() {
        let miss_ns = Figures { n: 10, ..Figures::default() };
        let cell = |late| SleepCell {
            method: Some(Method::Adaptive),
            miss_ns,
            asked: 10,
            exceed_fraction: late,
            ..SleepCell::default()
        };
        let text = |late| published(&[cell(late)]).expect("it ends in a spin").text;
        assert!(text(Some(0.4)).contains("beside CPU load: Xen 94.5 ns, HostOS 102 ns"), "{}", text(Some(0.4)));
        assert!(text(None).contains("on idle machines: HostOS 82.0 ns"), "{}", text(None));
        assert_eq!(published(&[SleepCell { method: Some(Method::Usleep), ..cell(None) }]), None);
    }

    #[test]
    fn a_refused_slice_and_missing_sleeps_are_stated_too() {
        let asked = Parameters { samples: 10, ..Parameters::default() };
        let cells = [cell(Method::Adaptive, Refused { fifo: None, slice: true, slack: None })];
        let ids: Vec<String> = noted(&asked, &cells).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["slack_kept", "not_pinned", "slice_refused", "time_capped"]);
    }
}
