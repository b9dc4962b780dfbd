//! Hard bounds on a line through time: the calibration of a counter against a kernel clock.
//!
//! Each reading of the kernel's clock is bracketed by two readings of the counter. The kernel's clock is a linear
//! function of the counter, rounded down to a nanosecond, so the line `clock = offset + rate x tick` must pass above
//! `(after, clock)` and below `(before, clock + 1)`. A few thousand such triples leave a narrow set of lines, and every
//! line outside it is impossible, not merely unlikely. The set is convex, so its extreme rates are found exactly, by
//! Newton steps on a concave piecewise linear function.

use vtare_units::CounterTick;

/// One reading of a kernel clock between two readings of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple {
    /// The counter before the clock was read.
    pub before: CounterTick,
    /// The clock, in ns.
    pub clock_ns: u64,
    /// The counter after the clock was read.
    pub after: CounterTick,
}

/// The lines that no triple forbids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineBounds {
    /// The least rate, in ns per tick.
    pub rate_low: f64,
    /// The greatest rate, in ns per tick.
    pub rate_high: f64,
    /// The tick at which the offset below is given.
    pub at: CounterTick,
    /// The clock's value at that tick for the rate in the middle, in ns: whole part.
    pub clock_ns: u64,
    /// The value's part below one nanosecond.
    pub clock_fraction_ns: f64,
    /// Half of the range that the clock's value at that tick may have, in ns.
    pub half_width_ns: f64,
    /// How far the triples contradict the model, in ns: 0 where the clock is the floor of a line, as a kernel clock on
    /// this counter is. Where it is above 0 the other figures allow for it.
    pub inconsistency_ns: f64,
}

impl LineBounds {
    /// The rate in the middle, in ns per tick.
    #[must_use]
    pub fn rate(&self) -> f64 {
        f64::midpoint(self.rate_low, self.rate_high)
    }

    /// Half the range of the rate, in parts per million of it.
    #[must_use]
    pub fn half_width_ppm(&self) -> f64 {
        (self.rate_high - self.rate_low) / 2.0 / self.rate() * 1e6
    }
}

/// One constraint: the line must be at least (lower) or at most (upper) `value` at `tick`, both relative to an origin.
#[derive(Clone, Copy)]
struct Point {
    tick: f64,
    value: f64,
}

/// Triples seen from an origin near their middle, which keeps `f64` exact to 1e-5 ns over minutes.
struct Cloud {
    origin_tick: CounterTick,
    origin_ns: u64,
    lower: Vec<Point>,
    upper: Vec<Point>,
}

impl Cloud {
    fn new(triples: &[Triple]) -> Option<Self> {
        let origin = triples.get(triples.len() / 2)?;
        let tick = |at: CounterTick| at.since(origin.before) as f64;
        let value = |ns: u64| ns.wrapping_sub(origin.clock_ns).cast_signed() as f64;
        Some(Self {
            origin_tick: origin.before,
            origin_ns: origin.clock_ns,
            lower: triples.iter().map(|t| Point { tick: tick(t.after), value: value(t.clock_ns) }).collect(),
            upper: triples.iter().map(|t| Point { tick: tick(t.before), value: value(t.clock_ns) + 1.0 }).collect(),
        })
    }

    /// The greatest offset that a line of this rate must reach and the least it may not exceed, with the points that
    /// require them.
    fn offsets(&self, rate: f64) -> (f64, Point, f64, Point) {
        let offset = |p: &Point| p.value - rate * p.tick;
        let mut low = (f64::NEG_INFINITY, self.lower[0]);
        for point in &self.lower {
            let value = offset(point);
            if value > low.0 {
                low = (value, *point);
            }
        }
        let mut high = (f64::INFINITY, self.upper[0]);
        for point in &self.upper {
            let value = offset(point);
            if value < high.0 {
                high = (value, *point);
            }
        }
        (low.0, low.1, high.0, high.1)
    }

    /// Room between the constraints at this rate: above or equal 0 where such a line exists. Concave in the rate.
    fn room(&self, rate: f64) -> f64 {
        let (low, _, high, _) = self.offsets(rate);
        high - low
    }

    /// From a rate at the edge or outside, the nearest rate towards the inside at which a line exists, allowing `slack`
    /// ns.
    fn edge(&self, mut rate: f64, slack: f64) -> f64 {
        // Each step solves the two constraints that bind; on a concave function Newton from outside never overshoots
        // and ends after as many steps as there are corners on the way, in practice below ten.
        for _ in 0..64 {
            let (low, lower, high, upper) = self.offsets(rate);
            let slope = lower.tick - upper.tick;
            if high - low + slack >= 0.0 || slope == 0.0 {
                break;
            }
            let next = rate - (high - low + slack) / slope;
            if next == rate {
                break;
            }
            rate = next;
        }
        rate
    }
}

/// The bounds that `triples` leave, or `None` where they are fewer than two or span no time.
///
/// The order of the triples does not matter. The extremes of the rate come from the two ends of the time they span, so
/// that two blocks of triples at the ends of a window do as well as a steady stream.
///
/// ```
/// use vtare_clock::bounds::{Triple, line_bounds};
/// use vtare_units::CounterTick;
/// // A counter at 2 GHz: 0.5 ns a tick.
/// let triples: Vec<_> = (0..2_000_u64)
///     .map(|i| {
///         let tick = i * 1_237;
///         Triple { before: CounterTick::new(tick), clock_ns: (tick + 20) / 2, after: CounterTick::new(tick + 40) }
///     })
///     .collect();
/// let bounds = line_bounds(&triples).expect("two thousand triples span time");
/// assert!(bounds.rate_low <= 0.5 && 0.5 <= bounds.rate_high);
/// assert!(bounds.half_width_ppm() < 20.0);
/// ```
#[must_use]
pub fn line_bounds(triples: &[Triple]) -> Option<LineBounds> {
    let cloud = Cloud::new(triples)?;
    let first = cloud.lower.iter().min_by(|a, b| a.tick.total_cmp(&b.tick))?;
    let last = cloud.lower.iter().max_by(|a, b| a.tick.total_cmp(&b.tick))?;
    let ticks = last.tick - first.tick;
    let nanos = last.value - first.value;
    if ticks <= 0.0 || nanos <= 0.0 {
        return None;
    }
    let naive = nanos / ticks;
    // Outside for certain: brackets and rounding together cannot change its rate by more than this share.
    let bracket = cloud.lower.iter().zip(&cloud.upper).map(|(l, u)| l.tick - u.tick).fold(0.0, f64::max);
    let spread = naive * (2.0 * (bracket + 4.0 / naive) / ticks);
    let best = best_rate(&cloud, naive - spread, naive + spread);
    let room = cloud.room(best);
    // Where the model fails, every bound is widened by what it failed by, and once more for what was not seen.
    let inconsistency_ns = (-room / 2.0).max(0.0);
    let slack = 4.0 * inconsistency_ns;
    let rate_low = cloud.edge(naive - 4.0 * spread, slack).min(best);
    let rate_high = cloud.edge(naive + 4.0 * spread, slack).max(best);
    let middle = f64::midpoint(rate_low, rate_high);
    // The offset is stated at the latest tick, where the clock goes on from.
    let at = last.tick;
    let mut value_low = f64::INFINITY;
    let mut value_high = f64::NEG_INFINITY;
    for rate in [rate_low, middle, rate_high] {
        let (low, _, high, _) = cloud.offsets(rate);
        value_low = value_low.min(low.min(high) + rate * at);
        value_high = value_high.max(low.max(high) + rate * at);
    }
    let (low, _, high, _) = cloud.offsets(middle);
    let value = f64::midpoint(low, high) + middle * at;
    let whole = value.floor();
    Some(LineBounds {
        rate_low,
        rate_high,
        at: CounterTick::new(cloud.origin_tick.count().wrapping_add_signed(at as i64)),
        clock_ns: cloud.origin_ns.wrapping_add_signed(whole as i64),
        clock_fraction_ns: value - whole,
        half_width_ns: (value_high - value).max(value - value_low) + 2.0 * inconsistency_ns,
        inconsistency_ns,
    })
}

/// The rate with the most room, by golden section on the concave function.
fn best_rate(cloud: &Cloud, mut low: f64, mut high: f64) -> f64 {
    const SHRINK: f64 = 0.618_033_988_749_894_9;
    let mut inner_low = high - SHRINK * (high - low);
    let mut inner_high = low + SHRINK * (high - low);
    let (mut room_low, mut room_high) = (cloud.room(inner_low), cloud.room(inner_high));
    for _ in 0..40 {
        // Any feasible rate will do: it only separates the two edges.
        if room_low >= 0.0 {
            return inner_low;
        }
        if room_high >= 0.0 {
            return inner_high;
        }
        if room_low < room_high {
            low = inner_low;
            inner_low = inner_high;
            room_low = room_high;
            inner_high = low + SHRINK * (high - low);
            room_high = cloud.room(inner_high);
        } else {
            high = inner_high;
            inner_high = inner_low;
            room_high = room_low;
            inner_low = high - SHRINK * (high - low);
            room_low = cloud.room(inner_low);
        }
    }
    f64::midpoint(low, high)
}

/// The bounds on the clock's value at `at` for a rate known to within a share of `rate_slack` of it, in ns relative to
/// `reference_ns`: (low, high). `None` without triples. Low above high means that the triples contradict the rate.
#[must_use]
pub fn offset_bounds(
    triples: &[Triple],
    at: CounterTick,
    reference_ns: u64,
    rate: f64,
    rate_slack: f64,
) -> Option<(f64, f64)> {
    let mut bounds: Option<(f64, f64)> = None;
    for triple in triples {
        let value = triple.clock_ns.wrapping_sub(reference_ns).cast_signed() as f64;
        let (since_after, since_before) = (rate * at.since(triple.after) as f64, rate * at.since(triple.before) as f64);
        let low = value + since_after - since_after.abs() * rate_slack;
        let high = value + 1.0 + since_before + since_before.abs() * rate_slack;
        bounds = Some(bounds.map_or((low, high), |(l, h)| (l.max(low), h.min(high))));
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    /// A clock that is the floor of a line through the counter, read with brackets of random width on a lattice.
    fn triples(mult: u64, shift: u32, lattice: u64, window_ticks: u64, count: u64, seed: u64) -> Vec<Triple> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let start = rng.random_range(1_u64 << 40..1 << 52) / lattice * lattice;
        let base = rng.random_range(0_u64..1 << 40);
        let clock = |tick: u64| base + ((u128::from(tick - start) * u128::from(mult)) >> shift) as u64;
        let mut out = Vec::new();
        for end in 0..2 {
            let mut tick = start + end * window_ticks;
            for _ in 0..count {
                let before = tick / lattice * lattice;
                let read = tick + rng.random_range(20..60);
                let after = (read + rng.random_range(20..80)) / lattice * lattice;
                tick = after + rng.random_range(0..30);
                out.push(Triple {
                    before: CounterTick::new(before),
                    clock_ns: clock(read / lattice * lattice),
                    after: CounterTick::new(after),
                });
            }
        }
        out
    }

    #[test]
    fn a_half_millisecond_window_bounds_the_rate_to_a_tenth_of_a_kilohertz_step() {
        for seed in 0..50 {
            let (mult, shift) = (6_462_253_u64, 24);
            let bounds = line_bounds(&triples(mult, shift, 26, 1_300_000, 1_000, seed)).expect("they span time");
            let rate = mult as f64 / f64::from(1 << shift);
            assert!(bounds.rate_low <= rate && rate <= bounds.rate_high, "seed {seed}: {bounds:?}");
            assert!(bounds.half_width_ppm() < 5.0, "seed {seed}: {} ppm", bounds.half_width_ppm());
            assert!(bounds.inconsistency_ns == 0.0);
        }
    }

    #[test]
    fn a_clock_that_is_no_line_shows_by_how_much() {
        let mut changed = triples(6_462_253, 24, 1, 1_300_000, 500, 3);
        for triple in changed.iter_mut().skip(700) {
            triple.clock_ns += 900;
        }
        let bounds = line_bounds(&changed).expect("they span time");
        assert!(bounds.inconsistency_ns > 10.0, "{bounds:?}");
    }

    #[test]
    fn no_triples_or_no_time_give_no_bounds() {
        assert_eq!(line_bounds(&[]), None);
        let one = Triple { before: CounterTick::new(1), clock_ns: 5, after: CounterTick::new(2) };
        assert_eq!(line_bounds(&[one, one]), None);
    }

    proptest! {
        #[test]
        fn the_true_line_is_never_excluded(
            mult in 1_000_000_u64..16_000_000,
            lattice in prop::sample::select(vec![1_u64, 2, 26, 40]),
            window in 200_000_u64..200_000_000,
            seed: u64,
        ) {
            let sample = triples(mult, 24, lattice, window, 60, seed);
            let bounds = line_bounds(&sample).expect("they span time");
            let rate = mult as f64 / f64::from(1 << 24);
            prop_assert!(bounds.rate_low <= rate * (1.0 + 1e-12), "{bounds:?} {rate}");
            prop_assert!(bounds.rate_high >= rate * (1.0 - 1e-12), "{bounds:?} {rate}");
            prop_assert_eq!(bounds.inconsistency_ns, 0.0);
            let (low, high) = offset_bounds(&sample, bounds.at, bounds.clock_ns, rate, 0.0).expect("there are triples");
            prop_assert!(low <= high + 1e-6);
            // The stated value and half width hold the true line.
            let middle = bounds.clock_fraction_ns;
            prop_assert!(middle - bounds.half_width_ns <= high + 1e-6 && low <= middle + bounds.half_width_ns + 1e-6);
        }
    }
}
