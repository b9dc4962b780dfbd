//! The part of a train in which the queue was busy.
//!
//! Where sender and router share a processor, packets wait for it and not for the link alone, and a sender stands still for longer than a queue
//! lasts. An account is exact between any two packets between which the queue was never empty: so the train tells the mean of such a part,
//! and the rest of it is left out. The part may begin in the head, since what a link before the tight one holds of it is little there: packets of
//! one call come to the link as fast as they leave. Where its ends have the same delay, the capacity does not matter.

use super::Vtare;
use super::points::Point;
use super::slope::{self, Known, Score};
use crate::avb::{Observation, Packet, Spacing};

/// A single send that takes longer than this share of what the link takes for the packet does the path's work as well.
const SHARES: f64 = 0.9;

/// Points that a part has at least.
const LEAST_POINTS: usize = 12;

/// A part begins and ends at one of so many places, each in this share of a busy stretch.
const PLACES: usize = 20;
const REACH: f64 = 0.6;

/// The longest time for which a sender stood still is held to be the same from train to train, but for this share.
const FADES: f64 = 0.7;

/// So much of a train's time may be allowed for that at most, as a share.
const MOST_STILL: f64 = 0.3;

impl Vtare {
    /// Whether the path's work is done by the sender's own processor, as far as single sends tell.
    pub(super) fn shares_processor(&self) -> bool {
        let ability = &self.setup.ability;
        let service_ns = self.link.map_or(0.0, |(capacity, _)| f64::from(self.packet_byte) * 8e9 / capacity);
        ability.most_group > 1 && ability.least_gap_ns > SHARES * service_ns && !self.several()
    }

    /// What a sender that stands still now and then wants the queue to hold, bits.
    pub(super) fn still_bit(&self, near: f64) -> f64 {
        if self.shares_processor() { near * self.still_s.min(MOST_STILL * self.seconds) } else { 0.0 }
    }

    /// Notes for how long the sender stood still in a train's stream.
    pub(super) fn see_stills(&mut self, observation: &Observation) {
        let Spacing::Primed { gap_ns, .. } = observation.train.spacing else { return };
        let left: Vec<_> = observation.packets.iter().skip(self.head as usize).filter_map(Packet::left).collect();
        let longest = left.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).max().unwrap_or(0);
        self.still_s = (FADES * self.still_s).max((longest as f64 - gap_ns).max(0.0) / 1e9);
    }

    /// The part of a train that tells its own mean best, or the whole.
    pub(super) fn busiest(&self, points: &[Point], known: &Known, whole: Score) -> Score {
        if !self.shares_processor() || self.steers {
            return whole;
        }
        let known = Known { unsettled_ns: 0.0, ..*known };
        let busy = points.chunk_by(|a, b| !slope::may_be_empty(a, b, &known, whole.jitter_ns));
        let parts = busy.filter_map(|stretch| {
            let (from, to) = flattest(stretch, &known)?;
            slope::score(&stretch[from..=to], &known)
        });
        let width = |score: &Score| 4.0 * score.error + score.idle;
        parts.chain([whole]).min_by(|a, b| width(a).total_cmp(&width(b))).unwrap_or(whole)
    }
}

/// The places between which a busy stretch is long and its delay changes little.
fn flattest(stretch: &[Point], known: &Known) -> Option<(usize, usize)> {
    let last = stretch.len().checked_sub(LEAST_POINTS)? + LEAST_POINTS - 1;
    let place = |number: usize| (REACH * (number * last) as f64 / PLACES as f64) as usize;
    let pairs = (0..PLACES).flat_map(|begin| (0..PLACES).map(move |end| (place(begin), last - place(end))));
    let blur = |&(from, to): &(usize, usize)| {
        let (from, to) = (&stretch[from], &stretch[to]);
        let ns = to.at_ns - from.at_ns;
        let slope = (to.delay_ns - from.delay_ns).abs() / ns;
        let ends = 2.0 * known.others_ns(0.5) / ns;
        ends.hypot(known.capacity_error * slope)
    };
    pairs.filter(|&(from, to)| from + LEAST_POINTS <= to + 1).min_by(|a, b| blur(a).total_cmp(&blur(b)))
}
