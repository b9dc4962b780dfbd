//! How much later than asked the kernel woke a thread: the last overshoots, apart for each range of durations, since
//! overshoot grows with the length of the sleep (deeper idle).

use vtare_units::Span;

/// Overshoots remembered in each range.
const KEPT: usize = 256;
/// Ranges of durations: up to 32 us, 128 us, ... each four times the one before; the last is open.
pub(super) const RANGES: usize = 8;

/// The range that a duration belongs to.
pub(super) fn range_of(duration: Span) -> usize {
    let micros = duration.as_nanos_unsigned() / 1_000;
    let mut range = 0;
    let mut upper = 32;
    while micros > upper && range < RANGES - 1 {
        upper *= 4;
        range += 1;
    }
    range
}

/// The last overshoots in ns, in the order they came and sorted. Fixed size, no allocation.
#[derive(Clone, Debug)]
pub(super) struct Overshoots {
    arrival: [u32; KEPT],
    sorted: [u32; KEPT],
    len: usize,
    next: usize,
}

impl Overshoots {
    pub(super) const fn new() -> Self {
        Self { arrival: [0; KEPT], sorted: [0; KEPT], len: 0, next: 0 }
    }

    /// From the least to the greatest.
    pub(super) fn sorted(&self) -> &[u32] {
        &self.sorted[..self.len]
    }

    /// Where the next one is put: a turn takes 256.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Adds one; the oldest goes where all places are taken.
    pub(super) fn push(&mut self, overshoot: Span) {
        let overshoot = u32::try_from(overshoot.as_nanos_unsigned()).unwrap_or(u32::MAX);
        if self.len == KEPT {
            let oldest = self.arrival[self.next];
            let at = self.sorted.partition_point(|kept| *kept < oldest);
            self.sorted.copy_within(at + 1.., at);
            self.len -= 1;
        }
        let at = self.sorted[..self.len].partition_point(|kept| *kept < overshoot);
        self.sorted.copy_within(at..self.len, at + 1);
        self.sorted[at] = overshoot;
        self.len += 1;
        self.arrival[self.next] = overshoot;
        self.next = (self.next + 1) % KEPT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_overshoots_are_kept_in_order(values in prop::collection::vec(any::<u32>(), 1..700)) {
            let mut known = Overshoots::new();
            for value in &values {
                known.push(Span::from_nanos(i64::from(*value)));
            }
            let mut expected: Vec<u32> = values.iter().rev().take(KEPT).copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(known.sorted(), &expected[..]);
        }
    }
}
