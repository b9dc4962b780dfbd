use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Random, Timestamp};

use crate::error::{SimError, probability};
use crate::hop::{Hop, HopCount, HopSpec, Passed};

/// Hops in a row, and what happens behind the last of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// From sender to receiver. No hops: a wire without delay.
    pub hops: Vec<HopSpec>,
    /// Some packets take longer and so change places with those behind them.
    #[serde(default)]
    pub detour: Detour,
    /// Some packets come twice.
    #[serde(default)]
    pub duplication: Duplication,
}

/// Packets that take longer, at the end of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Detour {
    /// Share of packets that take it.
    pub probability: f64,
    /// How much longer it takes, ns.
    pub extra_ns: u64,
}

/// Packets that come twice, at the end of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Duplication {
    /// Share of packets that come twice.
    pub probability: f64,
    /// How long after the first the second comes, ns.
    pub after_ns: u64,
}

impl PathSpec {
    /// The truth for an estimator: the least available rate of all hops at a time, bit/s, from the mean rates of the
    /// cross traffic; `None` without hops.
    #[must_use]
    pub fn available_at(&self, at: Timestamp<Monotonic>) -> Option<u64> {
        self.hops.iter().map(|hop| hop.available_at(at.as_nanos())).min()
    }

    /// The capacity of the narrow link at a time, bit/s; `None` without hops.
    #[must_use]
    pub fn capacity_at(&self, at: Timestamp<Monotonic>) -> Option<u64> {
        self.hops.iter().map(|hop| hop.capacity_at(at.as_nanos())).min()
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// The loss model of this hop (from 0) took it.
    Lost(usize),
    /// The queue of this hop was full.
    Dropped(usize),
}

/// One packet's way along a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// What became of it.
    pub fate: Fate,
    /// When it arrived.
    pub arrived: Option<Timestamp<Monotonic>>,
    /// When its copy arrived, where there was one.
    pub copy: Option<Timestamp<Monotonic>>,
    /// It arrived with the mark of congestion.
    pub marked: bool,
}

/// One direction of a simulated path.
///
/// ```
/// use vtare_pathsim::{HopSpec, Path, PathSpec};
/// use vtare_units::Timestamp;
/// // 100 Mbit/s and 5 ms: 1250 B take 100 us to send.
/// let hops = vec![HopSpec::new(100_000_000, 100_000, 5_000_000)];
/// let mut path = Path::new(&PathSpec { hops, ..PathSpec::default() }, 1)?;
/// let at = |us: u64| Timestamp::from_nanos(us * 1_000);
/// assert_eq!(path.send(at(0), 1250).arrived, Some(at(5_100)));
/// // The second one, sent at once, waits for the first.
/// assert_eq!(path.send(at(0), 1250).arrived, Some(at(5_200)));
/// # Ok::<(), vtare_pathsim::SimError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Path {
    hops: Vec<Hop>,
    detour: Detour,
    duplication: Duplication,
    random: Random,
}

impl Path {
    /// The path of `spec`; `seed` fixes all that is random on it.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn new(spec: &PathSpec, seed: u64) -> Result<Self, SimError> {
        probability("detour", spec.detour.probability)?;
        probability("duplication", spec.duplication.probability)?;
        let mut seeds = Random::part(seed, 1);
        let hops = spec.hops.iter().map(|hop| Hop::new(hop, seeds.bits())).collect::<Result<_, _>>()?;
        Ok(Self { hops, detour: spec.detour, duplication: spec.duplication, random: Random::part(seed, 0) })
    }

    /// Sends an IP packet of `size_byte` at `at`. Packets are to be sent in the order of time; one that comes with an
    /// earlier time enters the queues behind the one before it.
    pub fn send(&mut self, at: Timestamp<Monotonic>, size_byte: u32) -> Passage {
        let (mut at_ns, mut marked) = (at.as_nanos(), false);
        let gone = |fate| Passage { fate, arrived: None, copy: None, marked: false };
        // Queues keep the order, so a packet can pass all of them before the next one is checked.
        for (number, hop) in self.hops.iter_mut().enumerate() {
            at_ns = match hop.pass(at_ns, size_byte) {
                Passed::At(there, mark) => {
                    marked |= mark;
                    there
                }
                Passed::Lost => return gone(Fate::Lost(number)),
                Passed::Dropped => return gone(Fate::Dropped(number)),
            };
        }
        if self.random.chance(self.detour.probability) {
            at_ns = at_ns.saturating_add(self.detour.extra_ns);
        }
        let copied = self.random.chance(self.duplication.probability);
        let copy = copied.then(|| Timestamp::from_nanos(at_ns.saturating_add(self.duplication.after_ns)));
        Passage { fate: Fate::Arrived, arrived: Some(Timestamp::from_nanos(at_ns)), copy, marked }
    }

    /// Lets cross traffic run up to `at`, so that [`Path::counts`] is complete for that time. No packet may be sent
    /// before it then.
    pub fn run_until(&mut self, at: Timestamp<Monotonic>) {
        self.hops.iter_mut().for_each(|hop| hop.run_until(at.as_nanos()));
    }

    /// What each hop counted so far.
    pub fn counts(&self) -> impl Iterator<Item = HopCount> {
        self.hops.iter().map(Hop::count)
    }
}
