//! Every number of the method: its unit, why it is there, and what half and double of it do.
//!
//! `Half` and `double` are measured, by `bench/avb/sensitivity --write`, on paths and troubles that nothing was set on.
//! Those of the numbers that several places share (`SIDES`, `LEAST_POINTS`, `FAR`, `LITTLE`, `CAPACITY_ERROR`,
//! `FEW_PACKETS`, `MORE`, `LONGER`, `HELD_NS`, `CREDIT`, `RATIO_MOST`, `RATIO_SAME`, ...) are of 200 paths, of each
//! family in turn (`--family mixed`, seed 7788990011), and 68 troubles, one seed each. Unchanged, 33.3 % of the
//! estimates are off by more than 3 %, cover 92.4 %, 3.5 % beyond three half-widths, 1996 kB, 18 troubles missed and
//! off by 4.8 %. All others are older, from before trains were simulated by the product's own sessions: 400 random
//! paths (seed 31415926) and 48 troubles, 10 seeds each, with 32.2 % off, cover 97.2 %, 0.5 % beyond, 1614 kB, 9
//! troubles missed; `POLICE_...`, but `POLICE_LOST`, of 100 policers (seed 771300000), with 50.5 % off, cover 94.8 %,
//! 11 troubles missed. Each change of a number makes some paths other trains: on 200 paths 2 % more or less are off by
//! chance.

// ---- The account
/// Unit: standard errors. Half of the interval: 95 % of a normal error. Trains that differ by less agree; a value that
/// approaches is taken for that much higher. The same number of standard deviations of other queues' delays may be
/// taken for a queue of the tight link.
/// Half: off 34.8 %, cover 91.9 %, beyond 3.0 %; double: off 34.3 %, cover 92.9 %, cover of troubles 94.1 %.
pub(super) const SIDES: f64 = 2.0;
/// Unit: share of the value. What no measurement is nearer than: stamps, headers, rounding.
/// Half: nothing; double: 1870 kB.
pub(super) const LEAST_ERROR: f64 = 0.003;
/// Unit: typical steps. A step of the delay that is larger is one pause and is cut to it, so that it does not make
/// all points look noisy.
/// Half: off 31.2 %; double: nothing.
pub(super) const PAUSE_STEPS: f64 = 12.0;
/// Unit: packets of the tight link. What other links' queues differ by between two ends where cross traffic is even.
/// Half: 1852 kB, 7 troubles missed; double: off 30.8 %.
pub(super) const OTHERS_EVEN: f64 = 0.3;
/// Unit: packets for each unit of dispersion. The same, where cross traffic comes as Poisson's does (dispersion 1) or
/// in bursts.
/// Half: off 35.4 %, cover 91.9 %, beyond 3.0 %, 15 troubles missed, troubles off by 4.1 %, intervals of troubles 30 %;
/// double: off 36.4 %, cover 92.9 %, beyond 3.0 %, troubles off by 3.9 %, intervals of troubles 42 %.
pub(super) const OTHERS_BURSTY: f64 = 2.5;
/// Unit: standard deviations. This part of what other links' queues differ by may hide that the queue was empty.
/// Half: off 31.0 %, 7 troubles missed; double: off 33.3 %, 1854 kB.
pub(super) const BLUR: f64 = 1.0;
/// Unit: share of the time. Behind a queue that a packet found empty it was empty for this part of what it may have
/// been; where the packet found a queue, for the rest.
/// Half: cover 91.4 %, beyond 3.0 %, 16 troubles missed; double: off 34.8 %, cover 91.9 %, cover of troubles 91.2 %.
pub(super) const IDLE_EMPTY: f64 = 0.8;
/// Unit: places. Where an account may begin or end: the lowest delay of each of this number of parts of a train.
/// Half: off 30.5 %, 1408 kB; double: cover 96.2 %.
pub(super) const PARTS: usize = 10;
/// Unit: points, stamps or packets. Fewer show neither a slope nor a rate, and fewer losses no full queue.
/// Half: cover of troubles 94.1 %; double: cover 91.9 %, beyond 3.0 %, troubles off by 3.1 %, cover of troubles 94.1 %.
pub(super) const LEAST_POINTS: usize = 8;
/// Unit: share. From here on a rate is far from another: a stream that approaches is this much faster than the value,
/// one at a policer at least this much faster than what it leaves; a slope that corrects a rate by more is assumed to
/// be other links' too; a ratio nearer to 1 is that of the narrow link itself.
/// Half: off 35.9 %, cover 93.9 %, beyond 2.5 %, troubles off by 4.1 %; double: off 34.3 %, cover 91.4 %, beyond 3.0 %.
pub(super) const FAR: f64 = 0.1;
/// Unit: share of the slope. Far above the value other links are overloaded as well: this part of a slope may be
/// theirs.
/// Half: off 35.4 %, cover 90.9 %, beyond 4.0 %; double: off 34.3 %, cover 92.9 %, beyond 3.0 %, troubles off by 5.7 %.
pub(super) const FAR_ERROR: f64 = 0.2;
/// Unit: probability. What each end of the interval leaves out of the ratios that the tight link may have.
/// Half: cover 98.0 %; double: nothing.
pub(super) const OUTSIDE: f64 = 0.025;

// ---- Evidence of all trains
/// Unit: share of the capacity. No capacity is known better, whatever shows it.
/// Half: off 34.3 %; double: nothing.
pub(super) const CAPACITY_ERROR: f64 = 0.03;
/// Unit: capacities. Probes that left the link faster show that it is faster than gaps did. A train that shows more
/// free than this is wrong, and so are all before it.
/// Half: off 36.8 %, cover 93.0 %, beyond 2.7 %; double: cover 92.9 %, beyond 3.0 %.
pub(super) const OUTGROWN: f64 = 1.15;
/// Unit: share of the rate. A train whose slope corrects it by more was at a wrong rate; the next one is not much
/// longer.
/// Half: nothing; double: off 33.5 %.
pub(super) const ASTRAY: f64 = 0.15;

// ---- The first train
/// Unit: bytes. Calls of a first train are of this size where packets of one call share a stamp.
/// Half: nothing; double: nothing.
pub(super) const FIRST_CALL_BYTE: u32 = 36_000;
/// Unit: bit/s. Below this capacity packets are no larger than `SMALL`.
/// Half: nothing; double: nothing.
pub(super) const SMALL_BELOW: f64 = 5e8;
/// Unit: bytes. Large packets are few at low rates.
/// Half: nothing; double: nothing.
pub(super) const SMALL: u32 = 1500;

// ---- The next train
/// Unit: calls. A packet's time is at least this multiple of what the sender needs for a call.
/// Half: off 31.2 %, 1864 kB; double: off 30.8 %, 1812 kB.
pub(super) const ROOM: f64 = 1.5;
/// Unit: share. By this a rate is hardly faster: a measuring stream is that much faster than the value, which holds the
/// queue filled. What is smaller is next to nothing: a time in which the queue may have been empty, a delay that grew
/// by it, a value to plan for.
/// Half: off 36.9 %, cover 91.9 %, beyond 3.0 %, 16 troubles missed; double: off 37.9 %, beyond 2.5 %.
pub(super) const LITTLE: f64 = 0.02;
/// Unit: standard deviations. The head fills the queue for this multiple of what the cross traffic may do in the
/// train's time.
/// Half: off 30.5 %, 6 troubles missed; double: off 35.9 %.
pub(super) const PRIME: f64 = 2.5;
/// Unit: times. More for each train that emptied it.
/// Half: off 29.2 %, cover 96.5 %; double: nothing.
pub(super) const PRIME_MORE: f64 = 1.4;
/// Unit: s. The head fills the queue to this at most: routers hold about 100 ms.
/// Half: off 31.0 %; double: nothing.
pub(super) const MOST_QUEUE_S: f64 = 0.1;
/// Unit: packets. What is uncertain at the ends of a train: single packets and clumps of them. Heads fill the queue by
/// this beyond what they must; more than these that pass at once are a token bucket's.
/// Half: off 32.3 %, cover 91.4 %, beyond 3.0 %, 16 troubles missed, troubles off by 3.8 %, cover of troubles 91.2 %,
/// intervals of troubles 29 %; double: off 34.5 %, cover 94.4 %, beyond 3.0 %, 15 troubles missed, cover of troubles
/// 94.1 %.
pub(super) const FEW_PACKETS: f64 = 4.0;
/// Unit: share of the head. The part of a head that is held to stay in the queue, at least.
/// Half: 6 troubles missed; double: nothing.
pub(super) const LEAST_KEPT: f64 = 0.35;
/// Unit: services of the head. Behind a head the account begins when the tight link has sent this multiple of it: links
/// before it have drained.
/// Half: off 30.5 %, 1408 kB; double: beyond 1.0 %.
pub(super) const SETTLE: f64 = 1.2;
/// Unit: times. The next train behind one that emptied the queue, whose rate was far off or whose interval was wide is
/// longer by this at most.
/// Half: off 35.9 %, cover 91.4 %, beyond 3.0 %, 15 troubles missed, troubles off by 3.8 %; double: off 37.9 %, cover
/// 91.9 %, beyond 3.0 %, 20 troubles missed, troubles off by 6.1 %, cover of troubles 91.2 %.
pub(super) const LONGER: f64 = 6.0;
/// Unit: share of what is left. Such a train takes this of the bytes and the time at most.
/// Half: off 31.0 %, cover 95.2 %, beyond 1.0 %, troubles off by 4.7 %, intervals of troubles 42 %; double: cover 95.8
/// %, 15 troubles missed.
pub(super) const REST_SHARE: f64 = 0.3;
/// Unit: share of what is left. Any other takes this; and of the time this part of that, since it has to come back.
/// Half: off 34.3 %, cover 92.9 %, beyond 2.5 %, troubles off by 5.7 %, intervals of troubles 41 %; double: 26 troubles
/// missed, intervals of troubles 33 %.
pub(super) const LAST_SHARE: f64 = 0.85;
/// Unit: times. By this the bytes may grow: on links above 600 Mbit/s, as the link carries more in the time that hosts
/// stall; and for trains behind the bursts that found a token bucket, which may empty it this often where the limit of
/// bytes is no strict one. Without any, values at 10 Gbit/s are up to 5 % too high (`bench/avb/buckets`).
/// Half: beyond 3.0 %, 15 troubles missed, cover of troubles 91.2 %; double: off 31.8 %, 16 troubles missed.
pub(super) const MORE: u64 = 4;
/// Unit: share of the value. Where the tight link may be another one and the interval is wider than this, more bytes
/// are spent.
/// Half: nothing; double: nothing.
pub(super) const SEVERAL_WIDE: f64 = 0.2;
/// Unit: trains. Ends a measurement whose trains take neither bytes nor time.
/// Half: nothing; double: nothing.
pub(super) const MOST_TRAINS: u32 = 1000;

// ---- What is no queue
/// Unit: rank. Losses at delays above this mean rank come from a full queue.
/// Half: off 34.5 %; double: nothing.
pub(super) const LOST_HIGH: f64 = 0.85;
/// Unit: share of the spread. Seven of ten losses this near the highest delay do, too.
/// Half: nothing; double: nothing.
pub(super) const LOST_NEAR: f64 = 0.2;
/// Unit: services of a packet. Packets that came closer waited behind the tight link; below 1, since it is not known
/// well.
/// Half: off 32.6 %; double: off 42.5 %, cover 96.0 %.
pub(super) const HELD_SHARE: f64 = 0.6;
/// Unit: ns. Trains that were delayed as a whole waited for no less; without a measuring train, longer waits refuse the
/// answer.
/// Half: nothing; double: nothing.
pub(super) const HELD_NS: f64 = 300_000.0;
/// Unit: share of the capacity. What came at this rate at least has no cross traffic between its packets, and lost none
/// to a policer.
/// Half: nothing; double: nothing.
pub(super) const HELD_RATE: f64 = 0.9;
/// Unit: share of the packets. A train that loses less met no policer.
/// Half: nothing; double: nothing.
pub(super) const POLICE_LOST: f64 = 0.1;
/// Unit: packets. A train that measures a policer has this number behind its head, at least.
/// Half: off 56.7 %, cover 86.6 %; double: off 56.7 %, cover 93.8 %.
pub(super) const POLICE_LEAST: f64 = 200.0;
/// Unit: depths of the bucket. Its head is so long that the bucket is empty behind it.
/// Half: cover 89.7 %, beyond 1.0 %, 9 troubles missed; double: off 53.6 %, cover 92.8 %.
pub(super) const POLICE_BUCKET: f64 = 1.5;
/// Unit: packets. Probes and cross traffic together come faster than the policer's rate by this over the packets that
/// its bucket holds: a bucket that runs full is wasted.
/// Half: off 53.6 %, cover 89.7 %; double: cover 93.8 %.
pub(super) const POLICE_NEAR: f64 = 2.0;
/// Unit: share of the policer's rate. By this they come faster at most, and in one train of four.
/// Half: off 54.6 %, cover 90.7 %, beyond 1.0 %; double: off 54.6 %, cover 91.8 %, beyond 1.0 %.
pub(super) const POLICE_FAR: f64 = 0.5;
/// Unit: share of the policer's rate. And by this in one train of four: hardly any cross traffic passes.
/// Half: cover 90.7 %, beyond 1.0 %, 9 troubles missed; double: off 52.6 %, cover 92.8 %, beyond 1.0 %.
pub(super) const POLICE_HEAVY: f64 = 3.0;
/// Unit: share of what passes. No train shows it better: bursts, and the bucket that fills between them.
/// Half: off 55.7 %, cover 86.6 %, beyond 2.1 %; double: off 54.6 %, cover 95.9 %.
pub(super) const POLICE_BURSTS: f64 = 0.035;
/// Unit: share. The odds of probes to pass are lower by this times `X/P`, beside even cross traffic.
/// Half: off 52.6 %, cover 95.9 %; double: off 47.4 %, cover 92.8 %.
pub(super) const POLICE_EVEN: f64 = 0.8;
/// Unit: packets. Variance over mean of bursty cross traffic; of long bursts it is the square of this.
/// Half: off 47.4 %, cover 87.6 %; double: off 48.5 %, cover 91.8 %.
pub(super) const POLICE_BURSTY: f64 = 7.0;
/// Unit: share. How far what a bucket wastes may be off.
/// Half: cover 93.8 %, beyond 1.0 %; double: off 44.3 %, cover 92.8 %.
pub(super) const POLICE_WASTE: f64 = 0.5;

// ---- The narrow link's capacity
/// Unit: share of the gap. Neighbours closer than this in the mode count as the mode's.
/// Half: nothing; double: off 33.5 %, beyond 1.0 %, 1814 kB.
pub(super) const MODE_NEAR: f64 = 0.15;
/// Unit: share of the gap. A place is another one below this.
/// Half: cover 96.4 %, beyond 1.0 %, 1394 kB; double: does not end.
pub(super) const MODE_CLEAR: f64 = 0.75;
/// Unit: share of neighbours. Another place has this number at least.
/// Half: nothing; double: nothing.
pub(super) const MODE_LEAST_PART: f64 = 0.06;
/// Unit: times. Stamps this much closer than arrivals are of packets that were handed over together, and stamps of more
/// packets than this hide the gaps between them.
/// Half: off 30.5 %, beyond 3.0 %, troubles off by 4.0 %; double: cover of troubles 91.2 %.
pub(super) const CLUMPED: f64 = 3.5;
/// Unit: share of packets. Where more were, gaps are those of the hand-over, and the link is known from a whole
/// train.
/// Half: nothing; double: nothing.
pub(super) const CLUMPED_SHARE: f64 = 0.15;
/// Unit: share of the time that the link takes. A token bucket let those through that waited less, and came sooner by
/// this.
/// Half: cover of troubles 94.1 %; double: off 32.3 %, cover 93.4 %, beyond 2.5 %, 16 troubles missed.
pub(super) const CREDIT: f64 = 0.2;
/// Unit: packets. Behind a bucket the first train is to have this number.
/// Half: nothing; double: nothing.
pub(super) const TAIL_PACKETS: f64 = 64.0;
/// Unit: share of the capacity. The error of a capacity from gaps of which no two are alike, from stamps that hide
/// them, or from a bound.
/// Half: nothing; double: beyond 3.0 %.
pub(super) const SCATTERED_ERROR: f64 = 0.3;

// ---- The tight link
/// Unit: ratio. The tight link's capacity over the narrow one's, at most, and at least its inverse: links that are
/// overloaded together act as one with less capacity than any.
/// Half: off 34.3 %, cover 91.9 %; double: off 35.4 %, cover 91.9 %.
pub(super) const RATIO_MOST: f64 = 16.0;
/// Unit: probability. That the tight link is the narrow one, before any train. Where another one is as likely as that,
/// more bytes are spent.
/// Half: off 36.4 %, beyond 3.0 %; double: off 36.9 %, cover 90.4 %, beyond 4.5 %, intervals of troubles 31 %.
pub(super) const RATIO_SAME: f64 = 0.4;
/// Unit: power. Ratios are the rarer the larger they are.
/// Half: nothing; double: beyond 1.0 %, 1336 kB.
pub(super) const RATIO_STEEP: f64 = 2.0;

#[cfg(test)]
mod tests {
    /// Lines of this file, with those of each number's comment.
    fn numbers() -> Vec<(String, String)> {
        let text = include_str!("tuning.rs");
        let mut found = Vec::new();
        let mut comment = String::new();
        for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
            if let Some(words) = line.strip_prefix("/// ") {
                comment = format!("{comment} {words}");
            } else if let Some((name, _)) = line.strip_prefix("pub(super) const ").and_then(|it| it.split_once(':')) {
                found.push((name.to_owned(), std::mem::take(&mut comment)));
            }
        }
        found
    }

    #[test]
    fn there_are_60_numbers_at_most_each_with_its_unit_its_reason_and_its_sensitivity() {
        let found = numbers();
        assert!((40..=60).contains(&found.len()), "{}", found.len());
        for (name, comment) in found {
            for part in [" Unit: ", " Half: ", "; double: "] {
                assert_eq!(comment.matches(part).count(), 1, "{name}:{comment} (bench/avb/sensitivity --write)");
            }
            let reason = comment.split(" Half: ").next().and_then(|it| it.split_once(". "));
            assert!(
                !comment.contains("not measured"),
                "{name}:{comment} (bench/avb/sensitivity --only {name} --write)"
            );
            assert!(reason.is_some_and(|(_, why)| why.len() > 10), "{name}:{comment}");
        }
    }
}
