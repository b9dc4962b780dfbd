//! What the figures of throughput answer: what passes, or at least how much, and what would show more.

use super::cell::ThroughputCell;
use super::parameters::{AnalyserChoice, EngineChoice, Parameters};
use super::shown::{MOST_QUEUED, frames, void_cause};
use crate::answer::{Answer, CommandLine};
use crate::avb::shown::megabits;
use crate::instrument::Outcome;
use crate::sentences::throughput as words;
use crate::table::time;

/// How much more a search may have when what it may have did not suffice.
const MORE: u64 = 4;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<ThroughputCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let cells = &outcome.cells;
    let mut found: Vec<(&ThroughputCell, f64)> =
        cells.iter().filter_map(|cell| Some((cell, cell.throughput_packet_per_s?))).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    let loss = cells.first().map_or(0.0, |cell| 100.0 * cell.loss_ratio);
    let allowed = if loss == 0.0 { words::without_loss() } else { words::with_loss(loss) };
    let passed = |(cell, rate): (&ThroughputCell, f64)| {
        let (rate, bits) = (frames(Some(rate)), megabits(cell.throughput_bit_per_s));
        let passed = if cell.loaded == cell.guests {
            words::passed(rate, bits, cell.frame_byte)
        } else {
            words::passed_through(rate, bits, cell.frame_byte, cell.loaded)
        };
        if cell.censored.is_some() { words::at_least(passed) } else { passed }
    };
    let guests = match cells.first().map_or(0, |cell| cell.guests) {
        1 => words::one_guest(),
        guests => words::guests(guests),
    };
    let mut answer = match found[..] {
        [] => Answer::none(match cells.iter().filter_map(|cell| cell.zero_loss_packet_per_s).max_by(f64::total_cmp) {
            // What single trials passed where no search has an answer.
            Some(rate) => words::none_often_enough(allowed, frames(Some(rate))),
            None => words::none(allowed),
        }),
        [only] => Answer::new(match only.0.latency_ns.median {
            Some(ns) => words::one_and_latency(guests, passed(only), allowed, time(Some(ns))),
            None => words::one(guests, passed(only), allowed),
        }),
        [least, .., most] => Answer::new(words::range(guests, passed(least), passed(most), allowed)),
    };
    for cell in cells {
        limits(&mut answer, cell, parameters, line);
    }
    if answer.limited_by(&outcome.notes, "queues") {
        let waited = cells.iter().filter_map(|cell| cell.latency_ns.p99).max_by(f64::total_cmp);
        if let Some(ms) = waited.map(|ns| (ns / MOST_QUEUED / 1e6).ceil()) {
            answer.change(words::longer_trials(), line.with("--trial", format!("{ms}ms")));
        }
    }
    let disturbed: u64 = cells.iter().map(|cell| cell.disturbed_trials).sum();
    if disturbed > 0 {
        answer.limit(if disturbed == 1 { words::one_disturbed() } else { words::disturbed(disturbed) });
    }
    let void = cells.iter().filter(|cell| cell.void_trials > cell.trials);
    let lacks_cpu = void.filter(|cell| matches!(cell.void_because, Some("generator_short" | "stalled" | "busy")));
    if disturbed > 0 || lacks_cpu.count() > 0 {
        answer.free_the_cpu(&outcome.notes, parameters.cpu, line);
    }
    answer
}

/// Why more may pass than was found, or why nothing was.
fn limits(answer: &mut Answer, cell: &ThroughputCell, parameters: &Parameters, line: &CommandLine) {
    let name = words::cell(cell.frame_byte, cell.loaded, cell.guests);
    let time_left =
        || parameters.most_ns.map(|ns| line.with("--max-time", format!("{}s", (ns * MORE).div_ceil(1_000_000_000))));
    if let Some(cap) = cell.censored {
        answer.limit(match cap {
            "generator" => words::bound_of_sender(&name),
            "analyser" => words::bound_of_analyser(&name),
            "time_budget" => words::bound_of_time(&name),
            _ => words::bound_of_range(&name),
        });
        match cap {
            "generator" if parameters.engine == EngineChoice::Packet => {
                answer.change(words::send_by_xdp(), line.with("--engine", "xdp"));
            }
            "analyser" if parameters.analyser == AnalyserChoice::Packet => {
                answer.change(words::count_by_xdp(), line.with("--analyser", "xdp"));
            }
            "range" => {
                if let Some(rate) = parameters.most_packet_per_s {
                    answer.change(words::offer_more(), line.with("--max-rate", rate * MORE));
                }
            }
            _ => {}
        }
    }
    if cell.out_of_time > 0 {
        answer.limit(words::out_of_time(&name, cell.out_of_time, cell.searches));
        if let Some(line) = time_left() {
            answer.change(words::more_time(), line);
        }
    }
    if let Some(because) = void_cause(cell.void_because).filter(|_| cell.void_trials > cell.trials) {
        answer.limit(words::void(&name, cell.void_trials, cell.trials + cell.void_trials, because));
    }
    if cell.unanswered > 0 {
        answer.limit(words::unanswered(&name, cell.unanswered, cell.searches));
        if cell.throughput_packet_per_s.is_none() && cell.out_of_time == 0 {
            let port = &parameters.rx_port;
            answer.change(words::see_arrivals(), format!("ip -s link show dev {port}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;
    use crate::instrument::Note;
    use vtare_units::figures::Figures;

    fn cell(rate: Option<f64>, frame_byte: u32) -> ThroughputCell {
        ThroughputCell {
            frame_byte,
            guests: 4,
            loaded: 4,
            loss_ratio: 0.005,
            throughput_packet_per_s: rate,
            throughput_bit_per_s: rate.map(|rate| rate * f64::from(frame_byte) * 8.0),
            searches: 5,
            ..ThroughputCell::default()
        }
    }

    fn shown(cells: Vec<ThroughputCell>, notes: &[Note]) -> String {
        let outcome = Outcome { cells, notes: notes.to_vec(), interrupted: false };
        let parameters = Parameters {
            most_ns: Some(10_000_000_000),
            most_packet_per_s: Some(2_000),
            rx_port: "b".to_owned(),
            cpu: Some(1),
            ..Parameters::default()
        };
        let line = CommandLine::of("vtare throughput --tx a --rx b");
        of(&outcome, &parameters, &line).render(Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_sentence_has_rate_frames_guests_losses_and_latency() {
        let mut one = cell(Some(100e3), 64);
        one.latency_ns = Figures { median: Some(2e6), ..Figures::default() };
        let sentence = "  4 guests forward 100.0 kpacket/s (51.2 Mbit/s) in frames of 64 B with up to 0.5 % lost; a \
                        frame takes 2.00 ms in the median.\n\n";
        assert_eq!(shown(vec![one.clone()], &[]), sentence);
        one.loaded = 1;
        let text = shown(vec![cell(Some(50e3), 1_518), one], &[]);
        let range = "  4 guests forward from 50.0 kpacket/s (607 Mbit/s) in frames of 1518 B to 100.0 kpacket/s (51.2 \
                     Mbit/s) in frames of 64 B through 1 of them, with up to 0.5 % lost.\n\n";
        assert_eq!(text, range);
        assert!(
            shown(vec![cell(None, 64)], &[]).starts_with("  No load was found that passes with up to 0.5 % lost.\n")
        );
    }

    #[test]
    fn a_censored_search_is_a_bound_with_the_command_that_shows_more() {
        let text = shown(vec![ThroughputCell { censored: Some("range"), ..cell(Some(2e3), 64) }], &[]);
        assert!(
            text.starts_with("  4 guests forward at least 2.0 kpacket/s")
                && text.contains("a lower bound, since that is"),
            "{text}"
        );
        assert!(text.contains("      vtare throughput --tx a --rx b --max-rate 8000\n"), "{text}");
        let text =
            shown(vec![ThroughputCell { censored: Some("time_budget"), out_of_time: 5, ..cell(Some(2e3), 64) }], &[]);
        assert!(text.contains("      vtare throughput --tx a --rx b --max-time 40s\n"), "{text}");
    }

    #[test]
    fn full_queues_get_trials_that_are_longer_than_they_hold_frames() {
        let mut waits = cell(Some(2e3), 64);
        waits.latency_ns.p99 = Some(60e6);
        let text = shown(vec![waits], &[Note::new("queues", "queues hold frames")]);
        assert!(text.contains("  - queues hold frames\n") && text.contains("--trial 1200ms\n"), "{text}");
    }

    #[test]
    fn where_most_trials_are_void_the_reason_and_what_to_change_are_named() {
        let void = ThroughputCell {
            trials: 1,
            void_trials: 72,
            void_because: Some("generator_short"),
            unanswered: 5,
            out_of_time: 5,
            zero_loss_packet_per_s: Some(131_900.0),
            ..cell(None, 64)
        };
        let text = shown(vec![void.clone()], &[]);
        let sentence = "  No load was found that passes with up to 0.5 % lost in enough trials; up to 131.9 kpacket/s \
                        passed without loss in the trials that counted.\n";
        assert!(text.starts_with(sentence), "{text}");
        assert!(text.contains("72 of 73 trials were void and were repeated, most since the sender missed its rate."));
        assert!(text.contains("      vtare noise --cpu 1\n"), "{text}");
        let few = ThroughputCell { trials: 100, ..void };
        assert!(!shown(vec![few], &[]).contains("void"));
    }

    #[test]
    fn searches_without_an_answer_are_a_limit_of_their_own() {
        let text = shown(vec![ThroughputCell { unanswered: 5, ..cell(None, 64) }], &[]);
        assert!(
            text.contains("5 of 5 searches found no load") && text.contains("      ip -s link show dev b\n"),
            "{text}"
        );
        let text = shown(vec![ThroughputCell { unanswered: 4, out_of_time: 4, ..cell(Some(2e3), 64) }], &[]);
        assert!(text.contains("4 of 5 searches found no load") && !text.contains("ip -s link"), "{text}");
    }
}
