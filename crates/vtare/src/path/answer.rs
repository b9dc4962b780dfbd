//! The answer of `vtare path` in words: every sentence has the figures it stands on.

use vtare_methods::avb::Stopped;
use vtare_methods::path::QueueKind;

use super::cell::PathCell;
use super::parameters::PathParameters;
use crate::answer::{Answer, CommandLine};
use crate::avb::answer::silence;
use crate::avb::shown::{megabits, sized};
use crate::instrument::Outcome;
use crate::sentences::{answer as usual, path as words};
use crate::table::time;

/// How much more it may send where what it may send did not fill the buffer.
const MORE: u64 = 4;
/// The p above which a chance stands as a number.
const LEAST_P: f64 = 1e-6;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<PathCell>, parameters: &PathParameters, line: &CommandLine) -> Answer {
    let cells: Vec<&PathCell> = outcome.cells.iter().filter(|cell| cell.direction != "both").collect();
    let sentences: Vec<String> = cells.iter().filter_map(|cell| direction(cell)).collect();
    let mut answer = if sentences.is_empty() {
        let why = cells.first().map_or_else(words::nothing_measured, |cell| silence(cell.stopped));
        Answer::none(words::not_judged(&parameters.peer, why))
    } else {
        Answer::new(sentences.join(" "))
    };
    figures(&mut answer, &outcome.cells);
    for cell in cells {
        if cell.depth_at_least && cell.depth_ns.is_some() {
            answer.limit(words::not_filled(way(cell.direction), time(cell.depth_ns)));
            answer.change(usual::send_more(), line.with("--max-bytes", more_byte(outcome, parameters)));
        }
        if cell.avb_at_least && cell.avb_bit_per_s.is_some() {
            answer.limit(words::bound(way(cell.direction)));
        }
        if cell.avb_bit_per_s.is_none() {
            if sentences.is_empty() {
                further(&mut answer, cell, outcome, parameters, line);
                continue;
            }
            answer.limit(words::free_not_known(way(cell.direction), silence(cell.stopped)));
        }
    }
    answer.limited_by(&outcome.notes, "direction_unknown");
    answer.limited_by(&outcome.notes, "path_mtu");
    answer
}

/// Bytes that get further: more than it might send, and more than it sent.
fn more_byte(outcome: &Outcome<PathCell>, parameters: &PathParameters) -> u64 {
    let sent = outcome.cells.last().map_or(0, |cell| cell.probe_byte + cell.extra_byte);
    parameters.limits().0.max(sent).saturating_mul(MORE)
}

/// The command that gets further where nothing is known.
fn further(
    answer: &mut Answer,
    cell: &PathCell,
    outcome: &Outcome<PathCell>,
    parameters: &PathParameters,
    line: &CommandLine,
) {
    match cell.stopped {
        Some(Stopped::Disturbed) => answer.free_the_cpu(&outcome.notes, parameters.cpu, line),
        Some(Stopped::Lossy | Stopped::NoAnswer | Stopped::Reordered) => {
            answer.change(usual::find_losses(), format!("vtare rtt {} --seconds 5", parameters.peer));
        }
        Some(Stopped::TimeBudget) => answer.change(usual::take_longer(), line.with("--max-time", "20s")),
        _ => answer.change(usual::send_more(), line.with("--max-bytes", more_byte(outcome, parameters))),
    }
}

/// One line for each figure behind the sentences.
fn figures(answer: &mut Answer, cells: &[PathCell]) {
    for cell in cells.iter().filter(|cell| cell.direction != "both" && cell.depth_ns.is_some()) {
        let (way, depth) = (way(cell.direction), bounded(time(cell.depth_ns), cell.depth_at_least));
        let (size, kind) = (sized(cell.depth_byte), cell.queue.map(queue_words));
        let free = cell.interval_bit_per_s.filter(|_| !cell.avb_at_least);
        answer.figure(match (kind, free.map(|ends| ends.map(|end| megabits(Some(end))))) {
            (Some(kind), Some([low, high])) => words::buffer_kind_free(way, depth, size, kind, low, high),
            (Some(kind), None) => words::buffer_kind(way, depth, size, kind),
            (None, Some([low, high])) => words::buffer_free(way, depth, size, low, high),
            (None, None) => words::buffer(way, depth, size),
        });
    }
    // The last is the whole: the one direction, or both.
    if let Some(whole) = cells.last().filter(|cell| cell.probe_byte + cell.extra_byte > 0) {
        let sent = sized(Some((whole.probe_byte + whole.extra_byte) as f64));
        answer.figure(words::sent(sent, time(Some(whole.elapsed_s * 1e9))));
    }
}

/// Below this many times the idle round trip, one under load has not risen.
const LEAST_RISE: f64 = 1.1;

/// One direction as a sentence.
fn direction(cell: &PathCell) -> Option<String> {
    let (way, idle) = (way(cell.direction), cell.idle_rtt_ns.map(|idle| time(Some(idle))));
    let free = cell.avb_bit_per_s.map(|rate| bounded(megabits(Some(rate)), cell.avb_at_least));
    // A bound that is no more than the idle round trip says nothing about what a full buffer does.
    if let (Some(free), Some(idle), Some(over)) = (&free, cell.idle_rtt_ns, cell.rtt_at_110_ns)
        && cell.depth_at_least
        && over < LEAST_RISE * idle
    {
        return Some(words::free_and_no_rise(way, free, time(Some(idle))));
    }
    let loaded = match (&idle, cell.rtt_at_110_ns, cell.loaded.last()) {
        (Some(_), over, _) => over,
        (None, _, over) => over.map(|over| over.added_ns),
    };
    let loaded = loaded.map(|over| bounded(time(Some(over)), cell.depth_at_least));
    let loaded = loaded.map(|over| cell.grade.map_or_else(|| over.clone(), |grade| words::graded(&over, grade)));
    Some(match (free, idle, loaded) {
        (Some(free), Some(idle), Some(loaded)) => words::free_and_rise(way, free, idle, loaded),
        (Some(free), None, Some(added)) => words::free_and_added(way, free, added),
        (Some(free), _, None) => words::free(way, free),
        (None, Some(idle), Some(loaded)) => words::rise(way, idle, loaded),
        (None, None, Some(added)) => words::added(way, added),
        (None, _, None) => return None,
    })
}

/// A figure, or its lower bound.
fn bounded(figure: String, at_least: bool) -> String {
    if at_least { words::at_least(figure) } else { figure }
}

pub(super) fn way(direction: &str) -> &'static str {
    if direction == "down" { "Down" } else { "Up" }
}

/// What a queue does, for a table.
pub(super) const fn queue_words(queue: QueueKind) -> &'static str {
    match queue {
        QueueKind::DropTail => "drop-tail",
        QueueKind::Aqm => "AQM",
        QueueKind::Policer => "policer",
        QueueKind::NotSeen => "no drop seen",
    }
}

/// Lines below the table: the idle round trip, what each queue did, and what the figures are not.
pub(super) fn details(cells: &[PathCell]) -> String {
    let mut text = String::new();
    if let Some(idle) = cells.iter().find_map(|cell| cell.idle_rtt_ns) {
        text.push_str(&format!(
            "\nidle round trip {}; the columns in % of what is free are round trips\n",
            time(Some(idle))
        ));
    }
    for cell in cells.iter().filter(|cell| cell.direction != "both") {
        text.push_str(&queue(cell));
        text.push_str(&intervals(cell));
    }
    if let [up, down, both] = cells {
        text.push_str(&at_once(up, down, both));
    }
    if cells.iter().any(|cell| !cell.saturated.is_empty()) {
        text.push_str("TCP: filled the way up for that time; its round trip is the median behind slow start\n");
    }
    text + "probes do not back off: the depth is the worst case, not the depth that TCP sees\n"
}

/// What the row for both directions stands on.
fn at_once(up: &PathCell, down: &PathCell, both: &PathCell) -> String {
    let added = up.rtt_at_110_ns.zip(down.rtt_at_110_ns).zip(up.idle_rtt_ns).map(|((up, down), idle)| up + down - idle);
    match both.round_trips {
        Some(round_trips) => format!(
            "both, 110 %: {round_trips} round trips with both queues filled at once; one by one they add up to {}; 50 \
             and 90 % are added up\n",
            time(added)
        ),
        None => "both: not measured at once; what the directions add is added up\n".to_owned(),
    }
}

/// Where the figures lie in the long run.
fn intervals(cell: &PathCell) -> String {
    let free = cell
        .interval_bit_per_s
        .map(|[low, high]| format!("{} to {} is free", megabits(Some(low)), megabits(Some(high))));
    let loaded =
        [(50, cell.rtt_at_50_interval_ns), (90, cell.rtt_at_90_interval_ns), (110, cell.rtt_at_110_interval_ns)];
    let loaded = loaded.into_iter().filter_map(|(percent, interval)| {
        let [low, high] = interval?;
        Some(format!("{} to {} at {percent} %", time(Some(low)), time(Some(high))))
    });
    let parts: Vec<String> = free.into_iter().chain(loaded).collect();
    if parts.is_empty() { String::new() } else { format!("{}, 95 % intervals: {}\n", cell.direction, parts.join("; ")) }
}

fn queue(cell: &PathCell) -> String {
    let (short, long) = (cell.short_queue, cell.long_queue);
    let interval = |unit: fn(Option<f64>) -> String, ends: Option<[f64; 2]>| {
        ends.map_or_else(|| "-".to_owned(), |[low, high]| format!("{} to {}", unit(Some(low)), unit(Some(high))))
    };
    let buffer =
        format!("buffer {} ({})", interval(time, cell.depth_interval_ns), interval(sized, cell.depth_interval_byte));
    let what = match cell.queue {
        Some(QueueKind::DropTail) => format!("{buffer}, drains at {}", megabits(cell.drain_bit_per_s)),
        Some(QueueKind::Aqm) => {
            let hit = if long.marked > long.lost { "marked" } else { "lost" };
            format!("packets are {hit} before the queue is full, up to {}", time(cell.depth_ns))
        }
        _ if cell.depth_ns.is_none() => "no queue was seen".to_owned(),
        Some(QueueKind::Policer) => "packets are dropped and not delayed".to_owned(),
        _ => format!("nothing was dropped in a queue of up to {}", time(cell.depth_ns)),
    };
    let chance = cell.queue_loss_p.map_or_else(String::new, |p| {
        let p = if p < LEAST_P { format!("below {LEAST_P:e}") } else { format!("{p:.2}") };
        format!(" (p {p})")
    });
    let marked = if short.marked + long.marked > 0 {
        format!(", marked {} and {}", short.marked, long.marked)
    } else {
        String::new()
    };
    let mut text = format!(
        "{}: {what}; lost {} of {} in a short queue, {} of {} in a long one{marked}{chance}\n",
        cell.direction, short.lost, short.sent, long.lost, long.sent
    );
    if let Some(ecn) = cell.ecn.filter(|ecn| ecn.cleared > 0) {
        text.push_str(&format!(
            "{}: ECN is cleared on the way ({} of {} packets): queues behind that drop where they would mark\n",
            cell.direction, ecn.cleared, ecn.arrived
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use vtare_methods::path::{EcnSeen, Loaded, Lost, SHARES};

    use super::*;
    use crate::answer::Shape;

    fn cell(direction: &'static str, added_ns: f64) -> PathCell {
        PathCell {
            direction,
            avb_bit_per_s: Some(50e6),
            stopped: Some(Stopped::Converged),
            loaded: SHARES.map(|share| Loaded { share, added_ns, ..Loaded::default() }).to_vec(),
            depth_ns: Some(added_ns),
            depth_byte: Some(added_ns / 160.0),
            depth_interval_ns: Some([0.9 * added_ns, 1.1 * added_ns]),
            depth_interval_byte: Some([0.9 * added_ns / 160.0, 1.1 * added_ns / 160.0]),
            queue: Some(QueueKind::DropTail),
            grade: Some("fair"),
            ..PathCell::default()
        }
    }

    fn shown(cells: Vec<PathCell>) -> String {
        let outcome = Outcome { cells, notes: Vec::new(), interrupted: false };
        let parameters = PathParameters { peer: "a".to_owned(), ..PathParameters::default() };
        let answer = of(&outcome, &parameters, &CommandLine::of("vtare path a"));
        answer.render(Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_sentence_has_what_is_free_and_what_using_more_does() {
        let text = shown(vec![cell("up", 48e6).with_idle(Some(12e6))]);
        let wanted = "  Up: 50.0 Mbit/s is free; using more raises the round trip from 12.0 ms to 60.0 ms (fair).\n  \
                      Up: buffer 48.0 ms (300 kB), drop-tail.\n\n";
        assert_eq!(text, wanted);
        let text = shown(vec![cell("down", 48e6)]);
        assert!(text.starts_with("  Down: 50.0 Mbit/s is free; using more adds 48.0 ms (fair).\n"), "{text}");
    }

    #[test]
    fn a_buffer_that_was_not_filled_is_a_bound_with_the_command_that_gets_further() {
        let text = shown(vec![PathCell { depth_at_least: true, ..cell("up", 48e6).with_idle(Some(12e6)) }]);
        assert!(text.contains("from 12.0 ms to at least 60.0 ms"), "{text}");
        assert!(text.contains("queued 48.0 ms and did not fill the buffer"), "{text}");
        assert!(text.contains("      vtare path a --max-bytes 20000000\n"), "{text}");
        let unfilled = PathCell { depth_at_least: true, ..cell("up", 80.0) };
        let text = shown(vec![unfilled.with_idle(Some(3_710.0))]);
        assert!(text.contains("50.0 Mbit/s is free; the probes did not raise the round trip of 3.71 us."), "{text}");
    }

    #[test]
    fn the_screen_has_the_answer_and_at_most_seven_lines_more() {
        let one = |direction, added_ns| {
            let cell =
                PathCell { interval_bit_per_s: Some([47e6, 53e6]), probe_byte: 2_400_000, ..cell(direction, added_ns) };
            PathCell { elapsed_s: 0.6, ..cell }.with_idle(Some(12e6))
        };
        let (up, mut down) = (one("up", 48e6), one("down", 3e6));
        down.depth_at_least = true;
        let both = PathCell::both(&up, &down, None);
        let outcome = Outcome { cells: vec![up, down, both], notes: Vec::new(), interrupted: false };
        let parameters = PathParameters { peer: "a".to_owned(), ..PathParameters::default() };
        let answer = of(&outcome, &parameters, &CommandLine::of("vtare path a"));
        let text = answer.short(Shape { colour: false, width: 80 }, 8, &[], &[]);
        let expected = "\
Up: 50.0 Mbit/s is free; using more raises the round trip from 12.0 ms to 60.0
  ms (fair). Down: 50.0 Mbit/s is free; using more raises the round trip from
  12.0 ms to at least 15.0 ms (fair).
Up: buffer 48.0 ms (300 kB), drop-tail; free 47.0 Mbit/s to 53.0 Mbit/s (95 %).
Down: the probes queued 3.00 ms and did not fill the buffer: it is deeper, and
  latency may rise further.
Try: vtare path a --max-bytes 20000000
All figures: add -v
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_known_is_worded_so() {
        let none = PathCell {
            avb_bit_per_s: None,
            stopped: Some(Stopped::Lossy),
            loaded: Vec::new(),
            depth_ns: None,
            ..cell("up", 0.0)
        };
        let text = shown(vec![none]);
        assert!(text.starts_with("  Could not judge the path to a: too many packets were lost.\n"), "{text}");
        assert!(text.contains("      vtare rtt a --seconds 5\n"), "{text}");
    }

    #[test]
    fn marks_and_cleared_fields_are_shown_where_there_are_some() {
        let lost = |sent, lost, marked| Lost { sent, lost, marked };
        let marking = PathCell {
            queue: Some(QueueKind::Aqm),
            short_queue: lost(600, 0, 0),
            long_queue: lost(400, 3, 55),
            queue_loss_p: Some(1e-9),
            ecn: Some(EcnSeen { arrived: 997, marked: 55, cleared: 0 }),
            ..cell("up", 48e6)
        };
        let wanted = "up: packets are marked before the queue is full, up to 48.0 ms; lost 0 of 600 in a short queue, \
                      3 of 400 in a long one, marked 0 and 55 (p below 1e-6)\n";
        assert_eq!(queue(&marking), wanted);
        let cleared = PathCell { ecn: Some(EcnSeen { arrived: 99, marked: 0, cleared: 98 }), ..cell("up", 48e6) };
        assert!(queue(&cleared).contains("up: ECN is cleared on the way (98 of 99 packets)"), "{}", queue(&cleared));
    }

    #[test]
    fn below_the_table_stands_that_probes_do_not_back_off() {
        let text = details(&[cell("up", 48e6).with_idle(Some(12e6))]);
        assert!(text.contains("probes do not back off: the depth is the worst case"), "{text}");
        assert!(text.contains("up: buffer 43.2 ms to 52.8 ms (270 kB to 330 kB)"), "{text}");
    }
}
