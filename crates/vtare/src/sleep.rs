//! `vtare sleep`: how late sleeps wake, by method and length, and what CPU time they cost.
//!
//! Each method sleeps on a thread of its own, because some methods change the thread they sleep on (timer slack,
//! slice). The cells take turns in rounds of fresh random order, so that a drift of the machine meets all of them
//! alike.

mod answer;
mod cell;
mod notes;
mod parameters;
mod worker;

use vtare_units::{Random, Span};

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{self, Instrument, Outcome, Session};
use crate::samples::{Column, Row as _};
use crate::table::{Table, percent, spread, time};
use cell::Measured;
pub(crate) use cell::SleepCell;
use parameters::all_methods;
pub(crate) use parameters::{Parameters, method};
use vtare_clock::sleep::Method;
use worker::{Order, Reading, Settings};

/// Rounds in which the cells take turns.
const ROUNDS: u64 = 10;

/// The instrument.
pub(crate) struct Sleep;

impl Instrument for Sleep {
    const NAME: &'static str = "sleep";
    const MAIN: &'static str = "miss";
    const COLUMNS: &'static [Column] = SleepRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["method", "target_ns"];
    const SHORT_LINES: usize = 10;
    type Parameters = Parameters;
    type Cell = SleepCell;

    fn resolve(mut parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        crate::parameters::check_bounds(&parameters)?;
        instrument::check_seconds("seconds", parameters.seconds)?;
        instrument::check_cpu(parameters.cpu)?;
        instrument::check_list("target_ns", &parameters.target_ns)?;
        let methods = parameters.method.get_or_insert_with(all_methods);
        instrument::check_list("method", methods)?;
        Ok(parameters)
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<SleepCell>, Failure> {
        let methods = parameters.method.clone().unwrap_or_else(all_methods);
        let (cells, interrupted) = take_turns(parameters, &methods, session)?;
        for cell in &cells {
            keep(cell, session)?;
        }
        let mut notes = notes::of(parameters, &cells, interrupted);
        let cells: Vec<SleepCell> = cells.iter().map(Measured::cell).collect();
        notes.extend(notes::published(&cells));
        Ok(Outcome { cells, notes, interrupted })
    }

    fn answer(outcome: &Outcome<SleepCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[SleepCell]) -> Table {
        let heading =
            ["method", "target", "median miss", "half IQR", "p99", "max", ">100 us", "CPU", "disturbed", "sleeps"];
        let mut table = Table::new(&heading, 1);
        for cell in cells {
            let miss = &cell.miss_ns;
            // Of the sleeps that were made alone, these would contradict what stands beside them.
            let made = |least: f64, figure: Option<f64>| figure.filter(|_| cell.made_fraction() >= least);
            table.row(vec![
                cell.method.map_or_else(String::new, |method| method.to_string()),
                time(Some(cell.target_ns as f64)),
                time(cell.asked_median_ns),
                spread(made(0.9, miss.half_iqr)),
                time(made(0.995, miss.p99)),
                time(miss.max),
                percent(cell.exceed_fraction),
                percent(cell.cpu_fraction),
                cell.disturbed.to_string(),
                if cell.asked > miss.n { format!("{} of {}", miss.n, cell.asked) } else { miss.n.to_string() },
            ]);
        }
        table
    }
}

/// Lets all cells sleep in turn. Gives them with whether a signal ended it early.
fn take_turns(
    parameters: &Parameters,
    methods: &[Method],
    session: &Session<'_>,
) -> Result<(Vec<Measured>, bool), Failure> {
    let (context, clock) = (session.context, session.clock());
    let settings = Settings::of(parameters, clock.now());
    // Counted in turns: a cell that its time cap ends early must not hold the progress line back.
    let progress = context.progress("sleep", ROUNDS * (methods.len() * parameters.target_ns.len()) as u64);
    let mut cells: Vec<Measured> = Vec::new();
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for (worker, method) in methods.iter().enumerate() {
        for target_ns in &parameters.target_ns {
            turns.push((worker, cells.len()));
            cells.push(Measured::new(*method, *target_ns));
        }
    }
    let mut random = Random::new(session.seed);
    std::thread::scope(|scope| {
        let workers: Vec<worker::Worker> =
            methods.iter().map(|method| worker::Worker::start(scope, clock, *method, settings, context)).collect();
        let mut taken = 0;
        for round in 1..=ROUNDS {
            random.shuffle(&mut turns);
            for (worker, index) in &turns {
                let cell = &mut cells[*index];
                let share = round as f64 / ROUNDS as f64;
                let goal = (u128::from(parameters.samples) * u128::from(round)).div_ceil(u128::from(ROUNDS)) as u64;
                let order = Order {
                    target: Span::from_unsigned_nanos(cell.target_ns),
                    sleeps: goal.saturating_sub(cell.readings.len() as u64),
                    time: parameters
                        .seconds
                        .and_then(|seconds| Span::try_from_secs_f64(seconds * share))
                        .map(|share| share - cell.wall),
                };
                let turn = workers[*worker].turn(order)?;
                cell.take(turn, order.sleeps);
                taken += 1;
                progress.set(taken);
                if context.stop_requested() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    })
    .map(|interrupted| (cells, interrupted))
}

/// One sleep.
struct SleepRow<'a> {
    cell: &'a Measured,
    index: usize,
    reading: &'a Reading,
}

columns!(row: SleepRow<'_> {
    string "method" = row.cell.method.name(), "how it slept";
    int64 "target_ns" = row.cell.target_ns.cast_signed(), "how long it was asked to sleep";
    int64 "index" = row.index as i64, "position of the sleep among those of its cell, from 0";
    int64 "miss_ns" = row.reading.miss_ns, "actual minus target wake-up; negative is early";
    int64 "spin_ns" = row.reading.spin_ns, "time spent spinning in this sleep";
    boolean "disturbed" = row.reading.disturbed, "whether a gap of the machine hit this sleep";
});

/// Writes the sleeps of one cell.
fn keep(cell: &Measured, session: &mut Session<'_>) -> Result<(), Failure> {
    if !session.samples.kept() {
        return Ok(());
    }
    for (index, reading) in cell.readings.iter().enumerate() {
        session.samples.row(&SleepRow { cell, index, reading })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::worker::{Batch, Refused};
    use super::*;

    #[test]
    fn a_cell_sums_up_its_turns() {
        let mut cell = Measured::new(Method::Usleep, 1_000);
        let reading = |miss_ns, disturbed| Reading { miss_ns, spin_ns: 100, disturbed };
        cell.take(
            Batch {
                readings: vec![reading(60, false), reading(70, true)],
                outages: Vec::new(),
                cpu: Span::from_nanos(5),
                wall: Span::from_nanos(60),
                refused: Refused::default(),
            },
            2,
        );
        cell.take(
            Batch {
                readings: vec![reading(-8, false)],
                outages: Vec::new(),
                cpu: Span::from_nanos(5),
                wall: Span::from_nanos(40),
                refused: Refused::default(),
            },
            100,
        );
        let cell = cell.cell();
        assert_eq!((cell.miss_ns.n, cell.miss_ns.median, cell.miss_ns.min), (3, Some(60.0), Some(-8.0)));
        assert_eq!((cell.cpu_fraction, cell.spin_ns_mean, cell.disturbed), (Some(0.1), Some(100.0), 1));
    }

    #[test]
    fn the_table_and_the_document_show_the_cpu_time_of_each_method_and_target() {
        let cells = [(1_000_000, 0.08), (10_000_000, 0.02)].map(|(target_ns, cpu)| SleepCell {
            method: Some(Method::Adaptive),
            target_ns,
            cpu_fraction: Some(cpu),
            ..SleepCell::default()
        });
        let text = Sleep::table(&cells).render();
        for (target, cpu) in [("1.00 ms", "8.00 %"), ("10.0 ms", "2.00 %")] {
            assert!(text.lines().any(|line| line.contains(target) && line.contains(cpu)), "{text}");
        }
        assert_eq!(crate::output::to_json(&cells)[1]["cpu_fraction"], 0.02);
    }

    #[test]
    fn sleeps_that_lateness_left_no_time_for_count_as_late_ones() {
        let mut cell = Measured::new(Method::TwoPhase, 1_000_000);
        let turn = |misses: &[i64]| Batch {
            readings: misses
                .iter()
                .map(|miss_ns| Reading { miss_ns: *miss_ns, spin_ns: 0, disturbed: false })
                .collect(),
            outages: Vec::new(),
            cpu: Span::ZERO,
            wall: Span::from_millis(100),
            refused: Refused::default(),
        };
        // Of 100 sleeps of 1 ms nine are exact, one is 90.1 ms late: there is no time for 90.
        let mut misses = [80; 10];
        misses[9] = 90_100_000;
        cell.take(turn(&misses), 100);
        let cut = cell.cell();
        assert_eq!((cut.miss_ns.n, cut.asked, cut.exceed_fraction), (10, 100, Some(0.91)));
        assert_eq!((cut.miss_ns.median, cut.asked_median_ns), (Some(80.0), None));
        assert!(cut.late_fraction.is_some_and(|late| (late - 0.9).abs() < 1e-3), "{:?}", cut.late_fraction);
        // A turn that is cut short by the limit alone leaves out sleeps that nobody is late for.
        cell.take(turn(&[80; 91]), 1_000);
        let whole = cell.cell();
        assert_eq!((whole.asked, whole.asked_median_ns), (191, Some(80.0)));
        // One that is always 2 ms late makes a third of the sleeps that fit into the time, and leaves out none.
        let mut always = Measured::new(Method::Usleep, 1_000_000);
        always.take(turn(&[2_000_000; 33]), 100);
        let always = always.cell();
        assert_eq!((always.asked, always.asked_median_ns), (33, Some(2_000_000.0)));
        let text = Sleep::table(&[cut]).render();
        assert!(text.contains("10 of 100") && text.contains("91.0 %") && !text.contains("80.0 ns"), "{text}");
    }

    #[test]
    fn a_cell_without_sleeps_has_no_figures() {
        let cell = Measured::new(Method::Spin, 1_000).cell();
        assert_eq!((cell.miss_ns.median, cell.cpu_fraction, cell.spin_ns_mean), (None, None, None));
    }

    #[test]
    fn a_short_run_sleeps_as_often_as_asked_in_every_cell() {
        let context = Context::without_signals();
        let mut session = Session::without_samples(&context, 1);
        let asked = Parameters { target_ns: vec![1_000, 2_000], samples: 13, seconds: None, ..Parameters::default() };
        let parameters = Sleep::resolve(asked, &context).expect("the parameters are right");
        let outcome = Sleep::measure(&parameters, &mut session).expect("this machine can sleep");
        assert_eq!(outcome.cells.len(), 10);
        assert!(outcome.cells.iter().all(|cell| cell.miss_ns.n == 13), "{:?}", outcome.cells);
        assert!(!outcome.interrupted);
    }

    #[test]
    fn wrong_parameters_name_the_key_and_what_is_wanted() {
        let context = Context::without_signals();
        let wrong = [
            (Parameters { samples: 0, ..Parameters::default() }, "samples is 0: use a whole number from 1"),
            (Parameters { target_ns: vec![], ..Parameters::default() }, "target_ns is an empty list"),
            (Parameters { target_ns: vec![5, 5], ..Parameters::default() }, "target_ns has 5 twice"),
            (Parameters { seconds: Some(-1.0), ..Parameters::default() }, "seconds is -1: use"),
            (Parameters { fifo: Some(0), ..Parameters::default() }, "fifo is 0: use a whole number from 1 to 99"),
            (Parameters { fifo: Some(100), ..Parameters::default() }, "fifo is 100: use"),
            (
                Parameters { tolerance_ns: 1 << 60, ..Parameters::default() },
                "tolerance_ns (--tolerance) is 1152921504606846976: use ",
            ),
        ];
        for (parameters, message) in wrong {
            let error = Sleep::resolve(parameters, &context).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
