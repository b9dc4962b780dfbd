//! The answer of `vtare rpm` in words: every sentence has the figures it stands on.

use vtare_methods::rpm::Confidence;

use super::cell::RpmCell;
use super::parameters::RpmParameters;
use crate::answer::{Answer, CommandLine};
use crate::avb::shown::megabits;
use crate::instrument::Outcome;
use crate::output::to_json;
use crate::sentences::{answer as usual, rpm as words};
use crate::table::time;

/// Share of the probes that may fail: the trimmed mean leaves as many out.
const MOST_FAILED: f64 = 0.05;
/// How much longer it may take where it did not become stable.
const LONGER: u64 = 2;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<RpmCell>, parameters: &RpmParameters, line: &CommandLine) -> Answer {
    let sentences: Vec<String> = outcome.cells.iter().filter_map(direction).collect();
    let mut answer = if sentences.is_empty() {
        Answer::none(words::not_known(&parameters.peer))
    } else {
        Answer::new(sentences.join(" "))
    };
    for cell in &outcome.cells {
        let way = way(cell);
        if cell.rpm.is_none() {
            answer.limit(words::too_few(way));
        } else if cell.confidence != Confidence::High {
            answer.limit(words::not_stable(way, word(cell.confidence)));
            let seconds = (parameters.most_ns * LONGER).div_ceil(1_000_000_000);
            answer.change(usual::take_longer(), line.with("--max-time", format!("{seconds}s")));
        }
        let all = cell.foreign_probes + cell.self_probes + cell.failed_probes;
        if cell.failed_probes as f64 > MOST_FAILED * all as f64 {
            answer.limit(words::failed(way, cell.failed_probes, all));
        }
    }
    answer
}

/// One direction as a sentence.
fn direction(cell: &RpmCell) -> Option<String> {
    let (rpm, grade) = (cell.rpm?, cell.grade?);
    let (way, goodput, each) = (way(cell), megabits(cell.goodput_bit_per_s), time(Some(60e9 / rpm)));
    Some(match cell.idle_rtt_ns {
        Some(idle) => words::direction_and_idle(way, rpm, grade, goodput, each, time(Some(idle))),
        None => words::direction(way, rpm, grade, goodput, each),
    })
}

fn way(cell: &RpmCell) -> &'static str {
    if cell.direction == "down" { "Down" } else { "Up" }
}

/// A confidence for people.
pub(super) fn word(confidence: Confidence) -> String {
    to_json(&confidence).as_str().unwrap_or_default().to_owned()
}

/// Lines below the table: what the RPM are made of.
pub(super) fn details(cells: &[RpmCell]) -> String {
    let known = cells.iter().filter(|cell| cell.rpm.is_some());
    let lines = known.map(|cell| {
        format!(
            "{}: connections of their own: TCP {}, TLS {}, request {}; request on a loaded connection {}\n",
            cell.direction,
            time(cell.tcp_foreign_ns),
            time(cell.tls_foreign_ns),
            time(cell.http_foreign_ns),
            time(cell.http_loaded_ns),
        )
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nmeans without the slowest 5 %, of the last 4 s\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;

    fn cell(direction: &'static str) -> RpmCell {
        RpmCell {
            direction,
            rpm: Some(300.0),
            grade: Some("poor"),
            confidence: Confidence::High,
            idle_rtt_ns: Some(4.4e6),
            goodput_bit_per_s: Some(18.9e6),
            foreign_probes: 50,
            self_probes: 50,
            ..RpmCell::default()
        }
    }

    fn shown(cells: Vec<RpmCell>) -> String {
        let outcome = Outcome { cells, notes: Vec::new(), interrupted: false };
        let parameters = RpmParameters { peer: "a".to_owned(), ..RpmParameters::default() };
        let answer = of(&outcome, &parameters, &CommandLine::of("vtare rpm a"));
        answer.render(Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_sentence_has_rate_grade_and_both_round_trips() {
        let wanted = "  Down: 300 round trips a minute (poor) while 18.9 Mbit/s of payload flow: 200 ms each, 4.40 ms \
                      when the path is idle.\n\n";
        assert_eq!(shown(vec![cell("down")]), wanted);
    }

    #[test]
    fn what_is_unsure_is_worded_so_with_the_command_that_helps() {
        let text = shown(vec![RpmCell { confidence: Confidence::Medium, failed_probes: 30, ..cell("up") }]);
        assert!(text.contains("Up: the RPM did not become stable in time: medium confidence."), "{text}");
        assert!(text.contains("      vtare rpm a --max-time 80s\n"), "{text}");
        assert!(text.contains("Up: 30 of 130 probes failed"), "{text}");
        let none = shown(vec![RpmCell { rpm: None, ..cell("up") }]);
        assert!(none.starts_with("  Could not measure the responsiveness of the path to a.\n"), "{none}");
    }
}
