use std::net::Ipv4Addr;

use vtare_sys::SysError;
use vtare_sys::bpf::BpfError;

/// Why the kernel cannot do it here.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// Something about the way to the peer does not fit.
    #[error("{0}")]
    Unfit(String),
    /// The kernel refused a program.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// The kernel refused something else.
    #[error(transparent)]
    System(#[from] SysError),
    /// Frames that a program sends do not arrive.
    #[error(
        "frames that a kernel program sends on {interface} are not answered by {next_hop}: where {interface} is \
         a veth, its other end must take them: ethtool -K DEVICE gro on there, or vtare serve --xdp DEVICE"
    )]
    Unreachable {
        /// The interface here.
        interface: String,
        /// Who was asked.
        next_hop: Ipv4Addr,
    },
}
