//! `vtare throughput`: how much traffic passes without loss, or with little, through guests that forward; and how long
//! it takes (docs/methods/throughput.md).
//!
//! [`vtare_methods::throughput`] decides which load to try and what follows; [`vtare_tester`] offers it and
//! counts what comes.

mod answer;
mod bench;
mod cell;
mod lines;
mod parameters;
mod shown;

use vtare_methods::throughput::{
    BackToBack, BinarySearch, CriticalLoad, Distribution, Interleaved, LongestBurst, Mlrsearch, NextTrial, PlrSearch,
    PlrSettings, Range, Recovered, Recovery, RecoverySettings, Search, Soak, SoakSettings, Soaked, Trial,
};
use vtare_units::{Monotonic, Span};

use crate::answer::{Answer, CommandLine};
use crate::avb::shown::megabits;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Instrument, Note, Outcome, Session};
use crate::output;
use crate::progress::Progress;
use crate::samples::{Column, Row as _};
use crate::sentences::throughput as words;
use crate::table::{Table, time};
use bench::{Bench, TrialRun};
use cell::{BackToBackAt, Gathered, LatencyAt, Rows, ThroughputCell, ThroughputRow};
use parameters::{Parameters, SearchMethod};
use shown::{MOST_QUEUED, frames};

/// A latency trial that is void is repeated this number of times at most.
const LATENCY_AGAIN: usize = 3;

/// The instrument.
pub(crate) struct Throughput;

impl Instrument for Throughput {
    const NAME: &'static str = "throughput";
    const COLUMNS: &'static [Column] = ThroughputRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["frame_byte", "guests", "loaded"];
    type Parameters = Parameters;
    type Cell = ThroughputCell;

    fn resolve(parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        parameters.resolved()
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<ThroughputCell>, Failure> {
        let mut notes = Vec::new();
        if parameters.cpu.is_none() {
            notes.push(Note::new("not_pinned", words::not_pinned()));
        }
        bench::check(parameters)?;
        let mut cells = Vec::new();
        for &frame_byte in &parameters.frame_byte {
            for &loaded in parameters.loaded.iter().flatten() {
                let distribution = parameters.distribution(loaded)?;
                let cell = measure_cell(parameters, frame_byte, distribution, session, &mut notes)?;
                cells.push(cell);
                if session.context.stop_requested() {
                    return Ok(Outcome { cells, notes, interrupted: true });
                }
            }
        }
        Ok(Outcome { cells, notes, interrupted: false })
    }

    fn answer(outcome: &Outcome<ThroughputCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[ThroughputCell]) -> Table {
        let heading = [
            "frame",
            "guests",
            "loaded",
            "J",
            "throughput",
            "rate",
            "half IQR",
            "interval",
            "no loss",
            "latency",
            "p99",
            "max",
            "trials",
            "void",
        ];
        let mut table = Table::new(&heading, 0);
        for cell in cells {
            let bound = if cell.censored.is_some() { "at least " } else { "" };
            let interval = cell.throughput.interval.map_or_else(
                || "-".to_owned(),
                |[low, high]| format!("{} to {}", frames(Some(low)), frames(Some(high))),
            );
            table.row(vec![
                format!("{} B", cell.frame_byte),
                cell.guests.to_string(),
                cell.loaded.to_string(),
                cell.jain.map_or_else(|| "-".to_owned(), |jain| format!("{jain:.3}")),
                format!("{bound}{}", frames(cell.throughput_packet_per_s)),
                megabits(cell.throughput_bit_per_s),
                frames(cell.throughput.half_iqr),
                interval,
                frames(cell.zero_loss_packet_per_s),
                time(cell.latency_ns.median),
                time(cell.latency_ns.p99),
                time(cell.latency_ns.max),
                cell.trials.to_string(),
                cell.void_trials.to_string(),
            ]);
        }
        table
    }

    fn details(cells: &[ThroughputCell]) -> String {
        let mut text = String::new();
        for cell in cells {
            let loss = 100.0 * cell.loss_ratio;
            text.push_str(&format!(
                "\n{} B to {} of {} guests: {}, up to {loss} % lost; sender {} ({})\n",
                cell.frame_byte, cell.loaded, cell.guests, cell.method, cell.engine, cell.engine_because
            ));
            if cell.ndr_packet_per_s.or(cell.pdr_packet_per_s).is_some() {
                let (ndr, pdr) = (frames(cell.ndr_packet_per_s), frames(cell.pdr_packet_per_s));
                text.push_str(&format!("non-drop rate (NDR) {ndr}, partial drop rate (PDR, 0.5 %) {pdr}\n"));
            }
            for at in &cell.latencies {
                let share = at
                    .load_share
                    .map_or_else(String::new, |share| format!(" ({:.0} % of the throughput)", 100.0 * share));
                text.push_str(&format!(
                    "latency at {}{share}: median {}, p99 {}, p99.9 {}, max {}; over the guests {}; {} tagged frames: \
                     {}\n",
                    frames(Some(at.load_packet_per_s as f64)),
                    time(at.latency_ns.median),
                    time(at.latency_ns.p99),
                    time(at.latency_ns.p999),
                    time(at.latency_ns.max),
                    time(at.latency_total_ns),
                    at.tagged_ns.n,
                    time(at.tagged_ns.mean),
                ));
            }
            if let Some(bursts) = &cell.back_to_back {
                text.push_str(&lines::back_to_back(bursts));
            }
            if let Some(soaked) = &cell.soak {
                text.push_str(&lines::soak(soaked));
            }
            if let Some(critical) = &cell.critical_load {
                text.push_str(&lines::critical_load(critical));
            }
            if let Some(recovered) = &cell.recovery {
                text.push_str(&lines::recovery(recovered));
            }
        }
        text
    }
}

fn measure_cell(
    parameters: &Parameters,
    frame_byte: u32,
    distribution: Distribution,
    session: &mut Session<'_>,
    notes: &mut Vec<Note>,
) -> Result<ThroughputCell, Failure> {
    let context = session.context;
    let mut bench = Bench::open(parameters, frame_byte, &distribution, context, notes)?;
    let rows = Rows { frame_byte, distribution };
    let mut gathered = Gathered::default();
    let label = format!("throughput {frame_byte} B, {} of {} guests", distribution.loaded(), distribution.guests());
    let progress = context.progress(&label, parameters.searches.into());
    search(parameters, &mut bench, rows, session, &mut gathered, &progress)?;
    let mut cell = ThroughputCell {
        frame_byte,
        guests: distribution.guests(),
        loaded: distribution.loaded(),
        slight_share: distribution.slight(),
        jain_planned: distribution.jain(),
        method: output::to_json(&parameters.method).as_str().unwrap_or_default().to_owned(),
        loss_ratio: if parameters.method == SearchMethod::Binary { 0.0 } else { parameters.loss_ratio },
        engine: bench.chosen.engine.to_owned(),
        engine_packet_per_s: Some(bench.chosen.packet_per_s),
        analyser: bench.analyser().to_owned(),
        engine_because: format!("{}; {}", bench.chosen.because, bench.place()),
        ..ThroughputCell::default()
    };
    gathered.sum_up(&mut cell);
    if parameters.latency_trials > 0 && !context.stop_requested() {
        cell.latencies = latencies(parameters, &mut bench, &cell, rows, session, &progress)?;
        let at_throughput = cell.latencies.iter().find(|at| at.load_share == Some(1.0));
        cell.latency_ns = at_throughput.map(|at| at.latency_ns).unwrap_or_default();
        notes.extend(short_trials(&cell, parameters.trial_ns));
    }
    if parameters.bursts > 0 && !context.stop_requested() {
        let found = longest_bursts(parameters, &mut bench, rows, session, &progress)?;
        cell.back_to_back = BackToBackAt::of(&found, cell.throughput_packet_per_s);
    }
    if let (Some(sum_ns), Some(rate), false) =
        (parameters.soak_ns, cell.throughput_packet_per_s, context.stop_requested())
    {
        if let Some(loss_ratio) = parameters.soak_loss_ratio {
            let settings = bench.critical_load(rate, loss_ratio, sum_ns);
            cell.critical_load = Some(critical_load(settings, &mut bench, rows, session, &progress)?);
        } else {
            cell.soak = Some(soak(bench.soak(rate, sum_ns), &mut bench, rows, session, &progress)?);
        }
    }
    if let (1.., Some(rate), false) = (parameters.recovery, cell.throughput_packet_per_s, context.stop_requested()) {
        cell.recovery = Some(recovery(bench.recovery(rate), &mut bench, rows, session, &progress)?);
    }
    Ok(cell)
}

/// The searches for the longest burst. One that a signal ended has no answer.
fn longest_bursts(
    parameters: &Parameters,
    bench: &mut Bench<'_>,
    rows: Rows,
    session: &mut Session<'_>,
    progress: &Progress,
) -> Result<Vec<LongestBurst>, Failure> {
    let mut all = Vec::new();
    for number in 0..parameters.bursts {
        progress.label(&format!("burst {} of {}, {} B", number + 1, parameters.bursts, rows.frame_byte));
        let mut search = BackToBack::new(bench.bursts()).map_err(|error| Failure::Input(error.to_string()))?;
        while let Some(trial) = search.step() {
            let run = bench.offer(trial)?;
            if run.result.stopped || session.context.stop_requested() {
                return Ok(all);
            }
            rows.burst(&mut session.samples, number.into(), &run)?;
            search.observe(&run.seen());
        }
        all.push(search.found());
    }
    Ok(all)
}

/// The throughput for long. One that a signal ended has what is known until then.
fn soak(
    settings: SoakSettings,
    bench: &mut Bench<'_>,
    rows: Rows,
    session: &mut Session<'_>,
    progress: &Progress,
) -> Result<Soaked, Failure> {
    progress.label(&format!("soak of {}, {} B", time(Some(settings.sum_ns as f64)), rows.frame_byte));
    let mut soak = Soak::new(settings).map_err(|error| Failure::Input(error.to_string()))?;
    while let Some(trial) = soak.step() {
        let run = bench.offer(trial)?;
        if run.result.stopped || session.context.stop_requested() {
            break;
        }
        rows.soak(&mut session.samples, &run)?;
        soak.observe(&run.seen());
    }
    Ok(soak.found())
}

/// The search for a critical load. A signal leaves what is known until then.
fn critical_load(
    settings: PlrSettings,
    bench: &mut Bench<'_>,
    rows: Rows,
    session: &mut Session<'_>,
    progress: &Progress,
) -> Result<CriticalLoad, Failure> {
    progress.label(&format!("critical load, {}, {} B", time(Some(settings.sum_ns as f64)), rows.frame_byte));
    let mut search = PlrSearch::new(settings).map_err(|error| Failure::Input(error.to_string()))?;
    while let Some(trial) = search.step() {
        let run = bench.offer(trial)?;
        if run.result.stopped || session.context.stop_requested() {
            break;
        }
        rows.soak(&mut session.samples, &run)?;
        search.observe(&run.seen());
    }
    Ok(search.found())
}

/// Overloads, and what follows them. A signal leaves what is known until then.
fn recovery(
    settings: RecoverySettings,
    bench: &mut Bench<'_>,
    rows: Rows,
    session: &mut Session<'_>,
    progress: &Progress,
) -> Result<Recovered, Failure> {
    let mut recovery = Recovery::new(settings).map_err(|error| Failure::Input(error.to_string()))?;
    while let Some([overload, after]) = recovery.step() {
        let number = recovery.found().trials + 1;
        progress.label(&format!("recovery {number} of {}, {} B", settings.trials, rows.frame_byte));
        let run = bench.offer_then(overload, Some(after))?;
        if run.result.stopped || session.context.stop_requested() {
            break;
        }
        rows.recovery(&mut session.samples, &run)?;
        recovery.observe(&run.seen_recovery());
    }
    Ok(recovery.found())
}

/// What a short trial hides: frames that still stand in queues at its end come later, and count.
fn short_trials(cell: &ThroughputCell, trial_ns: u64) -> Option<Note> {
    let waited = cell.latency_ns.p99.filter(|waited| *waited > MOST_QUEUED * trial_ns as f64)?;
    let (waited, trial) = (time(Some(waited)), time(Some(trial_ns as f64)));
    let text = words::queues(cell.frame_byte, cell.loaded, cell.guests, waited, trial);
    Some(Note::new("queues", text))
}

/// The search that is asked for.
fn searching(parameters: &Parameters, range: Range) -> Result<Box<dyn Search>, Failure> {
    let wrong = |error: vtare_methods::throughput::SettingsError| Failure::Input(error.to_string());
    Ok(match parameters.method {
        SearchMethod::Mlrsearch => Box::new(Mlrsearch::new(parameters.mlrsearch(), range).map_err(wrong)?),
        SearchMethod::Binary => Box::new(BinarySearch::new(parameters.binary(), range).map_err(wrong)?),
    })
}

/// All searches of a cell, in turn. Those that a signal ended have no answer.
fn search(
    parameters: &Parameters,
    bench: &mut Bench<'_>,
    rows: Rows,
    session: &mut Session<'_>,
    gathered: &mut Gathered,
    progress: &Progress,
) -> Result<(), Failure> {
    let range = bench.range();
    let all: Result<_, Failure> = (0..parameters.searches).map(|_| searching(parameters, range)).collect();
    let mut turns = Interleaved::new(all?);
    let began = vtare_sys::clocks::now::<Monotonic>();
    let ends = parameters.most_ns.map(|most| began + Span::from_unsigned_nanos(most));
    loop {
        let (number, trial) = match turns.step() {
            NextTrial::Over => return Ok(()),
            NextTrial::Trial(number, trial) => (number, trial),
            NextTrial::Done(number, answer) => {
                rows.answer(&mut session.samples, number as u64, &answer)?;
                gathered.answer(answer);
                progress.set(gathered.answered());
                continue;
            }
        };
        let over = vtare_sys::clocks::now::<Monotonic>() + Span::from_unsigned_nanos(trial.duration_ns);
        if ends.is_some_and(|ends| over > ends) {
            for (number, answer) in turns.break_off() {
                rows.answer(&mut session.samples, number as u64, &answer)?;
                gathered.answer(answer);
            }
            return Ok(());
        }
        let run = bench.offer(trial)?;
        if run.result.stopped || session.context.stop_requested() {
            return Ok(());
        }
        rows.trial(&mut session.samples, number as u64, &run)?;
        gathered.trial(&run);
        turns.observe(&run.seen());
    }
}

/// Latency at shares of the throughput and at loads of their own.
fn latencies(
    parameters: &Parameters,
    bench: &mut Bench<'_>,
    cell: &ThroughputCell,
    rows: Rows,
    session: &mut Session<'_>,
    progress: &Progress,
) -> Result<Vec<LatencyAt>, Failure> {
    let found = cell.throughput_packet_per_s;
    let of_share = |share: &f64| found.map(|rate| (((rate * share) as u64).max(1), Some(*share)));
    let shares = parameters.latency_load.iter().filter_map(of_share);
    let fixed = parameters.latency_packet_per_s.iter().flatten().map(|&rate| (rate, None));
    let mut all = Vec::new();
    for (packet_per_s, share) in shares.chain(fixed) {
        progress.label(&format!("latency {} B at {}", cell.frame_byte, frames(Some(packet_per_s as f64))));
        let mut run: Vec<TrialRun> = Vec::new();
        for _ in 0..parameters.latency_trials {
            let trial = Trial { packet_per_s, duration_ns: parameters.latency_trial_ns };
            let mut one = bench.offer(trial)?;
            for _ in 0..LATENCY_AGAIN {
                if one.void.is_none() || one.result.stopped {
                    break;
                }
                rows.latency(&mut session.samples, &one)?;
                one = bench.offer(trial)?;
            }
            if one.result.stopped || session.context.stop_requested() {
                break;
            }
            rows.latency(&mut session.samples, &one)?;
            run.push(one);
        }
        if !run.is_empty() {
            all.push(LatencyAt::of(packet_per_s, share, &run, &rows.distribution));
        }
        if session.context.stop_requested() {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{ThroughputCell, short_trials};

    #[test]
    fn frames_that_wait_long_beside_a_trial_get_a_note() {
        let waited = |p99| {
            let latency_ns = vtare_units::figures::Figures { p99, ..Default::default() };
            let cell = ThroughputCell { frame_byte: 64, guests: 2, loaded: 1, latency_ns, ..ThroughputCell::default() };
            short_trials(&cell, 300_000_000)
        };
        assert_eq!((waited(None), waited(Some(14e6))), (None, None));
        let note = waited(Some(60e6)).expect("a fifth of the trial");
        assert!(note.text.contains("took longer than 60.0 ms, in trials of 300 ms"), "{}", note.text);
    }
}
