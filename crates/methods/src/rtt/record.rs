use serde::Serialize;
use vtare_units::{Monotonic, Span, Timestamp};

use super::{FarEnd, Unsent};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was never sent.
    Unsent(Unsent),
    /// Its reply came in time.
    Received,
    /// Its reply came after the timeout: lost.
    Late,
    /// No reply came.
    Lost,
}

/// One slot of a run, complete. What is missing is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub sequence: u64,
    /// When it was due.
    pub scheduled: Timestamp<Monotonic>,
    /// When it was handed to the kernel. Of a launched packet: when it left, or, where that was not stamped, its
    /// launch time.
    pub sent: Option<Timestamp<Monotonic>>,
    /// `sent` is the launch time asked for, and nobody stamped the departure.
    pub sent_asked: bool,
    /// When it left the kernel or the card.
    pub kernel_tx: Option<Timestamp<Monotonic>>,
    /// When the reply came to the kernel or the card.
    pub kernel_rx: Option<Timestamp<Monotonic>>,
    /// When the program got the reply.
    pub arrived: Option<Timestamp<Monotonic>>,
    /// What the reply reports of the far end.
    pub far_end: FarEnd,
    /// What became of it.
    pub fate: Fate,
    /// Its reply came after that of a later packet.
    pub reordered: bool,
    /// Replies beyond the first.
    pub duplicates: u32,
}

impl Record {
    /// Round-trip time from the actual send to the program's receipt.
    #[must_use]
    pub fn rtt(&self) -> Option<Span> {
        Some(self.arrived? - self.sent?)
    }

    /// Round-trip time from the scheduled send to the program's receipt.
    #[must_use]
    pub fn rtt_scheduled(&self) -> Option<Span> {
        self.sent?;
        Some(self.arrived? - self.scheduled)
    }

    /// Round-trip time between the kernel's two stamps: without this host's program and wake-ups.
    #[must_use]
    pub fn rtt_kernel(&self) -> Option<Span> {
        Some(self.kernel_rx? - self.kernel_tx?)
    }

    /// How late it was sent; nothing is known of that where only a wish stands for the send time.
    #[must_use]
    pub fn pacing_error(&self) -> Option<Span> {
        Some(self.sent.filter(|_| !self.sent_asked)? - self.scheduled)
    }
}
