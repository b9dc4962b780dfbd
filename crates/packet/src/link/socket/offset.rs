use std::io;

use vtare_units::{Monotonic, Span, Timestamp};

/// How far another clock is ahead of CLOCK_MONOTONIC, from bracketed readings: program, other, program.
///
/// Wall time and CLOCK_MONOTONIC are slewed together, so their distance moves only where wall time is set; a renewal finds that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Other minus monotonic, ns.
    ahead_ns: i128,
    /// Half the width of the narrowest bracket, ns.
    error_ns: u64,
    found_at: Timestamp<Monotonic>,
    /// Renewals that found the other clock elsewhere than its error allows.
    steps: u64,
}

/// Brackets of one reading; the narrowest counts.
const BRACKETS: usize = 16;
/// A reading is renewed after this time.
pub(super) const RENEW_AFTER: Span = Span::from_millis(500);

impl ClockOffset {
    /// Reads the distance. `other` gives the other clock's ns, `now` the program's clock.
    ///
    /// # Errors
    /// Where the other clock cannot be read.
    pub fn read(now: impl Fn() -> Timestamp<Monotonic>, other: impl Fn() -> io::Result<u64>) -> io::Result<Self> {
        let mut best: Option<Self> = None;
        for _ in 0..BRACKETS {
            let before = now();
            let there = other()?;
            let after = now();
            let width = (after - before).as_nanos_unsigned();
            // Rounded up: the true reading lies anywhere between the two.
            let error_ns = width.div_ceil(2) + 1;
            if best.is_none_or(|best| error_ns < best.error_ns) {
                let middle = i128::from(before.as_nanos()) + i128::from(width / 2);
                best = Some(Self { ahead_ns: i128::from(there) - middle, error_ns, found_at: after, steps: 0 });
            }
        }
        best.ok_or_else(|| io::Error::other("no bracket was made"))
    }

    /// Takes a newer reading. Where both agree within their errors, the narrower one stays in force.
    pub fn renew(&mut self, newer: Self) {
        let apart = (newer.ahead_ns - self.ahead_ns).unsigned_abs();
        let stepped = apart > u128::from(newer.error_ns + self.error_ns);
        if stepped || newer.error_ns <= self.error_ns {
            (self.ahead_ns, self.error_ns) = (newer.ahead_ns, newer.error_ns);
        }
        self.steps += u64::from(stepped);
        self.found_at = newer.found_at;
    }

    /// A stamp of the other clock on the program's.
    #[inline]
    #[must_use]
    pub fn convert(&self, there_ns: u64) -> Option<Timestamp<Monotonic>> {
        u64::try_from(i128::from(there_ns) - self.ahead_ns).ok().map(Timestamp::from_nanos)
    }

    /// A time of the program's clock on the other one, ns.
    #[inline]
    #[must_use]
    pub fn there_ns(&self, at: Timestamp<Monotonic>) -> u64 {
        u64::try_from(i128::from(at.as_nanos()) + self.ahead_ns).unwrap_or(0)
    }

    /// Whether it is time for a renewal.
    #[inline]
    #[must_use]
    pub fn is_old(&self, now: Timestamp<Monotonic>) -> bool {
        now - self.found_at > RENEW_AFTER
    }

    /// Half the width of the interval that is sure to hold the true distance, ns.
    #[must_use]
    pub const fn error_ns(&self) -> u64 {
        self.error_ns
    }

    /// Renewals that found the other clock set.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A program's clock that moves by the next of `steps` at each reading.
    fn clock(steps: &[u64]) -> impl Fn() -> Timestamp<Monotonic> {
        let (at, turn) = (Cell::new(1_000_000_u64), Cell::new(0));
        move || {
            at.set(at.get() + steps[turn.get() % steps.len()]);
            turn.set(turn.get() + 1);
            Timestamp::from_nanos(at.get())
        }
    }

    #[test]
    fn the_narrowest_bracket_gives_distance_and_error() {
        // Brackets of 1000 ns and of 40 ns in turns; the other clock always reads the same.
        let now = clock(&[0, 1_000, 0, 40]);
        let offset = ClockOffset::read(now, || Ok(5_000_000)).expect("readable");
        assert_eq!(offset.error_ns(), 21);
        let there = offset.convert(5_000_000).expect("after the start");
        assert!((1_001_000..1_100_000).contains(&there.as_nanos()), "{there:?}");
    }

    #[test]
    fn a_step_of_wall_time_is_found_and_counted_and_a_wider_bracket_is_not_taken() {
        let at = |ahead_ns, error_ns| ClockOffset { ahead_ns, error_ns, found_at: Timestamp::ZERO, steps: 0 };
        let mut offset = at(1_000_000, 30);
        offset.renew(at(1_000_050, 90));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (1_000_000, 30, 0));
        offset.renew(at(2_000_000, 90));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (2_000_000, 90, 1));
        offset.renew(at(2_000_010, 20));
        assert_eq!((offset.ahead_ns, offset.error_ns, offset.steps), (2_000_010, 20, 1));
    }

    #[test]
    fn a_stamp_before_the_epoch_of_the_program_is_none() {
        let offset = ClockOffset { ahead_ns: 10, error_ns: 1, found_at: Timestamp::ZERO, steps: 0 };
        assert_eq!(offset.convert(9), None);
        assert_eq!(offset.convert(25), Some(Timestamp::from_nanos(15)));
        assert_eq!(offset.there_ns(Timestamp::from_nanos(15)), 25);
    }
}
