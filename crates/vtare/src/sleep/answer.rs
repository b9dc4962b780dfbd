//! What the figures of sleeps answer: which method wakes closest, which costs least, and what spoilt them.

use super::cell::SleepCell;
use super::parameters::Parameters;
use crate::answer::{Answer, CommandLine, IN_P99, spare_cpu};
use crate::instrument::Outcome;
use crate::table::{percent, time};
use vtare_clock::sleep::Method;

/// A method over all targets, at its worst.
#[derive(Clone, Copy, Debug)]
struct Worst {
    method: Method,
    off_ns: f64,
    cpu_fraction: Option<f64>,
}

impl Worst {
    /// Of a method that slept at all.
    fn of(cells: &[SleepCell], method: Method) -> Option<Self> {
        let own = || cells.iter().filter(|cell| cell.method == Some(method));
        let off_ns = own().filter_map(|cell| cell.miss_ns.median.map(f64::abs)).max_by(f64::total_cmp)?;
        let cpu_fraction = own().filter_map(|cell| cell.cpu_fraction).max_by(f64::total_cmp);
        Some(Self { method, off_ns, cpu_fraction })
    }

    fn price(self) -> String {
        self.cpu_fraction.map_or_else(String::new, |share| format!(" and uses up to {} of a CPU", percent(Some(share))))
    }
}

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<SleepCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let (cells, notes) = (&outcome.cells, &outcome.notes);
    let targets = || cells.iter().filter(|cell| cell.miss_ns.n > 0).map(|cell| cell.target_ns);
    let methods: Vec<Worst> = Method::ALL.iter().filter_map(|method| Worst::of(cells, *method)).collect();
    let closest = methods.iter().copied().min_by(|a, b| a.off_ns.total_cmp(&b.off_ns));
    let (Some(closest), Some(least), Some(most)) = (closest, targets().min(), targets().max()) else {
        return Answer::none("Not one sleep ended, so nothing is known of them.");
    };
    let span = if least == most {
        time(Some(least as f64))
    } else {
        format!("{} to {}", time(Some(least as f64)), time(Some(most as f64)))
    };
    let clause = |worst: Worst| {
        let Worst { method, off_ns, .. } = worst;
        format!("{method} wakes up to {} off in the median{}", time(Some(off_ns)), worst.price())
    };
    let cheapest = methods.iter().copied().filter(|worst| worst.cpu_fraction.is_some());
    let cheapest = cheapest.min_by(|a, b| a.cpu_fraction.unwrap_or(1.0).total_cmp(&b.cpu_fraction.unwrap_or(1.0)));
    let mut sentence = if methods.len() == 1 {
        format!("In sleeps of {span} {}", clause(closest))
    } else {
        format!(
            "In sleeps of {span} {} is most exact: it wakes up to {} off in the median{}",
            closest.method,
            time(Some(closest.off_ns)),
            closest.price()
        )
    };
    if let Some(other) = cheapest.filter(|other| other.method != closest.method) {
        sentence.push_str(&format!("; {} is cheapest: up to {} off", other.method, time(Some(other.off_ns))));
        sentence.push_str(&other.price());
    }
    let mut answer = Answer::new(sentence + ".");
    disturbed(&mut answer, outcome, parameters, line);
    if answer.limited_by(notes, "fifo_refused") {
        answer.change("Real-time priority needs root, or RLIMIT_RTPRIO.", line.as_root());
    }
    if answer.limited_by(notes, "time_capped") {
        let longest_s = most as f64 / 1e9 * parameters.samples as f64;
        let seconds = (1.2 * longest_s).ceil().max(parameters.seconds.unwrap_or_default() + 1.0);
        answer.change("Give each cell the time that its sleeps take.", line.with("--seconds", seconds));
    }
    let slack_ns = vtare_sys::sched::timer_slack().map_or(0.0, |slack| slack.as_nanos() as f64);
    let late = methods
        .iter()
        .any(|worst| matches!(worst.method, Method::Usleep | Method::ClockNanosleep) && worst.off_ns > slack_ns / 2.0);
    if late && slack_ns > 1_000.0 && parameters.slack_ns.is_none() && answer.covers(notes, "slack_kept") {
        let text = format!(
            "The kernel may end usleep and clock_nanosleep {} late to save wake-ups (timer slack): see how they wake \
             without it.",
            time(Some(slack_ns))
        );
        answer.change(text, line.with("--slack", "1ns"));
    }
    answer
}

/// Cells whose tails are the machine's and not the method's.
fn disturbed(answer: &mut Answer, outcome: &Outcome<SleepCell>, parameters: &Parameters, line: &CommandLine) {
    let share = |cell: &SleepCell| cell.disturbed as f64 / cell.miss_ns.n.max(1) as f64;
    let hit = outcome.cells.iter().filter(|cell| share(cell) >= IN_P99).count();
    if hit == 0 {
        return;
    }
    answer.limit(format!(
        "In {hit} of {} rows something took the CPU from 1 sleep in 100 or more (disturbed): their p99 and max are the \
         machine's, not the method's.",
        outcome.cells.len()
    ));
    match (parameters.cpu, spare_cpu()) {
        (None, Some(cpu)) => {
            answer.covers(&outcome.notes, "not_pinned");
            answer.change("Keep the sleeping threads on one CPU.", line.with("--cpu", cpu));
        }
        (Some(cpu), _) => answer.change("See what takes that CPU.", format!("vtare noise --cpu {cpu}")),
        (None, None) => answer.change("See what takes the CPU.", "vtare noise"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::Note;
    use vtare_units::figures::Figures;

    fn cell(method: Method, target_ns: u64, median: f64, cpu: f64) -> SleepCell {
        let miss_ns = Figures { n: 1_000, median: Some(median), ..Figures::default() };
        SleepCell { method: Some(method), target_ns, miss_ns, cpu_fraction: Some(cpu), ..SleepCell::default() }
    }

    fn shown(cells: Vec<SleepCell>, notes: &[Note]) -> String {
        let outcome = Outcome { cells, notes: notes.to_vec(), interrupted: false };
        let parameters = Parameters { slack_ns: Some(1), cpu: Some(1), ..Parameters::default() };
        let answer = of(&outcome, &parameters, &CommandLine::of("vtare sleep"));
        answer.render(crate::answer::Shape { colour: false, width: 1_000 })
    }

    #[test]
    fn the_most_exact_and_the_cheapest_method_are_named_at_their_worst() {
        let cells = vec![
            cell(Method::Usleep, 1_000, 60_000.0, 0.05),
            cell(Method::Usleep, 10_000_000, 70_000.0, 0.002),
            cell(Method::Adaptive, 1_000, 44.0, 0.999),
            cell(Method::Adaptive, 10_000_000, -50.0, 0.01),
        ];
        let sentence = "  In sleeps of 1.00 us to 10.0 ms adaptive is most exact: it wakes up to 50.0 ns off in the \
                        median and uses up to 99.9 % of a CPU; usleep is cheapest: up to 70.0 us off and uses up to \
                        5.00 % of a CPU.";
        assert_eq!(shown(cells.clone(), &[]), format!("{sentence}\n\n"));
        let alone = shown(cells[..1].to_vec(), &[]);
        assert_eq!(
            alone,
            "  In sleeps of 1.00 us usleep wakes up to 60.0 us off in the median and uses up to 5.00 % of a CPU.\n\n"
        );
    }

    #[test]
    fn without_a_sleep_there_is_no_answer() {
        assert!(shown(vec![SleepCell::default()], &[]).starts_with("  Not one sleep ended"));
    }

    #[test]
    fn what_spoilt_the_tails_is_a_limit_with_the_command_that_shows_it() {
        let mut hit = cell(Method::Usleep, 1_000, 60_000.0, 0.05);
        hit.disturbed = 10;
        let text = shown(vec![hit.clone()], &[Note::new("fifo_refused", "priority 5 refused")]);
        assert!(text.contains("In 1 of 1 rows") && text.contains("      vtare noise --cpu 1\n"), "{text}");
        assert!(text.contains("  - priority 5 refused\n") && text.contains("      sudo vtare sleep\n"), "{text}");
        hit.disturbed = 9;
        assert!(!shown(vec![hit], &[]).contains("Limits"));
    }

    #[test]
    fn sleeps_that_did_not_fit_into_the_time_get_the_time_they_take() {
        let text = shown(vec![cell(Method::Usleep, 10_000_000, 60_000.0, 0.05)], &[Note::new("time_capped", "2 s")]);
        assert!(text.contains("      vtare sleep --seconds 12\n"), "{text}");
    }
}
