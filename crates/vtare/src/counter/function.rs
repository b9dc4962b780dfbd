//! The counter function and its machine speed index.

use std::hint::black_box;

use vtare_sys::{clocks, sched};
use vtare_units::ThreadCpu;

use crate::context::Context;
use vtare_clock::Clock;

/// Work between two looks at the clock.
const CHUNK_NS: f64 = 10_000.0;
/// Most looks at the clock in one call: 8 MiB of readings.
const MOST_CHUNKS: u64 = 1 << 20;
/// A chunk is a gap where it takes this much longer than the call's median chunk.
const GAP_OVER_TYPICAL: f64 = 0.1;
/// Steps of one timing while the index is sought: about 0.2 ms.
const CALIBRATION_STEPS: u64 = 100_000;
/// Timings while the index is sought, about 0.1 s; before them a quarter as many that only warm up the CPU.
const CALIBRATION_ROUNDS: usize = 600;

/// The deterministic function: `steps` steps of Marsaglia's xorshift64 from `state`.
///
/// Each step needs the one before and no closed form is known, so no compiler can fold the loop; every language with
/// 64-bit integers can write it in one line.
#[inline(never)]
pub(super) fn count(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
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

/// This machine's speed at the counter function, and memory for the readings of one call.
pub(super) struct Machine<'c> {
    clock: &'c Clock,
    steps_per_ms: f64,
    chunk_steps: u64,
    chunks_per_unit: f64,
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
        Self::new(clock, steps_per_ms, unit_ms, max_exponent)
    }

    fn new(clock: &'c Clock, steps_per_ms: f64, unit_ms: f64, max_exponent: u32) -> Self {
        let greatest = (1_u64 << max_exponent) as f64;
        let chunk_ns = CHUNK_NS.max(greatest * unit_ms * 1e6 / MOST_CHUNKS as f64);
        let chunks_per_unit = unit_ms * 1e6 / chunk_ns;
        let mut marks = vec![1; (greatest * chunks_per_unit).ceil() as usize + 1];
        // Touched now, so that no page fault falls into a call.
        black_box(&mut marks).fill(0);
        let chunk_steps = (steps_per_ms * chunk_ns / 1e6).round().max(1.0) as u64;
        Self { clock, steps_per_ms, chunk_steps, chunks_per_unit, marks }
    }

    /// The machine speed index in steps per ms.
    pub(super) fn steps_per_ms(&self) -> f64 {
        self.steps_per_ms
    }

    fn chunks(&self, argument: u64) -> usize {
        (argument as f64 * self.chunks_per_unit).round().max(1.0) as usize
    }

    /// The steps that `argument` makes: the same in every call.
    pub(super) fn steps(&self, argument: u64) -> u64 {
        self.chunks(argument) as u64 * self.chunk_steps
    }

    /// Calls the function and gives each gap to `on_gap`; `None` where a wish to stop cut it short.
    pub(super) fn call(&mut self, argument: u64, context: &Context, on_gap: impl FnMut(i64)) -> Option<Call> {
        let chunks = self.chunks(argument);
        let (clock, chunk_steps) = (self.clock, self.chunk_steps);
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
        let (wall_ns, gap_ns) = fold(marks, on_gap);
        Some(Call { wall_ns, cpu_ns: cpu.as_nanos(), gap_ns, involuntary_switches })
    }
}

/// Run time, and time lost in gaps: what chunks took beyond the median chunk where that is more than a tenth of it.
fn fold(marks: &[u64], mut on_gap: impl FnMut(i64)) -> (i64, i64) {
    let mut chunks: Vec<i64> = marks.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed()).collect();
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
    fn gaps_are_what_chunks_took_beyond_the_typical_one() {
        // Chunks of 10 us, one of 10.9 us (no gap), one of 60 us: a gap of 50 us.
        let marks: Vec<u64> = [0, 10_000, 20_000, 30_900, 90_900, 100_900].to_vec();
        let mut gaps = Vec::new();
        assert_eq!(fold(&marks, |gap| gaps.push(gap)), (100_900, 50_000));
        assert_eq!(gaps, [50_000]);
    }

    #[test]
    fn a_slower_cpu_is_no_gap() {
        assert_eq!(fold(&[0, 20_000, 40_010, 60_000], |_| ()), (60_000, 0));
    }

    #[test]
    fn steps_grow_with_the_argument_and_memory_is_bounded() {
        let context = Context::without_signals();
        let machine = Machine::new(context.clock(), 500_000.0, 10.0, 9);
        assert_eq!(machine.steps(1), 5_000_000);
        assert_eq!(machine.steps(512), 512 * 5_000_000);
        assert_eq!(machine.marks.len(), 512_001);
        let long = Machine::new(context.clock(), 500_000.0, 1_000.0, 16);
        assert!(long.marks.len() as u64 <= MOST_CHUNKS + 1);
        let ratio = long.steps(1 << 16) as f64 / (65_536.0 * 500_000_000.0);
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }
}
