//! `vtare agent`: the control channel of a guest (docs/internals/guests.md).
//!
//! The lab asks over a virtio port, a serial line or a pipe; the agent starts commands of its own binary, passes on
//! their output, and moves files. It needs no network and no other program, so that the measured interface stays
//! silent. As the first process of a micro guest (`--init`) it also sets the guest up and switches it off.

mod boot;
mod command_line;
mod files;
mod frame;
mod job;
mod kernel_log;
mod messages;
mod port;
mod session;

use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use files::Reach;
use messages::Hello;
use port::Port;

/// Arguments of `vtare agent`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArguments {
    /// The channel: a device file, or the name of a virtio port [default: stdin and stdout]
    #[arg(long, value_name = "FILE|NAME")]
    port: Option<String>,

    /// Read and write files below this directory only [default, but not with --init: the temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Be the first process of a micro guest: set it up from the kernel's command line, and switch it off at the end
    #[arg(long, conflicts_with_all = ["port", "directory"])]
    init: bool,
}

/// Serves the channel until its other end closes it or asks for the end.
///
/// # Errors
/// [`Failure::Input`] for a directory that is none, [`Failure::Machine`] where there is no such port.
pub(crate) fn command(arguments: &AgentArguments) -> Result<Exit, Failure> {
    if arguments.init {
        return boot::first_process();
    }
    let wanted = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    let reach = Reach::below(&wanted)
        .map_err(|error| Failure::value("--directory", wanted.display(), format_args!("a directory ({error})")))?;
    let port = match &arguments.port {
        Some(name) => Port::open(name)?,
        None => Port::stdio()?,
    };
    session::serve(port, reach, &Hello::of(false, Vec::new()))?;
    Ok(Exit::Measured)
}
