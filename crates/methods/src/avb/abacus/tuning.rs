//! Every number of the method: its unit, why it is there, and what half and double of it do.
//!
//! `Half` and `double` are measured, by `bench/avb/sensitivity --write`, on paths and troubles that nothing was set on
//! (400 random paths from seed 31415926; 48 troubles, 10 seeds each). Today 32.2 % of the estimates off by more
//! than 3 %; cover 97.2 %, 0.5 % beyond three half-widths, 1614 kB, 9 troubles missed. Numbers came from the method
//! before, where they were set on the 100 cells of `bench/avb` with seeds 1 to 200, or were set on random paths drawn
//! anew, never on those that the answers are from. Eight numbers that showed nothing were deleted in mid-run: those of
//! the narrow and the tight link and `HELD_SHARE` are measured after it (30.8 %, 97.2 %, 0.5 %, 1596 kB, 8 troubles).
//! `CREDIT_...`, `TAIL_...` and `CLUMP_PACKETS` are measured on paths of token buckets (`--shaped`: 400 from seed
//! 98810000) and on 68 troubles, 4 seeds each: as they are 8.8 % off, cover 99.2 %, 0.0 % beyond, 996 kB, 12 troubles
//! missed, troubles off by 5.3 %. `nothing`: on those paths; what clumps and several links' ratios need shows on other
//! ones (`crates/methods/tests`). All of it is from before an idle link was known by its probability (`tight.rs`); none
//! was measured again since. `POLICE_...` are measured later, on policers (`--family policed`: 100 from seed 771300000)
//! and on 68 troubles, one seed each: as they are 50.5 % off, cover 94.8 %, 0.0 % beyond, 11 troubles missed.

// ---- The account
/// Unit: standard errors. Half of the interval: 95 % of a normal error.
/// Half: nothing; double: nothing.
pub(super) const SIDES: f64 = 2.0;
/// Unit: share of the value. What no measurement is nearer than: stamps, headers, rounding.
/// Half: nothing; double: 1870 kB.
pub(super) const LEAST_ERROR: f64 = 0.003;
/// Unit: share of the value. The queue counts as empty for a time once the account is open by this.
/// Half: nothing; double: nothing.
pub(super) const DRAINED_SHARE: f64 = 0.02;
/// Unit: typical steps. A step of the delay that is larger is one pause and is cut to it, so that it does not make
/// all points look noisy.
/// Half: off 31.2 %; double: nothing.
pub(super) const PAUSE_STEPS: f64 = 12.0;
/// Unit: packets of the tight link. What other links' queues differ by between two ends where cross traffic is even.
/// Half: 1852 kB, 7 troubles missed; double: off 30.8 %.
pub(super) const OTHERS_EVEN: f64 = 0.3;
/// Unit: packets for each unit of dispersion. The same, where cross traffic comes as Poisson's does: dispersion 1.
/// Half: off 28.5 %, cover 96.5 %, beyond 1.0 %, 7 troubles missed; double: nothing.
pub(super) const OTHERS_POISSON: f64 = 2.0;
/// Unit: packets for each unit of dispersion. What is added for each unit above `FEW_BURSTS`.
/// Half: off 31.2 %; double: nothing.
pub(super) const OTHERS_BURSTY: f64 = 5.0;
/// Unit: dispersion. From here on traffic is assumed to be bursty.
/// Half: nothing; double: off 31.2 %, cover 96.5 %.
pub(super) const FEW_BURSTS: f64 = 3.0;
/// Unit: standard deviations. This part of what other queues add to each delay may be taken for a queue of the tight
/// link.
/// Half: off 31.2 %; double: nothing.
pub(super) const JITTER: f64 = 3.0;
/// Unit: standard deviations. This part of what other links' queues differ by may hide that the queue was empty.
/// Half: off 31.0 %, 7 troubles missed; double: off 33.3 %, 1854 kB.
pub(super) const BLUR: f64 = 1.0;
/// Unit: services of a packet. A packet that waited less found the queue empty.
/// Half: off 31.2 %; double: nothing.
pub(super) const EMPTY_SERVICES: f64 = 0.3;
/// Unit: share of the time. Behind a queue that a packet found empty it was empty for this part of what it may have
/// been.
/// Half: off 30.7 %, cover 96.5 %; double: 7 troubles missed.
pub(super) const IDLE_EMPTY: f64 = 0.8;
/// Unit: share of the time. The same where the packet found a queue.
/// Half: nothing; double: off 31.2 %, 1812 kB.
pub(super) const IDLE_FOUND: f64 = 0.2;
/// Unit: places. Where an account may begin or end: the lowest delay of each of this number of parts of a train.
/// Half: off 30.5 %, 1408 kB; double: cover 96.2 %.
pub(super) const PARTS: usize = 10;
/// Unit: points. An account of a part of a train has this number at least.
/// Half: nothing; double: nothing.
pub(super) const LEAST_POINTS: usize = 8;
/// Unit: share of the longest wait. Waits behind the tight link that were not seen, at the ends of an account.
/// Half: nothing; double: nothing.
pub(super) const HELD_UNSEEN: f64 = 0.1;
/// Unit: share of the rate. A slope that corrects the rate by more than this is assumed to be other links' too.
/// Half: 1852 kB; double: nothing.
pub(super) const FAR: f64 = 0.1;
/// Unit: share of the excess. And by this.
/// Half: nothing; double: off 30.5 %, 1812 kB.
pub(super) const FAR_ERROR: f64 = 0.2;
/// Unit: probability. What each end of the interval leaves out of the ratios that the tight link may have.
/// Half: cover 98.0 %; double: nothing.
pub(super) const OUTSIDE: f64 = 0.025;

// ---- Evidence of all trains
/// Unit: share of the move. A value may go on moving by this that moved since the train before, as far as the
/// tight link may be another.
/// Half: beyond 1.0 %; double: nothing.
pub(super) const MOVING: f64 = 1.0;
/// Unit: share of the capacity. No capacity is known better.
/// Half: nothing; double: nothing.
pub(super) const LEAST_CAPACITY_ERROR: f64 = 0.03;
/// Unit: standard deviations. Trains within this agree, and the narrowest of them answers.
/// Half: nothing; double: nothing.
pub(super) const AGREE: f64 = 3.0;
/// Unit: capacities. A train that shows more than this is wrong, and so are all before it.
/// Half: off 34.6 %; double: nothing.
pub(super) const ABSURD: f64 = 1.2;
/// Unit: capacities. Probes that left the link faster show that it is faster than gaps did.
/// Half: off 37.8 %; double: nothing.
pub(super) const OUTGROWN: f64 = 1.15;
/// Unit: points. An approaching train with this number measures, too.
/// Half: nothing; double: nothing.
pub(super) const ELIGIBLE_POINTS: usize = 24;
/// Unit: standard errors. And by this.
/// Half: off 30.5 %; double: nothing.
pub(super) const UPWARD: f64 = 1.5;
/// Unit: share of the rate. A train whose slope corrects it by more was at a wrong rate; the next one is not much
/// longer.
/// Half: nothing; double: off 33.5 %.
pub(super) const ASTRAY: f64 = 0.15;

// ---- The first train
/// Unit: bit/s. What a link is held to carry before it is known, for the bytes that may be spent.
/// Half: nothing; double: nothing.
pub(super) const UNKNOWN: f64 = 2e10;
/// Unit: stamps. The first train has this number of different ones, or is repeated.
/// Half: nothing; double: nothing.
pub(super) const BURST_STAMPS: usize = 8;
/// Unit: calls. Where packets of one call share a stamp: the first train is of this number.
/// Half: nothing; double: nothing.
pub(super) const FIRST_CALLS: u32 = 12;
/// Unit: bytes. And each of this size.
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
/// Unit: share of the value. A measuring stream is this much faster than the value: that holds the queue filled.
/// Half: 1830 kB; double: off 33.8 %, cover 96.2 %.
pub(super) const MARGIN: f64 = 0.02;
/// Unit: share of the value. The same of a stream that approaches.
/// Half: off 30.5 %; double: off 31.0 %.
pub(super) const APPROACH_MARGIN: f64 = 0.1;
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
/// Unit: packets. What the head fills beyond that.
/// Half: off 28.5 %; double: cover 98.0 %.
pub(super) const FILL_PACKETS: f64 = 4.0;
/// Unit: share of the head. The part of a head that is held to stay in the queue, at least.
/// Half: 6 troubles missed; double: nothing.
pub(super) const LEAST_KEPT: f64 = 0.35;
/// Unit: services of the head. Behind a head the account begins when the tight link has sent this multiple of it: links
/// before it have drained.
/// Half: off 30.5 %, 1408 kB; double: beyond 1.0 %.
pub(super) const SETTLE: f64 = 1.2;
/// Unit: share of the capacity. Trains are planned for no less.
/// Half: nothing; double: off 31.0 %.
pub(super) const LEAST_SHARE: f64 = 0.03;
/// Unit: times. The next train behind one that emptied the queue is longer by this at most.
/// Half: nothing; double: 1812 kB, 7 troubles missed.
pub(super) const LONGER_DRAINED: f64 = 3.0;
/// Unit: times. The same behind one whose rate was far off, or whose interval was wide.
/// Half: 1263 kB, 11 troubles missed; double: off 31.2 %.
pub(super) const LONGER_FAR: f64 = 8.0;
/// Unit: share of what is left. Such a train takes this of the bytes and the time at most.
/// Half: off 31.0 %, cover 95.2 %, beyond 1.0 %, troubles off by 4.7 %, intervals of troubles 42 %; double: cover 95.8
/// %, 15 troubles missed.
pub(super) const REST_SHARE: f64 = 0.3;
/// Unit: share of what is left. Any other takes this.
/// Half: nothing; double: nothing.
pub(super) const LAST_SHARE: f64 = 0.85;
/// Unit: share of that. Of the time a train takes this, since it has to come back.
/// Half: off 30.2 %; double: off 30.5 %, 1808 kB.
pub(super) const TIME_SHARE: f64 = 0.85;
/// Unit: share of the length wanted. An account of this length is enough: its ends lie inside the train.
/// Half: nothing; double: nothing.
pub(super) const LONG: f64 = 0.7;
/// Unit: times. On links above 600 Mbit/s the bytes may grow by this factor, as the link carries more in the time that
/// hosts stall.
/// Half: off 34.3 %, cover 98.2 %, 16 troubles missed, troubles off by 8.1 %, cover of troubles 95.6 %; double: off
/// 31.0 %, troubles off by 4.8 %.
pub(super) const MORE: u64 = 4;
/// Unit: probability. Where the tight link is another with more than this, more bytes are spent.
/// Half: off 31.0 %, 2262 kB; double: nothing.
pub(super) const NOT_EXCLUDED: f64 = 0.4;
/// Unit: share of the value. And where the interval is wider.
/// Half: nothing; double: nothing.
pub(super) const SEVERAL_WIDE: f64 = 0.2;
/// Unit: trains. Ends a measurement whose trains take neither bytes nor time.
/// Half: nothing; double: nothing.
pub(super) const MOST_TRAINS: u32 = 1000;
/// Unit: times. An answer from approaching trains alone has an interval wider by this factor.
/// Half: nothing; double: nothing.
pub(super) const SEARCH_WIDER: f64 = 3.0;

// ---- What is no queue
/// Unit: packets. Fewer losses show nothing.
/// Half: nothing; double: nothing.
pub(super) const LOST_AT_LEAST: usize = 4;
/// Unit: rank. Losses at delays above this mean rank come from a full queue.
/// Half: off 34.5 %; double: nothing.
pub(super) const LOST_HIGH: f64 = 0.85;
/// Unit: share of the spread. Seven of ten losses this near the highest delay do, too.
/// Half: nothing; double: nothing.
pub(super) const LOST_NEAR: f64 = 0.2;
/// Unit: depths of the bucket. Trains behind the bursts that found a token bucket may empty it again this often, where
/// the limit of bytes is no strict one. Without any, values at 10 Gbit/s are up to 5 % too high (`bench/avb/buckets`).
/// Half: nothing; double: nothing.
pub(super) const EMPTYINGS: f64 = 4.0;
/// Unit: services of a packet. Packets that came closer waited behind the tight link; below 1, since it is not known
/// well.
/// Half: off 32.6 %; double: off 42.5 %, cover 96.0 %.
pub(super) const HELD_SHARE: f64 = 0.6;
/// Unit: share of the time sent. A train of which all waited longer may have been delayed as a whole.
/// Half: nothing; double: nothing.
pub(super) const HELD_WHOLE: f64 = 0.7;
/// Unit: ns. And not by less.
/// Half: nothing; double: nothing.
pub(super) const HELD_WHOLE_NS: f64 = 300_000.0;
/// Unit: share of the capacity. And it came at this rate at least: no cross traffic is between its packets.
/// Half: nothing; double: nothing.
pub(super) const HELD_RATE: f64 = 0.9;
/// Unit: share of the wait. And its own probes explain less than this.
/// Half: nothing; double: nothing.
pub(super) const OWN_QUEUE: f64 = 0.5;
/// Unit: ns. Without a measuring train, longer waits refuse the answer.
/// Half: nothing; double: nothing.
pub(super) const MOST_HELD_NS: f64 = 300_000.0;
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
/// Unit: share of the policer's rate. And by this at least,
/// Half: cover 93.8 %; double: off 48.5 %.
pub(super) const POLICE_NEAREST: f64 = 0.1;
/// Unit: share of the policer's rate. and at most. By this in one train of four, too.
/// Half: off 54.6 %, cover 90.7 %, beyond 1.0 %; double: off 54.6 %, cover 91.8 %, beyond 1.0 %.
pub(super) const POLICE_FAR: f64 = 0.5;
/// Unit: share of the policer's rate. And by this in one train of four: hardly any cross traffic passes.
/// Half: cover 90.7 %, beyond 1.0 %, 9 troubles missed; double: off 52.6 %, cover 92.8 %, beyond 1.0 %.
pub(super) const POLICE_HEAVY: f64 = 3.0;
/// Unit: share of the time. Where delays grow by more in a train, packets wait behind the policer.
/// Half: nothing; double: nothing.
pub(super) const POLICE_QUEUE: f64 = 0.03;
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
/// Unit: cells. Rates of the policer, and shares of each, that get a probability.
/// Half: nothing; double: nothing.
pub(super) const POLICE_CELLS: usize = 61;
/// Unit: logarithm. Cells less likely than the best one by this are left out.
/// Half: nothing; double: nothing.
pub(super) const POLICE_UNLIKELY: f64 = 14.0;

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
/// Unit: packets a stamp. More hide the gaps between packets.
/// Half: nothing; double: nothing.
pub(super) const COARSE: f64 = 2.5;
/// Unit: share of the capacity. How well it is known from them.
/// Half: nothing; double: nothing.
pub(super) const COARSE_ERROR: f64 = 0.15;
/// Unit: rates of arrival. Stamps closer than at this multiple are of packets that were handed over together.
/// Half: off 32.4 %, cover 96.2 %; double: nothing.
pub(super) const CLUMPED: f64 = 3.5;
/// Unit: share of packets. Where more were, gaps are those of the hand-over, and the link is known from a whole
/// train.
/// Half: nothing; double: nothing.
pub(super) const CLUMPED_SHARE: f64 = 0.15;
/// Unit: share of the capacity. How well it is known from such a train.
/// Half: nothing; double: nothing.
pub(super) const CLUMPED_ERROR: f64 = 0.03;
/// Unit: packets. Clumps at the ends of such trains make them longer or shorter by this.
/// Half: nothing; double: nothing.
pub(super) const CLUMP_PACKETS: f64 = 4.0;
/// Unit: share of the time that the link takes. A token bucket let those through that waited less,
/// Half: nothing; double: beyond 0.5 %.
pub(super) const CREDIT_DELAY: f64 = 0.2;
/// Unit: share of the time that the link takes. and came within this,
/// Half: 15 troubles missed, troubles off by 6.1 %, cover of troubles 94.9 %; double: nothing.
pub(super) const CREDIT_TIME: f64 = 0.8;
/// Unit: packets. and were more than this.
/// Half: nothing; double: nothing.
pub(super) const CREDIT_LEAST: usize = 3;
/// Unit: packets. A train shows the rate of the link with this number behind them.
/// Half: nothing; double: nothing.
pub(super) const TAIL_LEAST: f64 = 8.0;
/// Unit: packets. Behind a bucket the first train is to have this number.
/// Half: nothing; double: nothing.
pub(super) const TAIL_PACKETS: f64 = 64.0;
/// Unit: share of the capacity. The error of a capacity from gaps of which no two are alike, or from a bound.
/// Half: nothing; double: nothing.
pub(super) const SCATTERED_ERROR: f64 = 0.3;

// ---- The tight link
/// Unit: ratio. The tight link's capacity over the narrow one's: this at most.
/// Half: nothing; double: off 29.5 %, 2014 kB.
pub(super) const RATIO_MOST: f64 = 16.0;
/// Unit: ratio. And at least: links that are overloaded together act as one with less capacity than any.
/// Half: cover 96.5 %, 2018 kB; double: off 29.3 %.
pub(super) const RATIO_LEAST: f64 = 0.05;
/// Unit: share of the slope. Far above the value other links are overloaded as well: this part of a slope may be
/// theirs.
/// Half: off 29.5 %, cover 96.0 %, beyond 1.0 %; double: off 28.3 %, cover 98.0 %.
pub(super) const RATIO_FAR: f64 = 0.15;
/// Unit: ratio. A ratio this close to 1 is that of the narrow link itself.
/// Half: 2634 kB; double: 1310 kB.
pub(super) const RATIO_NEAR: f64 = 0.12;
/// Unit: share of the capacity. The link is known to this when a value above it is held against it.
/// Half: nothing; double: nothing.
pub(super) const RATIO_OUTSIDE: f64 = 0.03;
/// Unit: probability. That the tight link is the narrow one, before any train.
/// Half: 2535 kB, 6 troubles missed; double: cover 96.5 %, beyond 1.5 %, 1107 kB.
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
    fn there_are_fewer_than_100_numbers_each_with_its_unit_its_reason_and_its_sensitivity() {
        let found = numbers();
        assert!((50..100).contains(&found.len()), "{}", found.len());
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
