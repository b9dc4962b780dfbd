//! Active queue management: what drops packets before the buffer is full.

use serde::{Deserialize, Serialize};
use vtare_units::Random;

use crate::error::{SimError, above_zero, probability};

/// What drops packets of a queue before its buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Aqm {
    /// Nothing: drop-tail.
    #[default]
    None,
    /// CoDel: when packets have waited longer than the target for an interval, one is dropped as it leaves the queue,
    /// and then more and more often until they wait less.
    //= RFC 8289, section 5
    Codel {
        /// Wait that is allowed to stay, ns; 5 ms is usual.
        target_ns: u64,
        /// For how long packets may wait longer, ns; 100 ms is usual.
        interval_ns: u64,
    },
    /// RED: each packet is dropped as it comes, with a probability that grows with the mean length of the queue.
    //= Floyd, Jacobson 1993, sections 4 and 11; above `most_byte` the probability grows on to 1 ("gentle")
    Red {
        /// Mean length below which nothing is dropped, bytes.
        least_byte: u64,
        /// Mean length at which the probability is `most_probability`, bytes; twice as long: 1.
        most_byte: u64,
        /// Probability at `most_byte`.
        most_probability: f64,
        /// Weight of the present length in the mean, at each packet; 0.002 is usual.
        weight: f64,
    },
}

impl Aqm {
    /// CoDel as RFC 8289 has it: 5 ms and 100 ms.
    #[must_use]
    pub const fn codel() -> Self {
        Self::Codel { target_ns: 5_000_000, interval_ns: 100_000_000 }
    }

    /// Whether there can be such a queue.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn check(&self) -> Result<(), SimError> {
        match *self {
            Self::None => Ok(()),
            Self::Codel { target_ns, interval_ns } => {
                above_zero("target of CoDel", target_ns)?;
                above_zero("interval of CoDel", interval_ns)
            }
            Self::Red { least_byte, most_byte, most_probability, weight } => {
                above_zero("least length of RED", least_byte)?;
                above_zero("most length of RED, less the least", most_byte.saturating_sub(least_byte))?;
                probability("drop probability of RED", most_probability)?;
                probability("weight of RED", weight)
            }
        }
    }
}

/// What a packet meets that would be let into the queue.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it comes, ns.
    pub at_ns: u64,
    /// When all before it has been sent and its own turn comes, ns.
    pub turn_ns: u64,
    /// What is queued before it, bytes.
    pub queued_byte: u64,
    /// Rate at which the queue is served, bit/s.
    pub capacity_bit_per_s: u64,
    /// Its size, bytes.
    pub size_byte: u32,
}

/// An [`Aqm`] under way. A queue is first in, first out, so what becomes of a packet at its turn is known when it
/// comes: it depends on packets before it only. (CoDel's exception, a queue of at most one packet, depends on those
/// behind and is left out; a packet that it drops takes room in the buffer only until the drop is decided.)
#[derive(Clone, Debug)]
pub struct Manager {
    aqm: Aqm,
    random: Random,
    codel: CodelState,
    red: RedState,
}

#[derive(Clone, Copy, Debug, Default)]
struct CodelState {
    /// When the wait will have been too long for an interval; `None`: it is not too long.
    above_until_ns: Option<u64>,
    dropping: bool,
    next_ns: u64,
    count: u64,
    last_count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RedState {
    mean_byte: f64,
    /// Packets since the last one dropped; `None`: below the least length.
    since: Option<u64>,
    /// When the queue runs empty after the last packet, ns.
    empty_ns: u64,
}

impl Manager {
    /// The queue management of an empty queue.
    #[must_use]
    pub fn new(aqm: Aqm, random: Random) -> Self {
        Self { aqm, random, codel: CodelState::default(), red: RedState::default() }
    }

    /// Whether it drops the packet.
    pub fn drops(&mut self, packet: &Arrival) -> bool {
        match self.aqm {
            Aqm::None => false,
            Aqm::Codel { target_ns, interval_ns } => self.codel.drops(packet, target_ns, interval_ns),
            Aqm::Red { least_byte, most_byte, most_probability, weight } => {
                let share = self.red.probability(packet, (least_byte, most_byte), most_probability, weight);
                let drops = share.is_some_and(|share| self.random.chance(share));
                if drops {
                    self.red.since = Some(0);
                }
                drops
            }
        }
    }
}

impl CodelState {
    //= RFC 8289, section 5.5: dequeue and dodequeue, one packet at a time
    fn drops(&mut self, packet: &Arrival, target_ns: u64, interval_ns: u64) -> bool {
        let now = packet.turn_ns;
        let waited = now.saturating_sub(packet.at_ns);
        let too_long = if waited < target_ns {
            self.above_until_ns = None;
            false
        } else {
            now >= *self.above_until_ns.get_or_insert(now.saturating_add(interval_ns))
        };
        let law = |from: u64, count: u64| from.saturating_add((interval_ns as f64 / (count as f64).sqrt()) as u64);
        if self.dropping {
            self.dropping = too_long;
            if !too_long || now < self.next_ns {
                return false;
            }
            self.count += 1;
            self.next_ns = law(self.next_ns, self.count);
            return true;
        }
        if !too_long {
            return false;
        }
        self.dropping = true;
        let more = self.count - self.last_count;
        let recent = now.saturating_sub(self.next_ns) < 16 * interval_ns;
        self.count = if more > 1 && recent { more } else { 1 };
        self.last_count = self.count;
        self.next_ns = law(now, self.count);
        true
    }
}

impl RedState {
    /// The probability of a drop; `None` below the least length.
    fn probability(&mut self, packet: &Arrival, lengths: (u64, u64), most: f64, weight: f64) -> Option<f64> {
        if packet.queued_byte == 0 {
            // The mean falls as if as many small packets had come as the idle time had room for.
            let idle_ns = packet.at_ns.saturating_sub(self.empty_ns) as f64;
            let packet_ns = f64::from(packet.size_byte) * 8e9 / packet.capacity_bit_per_s.max(1) as f64;
            self.mean_byte *= (1.0 - weight).powf(idle_ns / packet_ns);
        } else {
            self.mean_byte += weight * (packet.queued_byte as f64 - self.mean_byte);
        }
        self.empty_ns = packet.turn_ns;
        let (least, top) = (lengths.0 as f64, lengths.1 as f64);
        if self.mean_byte < least {
            self.since = None;
            return None;
        }
        if self.mean_byte >= top {
            self.since = Some(0);
            return Some((most + (1.0 - most) * (self.mean_byte - top) / top).min(1.0));
        }
        let plain = most * (self.mean_byte - least) / (top - least);
        let since = self.since.map_or(0, |since| since + 1);
        self.since = Some(since);
        // Evenly apart instead of at random.
        let left = 1.0 - since as f64 * plain;
        Some(if left > plain { plain / left } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use vtare_units::Timestamp;

    use super::*;
    use crate::{HopSpec, Path, PathSpec, SimError};

    const MBIT: u64 = 1_000_000;

    fn path(aqm: Aqm) -> Path {
        let hop = HopSpec { aqm, ..HopSpec::new(12 * MBIT, 1_500_000, 0) };
        Path::new(&PathSpec { hops: vec![hop], ..PathSpec::default() }, 7).expect("a good path")
    }

    /// Sends 1500 B every `gap_us` (1 ms is the link's rate) for `count` packets: the wait of each that arrived, ms.
    fn waits(path: &mut Path, gap_us: u64, count: u64) -> Vec<Option<f64>> {
        let sent = (0..count).map(|number| {
            let at = Timestamp::from_nanos(number * gap_us * 1_000);
            path.send(at, 1_500).arrived.map(|arrived| (arrived - at).as_nanos() as f64 / 1e6 - 1.0)
        });
        sent.collect()
    }

    fn drops(waits: &[Option<f64>]) -> Vec<usize> {
        waits.iter().enumerate().filter(|(_, wait)| wait.is_none()).map(|(number, _)| number).collect()
    }

    #[test]
    fn codel_leaves_a_queue_alone_that_is_short_or_only_for_a_while() {
        assert_eq!(drops(&waits(&mut path(Aqm::codel()), 1_000, 2_000)), [0; 0]);
        // 90 ms of standing queue: not yet an interval above the target.
        assert_eq!(drops(&waits(&mut path(Aqm::codel()), 0, 90)), [0; 0]);
    }

    #[test]
    fn codel_drops_after_an_interval_above_the_target_and_then_faster_by_the_root_of_the_count() {
        // A burst of 500 ms: packet n has its turn n ms after the first, less one for each dropped before it. The wait
        // exceeds 5 ms from packet 5 on, so the first drop is 100 ms later; then 100/sqrt(1), 100/sqrt(2), ... ms.
        let dropped = drops(&waits(&mut path(Aqm::codel()), 0, 500));
        let turns: Vec<f64> =
            dropped.iter().zip(0..).map(|(number, before)| *number as f64 - f64::from(before)).collect();
        let mut due = 105.0;
        let wanted: Vec<f64> = (1..)
            .map(|count| {
                let at: f64 = due;
                due += 100.0 / f64::from(count).sqrt();
                at.ceil()
            })
            .take_while(|at| *at < 490.0)
            .collect();
        assert!(wanted.len() >= 6 && turns.len() >= wanted.len(), "{turns:?} {wanted:?}");
        turns.iter().zip(&wanted).for_each(|(turn, at)| assert!((turn - at).abs() <= 1.0, "{turns:?} {wanted:?}"));
    }

    #[test]
    fn codel_keeps_an_overload_near_its_target_where_drop_tail_fills_the_buffer() {
        // 5 % more than the link carries, for 20 s.
        let last = |aqm| {
            let waits = waits(&mut path(aqm), 952, 21_000);
            let late: Vec<f64> = waits[15_000..].iter().flatten().copied().collect();
            late.iter().sum::<f64>() / late.len() as f64
        };
        let (tail, codel) = (last(Aqm::None), last(Aqm::codel()));
        assert!(tail > 700.0, "{tail}");
        assert!(codel < 40.0, "{codel}");
    }

    const RED: Aqm = Aqm::Red { least_byte: 30_000, most_byte: 90_000, most_probability: 0.1, weight: 0.002 };

    #[test]
    fn red_passes_a_burst_and_cuts_a_queue_that_stands() {
        // The mean of a burst of 60 packets stays below 30 kB.
        assert_eq!(drops(&waits(&mut path(RED), 0, 60)), [0; 0]);
        // 5 % too much for 20 s: the mean settles where 5 % are dropped, between the lengths: 20 to 60 ms of queue.
        let long = waits(&mut path(RED), 952, 21_000);
        let late: Vec<f64> = long[10_000..].iter().flatten().copied().collect();
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        assert!((20.0..60.0).contains(&mean), "{mean}");
        let share = drops(&long[10_000..]).len() as f64 / 11_000.0;
        assert!((0.04..0.06).contains(&share), "{share}");
    }

    #[test]
    fn the_mean_of_red_falls_while_the_link_is_idle() {
        let mut state = RedState { mean_byte: 60_000.0, since: Some(3), empty_ns: 0 };
        let later = Arrival {
            at_ns: 1_000_000_000,
            turn_ns: 1_000_000_000,
            queued_byte: 0,
            capacity_bit_per_s: 12 * MBIT,
            size_byte: 1_500,
        };
        // 1000 packet times at 0.2 % each: to e^-2.
        assert_eq!(state.probability(&later, (30_000, 90_000), 0.1, 0.002), None);
        assert!((state.mean_byte / 60_000.0 - 0.1353).abs() < 0.001, "{}", state.mean_byte);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |aqm: Aqm| aqm.check().expect_err("it cannot be").to_string();
        assert_eq!(refused(Aqm::Codel { target_ns: 0, interval_ns: 1 }), "target of CoDel is 0: use more");
        let Aqm::Red { least_byte, weight, .. } = RED else { unreachable!("it is RED") };
        let red = |most_byte, most_probability| Aqm::Red { least_byte, most_byte, most_probability, weight };
        assert_eq!(refused(red(30_000, 0.1)), "most length of RED, less the least is 0: use more");
        assert_eq!(
            red(60_000, 1.5).check(),
            Err(SimError::Probability { what: "drop probability of RED", found: 1.5 })
        );
        let hop = HopSpec { aqm: red(30_000, 0.1), ..HopSpec::new(MBIT, 1_500, 0) };
        assert!(Path::new(&PathSpec { hops: vec![hop], ..PathSpec::default() }, 1).is_err());
    }
}
