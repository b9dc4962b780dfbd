use serde::Serialize;

/// The length of a [`Bin`], ns.
pub const BIN_NS: u64 = 10_000_000;

/// What happened in one direction within 10 ms: all frames that arrived in it, by the kernel's stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Its start, ns since the emulator's.
    pub start_ns: u64,
    /// Mean rate at which the queue could be served, bit/s; `None` where there is no limit.
    pub capacity_bit_per_s: Option<u64>,
    /// Bytes of cross traffic that entered the queue: all that are not probes.
    pub cross_byte: u64,
    /// Bytes of probes that entered the queue.
    pub probe_byte: u64,
    /// Bytes in the queue at the end.
    pub queue_byte: u64,
    /// The most bytes that were in the queue.
    pub queue_most_byte: u64,
    /// Frames of cross traffic and of probes that found the queue full.
    pub overflow_packet: u64,
    /// Frames that the loss model took.
    pub lost_packet: u64,
    /// Frames that this program could not carry; see [`LaneCount::unable_packet`].
    pub unable_packet: u64,
    /// Frames that the socket dropped because this program did not get its turn, noticed in this time; large ones
    /// count once.
    pub socket_drop_frame: u64,
}

impl Bin {
    /// Capacity less the rate of the cross traffic that entered the queue, bit/s; not below 0. `None` where the
    /// capacity has no limit.
    #[must_use]
    pub fn available_bit_per_s(&self) -> Option<u64> {
        let cross = self.cross_byte.saturating_mul(8).saturating_mul(1_000_000_000 / BIN_NS);
        self.capacity_bit_per_s.map(|capacity| capacity.saturating_sub(cross))
    }
}

/// What one direction counted. `arrived = lost + overflow + unable + admitted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LaneCount {
    /// Frames that arrived, as they are on the wire: a large one that is to be cut counts as its pieces.
    pub arrived_packet: u64,
    /// Their bytes at the lane's layer.
    pub arrived_byte: u64,
    /// Frames taken by the loss model.
    pub lost_packet: u64,
    /// Frames that found the queue full.
    pub overflow_packet: u64,
    /// Frames that this program could not carry: no memory, cut short, or of a kind that it cannot cut.
    pub unable_packet: u64,
    /// Frames that entered the queue.
    pub admitted_packet: u64,
    /// Their bytes.
    pub admitted_byte: u64,
    /// Of those, bytes of probes.
    pub probe_byte: u64,
    /// Frames that got a copy.
    pub duplicated_packet: u64,
    /// Frames that were sent on the longer way.
    pub reordered_packet: u64,
    /// Frames of which a bit was turned over.
    pub corrupted_packet: u64,
    /// Packets that got the mark of congestion.
    pub marked_packet: u64,
}
