//! The counter function, its machine speed index, and what makes a call.

use std::hint::black_box;

use vtare_sys::{clocks, sched};
use vtare_units::ThreadCpu;

use crate::context::Context;
use vtare_clock::Clock;
use vtare_load::count;

/// Work between two readings of the clock.
const CHUNK_NS: f64 = 10_000.0;
/// Most readings of the clock in one call: 8 MiB of readings.
const MOST_CHUNKS: u64 = 1 << 20;
/// A chunk is a gap where it takes this much longer than the call's median chunk.
const GAP_OVER_TYPICAL: f64 = 0.1;
/// Steps of one timing while the index is sought: about 0.2 ms.
const CALIBRATION_STEPS: u64 = 100_000;
/// Timings while the index is sought, about 0.1 s; before them a quarter as many that only warm up the CPU.
const CALIBRATION_ROUNDS: usize = 600;

/// The state after `steps` steps from `state`, found without making them: a step is linear over GF(2), so 2^k of them
/// are a matrix. With it a program in another language can be checked for the work that it reports.
pub(super) fn jump(mut state: u64, mut steps: u64) -> u64 {
    let apply = |matrix: &[u64; 64], vector: u64| {
        let columns = matrix.iter().enumerate().filter(|(bit, _)| vector >> bit & 1 == 1);
        columns.fold(0, |sum, (_, column)| sum ^ column)
    };
    let mut matrix: [u64; 64] = std::array::from_fn(|bit| count(1 << bit, 1));
    while steps > 0 {
        if steps & 1 == 1 {
            state = apply(&matrix, state);
        }
        matrix = std::array::from_fn(|bit| apply(&matrix, matrix[bit]));
        steps >>= 1;
    }
    state
}

/// What one call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Run time.
    pub(crate) wall_ns: i64,
    /// CPU time of the thread.
    pub(crate) cpu_ns: i64,
    /// Time lost in gaps.
    pub(crate) gap_ns: i64,
    /// Times the thread lost its CPU although it could have run on.
    pub(crate) involuntary_switches: u64,
}

/// How calls are cut into chunks, from the machine speed index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// Steps of the function in a ms on the undisturbed machine.
    pub(super) steps_per_ms: f64,
    /// Steps between two readings of the clock.
    pub(super) chunk_steps: u64,
    /// Chunks of the greatest argument.
    pub(super) most_chunks: usize,
    chunks_per_unit: f64,
}

impl Size {
    pub(super) fn new(steps_per_ms: f64, unit_ms: f64, max_exponent: u32) -> Self {
        let greatest = (1_u64 << max_exponent) as f64;
        let chunk_ns = CHUNK_NS.max(greatest * unit_ms * 1e6 / MOST_CHUNKS as f64);
        let chunks_per_unit = unit_ms * 1e6 / chunk_ns;
        let chunk_steps = (steps_per_ms * chunk_ns / 1e6).round().max(1.0) as u64;
        let mut size = Self { steps_per_ms, chunk_steps, most_chunks: 0, chunks_per_unit };
        size.most_chunks = size.chunks(1 << max_exponent);
        size
    }

    /// The chunks that `argument` makes: the same in every call.
    pub(super) fn chunks(&self, argument: u64) -> usize {
        (argument as f64 * self.chunks_per_unit).round().max(1.0) as usize
    }

    /// The steps that `argument` makes.
    pub(super) fn steps(&self, argument: u64) -> u64 {
        self.chunks(argument) as u64 * self.chunk_steps
    }
}

/// This machine's speed at the counter function, and memory for the readings of one call.
pub(super) struct Machine<'c> {
    clock: &'c Clock,
    pub(super) size: Size,
    marks: Vec<u64>,
}

impl<'c> Machine<'c> {
    /// Finds the machine speed index, the undisturbed speed: the fastest tenth of many short timings.
    pub(super) fn calibrate(clock: &'c Clock, unit_ms: f64, max_exponent: u32) -> Self {
        let mut spans = Vec::with_capacity(CALIBRATION_ROUNDS);
        let mut state = count(1, CALIBRATION_STEPS * CALIBRATION_ROUNDS as u64 / 4);
        for _ in 0..CALIBRATION_ROUNDS {
            let from = clock.now_ordered();
            state = count(state, CALIBRATION_STEPS);
            spans.push((clock.now_ordered() - from).as_nanos());
        }
        black_box(state);
        let fast = (*spans.select_nth_unstable(CALIBRATION_ROUNDS / 10).1).max(1);
        let steps_per_ms = CALIBRATION_STEPS as f64 * 1e6 / fast as f64;
        let size = Size::new(steps_per_ms, unit_ms, max_exponent);
        let mut marks = vec![1; size.most_chunks + 1];
        // Touched now, so that no page fault falls into a call.
        black_box(&mut marks).fill(0);
        Self { clock, size, marks }
    }

    /// Calls the function and gives each gap to `on_gap`; `None` where a request to stop cut it short.
    pub(super) fn call(&mut self, argument: u64, context: &Context, on_gap: impl FnMut(i64)) -> Option<Call> {
        let chunks = self.size.chunks(argument);
        let (clock, chunk_steps) = (self.clock, self.size.chunk_steps);
        let marks = &mut self.marks[..=chunks];
        let switches_from = sched::thread_usage().involuntary_switches;
        let cpu_from = clocks::now::<ThreadCpu>();
        let mut state = 1;
        marks[0] = clock.now_ordered().as_nanos();
        for mark in &mut marks[1..] {
            state = count(state, chunk_steps);
            *mark = clock.now_ordered().as_nanos();
            if context.stop_requested() {
                return None;
            }
        }
        let cpu = clocks::now::<ThreadCpu>() - cpu_from;
        let involuntary_switches = sched::thread_usage().involuntary_switches - switches_from;
        black_box(state);
        let chunks = marks.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed()).collect();
        let (wall_ns, gap_ns) = fold(chunks, on_gap);
        Some(Call { wall_ns, cpu_ns: cpu.as_nanos(), gap_ns, involuntary_switches })
    }
}

/// Run time, and time lost in gaps: what chunks took beyond the median chunk where that is more than a tenth of it.
/// There is at least one chunk.
pub(super) fn fold(mut chunks: Vec<i64>, mut on_gap: impl FnMut(i64)) -> (i64, i64) {
    let wall = chunks.iter().sum();
    let typical = median(&mut chunks);
    let limit = typical + (typical as f64 * GAP_OVER_TYPICAL) as i64;
    let mut lost = 0;
    for chunk in chunks.into_iter().filter(|chunk| *chunk > limit) {
        lost += chunk - typical;
        on_gap(chunk - typical);
    }
    (wall, lost)
}

/// The lower median. Reorders `values`, of which there is at least one.
fn median(values: &mut [i64]) -> i64 {
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_the_published_xorshift64() {
        // Marsaglia 2003 (13, 7, 17), worked by hand for one step from 1:
        // 1 ^ 1<<13 = 0x2001; ^ >>7 = 0x2041; ^ <<17 = 0x40822041.
        assert_eq!(count(1, 1), 0x4082_2041);
        assert_eq!(count(count(1, 3), 4), count(1, 7));
        assert_eq!(count(5, 0), 5);
    }

    #[test]
    fn a_jump_lands_where_the_steps_lead() {
        for steps in [0, 1, 2, 63, 64, 65, 1_000, 12_345] {
            assert_eq!(jump(1, steps), count(1, steps), "{steps}");
        }
        // The period of xorshift64 is 2^64 - 1.
        assert_eq!(jump(42, u64::MAX), 42);
    }

    #[test]
    fn gaps_are_what_chunks_took_beyond_the_typical_one() {
        // Chunks of 10 us, one of 10.9 us (no gap), one of 60 us: a gap of 50 us.
        let mut gaps = Vec::new();
        assert_eq!(fold(vec![10_000, 10_000, 10_900, 60_000, 10_000], |gap| gaps.push(gap)), (100_900, 50_000));
        assert_eq!(gaps, [50_000]);
    }

    #[test]
    fn a_slower_cpu_is_no_gap() {
        assert_eq!(fold(vec![20_000, 20_010, 19_990], |_| ()), (60_000, 0));
    }

    #[test]
    fn steps_grow_with_the_argument_and_memory_is_bounded() {
        let size = Size::new(500_000.0, 10.0, 9);
        assert_eq!(size.steps(1), 5_000_000);
        assert_eq!(size.steps(512), 512 * 5_000_000);
        assert_eq!(size.most_chunks, 512_000);
        let long = Size::new(500_000.0, 1_000.0, 16);
        assert!(long.most_chunks as u64 <= MOST_CHUNKS);
        let ratio = long.steps(1 << 16) as f64 / (65_536.0 * 500_000_000.0);
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }
}
