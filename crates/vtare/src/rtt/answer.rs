//! What the figures of round trips answer: how long they take, where that time goes, and what the sender added.

use super::cell::RttCell;
use super::parameters::Parameters;
use crate::answer::{Answer, CommandLine, IN_P99, LOST_WORTH_A_CHANGE};
use crate::instrument::{CPU_QUOTA, Outcome};
use crate::sentences::rtt as words;
use crate::table::{rough_percent, time};

/// Of the rate that was reached, what is asked for in its place.
const SAFE_SHARE: f64 = 0.8;

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<RttCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let mut answered: Vec<(&RttCell, f64)> =
        outcome.cells.iter().filter_map(|cell| Some((cell, cell.rtt_ns.median?))).collect();
    answered.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut answer = Answer::new(match answered[..] {
        [] => String::new(),
        [(cell, median)] if outcome.cells.len() == 1 => one(cell, median),
        [(fastest, least), .., (slowest, most)] => {
            let (nearest, farthest) = (time(Some(least)), time(Some(most)));
            let first = words::several_peers(outcome.cells.len(), &fastest.peer, nearest, &slowest.peer, farthest);
            format!("{first} {}", losses(&outcome.cells))
        }
        [(cell, median)] => format!("{} {}", words::only_one_answered(outcome.cells.len()), one(cell, median)),
    });
    if answered.is_empty() {
        answer = Answer::none(words::no_reply(outcome.cells.iter().map(|cell| cell.sent).sum::<u64>()));
    }
    figures(&mut answer, &outcome.cells);
    let notes = &outcome.notes;
    // What explains a silence comes before the silence.
    if answer.limited_by(notes, "lost_on_the_way_back") {
        answer.change(words::receive_by_xdp(), line.with("--engine", "xdp"));
    }
    for cell in outcome.cells.iter().filter(|cell| cell.sent > 0 && cell.received == 0) {
        match cell.vanishing {
            Some(vanishing) => {
                let size = vanishing.arriving_byte;
                answer.change(words::smaller_packets(size), line.with("--size", size));
            }
            None => answer.limit(cell.silence()),
        }
    }
    answer.limited_by(notes, "path_mtu");
    answer.limited_by(notes, "stalled");
    answer.limited_by(notes, "nothing_came_back");
    if answer.limited_by(notes, "closed_loop")
        && let Some(rate) = safe_rate(&outcome.cells)
    {
        answer.change(words::fixed_rate(rough_percent(SAFE_SHARE)), line.without("--flood").with("--rate", rate));
    }
    if answer.limited_by(notes, "rate_not_reached")
        && let Some(rate) = safe_rate(&outcome.cells)
    {
        answer.change(words::sustainable_rate(), line.with("--rate", rate));
    }
    late(&mut answer, outcome, parameters, line);
    answer
}

/// A share of the lowest rate that was reached, packets a second.
fn safe_rate(cells: &[RttCell]) -> Option<u64> {
    let reached = cells.iter().filter_map(|cell| cell.achieved_packet_per_s).min_by(f64::total_cmp)?;
    Some((reached * SAFE_SHARE) as u64).filter(|rate| *rate > 0)
}

/// The sentence for one peer, and where its time goes.
fn one(cell: &RttCell, median: f64) -> String {
    let median = time(Some(median));
    let takes = match cell.rtt_ns.p99 {
        Some(p99) => words::median_and_tail(&cell.peer, median, time(Some(p99))),
        None => words::median(&cell.peer, median),
    };
    format!("{takes} {}", losses(std::slice::from_ref(cell)))
}

/// One line for each figure behind the sentence.
fn figures(answer: &mut Answer, cells: &[RttCell]) {
    let [cell] = cells else {
        for cell in cells.iter().filter(|cell| cell.rtt_ns.median.is_some()) {
            let (median, p99) = (time(cell.rtt_ns.median), time(cell.rtt_ns.p99));
            answer.figure(words::peer(&cell.peer, median, p99, cell.lost_on_the_way(), cell.sent));
        }
        return;
    };
    let Some(median) = cell.rtt_ns.median else { return };
    if let (Some(kernel), Some(far)) = (cell.rtt_kernel_ns.median, cell.turnaround_ns.median)
        && far <= kernel
        && kernel <= median
    {
        let share = |part: f64| rough_percent(part / median);
        answer.figure(words::where_time_goes(share(median - kernel), share(far), share(kernel - far)));
    }
    if let (Some(min), Some(max)) = (cell.rtt_ns.min, cell.rtt_ns.max) {
        let [min, max] = [min, max].map(|end| time(Some(end)));
        answer.figure(match cell.rtt_ns.p999 {
            Some(p999) => words::extremes_and_tail(min, time(Some(p999)), max),
            None => words::extremes(min, max),
        });
    }
    if let (Some(there), Some(back)) = (cell.forward_variation_ns.median, cell.reverse_variation_ns.median) {
        answer.figure(words::variation(time(Some(there)), time(Some(back))));
    }
    if let (Some(reached), Some(error)) = (cell.achieved_packet_per_s, cell.pacing_error_ns.median) {
        answer.figure(words::sent(reached, time(Some(error))));
    }
}

fn losses(cells: &[RttCell]) -> String {
    let sum = |of: fn(&RttCell) -> u64| cells.iter().map(of).sum::<u64>();
    let (sent, lost, refused) = (sum(|cell| cell.sent), sum(RttCell::lost_on_the_way), sum(RttCell::refused));
    let share = rough_percent(lost as f64 / sent as f64);
    let lost = match lost {
        0 => words::none_lost(sent),
        1 => words::one_lost(sent, share),
        lost => words::lost(lost, sent, share),
    };
    if refused == 0 { lost } else { format!("{lost} {}", words::refused(refused)) }
}

/// What this end added by being late.
fn late(answer: &mut Answer, outcome: &Outcome<RttCell>, parameters: &Parameters, line: &CommandLine) {
    // What is late after a standstill is no sign of a CPU that is shared.
    let sent_late = |cell: &&RttCell| {
        cell.sent_late.saturating_sub(cell.packets_of_standstills()) as f64 >= IN_P99 * cell.sent as f64
    };
    let mut found = false;
    for cell in outcome.cells.iter().filter(|cell| cell.sent > 0).filter(sent_late) {
        let (late, sent) = (cell.sent_late, cell.sent);
        answer.limit(match (cell.rtt_scheduled_ns.p99, cell.rtt_ns.p99) {
            (due @ Some(_), actual @ Some(_)) => words::late_p99(&cell.peer, time(due), time(actual), late, sent),
            _ => words::late(&cell.peer, late, sent),
        });
        found = true;
    }
    // One thread serves all peers.
    if let Some((lost, longest)) = outcome.cells.first().and_then(|cell| cell.canary.lost())
        && lost > LOST_WORTH_A_CHANGE
        && !outcome.notes.iter().any(|note| note.id == "stalled")
    {
        let (share, longest) = (rough_percent(lost), time(Some(longest as f64)));
        let by_quota = outcome.notes.iter().any(|note| note.id == CPU_QUOTA);
        answer.limit(if by_quota { words::quota_took(share, longest) } else { words::other_work_took(share, longest) });
        found = true;
    }
    if found {
        answer.free_the_cpu(&outcome.notes, parameters.cpu, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;
    use crate::instrument::Note;
    use vtare_units::figures::Figures;

    fn figures(median: f64, p99: f64) -> Figures {
        Figures { median: Some(median), p99: Some(p99), ..Figures::default() }
    }

    fn cell(peer: &str, median: f64) -> RttCell {
        RttCell {
            peer: peer.to_owned(),
            sent: 1_000,
            received: 1_000,
            rtt_ns: figures(median, 2.0 * median),
            ..RttCell::default()
        }
    }

    fn shown(cells: Vec<RttCell>, notes: &[Note], line: &str) -> String {
        let outcome = Outcome { cells, notes: notes.to_vec(), interrupted: false };
        let parameters = Parameters { cpu: Some(1), ..Parameters::default() };
        of(&outcome, &parameters, &CommandLine::of(line)).render(Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_sentence_has_the_time_the_losses_and_where_the_time_goes() {
        let mut cell = cell("a", 50_000.0);
        let plain = "  A round trip to a takes 50.0 us in the median, and 1 in 100 takes 100 us or more. None of 1000 \
                     packets was lost.";
        let text = shown(vec![cell.clone()], &[], "vtare rtt a");
        assert_eq!(text, format!("{plain}\n\n"));
        (cell.rtt_kernel_ns, cell.turnaround_ns, cell.lost) = (figures(40_000.0, 1.0), figures(5_000.0, 1.0), 1);
        let text = shown(vec![cell], &[], "vtare rtt a");
        assert!(
            text.contains(
                "1 of 1000 packets was lost (0.1 %).\n  Where the time goes: 20 % in this program, 10 % at the far \
                 end, 70 % on the way.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn packets_that_the_far_end_refused_are_not_called_lost() {
        let mut cell = RttCell { lost: 4, ..cell("a", 50_000.0) };
        cell.lost_by.responder = Some(3);
        let text = shown(vec![cell], &[], "vtare rtt a");
        assert!(text.contains("1 of 1000 packets was lost (0.1 %). The far end did not answer 3 of them."), "{text}");
    }

    #[test]
    fn the_screen_has_the_answer_and_at_most_seven_lines_more() {
        let mut cell = cell("10.0.0.2", 45_200.0);
        cell.rtt_ns = Figures { min: Some(40_100.0), p999: Some(310_000.0), max: Some(1.2e6), ..cell.rtt_ns };
        (cell.rtt_kernel_ns, cell.turnaround_ns) = (figures(24_000.0, 1.0), figures(16_000.0, 1.0));
        (cell.forward_variation_ns, cell.reverse_variation_ns) = (figures(3_200.0, 1.0), figures(4_100.0, 1.0));
        (cell.achieved_packet_per_s, cell.pacing_error_ns) = (Some(999.8), figures(210.0, 1.0));
        let shape = Shape { colour: false, width: 80 };
        let screen = |cell: &RttCell| {
            let outcome = Outcome { cells: vec![cell.clone()], notes: Vec::new(), interrupted: false };
            let parameters = Parameters { cpu: Some(1), ..Parameters::default() };
            of(&outcome, &parameters, &CommandLine::of("vtare rtt 10.0.0.2 --cpu 1")).short(shape, 8, &[], &[])
        };
        let expected = "\
A round trip to 10.0.0.2 takes 45.2 us in the median, and 1 in 100 takes 90.4 us
  or more. None of 1000 packets was lost.
Where the time goes: 47 % in this program, 35 % at the far end, 18 % on the way.
Fastest 40.1 us, p99.9 310 us, slowest 1.20 ms.
The delay varies by 3.20 us on the way there and 4.10 us on the way back
  (median).
Sent 1000 packets a second, 210 ns off schedule (median).
All figures: add -v
";
        assert_eq!(screen(&cell), expected);
        (cell.sent_late, cell.rtt_scheduled_ns) = (300, figures(1.0, 6.5e6));
        let expected = "\
A round trip to 10.0.0.2 takes 45.2 us in the median, and 1 in 100 takes 90.4 us
  or more. None of 1000 packets was lost.
Where the time goes: 47 % in this program, 35 % at the far end, 18 % on the way.
Fastest 40.1 us, p99.9 310 us, slowest 1.20 ms.
10.0.0.2: p99 is 6.50 ms including the sender's own delay, 90.4 us from the
  actual send (300 of 1000 packets left more than 100 us late).
Try: vtare noise --cpu 1
All figures: add -v
";
        assert_eq!(screen(&cell), expected);
    }

    #[test]
    fn of_several_peers_the_nearest_and_the_farthest_are_named_and_the_silent_ones() {
        let silent = RttCell { received: 0, lost: 1_000, rtt_ns: Figures::default(), ..cell("c", 0.0) };
        let text = shown(vec![cell("a", 9e4), cell("b", 5e4), silent.clone()], &[], "vtare rtt a b c");
        assert!(
            text.starts_with("  Of 3 peers, b is nearest (50.0 us in the median) and a is farthest (90.0 us). 1000"),
            "{text}"
        );
        assert!(text.contains("  - c: no reply to 1000 packets.\n"), "{text}");
        let text = shown(vec![silent], &[], "vtare rtt c");
        assert!(text.starts_with("  Could not measure the round trip: no reply came to 1000 packets.\n"), "{text}");
    }

    #[test]
    fn a_late_sender_limits_the_answer() {
        let late = RttCell { sent_late: 10, rtt_scheduled_ns: figures(1.0, 3e6), ..cell("a", 5e4) };
        let text = shown(vec![late.clone()], &[], "vtare rtt a");
        assert!(
            text.contains(
                "a: p99 is 3.00 ms including the sender's own delay, 100 us from the actual send (10 of 1000"
            ),
            "{text}"
        );
        assert!(text.contains("      vtare noise --cpu 1\n"), "{text}");
        assert!(!shown(vec![RttCell { sent_late: 9, ..late }], &[], "vtare rtt a").contains("Limits"));
    }

    #[test]
    fn a_flood_and_a_rate_not_reached_get_the_rate_that_can_be_kept() {
        let slow = RttCell { achieved_packet_per_s: Some(90_000.0), ..cell("a", 5e4) };
        let text = shown(vec![slow.clone()], &[Note::new("closed_loop", "flood waits")], "vtare rtt a --flood");
        assert!(text.contains("  - flood waits\n") && text.contains("      vtare rtt a --rate 72000\n"), "{text}");
        let text = shown(vec![slow], &[Note::new("rate_not_reached", "too slow")], "vtare rtt a --rate 100000");
        assert!(text.contains("      vtare rtt a --rate 72000\n"), "{text}");
    }
}
