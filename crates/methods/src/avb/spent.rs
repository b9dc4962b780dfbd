use vtare_traffic::{Observation, Train};
use vtare_units::{Monotonic, Timestamp};

use super::stopped::Stopped;

/// What a measurement may use up. A method stops before the train that would exceed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Bytes of probe packets (IP); `None`: what the method needs.
    pub most_byte: Option<u64>,
    /// The bytes may be as many as the path carries in this time, ns, where that is more; 0: never more than those.
    pub carried_ns: u64,
    /// Then as many as these at most; `None`: no such limit.
    pub carried_byte: Option<u64>,
    /// Time from the first step, ns; `None`: what the method needs.
    pub most_ns: Option<u64>,
}

/// What has been spent, and whether there is room for more: the same book-keeping for every method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// When the measurement began.
    pub began: Option<Timestamp<Monotonic>>,
    /// The latest time known.
    pub now: Option<Timestamp<Monotonic>>,
    /// Bytes of probes sent (IP).
    pub probe_byte: u64,
    /// Packets sent.
    pub packets: u64,
    /// Trains sent.
    pub trains: u32,
}

impl Spent {
    /// Time goes on to `now`; the first call begins the measurement.
    pub fn at(&mut self, now: Timestamp<Monotonic>) {
        self.began.get_or_insert(now);
        self.now = self.now.max(Some(now));
    }

    /// Counts a train that was sent.
    pub fn sent(&mut self, observation: &Observation) {
        let sent = observation.packets.iter().filter(|packet| packet.sent.is_some());
        let (packets, bytes) = sent.fold((0, 0), |(n, sum), packet| (n + 1, sum + u64::from(packet.size_byte)));
        self.packets += packets;
        self.probe_byte += bytes;
        self.trains += 1;
        self.at(observation.finished);
    }

    /// Time since the beginning, s.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.began.zip(self.now).map_or(0.0, |(began, now)| (now - began).as_secs_f64())
    }

    /// Why `train` may not be sent any more, where it may not.
    #[must_use]
    pub fn forbids(&self, budget: &Budget, train: &Train) -> Option<Stopped> {
        if budget.most_byte.is_some_and(|most| self.probe_byte + train.bytes() > most) {
            return Some(Stopped::ByteBudget);
        }
        let more_s = (train.idle_before_ns as f64 + train.duration_ns()) / 1e9;
        let over = budget.most_ns.is_some_and(|most| self.elapsed_s() + more_s > most as f64 / 1e9);
        over.then_some(Stopped::TimeBudget)
    }
}
