//! What the run times of equal work answer: how much they vary, and what most of that comes from.

use super::cause::Cause;
use super::cell::CounterCell;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::table::{percent, time};

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<CounterCell>) -> Answer {
    let known: Vec<(&CounterCell, f64)> = outcome.cells.iter().filter_map(|cell| Some((cell, cell.cv?))).collect();
    let (Some((shortest, cv)), Some((longest, at_last))) = (known.first(), known.last()) else {
        return Answer::none("No argument was called often enough to know how its run time varies.");
    };
    let cause = shortest.dominant_cause.and_then(because).unwrap_or_default();
    let mut answer = Answer::new(if known.len() == 1 {
        format!("Equal work of {} varies by {} (CV){cause}.", time(shortest.runtime_ns.median), percent(Some(*cv)))
    } else {
        format!(
            "Equal work of {} varies by {} (CV){cause}; work of {} by {}.",
            time(shortest.runtime_ns.median),
            percent(Some(*cv)),
            time(longest.runtime_ns.median),
            percent(Some(*at_last))
        )
    });
    for (cell, cv) in &known {
        let parts = cell.cv_within.zip(cell.cv_between).map_or_else(String::new, |(within, between)| {
            format!(": {} within batches, {} between", percent(Some(within)), percent(Some(between)))
        });
        let (argument, length) = (cell.argument, time(cell.runtime_ns.median));
        answer.figure(format!("argument {argument}, {length}: varies by {}{parts}", percent(Some(*cv))));
    }
    answer
}

/// What most of the variation comes from, as the end of a sentence.
fn because(cause: Cause) -> Option<&'static str> {
    Some(match cause {
        Cause::OtherThreads => ", mostly from other threads",
        Cause::Quota => ", mostly from the CPU quota",
        Cause::Steal => ", mostly taken by the hypervisor",
        Cause::Interrupts => ", mostly from interrupts",
        Cause::Outside => ", mostly from the hypervisor or the firmware",
        Cause::UnaccountedGaps => ", mostly in gaps that no counter accounts for",
        Cause::CpuSpeed => ", mostly from the speed of the CPU",
        Cause::NotAttributable => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;
    use vtare_units::figures::Figures;

    fn screen(cells: Vec<CounterCell>) -> String {
        let outcome = Outcome { cells, notes: Vec::new(), interrupted: false };
        of(&outcome).short(Shape { colour: false, width: 80 }, 8, &[], &[])
    }

    #[test]
    fn the_screen_has_the_variation_of_the_shortest_and_the_longest_work() {
        let cell = |argument: u64, ms: f64, cv: f64| CounterCell {
            argument,
            runtime_ns: Figures { median: Some(ms * 1e6), ..Figures::default() },
            cv: Some(cv),
            cv_within: Some(cv),
            cv_between: Some(0.0),
            dominant_cause: Some(Cause::OtherThreads),
            ..CounterCell::default()
        };
        assert_eq!(
            screen(vec![cell(1, 10.0, 0.05), cell(2, 20.0, 0.02)]),
            "\
Equal work of 10.0 ms varies by 5.00 % (CV), mostly from other threads; work of
  20.0 ms by 2.00 %.
argument 1, 10.0 ms: varies by 5.00 %: 5.00 % within batches, 0.0 % between
argument 2, 20.0 ms: varies by 2.00 %: 2.00 % within batches, 0.0 % between
All figures: add -v
"
        );
        assert!(screen(Vec::new()).starts_with("No argument was called often enough"));
    }
}
