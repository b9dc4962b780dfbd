//! An emulator's options, its reports while it runs and at its end, and its errors.

use vtare_sys::SysError;
use vtare_units::{Monotonic, Span, Timestamp};

use crate::spec::{LaneSpec, SpecError};
use crate::truth::{Bin, LaneCount};

/// What the emulator does.
#[derive(Clone, Debug)]
pub struct EmulatorOptions {
    /// The two interfaces, A and B.
    pub interfaces: [String; 2],
    /// What is done to frames from A to B, and from B to A.
    pub lanes: [LaneSpec; 2],
    /// Seed of all that is random.
    pub seed: u64,
    /// UDP datagrams from or to this port are probes; all else is cross traffic.
    pub probe_port: u16,
    /// Bytes of frames on their way that are kept at most; more are counted as unable.
    pub most_byte: usize,
}

/// Why there is no emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// No interface of that name.
    #[error("no interface {name} in this network namespace: ip link shows those there are")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// Both ends are one interface.
    #[error("both ends are {name}: use two interfaces")]
    OneInterface {
        /// The name.
        name: String,
    },
    /// A direction that cannot be.
    #[error("from {from} to {to}: {source}")]
    Lane {
        /// Where frames come from.
        from: String,
        /// Where they go.
        to: String,
        /// What is wrong.
        source: SpecError,
    },
    /// The system refused.
    #[error(transparent)]
    System(#[from] SysError),
}

/// Gets what the emulator sees while it runs. Called by its thread: be quick.
pub trait Watch {
    /// A frame was handed to the kernel this much after it was due. `lane` 0 is from A to B.
    fn released(&mut self, lane: usize, late: Span, packet_byte: u32);
    /// 10 ms are over.
    fn bin(&mut self, lane: usize, bin: &Bin);
}

/// What was counted when it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// When it began: time 0 of the bins.
    pub started: Timestamp<Monotonic>,
    /// The same in wall time, ns since 1970.
    pub started_unix_ns: u64,
    /// How long it ran.
    pub elapsed: Span,
    /// The directions' own counts.
    pub lanes: [LaneCount; 2],
    /// What their outlets counted.
    pub outlets: [Outlet; 2],
    /// What the two sockets counted.
    pub inlets: [Inlet; 2],
    /// Half the width of the interval that is sure to hold the place of the kernel's stamps on the monotonic clock.
    pub stamp_error_ns: u64,
    /// Why it ended before its time, where it did.
    pub failure: Option<String>,
}

/// What left, or could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Outlet {
    /// Packets that the kernel took, copies among them.
    pub sent_packet: u64,
    /// Frames in which they left: fewer where several packets left as one.
    pub sent_frame: u64,
    /// Their IP bytes.
    pub sent_byte: u64,
    /// Packets that the kernel or the interface refused: its ring was full.
    pub refused_packet: u64,
    /// Packets larger than the interface's MTU.
    pub too_long_packet: u64,
    /// Packets that were on their way at the end.
    pub left_packet: u64,
}

/// What came in at a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Inlet {
    /// Frames that the kernel gave, large ones as one.
    pub frames: u64,
    /// Of those, large ones: each of their packets has its own fate.
    pub cut_frames: u64,
    /// Frames that found the socket's buffer full: this program did not get its turn for too long.
    pub socket_drops: u64,
    /// Frames without a stamp of the kernel: they count as arrived when they were read.
    pub unstamped: u64,
}
