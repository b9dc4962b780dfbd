use std::fmt;

use super::Distribution;

/// Latencies that cannot be summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyError {
    /// There must be one for each guest.
    Count {
        /// Latencies given.
        found: usize,
        /// Guests.
        guests: u32,
    },
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Count { found, guests } = self;
        write!(f, "there are {found} latencies: pass one for each of the {guests} guests")
    }
}

impl std::error::Error for LatencyError {}

/// The latency of the whole, ns: the mean over the strongly loaded guests and that over the others, each with its share
/// of the load.
///
/// The second sum of the published equation 7 runs over the strongly loaded guests, and where all are loaded alike the
/// whole is the plain mean: as printed it would be 0/0 there. `None` for a guest without a measured latency makes the
/// whole `None`, unless that guest had no load.
///
/// # Errors
/// Where there is not one latency for each guest.
//= Batalla et al. 2018, equation 7, corrected
pub fn total_latency_ns(each_ns: &[Option<f64>], distribution: &Distribution) -> Result<Option<f64>, LatencyError> {
    if each_ns.len() != distribution.guests() as usize {
        return Err(LatencyError::Count { found: each_ns.len(), guests: distribution.guests() });
    }
    let shares = distribution.shares();
    let parts = each_ns.iter().zip(shares).filter(|(_, share)| *share > 0.0);
    Ok(parts.map(|(latency, share)| latency.map(|latency| latency * share)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_counts_by_its_load_and_equal_latencies_give_themselves() {
        let six = Distribution::new(12, 6, 0.01).expect("good");
        let each: Vec<Option<f64>> = (0..12).map(|guest| Some(if guest < 6 { 100.0 } else { 200.0 })).collect();
        let total = total_latency_ns(&each, &six).expect("12 of them").expect("measured");
        assert!((total - (0.99 * 100.0 + 0.01 * 200.0)).abs() < 1e-9);
        for loaded in 1..=12 {
            let any = Distribution::new(12, loaded, 0.01).expect("good");
            let total = total_latency_ns(&[Some(70.0); 12], &any).expect("12 of them").expect("measured");
            assert!((total - 70.0).abs() < 1e-9, "{loaded}: weights do not sum to 1");
        }
    }

    #[test]
    fn where_all_are_loaded_it_is_the_plain_mean() {
        let all = Distribution::new(3, 3, 0.01).expect("good");
        let total = total_latency_ns(&[Some(1.0), Some(2.0), Some(6.0)], &all).expect("3").expect("measured");
        assert!((total - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_latency_is_no_zero() {
        let one = Distribution::new(2, 1, 0.01).expect("good");
        assert_eq!(total_latency_ns(&[Some(1.0), None], &one), Ok(None));
        // A guest without load has none, and no part.
        let nothing = Distribution::new(2, 1, 0.0).expect("good");
        assert_eq!(total_latency_ns(&[Some(1.0), None], &nothing), Ok(Some(1.0)));
        assert!(
            total_latency_ns(&[Some(1.0)], &one).expect_err("one of two").to_string().contains("there are 1 latencies")
        );
    }
}
