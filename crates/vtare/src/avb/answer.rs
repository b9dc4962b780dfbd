//! What the figures of available bandwidth answer: how much is free, or at least how much, and why not more is known.

use vtare_methods::avb::Stopped;

use super::cell::AvbCell;
use super::parameters::Parameters;
use super::shown::{megabits, sized};
use crate::answer::{Answer, CommandLine};
use crate::instrument::Outcome;
use crate::note::Note;
use crate::table::{rough_percent, time};

/// How much more an estimate may have when what it may have did not suffice.
const MORE: f64 = 4.0;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<AvbCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let Some(cell) = outcome.cells.first() else { return Answer::none("Nothing was estimated.") };
    let way = format!("the way {} {}", if cell.direction == "reverse" { "from" } else { "to" }, cell.peer);
    let several = match (cell.estimates, cell.window_s) {
        (0 | 1, None) => String::new(),
        (0 | 1, Some(seconds)) => format!(" over {}", time(Some(seconds * 1e9))),
        (many, _) => format!(" (median of {many} estimates within {})", time(cell.span_s.map(|span| span * 1e9))),
    };
    let mut answer = match (cell.avb_bit_per_s, cell.capacity_bit_per_s) {
        (Some(rate), capacity) => {
            let rate = megabits(Some(rate));
            let mut text = match (method(cell), cell.at_least) {
                ("tcp" | "udpst", _) => format!("{} moved {rate} on {way}{several}", method(cell)),
                ("adr", _) => format!("At most {rate} is free on {way}{several}"),
                (_, true) => format!("At least {rate} is free on {way}{several}"),
                (_, false) => format!("{rate} is free on {way}{several}"),
            };
            let ends = cell.interval_bit_per_s.filter(|_| !cell.at_least);
            match (ends, capacity) {
                (Some([low, high]), Some(capacity)) if high >= capacity => {
                    let low = megabits(Some(low.min(capacity)));
                    text.push_str(&format!(", from {low} to all of the capacity of {}", megabits(Some(capacity))));
                }
                (ends, capacity) => {
                    if let Some([low, high]) = ends {
                        text.push_str(&format!(", from {} to {}", megabits(Some(low)), megabits(Some(high))));
                    }
                    if capacity.is_some() {
                        text.push_str(&format!(", of a capacity of {}", megabits(capacity)));
                    }
                }
            }
            Answer::new(text + ".")
        }
        (None, Some(capacity)) => {
            Answer::new(format!("The capacity of {way} is {}{several}.", megabits(Some(capacity))))
        }
        (None, None) => Answer::none(format!("How much is free on {way} is not known.")),
    };
    let found = cell.avb_bit_per_s.or(cell.capacity_bit_per_s).is_some();
    figures(&mut answer, cell);
    if cell.at_least && found {
        answer.limit(why_at_least(cell.stopped));
    }
    if cell.estimates == 0 {
        answer.limit("No estimate was complete when the time was over.");
    } else if !found {
        answer.limit(format!("No estimate: {}.", silence(cell.stopped)));
    } else if cell.unanswered > 0 && cell.avb_bit_per_s.is_some() {
        answer.limit(format!("{} of {} estimates gave no answer.", cell.unanswered, cell.estimates));
    }
    if cell.uninformative > 0 {
        let (number, of) = (cell.uninformative, cell.estimates);
        answer.limit(format!("{number} of {of} estimates exclude nothing: their interval is as wide as the link."));
    }
    if cell.at_least || !found {
        more(&mut answer, cell, &outcome.notes, parameters, line);
    }
    answer.limited_by(&outcome.notes, "receiver_overloaded");
    answer.limited_by(&outcome.notes, "path_mtu");
    answer
}

/// One line for each figure behind the sentence.
fn figures(answer: &mut Answer, cell: &AvbCell) {
    let most = cell.capacity_bit_per_s.unwrap_or(f64::INFINITY);
    let ends = |ends: [f64; 2]| ends.map(|end| megabits(Some(end.min(most))));
    if let Some([low, high]) = cell.long_run_bit_per_s.map(ends)
        && !cell.at_least
        && Some([&low, &high]) != cell.interval_bit_per_s.map(ends).as_ref().map(|[low, high]| [low, high])
    {
        answer.figure(format!("Expect {low} to {high} over longer periods if the other traffic stays the same."));
    }
    if let (1.., Some(byte), Some(ns)) = (cell.estimates, cell.estimate_byte.median, cell.estimate_ns.median) {
        let estimates = if cell.estimates == 1 { "estimate" } else { "estimates" };
        answer.figure(format!(
            "{} {estimates} by {}, each with {} of probes in {}.",
            cell.estimates,
            cell.method,
            sized(Some(byte)),
            time(Some(ns))
        ));
    }
    let share =
        cell.occupied_share.map_or_else(String::new, |share| format!(" ({} of the capacity)", rough_percent(share)));
    let taken = cell.occupied_bit_per_s.map(|rate| format!("came at {}{share}", megabits(Some(rate))));
    let queued = cell.queued_ns.map(|queued| format!("made the queue wait {}", time(Some(queued))));
    let burden: Vec<String> = taken.into_iter().chain(queued).collect();
    if !burden.is_empty() {
        answer.figure(format!("The probes {}.", burden.join(" and ")));
    }
}

/// Why a value is a lower bound.
const fn why_at_least(stopped: Option<Stopped>) -> &'static str {
    match stopped {
        Some(Stopped::SenderLimited) => {
            "A lower bound: the sender cannot pace faster on this machine, so the path may have more."
        }
        Some(Stopped::ByteBudget) => {
            "A lower bound: nothing queued with the bytes that may be sent (--max-bytes), so the path may have more."
        }
        Some(Stopped::TimeBudget) => {
            "A lower bound: nothing queued in the time that it may take (--max-time), so the path may have more."
        }
        _ => "A lower bound: the path may have more.",
    }
}

/// The method without its preset.
fn method(cell: &AvbCell) -> &str {
    cell.method.split(':').next().unwrap_or_default()
}

/// Why estimates gave no answer.
const fn silence(stopped: Option<Stopped>) -> &'static str {
    match stopped {
        Some(Stopped::ByteBudget) => "the byte limit is too small. Raise `--max-bytes`",
        Some(Stopped::TimeBudget) => "the time limit is too short. Raise `--max-time`",
        Some(Stopped::Lossy) => "too many packets were lost",
        Some(Stopped::Reordered) => "too many packets arrived out of order",
        Some(Stopped::Disturbed) => "sender or receiver stalled too often",
        Some(Stopped::NoAnswer) => "nothing came back",
        _ => "the probes did not agree",
    }
}

/// The command that gets further.
fn more(answer: &mut Answer, cell: &AvbCell, notes: &[Note], parameters: &Parameters, line: &CommandLine) {
    match cell.stopped {
        // Its notes have the reason; words behind its command would be the program's.
        _ if parameters.is_program() => {}
        Some(Stopped::ByteBudget) => {
            let spent = parameters.most_byte.map(|byte| byte as f64).or(cell.estimate_byte.median);
            if let Some(byte) = spent.map(|byte| (byte * MORE).ceil()).filter(|byte| *byte > 0.0) {
                answer.change("Let an estimate send more.", line.with("--max-bytes", byte));
            }
        }
        Some(Stopped::TimeBudget) => {
            let spent = parameters.most_ns.map(|ns| ns as f64).or(cell.estimate_ns.median);
            if let Some(ms) = spent.map(|ns| (ns / 1e6 * MORE).ceil()).filter(|ms| *ms > 0.0) {
                answer.change("Let an estimate take longer.", line.with("--max-time", format!("{ms}ms")));
            }
        }
        Some(Stopped::SenderLimited) if !parameters.is_tcp() => answer.change(
            "See what the kernel's TCP moves, which fills the path while it runs.",
            line.with("--method", "tcp"),
        ),
        Some(Stopped::Lossy | Stopped::Reordered) => {
            answer.change("See where packets are lost.", format!("vtare rtt {} --seconds 5", cell.peer))
        }
        Some(Stopped::Disturbed) => answer.free_the_cpu(notes, parameters.cpu, line),
        _ => {}
    }
    if let (0, Some(seconds)) = (cell.estimates, parameters.seconds) {
        let text = format!("Give it more than {}.", time(Some(seconds * 1e9)));
        answer.change(text, line.with("--seconds", (seconds * MORE).ceil()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;

    fn cell(value: Option<f64>, stopped: Stopped) -> AvbCell {
        AvbCell {
            peer: "a".to_owned(),
            method: "abacus".to_owned(),
            direction: "forward",
            avb_bit_per_s: value,
            interval_bit_per_s: value.map(|value| [0.9 * value, 1.1 * value]),
            estimates: 1,
            unanswered: u64::from(value.is_none()),
            stopped: Some(stopped),
            ..AvbCell::default()
        }
    }

    fn shown(cell: AvbCell) -> String {
        let outcome = Outcome { cells: vec![cell], notes: Vec::new(), interrupted: false };
        let parameters = Parameters { most_byte: Some(500_000), cpu: Some(1), ..Parameters::default() };
        let answer = of(&outcome, &parameters, &CommandLine::of("vtare avb a --max-bytes 500000"));
        answer.render(Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_sentence_has_the_value_its_interval_and_the_capacity() {
        let mut good = cell(Some(50e6), Stopped::Converged);
        good.capacity_bit_per_s = Some(100e6);
        let sentence =
            "  50.0 Mbit/s is free on the way to a, from 45.0 Mbit/s to 55.0 Mbit/s, of a capacity of 100 Mbit/s.\n\n";
        assert_eq!(shown(good.clone()), sentence);
        (good.direction, good.estimates, good.span_s) = ("reverse", 9, Some(5.0));
        let sentence = "  50.0 Mbit/s is free on the way from a (median of 9 estimates within 5.00 s), from";
        assert!(shown(good.clone()).starts_with(sentence), "{}", shown(good));
    }

    #[test]
    fn a_short_time_is_not_taken_for_a_long_one() {
        let mut short = cell(Some(50e6), Stopped::Converged);
        (short.window_s, short.long_run_bit_per_s) = (Some(0.06), Some([20e6, 80e6]));
        let text = shown(short.clone());
        assert!(text.contains("is free on the way to a over 60.0 ms, from 45.0 Mbit/s to 55.0 Mbit/s."), "{text}");
        assert!(text.contains("  Expect 20.0 Mbit/s to 80.0 Mbit/s over longer periods if the other"), "{text}");
        short.long_run_bit_per_s = short.interval_bit_per_s;
        assert!(!shown(short).contains("longer periods"), "no less certain");
    }

    #[test]
    fn the_screen_has_the_answer_and_at_most_seven_lines_more() {
        let median = |median| vtare_units::figures::Figures { median: Some(median), ..Default::default() };
        let mut good = AvbCell {
            peer: "10.0.0.2".to_owned(),
            capacity_bit_per_s: Some(100e6),
            long_run_bit_per_s: Some([20e6, 80e6]),
            window_s: Some(0.06),
            occupied_bit_per_s: Some(10e6),
            occupied_share: Some(0.1),
            queued_ns: Some(1.5e6),
            ..cell(Some(50e6), Stopped::Converged)
        };
        (good.estimate_byte, good.estimate_ns) = (median(996e3), median(351e6));
        let screen = |cell: &AvbCell| {
            let outcome = Outcome { cells: vec![cell.clone()], notes: Vec::new(), interrupted: false };
            let parameters = Parameters { most_byte: Some(500_000), ..Parameters::default() };
            let answer = of(&outcome, &parameters, &CommandLine::of("vtare avb 10.0.0.2"));
            answer.short(Shape { colour: false, width: 80 }, 8, &[], &[])
        };
        let expected = "\
50.0 Mbit/s is free on the way to 10.0.0.2 over 60.0 ms, from 45.0 Mbit/s to
  55.0 Mbit/s, of a capacity of 100 Mbit/s.
Expect 20.0 Mbit/s to 80.0 Mbit/s over longer periods if the other traffic stays
  the same.
1 estimate by abacus, each with 996 kB of probes in 351 ms.
The probes came at 10.0 Mbit/s (10 % of the capacity) and made the queue wait
  1.50 ms.
All figures: add -v
";
        assert_eq!(screen(&good), expected);
        let expected = "\
How much is free on the way to a is not known.
No estimate: the byte limit is too small. Raise `--max-bytes`.
Try: vtare avb 10.0.0.2 --max-bytes 2000000
All figures: add -v
";
        assert_eq!(screen(&cell(None, Stopped::ByteBudget)), expected);
    }

    #[test]
    fn estimates_that_exclude_nothing_are_counted_in_the_limits() {
        let text = shown(AvbCell { estimates: 40, uninformative: 3, ..cell(Some(50e6), Stopped::Converged) });
        assert!(text.contains("3 of 40 estimates exclude nothing: their interval is as wide as the link."), "{text}");
    }

    #[test]
    fn a_bound_is_worded_as_a_bound_with_what_ended_it_and_the_command_that_gets_further() {
        let bound = |stopped| shown(AvbCell { at_least: true, ..cell(Some(50e6), stopped) });
        let text = bound(Stopped::SenderLimited);
        assert!(text.starts_with("  At least 50.0 Mbit/s is free on the way to a.\n"), "{text}");
        assert!(text.contains("cannot pace faster") && text.contains("--max-bytes 500000 --method tcp\n"), "{text}");
        let text = bound(Stopped::ByteBudget);
        assert!(text.contains("      vtare avb a --max-bytes 2000000\n") && !text.contains("off by"), "{text}");
    }

    #[test]
    fn without_an_answer_the_reason_and_the_way_out_are_named() {
        let text = shown(cell(None, Stopped::Lossy));
        assert!(text.starts_with("  How much is free on the way to a is not known.\n"), "{text}");
        assert!(text.contains("No estimate: too many packets were lost."), "{text}");
        assert!(text.contains("      vtare rtt a --seconds 5\n"), "{text}");
        assert!(shown(cell(None, Stopped::Disturbed)).contains("      vtare noise --cpu 1\n"));
        assert!(
            shown(cell(None, Stopped::TimeBudget))
                .contains("No estimate: the time limit is too short. Raise `--max-time`.")
        );
    }

    #[test]
    fn methods_that_measure_something_else_are_worded_so() {
        let of = |method: &str, value| shown(AvbCell { method: method.to_owned(), ..cell(value, Stopped::Converged) });
        assert!(of("tcp", Some(50e6)).starts_with("  tcp moved 50.0 Mbit/s on the way to a"));
        assert!(of("adr", Some(50e6)).starts_with("  At most 50.0 Mbit/s is free"));
        let capacity = AvbCell { capacity_bit_per_s: Some(1e8), ..cell(None, Stopped::Converged) };
        assert_eq!(shown(capacity), "  The capacity of the way to a is 100 Mbit/s.\n\n");
    }

    #[test]
    fn a_lower_bound_names_what_ended_it() {
        assert!(why_at_least(Some(Stopped::SenderLimited)).contains("cannot pace faster"));
        assert!(why_at_least(Some(Stopped::ByteBudget)).contains("--max-bytes"));
        assert!(why_at_least(Some(Stopped::TimeBudget)).contains("--max-time"));
        assert!(!why_at_least(Some(Stopped::Running)).contains("--max"));
    }
}
