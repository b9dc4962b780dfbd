//! `vtare rpm-serve`: a far end for `vtare rpm` and for clients of other makes (docs/rpm.md).

use std::net::SocketAddr;

use vtare_methods::rpm::{RpmJob, RpmLimits};

use super::engine;
use crate::failure::{Exit, Failure};
use crate::quantities::{bit_rate, bytes, nanoseconds};

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
    engine::replace(&RpmJob::Serve { listen: arguments.listen, limits })
}
