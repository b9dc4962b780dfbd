//! For how long the queue may have been empty between packets, and was, as far as can be told.

use super::points::Point;
use super::train_estimate::{JITTER, Known};

/// A queue that is found longer than the time in which it may have been empty was not: cross traffic of twice the
/// link's rate would have made it, but for so many packets.
const SUDDEN: f64 = 2.0;

/// Packets among which one that finds a queue shows that the link was hardly ever idle before.
const SOON: usize = 4;

/// The most time for which the queue can have been empty, and a guess of it, ns. Behind a packet the queue lasts at
/// least for what the packet found and itself; only what the next packet comes later than that can have been idle. It
/// has been for most of that, where the next packet still found nothing, and for little, where it found a queue again.
pub(super) fn idle_ns(points: &[Point], known: &Known, other_ns: f64) -> (f64, f64) {
    // What the other links add to a delay is no queue of the tight one. That is the most it can be, and no guess.
    let likely = Known { base_ns: known.base_ns + known.grain_ns, ..*known };
    let most = Known { base_ns: likely.base_ns + JITTER * other_ns, ..*known };
    let idle_ns =
        |pair: &[Point], known: &Known| (after_queue_ns(&pair[0], &pair[1], known) - known.stamp_error_ns).max(0.0);
    let found_empty = |point: &Point| point.delay_ns - most.base_ns <= 0.3 * known.service_ns;
    if known.shared {
        let sum = idle_gaps_ns(points, known, JITTER * other_ns).iter().sum();
        let likely_ns = carried_idle_ns(points, &likely);
        let stays_empty = |place: usize| points[place + 1..].iter().take(SOON).all(found_empty);
        let share = |place: usize| if stays_empty(place) { 0.5 } else { 0.2 };
        return (sum, likely_ns.iter().enumerate().map(|(place, idle_ns)| share(place) * idle_ns).sum());
    }
    points.windows(2).fold((0.0, 0.0), |(sum, mean), pair| {
        (sum + idle_ns(pair, &most), mean + if found_empty(&pair[1]) { 0.8 } else { 0.2 } * idle_ns(pair, &likely))
    })
}

/// For how long the queue may have been empty between neighbours, ns, at the most that the capacity may be; see
/// [`carried_idle_ns`].
pub(super) fn idle_gaps_ns(points: &[Point], known: &Known, jitter_ns: f64) -> Vec<f64> {
    let faster = 1.0 + 2.0 * known.capacity_error;
    let most = Known {
        base_ns: known.base_ns + known.grain_ns + jitter_ns,
        capacity: known.capacity * faster,
        service_ns: known.service_ns / faster,
        ..*known
    };
    carried_idle_ns(points, &most)
}

/// The same where the probes' own bits are reckoned: what they bring takes the link so long, whatever their delays say.
/// A token bucket's credit hides a queue, and lets packets pass that came early; it takes as long to come back.
fn carried_idle_ns(points: &[Point], known: &Known) -> Vec<f64> {
    let mut busy_ns: f64 = 0.0;
    let gaps = points.windows(2).map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        let apart_ns = after.at_ns - before.at_ns;
        let idle_ns = after_queue_ns(before, after, known).min(apart_ns - busy_ns) - known.stamp_error_ns;
        let own_ns = (after.arrived_bit - before.arrived_bit) * 1e9 / known.capacity;
        let queue_ns = (before.delay_ns - known.base_ns).max(0.0) + known.service_ns;
        busy_ns = (busy_ns.max(queue_ns) - apart_ns).max(0.0) + own_ns;
        idle_ns.max(0.0)
    });
    gaps.collect()
}

/// How much later a packet came than the queue behind the one before it lasted at least, ns. The bits between the two
/// that are not the later packet's own came before it as well, but nothing says when. Packets of one call came
/// together: the link had all of them to send, whatever the delay of the last of them says (the least delay may be that
/// of such a one, and a token bucket's credit hides as many).
pub(super) fn after_queue_ns(before: &Point, after: &Point, known: &Known) -> f64 {
    let found_ns =
        if known.found { (after.delay_ns - known.base_ns - SUDDEN * known.service_ns).max(0.0) } else { 0.0 };
    let queue_ns = (before.delay_ns - known.base_ns).max(0.0) + known.service_ns;
    // An account that goes on is assumed to be busy by what is found alone: several links hold packets of a call, too.
    let call_ns = if known.found { 0.0 } else { before.call_bit * 1e9 / known.capacity };
    (after.at_ns - before.at_ns) - queue_ns.max(call_ns) - found_ns
}

/// Whether the queue may have been empty between two points.
pub(super) fn may_be_empty(before: &Point, after: &Point, known: &Known, jitter_ns: f64) -> bool {
    after_queue_ns(before, after, &Known { base_ns: known.base_ns + jitter_ns + known.grain_ns, ..*known }) > 0.0
}
