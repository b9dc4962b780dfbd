use super::classic::{median, rate_bit_per_s};
use super::modes::modes;
use super::{Estimate, Observation, Stopped, Train};

/// Silence before each pair of a capacity measurement, ns.
const IDLE_NS: u64 = 5_000_000;

/// The capacity, for methods that need it as an input: given, or measured first with back-to-back pairs.
#[derive(Clone, Debug)]
pub(super) struct CapacityProbe {
    given: Option<f64>,
    found: Option<Result<f64, Stopped>>,
    pairs: u32,
    size_byte: u32,
    sent: u32,
    gaps_ns: Vec<f64>,
}

impl CapacityProbe {
    pub(super) const fn new(given_bit_per_s: Option<f64>, pairs: u32, size_byte: u32) -> Self {
        Self { given: given_bit_per_s, found: None, pairs, size_byte, sent: 0, gaps_ns: Vec::new() }
    }

    /// The capacity, bit/s; or that it cannot be found; or the pair that is still to be sent.
    pub(super) fn next(&mut self) -> Result<Result<f64, Stopped>, Train> {
        if let Some(capacity) = self.given {
            return Ok(Ok(capacity));
        }
        if let Some(found) = self.found {
            return Ok(found);
        }
        if self.sent < self.pairs {
            let idle_ns = if self.sent == 0 { 0 } else { IDLE_NS };
            return Err(Train::back_to_back(2, self.size_byte).after_idle(idle_ns));
        }
        let found = strongest_gap_ns(&self.gaps_ns).map(|gap| rate_bit_per_s(self.size_byte, gap));
        Ok(*self.found.insert(found.ok_or(Stopped::Lossy)))
    }

    /// The capacity, where it is known.
    pub(super) fn known(&self) -> Option<f64> {
        self.given.or_else(|| self.found.and_then(Result::ok))
    }

    const fn is_under_way(&self) -> bool {
        self.given.is_none() && self.found.is_none()
    }

    /// Takes a pair of its own; false: the train belongs to the method.
    pub(super) fn observe(&mut self, observation: &Observation) -> bool {
        let own = self.is_under_way();
        if own {
            self.sent += 1;
            self.gaps_ns.extend(observation.gaps_ns().first().map(|&(_, received)| received));
        }
        own
    }

    /// Nothing arrived of a train; false: it belongs to the method.
    pub(super) fn silent(&mut self) -> bool {
        let own = self.is_under_way();
        self.sent += u32::from(own);
        own
    }

    pub(super) fn note(&self, estimate: &mut Estimate) {
        if self.given.is_none() {
            let note = "capacity was not given but measured with back-to-back pairs: its error is in the answer";
            estimate.notes.push(note.to_owned());
        }
    }
}

/// The gap around which most gaps lie: windows as wide as a twentieth of the median.
pub(super) fn strongest_gap_ns(gaps_ns: &[f64]) -> Option<f64> {
    let positive: Vec<f64> = gaps_ns.iter().copied().filter(|&gap| gap > 0.0).collect();
    let width = median(&positive)? / 20.0;
    modes(&positive, width).first().map(|mode| mode.value)
}

#[cfg(test)]
mod tests {
    use super::super::classic::hand::even;
    use super::*;

    #[test]
    fn the_mode_of_the_gaps_is_the_capacity() {
        let mut it = CapacityProbe::new(None, 5, 1500);
        for gap_ns in [120_000.0, 121_000.0, 360_000.0, 119_000.0, 240_000.0] {
            assert!(it.next().is_err());
            assert!(it.observe(&even(2, 1500, 0.0, gap_ns)));
        }
        assert_eq!(it.next(), Ok(Ok(100e6)));
        assert!(!it.observe(&even(2, 1500, 0.0, 1.0)));
    }

    #[test]
    fn pairs_without_gaps_state_nothing() {
        let mut it = CapacityProbe::new(None, 1, 1500);
        assert!(it.observe(&even(2, 1500, 0.0, 0.0)));
        assert_eq!(it.next(), Ok(Err(Stopped::Lossy)));
        assert_eq!(it.known(), None);
    }
}
