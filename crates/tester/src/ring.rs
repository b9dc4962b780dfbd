//! The analyser that needs no program in the kernel: a packet ring (AF_PACKET, TPACKET_V3) whose frames carry the
//! kernel's stamps.

use vtare_clock::ClockOffset;
use vtare_clock::offset::BRACKETS;
use vtare_sys::clocks;
use vtare_sys::net::packet_ring::{FilterStep, OUTGOING, PacketRing, RingSize};
use vtare_units::Monotonic;

use crate::error::TesterError;
use crate::frame::{self, IP_TAGGED_BYTE, PORTS};
use crate::options::TesterOptions;
use crate::port::Port;
use crate::shared::{ReceivedFrame, Shared};

/// A block that is not full is handed over after this time.
const RETIRE_MS: u32 = 4;
const BLOCK_BYTE: u32 = 1 << 18;
/// What a frame takes of the ring: its record, its address, and what is copied of it.
const RECORD_BYTE: u64 = 144;
/// Of a trial's frames this many find room while nobody reads: what half a second brings at 400,000 a second.
const MOST_KEPT: u64 = 220_000;

/// Loads from the network header on, and the kernel's metadata of the packet.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const PROTOCOL_AT: u32 = 0xffff_f000;
const PACKET_TYPE_AT: u32 = 0xffff_f004;

/// Lets frames of the test pass that arrive: IPv4 without options, UDP, with the ports of the test; up to the end of
/// the tag.
pub(crate) const FILTER: [FilterStep; 14] = [
    (LOAD_BYTE, 0, 0, PACKET_TYPE_AT),
    (EQUAL, 11, 0, OUTGOING as u32),
    (LOAD_HALF, 0, 0, PROTOCOL_AT),
    (EQUAL, 0, 9, 0x0800),
    (LOAD_BYTE, 0, 0, 0),
    (EQUAL, 0, 7, 0x45),
    (LOAD_BYTE, 0, 0, 9),
    (EQUAL, 0, 5, 17),
    (LOAD_HALF, 0, 0, 20),
    (EQUAL, 0, 3, PORTS[0] as u32),
    (LOAD_HALF, 0, 0, 22),
    (EQUAL, 0, 1, PORTS[1] as u32),
    (RETURN, 0, 0, IP_TAGGED_BYTE as u32),
    (RETURN, 0, 0, 0),
];

/// A ring at the receiving port.
#[derive(Debug)]
pub(crate) struct RingAnalyser {
    ring: PacketRing,
    wall: ClockOffset,
    /// Frames that found no room, up to the end of the trial before.
    missed_before: u64,
    /// Frames that were read.
    taken: u64,
}

impl RingAnalyser {
    pub(crate) fn open(options: &TesterOptions, rx: &Port) -> Result<Self, TesterError> {
        let bytes = options.most_frames.clamp(1_000, MOST_KEPT) * RECORD_BYTE;
        // At least eight: the kernel fills one while others are read.
        let blocks = (bytes.div_ceil(BLOCK_BYTE.into()) as u32).max(8);
        let size = RingSize { block_byte: BLOCK_BYTE, blocks, retire_ms: RETIRE_MS };
        Ok(Self {
            ring: PacketRing::open(rx.index, &FILTER, size)?,
            wall: ClockOffset::wall(BRACKETS, clocks::now),
            missed_before: 0,
            taken: 0,
        })
    }

    /// Counts what has come.
    pub(crate) fn drain(&mut self, shared: &Shared) -> Result<(), TesterError> {
        if self.wall.is_old(clocks::now::<Monotonic>()) {
            self.wall.renew(ClockOffset::wall(BRACKETS, clocks::now));
        }
        let Self { ring, wall, taken, .. } = self;
        *taken += ring.drain(|packet| {
            let at = wall.convert(packet.wall_ns).map(vtare_units::Timestamp::<Monotonic>::as_nanos);
            if let (Some((tag, ends)), Some(at_ns)) = (frame::read(packet.bytes), at) {
                shared.count(&ReceivedFrame { tag, ends, at_ns });
            }
        }) as u64;
        Ok(())
    }

    /// Whether frames have come that the kernel has not handed over yet: it does so by blocks, and late where its
    /// timers are.
    pub(crate) fn holds_some(&mut self) -> Result<bool, TesterError> {
        let counts = self.ring.counts()?;
        Ok(counts.packets.saturating_sub(counts.drops) > self.taken)
    }

    /// Frames that found no room since this was last asked.
    pub(crate) fn missed(&mut self) -> Result<u64, TesterError> {
        let drops = self.ring.counts()?.drops;
        Ok(drops - std::mem::replace(&mut self.missed_before, drops))
    }
}
