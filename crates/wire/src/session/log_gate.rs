use vtare_units::{Monotonic, Span, Timestamp};

/// Lets one message through in every interval and counts the others, so that a flood of bad datagrams does not become a
/// flood of lines.
#[derive(Clone, Copy, Debug)]
pub struct LogGate {
    interval: Span,
    open_at: Timestamp<Monotonic>,
    held_back: u64,
}

impl LogGate {
    /// A gate that opens once every `interval`, and at once the first time.
    #[must_use]
    pub const fn new(interval: Span) -> Self {
        Self { interval, open_at: Timestamp::ZERO, held_back: 0 }
    }

    /// Whether to log it now: `Some` with the number of messages held back since the last one that was logged.
    pub fn admit(&mut self, now: Timestamp<Monotonic>) -> Option<u64> {
        if now < self.open_at {
            self.held_back += 1;
            return None;
        }
        self.open_at = now + self.interval;
        Some(std::mem::take(&mut self.held_back))
    }
}
