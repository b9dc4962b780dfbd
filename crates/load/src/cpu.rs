//! The CPU-bound load: threads that take square roots.

use std::hint::black_box;

use crate::LoadError;
use crate::workers::{Counters, Crew, Shared};

/// Square roots between two looks at the stop flag: about 50 us on a CPU of 3 GHz.
const CHUNK: u32 = 8_192;

pub(crate) fn start(crew: &mut Crew, threads: usize) -> Result<(), LoadError> {
    for _ in 0..threads {
        crew.start(threads, |shared, counters| {
            work(shared, counters);
            Ok(())
        })?;
    }
    Ok(())
}

fn work(shared: &Shared, counters: &Counters) {
    let mut value = take_square_roots(2.0, CHUNK);
    Counters::add(&counters.operations, u64::from(CHUNK));
    shared.note_working();
    while !shared.stopping() {
        value = take_square_roots(black_box(value), CHUNK);
        Counters::add(&counters.operations, u64::from(CHUNK));
    }
    black_box(value);
}

/// Takes `count` square roots, each of the one before plus one, so that none can be skipped or run beside the next. The
/// value tends to the golden ratio.
fn take_square_roots(from: f64, count: u32) -> f64 {
    (0..count).fold(from, |value, _| black_box(value + 1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_roots_of_one_more_tend_to_the_golden_ratio() {
        let golden_ratio = f64::midpoint(1.0, 5.0_f64.sqrt());
        assert!((take_square_roots(100.0, CHUNK) - golden_ratio).abs() < 1e-12);
        assert_eq!(take_square_roots(3.0, 1).to_bits(), 2.0_f64.to_bits());
    }
}
