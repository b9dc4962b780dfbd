use serde::{Deserialize, Serialize};

/// Datagrams that were lost on this host, as far as it counts them. `None`: not counted by this link, which is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LocalDrops {
    /// Arrived, but the socket's or ring's buffer was full (SO_MEMINFO, ring statistics).
    pub receive_buffer: Option<u64>,
    /// Accepted by the kernel and dropped before the wire (the interface's counters).
    pub interface_tx: Option<u64>,
    /// Dropped by the interface before the socket saw them.
    pub interface_rx: Option<u64>,
    /// Accepted by the kernel and dropped by the queue discipline, because their launch time had passed; `None` where
    /// none was asked for.
    pub launch_missed: Option<u64>,
    /// The same, because something was wrong with their launch time.
    pub launch_invalid: Option<u64>,
    /// Arrived whole, but were no valid datagram of the session (set by the loop above the link).
    pub foreign: u64,
}

impl LocalDrops {
    /// Datagrams that the kernel took and that never left, as far as anybody counted them.
    #[must_use]
    pub fn before_the_wire(&self) -> Option<u64> {
        [self.interface_tx, self.launch_missed, self.launch_invalid].into_iter().flatten().reduce(|a, b| a + b)
    }
}
