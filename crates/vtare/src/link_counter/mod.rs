//! `vtare link-counter JOB.json`: counts what comes to a shaped link and what leaves it, for the lab
//! (docs/methods/avb-lab.md).

mod bin;
mod counters;
mod job;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use bin::Bin;
use counters::Counters;
use serde_json::{Value, json};
use vtare_sys::whole_file::WholeFile;
use vtare_sys::{clocks, process};
use vtare_units::{Monotonic, Span};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::samples::{Column, Row as _, Samples};

/// The schema of both files that this leaves.
const SCHEMA: &str = "vtare.link_counter/1";
/// The ring of bins is read this often.
const READ_EVERY: Span = Span::from_secs(1);

/// The columns of the log, as docs/internals/contract.md has them.
pub(crate) const COLUMNS: &[Column] = Bin::COLUMNS;

/// Arguments of `vtare link-counter`.
#[derive(Debug, clap::Args)]
pub(crate) struct LinkCounterArguments {
    /// The devices at which to count, as docs/internals/contract.md describes them
    #[arg(value_name = "JOB.json")]
    job: PathBuf,
    /// Write the bins to this file, and whether there are any to the .json beside it; by default link_counter.parquet
    /// beside the job
    #[arg(long, value_name = "FILE.parquet")]
    out: Option<PathBuf>,
}

/// Counts until SIGTERM or SIGINT. `ready` on stderr once it counts, or once `link_counter.json` states why this kernel
/// does not count: the run goes on without.
///
/// # Errors
/// For a job that cannot be read, and files that cannot be written.
pub(crate) fn command(arguments: &LinkCounterArguments, context: &Context) -> Result<Exit, Failure> {
    // The lab may be killed: what it started must not stay behind.
    if !process::end_with_parent()? {
        return Err(Failure::Machine(
            "the program that started this link counter has ended: start it again".to_owned(),
        ));
    }
    let job = job::read(&arguments.job)?;
    let log = arguments.out.clone().unwrap_or_else(|| arguments.job.with_file_name("link_counter.parquet"));
    let document = log.with_extension("json");
    if document == log || document == arguments.job {
        return Err(Failure::value("--out", log.display(), "another FILE.parquet"));
    }
    let counters = Counters::open(&job);
    write_document(&document, counters.as_ref().err())?;
    message!("ready");
    match counters.and_then(|counters| until_stopped(counters, context)) {
        Ok((from_ns, bins)) => {
            let mut samples = Samples::create(&log, COLUMNS)?;
            bins.iter().try_for_each(|bin| samples.row(bin))?;
            samples.finish(&json!({"schema": SCHEMA, "from_monotonic_ns": from_ns, "bin_ns": job.bin_ns}))?;
        }
        Err(why) => {
            while !context.stop_requested() {
                pause(READ_EVERY)?;
            }
            write_document(&document, Some(&why))?;
        }
    }
    Ok(Exit::Measured)
}

/// What was counted until a signal came: when the first bin began, and the bins.
fn until_stopped(mut counters: Counters, context: &Context) -> Result<(u64, Vec<Bin>), String> {
    let mut bins = Vec::new();
    while !context.stop_requested() {
        pause(READ_EVERY).map_err(|error| error.to_string())?;
        counters.read(clocks::now::<Monotonic>().as_nanos(), &mut bins)?;
    }
    pause(counters.lag()).map_err(|error| error.to_string())?;
    counters.read(clocks::now::<Monotonic>().as_nanos(), &mut bins)?;
    Ok((counters.started_ns(), bins))
}

/// Sleeps so long, or until a signal.
fn pause(span: Span) -> Result<(), Failure> {
    clocks::sleep_until(clocks::now::<Monotonic>() + span)?;
    Ok(())
}

/// Writes whether this kernel counts; `why_not` is the reason where it does not.
fn write_document(path: &Path, why_not: Option<&String>) -> Result<(), Failure> {
    let document: Value = json!({"schema": SCHEMA, "counted": why_not.is_none(), "reason": why_not});
    let written = WholeFile::create(path).and_then(|file| {
        file.handle()?.write_all(document.to_string().as_bytes())?;
        file.keep()
    });
    written
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}: choose a writable place", path.display())))
}
