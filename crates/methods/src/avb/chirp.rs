use super::classic::gap_ns;
use super::{Observation, Spacing, Train};

/// A train whose rate changes from packet to packet: one rate for each gap.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chirp {
    pub(super) rates_bit_per_s: Vec<f64>,
}

/// How an excursion of the delay is distinguished from noise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excursions {
    /// An excursion is over when the delay above its start is below its highest over this factor.
    pub(super) decrease_factor: f64,
    /// Least number of packets of an excursion.
    pub(super) busy_packets: u32,
}

impl Chirp {
    /// Rates from `low` to `high`, each `spread` times the one before.
    pub(super) fn exponential(low_bit_per_s: f64, high_bit_per_s: f64, spread: f64) -> Self {
        let steps = ((high_bit_per_s / low_bit_per_s).ln() / spread.ln()).ceil().clamp(1.0, 500.0) as i32;
        Self { rates_bit_per_s: (0..=steps).map(|k| low_bit_per_s * spread.powi(k)).collect() }
    }

    /// Rates that are dense in the middle of `low` to `high`: steps of `share` of half the range away from it, each
    /// `spread` times the one before.
    pub(super) fn symmetric(low_bit_per_s: f64, high_bit_per_s: f64, share: f64, spread: f64) -> Self {
        let (middle, half) = (f64::midpoint(low_bit_per_s, high_bit_per_s), (high_bit_per_s - low_bit_per_s) / 2.0);
        let steps = ((1.0 / share).ln() / spread.ln()).ceil().clamp(1.0, 500.0) as i32;
        let away: Vec<f64> = (0..=steps).map(|i| half * (share * spread.powi(i)).min(1.0)).collect();
        let down = away.iter().rev().map(|step| middle - step);
        let mut rates: Vec<f64> = down.chain([middle]).chain(away.iter().map(|step| middle + step)).collect();
        rates.dedup();
        Self { rates_bit_per_s: rates }
    }

    pub(super) fn train(&self, size_byte: u32) -> Train {
        let gaps_ns = self.rates_bit_per_s.iter().map(|&rate| gap_ns(size_byte, rate)).collect();
        Train {
            packets: self.rates_bit_per_s.len() as u32 + 1,
            size_byte,
            spacing: Spacing::Gaps { gaps_ns },
            idle_before_ns: 0,
        }
    }

    /// The estimate of this chirp, bit/s; `None` where a packet is missing.
    pub(super) fn estimate(&self, observation: &Observation, excursions: &Excursions) -> Option<f64> {
        let arrivals = observation.arrivals();
        if arrivals.len() != self.rates_bit_per_s.len() + 1 {
            return None;
        }
        let delays: Vec<f64> = arrivals.iter().map(super::SortedArrival::delay_ns).collect();
        self.of_delays(&delays, excursions)
    }

    /// Available bandwidth from the queueing delay of each packet: every gap has a rate, and their mean is weighted by
    /// the gaps.
    //= Ribeiro et al. 2003, pathChirp: efficient available bandwidth estimation for network paths, section 4
    fn of_delays(&self, delays: &[f64], excursions: &Excursions) -> Option<f64> {
        let rates = &self.rates_bit_per_s;
        let rises = |k: usize| delays[k] < delays[k + 1];
        let mut of_gap: Vec<Option<f64>> = vec![None; rates.len()];
        let (mut k, mut last) = (0, None);
        while k < rates.len() {
            if !rises(k) {
                k += 1;
                continue;
            }
            match end_of(delays, k, excursions.decrease_factor) {
                Some(end) => {
                    if end - k >= excursions.busy_packets as usize {
                        for gap in (k..end).filter(|&gap| delays[gap] <= delays[gap + 1]) {
                            of_gap[gap] = Some(rates[gap]);
                        }
                    }
                    k = end.max(k + 1);
                }
                None => {
                    last = Some(k);
                    break;
                }
            }
        }
        // Where the queue was still there at the end, it began at the available bandwidth; else that is above all
        // rates.
        let start = last.unwrap_or(rates.len() - 1);
        let (mut sum, mut weight) = (0.0, 0.0);
        for (gap, &rate) in rates.iter().enumerate() {
            let of = of_gap[gap].unwrap_or(rates[start]);
            sum += of / rate;
            weight += 1.0 / rate;
        }
        (weight > 0.0).then(|| sum / weight)
    }
}

/// The packet at which the excursion that starts at `start` is over; `None`: it lasts to the end.
fn end_of(delays: &[f64], start: usize, decrease_factor: f64) -> Option<usize> {
    let mut most = 0.0_f64;
    for (packet, &delay) in delays.iter().enumerate().skip(start + 1) {
        let above = delay - delays[start];
        most = most.max(above);
        if above < most / decrease_factor {
            return Some(packet);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNS: Excursions = Excursions { decrease_factor: 1.5, busy_packets: 5 };

    fn chirp() -> Chirp {
        Chirp { rates_bit_per_s: (1..=12).map(|k| f64::from(k) * 10e6).collect() }
    }

    #[test]
    fn a_chirp_of_10_to_200_mbit_per_s_at_1_point_2_has_18_gaps() {
        let chirp = Chirp::exponential(10e6, 200e6, 1.2);
        assert_eq!(chirp.rates_bit_per_s.len(), 18);
        assert!((chirp.rates_bit_per_s[1] / 12e6 - 1.0).abs() < 1e-12);
        assert_eq!(chirp.train(1000).packets, 19);
        // 8000 bit at 10 Mbit/s.
        assert_eq!(chirp.train(1000).offsets_ns()[1], 800_000.0);
    }

    #[test]
    fn a_symmetric_chirp_is_dense_in_the_middle_and_reaches_both_ends() {
        let rates = Chirp::symmetric(10e6, 200e6, 0.05, 1.2).rates_bit_per_s;
        assert_eq!((rates.first(), rates.last()), (Some(&10e6), Some(&200e6)));
        assert!(rates.windows(2).all(|pair| pair[0] < pair[1]));
        let middle = rates.len() / 2;
        assert_eq!(rates[middle], 105e6);
        assert!((rates[middle + 1] - 109.75e6).abs() < 1.0);
    }

    #[test]
    fn a_queue_that_stays_to_the_end_states_the_rate_at_which_it_began() {
        let delays: Vec<f64> = (0..13).map(|k| f64::from((k - 6_i32).max(0))).collect();
        // The first packet that waits is the one behind gap 6, whose rate is 70 Mbit/s.
        let found = chirp().of_delays(&delays, &SIGNS).expect("complete");
        assert!((found / 70e6 - 1.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn no_queue_at_all_states_the_highest_rate() {
        let found = chirp().of_delays(&[3.0; 13], &SIGNS).expect("complete");
        assert!((found / 120e6 - 1.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn an_excursion_ends_below_its_highest_over_the_factor_and_counts_from_five_packets_on() {
        assert_eq!(end_of(&[0.0, 3.0, 6.0, 4.1, 3.9, 0.0], 0, 1.5), Some(4));
        assert_eq!(end_of(&[0.0, 3.0, 6.0, 4.1], 0, 1.5), None);
        let quiet = chirp().of_delays(&[0.0; 13], &SIGNS).expect("complete");
        // Four packets: nothing. Six: the rising gaps 0 to 4 take their own, lower rates.
        let four = [0.0, 3.0, 6.0, 9.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(chirp().of_delays(&four, &SIGNS), Some(quiet));
        let six = [0.0, 3.0, 6.0, 9.0, 10.0, 11.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let found = chirp().of_delays(&six, &SIGNS).expect("complete");
        let weight: f64 = (1..=12).map(|k| 1.0 / f64::from(k)).sum();
        let rest: f64 = (6..=12).map(|k| 12.0 / f64::from(k)).sum();
        assert!((found / 1e7 - (5.0 + rest) / weight).abs() < 1e-9, "{found}");
    }
}
