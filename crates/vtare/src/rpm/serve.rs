//! `vtare serve --rpm` and its old name, `vtare rpm-serve`: a far end for `vtare rpm` and other clients
//! (docs/methods/rpm.md).

use std::net::SocketAddr;
use std::time::Duration;

use vtare_methods::rpm::{RpmEvent, RpmJob, RpmLimits};

use super::engine::{self, Next};
use crate::failure::{Exit, Failure};
use crate::quantities::{bit_rate, bytes, nanoseconds};

/// The longest start of a far end.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Arguments of `vtare rpm-serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct RpmServeArguments {
    /// Where to listen, TCP; other hosts reach it only where an address of theirs is named, as 0.0.0.0:4043
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::peers::address, default_value = "127.0.0.1:4043")]
    listen: SocketAddr,

    /// Most connections with a request at the same time; as many may have made none yet
    #[arg(
        long, value_name = "N", default_value_t = RpmLimits::default().connections as u16,
        value_parser = clap::value_parser!(u16).range(1..=8192), help_heading = "Limits"
    )]
    max_connections: u16,

    /// Most of them of one address (IPv6: of one /64)
    #[arg(
        long, value_name = "N", default_value_t = RpmLimits::default().connections_per_peer as u16,
        value_parser = clap::value_parser!(u16).range(1..=8192), help_heading = "Limits"
    )]
    max_connections_per_peer: u16,

    /// Longest connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = nanoseconds, help_heading = "Limits")]
    max_time: u64,

    /// Most bytes of a connection, both directions together
    #[arg(long, value_name = "BYTES", default_value = "10GB", value_parser = bytes, help_heading = "Limits")]
    max_bytes: u64,

    /// Highest rate of all connections together, bit/s, for each direction
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = bit_rate, help_heading = "Limits")]
    max_rate: u64,
}

/// Serves until SIGTERM or SIGINT, which are its ordinary end: exit code 0.
///
/// # Errors
/// Where the program that serves is not there.
pub(crate) fn command(arguments: &RpmServeArguments) -> Result<Exit, Failure> {
    let limits = RpmLimits {
        connections: arguments.max_connections.into(),
        connections_per_peer: arguments.max_connections_per_peer.into(),
        connection_ns: arguments.max_time,
        connection_byte: arguments.max_bytes,
        rate_bit_per_s: arguments.max_rate,
    };
    engine::replace(&RpmJob::Serve { listen: arguments.listen, limits, below_serve: false })
}

/// A far end of RPM beside the one of `vtare serve`, in a process of its own, which ends with this one.
pub(crate) struct Beside {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What it is, for people.
    pub(crate) words: String,
    _engine: engine::Engine,
}

/// Starts one, before this process gives up what that takes.
///
/// # Errors
/// Where the program that serves is not there, or cannot listen.
pub(crate) fn beside(listen: SocketAddr, rate_bit_per_s: u64) -> Result<Beside, Failure> {
    let limits = RpmLimits { rate_bit_per_s, ..RpmLimits::default() };
    let started = engine::Engine::start(&RpmJob::Serve { listen, limits, below_serve: true })?;
    match started.next(READY_WITHIN)? {
        Next::Event(RpmEvent::Serving { address, words }) => Ok(Beside { address, words, _engine: started }),
        _ => Err(Failure::Machine(format!(
            "--rpm {listen}: no far end could be started; the lines above name the cause"
        ))),
    }
}
