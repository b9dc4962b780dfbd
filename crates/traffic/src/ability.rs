use serde::{Deserialize, Serialize};

/// What the sender and the path can carry: a method plans within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ability {
    /// Bytes of the headers from the IP header up to the payload: 28 for IPv4 and UDP, 48 for IPv6.
    pub ip_header_byte: u32,
    /// Largest IP packet that passes without fragments: the path MTU.
    pub most_packet_byte: u32,
    /// Least IP packet: headers and what the probe format needs.
    pub least_packet_byte: u32,
    /// Least time between two sends of the program, ns: what one system call takes.
    pub least_gap_ns: f64,
    /// Packets that may leave in one call (UDP_SEGMENT); 1: each needs a call of its own.
    pub most_group: u32,
    /// Packets that a train may have at most.
    pub most_packets: u32,
    /// How finely arrivals are stamped, ns: the larger of clock quantum and half the stamp's stated error.
    pub stamp_error_ns: f64,
}

impl Default for Ability {
    /// Ethernet over IPv4, single sends of 1 us each, stamps to 100 ns.
    fn default() -> Self {
        Self {
            ip_header_byte: 28,
            most_packet_byte: 1500,
            least_packet_byte: 64,
            least_gap_ns: 1_000.0,
            most_group: 1,
            most_packets: 20_000,
            stamp_error_ns: 100.0,
        }
    }
}

impl Ability {
    /// The highest rate at which packets of `size_byte` can be sent as evenly spaced groups of at most `most_group`,
    /// bit/s.
    #[must_use]
    pub fn most_bit_per_s(&self, size_byte: u32) -> f64 {
        f64::from(size_byte) * 8e9 * f64::from(self.most_group.max(1)) / self.least_gap_ns.max(1e-3)
    }
}
