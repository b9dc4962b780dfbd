//! What captured probes answer: how many there were, and how long a reply took seen from here.

use super::cell::CaptureCell;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::table::time;

/// Flows that have a line of their own at most: those with most packets.
const MOST_NAMED: usize = 4;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<CaptureCell>) -> Answer {
    let Some(cell) = outcome.cells.first() else {
        return Answer::none("Nothing was captured.");
    };
    if cell.packets == 0 {
        let mut answer = Answer::none(format!("No probe passed {}.", cell.source));
        cell.other_frames().into_iter().for_each(|text| answer.figure(text));
        return answer;
    }
    let mut answer = Answer::new(match (cell.rtt_ns.median, cell.rtt_ns.p99) {
        (Some(median), Some(p99)) => format!(
            "{} probes passed {}; a reply takes {} in the median, and 1 in 100 takes {} or more.",
            cell.packets,
            cell.source,
            time(Some(median)),
            time(Some(p99))
        ),
        (Some(median), None) => {
            format!(
                "{} probes passed {}; a reply takes {} in the median.",
                cell.packets,
                cell.source,
                time(Some(median))
            )
        }
        (None, _) => format!("{} probes passed {}, none of them with its reply.", cell.packets, cell.source),
    });
    for flow in cell.flows.iter().take(MOST_NAMED) {
        let ends = format!("{} to {}", flow.source, flow.destination);
        answer.figure(match flow.rtt_ns.median {
            Some(median) => {
                format!("{ends}: {} requests, {} replies, {} (median)", flow.requests, flow.replies, time(Some(median)))
            }
            None => format!("{ends}: {} requests, {} replies, {} one-way", flow.requests, flow.replies, flow.one_way),
        });
    }
    cell.other_frames().into_iter().for_each(|text| answer.figure(text));
    match cell.lost {
        Some(0) => {}
        Some(lost) => answer.limit(format!("{lost} probes were seen and lost for want of room.")),
        None => answer.figure("Nobody counted whether probes were lost for want of room."),
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
3 probes were seen and lost for want of room.
All figures: add -v
"
        );
        let none = CaptureCell { source: "veth3".to_owned(), ..Default::default() };
        assert!(screen(none).starts_with("No probe passed veth3.\n"));
    }
}
