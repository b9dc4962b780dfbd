use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Timestamp};

use crate::noise::{Lateness, Noise};

/// One of the two machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndSpec {
    /// How late its program is: to send (near end), to answer (far end).
    pub send_noise: Noise,
    /// How late its program is to get what has arrived.
    pub receive_noise: Noise,
    /// Arrivals are handed over together, this long after the first of them, as interrupt moderation and GRO do; they
    /// then share one kernel stamp. 0: each at once.
    pub coalesce_ns: u64,
    /// Datagrams that may wait for the program; more are dropped and counted. `None`: any number.
    pub receive_room: Option<usize>,
}

/// What happens to datagrams between a host's card and its program.
#[derive(Debug)]
pub struct Host {
    coalesce_ns: u64,
    /// When the present batch of arrivals is handed over.
    batch_at: Timestamp<Monotonic>,
    room: usize,
    /// When each waiting datagram will be taken by the program.
    waiting: VecDeque<Timestamp<Monotonic>>,
    program: Lateness,
    last_taken: Timestamp<Monotonic>,
    dropped: u64,
}

impl Host {
    /// The host at time 0.
    #[must_use]
    pub fn new(spec: &EndSpec) -> Self {
        Self {
            coalesce_ns: spec.coalesce_ns,
            batch_at: Timestamp::ZERO,
            room: spec.receive_room.unwrap_or(usize::MAX),
            waiting: VecDeque::new(),
            program: Lateness::new(&spec.receive_noise),
            last_taken: Timestamp::ZERO,
            dropped: 0,
        }
    }

    /// Datagrams for which there was no room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The kernel's stamp of a datagram that reaches the card at `at`, and when the program gets it; `None`: no room.
    pub fn take(&mut self, at: Timestamp<Monotonic>) -> Option<(Timestamp<Monotonic>, Timestamp<Monotonic>)> {
        if at > self.batch_at {
            self.batch_at = Timestamp::from_nanos(at.as_nanos().saturating_add(self.coalesce_ns));
        }
        let stamp = self.batch_at;
        while self.waiting.front().is_some_and(|&taken| taken <= stamp) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= self.room {
            self.dropped += 1;
            return None;
        }
        // A program takes datagrams in their order.
        let taken = Timestamp::from_nanos(self.program.act(stamp.as_nanos())).max(self.last_taken);
        self.last_taken = taken;
        if taken > stamp {
            self.waiting.push_back(taken);
        }
        Some((stamp, taken))
    }
}
