//! Probes as a capture point on a host sees them (docs/capture.md).
//!
//! - [`frame`]: from the bytes of a frame to its IP and UDP or ICMP headers.
//! - [`probe`]: from those to a probe: whose it is, which number it has, whether it asks or answers.
//! - [`pcap`]: frames out of files, as tcpdump and others write them.
//! - [`tc`]: probes by programs in the kernel at the entry and exit of an interface.
//! - [`ring`]: probes by an AF_PACKET ring.
//!
//! Nothing here knows a key: what is seen is what the packets say, unverified.

pub mod frame;
pub mod pcap;
pub mod probe;
pub mod ring;
#[cfg(test)]
mod sample;
pub mod tc;

/// Which way a packet crossed the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// It came in.
    Rx,
    /// It went out.
    Tx,
}

impl Direction {
    /// `rx` or `tx`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
        }
    }
}

/// What a capture counted beside the probes that it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Probes that were seen and lost, because there was no room for them.
    pub lost: u64,
    /// Packets whose headers could not be read whole.
    pub cut: u64,
    /// Later fragments of packets, which do not say whose they are.
    pub fragments: u64,
    /// Large packets that held several probes.
    pub merged: u64,
    /// Large packets of which nobody can tell how many probes they held.
    pub unsplit: u64,
    /// Probes in large packets that were not captured far enough to be read.
    pub unread: u64,
    /// Packets at the ports looked at that are no probes.
    pub foreign: u64,
}

impl Tally {
    /// Takes in what was found in one packet.
    pub fn add(&mut self, found: probe::Found) {
        self.merged += u64::from(found.unsplit || found.probes + found.unread > 1);
        self.unsplit += u64::from(found.unsplit);
        self.unread += u64::from(found.unread);
        self.foreign += u64::from(found == probe::Found::default());
    }

    /// Takes in a frame that was no packet that could be a probe.
    pub fn refuse(&mut self, why: frame::NoPacket) {
        match why {
            frame::NoPacket::Cut => self.cut += 1,
            frame::NoPacket::Fragment => self.fragments += 1,
            frame::NoPacket::Other => {}
        }
    }
}
