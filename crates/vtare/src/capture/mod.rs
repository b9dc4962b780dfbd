//! `vtare capture`: the kernel's view of probes at an interface, or out of a capture file (docs/guide/overhead.md).

mod aggregate;
mod answer;
mod cell;
mod file;
mod live;
mod parameters;

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Instrument, Outcome, Session};
use crate::samples::{Column, Row as _};
use crate::table::{Table, spread, time};
use aggregate::ProbeRow;
use cell::{CaptureCell, MOST_SHOWN};
use parameters::Parameters;

/// The instrument.
pub(crate) struct Capture;

impl Instrument for Capture {
    const NAME: &'static str = "capture";
    const COLUMNS: &'static [Column] = ProbeRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["source", "hook"];
    type Parameters = Parameters;
    type Cell = CaptureCell;

    fn resolve(parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        parameters.resolved()
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<CaptureCell>, Failure> {
        match (&parameters.read, &parameters.interface) {
            (Some(path), _) => file::read(path, parameters, session),
            (None, Some(interface)) => live::capture(interface, parameters, session),
            (None, None) => Err(parameters::nothing_named()),
        }
    }

    fn answer(outcome: &Outcome<CaptureCell>, _parameters: &Parameters, _line: &CommandLine) -> Answer {
        answer::of(outcome)
    }

    fn table(cells: &[CaptureCell]) -> Table {
        let heading = [
            "form",
            "session",
            "from",
            "to",
            "requests",
            "replies",
            "one-way",
            "packets/s",
            "median",
            "half IQR",
            "p99",
        ];
        let mut table = Table::new(&heading, 4);
        for flow in cells.iter().flat_map(|cell| cell.flows.iter().take(MOST_SHOWN)) {
            table.row(vec![
                flow.form.to_owned(),
                flow.session.clone(),
                flow.source.clone(),
                flow.destination.clone(),
                flow.requests.to_string(),
                flow.replies.to_string(),
                flow.one_way.to_string(),
                flow.packet_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
                time(flow.rtt_ns.median),
                spread(flow.rtt_ns.half_iqr),
                time(flow.rtt_ns.p99),
            ]);
        }
        table
    }

    fn details(cells: &[CaptureCell]) -> String {
        cells.iter().map(CaptureCell::details).collect()
    }
}
