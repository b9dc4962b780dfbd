//! Holding a train's schedule, whatever sends it.

use vtare_units::{Monotonic, Span, Timestamp};

use crate::link::Burst;

/// A sender that has fallen behind by this many gaps does not catch up: it moves the rest of the train instead, since a
/// burst of late packets would be another train than the one wanted.
const GAPS_LATE: i64 = 3;

/// Nor below this lateness: a clock and a system call are not better.
const LATENESS: Span = Span::from_micros(10);

/// A sender that catches up does so from this lateness at most: what would leave at once beyond it, queues on the way
/// may not hold.
const MOST_CAUGHT_UP: Span = Span::from_millis(10);

/// From the call to the first packet: buffers and code are warm by then.
const LEAD_IN: Span = Span::from_micros(50);

/// What becomes of the rest of a train whose sender has fallen behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    /// It is moved: late packets at once would be another train than the one wanted.
    #[default]
    Moved,
    /// It stays where it is, and what is late by 10 ms at most leaves at once: for trains that keep a queue filled,
    /// whatever their gaps.
    CaughtUp,
}

/// What a train goes out through.
pub trait Outlet {
    /// Why it cannot go on.
    type Error;

    /// The clock.
    fn now(&self) -> Timestamp<Monotonic>;

    /// Waits, as close behind `until` as it can.
    ///
    /// # Errors
    /// Where it cannot go on.
    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), Self::Error>;

    /// Makes packets `first..first + count` and sends them at once.
    ///
    /// # Errors
    /// Where it cannot go on; what was merely not sent is no error.
    fn send(&mut self, first: usize, count: usize) -> Result<Burst, Self::Error>;
}

/// When packets that left in one call left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The first of them.
    pub first: usize,
    /// How many were tried.
    pub count: usize,
    /// When they were due, on the schedule as moved so far.
    pub scheduled: Timestamp<Monotonic>,
    /// What became of them.
    pub burst: Burst,
}

/// How a train went out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paced {
    /// Its calls, in their order.
    pub calls: Vec<Call>,
    /// How often the rest of the train was moved.
    pub moves: u32,
    /// By how much in all.
    pub moved: Span,
}

/// Which packets leave in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// This number in each.
    Of(usize),
    /// Those that are due at the same time, at most this many.
    Together(usize),
}

impl Calls {
    /// How many of the packets from `first` on leave in one call.
    fn count(self, due: &[Span], first: usize) -> usize {
        let left = due.len() - first;
        match self {
            Self::Of(burst) => burst.clamp(1, left),
            Self::Together(most) => {
                let same = due[first..].iter().take(most.max(1)).take_while(|at| **at == due[first]);
                same.count()
            }
        }
    }
}

/// Sends packets that are `due` after the first, in `calls`: each call leaves when its first packet is due.
///
/// # Errors
/// Where the outlet cannot go on.
pub fn pace<O: Outlet>(outlet: &mut O, due: &[Span], calls: Calls, behind: Behind) -> Result<Paced, O::Error> {
    let mut paced = Paced { calls: Vec::with_capacity(due.len()), moves: 0, moved: Span::ZERO };
    let start = outlet.now() + LEAD_IN;
    let (mut first, mut before) = (0, None);
    while first < due.len() {
        let count = calls.count(due, first);
        let mut scheduled = start + due[first] + paced.moved;
        outlet.pause(scheduled)?;
        let gap = before.replace(first).map_or(Span::ZERO, |before: usize| due[first] - due[before]);
        let late = outlet.now() - scheduled;
        // Packets that are due back to back are never late: they leave as fast as they can.
        let most = match behind {
            Behind::Moved => (gap * GAPS_LATE).max(LATENESS),
            Behind::CaughtUp => MOST_CAUGHT_UP,
        };
        if gap > Span::ZERO && late > most {
            paced.moves += 1;
            paced.moved += late;
            scheduled = scheduled + late;
        }
        let sent = outlet.send(first, count)?;
        paced.calls.push(Call { first, count, scheduled, burst: sent });
        first += count;
    }
    Ok(paced)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Late by a given time at given packets; a send takes a given time.
    struct Scripted {
        now_ns: u64,
        late: Vec<(usize, u64)>,
        send_ns: u64,
        sent: Vec<(usize, usize, u64)>,
    }

    impl Outlet for Scripted {
        type Error = std::convert::Infallible;
        fn now(&self) -> Timestamp<Monotonic> {
            Timestamp::from_nanos(self.now_ns)
        }
        fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), Self::Error> {
            let next = self.sent.last().map_or(0, |(first, count, _)| first + count);
            let late = self.late.iter().find(|(at, _)| *at == next).map_or(0, |(_, late)| *late);
            self.now_ns = self.now_ns.max(until.as_nanos()) + late;
            Ok(())
        }
        fn send(&mut self, first: usize, count: usize) -> Result<Burst, Self::Error> {
            self.sent.push((first, count, self.now_ns - LEAD_IN.as_nanos_unsigned()));
            let before = self.now();
            self.now_ns += self.send_ns;
            Ok(Burst { accepted: count, before, after: self.now() })
        }
    }

    fn run(gap_ns: i64, packets: i64, burst: usize, late: &[(usize, u64)], send_ns: u64) -> (Paced, Vec<u64>) {
        run_behind(gap_ns, packets, burst, late, send_ns, Behind::Moved)
    }

    fn run_behind(
        gap_ns: i64,
        packets: i64,
        burst: usize,
        late: &[(usize, u64)],
        send_ns: u64,
        behind: Behind,
    ) -> (Paced, Vec<u64>) {
        let due: Vec<Span> = (0..packets).map(|number| Span::from_nanos(gap_ns * number)).collect();
        let mut outlet = Scripted { now_ns: 0, late: late.to_vec(), send_ns, sent: Vec::new() };
        let Ok(paced) = pace(&mut outlet, &due, Calls::Of(burst), behind);
        let times = outlet.sent.iter().map(|(_, _, at)| *at).collect();
        (paced, times)
    }

    #[test]
    fn a_small_delay_is_caught_up_and_the_schedule_stays() {
        let (paced, times) = run(20_000, 4, 1, &[(1, 25_000)], 1_000);
        assert_eq!(times, [0, 45_000, 46_000, 60_000]);
        assert_eq!((paced.moves, paced.moved), (0, Span::ZERO));
    }

    #[test]
    fn a_long_delay_moves_the_rest_and_makes_no_burst() {
        let (paced, times) = run(20_000, 4, 1, &[(1, 100_000)], 1_000);
        assert_eq!(times, [0, 120_000, 140_000, 160_000]);
        assert_eq!((paced.moves, paced.moved), (1, Span::from_micros(100)));
        let at = |ns| Timestamp::from_nanos(ns) + LEAD_IN;
        assert_eq!(
            paced.calls.iter().map(|call| call.scheduled).collect::<Vec<_>>(),
            times.into_iter().map(at).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_train_that_is_to_catch_up_sends_what_is_late_at_once_and_ends_in_time() {
        let (paced, times) = run_behind(20_000, 6, 1, &[(1, 60_000)], 1_000, Behind::CaughtUp);
        assert_eq!(times, [0, 80_000, 81_000, 82_000, 83_000, 100_000]);
        assert_eq!((paced.moves, paced.moved), (0, Span::ZERO));
        // Not more at once than a queue would hold.
        let (paced, times) = run_behind(20_000, 3, 1, &[(1, 11_000_000)], 1_000, Behind::CaughtUp);
        assert_eq!((times, paced.moves), (vec![0, 11_020_000, 11_040_000], 1));
    }

    #[test]
    fn back_to_back_packets_are_never_late() {
        let (paced, times) = run(0, 5, 1, &[], 8_000);
        assert_eq!((times, paced.moves), (vec![0, 8_000, 16_000, 24_000, 32_000], 0));
    }

    #[test]
    fn a_large_send_leaves_when_its_first_packet_is_due_and_the_last_may_be_shorter() {
        let (paced, times) = run(1_000, 10, 4, &[], 100);
        assert_eq!(times, [0, 4_000, 8_000]);
        assert_eq!(
            paced.calls.iter().map(|call| (call.first, call.count)).collect::<Vec<_>>(),
            [(0, 4), (4, 4), (8, 2)]
        );
    }

    #[test]
    fn packets_that_are_due_together_leave_together() {
        let due: Vec<Span> = [0, 0, 0, 5_000, 5_000, 9_000].into_iter().map(Span::from_nanos).collect();
        let calls = |most| {
            let mut outlet = Scripted { now_ns: 0, late: Vec::new(), send_ns: 100, sent: Vec::new() };
            let Ok(paced) = pace(&mut outlet, &due, Calls::Together(most), Behind::Moved);
            paced.calls.iter().map(|call| (call.first, call.count)).collect::<Vec<_>>()
        };
        assert_eq!(calls(64), [(0, 3), (3, 2), (5, 1)]);
        assert_eq!(calls(2), [(0, 2), (2, 1), (3, 2), (5, 1)]);
    }
}
