//! What the figures of clocks answer: which reading is the cheapest, and what the others cost.

use super::cell::TimerCell;
use super::sources::Source;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::sentences::timer as words;
use crate::table::time;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<TimerCell>) -> Answer {
    let mut known: Vec<(Source, f64, &TimerCell)> =
        outcome.cells.iter().filter_map(|cell| Some((cell.source?, cell.read_cost_ns.median?, cell))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let cost = |source: Source| known.iter().find(|(own, ..)| *own == source).map(|(_, cost, _)| time(Some(*cost)));
    let (Some(cheapest), Some(most_expensive)) = (known.first(), known.last()) else {
        return Answer::none(words::none());
    };
    let mut answer = Answer::new(match (cost(Source::ClockMonotonic), cost(Source::Vtare)) {
        (Some(kernel), Some(own)) => words::both(kernel, own),
        _ if known.len() == 1 => words::one(cheapest.0, time(Some(cheapest.1))),
        _ => {
            let [least, most] = [cheapest, most_expensive].map(|(_, cost, _)| time(Some(*cost)));
            words::extremes(cheapest.0, least, most_expensive.0, most)
        }
    });
    for (source, cost, cell) in &known {
        // Below twice the cost the steps of the clock speak, not the tail.
        let tail = cell.cost_ns.p999.filter(|tail| *tail >= 2.0 * cost);
        answer.figure(match tail {
            Some(tail) => words::cost_and_tail(source, time(Some(*cost)), time(Some(tail))),
            None => words::cost(source, time(Some(*cost))),
        });
    }
    answer.covers(&outcome.notes, "read_cost");
    answer.limited_by(&outcome.notes, "counter_left_out");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;
    use vtare_units::figures::Figures;

    fn screen(costs: &[(Source, f64)]) -> String {
        let cells = costs.iter().map(|&(source, cost)| TimerCell {
            source: Some(source),
            read_cost_ns: Figures { median: Some(cost), ..Figures::default() },
            cost_ns: Figures { p999: Some(3.0 * cost), ..Figures::default() },
            ..TimerCell::default()
        });
        let outcome = Outcome { cells: cells.collect(), notes: Vec::new(), interrupted: false };
        of(&outcome).short(Shape { colour: false, width: 80 }, 12, &[], &[])
    }

    #[test]
    fn the_screen_compares_both_clocks_and_has_a_line_for_each_source() {
        assert_eq!(
            screen(&[(Source::ClockMonotonic, 33.9), (Source::Vtare, 20.0)]),
            "\
Reading the time takes 33.9 ns with the kernel's clock_gettime and 20.0 ns with
  vtare's clock.
vtare: 20.0 ns a reading, 1 in 1000 takes 60.0 ns or more
clock_monotonic: 33.9 ns a reading, 1 in 1000 takes 102 ns or more
All figures: add -v
"
        );
        assert!(screen(&[(Source::Rdtsc, 14.3)]).starts_with("One reading of rdtsc takes 14.3 ns.\n"));
        assert!(screen(&[]).starts_with("No clock was read"));
    }
}
