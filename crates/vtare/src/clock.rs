//! `vtare clock`: keeps the page from which all processes of this machine read UTC, as witnesses confirm it.

use std::path::{Path, PathBuf};

use vtare_clock::{Confirmed, Unconfirmed, UtcLine, UtcStatus};
use vtare_witness::{PageWriter, Witnesses, page_path};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::peers;
use crate::sentences::clock as words;

/// Arguments of `vtare clock`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClockArguments {
    /// Hosts that run `vtare serve`; of three on different hosts one may be wrong [default: the variable
    /// VTARE_WITNESSES]
    #[arg(long, value_name = "HOST:PORT,...")]
    witness: Option<String>,

    /// File with the key that they share [default: the variable VTARE_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// The page, which all users may read [default: the variable VTARE_UTC_PAGE, else /run/vtare/utc]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// The witnesses of `--witness` and `--key-file`.
///
/// # Errors
/// For those that cannot be asked.
pub(crate) fn witnesses(list: &str, key_file: Option<&Path>) -> Result<Witnesses, Failure> {
    let key = peers::key(key_file)?;
    Witnesses::new(list, key.as_ref()).map_err(|error| Failure::Input(format!("--witness: {error}")))
}

/// Keeps the page until SIGTERM or SIGINT, which are its ordinary end.
///
/// # Errors
/// For witnesses that cannot be asked, or a page that cannot be written.
pub(crate) fn command(arguments: &ClockArguments, context: &Context) -> Result<Exit, Failure> {
    let list = arguments.witness.clone().or_else(|| std::env::var(vtare_witness::WITNESSES_VARIABLE).ok());
    let witnesses = witnesses(&list.unwrap_or_default(), arguments.key_file.as_deref())?;
    let path = arguments.page.clone().unwrap_or_else(page_path);
    let page = PageWriter::open(&path).map_err(|error| {
        let path = path.display();
        Failure::Input(format!(
            "cannot keep the page {path}: {error}. Use --page FILE with a new file in a directory of yours"
        ))
    })?;
    let mut shown = String::new();
    let stop = context.stop_flag();
    let ended = || stop.load(std::sync::atomic::Ordering::Relaxed);
    page.keep(&witnesses, context.clock(), &ended, |line, found| {
        let now = state(line, found);
        if !context.is_quiet() && shown != now {
            message!("{now}");
            shown = now;
        }
    })
    .map_err(|error| Failure::Machine(error.to_string()))?;
    Ok(Exit::Measured)
}

/// The state of the page: another sentence where something has changed.
fn state(line: &UtcLine, found: &Result<Confirmed, Unconfirmed>) -> String {
    match (line.status, found) {
        (UtcStatus::Disrupted, _) => words::disrupted(line.generation),
        (_, Err(error)) => words::unconfirmed(error),
        (UtcStatus::Synchronized, Ok(found)) => words::confirmed(found.hosts, found.liars, found.same_host),
        (_, Ok(_)) => words::begun(),
    }
}
