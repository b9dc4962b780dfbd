//! What the run times of equal work answer: how much they vary, and what most of that comes from.

use super::cause::Cause;
use super::cell::CounterCell;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::sentences::counter as words;
use crate::table::{percent, time};

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<CounterCell>) -> Answer {
    let known: Vec<(&CounterCell, f64)> = outcome.cells.iter().filter_map(|cell| Some((cell, cell.cv?))).collect();
    let (Some((shortest, cv)), Some((longest, at_last))) = (known.first(), known.last()) else {
        return Answer::none(words::too_few_calls());
    };
    let (short, cv) = (time(shortest.runtime_ns.median), percent(Some(*cv)));
    let (long, long_cv) = (time(longest.runtime_ns.median), percent(Some(*at_last)));
    let mut answer = Answer::new(match (shortest.dominant_cause.and_then(because), known.len()) {
        (Some(cause), 1) => words::varies_from(short, cv, cause),
        (None, 1) => words::varies(short, cv),
        (Some(cause), _) => words::two_vary_from(short, cv, cause, long, long_cv),
        (None, _) => words::two_vary(short, cv, long, long_cv),
    });
    for (cell, cv) in &known {
        let (argument, length, cv) = (cell.argument, time(cell.runtime_ns.median), percent(Some(*cv)));
        answer.figure(match (cell.cv_within, cell.cv_between) {
            (within @ Some(_), between @ Some(_)) => {
                words::argument_and_parts(argument, length, cv, percent(within), percent(between))
            }
            _ => words::argument(argument, length, cv),
        });
    }
    answer
}

/// What most of the variation comes from.
fn because(cause: Cause) -> Option<String> {
    Some(match cause {
        Cause::OtherThreads => words::from_other_threads(),
        Cause::Quota => words::from_the_quota(),
        Cause::Steal => words::by_the_hypervisor(),
        Cause::Interrupts => words::from_interrupts(),
        Cause::Outside => words::from_outside(),
        Cause::UnaccountedGaps => words::in_unaccounted_gaps(),
        Cause::CpuSpeed => words::from_cpu_speed(),
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
