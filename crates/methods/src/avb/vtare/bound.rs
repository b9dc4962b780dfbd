//! Between which bounds the capacity lies, by the account of an overload.
//!
//! While the queue is busy, `bits = A T + C D`: what was sent between two probes is what was available in the time `T`
//! between them, and what the delay `D` grew by. For packets sent back to back `T` is short against `D`, and `A`
//! between 0 and `C` or not far from it, so `C` is about `bits/(T + D)` to `bits/D`, whatever happened to single gaps
//! on the way. A program behind the link that stalled and then lets packets go as fast as it can makes gaps of its
//! own, which look like a faster link; this tells them from it.

use super::points::{Point, median};

/// What a train's head says of the capacity, bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) low: f64,
    pub(super) high: f64,
    /// With the available bandwidth that the stream behind the head tells; infinite where that tells none.
    pub(super) likely: f64,
    /// Packets of the head.
    packets: f64,
}

/// Packets of a part of a train that says something.
const LEAST_PACKETS: f64 = 5.0;

/// One in so many of the points of a head or a stream is looked through for the place where an account ends.
const EARLY: usize = 4;

/// The delay must grow by so many times the time that sending takes: else bursts of cross traffic matter.
const STEEP: f64 = 2.0;

/// A capacity above the upper bound by more than this factor is none: links before the tight one, and bursts, make a
/// bound too low by up to 2.
const ABOVE: f64 = 2.2;

/// ... and by so much more where it is of few packets: a burst leaves each packet of a head a gap of up to three.
const PLAINLY: f64 = 1.3;

/// The same for the lower bound, which nothing but a late first packet makes too high.
const BELOW: f64 = 1.4;

/// It is also told from the solved value by this factor.
const LIKELY: f64 = 1.5;

/// Trains kept.
const MOST: usize = 16;

impl Bound {
    /// From a train's points; its stream begins at the point `stream`. `None` where its head is no overload.
    pub(super) fn of(points: &[Point], stream: usize, packet_bit: f64) -> Option<Self> {
        let lowest = |part: &[Point]| part.iter().min_by(|a, b| a.delay_ns.total_cmp(&b.delay_ns)).copied();
        let (head, behind) = points.split_at(stream.min(points.len()));
        let first = head.first()?;
        let last = lowest(&head[head.len() - head.len() / EARLY..])?;
        let (bits, seconds, grown) = between(first, &last);
        if !(grown > STEEP * seconds && seconds >= 0.0 && bits > LEAST_PACKETS * packet_bit) {
            return None;
        }
        let (low, high) = (bits / (seconds + grown), bits / grown);
        let part = behind.len() / EARLY + 1;
        let ends =
            behind.get(..part).and_then(lowest).zip(behind.get(behind.len().saturating_sub(part)..).and_then(lowest));
        let solved = ends.and_then(|(early, late)| {
            let ((bits, seconds, grown), stream) = (between(first, &early), between(&early, &late));
            let (rate, slope) = (stream.1 > 0.0).then_some((stream.0 / stream.1, stream.2 / stream.1))?;
            let solved = (bits - rate * seconds) / (grown - slope * seconds);
            (solved > 0.0 && solved.is_finite()).then_some(solved)
        });
        Some(Self { low, high, likely: solved.unwrap_or(f64::INFINITY), packets: bits / packet_bit })
    }
}

/// Bits sent, time, s, and growth of the delay, s.
fn between(from: &Point, to: &Point) -> (f64, f64, f64) {
    let bits = (to.sent_bit - from.sent_bit + to.arrived_bit - from.arrived_bit) / 2.0;
    (bits, (to.at_ns - from.at_ns) / 1e9, (to.delay_ns - from.delay_ns) / 1e9)
}

/// The bounds of the trains so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds(Vec<Bound>);

impl Bounds {
    pub(super) fn add(&mut self, bound: Bound) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(bound);
    }

    /// The capacity to reckon with where the bounds contradict `found`, bit/s; they must do so more plainly as long as
    /// they are of fewer packets than `enough`, since a short head may have met a burst as a whole.
    pub(super) fn against(&self, found: f64, enough: u32) -> Option<f64> {
        let few = self.0.iter().map(|it| it.packets).sum::<f64>() < f64::from(enough);
        let of = |of: fn(&Bound) -> f64| median(&mut self.0.iter().map(of).collect::<Vec<_>>());
        let likely = of(|it| it.likely.max(it.low));
        let above = found > ABOVE * if few { PLAINLY } else { 1.0 } * of(|it| it.high) && found > LIKELY * likely;
        let below = found * BELOW < of(|it| it.low) && found * LIKELY < likely;
        (likely.is_finite() && (above || below)).then_some(likely)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 packets of 1500 B at once into a link of 100 Mbit/s of which 60 are available, then a stream of 60 Mbit/s.
    fn train() -> Vec<Point> {
        let point = |index: u32| {
            let at_ns = f64::from(index.saturating_sub(19)) * 200_000.0;
            let bits = f64::from(index + 1) * 12e3;
            let delay_ns = (bits - 0.6e8 * at_ns / 1e9) / 1e8 * 1e9;
            Point { index, at_ns, delay_ns, sent_bit: bits, arrived_bit: bits, call_bit: 12e3 }
        };
        (0..60).map(point).collect()
    }

    #[test]
    fn a_head_and_the_stream_behind_it_tell_the_capacity() {
        let bound = Bound::of(&train(), 20, 12e3).expect("the delay grew");
        assert!((bound.likely / 1e8 - 1.0).abs() < 0.02, "{bound:?}");
        assert!(bound.low <= 1.001e8 && bound.high >= 0.999e8, "{bound:?}");
    }

    #[test]
    fn a_capacity_within_the_bounds_is_left_and_one_far_outside_is_contradicted() {
        let mut bounds = Bounds::default();
        assert_eq!(bounds.against(3e9, 15), None);
        bounds.add(Bound::of(&train(), 20, 12e3).expect("the delay grew"));
        assert_eq!(bounds.against(1e8, 15), None);
        // Two times and a half is plain where the packets are enough for it.
        let doubted = |enough| bounds.against(2.5e8, enough).is_some();
        assert_eq!([doubted(15), doubted(20)], [true, false]);
        let instead = bounds.against(3e9, 20).expect("far above");
        assert!((instead / 1e8 - 1.0).abs() < 0.02, "{instead}");
        assert!(bounds.against(2e7, 15).is_some());
    }

    #[test]
    fn a_train_that_met_no_queue_says_nothing() {
        let flat: Vec<Point> = train().into_iter().map(|it| Point { delay_ns: 1.0, ..it }).collect();
        assert_eq!(Bound::of(&flat, 20, 12e3), None);
    }
}
