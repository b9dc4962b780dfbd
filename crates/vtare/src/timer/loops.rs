//! Loops of reads that are timed as a whole: what one read costs, free of the clock's step.

use vtare_clock::reads_per_loop;
use vtare_units::Span;
use vtare_units::figures::Figures;

/// Most reads in one loop, and most loops in one round.
const MOST_READS: u64 = 4_096;
const MOST_LOOPS: u64 = 32;

/// One loop, timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    /// How long it took, with the two readings of the clock around it.
    pub(super) span: Span,
    /// Another thread had the CPU meanwhile.
    pub(super) preempted: bool,
}

/// The loops of one source so far.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// Reads in one loop, and how long a loop without any takes: from the pilot.
    pilot: Option<(u64, Span)>,
    elapsed: Span,
    /// Cost of one read in each loop that kept its CPU.
    read_ps: Vec<i64>,
    preempted: u64,
}

impl Loops {
    /// Times loops, one for each [`MOST_READS`] of `readings`, until all so far have taken `cap`; at least one in all.
    /// `time` runs a loop of that many reads. A loop that lost its CPU is counted and run again, as long as no more
    /// were lost than are wanted.
    pub(super) fn extend(&mut self, readings: u64, cap: Option<Span>, mut time: impl FnMut(u64) -> Timed) {
        let (reads, empty) = *self.pilot.get_or_insert_with(|| {
            let reads = reads_per_loop(MOST_READS, |reads| time(reads).span);
            (reads, (0..4).map(|_| time(0).span).min().unwrap_or(Span::ZERO))
        });
        let mut wanted = (readings / MOST_READS).clamp(1, MOST_LOOPS);
        for _ in 0..2 * wanted {
            if wanted == 0 || (!self.read_ps.is_empty() && cap.is_some_and(|cap| self.elapsed >= cap)) {
                return;
            }
            let Timed { span, preempted } = time(reads);
            self.elapsed += span;
            if preempted {
                self.preempted += 1;
            } else {
                wanted -= 1;
                self.read_ps.push((span - empty).as_nanos().saturating_mul(1_000) / reads.cast_signed());
            }
        }
    }

    /// The cost of one read, in ns.
    pub(super) fn read_cost_ns(&self) -> Figures {
        self.read_ps.iter().copied().collect::<Figures>().scaled(1e-3)
    }

    /// Loops during which another thread had the CPU.
    pub(super) fn preempted(&self) -> u64 {
        self.preempted
    }

    /// All loops.
    pub(super) fn timed(&self) -> u64 {
        self.preempted + self.read_ps.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that takes `cost_ns` to read, on a CPU that another thread has for 57 ms after every 3 ms of ours.
    fn shared_cpu(cost_ns: u64) -> impl FnMut(u64) -> Timed {
        let mut ran = 0;
        move |reads| {
            let busy = reads * cost_ns + 20;
            let turns = (ran + busy) / 3_000_000 - ran / 3_000_000;
            ran += busy;
            Timed { span: Span::from_unsigned_nanos(busy + turns * 57_000_000), preempted: turns > 0 }
        }
    }

    #[test]
    fn the_cost_of_a_slow_read_is_its_own_on_a_shared_cpu_too_and_the_loops_that_lost_the_cpu_are_counted() {
        for cost_ns in [331, 14_600] {
            let (mut loops, mut time) = (Loops::default(), shared_cpu(cost_ns));
            for _ in 0..8 {
                loops.extend(1_250_000, None, &mut time);
            }
            let cost = loops.read_cost_ns();
            assert_eq!((cost.n, cost.median, cost.max), (256, Some(cost_ns as f64), Some(cost_ns as f64)));
            // 256 loops of 25 to 50 us are 7 to 14 ms of its own: 2 to 4 turns.
            assert!((2..=5).contains(&loops.preempted()), "{}", loops.preempted());
            assert_eq!(loops.timed(), 256 + loops.preempted());
        }
    }

    #[test]
    fn a_source_whose_loops_all_lost_the_cpu_has_no_read_cost() {
        let mut loops = Loops::default();
        loops.extend(1, None, |_| Timed { span: Span::from_millis(60), preempted: true });
        assert_eq!((loops.read_cost_ns().median, loops.preempted(), loops.timed()), (None, 2, 2));
    }

    #[test]
    fn where_no_time_is_left_one_loop_has_to_do() {
        let mut loops = Loops::default();
        for _ in 0..2 {
            loops.extend(1 << 20, Some(Span::ZERO), |_| Timed { span: Span::from_micros(40), preempted: false });
        }
        assert_eq!(loops.read_cost_ns().n, 1);
    }
}
