//! `vtare rpm`: responsiveness while the path is full, in round trips a minute (docs/methods/rpm.md).
//!
//! [`vtare_methods::rpm`] decides what to do and what follows. HTTP/2 and TLS are in a program of their own, which this
//! one starts ([`engine`]).

mod answer;
mod cell;
mod engine;
mod parameters;
pub(crate) mod serve;

use std::time::Duration;

use vtare_methods::rpm::{Direction, RpmEvent, RpmJob, RpmSettings};

use crate::answer::{Answer, CommandLine};
use crate::avb::shown::{megabits, sized};
use crate::failure::Failure;
use crate::instrument::{Instrument, Outcome, Session};
use crate::samples::{Column, Row as _};
use crate::table::{Table, time};
use cell::{ProbeRow, RpmCell};
use engine::{Engine, Next};
use parameters::RpmParameters;

/// The instrument.
pub(crate) struct Rpm;

/// Time that is kept for the configuration, the idle path, and the queues that drain between the directions, ns.
const BESIDE_NS: u64 = 2_000_000_000;
/// The longest wait for an event, after which a request to stop is looked for.
const LISTEN: Duration = Duration::from_millis(100);

impl Instrument for Rpm {
    const NAME: &'static str = "rpm";
    const COLUMNS: &'static [Column] = ProbeRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["peer", "address", "direction"];
    type Parameters = RpmParameters;
    type Cell = RpmCell;

    fn resolve(parameters: RpmParameters, _context: &crate::context::Context) -> Result<RpmParameters, Failure> {
        if parameters.peer.is_empty() {
            return Err(Failure::Input("the peer is missing. Name a host that runs `vtare serve --rpm`".to_owned()));
        }
        crate::parameters::check_bounds(&parameters)?;
        Ok(parameters)
    }

    fn measure(parameters: &RpmParameters, session: &mut Session<'_>) -> Result<Outcome<RpmCell>, Failure> {
        let settings = RpmSettings { most_ns: (parameters.most_ns - BESIDE_NS) / 2, ..RpmSettings::default() };
        let job = RpmJob::Measure { peer: parameters.peer.clone(), seed: session.seed, settings };
        let mut engine = Engine::start(&job)?;
        let begin = session.clock().now();
        let progress = session.context.progress(&format!("rpm {}", parameters.peer), parameters.most_ns);
        let (mut cells, mut reached): (Vec<RpmCell>, Option<(String, String, u64)>) = (Vec::new(), None);
        let mut interrupted = false;
        loop {
            progress.set((session.clock().now() - begin).as_nanos().max(0).cast_unsigned());
            if session.context.stop_requested() {
                interrupted = true;
                engine.stop();
            }
            match engine.next(LISTEN)? {
                Next::Silence | Next::Event(RpmEvent::Serving { .. }) => {}
                Next::End => break,
                Next::Event(RpmEvent::Reached { address, congestion, idle_rtt_ns }) => {
                    reached = Some((address.to_string(), congestion, idle_rtt_ns));
                }
                Next::Event(RpmEvent::Probe { direction, interval, probe }) => {
                    session.samples.row(&ProbeRow { direction, interval, probe })?;
                }
                Next::Event(RpmEvent::Direction { direction, figures, failed_probes, lost }) => {
                    let (address, congestion, idle_ns) = reached.clone().unwrap_or_default();
                    let cell = RpmCell::of(direction, &figures, failed_probes);
                    cells.push(RpmCell {
                        peer: parameters.peer.clone(),
                        address,
                        congestion: (direction == Direction::Up).then_some(congestion),
                        idle_rtt_ns: Some(idle_ns as f64),
                        ..cell
                    });
                    session.peer_lost = session.peer_lost.take().or(lost);
                }
                Next::Event(RpmEvent::Failed { exit_code, error }) => {
                    return Err(match exit_code {
                        2 => Failure::Input(error),
                        4 => Failure::Peer(error),
                        _ => Failure::Machine(error),
                    });
                }
            }
        }
        if cells.is_empty() && !interrupted {
            return Err(Failure::Machine("vtare-rpm ended before it had measured anything".to_owned()));
        }
        Ok(Outcome { cells, notes: Vec::new(), interrupted })
    }

    fn answer(outcome: &Outcome<RpmCell>, parameters: &RpmParameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[RpmCell]) -> Table {
        let heading = [
            "",
            "grade",
            "confidence",
            "RPM",
            "separate",
            "on load",
            "idle",
            "goodput",
            "connections",
            "probes",
            "bytes",
            "time",
        ];
        let mut table = Table::new(&heading, 3);
        let rpm = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
        for cell in cells {
            table.row(vec![
                cell.direction.to_owned(),
                cell.grade.unwrap_or("-").to_owned(),
                answer::word(cell.confidence),
                rpm(cell.rpm),
                rpm(cell.foreign_rpm),
                rpm(cell.loaded_rpm),
                time(cell.idle_rtt_ns),
                megabits(cell.goodput_bit_per_s),
                cell.connections.to_string(),
                (cell.foreign_probes + cell.self_probes).to_string(),
                sized(Some(cell.load_byte as f64)),
                time(Some(cell.elapsed_s * 1e9)),
            ]);
        }
        table
    }

    fn details(cells: &[RpmCell]) -> String {
        answer::details(cells)
    }
}
