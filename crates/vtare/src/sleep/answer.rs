//! What the figures of sleeps answer: which method wakes closest, which costs least, and what spoilt them.

use super::cell::SleepCell;
use super::parameters::Parameters;
use crate::answer::{Answer, CommandLine, IN_P99};
use crate::instrument::Outcome;
use crate::sentences::sleep as words;
use crate::table::{percent, rough_percent, time};
use vtare_clock::sleep::Method;

/// A method over all targets, at its worst.
#[derive(Clone, Copy, Debug)]
struct Worst {
    method: Method,
    /// The median miss over all sleeps asked for; infinite where half of them were not made.
    off_ns: f64,
    cpu_fraction: Option<f64>,
    /// Of the sleeps asked for, the share that was late; the least share that was made.
    exceed_fraction: f64,
    made_fraction: f64,
}

impl Worst {
    /// Of a method that slept at all.
    fn of(cells: &[SleepCell], method: Method) -> Option<Self> {
        let own = || cells.iter().filter(|cell| cell.method == Some(method));
        let slept = || own().filter(|cell| cell.miss_ns.n > 0);
        let off_ns = slept().map(|cell| cell.asked_median_ns.map_or(f64::INFINITY, f64::abs)).max_by(f64::total_cmp)?;
        let cpu_fraction = own().filter_map(|cell| cell.cpu_fraction).max_by(f64::total_cmp);
        let most = |share: fn(&SleepCell) -> Option<f64>| own().filter_map(share).max_by(f64::total_cmp).unwrap_or(0.0);
        let exceed_fraction = most(|cell| cell.exceed_fraction);
        let made_fraction = slept().map(SleepCell::made_fraction).min_by(f64::total_cmp).unwrap_or(1.0);
        Some(Self { method, off_ns, cpu_fraction, exceed_fraction, made_fraction })
    }

    /// Its error in the median, its price, and how often it was late, where that was often.
    fn figures(self) -> String {
        let off = match self.off_ns {
            off if off.is_finite() => words::off_by(time(Some(off))),
            _ => words::too_late(),
        };
        let cpu = self.cpu_fraction.map(|share| words::of_a_cpu(percent(Some(share))));
        let late = (self.exceed_fraction >= IN_P99).then(|| words::over_100_us(rough_percent(self.exceed_fraction)));
        [Some(off), cpu, late].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The answer of a run.
pub(super) fn of(outcome: &Outcome<SleepCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
    let (cells, notes) = (&outcome.cells, &outcome.notes);
    let targets = || cells.iter().filter(|cell| cell.miss_ns.n > 0).map(|cell| cell.target_ns);
    let methods: Vec<Worst> = Method::ALL.iter().filter_map(|method| Worst::of(cells, *method)).collect();
    let closest = methods.iter().copied().min_by(|a, b| a.off_ns.total_cmp(&b.off_ns));
    let (Some(closest), Some(least), Some(most)) = (closest, targets().min(), targets().max()) else {
        return Answer::none(words::none());
    };
    let span = if least == most {
        time(Some(least as f64))
    } else {
        words::span(time(Some(least as f64)), time(Some(most as f64)))
    };
    let cheapest = methods.iter().copied().filter(|worst| worst.cpu_fraction.is_some());
    let cheapest = cheapest.min_by(|a, b| a.cpu_fraction.unwrap_or(1.0).total_cmp(&b.cpu_fraction.unwrap_or(1.0)));
    let cheapest = cheapest.filter(|other| other.method != closest.method);
    let sentence = match cheapest {
        _ if methods.len() == 1 => words::only_method(span, closest.method, closest.figures()),
        Some(other) => words::most_precise_and_cheapest(span, closest.method, other.method),
        None => words::most_precise(span, closest.method),
    };
    let mut answer = Answer::new(sentence);
    let mut ranked = methods.clone();
    ranked.sort_by(|a, b| a.off_ns.total_cmp(&b.off_ns));
    for worst in ranked.iter().filter(|_| methods.len() > 1) {
        answer.figure(words::method(worst.method, worst.figures()));
    }
    crowded(&mut answer, cells, &methods, parameters, line);
    disturbed(&mut answer, outcome, parameters, line);
    answer.limited_by(notes, "stalled");
    if answer.limited_by(notes, "fifo_refused") {
        without_priority(&mut answer, vtare_sys::confine::is_root(), line);
    }
    if answer.limited_by(notes, "time_capped") {
        let longest_s = most as f64 / 1e9 * parameters.samples as f64;
        let seconds = (1.2 * longest_s).ceil().max(parameters.seconds.unwrap_or_default() + 1.0);
        answer.change(words::more_time(), line.with("--seconds", seconds));
    }
    let slack_ns = vtare_sys::sched::timer_slack().map_or(0.0, |slack| slack.as_nanos() as f64);
    let late = methods
        .iter()
        .any(|worst| matches!(worst.method, Method::Usleep | Method::ClockNanosleep) && worst.off_ns > slack_ns / 2.0);
    if late && slack_ns > 1_000.0 && parameters.slack_ns.is_none() && answer.covers(notes, "slack_kept") {
        answer.change(words::less_slack(time(Some(slack_ns))), line.with("--slack", "1ns"));
    }
    answer
}

/// Methods that were too late to make their sleeps, and what gives the sleeping threads their turn.
fn crowded(answer: &mut Answer, cells: &[SleepCell], methods: &[Worst], parameters: &Parameters, line: &CommandLine) {
    let mut short: Vec<&Worst> = methods.iter().filter(|worst| worst.made_fraction < 0.9).collect();
    short.sort_by(|a, b| a.made_fraction.total_cmp(&b.made_fraction));
    let shares = short.iter().map(|worst| format!("{} {}", worst.method, percent(Some(worst.made_fraction))));
    if !short.is_empty() {
        answer.limit(words::skipped(shares.collect::<Vec<_>>().join(", ")));
    }
    if parameters.fifo.is_some() || !cells.iter().any(SleepCell::is_crowded) {
        return;
    }
    if shares_between_sessions() {
        answer.change(words::time_of_its_own(), format!("setsid -w {line}"));
    }
    answer.change(words::real_time(), line.with("--fifo", 10));
}

/// The way to a real-time priority that was refused.
fn without_priority(answer: &mut Answer, is_root: bool, line: &CommandLine) {
    if is_root {
        answer.change(words::leave_group(), "echo $$ > /sys/fs/cgroup/cpu/cgroup.procs");
    } else {
        answer.change(words::needs_root(), line.as_root());
    }
}

/// Whether the kernel shares CPUs between sessions first (autogroups), and this process is in no group of its own that
/// comes before.
fn shares_between_sessions() -> bool {
    let text = |place: &str| vtare_sys::kernel_file::text(place).unwrap_or_default();
    let weighted = |path: &str| std::path::Path::new(&format!("/sys/fs/cgroup{path}/cpu.weight")).exists();
    text("/proc/sys/kernel/sched_autogroup_enabled").trim() == "1"
        && !in_cpu_group(&text("/proc/self/cgroup"), weighted)
}

/// Whether a process with these lines of `/proc/PID/cgroup` is in a control group with CPU time of its own: one of the
/// controller `cpu` (version 1), or one that has a weight (version 2).
fn in_cpu_group(cgroups: &str, weighted: impl Fn(&str) -> bool) -> bool {
    cgroups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).any(|(controllers, path)| {
        path != "/" && (controllers.split(',').any(|one| one == "cpu") || controllers.is_empty() && weighted(path))
    })
}

/// Cells whose tails are the machine's and not the method's.
fn disturbed(answer: &mut Answer, outcome: &Outcome<SleepCell>, parameters: &Parameters, line: &CommandLine) {
    let share = |cell: &SleepCell| cell.disturbed as f64 / cell.miss_ns.n.max(1) as f64;
    let hit = outcome.cells.iter().filter(|cell| share(cell) >= IN_P99).count();
    if hit == 0 {
        return;
    }
    answer.limit(words::disturbed(hit, outcome.cells.len()));
    answer.free_the_cpu(&outcome.notes, parameters.cpu, line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::Note;
    use vtare_units::figures::Figures;

    fn cell(method: Method, target_ns: u64, median: f64, cpu: f64) -> SleepCell {
        let miss_ns = Figures { n: 1_000, median: Some(median), ..Figures::default() };
        let (asked, asked_median_ns) = (1_000, Some(median));
        let cpu_fraction = Some(cpu);
        SleepCell {
            method: Some(method),
            target_ns,
            miss_ns,
            asked,
            asked_median_ns,
            cpu_fraction,
            ..SleepCell::default()
        }
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
        let text = "  For sleeps of 1.00 us to 10.0 ms, adaptive is the most precise and usleep the cheapest.\n  \
                    adaptive: off by at most 50.0 ns (median), 99.9 % of a CPU\n  usleep: off by at most \
                    70.0 us (median), 5.00 % of a CPU\n\n";
        assert_eq!(shown(cells.clone(), &[]), text);
        let alone = shown(cells[..1].to_vec(), &[]);
        assert_eq!(alone, "  For sleeps of 1.00 us, usleep: off by at most 60.0 us (median), 5.00 % of a CPU.\n\n");
    }

    #[test]
    fn the_screen_has_the_answer_and_a_line_for_each_method() {
        let cells = vec![
            cell(Method::Usleep, 1_000, 69_000.0, 0.05),
            cell(Method::ClockNanosleep, 1_000, 68_000.0, 0.05),
            cell(Method::TwoPhase, 1_000, 91.0, 0.994),
            cell(Method::Adaptive, 1_000, 1_550.0, 0.827),
            cell(Method::Spin, 1_000, 90.0, 0.999),
        ];
        let screen = |cells: &[SleepCell], width| {
            let outcome = Outcome { cells: cells.to_vec(), notes: Vec::new(), interrupted: false };
            let parameters = Parameters { slack_ns: Some(1), cpu: Some(1), ..Parameters::default() };
            let answer = of(&outcome, &parameters, &CommandLine::of("vtare sleep"));
            answer.short(crate::answer::Shape { colour: false, width }, 10, &[], &[])
        };
        let expected = "\
For sleeps of 1.00 us, spin is the most precise and usleep the cheapest.
spin: off by at most 90.0 ns (median), 99.9 % of a CPU
two_phase: off by at most 91.0 ns (median), 99.4 % of a CPU
adaptive: off by at most 1.55 us (median), 82.7 % of a CPU
clock_nanosleep: off by at most 68.0 us (median), 5.00 % of a CPU
usleep: off by at most 69.0 us (median), 5.00 % of a CPU
All figures: add -v
";
        assert_eq!(screen(&cells, 80), expected);
        let mut hit = cells;
        hit[0].disturbed = 10;
        let text = screen(&hit, 80);
        assert!(text.lines().count() <= 10 && text.contains("Try: vtare noise --cpu 1\n"), "{text}");
    }

    #[test]
    fn a_method_that_made_few_of_its_sleeps_is_not_the_most_exact_and_the_way_to_a_turn_is_named() {
        let adaptive = SleepCell { exceed_fraction: Some(0.34), ..cell(Method::Adaptive, 10_000_000, 99.0, 0.0057) };
        let two_phase = SleepCell {
            asked: 11_000,
            asked_median_ns: None,
            exceed_fraction: Some(0.91),
            ..cell(Method::TwoPhase, 10_000_000, 89.0, 0.3)
        };
        let text = shown(vec![two_phase, adaptive], &[]);
        let sentence = "  For sleeps of 10.0 ms, adaptive is the most precise.\n  adaptive: off by at most 99.0 ns \
                        (median), 0.57 % of a CPU, 34 % over 100 us\n  two_phase: too late for half of its \
                        sleeps, 30.0 % of a CPU, 91 % over 100 us\n";
        assert!(text.starts_with(sentence), "{text}");
        assert!(text.contains("Completed: two_phase 9.09 %."), "{text}");
        assert!(text.contains("      vtare sleep --fifo 10\n"), "{text}");
        // The kernel's own sleep may be that late on a quiet machine.
        let usleep = SleepCell { exceed_fraction: Some(0.84), ..cell(Method::Usleep, 10_000_000, 114_000.0, 0.01) };
        assert!(!shown(vec![usleep], &[]).contains("--fifo"));
    }

    #[test]
    fn the_way_to_a_priority_is_another_for_root() {
        let text = |is_root| {
            let mut answer = Answer::new("x");
            without_priority(&mut answer, is_root, &CommandLine::of("vtare sleep --fifo 9"));
            answer.render(crate::answer::Shape { colour: false, width: 1_000 })
        };
        assert!(text(false).contains("      sudo vtare sleep --fifo 9\n"), "{}", text(false));
        assert!(text(true).contains("cpu.rt_runtime_us") && !text(true).contains("sudo"), "{}", text(true));
    }

    #[test]
    fn a_session_is_of_no_use_to_a_process_whose_control_group_has_its_own_share() {
        let v1 = |path: &str| format!("8:pids:/\n2:cpuacct:/x\n1:cpu:{path}\n0::/x\n");
        assert!(in_cpu_group(&v1("/helpers"), |_| false));
        assert!(!in_cpu_group(&v1("/"), |_| false));
        assert!(in_cpu_group("3:cpu,cpuacct:/user\n", |_| false));
        assert!(in_cpu_group("0::/user.slice/a:b\n", |path| path == "/user.slice/a:b"));
        assert!(!in_cpu_group("0::/user.slice\n", |_| false) && !in_cpu_group("", |_| true));
    }

    #[test]
    fn without_a_sleep_there_is_no_answer() {
        assert!(shown(vec![SleepCell::default()], &[]).starts_with("  No sleep ended"));
    }

    #[test]
    fn what_spoilt_the_tails_is_a_limit_with_the_command_that_shows_it() {
        let mut hit = cell(Method::Usleep, 1_000, 60_000.0, 0.05);
        hit.disturbed = 10;
        let text = shown(vec![hit.clone()], &[Note::new("fifo_refused", "priority 5 refused")]);
        assert!(text.contains("In 1 of 1 rows") && text.contains("      vtare noise --cpu 1\n"), "{text}");
        assert!(text.contains("  - priority 5 refused\n"), "{text}");
        hit.disturbed = 9;
        assert!(!shown(vec![hit], &[]).contains("Limits"));
    }

    #[test]
    fn sleeps_that_did_not_fit_into_the_time_get_the_time_they_take() {
        let text = shown(vec![cell(Method::Usleep, 10_000_000, 60_000.0, 0.05)], &[Note::new("time_capped", "2 s")]);
        assert!(text.contains("      vtare sleep --seconds 12\n"), "{text}");
    }
}
