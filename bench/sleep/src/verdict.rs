//! The targets, judged by ratios within this run.

use vtare_clock::sleep::{Method, SleepOptions};
use vtare_units::Span;

use crate::cell::{Cell, Contender};
use crate::condition::Condition;

struct Judge<'c>(&'c [Cell]);

impl Judge<'_> {
    fn cell(&self, contender: Contender, condition: Condition, target: Span) -> Option<&Cell> {
        self.0.iter().find(|cell| cell.contender == contender && cell.condition == condition && cell.target == target)
    }

    /// Figure of one contender over that of another.
    fn ratio(
        &self,
        (a, b): (Contender, Contender),
        condition: Condition,
        target: Span,
        figure: impl Fn(&Cell) -> Option<f64>,
    ) -> Option<f64> {
        let (a, b) = (figure(self.cell(a, condition, target)?)?, figure(self.cell(b, condition, target)?)?);
        Some(a / b)
    }
}

fn say(text: &str, ratio: Option<f64>, most: f64) {
    say_why(text, ratio, most, None);
}

/// With the cause, where one was measured, of a target that is missed.
fn say_why(text: &str, ratio: Option<f64>, most: f64, cause: Option<&str>) {
    bench_figures::figure(text, ratio.unwrap_or(f64::NAN), "");
    match ratio {
        Some(ratio) if ratio <= most => println!("  reached  {text}: {ratio:.4}, at most {most:.4}"),
        Some(ratio) => {
            let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
            println!("  MISSED   {text}: {ratio:.4}, at most {most:.4}{cause}");
        }
        None => println!("  not judged  {text}: not measured, or too few sleeps"),
    }
}

pub fn print(cells: &[Cell]) {
    let judge = Judge(cells);
    let adaptive = Contender::Vtare(Method::Adaptive);
    let spin = Contender::Vtare(Method::Spin);
    let two_phase = Contender::Vtare(Method::TwoPhase);
    let median = |cell: &Cell| cell.quantile(0.5);
    let targets = crate::TARGETS;
    println!("\ntargets, as ratios within this run");
    for target in targets {
        say(
            &format!("idle, {target}: median miss, adaptive / pure spin"),
            judge.ratio((adaptive, spin), Condition::Idle, target, median),
            1.5,
        );
    }
    let (ms_1, ms_10) = (Span::from_millis(1), Span::from_millis(10));
    say(
        "idle, 10 ms: CPU time, adaptive / two-phase",
        judge.ratio((adaptive, two_phase), Condition::Idle, ms_10, Cell::cpu_share),
        1.0 / 20.0,
    );
    say(
        "idle, 1 ms: CPU time, adaptive / two-phase",
        judge.ratio((adaptive, two_phase), Condition::Idle, ms_1, Cell::cpu_share),
        1.0 / 10.0,
    );
    for target in targets {
        equal_cpu(&judge, target);
    }
    for target in [ms_1, ms_10] {
        cheap(&judge, target);
    }
    // Medians of the sleeps that two-phase completed would leave out the others.
    for (limit, most) in [(Span::from_micros(1), 0.75), (Span::from_micros(100), 1.0)] {
        let late = |cell: &Cell| cell.late(limit);
        for other in [two_phase, Contender::Kernel, Contender::Vtare(Method::Usleep)] {
            let text = format!("busy threads, 10 ms: sleeps asked for {limit} late, adaptive / {}", other.name());
            say(&text, judge.ratio((adaptive, other), Condition::Cpu, ms_10, late), most);
        }
    }
    for condition in Condition::ALL {
        for target in targets {
            let Some(cell) = judge.cell(Contender::Fifo, condition, target) else { continue };
            if cell.refused() {
                println!(
                    "  not judged  {condition:?}, {target}: FIFO is not allowed here (raise RLIMIT_RTPRIO or run as \
                     root)"
                );
            } else {
                say(
                    &format!("{condition:?}, {target}: p99 with FIFO / 30 us"),
                    cell.quantile(0.99).map(|p99| p99 / 30_000.0),
                    1.0,
                );
            }
        }
    }
}

/// The cheap method: what it takes of the CPU time that it was given, and how much nearer it is than usleep.
fn cheap(judge: &Judge<'_>, target: Span) {
    let cheap = Contender::Vtare(Method::Cheap);
    let given = SleepOptions::default().cpu_share;
    for condition in Condition::ALL {
        let share = judge.cell(cheap, condition, target).and_then(Cell::cpu_share);
        let kernels = judge.cell(Contender::Vtare(Method::ClockNanosleep), condition, target).and_then(Cell::cpu_share);
        // What the kernel's own sleep costs cannot be saved.
        let cause = kernels
            .filter(|kernels| *kernels > given)
            .map(|kernels| format!("the kernel's own sleep (clock_nanosleep) alone takes {:.2} %", kernels * 100.0));
        let text = format!("{condition:?}, {target}: CPU time of cheap / the {:.0} % given", given * 100.0);
        say_why(&text, share.map(|share| share / given), 1.1, cause.as_deref());
        let usleep = Contender::Vtare(Method::Usleep);
        let nearer = judge.ratio((cheap, usleep), condition, target, |cell| cell.quantile(0.5));
        let text = format!("{condition:?}, {target}: median miss, cheap / usleep");
        say_why(&text, nearer, 0.1, cause.as_deref());
    }
}

/// The best p99 among the adaptive cells that cost no more than the peer, over the peer's.
fn equal_cpu(judge: &Judge<'_>, target: Span) {
    let Some(peer) = judge.cell(Contender::SpinSleep, Condition::Idle, target) else { return };
    let (Some(most), Some(peer_p99)) = (peer.cpu_share(), peer.quantile(0.99)) else { return };
    let best = judge
        .0
        .iter()
        .filter(|cell| cell.condition == Condition::Idle && cell.target == target)
        .filter(|cell| matches!(cell.contender, Contender::Priced(_) | Contender::Vtare(Method::Adaptive)))
        .filter(|cell| cell.cpu_share().is_some_and(|share| share <= most * 1.02))
        .filter_map(|cell| cell.quantile(0.99).map(|p99| (p99, cell)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((p99, cell)) => {
            let text = format!(
                "idle, {target}: p99 at no more CPU than spin_sleep ({}: {:.2} % against {:.2} %)",
                cell.contender.name(),
                cell.cpu_share().unwrap_or(f64::NAN) * 100.0,
                most * 100.0
            );
            say(&text, Some(p99 / peer_p99), 1.0);
        }
        None => println!(
            "  MISSED   idle, {target}: no adaptive cell costs as little as spin_sleep ({:.2} %)",
            most * 100.0
        ),
    }
}
