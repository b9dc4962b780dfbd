//! Every number of the queue model: its unit, why it is there, and what half and double of it do.
//!
//! They were set on 120 random paths (`tests/it/path_on_sim.rs`, seeds 20000 to 20119); that test judges on others.
//! `Half` and `double` are measured by its `sensitivity` on 24 of them (20060 to 20083, round trips at 90 %, trains as
//! sent). Today 24 values, 19 within 10 %,
//! 24 intervals hold, the ends of one in ten are a factor of more than 4.5 apart. That was with paced trains of 0.13 of
//! the time; with those of 0.04, 20 of the values are within 10 % and 20 intervals hold.

/// The numbers of the queue model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelTuning {
    /// Unit: pairs of probes, and times of a packet. A record has at least this number of both: bursts alone show no
    /// cross traffic.
    /// Half: nothing; double: 23 values, 20 within 10 %, 23 hold.
    pub least: f64,
    /// Unit: share of a train's time. A train whose queue may have been empty for more is left out while others are
    /// there: in that time it shows bounds and no cross traffic, and beside the others it looks like less traffic.
    /// Half: 20 within 10 %, 23 hold; double: 20 within 10 %.
    pub most_empty: f64,
    /// Unit: share of a train's packets. A train that lost more is left out while others are there: a full queue drops
    /// the cross traffic, too, and nobody sees that.
    /// Half: nothing; double: 23 hold, ends 3.4 apart.
    pub most_lost: f64,
    /// Unit: share of the depth. A packet is lost since the queue is full where the one before waited for this.
    /// Half: nothing; double: nothing.
    pub full_share: f64,
    /// Unit: times of a packet. A slot lasts for this at least: by late stamps it may look like less than nothing.
    /// Half: ends 3.2 apart; double: 20 within 10 %, 23 hold.
    pub least_slot: f64,
    /// Unit: times of a packet. And for this at most where nothing came, by a rate that is a little off.
    /// Half: nothing; double: nothing.
    pub most_empty_slot: f64,
    /// Unit: times of a packet. Stretches whose dispersion gives the size of the cross traffic's packets: shorter ones
    /// are blurred by what is between two probes, longer ones show bursts.
    /// Half: 20 within 10 %; double: 23 hold, ends 2.8 apart.
    pub grain_stretch: f64,
    /// Unit: packets. They are no smaller than this.
    /// Half: nothing; double: nothing.
    pub least_grain: f64,
    /// Unit: parts of the record. They follow each other at random for the value: longer parts keep longer bursts.
    /// Half: 20 within 10 %, 22 hold; double: 21 within 10 %.
    pub parts: f64,
    /// Unit: parts of the record. The interval's records are drawn from these.
    /// Half: 22 hold, ends 2.9 apart; double: 20 within 10 %, 22 hold.
    pub parts_interval: f64,
    /// Unit: times of a packet. The long run that bursts grow to: parts repeat as often as the growth makes them then.
    /// Half: 20 within 10 %, 23 hold, ends 2.7 apart; double: nothing.
    pub long_run: f64,
    /// Unit: exponent. How far the growth of the bursts may be off that a record of so few stretches shows.
    /// Half: 20 within 10 %, 22 hold, ends 2.3 apart; double: 20 within 10 %, ends 6.0 apart.
    pub growth_error: f64,
    /// Unit: exponent. Bursts grow by this at most; at 1 one burst would be all.
    /// Half: 20 within 10 %, 23 hold, ends 2.6 apart; double: nothing.
    pub most_growth: f64,
    /// Unit: records. The interval is that of their medians.
    /// Half: 20 within 10 %, 23 hold, ends 3.0 apart; double: ends 3.2 apart.
    pub draws: f64,
    /// Unit: probes. In the computed queue for the value.
    /// Half: ends 3.6 apart; double: 20 within 10 %, ends 3.1 apart.
    pub probes: f64,
    /// Unit: probes. In the computed queue of each draw.
    /// Half: ends 3.3 apart; double: 20 within 10 %, 22 hold.
    pub probes_interval: f64,
    /// Unit: share of the probes. At the start they show how the queue began.
    /// Half: 20 within 10 %; double: 20 within 10 %.
    pub warm_up: f64,
}

impl ModelTuning {
    /// The numbers as they are.
    pub const SET: Self = Self {
        least: 100.0,
        most_empty: 0.1,
        most_lost: 0.05,
        full_share: 0.6,
        least_slot: 0.1,
        most_empty_slot: 5.0,
        grain_stretch: 4.0,
        least_grain: 0.1,
        parts: 12.0,
        parts_interval: 24.0,
        long_run: 10_000.0,
        growth_error: 0.4,
        most_growth: 0.9,
        draws: 60.0,
        probes: 20_000.0,
        probes_interval: 3_000.0,
        warm_up: 0.1,
    };

    /// Each number by its name.
    #[must_use]
    pub fn each(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![
            ("least", &mut self.least),
            ("most_empty", &mut self.most_empty),
            ("most_lost", &mut self.most_lost),
            ("full_share", &mut self.full_share),
            ("least_slot", &mut self.least_slot),
            ("most_empty_slot", &mut self.most_empty_slot),
            ("grain_stretch", &mut self.grain_stretch),
            ("least_grain", &mut self.least_grain),
            ("parts", &mut self.parts),
            ("parts_interval", &mut self.parts_interval),
            ("long_run", &mut self.long_run),
            ("growth_error", &mut self.growth_error),
            ("most_growth", &mut self.most_growth),
            ("draws", &mut self.draws),
            ("probes", &mut self.probes),
            ("probes_interval", &mut self.probes_interval),
            ("warm_up", &mut self.warm_up),
        ]
    }
}

impl Default for ModelTuning {
    fn default() -> Self {
        Self::SET
    }
}

/// The numbers of the trains, and of what a train shows of the queue. What half and double of them do is printed by
/// `benchmark_train_sensitivity` there (24 paths, seeds 34000 to 34023, on which nothing was set, 96 queues of six
/// other kinds, and 8 pairs of directions). Today depth 24 of 24 within 10 %, its interval 24; round trips
/// 24, 20 and 23; queues 96 of 96; both at once 8 of 8; 1.23 MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainTuning {
    /// Unit: share of the bytes. For abacus, which finds roughly what is free.
    /// Half: round trips 24, 18, 24, queues 80, both 6, 1.12 MB; double: round trips 23, 21, 24, queues 95, both 4,
    /// 1.44 MB.
    pub avb_byte: f64,
    /// Unit: share of the time. For abacus.
    /// Half: round trips 22, 19, 22, both 6, 1.17 MB; double: both 6, 1.25 MB.
    pub avb_time: f64,
    /// Unit: share of the bytes. For the train at 50 %, which shows the delay of the idle path.
    /// Half: round trips 24, 19, 23, 1.21 MB; double: nothing.
    pub light_byte: f64,
    /// Unit: share of the bytes. For each train that holds the queue, where the last train leaves them.
    /// Half: round trips 24, 20, 24, 1.16 MB; double: 1.27 MB.
    pub held_byte: f64,
    /// Unit: share of the time. Each train that is not a burst lasts for this at most.
    /// Half: round trips 24, 19, 23, both 6, 1.07 MB; double: round trips 24, 19, 24, both 7, 1.37 MB.
    pub train_time: f64,
    /// Unit: packets. They have this number at least, where time allows; so has the first burst.
    /// Half: round trips 24, 20, 24, both 6, 1.20 MB; double: round trips 24, 19, 23, both 7, 1.24 MB.
    pub least_packets: f64,
    /// Unit: trains. They hold the queue and show the cross traffic.
    /// Half: round trips 24, 18, 24, 1.17 MB; double: round trips 24, 19, 24, both 6, 1.35 MB.
    pub held_trains: f64,
    /// Unit: share of the depth. No more of them are sent once the interval of the wait at 90 % is shorter than this.
    /// Half: nothing; double: 1.21 MB.
    pub known: f64,
    /// Unit: share of what is free by then. Their rate: a full queue hides the cross traffic that it drops.
    /// Half: round trips 24, 17, 23, 1.14 MB; double: round trips 24, 21, 24, both 7, 1.28 MB.
    pub held_rate: f64,
    /// Unit: times. Each burst is longer than the one before by this factor `g`. The bytes until one fills the queue go
    /// as `g / ln g`, which is least at 2.7.
    /// Half: round trips 24, 20, 24, both 3, 1.38 MB; double: round trips 24, 20, 24, both 5, 1.25 MB.
    pub growth: f64,
    /// Unit: times. And one that takes all bytes by this: a shorter one shows nothing new.
    /// Half: nothing; double: depth 23, interval 23, round trips 24, 20, 22, 1.20 MB.
    pub least_growth: f64,
    /// Unit: times. The first burst is longer than what abacus had queued at once by this factor.
    /// Half: round trips 24, 19, 24, both 5, 1.24 MB; double: interval 23, round trips 24, 19, 24, both 5, 1.25 MB.
    pub first_times: f64,
    /// Unit: times. A burst that leaves bytes for the last train is longer than the one before by this at least.
    /// Half: depth 23, interval 23, round trips 24, 20, 22, 1.20 MB; double: round trips 24, 20, 24, both 3, 1.38 MB.
    pub half_growth: f64,
    /// Unit: share of the depth. The head of the last train fills it: what lies above is its stream's.
    /// Half: both 0, 1.20 MB; double: both 2, 1.24 MB.
    pub head_share: f64,
    /// Unit: packets. Its stream at 110 %.
    /// Half: 1.19 MB; double: 1.26 MB. With half of them real trains of both directions hardly cross: of 19 round trips
    /// with both queues filled 5 were within 10 % (`bench/path`, a busy machine), with these 14 of 16.
    pub over_packets: f64,
    /// Unit: quantile. The longest wait is this one: a receiver that stalls makes single ones longer.
    /// Half: round trips 24, 19, 24, 1.22 MB; double: interval 23, round trips 24, 20, 24, queues 87, 1.22 MB.
    pub top: f64,
    /// Unit: share of the packets into a full queue. This share is lost there at least, where they come faster than
    /// they leave.
    /// Half: nothing; double: nothing. It cannot go: of 80 paths that lose 2 % at random 6 are taken for a full or a
    /// managed queue with a third of it, and 10 without.
    pub lost_share: f64,
    /// Unit: packets. Lost or marked ones from which a full queue, a policer, or management is concluded; arrivals from
    /// which the drain rate is taken.
    /// Half: nothing; double: queues 94.
    pub least_lost: f64,
    /// Unit: share. How much faster than they leave packets must come for the rate at which they leave to be the
    /// link's: it cannot go, at 0 the rate is divided by nothing.
    /// Half: nothing; double: nothing. A twenty-fifth of it: nothing.
    pub fast: f64,
    /// Unit: share of the longest wait. From here on the queue has the train's packets alone: token buckets pass the
    /// first of them.
    /// Half: 1.22 MB; double: round trips 24, 19, 24, 1.24 MB.
    pub busy_share: f64,
    /// Unit: quantile. Of the bounds that single lost packets give: a receiver that stalls makes some of them wrong.
    /// Half: nothing; double: depth 0, interval 0, round trips 24, 19, 2, queues 80, both 0, 2.10 MB.
    pub often: f64,
    /// Unit: ns. A queue is long above this wait: CoDel's target is 5 ms.
    /// Half: nothing; double: queues 95.
    pub long_ns: f64,
    /// Unit: chance. Losses in a long queue are its doing where they are less likely than this otherwise.
    /// Half: nothing; double: nothing. It is the level of a test and cannot go: at 1 every loss in a long queue would
    /// be its doing.
    pub managed_p: f64,
    /// Unit: ns. A queue that stood for this lets CoDel drop, which waits for 100 ms.
    /// Half: nothing; double: queues 92.
    pub stood_ns: f64,
    /// Unit: share of the depth. From here on a queue is full: packets lost at shorter waits, of a train at 110 %, were
    /// cut by its own decision, and the drain rate is that of shorter queues.
    /// Half: round trips 24, 19, 23, 1.21 MB; double: depth 0, interval 0, round trips 23, 18, 2, queues 80, both 0,
    /// 2.11 MB.
    pub early_wait: f64,
    /// Unit: round trips. From which their median is given, with both directions filled.
    /// Half: nothing; double: both 5.
    pub least_round_trips: f64,
    /// Unit: share. Clocks of two machines run apart by this at most: crystals alone are within 1e-4, NTP holds them to
    /// 1e-5.
    /// Half: round trips 24, 20, 24; double: nothing.
    pub drift: f64,
}

impl TrainTuning {
    /// The numbers as they are.
    pub const SET: Self = Self {
        avb_byte: 0.15,
        avb_time: 0.26,
        light_byte: 0.05,
        held_byte: 0.08,
        train_time: 0.04,
        least_packets: 30.0,
        held_trains: 3.0,
        known: 0.03,
        held_rate: 0.97,
        growth: 3.0,
        least_growth: 1.2,
        first_times: 1.5,
        half_growth: 2.0,
        head_share: 0.95,
        over_packets: 250.0,
        top: 0.95,
        lost_share: 0.15,
        least_lost: 2.0,
        fast: 0.5,
        busy_share: 0.3,
        often: 0.75,
        long_ns: 4e6,
        managed_p: 0.01,
        stood_ns: 80e6,
        early_wait: 0.85,
        least_round_trips: 10.0,
        drift: 5e-5,
    };

    /// Each number by its name.
    #[must_use]
    pub fn each(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![
            ("avb_byte", &mut self.avb_byte),
            ("avb_time", &mut self.avb_time),
            ("light_byte", &mut self.light_byte),
            ("held_byte", &mut self.held_byte),
            ("train_time", &mut self.train_time),
            ("least_packets", &mut self.least_packets),
            ("held_trains", &mut self.held_trains),
            ("known", &mut self.known),
            ("held_rate", &mut self.held_rate),
            ("growth", &mut self.growth),
            ("least_growth", &mut self.least_growth),
            ("first_times", &mut self.first_times),
            ("half_growth", &mut self.half_growth),
            ("head_share", &mut self.head_share),
            ("over_packets", &mut self.over_packets),
            ("top", &mut self.top),
            ("lost_share", &mut self.lost_share),
            ("least_lost", &mut self.least_lost),
            ("fast", &mut self.fast),
            ("busy_share", &mut self.busy_share),
            ("often", &mut self.often),
            ("long_ns", &mut self.long_ns),
            ("managed_p", &mut self.managed_p),
            ("stood_ns", &mut self.stood_ns),
            ("early_wait", &mut self.early_wait),
            ("least_round_trips", &mut self.least_round_trips),
            ("drift", &mut self.drift),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of this file, each with its comment.
    fn fields() -> Vec<(&'static str, String)> {
        let (mut found, mut comment) = (Vec::new(), String::new());
        for line in include_str!("tuning.rs").lines().map_while(|line| (line != "#[cfg(test)]").then_some(line)) {
            if let Some(words) = line.strip_prefix("    /// ") {
                comment = format!("{comment} {words}");
            } else if let Some(name) = line.strip_prefix("    pub ").and_then(|it| it.strip_suffix(": f64,")) {
                found.push((name, std::mem::take(&mut comment)));
            } else {
                comment.clear();
            }
        }
        found
    }

    #[test]
    fn each_number_has_its_unit_its_reason_and_its_sensitivity() {
        let found = fields();
        let (mut model, mut trains) = (ModelTuning::SET, TrainTuning::SET);
        let names: Vec<&str> = model.each().iter().chain(&trains.each()).map(|it| it.0).collect();
        assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), names, "`each` gives all of them, in their order");
        for (name, comment) in found {
            for part in [" Unit: ", " Half: ", "; double: "] {
                assert_eq!(comment.matches(part).count(), 1, "{name}:{comment} (VTARE_PATH_ONLY={name})");
            }
            let reason = comment.split(" Half: ").next().and_then(|it| it.split_once(". "));
            assert!(reason.is_some_and(|(_, why)| why.len() > 10), "{name}:{comment}");
        }
    }
}
