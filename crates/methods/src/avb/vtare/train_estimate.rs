//! What a train shows: bits that entered, less what the queue grew by.
//!
//! As long as the queue of the tight link never runs empty, its account is exact, whatever the cross traffic does: what
//! it holds at the end is what it held at the start, plus what the probes brought, plus what the cross traffic brought,
//! less `C T`. The delay of a probe is what the queue holds, over `C`. Hence, over a time `T` between two probes,
//! `A = C - cross/T = probes/T - C (change of delay)/T`: the mean over exactly that time. It is the `A = R - C s` of
//! the literature, with the slope taken between the ends. A line fitted through all points would weigh the middle more
//! than the ends.

use super::idle;
use super::points::{Point, median};

/// The available bandwidth in the time of one train.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// From here, ns since the epoch.
    pub(super) from_ns: f64,
    /// To here.
    pub(super) to_ns: f64,
    /// The value, bit/s, were the queue never empty; it is not below this but for `error`.
    pub(super) least: f64,
    /// What the times in which the queue may have been empty could add at most, bit/s.
    pub(super) idle: f64,
    /// What they are held to add, bit/s.
    pub(super) idle_mean: f64,
    /// Standard error from the ends of the delay and from lost packets, bit/s.
    pub(super) error: f64,
    /// The part of that which comes from a rate that was far from the value, and not from a train that was short,
    /// bit/s.
    pub(super) far_error: f64,
    /// The part of it that comes from the delays at the ends, bit/s.
    pub(super) end_error: f64,
    /// What other links' queues are held to differ by between the ends, ns ...
    pub(super) others_ns: f64,
    /// ... and that as a share of what they are held to differ by between two places within streams.
    pub(super) others_share: f64,
    /// Rate at which the probes entered, bit/s.
    pub(super) rate: f64,
    /// Change of delay over time.
    pub(super) slope: f64,
    /// Variance of the cross traffic's bits per time, bit^2/s.
    pub(super) burst: f64,
    /// The same against that of Poisson's traffic of large packets at the same rate.
    pub(super) dispersion: f64,
    /// Points used.
    pub(super) points: usize,
    /// What other queues may add to a delay, ns.
    pub(super) jitter_ns: f64,
    /// Largest delay above the least, ns.
    pub(super) queued_ns: f64,
    /// Delay above the least at the end, ns.
    pub(super) left_ns: f64,
}

impl Score {
    /// The value, bit/s.
    pub(super) fn value(&self) -> f64 {
        self.least + self.idle_mean
    }

    /// For how long.
    pub(super) fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) / 1e9
    }
}

/// What is known beside the points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Capacity, bit/s.
    pub(super) capacity: f64,
    /// Its standard error, as a share.
    pub(super) capacity_error: f64,
    /// Delay of an empty path, ns, on the scale of the points.
    pub(super) base_ns: f64,
    /// How finely arrivals are stamped, ns.
    pub(super) stamp_error_ns: f64,
    /// How long packets of this train were seen to wait behind the tight link, ns: one that nobody saw may be at an
    /// end.
    pub(super) held_ns: f64,
    /// What a link before the tight one may still hold of the train's head where the account begins, ns of the tight
    /// link.
    pub(super) unsettled_ns: f64,
    /// A queue that may have been empty for more than this share of the value ran empty.
    pub(super) idle_share: f64,
    /// How long an arrival may wait for its stamp, ns: such delays are no queue.
    pub(super) grain_ns: f64,
    /// Packets that queues of other links are held to differ by between two ends, for traffic as bursty as Poisson's
    /// twice that.
    pub(super) other_packets: f64,
    /// Size of such a packet, bits.
    pub(super) other_packet_bit: f64,
    /// Variance of the cross traffic per time that is known of, bit^2/s: a short account may show less.
    pub(super) least_burst: f64,
    /// Bursts are assumed to be no larger than so many times Poisson's variance, as far as other links' queues go.
    pub(super) most_dispersion: f64,
    /// The sender's processor does the path's work: what its packets bring is reckoned, and not their delays alone.
    pub(super) shared: bool,
    /// The account goes on over many trains: a queue that a packet finds tells that it was not empty before, and an
    /// end is where a train begins.
    pub(super) found: bool,
    /// What other links' queues are held to differ by at such an end, as a share of what they differ by elsewhere.
    pub(super) fresh_share: f64,
    /// Another link's queue may drain in an account's first half.
    pub(super) drains: bool,
    /// Time that a packet takes to send at the capacity, ns.
    pub(super) service_ns: f64,
}

impl Known {
    /// What other links' queues are held to differ by between two places, one standard deviation, for traffic with so
    /// many times the variance of Poisson's, ns.
    pub(super) fn others_ns(&self, dispersion: f64) -> f64 {
        let dispersion = dispersion.min(self.most_dispersion);
        let bursts = 2.0 * dispersion + LONG_BURSTS * (dispersion - FEW_BURSTS).max(0.0);
        self.other_packets * (0.3 + bursts) * self.other_packet_bit / self.capacity * 1e9
    }
}

/// A correction of more than this share of the rate is not trusted: so much of what it has beyond is an error.
const FAR: f64 = 0.1;
const FAR_ERROR: f64 = 0.2;

/// Dispersion above which bursts are so long that they last in queues of links of the same capacity for longer than a
/// train's end.
pub(super) const FEW_BURSTS: f64 = 3.0;
const LONG_BURSTS: f64 = 5.0;

/// In an account over many trains fewer points than this tell nothing of the traffic, which may be as bursty as this.
const FEW_POINTS: usize = 16;
const UNSEEN_BURSTS: f64 = 6.0;

/// Share of the longest wait behind the tight link that is assumed to be at an end of the account unseen (one standard
/// deviation).
const HELD_UNSEEN: f64 = 0.1;

/// Standard deviations of single delays that other queues are held to add.
pub(super) const JITTER: f64 = 3.0;

/// Share of the points, at each end, among which the place is chosen: one in so many.
const REACH: usize = 7;

/// Noise of single delays, and what the queue does besides.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Noise {
    /// The same without allowance for chance: at least what other queues add.
    other_ns: f64,
    /// Standard deviation of what each delay has for itself, ns.
    own_ns: f64,
    /// Variance that the queue gains from point to point, ns^2.
    step_ns2: f64,
}

/// Each half of an account has so many points, at least.
const HALF_POINTS: usize = 10;

/// The first half of an account shows more than the second by so many standard deviations of what bursts do: another
/// link's queue drained in it.
const DRAINS: f64 = 2.0;

/// Scores the points of a train; `None` for fewer than 4 or no time between them. Where another link's queue drained at
/// first, that part is left out.
pub(super) fn score(points: &[Point], known: &Known) -> Option<Score> {
    let whole = score_all(points, known)?;
    let middle = points.len() / 2;
    if middle < HALF_POINTS || known.found || !known.drains {
        return Some(whole);
    }
    let (early, late) = (score_all(&points[..middle], known)?, score_all(&points[middle..], known)?);
    let burst = early.burst.min(late.burst);
    let chance = (burst / early.seconds() + burst / late.seconds() + early.error.powi(2) + late.error.powi(2)).sqrt();
    if early.least - late.least > DRAINS * chance { score(&points[middle..], known) } else { Some(whole) }
}

/// The same of all points.
fn score_all(points: &[Point], known: &Known) -> Option<Score> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 4 || last.at_ns <= first.at_ns {
        return None;
    }
    let noise = noise(points, known.capacity);
    let (from, to) = ends(points, &noise, known);
    let others_share = (from.others_share.powi(2) / 2.0 + to.others_share.powi(2) / 2.0).sqrt();
    let seconds = (to.at_ns - from.at_ns) / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    // A packet that did not arrive may have been lost before the queue or behind it.
    let (sent, arrived) = (to.sent_bit - from.sent_bit, to.arrived_bit - from.arrived_bit);
    let rate = (sent + arrived) / 2.0 / seconds;
    let loss_error = (sent - arrived) / seconds / 12.0_f64.sqrt();
    let slope = (to.delay_ns - from.delay_ns) / (seconds * 1e9);
    let end_ns = (from.error_ns.powi(2) + to.error_ns.powi(2) + known.stamp_error_ns.powi(2)).sqrt();
    let burst = burst(points, known.capacity, &noise).max(known.least_burst);
    // Other links' queues are part of the delay. How much they differ between the two ends cannot be seen; queues of
    // like traffic at moderate load hold a few packets where it comes as Poisson's does, more where it is more
    // bursty, and next to none where it is even.
    let crossing = (known.capacity - rate + known.capacity * slope).max(0.05 * known.capacity);
    let packet_bit = known.other_packet_bit;
    let dispersion = burst / (crossing * packet_bit);
    // So few points have seen nothing of bursts.
    let dispersion = if known.found && points.len() < FEW_POINTS { dispersion.max(UNSEEN_BURSTS) } else { dispersion };
    let others_ns = others_share * known.others_ns(dispersion);
    let held_ns = HELD_UNSEEN * known.held_ns;
    let unsettled_ns = known.unsettled_ns / 2.0;
    let end_error = known.capacity * end_ns.hypot(others_ns).hypot(held_ns).hypot(unsettled_ns) / (seconds * 1e9);
    // Far above the value other links may queue as well, and a slope is not the tight link's alone.
    let corrected = known.capacity * slope.abs();
    let capacity_error = known.capacity_error * corrected + FAR_ERROR * (corrected - FAR * rate).max(0.0);
    let queued = |point: &Point| point.delay_ns - known.base_ns;
    let scored = |point: &&Point| (from.at_ns..=to.at_ns).contains(&point.at_ns);
    let scored: Vec<Point> = points.iter().filter(scored).copied().collect();
    let least = rate - known.capacity * slope;
    let (mut idle_ns, idle_mean_ns) = idle::idle_ns(&scored, known, noise.other_ns);
    if known.capacity * idle_ns > known.idle_share * least.max(0.0) * seconds * 1e9 {
        // Where the queue ran empty, other links' queues may hide that it did so more often.
        let hidden = Known { base_ns: known.base_ns + others_ns, ..*known };
        idle_ns = idle_ns.max(idle::idle_ns(&scored, &hidden, noise.other_ns).0);
    }
    Some(Score {
        from_ns: from.at_ns,
        to_ns: to.at_ns,
        least,
        idle: known.capacity * idle_ns / (seconds * 1e9),
        idle_mean: known.capacity * idle_mean_ns / (seconds * 1e9),
        error: (end_error.powi(2) + loss_error.powi(2) + capacity_error.powi(2)).sqrt(),
        far_error: capacity_error,
        end_error,
        others_ns,
        others_share,
        rate,
        slope,
        burst,
        dispersion,
        points: points.len(),
        jitter_ns: JITTER * noise.other_ns,
        queued_ns: points.iter().map(queued).fold(0.0, f64::max),
        left_ns: queued(last).max(0.0),
    })
}

/// What the cross traffic between two points takes the link, were it never idle, ns: the growth of the delay that is
/// not the probes' own.
fn crossed_ns(from: &Point, to: &Point, capacity: f64) -> f64 {
    let bits = (to.sent_bit - from.sent_bit + to.arrived_bit - from.arrived_bit) / 2.0;
    (to.delay_ns - from.delay_ns) + (to.at_ns - from.at_ns) - bits * 1e9 / capacity
}

/// White noise and random walk apart: neighbouring increments of noise are correlated by -1/2, those of a walk not at
/// all.
fn noise(points: &[Point], capacity: f64) -> Noise {
    let mut steps: Vec<f64> = points.windows(2).map(|pair| crossed_ns(&pair[0], &pair[1], capacity)).collect();
    let n = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / n;
    // A single pause must not make all points look noisy.
    let mut sizes: Vec<f64> = steps.iter().map(|step| (step - mean).abs()).collect();
    let most = 12.0 * median(&mut sizes).max(sizes.iter().sum::<f64>() / n / 2.0);
    steps.iter_mut().for_each(|step| *step = (*step - mean).clamp(-most, most));
    let variance = steps.iter().map(|step| step * step).sum::<f64>() / n;
    let covariance = steps.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n - 1.0).max(1.0);
    let own = (-covariance - variance / n.sqrt()).max(0.0).min(variance / 2.0);
    let other = (-covariance).clamp(0.0, variance / 2.0);
    Noise { other_ns: other.sqrt(), own_ns: own.sqrt(), step_ns2: (variance - 2.0 * own).max(0.0) }
}

/// The mean of a few points, as one.
#[derive(Clone, Copy, Debug)]
struct End {
    at_ns: f64,
    delay_ns: f64,
    sent_bit: f64,
    arrived_bit: f64,
    error_ns: f64,
    others_share: f64,
}

/// Where the account begins and ends. For the tight link any two places are as good; so those are taken where the delay
/// is low, since there other links' queues are least. Where it goes on over many trains, and begins or ends with a
/// train's first packet, that is the end: other links' queues hold nothing of the stream there.
fn ends(points: &[Point], noise: &Noise, known: &Known) -> (End, End) {
    let n = points.len();
    let fresh = |point: &Point| {
        (known.found && point.is_fresh()).then_some(End {
            at_ns: point.at_ns,
            delay_ns: point.delay_ns,
            sent_bit: point.sent_bit,
            arrived_bit: point.arrived_bit,
            error_ns: noise.own_ns,
            others_share: known.fresh_share,
        })
    };
    // Averaging m points takes noise away (own^2/m) and brings in the walk between them (about step^2 m/6).
    let best = (6.0 * noise.own_ns.powi(2) / noise.step_ns2.max(1e-9)).sqrt();
    let most = (n / 6).clamp(1, 40);
    let m = (best.round() as usize).clamp(1, most);
    let reach = (n / REACH).max(2).min(n / 2 - m.min(n / 2 - 1)).max(1);
    // A single low delay that its neighbours do not confirm is a wrong stamp.
    let low = |begin: usize| {
        let around = &points[begin.saturating_sub(1)..(begin + m + 1).min(n)];
        median(&mut around.iter().map(|point| point.delay_ns).collect::<Vec<_>>())
    };
    let own = |begin: usize| points[begin..begin + m].iter().map(|point| point.delay_ns).sum::<f64>() / m as f64;
    let height =
        |begin: usize| own(begin).max(low(begin) - 3.0 * noise.step_ns2.sqrt()) + (own(begin) - low(begin)).abs() / 2.0;
    let pick = |range: std::ops::Range<usize>| range.min_by(|&a, &b| height(a).total_cmp(&height(b))).unwrap_or(0);
    let end = |begin: usize| {
        let part = &points[begin..begin + m];
        let mean = |of: fn(&Point) -> f64| part.iter().map(of).sum::<f64>() / m as f64;
        let walk = if m > 1 { noise.step_ns2 * m as f64 / 6.0 } else { 0.0 };
        End {
            at_ns: mean(|point| point.at_ns),
            delay_ns: mean(|point| point.delay_ns),
            sent_bit: mean(|point| point.sent_bit),
            arrived_bit: mean(|point| point.arrived_bit),
            error_ns: (noise.own_ns.powi(2) / m as f64 + walk).sqrt(),
            others_share: 1.0,
        }
    };
    let from = fresh(&points[0]).unwrap_or_else(|| end(pick(0..reach)));
    (from, fresh(&points[n - 1]).unwrap_or_else(|| end(pick(n - m + 1 - reach..n - m + 1))))
}

/// Variance of the cross traffic per time, bit^2/s: from neighbouring points and from blocks, whichever is more, since
/// bursts show in blocks only.
fn burst(points: &[Point], capacity: f64, noise: &Noise) -> f64 {
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let seconds = (last.at_ns - first.at_ns) / 1e9;
    let slope = crossed_ns(first, last, capacity) / (last.at_ns - first.at_ns);
    let per_s = |variance_ns2: f64, step_s: f64| capacity.powi(2) * variance_ns2 / 1e18 / step_s;
    let fine = per_s(noise.step_ns2, seconds / (points.len() - 1) as f64);
    let coarse = [4, 8, 16].into_iter().filter(|blocks| points.len() > 3 * blocks).map(|blocks| {
        let at = |block: usize| &points[block * (points.len() - 1) / blocks];
        let sum: f64 = (0..blocks)
            .map(|block| {
                let (a, b) = (at(block), at(block + 1));
                (crossed_ns(a, b, capacity) - slope * (b.at_ns - a.at_ns)).powi(2)
            })
            .sum();
        let own = 2.0 * noise.own_ns.powi(2);
        per_s((sum / (blocks - 1) as f64 - own).max(0.0), seconds / blocks as f64)
    });
    coarse.fold(fine, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known {
            capacity: 1e8,
            capacity_error: 0.01,
            base_ns: 0.0,
            stamp_error_ns: 1.0,
            held_ns: 0.0,
            unsettled_ns: 0.0,
            least_burst: 0.0,
            most_dispersion: f64::INFINITY,
            shared: false,
            found: false,
            fresh_share: 1.0,
            drains: true,
            idle_share: 0.02,
            grain_ns: 0.0,
            service_ns: 100_000.0,
            other_packets: 0.0,
            other_packet_bit: 12_000.0,
        }
    }

    /// 1250 B every 125 us: 80 Mbit/s; delay as told.
    fn train(delay_ns: impl Fn(u32) -> f64) -> Vec<Point> {
        let point = |index: u32| Point {
            index,
            at_ns: f64::from(index) * 125_000.0,
            delay_ns: delay_ns(index),
            sent_bit: f64::from(index + 1) * 1e4,
            arrived_bit: f64::from(index + 1) * 1e4,
            call_bit: 1e4,
        };
        (0..100).map(point).collect()
    }

    #[test]
    fn the_account_of_a_busy_queue_gives_its_available_bandwidth() {
        // 80 Mbit/s into 50 Mbit/s available of 100: the queue grows by 0.3 s a second.
        let score = score(&train(|i| 1e6 + f64::from(i) * 125_000.0 * 0.3), &known()).expect("points");
        // So steep a slope may be another link's in part.
        assert!(score.error > 4e6);
        assert!((score.least / 5e7 - 1.0).abs() < 1e-9 && score.idle == 0.0, "{score:?}");
    }

    #[test]
    fn few_points_of_an_account_over_many_trains_tell_nothing_of_bursts() {
        let even = train(|i| 1e6 + f64::from(i) * 125_000.0 * 0.1);
        let known = Known { found: true, other_packets: 1.0, ..known() };
        let others_ns = |points: &[Point], known: &Known| score(points, known).expect("points").others_ns;
        // Even traffic, as far as forty points tell; five tell nothing.
        assert!(others_ns(&even[1..41], &known) < 0.1 * known.others_ns(UNSEEN_BURSTS));
        assert_eq!(others_ns(&even[1..6], &known), known.others_ns(UNSEEN_BURSTS));
        assert!(others_ns(&even[1..6], &Known { found: false, ..known }) < 0.1 * known.others_ns(UNSEEN_BURSTS));
    }

    #[test]
    fn an_empty_queue_gives_only_a_lower_bound() {
        let score = score(&train(|_| 0.0), &known()).expect("points");
        assert!((score.least / 8e7 - 1.0).abs() < 1e-9, "{score:?}");
        assert!((score.idle / 2e7 - 1.0).abs() < 0.15 && score.idle_mean < score.idle, "{score:?}");
    }

    #[test]
    fn a_link_has_all_packets_of_a_call_to_send() {
        let single = train(|_| 0.0);
        // Three times as much in each call: 125 us hold 100 us of service, or 300.
        let call = |bits: f64| single.iter().map(|point| Point { call_bit: bits, ..*point }).collect::<Vec<_>>();
        let idle = |bits: f64| score(&call(bits), &known()).expect("points").idle;
        assert!((idle(1e4) / 2e7 - 1.0).abs() < 0.15 && idle(1e4) == idle(5e3), "{} {}", idle(1e4), idle(5e3));
        assert!(idle(1.1e4) < 0.7 * idle(1e4), "{} {}", idle(1.1e4), idle(1e4));
        assert_eq!(idle(3e4), 0.0);
    }

    #[test]
    fn what_a_token_bucket_lets_pass_early_is_carried_all_the_same() {
        // Three packets of 1250 B at once each 375 us, 80 Mbit/s, none of which finds a queue: the bucket had credit
        // for them.
        let early = |point: Point| Point { at_ns: f64::from(point.index / 3) * 375_000.0, ..point };
        let points: Vec<Point> = train(|_| 0.0).into_iter().map(early).collect();
        let idle = |shared: bool| score(&points, &Known { shared, ..known() }).expect("points").idle;
        assert!((idle(true) / 2e7 - 1.0).abs() < 0.3, "{}", idle(true));
        assert!(idle(false) > 2.0 * idle(true), "{}", idle(false));
    }

    #[test]
    fn what_other_queues_may_add_at_most_widens_the_bound_and_not_the_guess() {
        // Every other packet found 80 us of queue: the link was idle for a little, or, were all that another's queue,
        // for more.
        let found =
            |delay_ns: f64| score(&train(|i| if i % 2 == 0 { delay_ns } else { 0.0 }), &known()).expect("points");
        let (none, some) = (found(0.0), found(20_000.0));
        assert!(some.idle > 0.9 * none.idle, "{none:?} {some:?}");
        assert!(some.idle_mean < 0.8 * none.idle_mean, "{none:?} {some:?}");
    }

    #[test]
    fn a_spike_at_the_end_is_not_taken_for_a_slope() {
        let spiky = |i: u32| if i == 0 || i == 99 { 6e6 } else { 1e6 };
        let score = score(&train(spiky), &known()).expect("points");
        assert!((score.least / 8e7 - 1.0).abs() < 1e-9, "{score:?}");
    }
}
