//! `vtare avb`: available bandwidth, and what the path's queue shows besides (docs/methods/avb.md).
//!
//! [`vtare_methods::avb`] decides what to send and what follows; [`vtare_probe::train`] sends it and learns what
//! became of each packet.

pub(crate) mod answer;
mod cell;
mod parameters;
pub(crate) mod probe_path;
mod program;
mod repeat;
mod run;
pub(crate) mod shown;
pub(crate) mod tcp;
mod timing;

use std::ops::ControlFlow;
use std::path::PathBuf;

use vtare_methods::avb::Stopped;
use vtare_probe::link::ProbeLink;
use vtare_sys::sched;

use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument, Note, Outcome, RunHeader, Session, Showing};
use crate::output;
use crate::rtt::conditions;
use crate::samples::{Column, Row as _};
use crate::sentences::avb as words;
use crate::table::{Table, percent, time};
use cell::StreamLine;
use cell::{AvbCell, EstimateRow, Gathered};
#[cfg(debug_assertions)]
pub(crate) use cell::{FOREIGN_NULL, STREAM_SCHEMA, StreamLine as StreamDocument};
use parameters::{Parameters, Stream};
use probe_path::ProbePath;
use shown::{megabits, sized, words};

pub(crate) use parameters::AvbArguments;

/// The scheduler's weight while trains are sent: a delayed train is discarded.
pub(crate) const NICE: i32 = -19;

/// The instrument.
pub(crate) struct Avb;

/// What a path to `peer` is opened with by other commands that send trains.
pub(crate) fn settings_for(peer: &str, key_file: Option<PathBuf>) -> Parameters {
    Parameters { peer: peer.to_owned(), key_file, ..Parameters::default() }
}

/// Carries out `vtare avb`.
///
/// # Errors
/// See [`instrument::carry_out`]; [`Failure::Peer`] where the peer does not answer.
pub(crate) fn command(arguments: &AvbArguments, context: &Context) -> Result<Exit, Failure> {
    if arguments.wants_list() {
        output::print(&parameters::list())?;
        return Ok(Exit::Measured);
    }
    let common = &arguments.run.common;
    let parameters = arguments.parameters();
    let seed = common.seed.unwrap_or_else(instrument::fresh_seed);
    let header = RunHeader { run_id: None, output: common.out.clone(), seed };
    let showing = Showing {
        json: common.json,
        quiet: parameters.stream == Stream::Json,
        verbose: common.verbose,
        limits: &common.fail_if,
    };
    instrument::carry_out::<Avb>(parameters, &header, showing, context)
}

impl Instrument for Avb {
    const NAME: &'static str = "avb";
    const COLUMNS: &'static [Column] = EstimateRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["peer", "address", "method", "direction"];
    type Parameters = Parameters;
    type Cell = AvbCell;

    fn resolve(parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        let parameters = parameters.resolved()?;
        if parameters.is_program() {
            program::Settings::of(&parameters)?;
        }
        Ok(parameters)
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<AvbCell>, Failure> {
        if parameters.is_tcp() {
            return tcp::measure(parameters, session);
        }
        if parameters.is_program() {
            return program::measure(parameters, session);
        }
        let clock = session.clock();
        let mut notes = conditions::take(parameters.cpu, parameters.fifo, false)?;
        if sched::set_nice(NICE).is_err() {
            notes.push(Note::new("not_niced", words::not_niced()));
        }
        let _held = conditions::hold_latency(parameters.dma_latency_ns, &mut notes);
        let mut path = ProbePath::open(clock, parameters, false, &mut notes)?;
        let mut cell = AvbCell {
            peer: parameters.peer.clone(),
            address: path.address.to_string(),
            method: parameters.method.clone(),
            direction: if parameters.reverse { "reverse" } else { "forward" },
            packet_byte: Some(path.ability.most_packet_byte),
            send_cost_ns: Some(path.ability.least_gap_ns),
            group_packet: Some(path.ability.most_group),
            link: Some(path.link().facts().clone()),
            ..AvbCell::default()
        };
        let progress = run::progress(parameters, session.context);
        let mut gathered = Gathered::default();
        let mut failed = Ok(());
        let (samples, started) = (&mut session.samples, path.now());
        let ended = run::estimates(&mut path, parameters, session.seed, session.context, &mut |timed| {
            let number = gathered.len();
            gathered.push(timed);
            if let Err(error) = cell::row(samples, &cell, number, timed) {
                failed = Err(Failure::from(error));
                return ControlFlow::Break(());
            }
            progress.set(number + 1);
            progress.label(&format!("avb {}: {}", cell.peer, megabits(timed.estimate.avb_bit_per_s)));
            if parameters.stream != Stream::Off {
                let line = StreamLine::new(&cell, &gathered, timed, started, clock.now());
                return cell::show(&line, parameters.stream, &mut notes).unwrap_or_else(|error| {
                    failed = Err(error);
                    ControlFlow::Break(())
                });
            }
            ControlFlow::Continue(())
        })?;
        drop(progress);
        failed?;
        let counters = path.close().map_err(|error| {
            notes.push(Note::new("counters_lost", words::counters_lost(error)));
        });
        gathered.sum_up(&mut cell, counters.ok().as_ref());
        notes.extend(gathered.notes(&cell.method));
        if let Some(drops @ 1..) = cell.receiver_drops {
            notes.push(Note::new("receiver_overloaded", words::receiver_overloaded(drops)));
        }
        if let Some(why) = ended.unable {
            return Err(Failure::Input(format!("method {}: {why}", parameters.method)));
        }
        if let Some(why) = ended.lost {
            session.peer_lost = Some(format!("{}: {why}", parameters.peer));
        }
        Ok(Outcome { cells: vec![cell], notes, interrupted: ended.stopped })
    }

    fn answer(outcome: &Outcome<AvbCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[AvbCell]) -> Table {
        let heading = [
            "peer",
            "method",
            "available",
            "interval",
            "capacity",
            "estimates",
            "half IQR",
            "probes",
            "time",
            "stopped",
        ];
        let mut table = Table::new(&heading, 2);
        for cell in cells {
            let interval = cell.interval_bit_per_s.map_or_else(
                || "-".to_owned(),
                |[low, high]| format!("{} to {}", megabits(Some(low)), megabits(Some(high))),
            );
            let bound = if cell.at_least && cell.avb_bit_per_s.is_some() { "at least " } else { "" };
            let figures = &cell.estimate_bit_per_s;
            table.row(vec![
                cell.peer.clone(),
                cell.method.clone(),
                format!("{bound}{}", megabits(cell.avb_bit_per_s)),
                interval,
                megabits(cell.capacity_bit_per_s),
                cell.estimates.to_string(),
                megabits(figures.half_iqr),
                sized(cell.estimate_byte.median),
                time(cell.estimate_ns.median),
                cell.stopped.filter(|stopped| *stopped != Stopped::Running).map_or_else(|| "-".to_owned(), words),
            ]);
        }
        table
    }

    fn details(cells: &[AvbCell]) -> String {
        let mut text = String::new();
        for cell in cells {
            let counted = cell.packet_byte.map_or_else(
                || "what the program counts".to_owned(),
                |byte| format!("IP packets with headers, {byte} B at most"),
            );
            text.push_str(&format!("\n{counted}, {}", cell.direction));
            text.push_str(&burden(cell.occupied_bit_per_s, cell.occupied_share, cell.queued_ns));
            text.push_str(&window(cell.window_s, cell.long_run_bit_per_s));
            if let Some(depth) = cell.token_bucket_byte {
                text.push_str(&format!("a token bucket of {} or more lies on the way\n", sized(Some(depth))));
            }
        }
        text
    }
}

/// How long the time was that the answer is the mean of, and what to expect of longer ones.
fn window(window_s: Option<f64>, long_run: Option<[f64; 2]>) -> String {
    let Some(seconds) = window_s else { return String::new() };
    let longer = long_run.map_or_else(String::new, |[low, high]| {
        format!("; the mean of a longer time lies from {} to {} (95 %)", megabits(Some(low)), megabits(Some(high)))
    });
    format!("the value is the mean of {}{longer}\n", time(Some(seconds * 1e9)))
}

/// What the probes did to the path, as the end of a line; what is not known is left out.
fn burden(occupied_bit_per_s: Option<f64>, share: Option<f64>, queued_ns: Option<f64>) -> String {
    let of_capacity = share.map_or_else(String::new, |share| format!(" ({} of the capacity)", percent(Some(share))));
    let parts = [
        occupied_bit_per_s.map(|rate| format!("probes came at {}{of_capacity}", megabits(Some(rate)))),
        queued_ns.map(|queued| format!("made the queue wait {}", time(Some(queued)))),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => "\n".to_owned(),
        known => format!("; {}\n", known.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_the_burden_is_left_out() {
        let all = "; probes came at 10.0 Mbit/s (10.0 % of the capacity) and made the queue wait 1.50 ms\n";
        assert_eq!(burden(Some(10e6), Some(0.1), Some(1.5e6)), all);
        assert_eq!(burden(Some(10e6), None, None), "; probes came at 10.0 Mbit/s\n");
        assert_eq!(burden(None, None, None), "\n");
    }
}
