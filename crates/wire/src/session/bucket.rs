use vtare_units::{Monotonic, Timestamp};

/// A limit of rate in exact integers: the generic cell rate algorithm.
///
/// `burst` packets may come at once; over any longer time at most `rate` a second pass.
//= ITU-T I.371, A.1 (virtual scheduling)
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate_packet_per_s: u64,
    /// How far ahead of the time the next conforming packet may be, in 1/rate ns.
    tolerance: u128,
    /// When the next packet would be due at the rate, in 1/rate ns.
    due: u128,
}

const PACKET: u128 = 1_000_000_000;

impl Bucket {
    /// A full bucket. At a rate of 0 nothing passes.
    #[must_use]
    pub const fn new(rate_packet_per_s: u64, burst_packet: u64) -> Self {
        Self { rate_packet_per_s, tolerance: burst_packet.saturating_sub(1) as u128 * PACKET, due: 0 }
    }

    /// Whether a packet that comes at `now` conforms; only then is it counted.
    pub fn admit(&mut self, now: Timestamp<Monotonic>) -> bool {
        let now = u128::from(now.as_nanos()) * u128::from(self.rate_packet_per_s);
        if self.rate_packet_per_s == 0 || self.due > now + self.tolerance {
            return false;
        }
        self.due = self.due.max(now) + PACKET;
        true
    }
}
