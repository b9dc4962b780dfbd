//! `vtare load`: background load for experiments (contract/README.md, "Loads"; docs/load.md).

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use vtare_load::{IoReport, Kind, LoadError, Options, Report};
use vtare_sys::block::FileSystem;
use vtare_sys::process;
use vtare_units::Span;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::load_net::{self, NetArguments};
use crate::output::{print, print_json, to_json};
use crate::quantities::positive;
use crate::table::percent;

/// What kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadKind {
    /// Wait and do nothing: the control
    Idle,
    /// Threads that take square roots
    Cpu,
    /// File writes, forced writes and reads, carried over loopback sockets
    Io,
    /// UDP cross traffic with a measured rate, or the sink that counts it
    Net,
}

/// Arguments of `vtare load`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArguments {
    /// What to do
    #[arg(value_enum)]
    kind: LoadKind,

    /// Threads [default: 100 for cpu, 4 for io, where two make a stream]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// End after this many seconds, counted from "ready" [default: on SIGTERM or SIGINT]
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,

    /// Directory for the io load's unnamed files, at most 16 MiB for each stream [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Print one JSON document on stdout at the end
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    net: NetArguments,
}

/// Makes the load, writes `ready` to stderr once every thread works, and reports at the end what load it was. A signal
/// is the ordinary end of a load, so the exit code is 0 then too.
///
/// # Errors
/// For threads or a directory that make no load, and where the machine refuses threads, files or sockets.
pub(crate) fn command(arguments: &LoadArguments, context: &Context) -> Result<Exit, Failure> {
    // The lab may be killed: its loads must not stay behind and spoil the next measurement.
    if !process::end_with_parent()? {
        return Err(Failure::Machine("the program that started this load has ended: start it again".to_owned()));
    }
    let limit = limit(arguments)?;
    let (report, lost) = match kind(arguments)? {
        Some(kind) => {
            let directory = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
            let options = Options { kind, threads: arguments.threads, limit, directory };
            (vtare_load::run(&options, &context.stop_flag(), || message!("ready")).map_err(failure)?, None)
        }
        None => load_net::carry_out(&arguments.net, limit, context)?,
    };
    if let Some(error) = &lost {
        message!("vtare: {error}");
    }
    if arguments.json {
        print_json(&to_json(&document(&report)))?;
    } else {
        print(&sentence(&report))?;
    }
    Ok(if lost.is_some() { Exit::SamplesLost } else { Exit::Measured })
}

/// The kind of a load with threads; `None` for the net load.
fn kind(arguments: &LoadArguments) -> Result<Option<Kind>, Failure> {
    let kind = match arguments.kind {
        LoadKind::Idle => Kind::Idle,
        LoadKind::Cpu => Kind::Cpu,
        LoadKind::Io => Kind::Io,
        LoadKind::Net if arguments.threads.is_some() || arguments.dir.is_some() => {
            let text = "load net: found --threads or --dir, which it does not have: leave them out";
            return Err(Failure::Input(text.to_owned()));
        }
        LoadKind::Net => return Ok(None),
    };
    arguments.net.refuse_for(kind.name())?;
    Ok(Some(kind))
}

fn limit(arguments: &LoadArguments) -> Result<Option<Span>, Failure> {
    let limit = arguments.seconds.map(|seconds| {
        let too_long = || Failure::Input(format!("--seconds: found {seconds}, want at most 9e9 (285 years)"));
        Span::try_from_secs_f64(seconds).ok_or_else(too_long)
    });
    limit.transpose()
}

fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::Threads { .. } => Failure::Input(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    }
}

/// The report with what every document of vtare holds.
#[derive(Serialize)]
struct Document<'r> {
    #[serde(flatten)]
    report: &'r Report,
    program: Program,
}

#[derive(Serialize)]
struct Program {
    name: &'static str,
    version: &'static str,
}

fn document(report: &Report) -> Document<'_> {
    Document { report, program: Program { name: "vtare", version: env!("CARGO_PKG_VERSION") } }
}

fn sentence(report: &Report) -> String {
    let mut text = format!(
        "{} load, {} thread{}, {:.2} s",
        report.kind,
        report.threads,
        if report.threads == 1 { "" } else { "s" },
        report.elapsed_s
    );
    if let Some(rate) = report.operations_per_s.filter(|_| report.operations > 0 && report.net.is_none()) {
        let what = if report.io.is_some() { "blocks of 64 KiB" } else { "square roots" };
        text.push_str(&format!(": {} {what}, {rate:.3e} a second", report.operations));
    }
    text.push_str(&format!("; {} of the CPU time it may use\n", percent(report.cpu_fraction)));
    if let Some(net) = &report.net {
        text.push_str(&load_net::in_words(net));
    }
    if let Some(io) = &report.io {
        let mebibyte = |byte: u64| byte as f64 / f64::from(1 << 20);
        text.push_str(&format!(
            "files{}: {:.1} MiB written in {} forced writes, {:.1} MiB read; {}; sockets: {:.1} MiB\n",
            place(io),
            mebibyte(io.written_byte),
            io.fsyncs,
            mebibyte(io.read_byte),
            match io.direct {
                Some(direct) =>
                    format!("{:.1} MiB of both past the page cache", mebibyte(direct.written_byte + direct.read_byte)),
                None => "the file system has no direct access".to_owned(),
            },
            mebibyte(io.socket_byte),
        ));
    }
    text
}

/// Where files are, as in ` (ext4 on vda1)`.
fn place(io: &IoReport) -> String {
    match &io.file_system {
        Some(FileSystem { kind, device: Some(device), .. }) => format!(" ({kind} on {device})"),
        Some(FileSystem { kind, in_memory: true, .. }) => format!(" ({kind}: in memory, on no device)"),
        Some(FileSystem { kind, .. }) => format!(" ({kind})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_load::Moved;

    fn report() -> Report {
        Report {
            schema: "vtare.load/1",
            kind: "io",
            elapsed_s: 2.0,
            threads: 4,
            operations: 640,
            operations_per_s: Some(320.0),
            cpu_fraction: Some(0.25),
            io: Some(IoReport {
                written_byte: 20 << 20,
                read_byte: 19 << 20,
                fsyncs: 20,
                socket_byte: 40 << 20,
                direct: Some(Moved { written_byte: 10 << 20, read_byte: 9 << 20, operations: 304 }),
                file_system: Some(FileSystem {
                    kind: "ext4".to_owned(),
                    device: Some("vda1".to_owned()),
                    in_memory: false,
                }),
                ..IoReport::default()
            }),
            net: None,
        }
    }

    #[test]
    fn the_sentence_names_the_load_that_was_made() {
        let text = sentence(&report());
        for part in [
            "io load, 4 threads, 2.00 s",
            "640 blocks",
            "25.0 %",
            "files (ext4 on vda1): 20.0 MiB written in 20 forced writes",
            "19.0 MiB of both past the page cache",
            "40.0 MiB",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn an_idle_load_claims_no_operations() {
        let idle =
            Report { kind: "idle", threads: 0, operations: 0, operations_per_s: Some(0.0), io: None, ..report() };
        assert!(!sentence(&idle).contains("square roots"));
    }

    #[test]
    fn the_document_names_schema_and_program_beside_the_figures() {
        let document = to_json(&document(&report()));
        assert_eq!(document["schema"], "vtare.load/1");
        assert_eq!(document["program"]["name"], "vtare");
        assert_eq!(document["io"]["fsyncs"], 20);
    }

    #[test]
    fn threads_that_make_no_load_are_bad_input_and_the_rest_is_the_machines_word() {
        let threads = LoadError::Threads { kind: "io", found: 3, wanted: "an even number" };
        assert_eq!(failure(threads).code(), 2);
        let content = LoadError::Content { found: 1, wanted: 2 };
        assert_eq!(failure(content).code(), 3);
    }
}
