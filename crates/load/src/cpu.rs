//! The CPU-bound loads: threads that take square roots, or that count as the counter instrument does.

use std::hint::black_box;

use crate::LoadError;
use crate::workers::{Counters, Crew, Shared};

/// Square roots or steps between two looks at the stop flag: at most about 50 us on a CPU of 3 GHz.
const CHUNK: u32 = 8_192;

/// Starts threads that repeat `work`, from its last result each time.
pub(crate) fn start<T: Copy + Send + 'static>(
    crew: &mut Crew,
    threads: usize,
    first: T,
    work: impl Fn(T) -> T + Copy + Send + 'static,
) -> Result<(), LoadError> {
    for _ in 0..threads {
        crew.start(threads, move |shared, counters| {
            repeat(shared, counters, first, work);
            Ok(())
        })?;
    }
    Ok(())
}

fn repeat<T: Copy>(shared: &Shared, counters: &Counters, first: T, work: impl Fn(T) -> T) {
    let mut value = work(first);
    Counters::add(&counters.operations, u64::from(CHUNK));
    shared.note_working();
    while !shared.stopping() {
        value = work(black_box(value));
        Counters::add(&counters.operations, u64::from(CHUNK));
    }
    black_box(value);
}

/// Takes square roots, each of the one before plus one, so that none can be skipped or run beside the next. The value
/// tends to the golden ratio.
pub(crate) fn take_square_roots(from: f64) -> f64 {
    (0..CHUNK).fold(from, |value, _| black_box(value + 1.0).sqrt())
}

/// Steps of the counter instrument's function.
pub(crate) fn take_steps(from: u64) -> u64 {
    count(from, u64::from(CHUNK))
}

/// The function of the counter instrument: `steps` steps of Marsaglia's xorshift64 from `state`.
///
/// Each step needs the one before, so no compiler folds the loop; every language with 64-bit integers can write it in
/// one line.
#[inline(never)]
#[must_use]
pub fn count(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_roots_of_one_more_tend_to_the_golden_ratio() {
        let golden_ratio = f64::midpoint(1.0, 5.0_f64.sqrt());
        assert!((take_square_roots(100.0) - golden_ratio).abs() < 1e-12);
    }

    #[test]
    fn a_piece_of_work_is_as_many_steps_as_are_reported() {
        assert_eq!(count(take_steps(1), 3), count(1, u64::from(CHUNK) + 3));
    }
}
