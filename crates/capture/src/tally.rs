use crate::header::NoPacket;
use crate::probe::Found;

/// What a capture counted beside the probes that it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Probes that were seen and lost, because there was no room for them.
    pub lost: u64,
    /// Packets whose headers could not be read whole.
    pub cut: u64,
    /// Later fragments of packets, which lack the ports.
    pub fragments: u64,
    /// Large packets that held several probes.
    pub merged: u64,
    /// Large packets whose number of probes is not known.
    pub unsplit: u64,
    /// Probes in large packets that were not captured far enough to be read.
    pub unread: u64,
    /// Packets at the captured ports that are no probes.
    pub foreign: u64,
}

impl Tally {
    /// Takes in what was found in one packet.
    pub fn add(&mut self, found: Found) {
        self.merged += u64::from(found.unsplit || found.probes + found.unread > 1);
        self.unsplit += u64::from(found.unsplit);
        self.unread += u64::from(found.unread);
        self.foreign += u64::from(found == Found::default());
    }

    /// Takes in a frame that was no packet that could be a probe.
    pub fn refuse(&mut self, why: NoPacket) {
        match why {
            NoPacket::Cut => self.cut += 1,
            NoPacket::Fragment => self.fragments += 1,
            NoPacket::Other(_) => {}
        }
    }
}
