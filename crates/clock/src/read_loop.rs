//! How many reads of a clock to time as one loop.

use vtare_units::Span;

/// A loop of reads takes at most about this: a thread that shares its CPU runs for milliseconds at a time, so nearly
/// every loop ends in the turn in which it began.
const LONGEST_LOOP: Span = Span::from_micros(50);
/// Tries of each length in the pilot, of which the least counts.
const TRIES: u32 = 4;

/// Returns the number of reads whose loop takes 25 to 50 us, at most `most`; one where a single read takes longer.
///
/// `time` runs a loop of that many reads and returns how long it took. Doubles the number from one read on, so a slow
/// clock is never read more often than needed.
pub fn reads_per_loop(most: u64, mut time: impl FnMut(u64) -> Span) -> u64 {
    let mut reads = 1;
    while reads < most {
        let least = (0..TRIES).map(|_| time(reads)).min().unwrap_or(Span::ZERO);
        if least > LONGEST_LOOP / 2 {
            break;
        }
        reads *= 2;
    }
    reads.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_takes_25_to_50_us_whatever_one_read_costs_and_is_no_longer_than_asked() {
        for (cost_ps, reads) in [(9_600, 4_096), (24_000, 2_048), (331_000, 128), (14_600_000, 2), (90_000_000, 1)] {
            let found = reads_per_loop(4_096, |reads| Span::from_nanos((reads * cost_ps / 1_000).cast_signed()));
            assert_eq!(found, reads, "{cost_ps} ps");
        }
        assert_eq!(reads_per_loop(256, |_| Span::from_nanos(10)), 256);
    }

    #[test]
    fn a_try_that_lost_the_cpu_does_not_shorten_the_loop() {
        let mut tries = 0;
        let found = reads_per_loop(4_096, |reads| {
            tries += 1;
            let lost = if tries % 3 == 0 { Span::from_millis(40) } else { Span::ZERO };
            Span::from_unsigned_nanos(reads * 331) + lost
        });
        assert_eq!(found, 128);
    }
}
