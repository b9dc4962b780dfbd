//! What one train that fills a queue shows of it: pure functions of the train and the waits of its packets.

use super::figures::{Depth, Lost};
use super::trace::Trace;
use super::tuning::TrainTuning;
use crate::avb::{Ecn, median, quantile};

/// What a train shows of the queue that it fills.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// The longest waits: 95 of 100 packets waited less, ns.
    pub(super) top_ns: f64,
    /// The rate at which packets left the queue, all traffic, and how far it may be off, bit/s.
    pub(super) drain_bit_per_s: Option<(f64, f64)>,
    /// What a token bucket passed before the queue began, in time of the link, ns.
    pub(super) credit_ns: f64,
    /// What the losses are like.
    pub(super) losses: Losses,
}

/// What the losses of a train are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Losses {
    /// Too few to conclude anything, or at waits of all lengths.
    Elsewhere,
    /// Where the queue was longest: the time that a full queue takes to drain, with its interval, ns.
    Full { time_ns: f64, interval_ns: [f64; 2] },
    /// Without any queue.
    Policed,
}

/// A packet that was lost, and the one that arrived before it.
struct Missing {
    /// Number of the one before.
    before: usize,
    /// Its wait, ns.
    wait_ns: f64,
    /// From the one before to this one, ns.
    after_ns: f64,
}

fn missing(trace: &Trace, waits: &[Option<f64>]) -> Vec<Missing> {
    let mut found = Vec::new();
    let mut before = None;
    for (number, (probe, wait)) in trace.probes.iter().zip(waits).enumerate() {
        if let (Some(_), Some(wait)) = (probe.received_ns, wait) {
            before = Some((number, *wait, probe.sent_ns));
        }
        if let (None, Some((before, wait_ns, sent_ns))) = (probe.received_ns, before) {
            found.push(Missing { before, wait_ns, after_ns: probe.sent_ns - sent_ns });
        }
    }
    found
}

/// The rate of arrivals among `from..to`, bit/s: of all but those with the first stamp, which several may share.
fn arrivals_bit_per_s(trace: &Trace, among: impl Iterator<Item = usize>) -> Option<(usize, f64)> {
    let times: Vec<f64> = among.filter_map(|index| trace.probes[index].received_ns).collect();
    let first = times.iter().copied().min_by(f64::total_cmp)?;
    let last = times.iter().copied().max_by(f64::total_cmp)?;
    let behind = times.iter().filter(|&&at| at > first).count();
    (last > first).then(|| (behind, behind as f64 * trace.packet_bit * 1e9 / (last - first)))
}

/// The rate at which the queue drains, and how far that may be off. `free` is the available bandwidth.
///
/// In a busy queue probes leave at `R = C r/(r + X)`, with `r` the rate at which they come and `X = C - A` the cross
/// traffic: `C = R (r - A)/(r - R)`.
fn drain(
    trace: &Trace,
    waits: &[Option<f64>],
    top_ns: f64,
    free: Option<f64>,
    tuning: &TrainTuning,
) -> Option<(f64, f64)> {
    let long = |index: &usize| waits[*index].is_some_and(|wait| wait >= tuning.busy_share * top_ns);
    let full = waits
        .iter()
        .position(|wait| wait.is_some_and(|wait| wait >= tuning.early_wait * top_ns))
        .unwrap_or(waits.len());
    let busy: Vec<usize> = (0..waits.len()).filter(long).collect();
    let filling: Vec<usize> = busy.iter().copied().filter(|&index| index <= full).collect();
    let least = tuning.least_lost as usize;
    let used = if filling.len() >= least { filling } else { busy };
    let (first, last) = (*used.first()?, *used.last()?);
    let (count, left) = arrivals_bit_per_s(trace, used.iter().copied()).filter(|it| it.0 + 1 >= least)?;
    let sent_ns = trace.probes[last].sent_ns - trace.probes[first].sent_ns;
    let came = count as f64 * trace.packet_bit * 1e9 / sent_ns.max(1.0);
    // Probes that come hardly faster than they leave share the queue with others as those like.
    (came > (1.0 + tuning.fast) * left).then(|| {
        let others = free.filter(|free| *free < left);
        let rate = others.map_or(left, |free| left * (came - free) / (came - left));
        // Half a packet at each end, and what is taken for the others: in so short a time they may send twice that.
        (rate, rate / count as f64 + (rate - left))
    })
}

/// Reads a train. `free` is the available bandwidth, `rate` what the drain rate is taken for where the train does not
/// show it; both bit/s.
pub(super) fn read(
    trace: &Trace,
    waits: &[Option<f64>],
    free: Option<f64>,
    rate: Option<f64>,
    tuning: &TrainTuning,
) -> Reading {
    let known: Vec<f64> = waits.iter().flatten().copied().collect();
    let top_ns = quantile(&known, tuning.top).unwrap_or(0.0);
    let drain_bit_per_s = drain(trace, waits, top_ns, free, tuning);
    let packet_ns = drain_bit_per_s.map(|it| it.0).or(rate).map_or(0.0, |rate| trace.packet_bit * 1e9 / rate);
    let missing = if trace.overrun { Vec::new() } else { missing(trace, waits) };
    let credit_ns = credit_of_ns(trace, waits, tuning.busy_share * top_ns, packet_ns);
    Reading { top_ns, drain_bit_per_s, credit_ns, losses: losses(&missing, waits, top_ns, packet_ns, tuning) }
}

/// What came of a burst until its packets waited, less what the link sent meanwhile and what waits, ns; 0 where that is
/// less than a packet. Where the queue begins, since an error of the rate counts for each packet before.
fn credit_of_ns(trace: &Trace, waits: &[Option<f64>], most_ns: f64, packet_ns: f64) -> f64 {
    let Some(first) = trace.probes.first() else { return 0.0 };
    let arrived = trace.probes.iter().zip(waits).enumerate();
    let credits: Vec<f64> = arrived
        .take_while(|(_, (probe, _))| probe.received_ns.is_some())
        .filter_map(|(number, (probe, wait))| {
            let wait = wait.filter(|wait| packet_ns < *wait && *wait < most_ns)?;
            Some(number as f64 * packet_ns - (probe.sent_ns - first.sent_ns) - wait)
        })
        .collect();
    median(&credits).map_or(0.0, |credit| credit.max(0.0))
}

fn losses(missing: &[Missing], waits: &[Option<f64>], top_ns: f64, packet_ns: f64, tuning: &TrainTuning) -> Losses {
    if (missing.len() as f64) < tuning.least_lost {
        return Losses::Elsewhere;
    }
    let met: Vec<f64> = missing.iter().map(|it| it.wait_ns).collect();
    let often_ns = quantile(&met, tuning.often).unwrap_or(0.0);
    let near_ns = (1.0 - tuning.early_wait) * often_ns;
    let full: Vec<&Missing> = missing.iter().filter(|it| (it.wait_ns - often_ns).abs() <= near_ns).collect();
    let arrived = waits.iter().flatten().filter(|wait| (*wait - often_ns).abs() <= near_ns).count();
    let few = (full.len() as f64) < tuning.lost_share * (full.len() + arrived) as f64;
    if few || often_ns < top_ns - near_ns {
        return Losses::Elsewhere;
    }
    if often_ns < packet_ns {
        return Losses::Policed;
    }
    // What fitted: the packet before, with what was queued ahead of it. What did not: the one lost, with what was left
    // of that. The last of a run came when there was all but room for it.
    let fitted: Vec<f64> = full.iter().map(|it| it.wait_ns + packet_ns).collect();
    let next = full.iter().skip(1).map(|it| it.before).chain([usize::MAX]);
    let last = full.iter().zip(next).filter(|(it, next)| it.before != *next && it.after_ns < 2.0 * packet_ns);
    let too_much: Vec<f64> = last.map(|(it, _)| it.wait_ns + 2.0 * packet_ns - it.after_ns).collect();
    let Some(low) = quantile(&fitted, tuning.often) else { return Losses::Elsewhere };
    let [least, most] = [f64::min, f64::max].map(|of| fitted.iter().copied().fold(low, of));
    let high = quantile(&too_much, 1.0 - tuning.often).filter(|high| *high > low);
    let time_ns = high.map_or(low, |high| f64::midpoint(low, high));
    Losses::Full { time_ns, interval_ns: [least, high.unwrap_or(most).max(most)] }
}

/// What a token bucket passes at once, in time of the link, ns: a burst that comes before it is full again shows less.
pub(super) fn credit_ns(readings: &[Reading]) -> f64 {
    readings.iter().map(|reading| reading.credit_ns).fold(0.0, f64::max)
}

/// The depth that several readings show together; `None` where none filled the queue. `rate` is what the drain rate is
/// taken for where none shows it, bit/s.
pub(super) fn depth(readings: &[Reading], rate: Option<f64>) -> Option<Depth> {
    let full = readings.iter().filter_map(|reading| match reading.losses {
        Losses::Full { time_ns, interval_ns } => Some((time_ns, interval_ns)),
        Losses::Elsewhere | Losses::Policed => None,
    });
    let (times, intervals): (Vec<f64>, Vec<[f64; 2]>) = full.unzip();
    let time_ns = median(&times)?;
    let low = intervals.iter().map(|it| it[0]).fold(time_ns, f64::min);
    let high = intervals.iter().map(|it| it[1]).fold(time_ns, f64::max);
    let drains: Vec<(f64, f64)> = readings.iter().filter_map(|reading| reading.drain_bit_per_s).collect();
    let drain_bit_per_s = median(&drains.iter().map(|it| it.0).collect::<Vec<_>>()).or(rate)?;
    let slowest = drains.iter().map(|it| it.0 - it.1).fold(drain_bit_per_s, f64::min);
    let fastest = drains.iter().map(|it| it.0 + it.1).fold(drain_bit_per_s, f64::max);
    Some(Depth {
        time_ns,
        time_interval_ns: [low, high],
        byte: time_ns * drain_bit_per_s / 8e9,
        byte_interval: [low * slowest / 8e9, high * fastest / 8e9],
        drain_bit_per_s,
        at_least: false,
    })
}

/// Packets from `from` on, sent into a short and into a long queue: one whose waits have been longer than `long_ns` for
/// at least `stood_ns`, as the packets before show, in the order and at the times in which they left it.
pub(super) fn by_queue(trace: &Trace, waits: &[Option<f64>], from: usize, long_ns: f64, stood_ns: f64) -> [Lost; 2] {
    let mut counts = [Lost::default(); 2];
    let (mut since, mut long) = (None, false);
    for (number, (probe, wait)) in trace.probes.iter().zip(waits).enumerate() {
        if let (Some(received), Some(wait)) = (probe.received_ns, wait) {
            // All that left since this one came in had come before it: the queue was long before the train began.
            since = (*wait > long_ns).then(|| since.unwrap_or(received - (*wait - long_ns)));
            long = since.is_some_and(|since| received - since >= stood_ns);
        }
        if number >= from {
            let count = &mut counts[usize::from(long)];
            count.sent += 1;
            count.lost += u64::from(probe.received_ns.is_none());
            count.marked += u64::from(probe.ecn == Some(Ecn::Marked));
        }
    }
    counts
}

/// The chance that at least as many packets are lost or marked in the long queue as were, if every packet is as likely
/// to be as any other.
//= Fisher 1935: the exact test of a table of two by two, one side
pub(super) fn loss_p(short: Lost, long: Lost) -> Option<f64> {
    if short.sent == 0 || long.sent == 0 {
        return None;
    }
    let [short_hit, long_hit] = [short, long].map(Lost::hit);
    let (all, lost) = (short.sent + long.sent, short_hit + long_hit);
    let ln_choose = |of: u64, take: u64| (1..=take).map(|i| ((of - take + i) as f64 / i as f64).ln()).sum::<f64>();
    let ways = ln_choose(all, long.sent);
    let chance = |in_long: u64| {
        (lost - in_long <= short.sent)
            .then(|| (ln_choose(lost, in_long) + ln_choose(all - lost, long.sent - in_long) - ways).exp())
    };
    Some((long_hit..=lost.min(long.sent)).filter_map(chance).sum::<f64>().min(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::trace::{hand::trace, waits_ns};
    use super::*;

    /// A burst of `count` packets of 1500 B, one every `gap_us`, into an empty queue with room for `room` packets that
    /// drains one packet a millisecond (12 Mbit/s).
    fn burst(count: u32, gap_us: f64, room: f64) -> Trace {
        let (mut queued_ms, mut at_ms) = (0.0_f64, 0.0);
        let packets: Vec<(f64, Option<f64>)> = (0..count)
            .map(|number| {
                let now_ms = f64::from(number) * gap_us / 1e3;
                queued_ms = (queued_ms - (now_ms - at_ms)).max(0.0);
                at_ms = now_ms;
                let fits = queued_ms + 1.0 <= room;
                let wait = fits.then_some(queued_ms * 1e6);
                queued_ms += if fits { 1.0 } else { 0.0 };
                (now_ms * 1e6, wait)
            })
            .collect();
        trace(&packets)
    }

    fn reading(trace: &Trace) -> Reading {
        read(trace, &waits_ns(trace, 0.0), None, Some(12e6), &TrainTuning::SET)
    }

    #[test]
    fn a_full_queue_is_known_to_a_packet() {
        for (room, gap_us) in [(40.0, 10.0), (40.0, 300.0), (16.0, 100.0), (150.5, 20.0)] {
            let seen = reading(&burst(400, gap_us, room));
            let Losses::Full { time_ns, interval_ns } = seen.losses else { panic!("{seen:?}") };
            assert!((time_ns / 1e6 - room).abs() <= 0.51, "{room} at {gap_us}: {time_ns}");
            assert!(interval_ns[0] <= room * 1e6 && room * 1e6 <= interval_ns[1] + 1.0, "{room}: {interval_ns:?}");
            let drain = seen.drain_bit_per_s.expect("many arrivals").0;
            assert!((drain / 12e6 - 1.0).abs() < 0.01, "{drain}");
        }
    }

    #[test]
    fn a_burst_that_fits_shows_its_longest_wait_and_no_depth() {
        let seen = reading(&burst(30, 10.0, 40.0));
        assert_eq!(seen.losses, Losses::Elsewhere);
        assert!((26e6..29e6).contains(&seen.top_ns), "{seen:?}");
        assert_eq!(depth(&[seen], Some(12e6)), None);
    }

    #[test]
    fn losses_at_waits_of_all_lengths_are_not_a_full_queue() {
        let mut some = burst(400, 10.0, 1_000.0);
        some.probes.iter_mut().skip(100).step_by(40).for_each(|probe| probe.received_ns = None);
        assert_eq!(reading(&some).losses, Losses::Elsewhere);
    }

    #[test]
    fn a_few_losses_on_the_way_do_not_hide_where_the_queue_is_full() {
        let mut some = burst(400, 10.0, 60.0);
        some.probes.iter_mut().skip(5).step_by(15).take(3).for_each(|probe| probe.received_ns = None);
        let Losses::Full { time_ns, .. } = reading(&some).losses else { panic!("full") };
        // Three of the sixty never came to the queue.
        assert!((time_ns / 1e6 - 60.0).abs() < 1.0, "{time_ns}");
    }

    #[test]
    fn what_is_dropped_without_a_queue_is_a_policer() {
        // Twenty pass at once, then one in ten.
        let packets: Vec<_> =
            (0..200).map(|n| (f64::from(n) * 1e5, (n < 20 || n % 10 == 0).then_some(1_000.0))).collect();
        assert_eq!(reading(&trace(&packets)).losses, Losses::Policed);
    }

    #[test]
    fn losses_at_the_receivers_socket_are_not_the_paths() {
        let overrun = Trace { overrun: true, ..burst(400, 10.0, 40.0) };
        assert_eq!(reading(&overrun).losses, Losses::Elsewhere);
    }

    #[test]
    fn cross_traffic_is_part_of_the_drain_rate() {
        // Probes come at 24 Mbit/s beside 6 Mbit/s of others: of 12 Mbit/s they get 24/30.
        let packets: Vec<_> = (0..200)
            .map(|number| {
                let sent_ns = f64::from(number) * 500_000.0;
                let received_ns = f64::from(number) * 12_000.0 / (12e6 * 24.0 / 30.0) * 1e9;
                (sent_ns, Some((received_ns - sent_ns).max(0.0)))
            })
            .collect();
        let trace = trace(&packets);
        let seen = read(&trace, &waits_ns(&trace, 0.0), Some(6e6), None, &TrainTuning::SET);
        assert!((seen.drain_bit_per_s.expect("arrivals").0 / 12e6 - 1.0).abs() < 0.02, "{seen:?}");
    }

    #[test]
    fn the_chance_of_losses_is_fishers() {
        let lost = |sent, lost| Lost { sent, lost, marked: 0 };
        // Fisher's lady: 3 of 4 and 1 of 4 (tea tasting): 0.242857.
        let tea = loss_p(lost(4, 1), lost(4, 3)).expect("both were seen");
        assert!((tea - 17.0 / 70.0).abs() < 1e-12, "{tea}");
        let marked = Lost { sent: 4, lost: 1, marked: 2 };
        assert_eq!(loss_p(lost(4, 1), marked), Some(tea), "a mark is in the place of a drop");
        assert_eq!(loss_p(lost(100, 0), lost(100, 0)), Some(1.0));
        assert!(loss_p(lost(600, 0), lost(400, 10)).expect("both were seen") < 1e-3);
        assert_eq!(loss_p(lost(0, 0), lost(4, 3)), None);
    }

    #[test]
    fn packets_count_where_the_queue_was_as_the_packet_before_shows() {
        let packets = [(0.0, Some(0.0)), (1e3, None), (2e3, Some(9e6)), (3e3, None), (4e3, Some(9e6))];
        let trace = trace(&packets);
        let counts = by_queue(&trace, &waits_ns(&trace, 0.0), 0, 5e6, 0.0);
        assert_eq!(counts, [Lost { sent: 3, lost: 1, marked: 0 }; 2]);
        // What left before a packet that waited for 9 ms had waited for 5 ms for the last 4 of them.
        let counts = by_queue(&trace, &waits_ns(&trace, 0.0), 0, 5e6, 4.0e6);
        assert_eq!(counts, [Lost { sent: 3, lost: 1, marked: 0 }; 2]);
        let counts = by_queue(&trace, &waits_ns(&trace, 0.0), 0, 5e6, 4.001e6);
        let lost = |sent, lost| Lost { sent, lost, marked: 0 };
        assert_eq!(counts, [lost(5, 2), lost(1, 0)], "it had not stood for 4.001 ms before");
    }
}
