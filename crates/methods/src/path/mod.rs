//! What a path is worth, in one direction: what is free, what latency becomes when it is used, how deep the buffer is
//! that makes it so, and what its queue does.
//!
//! [`PathProbe`] is a state machine without I/O and without a clock, driven as [`crate::avb::Method`] is:
//!
//! ```text
//! Avb       abacus                                                 -> A, the available bandwidth
//! Light     a train at 50 %, one at 90 % of A                      -> latency there; the delay of the idle path
//! Fill      bursts, each three times as long as the one before,
//!           until one shows where the queue is full                -> depth, or at least what was queued
//!           and once more at that size                             (two readings: cross traffic differs)
//! Over      the queue filled to its depth, then 110 % of A         -> latency there; whether packets are lost
//!                                                                     before the queue is full
//! ```
//!
//! **Depth.** A packet that waited `w` for those ahead of it, in a queue that drains at `C`, found `w C` bits queued.
//! Where it fitted and the next did not, the buffer `B` lies between what fitted and what did not (`s` bits a packet,
//! the lost one sent `t` later):
//!
//! ```text
//! w C + s  <=  B  <  w C + s - t C + s                                                            (1)  depth.rs
//! ```
//!
//! Waits are delays above that of the idle path; `C` is the rate at which the burst left the queue, with the share that
//! cross traffic has in it. Probes do not back off: this is the deepest that the queue becomes, not what TCP makes of
//! it. A token bucket passes the first of a burst; the waits count from where they begin, so its credit is no part of
//! the buffer.

mod depth;
mod figures;
mod trace;

use vtare_units::{Monotonic, Timestamp};

pub use figures::{Depth, Loaded, Lost, PathFigures, QueueKind};

use crate::avb::{
    Abacus, AbacusSettings, Budget, Estimate, Method, Observation, Setup, Spacing, Spent, Step, Train, median, quantile,
};
use depth::{Losses, Reading};
use trace::{Epoch, Trace};

/// Shares of what is free at which latency is measured.
pub const SHARES: [f64; 3] = [0.5, 0.9, 1.1];

/// Bytes of a train at 50 or 90 %, as a share of what may be spent in all, and how long it lasts at most, ns.
const LIGHT_SHARE: f64 = 0.07;
const LIGHT_NS: f64 = 500e6;
/// Packets of such a train at least, and the rate below which there is none, bit/s.
const LIGHT_PACKETS: u32 = 30;
const LEAST_BIT_PER_S: f64 = 100e3;
/// Packets of the first burst at least, and how much longer each is than the one before.
const FIRST_PACKETS: u32 = 32;
const GROWTH: f64 = 3.0;
/// Bursts that show a full queue, and the size of the second of them in depths.
const FULL_BURSTS: usize = 2;
const AGAIN: f64 = 1.25;
/// How much of the depth the head of the last train fills: what lies above is the stream's.
const HEAD_SHARE: f64 = 0.95;
/// Packets of its stream, and how long it lasts at most, ns.
const OVER_PACKETS: f64 = 250.0;
const OVER_NS: f64 = 500e6;
/// The same where the queue may manage itself.
const MOST_NS: f64 = 1.5e9;
/// A queue that manages itself is filled for this time before the stream, ns.
const MANAGED_NS: f64 = 20e6;
/// Silence beyond the longest wait of a train, ns: the queue is empty then.
const REST_NS: f64 = 5e6;
/// A queue is long above this wait, ns, or this number of packets: CoDel's target is 5 ms.
const LONG_NS: f64 = 4e6;
const LONG_PACKETS: f64 = 3.0;
/// Losses in a long queue are its doing where they are less likely than this by chance ...
const MANAGED_P: f64 = 0.01;
/// ... and this many.
const MANAGED_LOST: u64 = 3;
/// Losses in a queue that stood for this time, ns, and how many times as likely as in a short one, from which the rest
/// of the bytes keeps a queue standing: CoDel waits for 100 ms, and drops little at first.
const STOOD_NS: f64 = 80e6;
const SUSPECT_LOST: u64 = 2;
const SUSPECT_TIMES: u64 = 3;
/// Packets of a train at 110 % that were lost well before the queue was full, as a share of those lost: a queue with
/// a mean, such as RED's, passes a burst and cuts a queue that stands.
const EARLY_SHARE: f64 = 0.5;
const EARLY_WAIT: f64 = 0.75;
/// The queue is held where the waits at 110 % are at least this share of the depth.
const HELD: f64 = 0.75;

/// What a measurement may use up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathBudget {
    /// Bytes of probes (IP), all trains.
    pub most_byte: u64,
    /// Time of the estimate of what is free, ns; what follows takes about as long at most.
    pub most_avb_ns: u64,
}

impl Default for PathBudget {
    fn default() -> Self {
        Self { most_byte: 2_300_000, most_avb_ns: 800_000_000 }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// Send this train, then call [`PathProbe::observe`] with what came of it.
    Send(Train),
    /// Let this time pass, ns, then ask again.
    Wait(u64),
    /// The end. Further calls give the same.
    Done(Box<PathFigures>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Avb,
    Light(usize),
    Fill(u32),
    Over,
    Done,
}

/// The measurement of one direction.
#[derive(Clone, Debug)]
pub struct PathProbe {
    setup: Setup,
    budget: PathBudget,
    avb: Abacus,
    estimate: Option<Estimate>,
    stage: Stage,
    spent: Spent,
    epoch: Option<Epoch>,
    traces: Vec<(Stage, Trace)>,
}

impl PathProbe {
    /// The measurement before its first train. The setup's own budget is not used.
    #[must_use]
    pub fn new(setup: Setup, budget: PathBudget) -> Self {
        let avb = Budget { most_byte: Some(budget.most_byte / 3), most_ns: Some(budget.most_avb_ns) };
        Self {
            setup,
            budget,
            avb: Abacus::new(AbacusSettings::default(), Setup { budget: avb, ..setup }),
            estimate: None,
            stage: Stage::Avb,
            spent: Spent::default(),
            epoch: None,
            traces: Vec::new(),
        }
    }

    /// What to do at `now`, on the sender's clock.
    pub fn step(&mut self, now: Timestamp<Monotonic>) -> PathStep {
        self.spent.at(now);
        if self.stage == Stage::Avb {
            match self.avb.step(now) {
                Step::Send(train) => return PathStep::Send(train),
                Step::Wait(ns) => return PathStep::Wait(ns),
                Step::Done(estimate) => {
                    self.estimate = Some(*estimate);
                    self.stage = Stage::Light(0);
                }
            }
        }
        while self.stage != Stage::Done {
            if let Some(train) = self.train() {
                return PathStep::Send(train);
            }
            self.stage = self.after();
        }
        PathStep::Done(Box::new(self.figures()))
    }

    /// What became of the train of the last [`PathStep::Send`].
    pub fn observe(&mut self, observation: &Observation) {
        self.spent.sent(observation);
        if self.stage == Stage::Avb {
            self.avb.observe(observation);
        }
        self.epoch = self.epoch.or_else(|| Epoch::of(observation));
        if let Some(epoch) = &self.epoch {
            self.traces.push((self.stage, trace::trace(observation, epoch)));
        }
        if self.stage != Stage::Avb {
            self.stage = self.after();
        }
    }

    /// Bits per second that are free, where that is known by now.
    #[must_use]
    pub fn free(&self) -> Option<f64> {
        self.estimate.as_ref()?.avb_bit_per_s.filter(|rate| *rate > LEAST_BIT_PER_S)
    }

    /// What the link's rate is taken for where no burst shows it.
    fn rate(&self) -> Option<f64> {
        let capacity = self.estimate.as_ref().and_then(|estimate| estimate.capacity_bit_per_s);
        capacity.filter(|rate| *rate > 0.0).or(self.free())
    }

    fn left_byte(&self) -> f64 {
        self.budget.most_byte.saturating_sub(self.spent.probe_byte) as f64
    }

    fn size_byte(&self) -> u32 {
        self.setup.ability.most_packet_byte
    }

    /// The train of this stage; `None` where it has none.
    fn train(&self) -> Option<Train> {
        let (size_byte, left) = (self.size_byte(), self.left_byte());
        let byte = f64::from(size_byte);
        let train = match self.stage {
            Stage::Avb | Stage::Done => return None,
            Stage::Light(which) => {
                let rate = SHARES[which] * self.free()?;
                let bytes = (rate * LIGHT_NS / 8e9).min(LIGHT_SHARE * self.budget.most_byte as f64).min(left);
                let packets = ((bytes / byte) as u32).max(LIGHT_PACKETS);
                self.paced(packets, rate)
            }
            Stage::Fill(packets) => Train::back_to_back(packets, size_byte),
            Stage::Over => self.over()?,
        };
        let packets = train.packets.min(self.setup.ability.most_packets);
        (f64::from(packets) * byte <= left)
            .then(|| Train { packets, ..train }.after_idle((self.longest_ns() + REST_NS) as u64))
    }

    /// A train at this rate: single packets, or groups where single sends are too slow.
    fn paced(&self, packets: u32, rate: f64) -> Train {
        let (size_byte, ability) = (self.size_byte(), &self.setup.ability);
        let train = Train::constant(packets, size_byte, rate);
        let gap_ns = f64::from(size_byte) * 8e9 / rate;
        let group =
            (1.5 * ability.least_gap_ns / gap_ns).ceil().clamp(1.0, f64::from(ability.most_group.max(1))) as u32;
        if group < 2 {
            return train;
        }
        let gap_ns = gap_ns * f64::from(group);
        Train { packets: packets.next_multiple_of(group), spacing: Spacing::Groups { packets: group, gap_ns }, ..train }
    }

    /// The queue filled, then held by 110 % of what is free.
    fn over(&self) -> Option<Train> {
        let rate = SHARES[2] * self.free()?;
        let (byte, left) = (f64::from(self.size_byte()), self.left_byte());
        let depth = depth::depth(&self.readings(), self.rate());
        let bucket = self.estimate.as_ref().and_then(|estimate| estimate.token_bucket_byte).unwrap_or(0.0);
        let (head_byte, most_byte) = match depth {
            Some(depth) => (HEAD_SHARE * depth.byte + bucket, (OVER_PACKETS * byte).min(rate * OVER_NS / 8e9)),
            None if self.is_suspect() => (self.rate()? * MANAGED_NS / 8e9 + bucket, left),
            None => return None,
        };
        let stream_byte = most_byte.min(rate * MOST_NS / 8e9).min(left - head_byte - byte);
        let stream = self.paced((stream_byte / byte).max(0.0) as u32, rate);
        if stream.packets < LIGHT_PACKETS {
            return None;
        }
        let (group, gap_ns) = match stream.spacing {
            Spacing::Groups { packets, gap_ns } => (packets, gap_ns),
            _ => (1, byte * 8e9 / rate),
        };
        let head = ((head_byte / byte) as u32).max(1);
        let ability = &self.setup.ability;
        let after_ns = f64::from(head) * ability.least_gap_ns / f64::from(ability.most_group.max(1));
        let spacing = Spacing::Primed { head, after_ns: after_ns.max(gap_ns), packets: group, gap_ns };
        Some(Train { packets: head + stream.packets, size_byte: self.size_byte(), spacing, idle_before_ns: 0 })
    }

    /// The stage behind this one.
    fn after(&self) -> Stage {
        match self.stage {
            Stage::Avb => Stage::Light(0),
            Stage::Light(0) => Stage::Light(1),
            Stage::Light(_) => Stage::Fill(self.first_burst()),
            Stage::Fill(packets) => self.next_burst(packets).map_or(Stage::Over, Stage::Fill),
            Stage::Over | Stage::Done => Stage::Done,
        }
    }

    /// Packets of the burst behind one of `packets`; `None` where no more is to be learned.
    fn next_burst(&self, packets: u32) -> Option<u32> {
        let readings = self.readings();
        let byte = f64::from(self.size_byte());
        let most = ((self.left_byte() / byte) as u32).min(self.setup.ability.most_packets);
        if let Some(depth) = depth::depth(&readings, self.rate()) {
            let full = readings.iter().filter(|reading| matches!(reading.losses, Losses::Full { .. })).count();
            let next = (AGAIN * depth.byte / byte) as u32 + FIRST_PACKETS;
            return (full < FULL_BURSTS && next <= most).then_some(next);
        }
        if readings.last().is_some_and(|reading| reading.losses == Losses::Policed) {
            return None;
        }
        // All that is left where it would not do for another one.
        if self.is_suspect() {
            return None;
        }
        let next = (f64::from(packets) * GROWTH) as u32;
        let next = if f64::from(most) < f64::from(next) * (1.0 + GROWTH / 2.0) { most } else { next };
        (f64::from(next) >= 1.2 * f64::from(packets)).then_some(next)
    }

    /// Packets of the first burst: more than abacus had queued at once.
    fn first_burst(&self) -> u32 {
        let queued_ns = self.estimate.as_ref().and_then(|estimate| estimate.queued_ns).unwrap_or(0.0);
        let byte = f64::from(self.size_byte());
        let most = (self.left_byte() / GROWTH / byte) as u32;
        ((1.5 * queued_ns * self.rate().unwrap_or(0.0) / 8e9 / byte) as u32).min(most).max(FIRST_PACKETS)
    }

    /// The longest wait of the last train, ns.
    fn longest_ns(&self) -> f64 {
        self.waits(self.traces.len().wrapping_sub(1)).into_iter().flatten().fold(0.0, f64::max)
    }

    fn waits(&self, index: usize) -> Vec<Option<f64>> {
        let Some((_, trace)) = self.traces.get(index) else { return Vec::new() };
        let at_ns = trace.probes.first().map_or(0.0, |probe| probe.sent_ns);
        let idle = trace::idle_ns(self.traces.iter().map(|(_, trace)| trace), at_ns);
        idle.map_or_else(|| vec![None; trace.probes.len()], |idle| trace::waits_ns(trace, idle))
    }

    /// The trains of a stage that `of` accepts, with the waits of their packets.
    fn of_stage(&self, of: impl Fn(Stage) -> bool) -> Vec<(&Trace, Vec<Option<f64>>)> {
        let numbered = self.traces.iter().enumerate().filter(|(_, (stage, _))| of(*stage));
        numbered.map(|(index, (_, trace))| (trace, self.waits(index))).collect()
    }

    /// What the bursts show.
    fn readings(&self) -> Vec<Reading> {
        let filling = self.of_stage(|stage| matches!(stage, Stage::Fill(_)));
        filling.iter().map(|(trace, waits)| depth::read(trace, waits, self.free(), self.rate())).collect()
    }

    /// Packets sent into a short and into a long queue, with the chance of the losses in the long one. A queue that
    /// manages itself may act on its length or only where it stands: the clearer of both, with both counted as tries.
    fn by_queue(&self) -> ([Lost; 2], Option<f64>) {
        let packet_ns = f64::from(self.size_byte()) * 8e9 / self.rate().unwrap_or(f64::INFINITY);
        let long_ns = LONG_NS.max(LONG_PACKETS * packet_ns);
        let trains: Vec<_> = self.of_stage(|_| true).into_iter().filter(|(trace, _)| !trace.overrun).collect();
        let sums = [0.0, STOOD_NS].map(|stood_ns| {
            let counts = trains.iter().map(|(trace, waits)| depth::by_queue(trace, waits, 0, long_ns, stood_ns));
            let sum = counts.fold([Lost::default(); 2], |sum, count| {
                [0, 1].map(|of| Lost { sent: sum[of].sent + count[of].sent, lost: sum[of].lost + count[of].lost })
            });
            (sum, depth::loss_p(sum[0], sum[1]).map(|p| (2.0 * p).min(1.0)))
        });
        let [length, standing] = sums;
        let p = |sum: &([Lost; 2], Option<f64>)| sum.1.unwrap_or(f64::INFINITY);
        if p(&standing) < p(&length) { standing } else { length }
    }

    /// A burst made a queue that stood for long, was not full and lost packets: one that stands for longer is to show
    /// whether it manages itself.
    fn is_suspect(&self) -> bool {
        let readings = self.readings();
        let stood = readings.last().is_some_and(|last| last.top_ns >= STOOD_NS && last.losses == Losses::Elsewhere);
        let ([short, long], _) = self.by_queue();
        stood && long.lost >= SUSPECT_LOST && long.lost * short.sent > SUSPECT_TIMES * short.lost * long.sent
    }

    /// Packets are lost in a long queue that is not full, and not in a short one.
    fn is_managed(&self) -> bool {
        let ([_, long], p) = self.by_queue();
        long.lost >= MANAGED_LOST && p.is_some_and(|p| p < MANAGED_P)
    }

    /// The queue was cut well before the depth that a burst showed.
    fn cut_early(&self, depth_ns: f64) -> bool {
        let over = self.of_stage(|stage| stage == Stage::Over);
        let lost = over.iter().filter(|(trace, _)| !trace.overrun).map(|(trace, waits)| {
            let [early, full] = depth::by_queue(trace, waits, trace.settled(), EARLY_WAIT * depth_ns, 0.0);
            (early.lost, full.lost)
        });
        let (early, full) = lost.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        early >= MANAGED_LOST && early as f64 > EARLY_SHARE * (early + full) as f64
    }

    fn figures(&self) -> PathFigures {
        let readings = self.readings();
        let full = depth::depth(&readings, self.rate());
        let ([short_queue, long_queue], queue_loss_p) = self.by_queue();
        let policed = readings.iter().any(|reading| reading.losses == Losses::Policed);
        let queue = match full {
            Some(depth) if self.cut_early(depth.time_ns) => QueueKind::Aqm,
            Some(_) => QueueKind::DropTail,
            None if policed => QueueKind::Policer,
            None if self.is_managed() => QueueKind::Aqm,
            None => QueueKind::NotSeen,
        };
        let depth = full.or_else(|| at_least(&readings, self.rate()));
        PathFigures {
            estimate: self
                .estimate
                .clone()
                .unwrap_or_else(|| Estimate::none(&self.spent, crate::avb::Stopped::Running)),
            loaded: self.loaded(full.as_ref(), depth.as_ref(), queue == QueueKind::Aqm),
            depth,
            queue,
            queue_loss_p,
            short_queue,
            long_queue,
            least_delay_ns: self
                .epoch
                .and_then(|epoch| epoch.least_delay_ns(self.traces.iter().map(|(_, trace)| trace))),
            probe_byte: self.spent.probe_byte,
            elapsed_s: self.spent.elapsed_s(),
        }
    }

    fn loaded(&self, full: Option<&Depth>, depth: Option<&Depth>, managed: bool) -> Vec<Loaded> {
        let measured = |which: usize, stage: Stage| {
            let (trace, waits) = self.of_stage(|it| it == stage).into_iter().next()?;
            let stream = trace.settled();
            let known: Vec<f64> = waits[stream..].iter().flatten().copied().collect();
            let lost = trace.probes[stream..].iter().filter(|probe| probe.received_ns.is_none()).count();
            Some(Loaded {
                share: SHARES[which],
                rate_bit_per_s: self.free().map(|free| SHARES[which] * free),
                added_ns: median(&known)?,
                added_p95_ns: quantile(&known, 0.95)?,
                lost_share: (!trace.overrun).then(|| lost as f64 / (waits.len() - stream).max(1) as f64),
                at_least: false,
            })
        };
        // The wait for those ahead: the last packet that fits is part of a full queue.
        let packet_ns = f64::from(self.size_byte()) * 8e9 / depth.map_or(f64::INFINITY, |it| it.drain_bit_per_s);
        let derived = |depth: &Depth| Loaded {
            share: SHARES[2],
            rate_bit_per_s: None,
            added_ns: depth.time_ns - packet_ns,
            added_p95_ns: depth.time_ns - packet_ns,
            lost_share: None,
            at_least: depth.at_least,
        };
        // Where the train at 110 % let the queue drain, more was free than was estimated: then the depth stands for it.
        let held = |loaded: &Loaded| managed || full.is_none_or(|full| loaded.added_ns >= HELD * full.time_ns);
        let over = measured(2, Stage::Over).filter(held).or_else(|| full.or(depth).map(derived));
        [measured(0, Stage::Light(0)), measured(1, Stage::Light(1)), over].into_iter().flatten().collect()
    }
}

/// What was queued at most where no burst filled the queue.
fn at_least(readings: &[Reading], rate: Option<f64>) -> Option<Depth> {
    let longest = readings.iter().max_by(|one, other| one.top_ns.total_cmp(&other.top_ns))?;
    let drain_bit_per_s = longest.drain_bit_per_s.map(|it| it.0).or(rate)?;
    let byte = longest.top_ns * drain_bit_per_s / 8e9;
    Some(Depth {
        time_ns: longest.top_ns,
        time_interval_ns: [longest.top_ns; 2],
        byte,
        byte_interval: [byte; 2],
        drain_bit_per_s,
        at_least: true,
    })
}
