//! Times in which nothing left this program, or nothing came back: a stopped process, a suspended or migrating machine,
//! a path that was down. They are no part of the distribution of round trips.

use serde::Serialize;
use vtare_units::figures::Figures;
use vtare_units::{Monotonic, Span, Timestamp};

use super::record::{Fate, Record};
use super::series::Series;
use super::{Options, Unsent};

/// From this length on a gap is an outage: longer than a scheduler lets a thread wait, shorter than people overlook.
const LEAST: Span = Span::from_millis(100);
/// Packets that must be missing at once: fewer may be lost or late by chance.
const LEAST_PACKETS: u64 = 3;
/// Outages that are listed.
const MOST: usize = 1_000;

/// Where it was that nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// This program: it sent nothing.
    Here,
    /// The path or the far end: nothing came back.
    Beyond,
}

/// A time in which nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Outage {
    /// Where.
    pub place: Place,
    /// When it began, ns after the first slot.
    pub began_ns: u64,
    /// How long it lasted.
    pub length_ns: u64,
    /// Packets that were not sent, lost, or delayed by it.
    pub packets: u64,
}

/// An outage that is being looked at.
#[derive(Clone, Copy, Debug)]
struct Gap {
    place: Place,
    began: Timestamp<Monotonic>,
    ended: Timestamp<Monotonic>,
    packets: u64,
}

impl Gap {
    fn is_outage(&self) -> bool {
        self.ended - self.began >= LEAST && (self.place == Place::Here || self.packets >= LEAST_PACKETS)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.began < other.ended && other.began < self.ended
    }
}

/// Looks for outages in the records of a run, which come in order.
#[derive(Debug)]
pub(super) struct Outages {
    found: Vec<Gap>,
    /// Round trips outside of outages.
    steady: Series,
    /// The first slot, and the last so far.
    slots: Option<(Timestamp<Monotonic>, Timestamp<Monotonic>)>,
    /// The first of the slots that the sender missed, and how many.
    missed: Option<(Timestamp<Monotonic>, u64)>,
    /// The send time of the first of the packets without a reply, and how many.
    lost: Option<(Timestamp<Monotonic>, u64)>,
    /// Packets that were delayed, and their round trips, until it is known whether they are an outage.
    held: Option<(Gap, Vec<i64>)>,
    newest_arrival: Option<Timestamp<Monotonic>>,
    least_rtt: Option<Span>,
}

impl Outages {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            found: Vec::new(),
            steady: Series::new(options.exact_samples),
            slots: None,
            missed: None,
            lost: None,
            held: None,
            newest_arrival: None,
            least_rtt: None,
        }
    }

    /// Takes the next record.
    pub(super) fn add(&mut self, record: &Record) {
        self.slots =
            Some(self.slots.map_or((record.scheduled, record.scheduled), |(first, _)| (first, record.scheduled)));
        let mut outside = !self.sender(record);
        if let Some(sent) = record.sent {
            outside &= !self.path(record, sent);
        }
        if outside
            && record.fate == Fate::Received
            && let Some(rtt) = record.rtt()
        {
            self.steady.add(rtt.as_nanos());
        }
    }

    /// Whether the record is of a time in which this program stalled.
    fn sender(&mut self, record: &Record) -> bool {
        if let Some(last) = self.found.iter_mut().rev().find(|gap| gap.place == Place::Here)
            && record.scheduled < last.ended
        {
            last.packets += 1;
            return true;
        }
        if record.fate == Fate::Unsent(Unsent::TooLate) {
            let (_, missed) = self.missed.get_or_insert((record.scheduled, 0));
            *missed += 1;
            return false;
        }
        let (began, missed) = self.missed.take().unwrap_or((record.scheduled, 0));
        let ended = record.sent.unwrap_or(record.scheduled);
        self.keep(Gap { place: Place::Here, began, ended, packets: missed + 1 })
    }

    /// Whether the packet is one that waited while nothing came back.
    fn path(&mut self, record: &Record, sent: Timestamp<Monotonic>) -> bool {
        if let Some((gap, rtts)) = &mut self.held {
            if sent < gap.ended {
                gap.packets += 1;
                rtts.extend(record.rtt().filter(|_| record.fate == Fate::Received).map(Span::as_nanos));
                self.arrival(record);
                return true;
            }
            self.settle();
        }
        let Some(arrived) = record.arrived else {
            let (_, lost) = self.lost.get_or_insert((sent, 0));
            *lost += 1;
            return false;
        };
        if let Some((began, packets)) = self.lost.take() {
            self.keep(Gap { place: Place::Beyond, began, ended: sent, packets });
        }
        let rtt = arrived - sent;
        let usual = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        let waited = rtt - usual >= LEAST && self.newest_arrival.is_some_and(|newest| arrived - newest >= LEAST);
        self.arrival(record);
        if waited {
            let gap = Gap { place: Place::Beyond, began: sent, ended: arrived - usual, packets: 1 };
            let rtts = record.rtt().filter(|_| record.fate == Fate::Received).map(Span::as_nanos);
            self.held = Some((gap, rtts.into_iter().collect()));
        }
        waited
    }

    fn arrival(&mut self, record: &Record) {
        let Some((arrived, rtt)) = record.arrived.zip(record.rtt()) else { return };
        self.newest_arrival = Some(self.newest_arrival.map_or(arrived, |newest| newest.max(arrived)));
        self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Decides on the packets that were delayed.
    fn settle(&mut self) {
        let Some((gap, rtts)) = self.held.take() else { return };
        if !self.keep(gap) {
            rtts.into_iter().for_each(|rtt| self.steady.add(rtt));
        }
    }

    /// Keeps a gap that is an outage, or part of one that is known; whether it is.
    fn keep(&mut self, gap: Gap) -> bool {
        if let Some(here) = self.found.iter_mut().rev().take(2).find(|known| known.overlaps(&gap))
            && gap.place == Place::Beyond
        {
            // What was on its way when this program stopped waits for it, too.
            here.packets += gap.packets;
            return true;
        }
        let is = gap.is_outage();
        if is && self.found.len() < MOST {
            self.found.push(gap);
        }
        is
    }

    /// All outages, in order, and the figures of round trips outside of them, where there is one.
    pub(super) fn close(&mut self) -> (Vec<Outage>, Option<Figures>) {
        let Some((first, last)) = self.slots else { return (Vec::new(), None) };
        self.settle();
        for (place, rest) in [(Place::Here, self.missed.take()), (Place::Beyond, self.lost.take())] {
            if let Some((began, packets)) = rest {
                self.keep(Gap { place, began, ended: last, packets });
            }
        }
        self.found.sort_by_key(|gap| gap.began);
        let outages: Vec<Outage> = self
            .found
            .iter()
            .map(|gap| Outage {
                place: gap.place,
                began_ns: (gap.began - first).as_nanos_unsigned(),
                length_ns: (gap.ended - gap.began).as_nanos_unsigned(),
                packets: gap.packets,
            })
            .collect();
        let steady = (!outages.is_empty()).then(|| self.steady.figures());
        (outages, steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::FarEnd;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn at(ns: i64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(1_000_000_000_000 + ns.unsigned_abs())
    }

    fn slot(number: i64, gap: i64) -> Record {
        let due = at(number * gap);
        Record {
            sequence: number.unsigned_abs(),
            scheduled: due,
            sent: Some(due),
            sent_asked: false,
            kernel_tx: None,
            kernel_rx: None,
            arrived: Some(due + Span::from_nanos(MS)),
            far_end: FarEnd::default(),
            fate: Fate::Received,
            reordered: false,
            duplicates: 0,
        }
    }

    /// Packets every `gap`, changed by `change`.
    fn run(slots: i64, gap: i64, change: impl Fn(i64, &mut Record)) -> (Vec<Outage>, Option<Figures>) {
        let mut outages = Outages::new(&Options::default());
        for number in 0..slots {
            let mut record = slot(number, gap);
            change(number, &mut record);
            outages.add(&record);
        }
        outages.close()
    }

    fn lose(record: &mut Record) {
        (record.arrived, record.fate) = (None, Fate::Lost);
    }

    fn skip(record: &mut Record) {
        (record.sent, record.arrived, record.fate) = (None, None, Fate::Unsent(Unsent::TooLate));
    }

    #[test]
    fn a_steady_run_has_none() {
        for gap in [MS / 10, 10 * MS, 2_000 * MS] {
            assert_eq!(run(300, gap, |_, _| {}), (vec![], None));
        }
    }

    #[test]
    fn a_program_that_is_stopped_is_an_outage_here_with_what_was_on_its_way() {
        // Stopped from 1.5 s to 3 s at 100 packets a second; the last 100 ms are caught up.
        let (found, steady) = run(400, 10 * MS, |number, record| {
            let (due, end) = (number * 10, 3_000);
            if (1_500..2_900).contains(&due) {
                skip(record);
            } else if (2_900..end).contains(&due) {
                record.sent = Some(at(end * MS));
                record.arrived = Some(at((end + 1) * MS));
            } else if due == 1_490 {
                record.arrived = Some(at(end * MS));
            }
        });
        assert_eq!(found.len(), 1, "{found:?}");
        let Outage { place, began_ns, length_ns, packets } = found[0];
        assert_eq!((place, began_ns, length_ns), (Place::Here, 1_500_000_000, 1_500_000_000));
        assert!((150..=151).contains(&packets), "{packets}");
        let steady = steady.expect("there was an outage");
        assert_eq!((steady.max, steady.n), (Some(MS as f64), 249));
    }

    #[test]
    fn a_far_end_that_is_stopped_is_an_outage_beyond() {
        // What comes while it stalls waits for it.
        let (found, steady) = run(300, 10 * MS, |number, record| {
            if (100..200).contains(&number) {
                record.arrived = Some(at(2_000 * MS + MS));
            }
        });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].place, found[0].began_ns, found[0].length_ns),
            (Place::Beyond, 1_000_000_000, 1_000_000_000)
        );
        assert_eq!(found[0].packets, 100);
        assert_eq!(steady.map(|figures| (figures.n, figures.max)), Some((200, Some(MS as f64))));
    }

    #[test]
    fn a_path_that_is_down_is_an_outage_beyond_at_the_end_of_a_run_too() {
        for last in [200, 300] {
            let (found, _) = run(300, 10 * MS, |number, record| {
                if (100..last).contains(&number) {
                    lose(record);
                }
            });
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].place, found[0].packets), (Place::Beyond, (last - 100) as u64));
        }
    }

    #[test]
    fn what_queues_lose_and_delay_by_chance_is_no_outage() {
        // A queue that fills up to 400 ms: each reply is late, and none is missing.
        let filling = |number: i64, record: &mut Record| {
            let wait = number.min(400);
            record.arrived = Some(record.scheduled + Span::from_millis(wait + 1));
        };
        assert_eq!(run(800, 10 * MS, filling).0, []);
        // Single losses, single slow packets, a sender that is too slow for its schedule.
        assert_eq!(
            run(800, 10 * MS, |number, record| if number % 3 == 1 {
                lose(record)
            })
            .0,
            []
        );
        assert_eq!(
            run(800, MS, |number, record| if number % 10 != 0 {
                skip(record)
            })
            .0,
            []
        );
        let slow = |number: i64, record: &mut Record| {
            if number % 5 == 4 {
                record.arrived = Some(record.scheduled + Span::from_millis(400));
            }
        };
        assert_eq!(run(40, 1_000 * MS, slow).0, []);
    }

    proptest! {
        #[test]
        fn an_outage_is_found_where_it_is_whatever_its_length_and_the_rate(
            gap_ms in 1_i64..20, begin in 50_i64..100, length_ms in 150_i64..3_000, at_far_end: bool,
        ) {
            let slots = begin + length_ms / gap_ms + 60;
            let (began, ended) = (begin * gap_ms, begin * gap_ms + length_ms);
            prop_assume!(length_ms / gap_ms > 4);
            let (found, _) = run(slots, gap_ms * MS, |number, record| {
                if (began..ended).contains(&(number * gap_ms)) {
                    if at_far_end {
                        record.arrived = Some(at((ended + 1) * MS));
                    } else {
                        skip(record);
                    }
                }
            });
            prop_assert_eq!(found.len(), 1);
            let wanted = if at_far_end { Place::Beyond } else { Place::Here };
            prop_assert_eq!(found[0].place, wanted);
            prop_assert_eq!(found[0].began_ns as i64, began * MS);
            prop_assert!((found[0].length_ns as i64 - length_ms * MS).abs() <= gap_ms * MS);
        }
    }
}
