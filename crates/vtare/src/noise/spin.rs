//! The spinning thread: reads the counter without pause and keeps every difference above the threshold.

use std::sync::atomic::{AtomicBool, Ordering};

/// What one spin saw. Times are in the units of the reader that was spun on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spin {
    /// `(at, gap)`: when each gap began, since the start of the spin, and how long it was; in order.
    pub(crate) gaps: Vec<(i64, i64)>,
    /// How long the spin lasted.
    pub(crate) elapsed: i64,
    /// Gaps for which there was no room; their length is in `lost_beyond`.
    pub(crate) beyond: u64,
    /// The sum of the gaps for which there was no room.
    pub(crate) lost_beyond: i64,
    /// Whether the stop flag ended it.
    pub(crate) stopped: bool,
}

impl Spin {
    /// All gaps, those without room included.
    pub(crate) fn count(&self) -> u64 {
        self.gaps.len() as u64 + self.beyond
    }

    /// The sum of all gaps.
    pub(crate) fn lost(&self) -> i64 {
        self.gaps.iter().map(|(_, gap)| gap).sum::<i64>() + self.lost_beyond
    }

    /// The same spin with every time turned by `turn`, as from ticks to ns.
    pub(crate) fn map(mut self, turn: impl Fn(i64) -> i64) -> Self {
        for (at, gap) in &mut self.gaps {
            (*at, *gap) = (turn(*at), turn(*gap));
        }
        Self { elapsed: turn(self.elapsed), lost_beyond: turn(self.lost_beyond), ..self }
    }
}

/// Memory for `room` gaps, touched now: the first touch of a page costs a fault, which would be a gap of our own
/// making.
pub(crate) fn touched_room(room: usize) -> Vec<(i64, i64)> {
    let mut gaps = vec![(1, 1); room];
    gaps.clear();
    gaps
}

/// Spins on `read`, which gives the time since some fixed point, until `limit` has passed or `stop` is set. Every
/// difference between one reading and the next that is at least `threshold` is a gap; `gaps` gives the room and its
/// content is dropped.
#[inline]
pub(crate) fn spin(
    read: impl Fn() -> i64,
    limit: i64,
    threshold: i64,
    stop: &AtomicBool,
    mut gaps: Vec<(i64, i64)>,
) -> Spin {
    gaps.clear();
    let room = gaps.capacity();
    let (mut beyond, mut lost_beyond) = (0, 0);
    let start = read();
    let mut last = start;
    let stopped = loop {
        let now = read();
        let gap = now - last;
        if gap >= threshold {
            if gaps.len() < room {
                gaps.push((last - start, gap));
            } else {
                beyond += 1;
                lost_beyond += gap;
            }
        }
        last = now;
        if now - start >= limit {
            break false;
        }
        if stop.load(Ordering::Relaxed) {
            break true;
        }
    };
    Spin { gaps, elapsed: last - start, beyond, lost_beyond, stopped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A reader that goes through `steps` and then on by 1.
    fn reader(steps: &[i64]) -> impl Fn() -> i64 {
        let (at, index) = (Cell::new(0), Cell::new(0));
        move || {
            at.set(at.get() + steps.get(index.get()).copied().unwrap_or(1));
            index.set(index.get() + 1);
            at.get()
        }
    }

    const STEPS: [i64; 6] = [1_000, 1, 50, 1, 9, 10];

    #[test]
    fn a_gap_is_a_difference_of_at_least_the_threshold_and_begins_at_the_reading_before() {
        let seen = spin(reader(&STEPS), 100, 10, &AtomicBool::new(false), touched_room(8));
        assert_eq!(seen.gaps, [(1, 50), (61, 10)]);
        assert_eq!((seen.count(), seen.lost(), seen.elapsed, seen.stopped), (2, 60, 100, false));
    }

    #[test]
    fn gaps_without_room_are_counted_and_their_time_kept() {
        let seen = spin(reader(&STEPS), 100, 10, &AtomicBool::new(false), touched_room(1));
        assert_eq!((seen.gaps.len(), seen.beyond, seen.lost_beyond), (1, 1, 10));
        assert_eq!((seen.count(), seen.lost()), (2, 60));
    }

    #[test]
    fn the_stop_flag_ends_it_early() {
        let seen = spin(reader(&[]), 1_000_000, 10, &AtomicBool::new(true), touched_room(1));
        assert!(seen.stopped);
        assert!(seen.elapsed < 10);
    }

    #[test]
    fn the_last_gap_counts_although_it_ends_the_spin() {
        let seen = spin(reader(&[1, 1, 500]), 100, 10, &AtomicBool::new(false), touched_room(1));
        assert_eq!((seen.gaps, seen.elapsed), (vec![(1, 500)], 501));
    }

    #[test]
    fn ticks_turn_into_time_in_every_figure() {
        let seen = spin(reader(&STEPS), 100, 10, &AtomicBool::new(false), touched_room(1)).map(|ticks| ticks * 3);
        assert_eq!((seen.gaps, seen.elapsed, seen.lost_beyond), (vec![(3, 150)], 300, 30));
    }
}
