//! `vtare load`: background load for experiments (docs/internals/contract.md, "Loads"; docs/guide/load.md).

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use vtare_load::nbd::ServerOptions;
use vtare_load::{Kind, LoadError, NbdReport, Options, Report};
use vtare_sys::block::FileSystem;
use vtare_sys::process;
use vtare_units::Span;

use crate::answer::Shape;
use crate::context::Context;
use crate::document::Program;
use crate::failure::{Exit, Failure};
use crate::load_net::{self, NetArguments};
use crate::output::{print, print_json, to_json};
use crate::quantities::positive;
use crate::sentences::load as words;
use crate::table::percent;
use crate::terminal::fitted;

/// What kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadKind {
    /// Wait and do nothing: the control
    Idle,
    /// Threads that take square roots
    Cpu,
    /// Threads that count as `vtare counter` does
    Counter,
    /// File writes, forced writes and reads, carried over loopback sockets
    Io,
    /// Writes and reads of a file service on another machine or outside the guest, or that service
    Nbd,
    /// UDP cross traffic with a measured rate, or the sink that counts it
    Net,
}

/// Arguments of `vtare load`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArguments {
    /// What to do
    #[arg(value_enum)]
    kind: LoadKind,

    /// Threads [default: 100 for cpu, 1 for counter, 4 for io, where two make a stream, 2 for nbd]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// End after this many seconds, counted from "ready" [default: on SIGTERM or SIGINT]
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,

    /// Directory for the unnamed files of io, or of nbd --serve, at most 16 MiB for each stream [default: the temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Serve a file for nbd at this address, by qemu-nbd
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::peers::address, conflicts_with_all = ["to", "threads"])]
    serve: Option<SocketAddr>,

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
    if let Some(wrong) = arguments.dir.as_ref().filter(|dir| !dir.is_dir()) {
        let text = format!("--dir: {} is no directory: create it, or name another one", wrong.display());
        return Err(Failure::Input(text));
    }
    let directory = || arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let ready = || message!("ready");
    let (report, lost) = match work(arguments)? {
        Work::Load(kind) => {
            let options = Options { kind, threads: arguments.threads, limit, directory: directory() };
            (vtare_load::run(&options, &context.stop_flag(), ready).map_err(failure)?, None)
        }
        Work::Serve(at) => {
            let options = ServerOptions { at, directory: directory(), before: with_parent()?, limit };
            (vtare_load::nbd::serve(&options, &context.stop_flag(), ready).map_err(failure)?, None)
        }
        Work::Traffic => load_net::carry_out(&arguments.net, limit, context)?,
    };
    if let Some(error) = &lost {
        message!("vtare: {error}");
    }
    if arguments.json {
        print_json(&to_json(&document(&report)))?;
    } else {
        print(&fitted(&sentence(&report), Some(Shape::here().width)))?;
    }
    Ok(if lost.is_some() { Exit::SamplesLost } else { Exit::Measured })
}

/// What the arguments ask for.
enum Work {
    Load(Kind),
    Serve(SocketAddr),
    Traffic,
}

fn work(arguments: &LoadArguments) -> Result<Work, Failure> {
    let refuse = |text: &str| Err(Failure::Input(text.to_owned()));
    if arguments.serve.is_some() && arguments.kind != LoadKind::Nbd {
        return refuse("found --serve, which only load nbd has: leave it out");
    }
    let kind = match arguments.kind {
        LoadKind::Idle => Kind::Idle,
        LoadKind::Cpu => Kind::Cpu,
        LoadKind::Counter => Kind::Counter,
        LoadKind::Io => Kind::Io,
        LoadKind::Net if arguments.threads.is_some() || arguments.dir.is_some() => {
            return refuse("load net has no --threads or --dir: leave them out");
        }
        LoadKind::Net => return Ok(Work::Traffic),
        LoadKind::Nbd => match (arguments.net.server()?, arguments.serve) {
            (None, Some(at)) => return Ok(Work::Serve(at)),
            (Some(_), None) if arguments.dir.is_some() => {
                return refuse("load nbd --to: --dir belongs to the server: leave it out");
            }
            (Some(server), None) => return Ok(Work::Load(Kind::Nbd { server })),
            _ => return refuse("load nbd needs a server: use --to ADDR:PORT of one, or --serve ADDR:PORT to be it"),
        },
    };
    arguments.net.refuse_for(kind.name())?;
    Ok(Work::Load(kind))
}

/// Words in front of a program that ends with this one.
fn with_parent() -> Result<Vec<OsString>, Failure> {
    let own = crate::own_program::path()?;
    Ok(std::iter::once(own.into_os_string())
        .chain(["exec", "--plain", "--with-parent", "--"].map(OsString::from))
        .collect())
}

fn limit(arguments: &LoadArguments) -> Result<Option<Span>, Failure> {
    let limit = arguments.seconds.map(|seconds| {
        let too_long = || Failure::value("--seconds", seconds, "9e9 (285 years) or less");
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
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Document<'r> {
    #[serde(flatten)]
    report: &'r Report,
    program: Program,
}

fn document(report: &Report) -> Document<'_> {
    Document { report, program: Program::OWN }
}

fn sentence(report: &Report) -> String {
    let threads = if report.threads == 1 { words::one_thread() } else { words::threads(report.threads) };
    let (kind, elapsed, cpu) = (report.kind, report.elapsed_s, percent(report.cpu_fraction));
    let mut text = match report.operations_per_s.filter(|_| report.operations > 0 && report.net.is_none()) {
        Some(rate) => {
            let what = match kind {
                "io" | "nbd" => words::blocks(),
                "counter" => words::steps(),
                _ => words::square_roots(),
            };
            words::did(kind, threads, elapsed, report.operations, what, format_args!("{rate:.3e}"), cpu)
        }
        None => words::ran(kind, threads, elapsed, cpu),
    };
    text.push('\n');
    if let Some(net) = &report.net {
        text.push_str(&load_net::in_words(net));
    }
    if let Some(nbd) = &report.nbd {
        text.push_str(&service(nbd));
    }
    if let Some(io) = &report.io {
        let direct = io.direct.map(|direct| words::direct(mebibyte(direct.written_byte + direct.read_byte)));
        text.push_str(&words::files(
            place(io.file_system.as_ref()),
            mebibyte(io.written_byte),
            io.fsyncs,
            mebibyte(io.read_byte),
            direct.unwrap_or_else(words::no_direct),
            mebibyte(io.socket_byte),
        ));
        text.push('\n');
    }
    text
}

fn mebibyte(byte: u64) -> String {
    format!("{:.1}", byte as f64 / f64::from(1 << 20))
}

/// What one end of the file service did.
fn service(nbd: &NbdReport) -> String {
    let (role, address) = (nbd.role, &nbd.address);
    let client = nbd.client.map(|client| {
        let [written, read] = [client.written_byte, client.read_byte].map(mebibyte);
        let fua = client.fua.map_or_else(words::no_fua, |fua| words::with_fua(mebibyte(fua.written_byte)));
        words::client(role, address, written, read, client.flushes, fua) + "\n"
    });
    let server = nbd.server.as_ref().map(|server| {
        let stored = server.stored_byte.map_or_else(words::stored_unknown, |byte| words::stored(mebibyte(byte)));
        let cache = if server.page_cache { words::by_page_cache() } else { words::past_page_cache() };
        words::server(role, address, place(server.file_system.as_ref()), stored, cache) + "\n"
    });
    client.into_iter().chain(server).collect()
}

/// Where files are, as in ` (ext4 on vda1)`.
fn place(file_system: Option<&FileSystem>) -> String {
    match file_system {
        Some(FileSystem { kind, device: Some(device), .. }) => format!(" ({kind} on {device})"),
        Some(FileSystem { kind, in_memory: true, .. }) => format!(" ({kind}: in memory, on no device)"),
        Some(FileSystem { kind, .. }) => format!(" ({kind})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_load::{IoReport, Moved, NbdMoved, NbdServed};

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
            nbd: None,
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
    fn each_end_of_the_file_service_states_what_it_moved_or_stored() {
        let moved = Moved { written_byte: 3 << 20, read_byte: 3 << 20, operations: 96 };
        let client = NbdMoved {
            size_byte: 1 << 30,
            written_byte: 5 << 20,
            read_byte: 4 << 20,
            flushes: 2,
            buffered: moved,
            fua: Some(moved),
        };
        let end = |client, server| NbdReport { role: "end", address: "10.0.0.1:1".to_owned(), client, server };
        let text = service(&end(Some(client), None));
        assert!(text.contains("5.0 MiB written and 4.0 MiB read, 2 flushes; 3.0 MiB written with FUA"), "{text}");
        let served = NbdServed {
            program: "qemu-nbd",
            size_byte: 1 << 30,
            stored_byte: Some(32 << 20),
            page_cache: true,
            file_system: None,
            device: None,
        };
        assert!(service(&end(None, Some(served))).contains("32.0 MiB stored, by way of the page cache"));
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
