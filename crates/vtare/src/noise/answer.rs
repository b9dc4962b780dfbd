//! What the gaps of a busy loop answer: how much of its time each CPU lost, and to what.

use super::cell::NoiseCell;
use crate::answer::Answer;
use crate::instrument::Outcome;
use crate::sentences::{answer as usual, noise as words};
use crate::table::{percent, time};

/// A CPU that loses more is worth a look at what takes the time.
const MUCH: f64 = 0.01;
/// CPUs that have a line of their own at most: the worst.
const MOST_NAMED: usize = 4;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<NoiseCell>) -> Answer {
    let mut known: Vec<(f64, &NoiseCell)> =
        outcome.cells.iter().filter_map(|cell| Some((cell.lost_fraction?, cell))).collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(&(most, worst)) = known.first() else {
        return Answer::none(words::nothing_watched());
    };
    let best = known.last().filter(|_| known.len() > 1).map(|(least, best)| (percent(Some(*least)), best.cpu));
    let (lost, cpu) = (percent(Some(most)), worst.cpu);
    let mut answer = Answer::new(match (worst.causes.dominant_cause.as_deref().map(cause), best) {
        (Some(cause), Some((least, best))) => words::worst_and_best_to(lost, cpu, cause, least, best),
        (None, Some((least, best))) => words::worst_and_best(lost, cpu, least, best),
        (Some(cause), None) => words::lost_to(lost, cpu, cause),
        (None, None) => words::lost(lost, cpu),
    });
    for (_, cell) in known.iter().take(MOST_NAMED) {
        let (cpu, gaps, [median, max]) = (cell.cpu, cell.gaps, [cell.gap_ns.median, cell.gap_ns.max].map(time));
        answer.figure(match cell.gaps_per_s {
            _ if cell.gap_ns.max.is_none() => words::no_gap(cpu),
            Some(rate) => words::gaps_and_rate(cpu, gaps, rate, median, max),
            None => words::gaps(cpu, gaps, median, max),
        });
    }
    if most >= MUCH && worst.causes.dominant_cause.as_deref() == Some("other_threads") {
        answer.change(usual::find_user_of_that_cpu(), "ps -eo psr,pcpu,pid,comm --sort=-pcpu | head");
    }
    answer
}

fn cause(id: &str) -> String {
    match id {
        "other_threads" => words::to_other_threads(),
        "steal" => words::to_the_hypervisor(),
        "quota" => words::to_the_quota(),
        "outside" => words::outside(),
        _ => words::to_interrupts_or_the_host(),
    }
}

#[cfg(test)]
mod screens {
    use super::*;
    use crate::answer::Shape;
    use crate::noise::causes::Causes;
    use vtare_units::figures::Figures;

    fn cell(cpu: usize, lost: f64, cause: Option<&str>) -> NoiseCell {
        NoiseCell {
            cpu,
            gap_ns: Figures { median: Some(24_500.0), max: Some(8.05e6), ..Figures::default() },
            gaps: 517,
            lost_fraction: Some(lost),
            gaps_per_s: Some(258.5),
            causes: Causes { dominant_cause: cause.map(str::to_owned), ..Causes::default() },
            ..NoiseCell::default()
        }
    }

    fn screen(cells: Vec<NoiseCell>) -> String {
        let outcome = Outcome { cells, notes: Vec::new(), interrupted: false };
        of(&outcome).short(Shape { colour: false, width: 80 }, 8, &[], &[])
    }

    #[test]
    fn the_screen_names_the_worst_and_the_best_cpu_with_the_cause() {
        assert_eq!(
            screen(vec![cell(1, 0.165, None), cell(0, 0.346, Some("other_threads"))]),
            "\
A busy loop lost 34.6 % of its time on CPU 0, most of it to other threads, and
  16.5 % on CPU 1.
CPU 0: 517 gaps, 258 a second, half of them longer than 24.5 us, the longest
  8.05 ms
CPU 1: 517 gaps, 258 a second, half of them longer than 24.5 us, the longest
  8.05 ms
Try: ps -eo psr,pcpu,pid,comm --sort=-pcpu | head
All figures: add -v
"
        );
        assert!(screen(vec![cell(3, 0.0, None)]).starts_with("A busy loop lost 0.0 % of its time on CPU 3.\n"));
        assert!(screen(Vec::new()).starts_with("No CPU was watched"));
    }
}
