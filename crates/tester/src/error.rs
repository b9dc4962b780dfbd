//! Why a test cannot be made, and the way out.

use vtare_sys::SysError;
use vtare_sys::bpf::BpfError;

use crate::size::SMALLEST_BYTE;

/// Why a test cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// A port is not there.
    #[error("port {name}: there is no such interface in this network namespace; here are: {known}")]
    NoPort {
        /// The name.
        name: String,
        /// Interfaces that are there.
        known: String,
    },
    /// A port is down.
    #[error("port {name} is down: bring it up (ip link set {name} up)")]
    Down {
        /// The name.
        name: String,
    },
    /// A port is no Ethernet interface.
    #[error("port {name} is no Ethernet interface: frames of Ethernet are all that can be sent so")]
    NoEthernet {
        /// The name.
        name: String,
    },
    /// A frame is too large for a port.
    #[error(
        "frames of {frame_byte} B carry IP packets of {wanted_byte} B, and the MTU of port {name} is {mtu_byte} B: \
         raise it (ip link set {name} mtu {wanted_byte}, at every interface on the way), or ask for smaller frames"
    )]
    Mtu {
        /// The port.
        name: String,
        /// The frame.
        frame_byte: u32,
        /// The MTU that it needs.
        wanted_byte: u32,
        /// The MTU that is.
        mtu_byte: u32,
    },
    /// A frame of a size that no engine sends, or not this one.
    #[error("frame is {found_byte} B: use {SMALLEST_BYTE} B, which headers and tag need, to {most_byte} B{because}")]
    Size {
        /// The size asked for.
        found_byte: u32,
        /// The largest.
        most_byte: u32,
        /// Why.
        because: &'static str,
    },
    /// More frames in a trial than can be distinguished.
    #[error("a trial of {found} frames is too long: use {most} or less")]
    Frames {
        /// Frames asked for.
        found: u64,
        /// Frames that are counted at most.
        most: u64,
    },
    /// Frames of some flows do not come.
    #[error(
        "the ports do not see each other: of {sent} frames that left {tx} to {to} none came to {rx}: do the guests \
         forward, do they know the way, and is every interface up? Where the sender is a program (engine xdp) and {tx} \
         a veth, its other end must take frames: ethtool -K DEVICE gro on there"
    )]
    Unreachable {
        /// The sending port.
        tx: String,
        /// The receiving port.
        rx: String,
        /// The flows, as text.
        to: String,
        /// Frames sent to each.
        sent: u64,
    },
    /// The kernel refused a program.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// The kernel refused something else.
    #[error(transparent)]
    System(#[from] SysError),
}
