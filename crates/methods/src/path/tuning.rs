//! Every number of the queue model: its unit, why it is there, and what half and double of it do.
//!
//! They were set on 120 random paths (`crates/methods/tests/path_on_sim.rs`, seeds 20000 to 20119), of which nothing in
//! docs/path.md is counted. `Half` and `double` are measured by that test's `sensitivity` on 24 of them (20060 to
//! 20083, round trips at 90 %, trains as sent with the numbers as they are). As they are: 24 values, 19 within 10 %, 24
//! intervals hold, the ends of one in ten are a factor of more than 4.5 apart.

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
    /// Unit: parts of the record that follow each other at random for the value: longer parts keep longer bursts.
    /// Half: 20 within 10 %, 22 hold; double: 21 within 10 %.
    pub parts: f64,
    /// Unit: parts of the record from which the interval's records are drawn.
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
    /// Unit: records that the interval is that of.
    /// Half: 20 within 10 %, 23 hold, ends 3.0 apart; double: ends 3.2 apart.
    pub draws: f64,
    /// Unit: probes in the computed queue for the value.
    /// Half: ends 3.6 apart; double: 20 within 10 %, ends 3.1 apart.
    pub probes: f64,
    /// Unit: probes in the computed queue of each draw.
    /// Half: ends 3.3 apart; double: 20 within 10 %, 22 hold.
    pub probes_interval: f64,
    /// Unit: share of the probes, at the start, that show how the queue began.
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
/// `train_sensitivity` of the same test (24 paths, seeds 34000 to 34023, on which nothing was set, and 16 queues of
/// other kinds). As they are: depth 24 of 24 within 10 %, its interval 24; round trips 24, 20 and 24; queues 16 of 16;
/// 1.42 MB. With 1.6 MB in place of 2.3 depth 22, interval 21; 23, 19, 22; queues 15; 1.10 MB. All but the lines of
/// `over_packets` and of the bytes were measured with 125 packets in the last train: the same counts, 1.33 MB. Numbers
/// without such a line have not been measured yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainTuning {
    /// Unit: share of the bytes. For abacus, which finds roughly what is free.
    /// Half: round trips 24, 21, 24, queues 12, 1.24 MB; double: depth 23, interval 23, round trips 24, 20, 23, 1.47
    /// MB.
    pub avb_byte: f64,
    /// Unit: share of the time. For abacus.
    /// Half: 1.31 MB; double: round trips 24, 21, 24.
    pub avb_time: f64,
    /// Unit: bit/s. Below this nothing is free: a train at it would last for longer than there is time.
    /// Half: nothing; double: nothing.
    pub least_rate: f64,
    /// Unit: share of the bytes. For the train at 50 %, which shows the delay of the idle path.
    /// Half: queues 15, 1.31 MB; double: queues 15, 1.38 MB.
    pub light_byte: f64,
    /// Unit: share of the bytes. For each train that holds the queue, where the last train leaves them.
    /// Half: queues 15, 1.20 MB; double: 1.48 MB.
    pub held_byte: f64,
    /// Unit: share of the time. Each of these trains lasts for this at most.
    /// Half: round trips 24, 21, 24, queues 14, 1.25 MB; double: nothing.
    pub train_time: f64,
    /// Unit: packets. They have this number at least, where time allows.
    /// Half: round trips 24, 21, 24; double: round trips 24, 21, 24.
    pub least_packets: f64,
    /// Unit: trains. They hold the queue and show the cross traffic.
    /// Half: 1.27 MB; double: 1.44 MB.
    pub held_trains: f64,
    /// Unit: share of the depth. No more of them are sent once the interval of the wait at 90 % is shorter than this.
    /// Half: 1.36 MB; double: nothing.
    pub known: f64,
    /// Unit: share of what is free by then. Their rate: a full queue hides the cross traffic that it drops.
    /// Half: round trips 24, 21, 23, 1.29 MB; double: round trips 24, 19, 24, 1.39 MB.
    pub held_rate: f64,
    /// Unit: share of the depth. Their heads fill it, so that the queue does not run empty.
    /// Half: round trips 24, 20, 23; double: nothing.
    pub held_head: f64,
    /// Unit: packets. They are this long at least.
    /// Half: nothing; double: nothing.
    pub held_head_packets: f64,
    /// Unit: ns. And no longer than this: a deep queue need not be filled that far.
    /// Half: nothing; double: nothing.
    pub held_head_ns: f64,
    /// Unit: packets. The first burst has this number at least.
    /// Half: nothing; double: nothing.
    pub first_packets: f64,
    /// Unit: times. Each burst is longer than the one before by this factor `g`. The bytes until one fills the queue
    /// go as `g / ln g`, which is least at 2.7.
    /// Half: round trips 24, 21, 24, 1.56 MB; double: nothing.
    pub growth: f64,
    /// Unit: times. And one that takes all bytes by this: a shorter one shows nothing new.
    /// Half: nothing; double: depth 23, interval 23, round trips 24, 20, 23, 1.30 MB.
    pub least_growth: f64,
    /// Unit: times. The first burst is longer than what abacus had queued at once by this factor.
    /// Half: depth 23, interval 23, round trips 24, 21, 22, 1.31 MB; double: round trips 24, 21, 23.
    pub first_times: f64,
    /// Unit: times. A burst that leaves bytes for the last train is longer than the one before by this at least.
    /// Half: nothing; double: round trips 24, 21, 24, 1.56 MB.
    pub half_growth: f64,
    /// Unit: share of the depth. The head of the last train fills it: what lies above is its stream's.
    /// Half: 1.29 MB; double: depth 23, interval 23, round trips 24, 20, 23, 1.38 MB.
    pub head_share: f64,
    /// Unit: packets. Its stream at 110 %.
    /// Half: 1.33 MB; double: 1.53 MB. With half of them real trains of both directions hardly cross: of 19 round trips
    /// with both queues filled 5 were within 10 % (`bench/path`, a busy machine), with these 14 of 16.
    pub over_packets: f64,
    /// Unit: ns. A queue that may manage itself is filled for this time before the stream.
    /// Half: queues 15; double: queues 15.
    pub managed_ns: f64,
    /// Unit: times of a send. Where a gap is shorter, packets leave in groups.
    /// Half: nothing; double: nothing.
    pub group_times: f64,
    /// Unit: ns. Silence beyond the longest wait of a train: the queue is empty then.
    /// Half: nothing; double: nothing.
    pub rest_ns: f64,
    /// Unit: quantile. The longest wait is this one: a receiver that stalls makes single ones longer.
    /// Half: nothing; double: round trips 24, 20, 23.
    pub top: f64,
    /// Unit: share of the longest wait. Waits within this are among the longest ...
    /// Half: nothing; double: nothing.
    pub top_share: f64,
    /// Unit: packets. ... or within this: a buffer need not be a multiple of a packet.
    /// Half: nothing; double: nothing.
    pub top_packets: f64,
    /// Unit: share of the packets lost. This share met the longest waits where the queue drops what finds it full.
    /// Half: nothing; double: depth 0, interval 0, round trips 24, 16, 2, queues 12, 2.12 MB.
    pub at_the_top: f64,
    /// Unit: share of the packets into a full queue. This share is lost there at least, where they come faster than
    /// they leave.
    /// Half: nothing; double: nothing.
    pub lost_share: f64,
    /// Unit: packets. A queue that is shorter delays nothing: a policer.
    /// Half: nothing; double: nothing.
    pub no_queue_packets: f64,
    /// Unit: packets. Lost ones from which a full queue, a policer, or management is concluded.
    /// Half: nothing; double: nothing.
    pub least_lost: f64,
    /// Unit: packets. Arrivals from which the drain rate is taken: a buffer of 20 kB holds few more beside cross
    /// traffic.
    /// Half: nothing; double: nothing.
    pub least_arrivals: f64,
    /// Unit: times. How much faster than they leave packets must come for the rate at which they leave to be
    /// the link's.
    pub fast: f64,
    /// Unit: share. How far the part of cross traffic in the drain rate may be off.
    pub others_off: f64,
    /// Unit: share of the longest wait. From here on the queue has the train's packets alone: token buckets
    /// pass the first of them.
    pub busy_share: f64,
    /// Unit: quantile. Of the bounds that single lost packets give: a receiver that stalls makes some of them
    /// wrong.
    pub often: f64,
    /// Unit: quantile. The interval of the depth goes from this one of the bounds to the one as far from the
    /// other end.
    pub edge: f64,
    /// Unit: ns. A queue is long above this wait: CoDel's target is 5 ms.
    pub long_ns: f64,
    /// Unit: packets. And above this number.
    pub long_packets: f64,
    /// Unit: chance. Losses in a long queue are its doing where they are less likely than this otherwise.
    pub managed_p: f64,
    /// Unit: ns. A queue that stood for this lets CoDel drop, which waits for 100 ms.
    pub stood_ns: f64,
    /// Unit: packets. Lost in a queue that stood, from which the rest of the bytes keeps one standing: CoDel
    /// drops little at first.
    pub suspect_lost: f64,
    /// Unit: times. And by this factor more likely than in a short queue.
    pub suspect_times: f64,
    /// Unit: share of the packets lost. A train at 110 % lost this share well before the queue was full: one with
    /// a mean, as RED's, passes a burst.
    pub early_share: f64,
    /// Unit: share of the depth. Well before: in a queue shorter than this.
    pub early_wait: f64,
    /// Unit: round trips. From which their median is given, with both directions filled.
    pub least_round_trips: f64,
    /// Unit: share. Clocks of two machines run apart by this at most: crystals alone are within 1e-4, NTP holds
    /// them to 1e-5.
    pub drift: f64,
}

impl TrainTuning {
    /// The numbers as they are.
    pub const SET: Self = Self {
        avb_byte: 0.15,
        avb_time: 0.26,
        least_rate: 100e3,
        light_byte: 0.05,
        held_byte: 0.08,
        train_time: 0.13,
        least_packets: 30.0,
        held_trains: 3.0,
        known: 0.03,
        held_rate: 0.97,
        held_head: 0.3,
        held_head_packets: 2.0,
        held_head_ns: 15e6,
        first_packets: 32.0,
        growth: 3.0,
        least_growth: 1.2,
        first_times: 1.5,
        half_growth: 2.0,
        head_share: 0.95,
        over_packets: 250.0,
        managed_ns: 20e6,
        group_times: 1.5,
        rest_ns: 5e6,
        top: 0.95,
        top_share: 0.1,
        top_packets: 2.5,
        at_the_top: 0.6,
        lost_share: 0.15,
        no_queue_packets: 1.5,
        least_lost: 3.0,
        least_arrivals: 4.0,
        fast: 1.5,
        others_off: 0.5,
        busy_share: 0.3,
        often: 0.75,
        edge: 0.1,
        long_ns: 4e6,
        long_packets: 3.0,
        managed_p: 0.01,
        stood_ns: 80e6,
        suspect_lost: 2.0,
        suspect_times: 3.0,
        early_share: 0.5,
        early_wait: 0.75,
        least_round_trips: 10.0,
        drift: 5e-5,
    };

    /// Each number by its name.
    #[must_use]
    pub fn each(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![
            ("avb_byte", &mut self.avb_byte),
            ("avb_time", &mut self.avb_time),
            ("least_rate", &mut self.least_rate),
            ("light_byte", &mut self.light_byte),
            ("held_byte", &mut self.held_byte),
            ("train_time", &mut self.train_time),
            ("least_packets", &mut self.least_packets),
            ("held_trains", &mut self.held_trains),
            ("known", &mut self.known),
            ("held_rate", &mut self.held_rate),
            ("held_head", &mut self.held_head),
            ("held_head_packets", &mut self.held_head_packets),
            ("held_head_ns", &mut self.held_head_ns),
            ("first_packets", &mut self.first_packets),
            ("growth", &mut self.growth),
            ("least_growth", &mut self.least_growth),
            ("first_times", &mut self.first_times),
            ("half_growth", &mut self.half_growth),
            ("head_share", &mut self.head_share),
            ("over_packets", &mut self.over_packets),
            ("managed_ns", &mut self.managed_ns),
            ("group_times", &mut self.group_times),
            ("rest_ns", &mut self.rest_ns),
            ("top", &mut self.top),
            ("top_share", &mut self.top_share),
            ("top_packets", &mut self.top_packets),
            ("at_the_top", &mut self.at_the_top),
            ("lost_share", &mut self.lost_share),
            ("no_queue_packets", &mut self.no_queue_packets),
            ("least_lost", &mut self.least_lost),
            ("least_arrivals", &mut self.least_arrivals),
            ("fast", &mut self.fast),
            ("others_off", &mut self.others_off),
            ("busy_share", &mut self.busy_share),
            ("often", &mut self.often),
            ("edge", &mut self.edge),
            ("long_ns", &mut self.long_ns),
            ("long_packets", &mut self.long_packets),
            ("managed_p", &mut self.managed_p),
            ("stood_ns", &mut self.stood_ns),
            ("suspect_lost", &mut self.suspect_lost),
            ("suspect_times", &mut self.suspect_times),
            ("early_share", &mut self.early_share),
            ("early_wait", &mut self.early_wait),
            ("least_round_trips", &mut self.least_round_trips),
            ("drift", &mut self.drift),
        ]
    }
}
