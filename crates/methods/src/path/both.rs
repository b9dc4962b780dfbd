//! Round trips while both directions are filled at once.
//!
//! Trains to the far end and from there overlap where packets come and leave on one clock: here. A packet from there
//! that came at `t` and the next one that left from here have waited in both queues, one behind the other: a round trip
//! as the far end sees it, without the time between the two. Clocks of both ends cancel out, as in any round trip.

use super::trace::Probe;
use super::{PathProbe, Stage};
use crate::avb::median;

/// What round trips were while the queues of both directions were filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both {
    /// Above the round trip of the idle path, median, ns.
    pub added_ns: f64,
    /// Round trips measured.
    pub round_trips: u64,
}

/// How long after the first packet from there a train to the far end is to begin, ns: the head of the train from there
/// has left its queue then, and the queue is full.
#[must_use]
pub fn forth_after_ns(back: &PathProbe) -> f64 {
    back.depth().map_or(0.0, |depth| back.trains.head_share * depth.time_ns)
}

/// What the last trains of both directions show, sent at once: `forth` left from here, `back` arrived here, on the same
/// clock. `None` where they did not overlap.
#[must_use]
pub fn both(forth: &PathProbe, back: &PathProbe) -> Option<Both> {
    let (left, came) = (forth.epoch?.sent.as_nanos(), back.epoch?.received.as_nanos());
    let apart_ns = came.cast_signed().wrapping_sub(left.cast_signed()) as f64;
    let leaving = forth.behind_the_head(|probe| Some(probe.sent_ns))?;
    let coming = back.behind_the_head(|probe| probe.received_ns)?;
    let first_ns = leaving.first()?.0;
    let round_trip = |(at_ns, wait_ns): &(f64, f64)| {
        let at_ns = at_ns + apart_ns;
        let next = leaving.get(leaving.partition_point(|it| it.0 < at_ns))?;
        (at_ns >= first_ns).then_some(wait_ns + next.1)
    };
    let added: Vec<f64> = coming.iter().filter_map(round_trip).collect();
    let added_ns = median(&added).filter(|_| added.len() as f64 >= forth.trains.least_round_trips)?;
    Some(Both { added_ns, round_trips: added.len() as u64 })
}

impl PathProbe {
    /// Time and wait of each packet of the last train that arrived, ns, but for those that filled the queue.
    fn behind_the_head(&self, at: impl Fn(&Probe) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
        let (trace, waits) = self.of_stage(|stage| stage == Stage::Over).pop()?;
        let packets = trace.probes.iter().zip(waits).skip(trace.head);
        Some(packets.filter_map(|(probe, wait)| Some((at(probe)?, wait?))).collect())
    }
}
