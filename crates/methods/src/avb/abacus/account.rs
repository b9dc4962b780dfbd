//! The account of a queue that was kept busy, between any two packets.
//!
//! What the tight link's queue holds is `C D` bits, with the capacity `C` and the queueing delay `D` of a packet that
//! comes now. Between two packets `T` apart, in which the queue was never empty,
//!
//! ```text
//! C T = probe bits + cross bits - C (change of D)
//! A   = C - cross bits/T = probe bits/T - C (change of D)/T
//! ```
//!
//! so the available bandwidth `A` of exactly that time is known, whatever the cross traffic did in it. Where the queue
//! may have been empty for a time `E`, the link may have carried `C E` more: `A` lies in `[least, least + C E/T]`.
//= Melander, Bjorkman, Gunningberg 2000 (TOPP); Jain, Dovrolis 2002 (SLoPS); Ekelin et al. 2006 (BART)

use super::points::Point;
use super::tight::Ratio;
use super::tuning as t;
use crate::avb::median;

/// What is known of the path beside the points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Capacity of the tight link, bit/s.
    pub(super) capacity: f64,
    /// Its standard error, as a share.
    pub(super) capacity_error: f64,
    /// Capacity of the narrow link, bit/s, and its standard error as a share.
    pub(super) narrow: (f64, f64),
    /// Ratio of the tight link's capacity to that.
    pub(super) ratio: Ratio,
    /// Delay of an empty path, ns, on the scale of the points.
    pub(super) base_ns: f64,
    /// How finely arrivals are stamped, ns.
    pub(super) stamp_error_ns: f64,
    /// How long an arrival may wait for its stamp, ns.
    pub(super) grain_ns: f64,
    /// For how long a token bucket makes up for an empty queue, ns.
    pub(super) bucket_ns: f64,
    /// Bits of a packet.
    pub(super) packet_bit: f64,
    /// Ratio of the cross traffic's variance to that of Poisson traffic, the most that trains showed.
    pub(super) dispersion: f64,
}

impl Path {
    /// Time that a packet takes to send, ns.
    pub(super) fn service_ns(&self) -> f64 {
        self.packet_bit * 1e9 / self.capacity
    }

    /// The most that may be available, bit/s: all that is sent passes the narrow link.
    pub(super) fn carries(&self) -> f64 {
        self.capacity.min(self.narrow.0)
    }

    /// What other links' queues are held to differ by between two places, one standard deviation, ns.
    pub(super) fn others_ns(&self, dispersion: f64) -> f64 {
        (t::OTHERS_EVEN + t::OTHERS_BURSTY * dispersion) * self.service_ns()
    }
}

/// The available bandwidth between two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    /// From here, ns since the epoch.
    pub(super) from_ns: f64,
    /// To here.
    pub(super) to_ns: f64,
    /// The value, bit/s, were the queue never empty; it is not below this but for `error`.
    pub(super) least: f64,
    /// What the times in which the queue may have been empty could add at most, bit/s.
    pub(super) idle: f64,
    /// What they are expected to add, bit/s.
    pub(super) idle_mean: f64,
    /// Standard error, bit/s.
    pub(super) error: f64,
    /// The part of it that comes from a rate that was far from the value, bit/s.
    pub(super) far_error: f64,
    /// The part of it that comes from the delays at the ends, bit/s.
    pub(super) end_error: f64,
    /// The part of it that comes from lost packets, bit/s.
    pub(super) loss_error: f64,
    /// The part of it that shows in what moves from train to train, bit/s.
    pub(super) moved: f64,
    /// How much less its second half shows than its first, bit/s: other links' queues drained meanwhile.
    pub(super) fell: f64,
    /// Rate at which the probes entered, bit/s.
    pub(super) rate: f64,
    /// Change of delay over time.
    pub(super) slope: f64,
    /// Variance of the cross traffic's bits per time, bit^2/s.
    pub(super) burst: f64,
    /// The same as a ratio to that of Poisson traffic of large packets at the same rate.
    pub(super) dispersion: f64,
    /// Points between the two.
    pub(super) points: usize,
}

impl Bounds {
    /// The value, bit/s.
    pub(super) fn value(&self) -> f64 {
        self.least + self.idle_mean
    }

    /// For how long.
    pub(super) fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) / 1e9
    }

    /// Lower and upper end of the interval, bit/s: 95 % of what the capacities allow that the tight link may have, and
    /// idle times above. Queues of other links that drain in its time make delays fall as if more were free at the
    /// tight one; what the second half shows less than the first is the least that they hid, and goes below.
    pub(super) fn interval(&self, path: &Path) -> [f64; 2] {
        let (narrow, narrow_error) = path.narrow;
        let of = |ratio: f64| {
            let capacity = ratio * narrow;
            let corrected = capacity * self.slope.abs();
            let far = narrow_error * corrected + t::FAR_ERROR * (corrected - t::FAR * self.rate).max(0.0);
            let ends = self.end_error * capacity / path.capacity;
            (self.rate - capacity * self.slope, ends.hypot(self.loss_error).hypot(self.moved).hypot(far))
        };
        let least = t::LEAST_ERROR * self.value().abs();
        let (low, high) = (path.ratio.quantile(t::OUTSIDE, of), path.ratio.quantile(1.0 - t::OUTSIDE, of));
        let hidden = self.fell * (1.0 + path.ratio.other);
        [low.min(self.least) - least - hidden, high.max(self.least) + self.idle + least]
    }

    /// How wide the interval is by standard errors, bit/s.
    pub(super) fn width(&self) -> f64 {
        2.0 * t::SIDES * self.error + self.idle + 2.0 * t::LEAST_ERROR * self.value().abs()
    }

    /// The queue may have been empty for more than a share of the value.
    pub(super) fn drained(&self) -> bool {
        self.idle > t::LITTLE * self.least.max(0.0)
    }
}

/// What single delays and the queue between neighbours do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Standard deviation of what each delay has for itself, ns, with allowance for chance.
    own_ns: f64,
    /// The same without the allowance: what other queues add to each delay.
    pub(super) other_ns: f64,
    /// Variance that the queue gains from point to point, ns^2.
    step_ns2: f64,
}

/// What the cross traffic between two points takes the link, were it never idle, ns.
fn crossed_ns(from: &Point, to: &Point, capacity: f64) -> f64 {
    let bits = (to.sent_bit - from.sent_bit + to.arrived_bit - from.arrived_bit) / 2.0;
    (to.delay_ns - from.delay_ns) + (to.at_ns - from.at_ns) - bits * 1e9 / capacity
}

impl Noise {
    /// Noise and random walk apart: neighbouring increments of noise are correlated by -1/2, those of a walk not at
    /// all.
    pub(super) fn of(points: &[Point], capacity: f64) -> Self {
        let mut steps: Vec<f64> = points.windows(2).map(|pair| crossed_ns(&pair[0], &pair[1], capacity)).collect();
        let n = steps.len() as f64;
        let mean = steps.iter().sum::<f64>() / n;
        // A single pause must not make all points look noisy.
        let sizes: Vec<f64> = steps.iter().map(|step| (step - mean).abs()).collect();
        let most = t::PAUSE_STEPS * median(&sizes).unwrap_or(0.0).max(sizes.iter().sum::<f64>() / n / 2.0);
        steps.iter_mut().for_each(|step| *step = (*step - mean).clamp(-most, most));
        let variance = steps.iter().map(|step| step * step).sum::<f64>() / n;
        let covariance = steps.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n - 1.0).max(1.0);
        let own = (-covariance - variance / n.sqrt()).max(0.0).min(variance / 2.0);
        let other = (-covariance).clamp(0.0, variance / 2.0);
        Self { other_ns: other.sqrt(), own_ns: own.sqrt(), step_ns2: (variance - 2.0 * own).max(0.0) }
    }

    /// Variance of the cross traffic per time, bit^2/s: from neighbouring points and from blocks, whichever is more,
    /// since bursts show in blocks only.
    fn burst(&self, points: &[Point], capacity: f64) -> f64 {
        let (first, last) = (&points[0], &points[points.len() - 1]);
        let seconds = (last.at_ns - first.at_ns) / 1e9;
        let slope = crossed_ns(first, last, capacity) / (last.at_ns - first.at_ns);
        let per_s = |variance_ns2: f64, step_s: f64| capacity.powi(2) * variance_ns2 / 1e18 / step_s;
        let fine = per_s(self.step_ns2, seconds / (points.len() - 1) as f64);
        let coarse = [t::LEAST_POINTS / 2, t::LEAST_POINTS, 2 * t::LEAST_POINTS]
            .into_iter()
            .filter(|blocks| points.len() > 2 * blocks)
            .map(|blocks| {
                let at = |block: usize| &points[block * (points.len() - 1) / blocks];
                let sum: f64 = (0..blocks)
                    .map(|block| {
                        let (a, b) = (at(block), at(block + 1));
                        (crossed_ns(a, b, capacity) - slope * (b.at_ns - a.at_ns)).powi(2)
                    })
                    .sum();
                per_s((sum / (blocks - 1) as f64 - 2.0 * self.own_ns.powi(2)).max(0.0), seconds / blocks as f64)
            });
        coarse.fold(fine, f64::max)
    }
}

/// For how long the queue may have been empty between neighbours, and is expected to have been, ns. Behind a packet the
/// queue lasts for what the packet found and its own service, and for what the probes brought; only what the next
/// packet comes later than that can have been idle.
fn idle_ns(points: &[Point], path: &Path, noise: &Noise, others_ns: f64) -> Vec<(f64, f64)> {
    let empty_ns = path.base_ns + path.grain_ns;
    // What the other links add to a delay is no queue of the tight one. That is the most it can be, and no guess.
    let blur_ns = (t::SIDES * noise.other_ns).max(t::BLUR * others_ns);
    let service_ns = path.service_ns();
    let mut brought_ns: f64 = 0.0;
    let gaps = points.windows(2).map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        let apart_ns = after.at_ns - before.at_ns;
        let idle = |base_ns: f64| {
            let queue_ns = (before.delay_ns - base_ns).max(0.0) + service_ns;
            let call_ns = before.call_bit * 1e9 / path.capacity;
            (apart_ns - queue_ns.max(call_ns).max(brought_ns) - path.stamp_error_ns).max(0.0)
        };
        // Tokens that a shaper saves while the queue is empty let later packets pass at once.
        let (most, likely) = (idle(empty_ns + blur_ns), (idle(empty_ns) - path.bucket_ns).max(0.0));
        let queue_ns = (before.delay_ns - empty_ns).max(0.0) + service_ns;
        let own_ns = (after.arrived_bit - before.arrived_bit) * 1e9 / path.capacity;
        brought_ns = (brought_ns.max(queue_ns) - apart_ns).max(0.0) + own_ns;
        let found_empty = after.delay_ns - empty_ns - blur_ns <= service_ns;
        (most, if found_empty { t::IDLE_EMPTY } else { 1.0 - t::IDLE_EMPTY } * likely)
    });
    gaps.collect()
}

/// An end of an account: a few neighbouring points as one.
#[derive(Clone, Copy, Debug)]
struct End {
    place: usize,
    at_ns: f64,
    delay_ns: f64,
    sent_bit: f64,
    arrived_bit: f64,
    error_ns: f64,
}

/// Where an account may begin or end: in each part of the train the place with the lowest delay, since there other
/// links' queues are least.
fn ends(points: &[Point], noise: &Noise) -> Vec<End> {
    let n = points.len();
    // Averaging m points takes noise away (own^2/m) and brings in the walk between them (about step^2 m/6).
    //= variance of a walk between its ends: a sixth of its steps
    let best = (6.0 * noise.own_ns.powi(2) / noise.step_ns2.max(1e-9)).sqrt();
    let m = (best.round() as usize).clamp(1, (n / t::PARTS).max(1));
    // A single low delay that its neighbours do not confirm is a wrong stamp.
    let low = |begin: usize| {
        let around = &points[begin.saturating_sub(1)..(begin + m + 1).min(n)];
        median(&around.iter().map(|point| point.delay_ns).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let own = |begin: usize| points[begin..begin + m].iter().map(|point| point.delay_ns).sum::<f64>() / m as f64;
    let height = |begin: usize| {
        own(begin).max(low(begin) - t::SIDES * noise.step_ns2.sqrt()) + (own(begin) - low(begin)).abs() / 2.0
    };
    //= variance of a walk between its ends: a sixth of its steps
    let walk = if m > 1 { noise.step_ns2 * m as f64 / 6.0 } else { 0.0 };
    let end = |begin: usize| {
        let part = &points[begin..begin + m];
        let mean = |of: fn(&Point) -> f64| part.iter().map(of).sum::<f64>() / m as f64;
        End {
            place: begin + m / 2,
            at_ns: mean(|point| point.at_ns),
            delay_ns: mean(|point| point.delay_ns),
            sent_bit: mean(|point| point.sent_bit),
            arrived_bit: mean(|point| point.arrived_bit),
            error_ns: (noise.own_ns.powi(2) / m as f64 + walk).sqrt(),
        }
    };
    let starts = n - m + 1;
    let parts = t::PARTS.min(starts / 2).max(2);
    let part = |number: usize| (number * starts / parts)..((number + 1) * starts / parts);
    (0..parts).filter_map(|number| part(number).min_by(|&a, &b| height(a).total_cmp(&height(b)))).map(end).collect()
}

/// The account of a train with the narrowest interval, and the one of the whole train; `None` for too few points
/// or no time between them.
pub(super) fn account(points: &[Point], parts: bool, path: &Path) -> Option<(Bounds, Bounds)> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < t::LEAST_POINTS / 2 || last.at_ns <= first.at_ns {
        return None;
    }
    let noise = Noise::of(points, path.capacity);
    let burst = noise.burst(points, path.capacity);
    let ends = ends(points, &noise);
    let (begin, end) = (ends.first()?, ends.last()?);
    let flat = bounds(begin, end, path, burst, points.len(), (0.0, 0.0));
    let gaps = idle_ns(points, path, &noise, path.others_ns(flat.dispersion.max(path.dispersion)));
    let sums = |of: fn(&(f64, f64)) -> f64| {
        let mut sums = vec![0.0];
        sums.extend(gaps.iter().scan(0.0, |sum, gap| {
            *sum += of(gap);
            Some(*sum)
        }));
        sums
    };
    let (most, mean) = (sums(|gap| gap.0), sums(|gap| gap.1));
    let between = |from: &End, to: &End| {
        let seconds = (to.at_ns - from.at_ns) / 1e9;
        let idle = |sums: &[f64]| path.capacity * (sums[to.place] - sums[from.place]) / (seconds * 1e9);
        let points = to.place - from.place + 1;
        (seconds > 0.0).then(|| bounds(from, to, path, burst, points, (idle(&most), idle(&mean))))
    };
    let whole = between(begin, end)?;
    let halved = |from: &End, to: &End, bounds: Bounds| {
        let middle = ends.iter().min_by_key(|end| end.place.abs_diff((from.place + to.place) / 2))?;
        let (first, second) = (between(from, middle)?, between(middle, to)?);
        Some(Bounds { fell: (first.value() - second.value()).max(0.0), ..bounds })
    };
    let whole = halved(begin, end, whole).unwrap_or(whole);
    if !parts || !(whole.drained() || path.narrow.1 > t::FAR) {
        return Some((whole, whole));
    }
    let all = ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to)));
    let enough = |&(from, to): &(&End, &End)| to.place >= from.place + t::LEAST_POINTS;
    let best = all.filter(enough).filter_map(|(from, to)| {
        let bounds = between(from, to)?;
        Some(halved(from, to, bounds).unwrap_or(bounds))
    });
    let best = best.min_by(|a, b| a.width().total_cmp(&b.width())).unwrap_or(whole);
    Some((best, whole))
}

fn bounds(from: &End, to: &End, path: &Path, burst: f64, points: usize, idle: (f64, f64)) -> Bounds {
    let seconds = (to.at_ns - from.at_ns) / 1e9;
    // A packet that did not arrive may have been lost before the queue or behind it.
    let (sent, arrived) = (to.sent_bit - from.sent_bit, to.arrived_bit - from.arrived_bit);
    let rate = (sent + arrived) / 2.0 / seconds;
    //= standard deviation of a uniform distribution
    let loss_error = (sent - arrived) / seconds / 12.0_f64.sqrt();
    let slope = (to.delay_ns - from.delay_ns) / (seconds * 1e9);
    let end_ns = (from.error_ns.powi(2) + to.error_ns.powi(2) + path.stamp_error_ns.powi(2)).sqrt();
    // Other links' queues are part of the delay. How much they differ between the two ends cannot be seen; they hold a
    // few packets where traffic comes as Poisson's does, more where it is more bursty, next to none where it is even.
    let crossing = (path.capacity - rate + path.capacity * slope).max(t::LITTLE * path.capacity);
    let dispersion = burst / (crossing * path.packet_bit);
    let others_ns = path.others_ns(dispersion.max(path.dispersion));
    let end_error = path.capacity * end_ns.hypot(others_ns) / (seconds * 1e9);
    // Far above the value other links may queue as well, and a slope is not the tight link's alone.
    let corrected = path.capacity * slope.abs();
    let far_error = path.capacity_error * corrected + t::FAR_ERROR * (corrected - t::FAR * rate).max(0.0);
    let error = end_error.hypot(loss_error).hypot(far_error);
    Bounds {
        from_ns: from.at_ns,
        to_ns: to.at_ns,
        least: rate - path.capacity * slope,
        idle: idle.0,
        idle_mean: idle.1,
        error,
        far_error,
        end_error,
        loss_error,
        moved: 0.0,
        fell: 0.0,
        rate,
        slope,
        burst,
        dispersion,
        points,
    }
}
