//! What captured probes answer: how many there were, and how long a reply took seen from here.

use super::cell::CaptureCell;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::sentences::capture as words;
use crate::table::time;

/// Flows that have a line of their own at most: those with most packets.
const MOST_NAMED: usize = 4;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<CaptureCell>) -> Answer {
    let Some(cell) = outcome.cells.first() else {
        return Answer::none(words::nothing());
    };
    if cell.packets == 0 {
        let mut answer = Answer::none(words::no_probe(&cell.source));
        cell.other_frames().into_iter().for_each(|text| answer.figure(text));
        return answer;
    }
    let (probes, place) = (cell.packets, &cell.source);
    let mut answer = Answer::new(match (cell.rtt_ns.median, cell.rtt_ns.p99) {
        (median @ Some(_), p99 @ Some(_)) => words::median_and_tail(probes, place, time(median), time(p99)),
        (median @ Some(_), None) => words::median(probes, place, time(median)),
        (None, _) => words::seen(probes, place),
    });
    for flow in cell.flows.iter().take(MOST_NAMED) {
        let (from, to, requests, replies) = (&flow.source, &flow.destination, flow.requests, flow.replies);
        answer.figure(match flow.rtt_ns.median {
            Some(median) => words::flow_and_median(from, to, requests, replies, time(Some(median))),
            None => words::flow(from, to, requests, replies, flow.one_way),
        });
    }
    cell.other_frames().into_iter().for_each(|text| answer.figure(text));
    match cell.lost {
        Some(0) => {}
        Some(lost) => answer.limit(words::lost(lost)),
        None => answer.figure(words::not_counted()),
    }
    answer.limited_by(&outcome.notes, "negative_round_trips");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;
    use vtare_units::figures::Figures;

    #[test]
    fn the_screen_has_the_probes_the_round_trip_and_what_was_lost() {
        let screen = |cell: CaptureCell| {
            let outcome = Outcome { cells: vec![cell], notes: Vec::new(), interrupted: false };
            of(&outcome).short(Shape { colour: false, width: 80 }, 8, &[], &[])
        };
        let rtt_ns = Figures { median: Some(45_200.0), p99: Some(90_400.0), ..Figures::default() };
        let seen =
            CaptureCell { source: "veth3".to_owned(), packets: 2_000, rtt_ns, lost: Some(3), ..Default::default() };
        assert_eq!(
            screen(seen),
            "\
2000 probes passed veth3; a reply takes 45.2 us in the median, and 1 in 100
  takes 90.4 us or more.
3 probes were seen and lost for lack of room.
All figures: add -v
"
        );
        let none = CaptureCell { source: "veth3".to_owned(), ..Default::default() };
        assert!(screen(none).starts_with("No probe passed veth3.\n"));
    }
}
