//! What the figures of available bandwidth answer: how much is free, or at least how much, and why not more is known.

use vtare_methods::avb::Stopped;

use super::cell::AvbCell;
use super::parameters::Parameters;
use super::shown::{megabits, sized};
use crate::answer::{Answer, CommandLine};
use crate::instrument::Outcome;
use crate::note::Note;
use crate::sentences::{answer as usual, avb as words};
use crate::table::{rough_percent, time};

/// How much more an estimate may have when what it may have did not suffice.
const MORE: f64 = 4.0;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<AvbCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let Some(cell) = outcome.cells.first() else { return Answer::none(words::no_estimate()) };
    let (to, peer) = (if cell.direction == "reverse" { "from" } else { "to" }, &cell.peer);
    let way = match (cell.estimates, cell.window_s) {
        (0 | 1, None) => words::way(to, peer),
        (0 | 1, Some(seconds)) => words::way_over(to, peer, time(Some(seconds * 1e9))),
        (many, _) => words::way_median(to, peer, many, time(cell.span_s.map(|span| span * 1e9))),
    };
    let mut answer = match (cell.avb_bit_per_s, cell.capacity_bit_per_s) {
        (Some(rate), capacity) => {
            let rate = megabits(Some(rate));
            let first = match (method(cell), cell.at_least) {
                (method @ ("tcp" | "udpst"), _) => words::moved(method, rate, way),
                ("adr", _) => words::at_most(rate, way),
                (_, true) => words::at_least(rate, way),
                (_, false) => words::free(rate, way),
            };
            let ends = cell.interval_bit_per_s.filter(|_| !cell.at_least);
            let show = |rate| megabits(Some(rate));
            let second = match (ends, capacity) {
                (Some([low, high]), Some(capacity)) if high >= capacity => {
                    words::interval_to_capacity(show(low.min(capacity)), show(capacity))
                }
                (Some([low, high]), Some(capacity)) => {
                    words::interval_and_capacity(show(low), show(high), show(capacity))
                }
                (Some([low, high]), None) => words::interval(show(low), show(high)),
                (None, Some(capacity)) => words::capacity(show(capacity)),
                (None, None) => String::new(),
            };
            Answer::new(format!("{first} {second}").trim_end())
        }
        (None, Some(capacity)) => Answer::new(words::capacity_of(way, megabits(Some(capacity)))),
        (None, None) => Answer::none(words::nothing_known(way)),
    };
    let found = cell.avb_bit_per_s.or(cell.capacity_bit_per_s).is_some();
    figures(&mut answer, cell);
    if cell.at_least && found {
        answer.limit(why_at_least(cell.stopped));
    }
    if cell.estimates == 0 {
        answer.limit(words::none_complete());
    } else if !found {
        answer.limit(match cell.stopped {
            Some(Stopped::ByteBudget) => words::none_for_bytes(),
            Some(Stopped::TimeBudget) => words::none_for_time(),
            other => words::none(silence(other)),
        });
    } else if cell.unanswered > 0 && cell.avb_bit_per_s.is_some() {
        answer.limit(words::some_unanswered(cell.unanswered, cell.estimates));
    }
    if cell.uninformative > 0 {
        answer.limit(words::uninformative(cell.uninformative, cell.estimates));
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
        answer.figure(words::long_run(low, high));
    }
    if let (1.., Some(byte), Some(ns)) = (cell.estimates, cell.estimate_byte.median, cell.estimate_ns.median) {
        let (size, time) = (sized(Some(byte)), time(Some(ns)));
        answer.figure(match cell.estimates {
            1 => words::one_estimate(&cell.method, size, time),
            many => words::estimates(many, &cell.method, size, time),
        });
    }
    let rate = cell.occupied_bit_per_s.map(|rate| match cell.occupied_share {
        Some(share) => words::of_capacity(megabits(Some(rate)), rough_percent(share)),
        None => megabits(Some(rate)),
    });
    match (rate, cell.queued_ns.map(|queued| time(Some(queued)))) {
        (Some(rate), Some(queued)) => answer.figure(words::probes_and_queue(rate, queued)),
        (Some(rate), None) => answer.figure(words::probes(rate)),
        (None, Some(queued)) => answer.figure(words::queue(queued)),
        (None, None) => {}
    }
}

/// Why a value is a lower bound.
fn why_at_least(stopped: Option<Stopped>) -> String {
    match stopped {
        Some(Stopped::SenderLimited) => words::bound_of_sender(),
        Some(Stopped::ByteBudget) => words::bound_of_bytes(),
        Some(Stopped::TimeBudget) => words::bound_of_time(),
        _ => words::bound(),
    }
}

/// The method without its preset.
fn method(cell: &AvbCell) -> &str {
    cell.method.split(':').next().unwrap_or_default()
}

/// Why there is no estimate.
pub(crate) fn silence(stopped: Option<Stopped>) -> String {
    match stopped {
        Some(Stopped::ByteBudget) => words::byte_limit(),
        Some(Stopped::TimeBudget) => words::time_limit(),
        Some(Stopped::Lossy) => words::lossy(),
        Some(Stopped::Reordered) => words::reordered(),
        Some(Stopped::Disturbed) => words::disturbed(),
        Some(Stopped::NoAnswer) => words::no_answer(),
        _ => words::disagreed(),
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
                answer.change(words::estimate_sends_more(), line.with("--max-bytes", byte));
            }
        }
        Some(Stopped::TimeBudget) => {
            let spent = parameters.most_ns.map(|ns| ns as f64).or(cell.estimate_ns.median);
            if let Some(ms) = spent.map(|ns| (ns / 1e6 * MORE).ceil()).filter(|ms| *ms > 0.0) {
                answer.change(words::estimate_takes_longer(), line.with("--max-time", format!("{ms}ms")));
            }
        }
        Some(Stopped::SenderLimited) if !parameters.is_tcp() => {
            answer.change(words::try_tcp(), line.with("--method", "tcp"));
        }
        Some(Stopped::Lossy | Stopped::Reordered) => {
            answer.change(usual::find_losses(), format!("vtare rtt {} --seconds 5", cell.peer))
        }
        Some(Stopped::Disturbed) => answer.free_the_cpu(notes, parameters.cpu, line),
        _ => {}
    }
    if let (0, Some(seconds)) = (cell.estimates, parameters.seconds) {
        answer.change(words::more_than(time(Some(seconds * 1e9))), line.with("--seconds", (seconds * MORE).ceil()));
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
            "  50.0 Mbit/s is free on the way to a. Interval: 45.0 Mbit/s to 55.0 Mbit/s; capacity: 100 Mbit/s.\n\n";
        assert_eq!(shown(good.clone()), sentence);
        (good.direction, good.estimates, good.span_s) = ("reverse", 9, Some(5.0));
        let sentence = "  50.0 Mbit/s is free on the way from a (median of 9 estimates within 5.00 s). Interval";
        assert!(shown(good.clone()).starts_with(sentence), "{}", shown(good));
    }

    #[test]
    fn a_short_time_is_not_taken_for_a_long_one() {
        let mut short = cell(Some(50e6), Stopped::Converged);
        (short.window_s, short.long_run_bit_per_s) = (Some(0.06), Some([20e6, 80e6]));
        let text = shown(short.clone());
        assert!(text.contains("is free on the way to a over 60.0 ms. Interval: 45.0 Mbit/s to 55.0 Mbit/s."), "{text}");
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
50.0 Mbit/s is free on the way to 10.0.0.2 over 60.0 ms. Interval: 45.0 Mbit/s
  to 55.0 Mbit/s; capacity: 100 Mbit/s.
Expect 20.0 Mbit/s to 80.0 Mbit/s over longer periods if the other traffic stays
  the same.
1 estimate by abacus, with 996 kB of probes in 351 ms.
The probes came at 10.0 Mbit/s (10 % of the capacity) and made the queue wait
  1.50 ms.
All figures: add -v
";
        assert_eq!(screen(&good), expected);
        let expected = "\
Could not estimate how much is free on the way to a.
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
        assert!(text.starts_with("  Could not estimate how much is free on the way to a.\n"), "{text}");
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
