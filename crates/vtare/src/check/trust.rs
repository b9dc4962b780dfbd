//! From which duration on a measured time can be trusted (docs/methods/check.md has the derivation).
//!
//! A piece of work that needs the time D of an undisturbed CPU is measured as D plus the gaps that fall into it, plus
//! the cost and the step of the clock, plus the clock's own error of rate. The gaps that a spinning thread saw show
//! what falls into an interval: the series is laid out in undisturbed time, cut into intervals of length D, and the
//! relative error of each is taken. The error that 95 of 100 intervals do not exceed is the figure; each CPU's series
//! is cut into parts, and the parts give its spread.

use serde::Serialize;

use crate::noise::Spin;
use vtare_units::figures::Figures;

/// Least number of intervals for a 0.95 quantile: with 95 % confidence the largest of 59 exceeds it.
const LEAST_INTERVALS: i64 = 59;
/// Parts into which each CPU's series is cut.
pub(super) const PARTS: usize = 5;
/// Parts that must have seen a duration before its error is stated.
const LEAST_PARTS: usize = 3;
/// Errors are summed up as whole parts per billion.
const PER_BILLION: f64 = 1e9;

/// How much of an interval's error does not come from gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClockError {
    /// Cost of one reading plus the clock's step, in ns.
    pub(super) fixed_ns: f64,
    /// Error of the clock's rate, as a share.
    pub(super) rate: f64,
}

/// The relative error of one duration.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct TrustPoint {
    /// The duration, in ns.
    pub(crate) duration_ns: i64,
    /// The relative error that 95 of 100 intervals do not exceed, as a share; one value from each part.
    pub(crate) error_p95: Figures,
}

/// How far durations can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Trust {
    /// The error that is accepted, as a share.
    pub(crate) level: f64,
    /// The errors by duration, in rising order.
    pub(crate) points: Vec<TrustPoint>,
    /// The least duration from which on the median error over the parts stays within the level, in ns; null where none
    /// does.
    pub(crate) least_ns: Option<i64>,
    /// The same of each part alone; null where none does there.
    pub(crate) least_by_part_ns: Vec<Option<i64>>,
    /// Whether the whole length of every part lost less than the level, so that longer durations hold too.
    pub(crate) holds_beyond: bool,
    /// The relative error of longer durations, as a share: what the whole length of each part lost.
    pub(crate) longer: Figures,
}

/// A part of a series: gaps at their place in undisturbed time.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    gaps: Vec<(i64, i64)>,
    length: i64,
}

/// The durations that are examined: 1, 2, 5 times powers of ten, from 1 us to 10 s.
pub(super) fn durations() -> impl Iterator<Item = i64> {
    (3..10).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power))).chain([10_000_000_000])
}

/// Cuts a series into [`PARTS`] parts of equal undisturbed length.
fn parts(spin: &Spin) -> Vec<Part> {
    let undisturbed = spin.elapsed - spin.lost();
    let length = undisturbed / PARTS as i64;
    if length <= 0 {
        return Vec::new();
    }
    let mut found = vec![Part { gaps: Vec::new(), length }; PARTS];
    let mut lost = 0;
    for (at, gap) in &spin.gaps {
        let place = at - lost;
        lost += gap;
        if let Some(part) = usize::try_from(place / length).ok().and_then(|index| found.get_mut(index)) {
            part.gaps.push((place % length, *gap));
        }
    }
    found
}

/// The relative error that 95 of 100 intervals of `duration` do not exceed in `part`; `None` below 59 intervals.
fn error_p95(part: &Part, duration: i64, clock: ClockError) -> Option<f64> {
    let intervals = part.length / duration;
    if intervals < LEAST_INTERVALS {
        return None;
    }
    let mut taken: Vec<i64> = Vec::new();
    let mut last = None;
    for (place, gap) in &part.gaps {
        let interval = place / duration;
        if interval >= intervals {
            break;
        }
        if last == Some(interval) {
            if let Some(sum) = taken.last_mut() {
                *sum += gap;
            }
        } else {
            taken.push(*gap);
            last = Some(interval);
        }
    }
    taken.sort_unstable();
    // The least value that 95 % of all intervals do not exceed; those without a gap come first.
    let rank = (intervals * 95 + 99) / 100 - 1;
    let untouched = intervals - taken.len() as i64;
    let gap = usize::try_from(rank - untouched).map_or(0, |index| taken[index]);
    Some((gap as f64 + clock.fixed_ns) / duration as f64 + clock.rate)
}

/// The least of `errors`' durations from which on all errors stay within `level`.
fn least(errors: &[(i64, f64)], level: f64) -> Option<i64> {
    errors.iter().rev().take_while(|(_, error)| *error <= level).last().map(|(duration, _)| *duration)
}

/// Evaluates the series of all CPUs. `None` where there are too few parts to state a spread.
pub(super) fn weigh(series: &[Spin], clock: ClockError, level: f64) -> Option<Trust> {
    let parts: Vec<Part> = series.iter().flat_map(parts).collect();
    let mut by_part: Vec<Vec<(i64, f64)>> = vec![Vec::new(); parts.len()];
    let mut points = Vec::new();
    let in_billionths = |share: f64| (share * PER_BILLION).round() as i64;
    for duration in durations() {
        let errors: Vec<Option<f64>> = parts.iter().map(|part| error_p95(part, duration, clock)).collect();
        for (own, error) in by_part.iter_mut().zip(&errors) {
            own.extend(error.map(|error| (duration, error)));
        }
        let known: Vec<i64> = errors.into_iter().flatten().map(in_billionths).collect();
        if known.len() >= LEAST_PARTS {
            points.push(TrustPoint {
                duration_ns: duration,
                error_p95: known.into_iter().collect::<Figures>().scaled(1.0 / PER_BILLION),
            });
        }
    }
    if points.is_empty() {
        return None;
    }
    let medians: Vec<(i64, f64)> =
        points.iter().filter_map(|point| Some((point.duration_ns, point.error_p95.median?))).collect();
    let lost = |part: &Part| part.gaps.iter().map(|(_, gap)| gap).sum::<i64>() as f64 / part.length as f64;
    let longer: Figures = parts.iter().map(|part| in_billionths(lost(part) + clock.rate)).collect();
    Some(Trust {
        level,
        least_ns: least(&medians, level),
        least_by_part_ns: by_part.iter().map(|errors| least(errors, level)).collect(),
        longer: longer.scaled(1.0 / PER_BILLION),
        holds_beyond: parts.iter().all(|part| lost(part) + clock.rate <= level),
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXACT: ClockError = ClockError { fixed_ns: 0.0, rate: 0.0 };

    /// One second with a gap of `gap` ns after every `every` ns of undisturbed time.
    fn regular(every: i64, gap: i64) -> Spin {
        let count = 1_000_000_000 / every;
        let gaps: Vec<_> = (0..count).map(|index| (index * (every + gap) + every / 2, gap)).collect();
        Spin { elapsed: 1_000_000_000 + count * gap, gaps, ..Spin::default() }
    }

    fn trust_of(spin: &Spin, clock: ClockError) -> Trust {
        weigh(std::slice::from_ref(spin), clock, 0.01).expect("a second is long enough")
    }

    #[test]
    fn a_clock_of_20_ns_on_a_cpu_without_gaps_is_trusted_from_2_us_on() {
        let quiet = Spin { elapsed: 1_000_000_000, ..Spin::default() };
        let found = trust_of(&quiet, ClockError { fixed_ns: 20.0, rate: 0.0 });
        assert_eq!(found.least_ns, Some(2_000), "20 ns of 2 us is 1 %");
        assert!(found.holds_beyond);
        assert_eq!(found.least_by_part_ns, [Some(2_000); PARTS]);
    }

    #[test]
    fn a_gap_of_10_us_in_every_ms_is_1_percent_of_a_ms_and_10_percent_of_100_us() {
        let found = trust_of(&regular(1_000_000, 10_000), EXACT);
        let error = |duration| {
            let point =
                found.points.iter().find(|point| point.duration_ns == duration).expect("the duration is in the grid");
            point.error_p95.median.expect("there are five parts")
        };
        assert!((error(1_000_000) - 0.01).abs() < 1e-9);
        assert!((error(100_000) - 0.1).abs() < 1e-9, "one interval in ten is hit: more than 5 in 100");
        assert!(error(20_000).abs() < 1e-9, "one interval in fifty is hit: less than 5 in 100");
        assert_eq!(found.least_ns, Some(1_000_000));
    }

    #[test]
    fn a_cpu_that_always_loses_2_percent_is_never_trusted_to_1_percent() {
        let found = trust_of(&regular(100_000, 2_000), EXACT);
        assert_eq!(found.least_ns, None);
        assert!(!found.holds_beyond);
        let longest = found.points.last().expect("there are points");
        assert!((longest.error_p95.median.expect("five parts") - 0.02).abs() < 0.002, "{longest:?}");
    }

    #[test]
    fn one_long_gap_does_not_touch_95_of_100_but_forbids_longer_durations() {
        let spin = Spin { elapsed: 1_050_000_000, gaps: vec![(500_000_000, 50_000_000)], ..Spin::default() };
        let found = trust_of(&spin, EXACT);
        assert_eq!(found.least_ns, Some(1_000));
        assert!(!found.holds_beyond, "a part of 200 ms lost 50 ms");
    }

    #[test]
    fn a_rate_error_adds_to_every_duration() {
        let quiet = Spin { elapsed: 1_000_000_000, ..Spin::default() };
        let found = trust_of(&quiet, ClockError { fixed_ns: 0.0, rate: 0.02 });
        assert_eq!((found.least_ns, found.holds_beyond), (None, false));
    }

    #[test]
    fn too_short_a_series_gives_no_trust() {
        assert_eq!(weigh(&[], EXACT, 0.01), None);
        assert_eq!(weigh(&[Spin { elapsed: 100_000, ..Spin::default() }], EXACT, 0.01), None);
    }

    #[test]
    fn an_interval_longer_than_a_59th_of_the_part_is_not_judged() {
        let part = Part { gaps: Vec::new(), length: 58_999 };
        assert_eq!(error_p95(&part, 1_000, EXACT), None);
        let part = Part { gaps: Vec::new(), length: 59_000 };
        assert_eq!(error_p95(&part, 1_000, EXACT), Some(0.0));
    }

    proptest! {
        #[test]
        fn longer_gaps_never_raise_the_trust(
            gaps in proptest::collection::vec((0_i64..900_000, 1_i64..50_000), 0..40),
        ) {
            let mut at = 0;
            let series = |factor: i64| {
                at = 0;
                let scaled = gaps.iter().map(|(wait, gap)| {
                    let begun = at + wait;
                    at = begun + gap * factor;
                    (begun, gap * factor)
                });
                let gaps: Vec<_> = scaled.collect();
                Spin { elapsed: at + 500_000_000, gaps, ..Spin::default() }
            };
            let [small, great] = [1, 3].map(series).map(|spin| trust_of(&spin, EXACT));
            for (a, b) in small.points.iter().zip(&great.points) {
                prop_assert!(a.error_p95.median <= b.error_p95.median);
            }
        }
    }
}
