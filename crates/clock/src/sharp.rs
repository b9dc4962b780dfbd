//! A rate far sharper than the brackets: what two blocks of triples share cancels.
//!
//! A bracket is some 20 ns wide, so hard bounds over 1 ms leave 20 ppm. But inside the commonest bracket the clock reads the counter
//! at the same place nearly always, early and late alike, and the kernel's value is the floor of a line at that place. So each triple
//! of that kind confines the line's offset, up to one unknown constant, to an interval of one nanosecond, and a thousand intervals with
//! all phases overlap in one narrow spot. The constant is the same in both blocks and drops out of the rate.
//!
//! This is an estimate, not a bound: it holds while the code path takes the same time at both ends. [`crate::calibrate`] therefore uses it
//! only to choose among the kernel's own possible multipliers, inside the hard bounds.

use vtare_units::CounterTick;

use crate::bounds::Triple;

/// A rate and how far off it may be if the assumption holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharpRate {
    /// The rate, in ns per tick.
    pub rate: f64,
    /// Half the width of the two spots over the time between them, as a share of the rate.
    pub half_width: f64,
    /// The share of the triples used that agree with the spots.
    pub agreement: f64,
}

/// The spot that most intervals share.
#[derive(Clone, Copy)]
struct Spot {
    /// The clock at the block's reference tick, in ns.
    middle: f64,
    half_width: f64,
    inside: usize,
    of: usize,
}

/// Estimates the rate between two blocks of triples taken at the ends of a window, starting from a rough `rate` (ns per tick, within some
/// 100 ppm): one estimate for each of the commonest bracket widths, the commonest first. Inside one width the clock may read the counter at
/// several places, in shares that change; another width then is the steadier. Empty where a block is empty or no time passed.
#[must_use]
pub fn sharp_rates(first: &[Triple], last: &[Triple], rate: f64) -> Vec<SharpRate> {
    common_widths(first, last).into_iter().filter_map(|width| sharp_rate(first, last, width, rate)).collect()
}

fn sharp_rate(first: &[Triple], last: &[Triple], width: i64, rate: f64) -> Option<SharpRate> {
    let origin = first.first()?;
    let (first, last) = (points(first, width, origin), points(last, width, origin));
    let reference = |block: &[(f64, f64)]| block.get(block.len() / 2).map(|point| point.0);
    let (at_first, at_last) = (reference(&first)?, reference(&last)?);
    let ticks = at_last - at_first;
    if ticks <= 0.0 {
        return None;
    }
    let mut rate = rate;
    let mut result = None;
    // Each turn sharpens the rate within the blocks, which in turn narrows the spots; five turns reach the end.
    for _ in 0..5 {
        let early = spot(&first, at_first, rate)?;
        let late = spot(&last, at_last, rate)?;
        // The spots are values of the clock at the two reference ticks.
        rate += (late.middle - early.middle - rate * ticks) / ticks;
        result = Some(SharpRate {
            rate,
            half_width: (early.half_width + late.half_width) / ticks / rate,
            agreement: (early.inside + late.inside) as f64 / (early.of + late.of) as f64,
        });
    }
    result
}

/// The bracket widths that at least a tenth of the triples have, in ticks, the commonest first; the commonest one in any case.
fn common_widths(first: &[Triple], last: &[Triple]) -> Vec<i64> {
    let mut widths: Vec<i64> = first.iter().chain(last).map(|t| t.after.since(t.before)).collect();
    widths.sort_unstable();
    let mut runs: Vec<(usize, i64)> = widths.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect();
    runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.0));
    let enough = widths.len() / 10;
    runs.iter().enumerate().filter(|(rank, run)| *rank == 0 || run.0 >= enough).map(|(_, run)| run.1).take(4).collect()
}

/// Middle of the bracket and clock, relative to an origin, of the triples with brackets of `width` or (on counters without a lattice) close
/// to it.
fn points(block: &[Triple], width: i64, origin: &Triple) -> Vec<(f64, f64)> {
    let tick = |at: CounterTick| at.since(origin.before) as f64;
    block
        .iter()
        .filter(|t| (t.after.since(t.before) - width).abs() <= width / 32)
        .map(|t| {
            let middle = f64::midpoint(tick(t.before), tick(t.after));
            (middle, t.clock_ns.wrapping_sub(origin.clock_ns).cast_signed() as f64)
        })
        .collect()
}

/// The clock at `reference` that most triples allow: each allows its own reading carried there, to that plus one.
fn spot(points: &[(f64, f64)], reference: f64, rate: f64) -> Option<Spot> {
    let mut starts: Vec<f64> = points.iter().map(|(tick, clock)| clock - rate * (tick - reference)).collect();
    starts.sort_by(f64::total_cmp);
    // A window of one nanosecond that holds the most interval starts; its intervals all cover the stretch from the last start
    // to the first end.
    let mut best = (0, 0, 0);
    let mut low = 0;
    for high in 0..starts.len() {
        while starts[high] - starts[low] >= 1.0 {
            low += 1;
        }
        if high + 1 - low > best.0 {
            best = (high + 1 - low, low, high);
        }
    }
    let (inside, low, high) = best;
    if inside == 0 {
        return None;
    }
    let (from, to) = (starts[high], starts[low] + 1.0);
    Some(Spot { middle: f64::midpoint(from, to), half_width: (to - from) / 2.0, inside, of: starts.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// Two blocks a window apart, on a lattice, with a code path that mostly takes the same time.
    fn blocks(mult: u64, lattice: u64, window: u64, odd_share: f64, seed: u64) -> (Vec<Triple>, Vec<Triple>) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let start = rng.random_range(1_u64 << 40..1 << 50) / lattice * lattice;
        let clock = |tick: u64| 77 + ((u128::from(tick - start) * u128::from(mult)) >> 24) as u64;
        let mut take = |from: u64| {
            let mut tick = from / lattice * lattice;
            (0..1_000)
                .map(|_| {
                    let odd = rng.random_bool(odd_share);
                    let read = tick + if odd { 3 * lattice } else { lattice };
                    let after = read + if odd { 4 } else { 2 } * lattice;
                    let triple = Triple {
                        before: CounterTick::new(tick),
                        clock_ns: clock(read),
                        after: CounterTick::new(after),
                    };
                    tick = after + rng.random_range(1..4) * lattice;
                    triple
                })
                .collect::<Vec<_>>()
        };
        (take(start), take(start + window))
    }

    #[test]
    fn a_millisecond_on_a_lattice_gives_the_rate_to_a_hundredth_ppm() {
        for seed in 0..100 {
            let truth = 6_462_424.0 / f64::from(1 << 24);
            let (first, last) = blocks(6_462_424, 26, 2_600_000, 0.1, seed);
            let found = sharp_rates(&first, &last, truth * (1.0 + 2e-5))[0];
            let off = (found.rate / truth - 1.0).abs() * 1e6;
            assert!(off < 0.02, "seed {seed}: {off} ppm, {found:?}");
            assert!(found.agreement > 0.95);
        }
    }

    #[test]
    fn nothing_in_gives_nothing_out() {
        assert_eq!(sharp_rates(&[], &[], 1.0), []);
        let (first, _) = blocks(6_462_424, 26, 2_600_000, 0.0, 1);
        assert_eq!(sharp_rates(&first, &[], 0.385), []);
        assert_eq!(sharp_rates(&first, &first, 0.385), []);
    }
}
