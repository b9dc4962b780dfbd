//! `vtare noise`: time that a busy thread loses to other work (docs/methods/noise.md).
//!
//! A thread pinned to one CPU reads the counter without pause. Whenever two readings lie further apart than the
//! threshold, something else ran in between: an interrupt, another thread, or the hypervisor. As sysjitter and the
//! kernel's osnoise tracer do it, here without root and inside any guest.

mod answer;
mod causes;
mod cell;
mod decades;
mod spin;

use serde::{Deserialize, Serialize};
use vtare_sys::proc::{Difference, Snapshot};
use vtare_sys::{clocks, counter, sched};
use vtare_units::{Monotonic, Span};

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Instrument, Note, Outcome, Session, check_cpu};
use crate::parameters;
use crate::quantities::{nanoseconds, positive};
use crate::samples::{Column, Row as _};
use crate::sentences::noise as words;
use crate::standstill::{self, Accounts, Outage};
use crate::table::{Table, percent, spread, time};
use vtare_clock::Clock;

pub(crate) use causes::Causes;
pub(crate) use cell::NoiseCell;
use decades::{decades, picture};
pub(crate) use spin::Spin;

/// Room for gaps of one CPU: 64 MiB. At the default threshold it cannot fill in less than 40 s.
const MOST_GAPS: usize = 1 << 22;

/// Parameters of the noise instrument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NoiseParameters {
    /// Seconds on each CPU.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 86_400))]
    pub(crate) seconds: f64,

    /// The least difference that counts as a gap; below 100 ns the loop's own reads would be gaps.
    #[arg(long = "threshold", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 100, max = 1_000_000_000))]
    pub(crate) threshold_ns: u64,

    /// CPUs to measure, one after another; without it, all that this process may use.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub(crate) cpu: Option<Vec<usize>>,
}

impl parameters::Parameters for NoiseParameters {}

impl Default for NoiseParameters {
    fn default() -> Self {
        Self { seconds: 10.0, threshold_ns: 10_000, cpu: None }
    }
}

/// The instrument.
pub(crate) struct Noise;

/// One gap.
struct NoiseRow {
    cpu: usize,
    at_ns: i64,
    gap_ns: i64,
}

columns!(row: NoiseRow {
    int64 "cpu" = row.cpu as i64, "CPU that the thread spun on";
    int64 "at_ns" = row.at_ns, "when the gap began, in ns since the start on that CPU";
    int64 "gap_ns" = row.gap_ns, "how long the thread did not run, in ns";
});

impl Instrument for Noise {
    const NAME: &'static str = "noise";
    const MAIN: &'static str = "gap";
    const COLUMNS: &'static [Column] = NoiseRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["cpu"];
    type Parameters = NoiseParameters;
    type Cell = NoiseCell;

    fn resolve(parameters: Self::Parameters, _context: &Context) -> Result<Self::Parameters, Failure> {
        parameters::check_bounds(&parameters)?;
        let NoiseParameters { seconds, threshold_ns, cpu } = parameters;
        let cpus = match cpu {
            Some(cpus) if cpus.is_empty() => {
                return Err(Failure::value("cpu", "an empty list", "CPUs, or null for all"));
            }
            Some(cpus) => cpus,
            None => sched::allowed_cpus()?,
        };
        for (at, cpu) in cpus.iter().enumerate() {
            check_cpu(Some(*cpu))?;
            if cpus[..at].contains(cpu) {
                return Err(Failure::Input(format!("cpu has {cpu} twice: use each CPU once")));
            }
        }
        Ok(NoiseParameters { seconds, threshold_ns, cpu: Some(cpus) })
    }

    fn measure(parameters: &Self::Parameters, session: &mut Session<'_>) -> Result<Outcome<Self::Cell>, Failure> {
        let cpus = parameters.cpu.as_deref().unwrap_or_default();
        let limit = Span::try_from_secs_f64(parameters.seconds).unwrap_or(Span::MAX);
        let threshold = Span::from_unsigned_nanos(parameters.threshold_ns);
        let progress = session.context.progress("noise", cpus.len() as u64 * limit.as_nanos_unsigned());
        let (mut cells, mut notes, mut interrupted) = (Vec::new(), Vec::new(), false);
        for (index, cpu) in cpus.iter().enumerate() {
            progress.label(&format!("noise on CPU {cpu}"));
            let passed = index as u64 * limit.as_nanos_unsigned();
            let seen = observe(*cpu, limit, threshold, session.context, |elapsed| {
                progress.set(passed + elapsed.as_nanos_unsigned());
            })?;
            let seen = seen.without_outages();
            for &(at_ns, gap_ns) in &seen.spin.gaps {
                session.samples.row(&NoiseRow { cpu: *cpu, at_ns, gap_ns })?;
            }
            let cell = cell(&seen);
            notes.extend(remarks(&cell, &seen.spin));
            interrupted |= seen.spin.stopped;
            cells.push(cell);
            if interrupted {
                break;
            }
        }
        Ok(Outcome { cells, notes, interrupted })
    }

    fn answer(outcome: &Outcome<NoiseCell>, _parameters: &NoiseParameters, _line: &CommandLine) -> Answer {
        answer::of(outcome)
    }

    fn table(cells: &[Self::Cell]) -> Table {
        let heading = ["CPU", "gaps", "per s", "time lost", "median", "half IQR", "p99", "max", "most taken by"];
        let mut table = Table::new(&heading, 1);
        for cell in cells {
            table.row(vec![
                cell.cpu.to_string(),
                cell.gaps.to_string(),
                cell.gaps_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
                percent(cell.lost_fraction),
                time(cell.gap_ns.median),
                spread(cell.gap_ns.half_iqr),
                time(cell.gap_ns.p99),
                time(cell.gap_ns.max),
                cell.causes.dominant_cause.as_deref().unwrap_or("-").replace('_', " "),
            ]);
        }
        table
    }

    fn details(cells: &[Self::Cell]) -> String {
        let mut text = String::new();
        for cell in cells.iter().filter(|cell| !cell.decades.is_empty()) {
            text.push_str(&format!("\ngaps on CPU {} by length: number, time taken, number drawn (log)\n", cell.cpu));
            text.push_str(&picture(&cell.decades));
        }
        text
    }
}

/// One CPU under watch: what the spinning thread saw (in ns), and what the kernel counted meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) cpu: usize,
    pub(crate) spin: Spin,
    pub(crate) gained: Difference,
    /// How long the machine was suspended.
    pub(crate) suspended: Span,
    /// What was taken out of the gaps.
    pub(crate) outages: Vec<Outage>,
}

impl Observed {
    /// The same with the gaps that are outages of this process listed apart.
    pub(crate) fn without_outages(mut self) -> Self {
        let is_long = |gap: i64| gap >= standstill::LEAST.as_nanos();
        let lengths = || self.spin.gaps.iter().map(|(_, gap)| *gap);
        let others = lengths().filter(|gap| !is_long(*gap)).max().unwrap_or(0);
        let out = lengths().filter(|gap| standstill::stands_out(*gap, others)).sum::<i64>();
        let rest = Span::from_nanos(lengths().sum::<i64>() - out);
        let elapsed = Span::from_nanos(self.spin.elapsed);
        let mut accounts = Accounts::of_spinning(self.cpu, &self.gained, elapsed, self.suspended);
        // The kernel's accounts are of the whole time: waits for a CPU are the other gaps first, and what they explain
        // beyond those is taken off all of these gaps together.
        accounts.waited = accounts.waited.map(|waited| (waited - rest).max(Span::ZERO));
        let Some(cause) = (out > 0).then(|| accounts.cause(Span::from_nanos(out))).flatten() else { return self };
        let (apart, gaps): (Vec<_>, Vec<_>) =
            self.spin.gaps.into_iter().partition(|(_, gap)| standstill::stands_out(*gap, others));
        self.outages.extend(apart.iter().map(|(at, gap)| Outage::new(*at, *gap, cause)));
        self.spin.gaps = gaps;
        self.spin.elapsed -= out;
        self
    }
}

/// Spins on `cpu` for `limit` in a thread of its own, so that the caller keeps its CPUs. `on_progress` gets the time
/// passed.
///
/// # Errors
/// Where the thread cannot be pinned.
pub(crate) fn observe(
    cpu: usize,
    limit: Span,
    threshold: Span,
    context: &Context,
    on_progress: impl Fn(Span),
) -> Result<Observed, Failure> {
    let clock = context.clock();
    let stop = context.stop_flag();
    // Gaps cannot be more than the thresholds that fit into the time.
    let most = limit.as_nanos_unsigned() / threshold.as_nanos_unsigned().max(1) + 2;
    let room = usize::try_from(most).unwrap_or(MOST_GAPS).min(MOST_GAPS);
    std::thread::scope(|scope| {
        let spinning = scope.spawn(|| {
            sched::pin_to(&[cpu])?;
            let gaps = spin::touched_room(room);
            let (before, suspended) = (Snapshot::take(), clocks::suspended());
            let spin = spin_on_clock(clock, limit, threshold, &stop, gaps);
            let gained = Snapshot::take().since(&before);
            Ok(Observed { cpu, spin, gained, suspended: clocks::suspended() - suspended, outages: Vec::new() })
        });
        let start = clocks::now::<Monotonic>();
        while !spinning.is_finished() {
            // Four short wake-ups a second, and one at the end: on a machine of one CPU each is a gap of our own
            // making.
            let now = clocks::now::<Monotonic>();
            let end = (start + limit).max(now) + Span::from_millis(2);
            clocks::sleep_until(end.min(now + Span::from_millis(250)))?;
            on_progress(clocks::now::<Monotonic>() - start);
        }
        spinning
            .join()
            .map_err(|_| Failure::Machine(format!("the thread that spun on CPU {cpu} ended without a result")))?
    })
}

/// Spins on the CPU's counter where the clock trusts it, else on the kernel's clock; times in ns.
fn spin_on_clock(
    clock: &Clock,
    limit: Span,
    threshold: Span,
    stop: &std::sync::atomic::AtomicBool,
    gaps: Vec<(i64, i64)>,
) -> Spin {
    if !clock.counter_usable() {
        let base = clock.now();
        return spin::spin(|| (clock.now() - base).as_nanos(), limit.as_nanos(), threshold.as_nanos(), stop, gaps);
    }
    const MANY: i64 = 1_000_000;
    let picos_per_tick = clock.picos_of(MANY) as f64 / MANY as f64;
    let ticks = |span: Span| (span.as_nanos() as f64 * 1e3 / picos_per_tick).round() as i64;
    let base = counter::read();
    spin::spin(|| counter::read().since(base), ticks(limit), ticks(threshold), stop, gaps)
        .map(|ticks| (clock.picos_of(ticks) + 500).div_euclid(1_000))
}

/// The figures of one CPU.
pub(crate) fn cell(seen: &Observed) -> NoiseCell {
    let spin = &seen.spin;
    let lengths: Vec<i64> = spin.gaps.iter().map(|(_, gap)| *gap).collect();
    let of_time = |amount: f64| (spin.elapsed > 0).then(|| amount / spin.elapsed as f64);
    NoiseCell {
        cpu: seen.cpu,
        gap_ns: lengths.iter().copied().collect(),
        gaps: spin.count(),
        lost_fraction: of_time(spin.lost() as f64),
        gaps_per_s: of_time(spin.count() as f64 * 1e9),
        causes: Causes::of(seen.cpu, &lengths, spin.lost(), &seen.gained),
        decades: decades(lengths),
        outages: seen.outages.clone(),
    }
}

/// What a reader of the cell's figures should know.
fn remarks(cell: &NoiseCell, spin: &Spin) -> Vec<Note> {
    let mut notes = Vec::new();
    let cpu = cell.cpu;
    if spin.beyond > 0 {
        notes.push(Note::new("gaps_beyond_room", words::beyond_room(cpu, spin.beyond, MOST_GAPS)));
    }
    notes.extend(standstill::note(&format!("CPU {cpu}"), &cell.outages));
    notes.extend(attribution(cell));
    notes
}

/// Who took the time. Only figures that the system gave are named.
fn attribution(cell: &NoiseCell) -> Option<Note> {
    let (causes, cpu) = (&cell.causes, cell.cpu);
    if causes.lost_ns <= 0 {
        return None;
    }
    let share = |nanos: Option<i64>| nanos.map(|nanos| percent(Some(nanos as f64 / causes.lost_ns as f64)));
    let shares: Vec<String> = [
        share(causes.steal_ns).map(words::stolen),
        share(causes.quota_ns.filter(|&ns| ns > 0)).map(words::of_quota),
        share(causes.other_threads_ns).map(words::of_other_threads),
        causes.unattributed_fraction.map(|share| words::unexplained(percent(Some(share)))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let shares = if shares.is_empty() { words::no_account() } else { shares.join(", ") };
    let mut sentences = vec![words::accounts(cpu, time(Some(causes.lost_ns as f64)), shares)];
    if let (Some(interrupts), Some(switches)) = (causes.interrupts, causes.involuntary_switches) {
        sentences.push(match busiest(causes) {
            Some(lines) => words::events_of_lines(interrupts, lines, switches),
            None => words::events(interrupts, switches),
        });
        if let (Some(outside @ 1..), Some(nanos)) = (causes.gaps_from_outside_min, causes.outside_ns_min) {
            sentences.push(words::from_outside(outside, cell.gaps, time(Some(nanos as f64))));
        }
    }
    if let Some(waited @ 1..) = causes.cpu_pressure_ns {
        sentences.push(words::pressure(time(Some(waited as f64))));
    }
    if causes.steal_ns == Some(0) && causes.unattributed_fraction.is_some_and(|share| share > 0.5) {
        sentences.push(words::steal_unproven());
    }
    Some(Note::new("noise_attribution", sentences.join(" ")))
}

/// The two lines with most interrupts.
fn busiest(causes: &Causes) -> Option<String> {
    let mut lines: Vec<_> = causes.interrupts_by_line.iter().collect();
    lines.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let named: Vec<_> = lines.into_iter().take(2).map(|(line, count)| format!("{line} {count}")).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests;
