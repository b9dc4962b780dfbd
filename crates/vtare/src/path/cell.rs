//! The figures of `vtare path`, one cell a direction and one for both at once.

use serde::Serialize;
use vtare_methods::avb::Stopped;
use vtare_methods::path::{Both, Depth, EcnSeen, Loaded, Lost, PathFigures, QueueKind, SHARES};

use super::saturate::Saturated;
use crate::samples::nearest;

/// One direction of the path, or both. Rates are of IP packets, headers included.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct PathCell {
    /// The far end, as it was given.
    pub(crate) peer: String,
    /// Its address.
    pub(crate) address: String,
    /// `up`: from here to the far end; `down`: from there to here; `both`: loaded in both directions.
    pub(crate) direction: &'static str,
    /// Round trip of the idle path: the fastest packet of each direction; null without one of them.
    pub(crate) idle_rtt_ns: Option<f64>,
    /// What is free, by all trains of this direction; null where that is not known, or for both.
    pub(crate) avb_bit_per_s: Option<f64>,
    /// Its interval.
    pub(crate) interval_bit_per_s: Option<[f64; 2]>,
    /// It is a lower bound.
    pub(crate) avb_at_least: bool,
    /// Why its estimate ended; null for both.
    pub(crate) stopped: Option<Stopped>,
    /// Round trip while 50 % of what is free is used: the idle round trip and the median of the delay added.
    pub(crate) rtt_at_50_ns: Option<f64>,
    /// Where it lies in the long run (95 %); null for both, or where a short train was measured.
    pub(crate) rtt_at_50_interval_ns: Option<[f64; 2]>,
    /// The same at 90 %.
    pub(crate) rtt_at_90_ns: Option<f64>,
    /// Its interval.
    pub(crate) rtt_at_90_interval_ns: Option<[f64; 2]>,
    /// The same at 110 %.
    pub(crate) rtt_at_110_ns: Option<f64>,
    /// Its interval.
    pub(crate) rtt_at_110_interval_ns: Option<[f64; 2]>,
    /// For both: round trips measured while both directions were filled at once, whose median the one at 110 % is; null
    /// where what the directions add is added up.
    pub(crate) round_trips: Option<u64>,
    /// What each of them adds in one direction, with the rates; empty for both.
    pub(crate) loaded: Vec<Loaded>,
    /// Depth of the buffer in time; null where no queue was seen.
    pub(crate) depth_ns: Option<f64>,
    /// Its interval.
    pub(crate) depth_interval_ns: Option<[f64; 2]>,
    /// The same in bytes of IP packets.
    pub(crate) depth_byte: Option<f64>,
    /// Its interval.
    pub(crate) depth_interval_byte: Option<[f64; 2]>,
    /// The depth is a lower bound: the probes did not fill the buffer.
    pub(crate) depth_at_least: bool,
    /// The rate at which the queue drains.
    pub(crate) drain_bit_per_s: Option<f64>,
    /// What the queue does where it is long; null for both.
    pub(crate) queue: Option<QueueKind>,
    /// Chance that losses and marks in a long queue are not the queue's doing.
    pub(crate) queue_loss_p: Option<f64>,
    /// Packets into a short queue, and those lost or marked.
    pub(crate) short_queue: Lost,
    /// Packets into a long queue, and those lost or marked.
    pub(crate) long_queue: Lost,
    /// What became of the ECN field of packets that left ECN-capable; null where that is not known, or for both.
    pub(crate) ecn: Option<EcnSeen>,
    /// The grade, from what using more than is free adds to the round trip; null where that is not known.
    pub(crate) grade: Option<&'static str>,
    /// Bytes of probes (IP).
    pub(crate) probe_byte: u64,
    /// Bytes of soundings, and of what was sent to be allowed trains back.
    pub(crate) extra_byte: u64,
    /// Time that it took, s.
    pub(crate) elapsed_s: f64,
    /// TCP that filled the way up, where that was asked for; empty for all but `up`.
    pub(crate) saturated: Vec<Saturated>,
}

impl PathCell {
    /// The cell of a direction.
    pub(super) fn of(direction: &'static str, peer: &str, address: &str, figures: &PathFigures) -> Self {
        let Depth { time_ns, time_interval_ns, byte, byte_interval, drain_bit_per_s, at_least } =
            figures.depth.unwrap_or_default();
        let known = figures.depth.map(|_| ());
        Self {
            peer: peer.to_owned(),
            address: address.to_owned(),
            direction,
            avb_bit_per_s: figures.free_bit_per_s,
            interval_bit_per_s: figures.free_interval_bit_per_s,
            avb_at_least: figures.estimate.at_least,
            stopped: Some(figures.estimate.stopped),
            loaded: figures.loaded.clone(),
            depth_ns: known.map(|()| time_ns),
            depth_interval_ns: known.map(|()| time_interval_ns),
            depth_byte: known.map(|()| byte),
            depth_interval_byte: known.map(|()| byte_interval),
            depth_at_least: at_least,
            drain_bit_per_s: known.map(|()| drain_bit_per_s),
            queue: Some(figures.queue),
            queue_loss_p: figures.queue_loss_p,
            short_queue: figures.short_queue,
            long_queue: figures.long_queue,
            ecn: figures.ecn,
            grade: at(&figures.loaded, SHARES[2]).and_then(|loaded| grade(loaded.added_ns, loaded.at_least)),
            probe_byte: figures.probe_byte,
            elapsed_s: figures.elapsed_s,
            ..Self::default()
        }
    }

    /// Adds the idle round trip, and with it the loaded ones.
    pub(super) fn with_idle(mut self, idle_rtt_ns: Option<f64>) -> Self {
        let rtt = |share: f64| Some(idle_rtt_ns? + at(&self.loaded, share)?.added_ns);
        let interval = |share: f64| {
            let added = at(&self.loaded, share)?.added_interval_ns?;
            Some(added.map(|end| end + idle_rtt_ns.unwrap_or(f64::NAN))).filter(|it| it[0].is_finite())
        };
        let intervals = SHARES.map(interval);
        let [half, most, over] = SHARES.map(rtt);
        (self.rtt_at_50_interval_ns, self.rtt_at_90_interval_ns, self.rtt_at_110_interval_ns) = intervals.into();
        (self.idle_rtt_ns, self.rtt_at_50_ns, self.rtt_at_90_ns, self.rtt_at_110_ns) = (idle_rtt_ns, half, most, over);
        self
    }

    /// Both directions loaded at once. What was not measured is added up: each has a queue of its own.
    pub(super) fn both(up: &Self, down: &Self, at_once: Option<Both>) -> Self {
        let sum = |of: fn(&Self) -> Option<f64>| Some(of(up)? + of(down)? - up.idle_rtt_ns?);
        let over = |cell: &Self| at(&cell.loaded, SHARES[2]).copied();
        let added = over(up).zip(over(down));
        let added = added.map(|(up, down)| (up.added_ns + down.added_ns, up.at_least || down.at_least));
        let measured = at_once.map(|it| (it.added_ns, false));
        Self {
            peer: up.peer.clone(),
            address: up.address.clone(),
            direction: "both",
            idle_rtt_ns: up.idle_rtt_ns,
            rtt_at_50_ns: sum(|cell| cell.rtt_at_50_ns),
            rtt_at_90_ns: sum(|cell| cell.rtt_at_90_ns),
            rtt_at_110_ns: at_once
                .and_then(|it| Some(up.idle_rtt_ns? + it.added_ns))
                .or_else(|| sum(|cell| cell.rtt_at_110_ns)),
            round_trips: at_once.map(|it| it.round_trips),
            grade: measured.or(added).and_then(|(added_ns, at_least)| grade(added_ns, at_least)),
            probe_byte: up.probe_byte + down.probe_byte,
            extra_byte: up.extra_byte + down.extra_byte,
            elapsed_s: up.elapsed_s + down.elapsed_s,
            ..Self::default()
        }
    }
}

/// The entry of a share.
pub(super) fn at(loaded: &[Loaded], share: f64) -> Option<&Loaded> {
    loaded.iter().find(|loaded| loaded.share.total_cmp(&share).is_eq())
}

/// What latency may rise by, ns, and the grade up to there.
//= DSLReports' bufferbloat grades, A+ to F: 5, 30, 60, 200, 400 ms of latency added by a full load
const GRADES: [(f64, &str); 5] = [(5e6, "excellent"), (30e6, "good"), (60e6, "fair"), (200e6, "poor"), (400e6, "bad")];
const WORST: &str = "very bad";

/// The grade of what a load above what is free adds. Of a lower bound only the worst is known.
fn grade(added_ns: f64, at_least: bool) -> Option<&'static str> {
    let grade = GRADES.iter().find(|(most, _)| added_ns < *most).map_or(WORST, |(_, grade)| grade);
    (!at_least || grade == WORST).then_some(grade)
}

/// A latency at a load, for the samples.
pub(super) struct LoadedRow<'a> {
    pub(super) cell: &'a PathCell,
    pub(super) loaded: &'a Loaded,
}

columns!(row: LoadedRow<'_> {
    string "peer" = &row.cell.peer, "the far end, as it was given";
    string "direction" = row.cell.direction, "up: from here to the far end; down: from there to here";
    int64 "load_percent" = (row.loaded.share * 100.0).round() as i64, "share of what is free that was used";
    optional_int64 "rate_bit_per_s" = row.loaded.rate_bit_per_s.and_then(nearest),
        "rate of the probes; null where the value follows from the depth of the buffer";
    optional_int64 "added_ns" = nearest(row.loaded.added_ns), "median of the delay above that of the idle path";
    optional_int64 "added_p95_ns" = nearest(row.loaded.added_p95_ns), "95 of 100 packets had less";
    optional_int64 "added_low_ns" = row.loaded.added_interval_ns.and_then(|it| nearest(it[0])),
        "lower end of the interval of the median in the long run (95 %); null where a short train was measured";
    optional_int64 "added_high_ns" = row.loaded.added_interval_ns.and_then(|it| nearest(it[1])), "its upper end";
    boolean "at_least" = row.loaded.at_least, "the value is a lower bound: the queue was not filled";
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_have_the_limits_of_the_table_and_a_bound_has_none_but_the_worst() {
        let of = |ms: f64| grade(ms * 1e6, false);
        assert_eq!(
            [4.9, 29.0, 59.0, 199.0, 399.0, 400.0].map(of).map(Option::unwrap_or_default),
            ["excellent", "good", "fair", "poor", "bad", "very bad"]
        );
        assert_eq!((grade(30e6, true), grade(500e6, true)), (None, Some("very bad")));
    }

    #[test]
    fn what_both_directions_add_adds_up_where_it_was_not_measured() {
        let loaded = |added_ns| SHARES.map(|share| Loaded { share, added_ns, ..Loaded::default() }).to_vec();
        let cell = |added_ns| PathCell { loaded: loaded(added_ns), ..PathCell::default() }.with_idle(Some(10e6));
        let (up, down) = (cell(40e6), cell(5e6));
        assert_eq!((up.rtt_at_50_ns, down.rtt_at_110_ns), (Some(50e6), Some(15e6)));
        let both = PathCell::both(&up, &down, None);
        assert_eq!((both.rtt_at_90_ns, both.rtt_at_110_ns, both.grade), (Some(55e6), Some(55e6), Some("fair")));
        let shared = Both { added_ns: 70e6, round_trips: 200 };
        let both = PathCell::both(&up, &down, Some(shared));
        assert_eq!((both.rtt_at_90_ns, both.rtt_at_110_ns, both.grade), (Some(55e6), Some(80e6), Some("poor")));
        assert_eq!(PathCell::both(&up, &PathCell::default().with_idle(None), None).rtt_at_90_ns, None);
    }
}
