//! What a tester is opened for, and what it is asked to offer.

use std::net::Ipv4Addr;

use vtare_units::Pace;

use crate::size::{FCS_BYTE, LARGEST_BYTE};

/// Where the frames of a flow go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The hardware address that they carry: that of the guest, or of the router in front of it.
    pub to: [u8; 6],
    /// The address that they carry.
    pub address: Ipv4Addr,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// A program in the kernel, whose frames are redirected to the port (BPF_PROG_TEST_RUN with live frames).
    Xdp,
    /// An AF_XDP socket.
    AfXdp,
    /// A packet socket, many frames a call (sendmmsg).
    Packet,
}

impl Engine {
    /// All of them, the fastest first as a rule.
    pub const ALL: [Self; 3] = [Self::Xdp, Self::AfXdp, Self::Packet];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::AfXdp => "af_xdp",
            Self::Packet => "packet",
        }
    }

    /// The largest frame that it sends, with its check sequence.
    #[must_use]
    pub const fn most_frame_byte(self) -> u32 {
        match self {
            // A live frame lies in one page of memory with the kernel's own records.
            Self::Xdp => 3_242 + FCS_BYTE,
            Self::AfXdp => 4_096 + FCS_BYTE,
            Self::Packet => LARGEST_BYTE,
        }
    }
}

/// Who counts what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Analyser {
    /// A program at the receiving port (XDP), which removes the frames.
    Xdp,
    /// A packet ring (AF_PACKET, TPACKET_V3), read by this process; frames go on into the network stack.
    Packet,
}

impl Analyser {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Packet => "packet",
        }
    }
}

/// What a tester is opened for.
#[derive(Clone, Debug)]
pub struct TesterOptions {
    /// The port that sends.
    pub tx: String,
    /// The port that receives; it may be the same one.
    pub rx: String,
    /// The address that frames come from.
    pub source: Ipv4Addr,
    /// Where frames go.
    pub flows: Vec<Flow>,
    /// The flow of each frame in turn.
    pub slots: Vec<u16>,
    /// Size of a frame with its check sequence.
    pub frame_byte: u32,
    /// Frames of a trial at most.
    pub most_frames: u64,
    /// Who sends.
    pub engine: Engine,
    /// Who counts; `None` for the program where it is available, else the ring.
    pub analyser: Option<Analyser>,
}

/// Another rate for the rest of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStep {
    /// Frames at the rate before: the next one is due where they end, which is the time of the step.
    pub after_frames: u64,
    /// Packets in each span of the pace from then on.
    pub packets: u64,
}

/// A load to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Frames and their time.
    pub pace: Pace,
    /// The rate changes within the offer.
    pub step: Option<RateStep>,
    /// Frames in all.
    pub frames: u64,
    /// A frame so late still leaves, ns; others count as not sent.
    pub catch_up_ns: u64,
    /// After the last frame those under way are awaited as long as any come within this time, ns.
    pub linger_ns: u64,
    /// Two readings of the clock further apart are a gap of the sending thread, ns.
    pub gap_ns: u64,
    /// Frames that leave together (engine xdp); 1: each at once.
    pub batch: u32,
    /// The frame whose latency is reported by itself.
    pub tagged: Option<u64>,
    /// No frame leaves after this time, ns; for a test of the sender itself.
    pub most_ns: Option<u64>,
}

impl Offer {
    /// When a frame is due after the start, ns. The caller has seen that frames times span do not overflow.
    pub(crate) const fn due_ns(&self, number: u64) -> u64 {
        let Pace { packets, span_ns } = self.pace;
        match self.step {
            Some(RateStep { after_frames, packets: then }) if number >= after_frames => {
                after_frames * span_ns / packets + (number - after_frames) * span_ns / then
            }
            _ => number * span_ns / packets,
        }
    }
}
