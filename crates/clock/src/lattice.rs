//! The lattice of a counter: the spacing of the values that it shows, and what that spacing shows about the kernel's
//! multiplier.
//!
//! Many counters do not show every tick: the CPU adds a whole step each time a slower oscillator ticks (26 ticks each
//! 10 ns), and a hypervisor that scales the counter makes steps that are no whole number of ticks (24.5: the counter
//! moves by 24 and 25 in turn). The spacing is therefore a real number.

use core::f64::consts::TAU;

use vtare_units::CounterTick;

use crate::bounds::{LineBounds, Triple};
use crate::kernel_rate::{KernelRate, kernel_rates_between};
use crate::source::TimeSource;

/// Readings that one estimate of the spacing takes.
const READINGS: usize = 1_000;
/// Differences below this many ticks are no steps: some CPUs put a reading off by a tick so that no two are equal.
const LEAST_STEP: u64 = 4;
/// The share of the differences' phase that must agree (length of the mean resultant) before a spacing counts as a
/// lattice.
const COHERENCE: f64 = 0.9;
/// How far a reading may be from the lattice through the reading before it, in ticks: one for a reading put off, and
/// one more because a rate is claimed only if all others contradict the readings.
const SLACK_TICKS: f64 = 2.0;
/// The same on a lattice that is not whole: one more for rounding down.
const ROUNDED_SLACK_TICKS: f64 = 3.0;
/// A spacing nearer to a whole number than this is whole.
const WHOLE_WITHIN: f64 = 0.004;
/// Brackets of more steps than this were interrupted: over many steps the error of the spacing itself would count.
const MOST_STEPS: f64 = 16.0;
/// More candidates than this are not separated: the bounds are far too wide.
const MOST_CANDIDATES: f64 = 400.0;

/// The spacing of the values that the counter of `source` shows, in ticks: 1 where it shows every tick.
#[must_use]
pub fn step_ticks(source: &impl TimeSource) -> f64 {
    step_of(&spaced_readings(source))
}

/// Readings with pauses of varying length between them: a loop of constant time would itself look like a lattice.
pub fn spaced_readings(source: &impl TimeSource) -> Vec<CounterTick> {
    let mut state = 0x2545_f491_u32;
    (0..READINGS)
        .map(|_| {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            source.spin(state >> 28);
            // Ordered: the pause would pass beside the reading else.
            source.tick_ordered()
        })
        .collect()
}

/// The spacing in ticks of the lattice on which `readings`, taken one after the other on one CPU with varying pauses,
/// lie; 1 where there is none. Interrupts, moves to another CPU and readings put off by a tick may be among them while
/// they are rare. A spacing that is not whole is found from about 7 ticks on.
///
/// ```
/// use vtare_clock::lattice::step_of;
/// use vtare_units::CounterTick;
/// // 24.5 ticks: the counter moves by 24, 25, 49, 73 or 74.
/// let steps = [1, 2, 1, 3, 1, 1, 2, 1, 3, 2];
/// let mut at = 0_u64;
/// let readings: Vec<_> = (0..500)
///     .map(|i| {
///         at += steps[i % 10];
///         CounterTick::new((at as f64 * 24.5) as u64)
///     })
///     .collect();
/// assert!((step_of(&readings) - 24.5).abs() < 0.01);
/// ```
#[must_use]
pub fn step_of(readings: &[CounterTick]) -> f64 {
    let mut differences: Vec<u64> = readings.windows(2).map(|pair| pair[1].since(pair[0]).unsigned_abs()).collect();
    differences.sort_unstable();
    let counts: Vec<(u64, usize)> = differences.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    let Some(usual) = commonest(&counts) else { return 1.0 };
    // Longer ones were interrupted.
    let counts: Vec<(f64, f64)> = counts
        .iter()
        .map(|(ticks, count)| (*ticks as f64, *count as f64))
        .take_while(|(ticks, _)| *ticks <= 8.0 * usual)
        .collect();
    // The commonest difference is a whole number of steps; the greatest spacing on which all others lie is the step.
    (1..)
        .map(|steps| usual / f64::from(steps))
        .take_while(|spacing| *spacing >= 2.0)
        .map(|spacing| refined(&counts, refined(&counts, spacing)))
        .find(|spacing| coherence(&counts, *spacing) >= COHERENCE)
        .unwrap_or(1.0)
}

/// The mean of the two neighbouring differences that are the most common together: a spacing that is not whole shows as
/// its two roundings.
fn commonest(counts: &[(u64, usize)]) -> Option<f64> {
    let mut best = (0, 0.0);
    for (at, (ticks, count)) in counts.iter().enumerate().filter(|(_, (ticks, _))| *ticks >= LEAST_STEP) {
        let next = counts.get(at + 1).filter(|(next, _)| *next == ticks + 1).map_or(0, |(_, count)| *count);
        if count + next > best.0 {
            best = (count + next, *ticks as f64 + next as f64 / (count + next) as f64);
        }
    }
    (best.0 > 0).then_some(best.1)
}

/// The length of the mean of all differences as directions on a circle of this circumference: 1 where they are whole
/// multiples.
fn coherence(counts: &[(f64, f64)], spacing: f64) -> f64 {
    let (mut x, mut y, mut all) = (0.0, 0.0, 0.0);
    for (ticks, count) in counts {
        let (sin, cos) = (TAU * ticks / spacing).sin_cos();
        x += count * cos;
        y += count * sin;
        all += count;
    }
    // Not `hypot`: its symbol is of glibc 2.35, all others that the libraries need are of 2.34.
    (x * x + y * y).sqrt() / all
}

/// All ticks over all steps: the roundings of neighbouring differences cancel.
fn refined(counts: &[(f64, f64)], spacing: f64) -> f64 {
    let ticks: f64 = counts.iter().map(|(ticks, count)| ticks * count).sum();
    let steps: f64 = counts.iter().map(|(ticks, count)| (ticks / spacing).round() * count).sum();
    if steps > 0.0 { ticks / steps } else { spacing }
}

/// The one kernel rate within `bounds` that agrees with every triple; `None` where none or several do.
///
/// The kernel reads the same counter, so inside each bracket it read one of the few values `before + k x step`. Its
/// time minus the line through `before` is then, modulo the step, the same in all triples up to the rounding to a
/// nanosecond. A wrong rate drifts out of that band. This is a bound as well, with the lattice as its only assumption,
/// and no estimate: one triple that contradicts a rate rules it out, and where the lattice is not what it seems, no
/// rate agrees.
#[must_use]
pub fn agreeing_rate(triples: &[Triple], bounds: &LineBounds, step_ticks: f64) -> Option<KernelRate> {
    let slack = if step_ticks <= 1.0 {
        0.0
    } else if (step_ticks - step_ticks.round()).abs() < WHOLE_WITHIN {
        SLACK_TICKS
    } else {
        ROUNDED_SLACK_TICKS
    };
    let rate = bounds.rate();
    let khz = 1e6 / rate;
    let step_ns = step_ticks * rate;
    // A reading is a floor: one nanosecond; one picosecond for the arithmetic.
    let band = 1.001 + 2.0 * slack * rate;
    let candidates = (bounds.rate_high - bounds.rate_low) / rate * khz;
    let (first, last) = (triples.first()?, triples.last()?);
    // Neighbouring candidates drift apart by one tick a millisecond: before that exceeds the slack they cannot be
    // separated.
    let too_early = (last.before.since(first.before) as f64) < 2.0 * slack * khz;
    if band > 0.4 * step_ns || candidates > MOST_CANDIDATES || too_early {
        return None;
    }
    let point = |t: &Triple| {
        let clock = t.clock_ns.wrapping_sub(first.clock_ns).cast_signed() as f64;
        (t.before.since(first.before) as f64, clock)
    };
    // Alternately from both ends, where a wrong rate shows first.
    let usual: Vec<&Triple> =
        triples.iter().filter(|t| t.after.since(t.before) as f64 <= MOST_STEPS * step_ticks).collect();
    let points: Vec<(f64, f64)> = usual
        .iter()
        .zip(usual.iter().rev())
        .take(usual.len().div_ceil(2))
        .flat_map(|(a, b)| [point(a), point(b)])
        .collect();
    let mut agreeing =
        kernel_rates_between(bounds.rate_low, bounds.rate_high).filter(|rate| agrees(&points, *rate, step_ns, band));
    let found = agreeing.next()?;
    agreeing.next().is_none().then_some(found)
}

/// Whether the clock minus a line of this rate stays, modulo the step, within the band.
fn agrees(points: &[(f64, f64)], rate: KernelRate, step_ns: f64, band: f64) -> bool {
    let rate = rate.ns_per_tick();
    let per_ns = 1.0 / step_ns;
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for (tick, clock) in points {
        let off = clock - rate * tick;
        // Rounding by conversion: `round` is a library call on x86-64 without SSE 4.1.
        let steps = off * per_ns;
        let off = off - step_ns * (steps + 0.5_f64.copysign(steps)) as i64 as f64;
        low = low.min(off);
        high = high.max(off);
        if high - low > band {
            return false;
        }
    }
    !points.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// Readings of a lattice with all that happens to readings.
    fn readings(spacing: f64, deferred: f64, seed: u64) -> Vec<CounterTick> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut position = rng.random_range(1e9..1e12);
        let mut last = 0_u64;
        (0..READINGS)
            .map(|_| {
                position += rng.random_range(22.0..110.0);
                match rng.random_range(0..1_000) {
                    0 => position += rng.random_range(3e3..1e6),      // an interrupt
                    1 => position += rng.random_range(-130.0..130.0), // a move to another CPU
                    _ => {}
                }
                let shown = ((position / spacing).floor() * spacing).floor() as u64;
                let late = u64::from(rng.random_bool(deferred) || shown == last);
                last = shown + late;
                CounterTick::new(last)
            })
            .collect()
    }

    #[test]
    fn a_step_of_24_and_25_ticks_in_turn_is_24_and_a_half() {
        for seed in 0..200 {
            let found = step_of(&readings(24.5, 0.02, seed));
            assert!((found / 24.5 - 1.0).abs() < 0.002, "seed {seed}: {found}");
        }
    }

    #[test]
    fn a_counter_that_shows_every_tick_has_a_step_of_one() {
        for seed in 0..200 {
            assert_eq!(step_of(&readings(1.0, 0.0, seed)), 1.0, "seed {seed}");
        }
    }

    #[test]
    fn without_readings_and_without_movement_the_step_is_one_tick() {
        assert_eq!(step_of(&[]), 1.0);
        assert_eq!(step_of(&[CounterTick::new(7); 100]), 1.0);
    }

    #[test]
    fn a_simulated_machine_shows_its_lattice() {
        for spacing in [1.0, 24.45, 26.0, 100.0] {
            for seed in 0..50 {
                let machine = SimClock::new(2_445_406).with_lattice(spacing).with_deferred(0.02).with_seed(seed);
                let found = step_ticks(&machine);
                assert!((found / spacing - 1.0).abs() < 0.005, "lattice {spacing}, seed {seed}: {found}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_spacing_is_found_within_half_a_per_cent(
            whole: bool, spacing in 7.0_f64..140.0, deferred in 0.0_f64..0.05, seed: u64,
        ) {
            let spacing = if whole { spacing.round() } else { spacing };
            let found = step_of(&readings(spacing, deferred, seed));
            prop_assert!((found / spacing - 1.0).abs() < 0.005, "{} for {}", found, spacing);
        }

        #[test]
        fn small_whole_spacings_are_found(spacing in 2_u32..6, seed: u64) {
            prop_assert!((step_of(&readings(f64::from(spacing), 0.0, seed)) - f64::from(spacing)).abs() < 0.01);
        }
    }
}
