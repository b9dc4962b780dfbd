//! What a path is worth, in one direction: what is free, what latency becomes when it is used, how deep the buffer is
//! that makes it so, and what its queue does.
//!
//! [`PathProbe`] is a state machine without I/O and without a clock, driven as [`crate::avb::Method`] is:
//!
//! ```text
//! Avb       abacus                                                 -> A, the available bandwidth, roughly
//! Light     a train at 50 % of A                                   -> the delay of the idle path
//! Fill      bursts, each three times as long as the one before,
//!           until one shows where the queue is full                -> depth, or at least what was queued
//! Held      trains at A behind a short burst                       -> the cross traffic
//! Over      the queue filled to its depth, then 110 % of A         -> whether packets are lost before
//!                                                                     the queue is full
//! ```
//!
//! The last train of both directions is sent at once where both have one: [`both`].
//!
//! **Latency under load** is computed from the cross traffic that all trains saw, with what it leaves free
//! (`queue_model.rs`): a train long enough to show the same would take hundreds of times the bytes.
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

mod both;
mod depth;
mod figures;
mod plan;
mod queue_model;
mod trace;
mod tuning;

use vtare_units::{Monotonic, Random, Timestamp};

pub use both::{Both, both, forth_after_ns};
pub use figures::{Depth, EcnSeen, Loaded, Lost, PathFigures, QueueKind};
pub use tuning::{ModelTuning, TrainTuning};

use crate::avb::{
    Abacus, AbacusSettings, Budget, Ecn, Estimate, Method, Observation, Setup, Spent, Step, Train, median, quantile,
};
use depth::{Losses, Reading, credit_ns};
use queue_model::{Cross, Link, Waits};
use trace::{Epoch, Trace};

/// Shares of what is free at which latency is measured.
pub const SHARES: [f64; 3] = [0.5, 0.9, 1.1];

/// Part of the seed's random numbers.
const MODEL_PART: u64 = 24;

/// What a measurement may use up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathBudget {
    /// Bytes of probes (IP), all trains.
    pub most_byte: u64,
    /// They may be as many as the path carries in this time, ns, where that is more; 0: never more than those.
    pub carried_ns: u64,
    /// Then as many as these at most; `None`: no such limit.
    pub carried_byte: Option<u64>,
    /// Time, ns. The last train may be under way then.
    pub most_ns: u64,
}

impl Default for PathBudget {
    fn default() -> Self {
        Self { most_byte: 2_300_000, carried_ns: 0, carried_byte: None, most_ns: 2_300_000_000 }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// Send this train, then call [`PathProbe::observe`] with what came of it.
    Send(Train),
    /// The last train: it fills the queue and holds it filled. The same, and then [`PathProbe::stop`]; at once with
    /// that of the other direction where there is one. The time until then is not this direction's.
    Last(Train),
    /// Let this time pass, ns, then ask again.
    Wait(u64),
    /// The end. Further calls give the same.
    Done(Box<PathFigures>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Avb,
    Light,
    Fill(u32),
    Held(u32),
    Over,
    Done,
}

/// The measurement of one direction.
#[derive(Clone, Debug)]
pub struct PathProbe {
    setup: Setup,
    budget: PathBudget,
    tuning: ModelTuning,
    trains: TrainTuning,
    avb: Abacus,
    estimate: Option<Estimate>,
    /// Bytes that abacus sent beyond its share: a token bucket was to be emptied.
    emptied_byte: u64,
    stage: Stage,
    spent: Spent,
    epoch: Option<Epoch>,
    traces: Vec<(Stage, Trace)>,
}

impl PathProbe {
    /// The measurement before its first train. The setup's own budget is not used.
    #[must_use]
    pub fn new(setup: Setup, budget: PathBudget) -> Self {
        Self::with(setup, budget, TrainTuning::SET)
    }

    /// The same by other numbers.
    #[must_use]
    pub fn with(setup: Setup, budget: PathBudget, trains: TrainTuning) -> Self {
        let most_byte = (trains.avb_byte * budget.most_byte as f64) as u64;
        let most_ns = (trains.avb_time * budget.most_ns as f64) as u64;
        let carried_ns = (trains.avb_byte * budget.carried_ns as f64) as u64;
        let avb = Budget {
            most_byte: Some(most_byte),
            carried_ns,
            carried_byte: budget.carried_byte,
            most_ns: Some(most_ns),
        };
        Self {
            setup,
            budget,
            tuning: ModelTuning::SET,
            trains,
            avb: Abacus::new(AbacusSettings::default(), Setup { budget: avb, ..setup }),
            estimate: None,
            emptied_byte: 0,
            stage: Stage::Avb,
            spent: Spent::default(),
            epoch: None,
            traces: Vec::new(),
        }
    }

    /// The figures that the trains so far show by other numbers of the queue model.
    #[must_use]
    pub fn figures_by(&self, tuning: ModelTuning) -> PathFigures {
        Self { tuning, ..self.clone() }.figures()
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
                    let share = (self.trains.avb_byte * self.most_byte()) as u64;
                    self.emptied_byte = self.spent.probe_byte.saturating_sub(share);
                    self.stage = Stage::Light;
                }
            }
        }
        while self.stage != Stage::Done {
            if let Some(train) = self.train() {
                return if self.is_last() { PathStep::Last(train) } else { PathStep::Send(train) };
            }
            // Nothing is left for a burst of that size, and none was seen that would make the next one another.
            self.stage = if matches!(self.stage, Stage::Fill(_)) { self.after_filling() } else { self.after() };
        }
        PathStep::Done(Box::new(self.figures()))
    }

    /// What became of the train of the last [`PathStep::Send`].
    pub fn observe(&mut self, observation: &Observation) {
        let before = self.spent.now;
        self.spent.sent(observation);
        if self.is_last() {
            self.spent.now = before;
        }
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

    /// Ends the measurement here, with what is known.
    pub fn stop(&mut self) -> PathFigures {
        self.stage = Stage::Done;
        self.figures()
    }

    /// The train of this stage may be sent at once with another direction's: it fills a queue of known depth.
    fn is_last(&self) -> bool {
        self.stage == Stage::Over && self.depth().is_some()
    }

    /// Bytes of probes sent so far (IP).
    #[must_use]
    pub const fn probe_byte(&self) -> u64 {
        self.spent.probe_byte
    }

    /// Bits per second that are free, where that is known by now: abacus's.
    #[must_use]
    pub fn free(&self) -> Option<f64> {
        self.estimate.as_ref()?.avb_bit_per_s.filter(|rate| *rate > 0.0)
    }

    /// What the link's rate is taken for where no burst shows it.
    fn rate(&self) -> Option<f64> {
        let capacity = self.estimate.as_ref().and_then(|estimate| estimate.capacity_bit_per_s);
        capacity.filter(|rate| *rate > 0.0).or(self.free())
    }

    /// The rate of the link behind a token bucket, as abacus saw it, bit/s; 0 where it saw none.
    fn behind_bucket(&self) -> f64 {
        let behind = self.estimate.as_ref().filter(|estimate| estimate.token_bucket_byte.is_some());
        behind.and_then(|estimate| estimate.capacity_bit_per_s).unwrap_or(0.0)
    }

    /// Bytes that it may spend: more on a path that is known to be fast.
    fn most_byte(&self) -> f64 {
        let carried = self.rate().unwrap_or(0.0) * self.budget.carried_ns as f64 / 8e9;
        let most = self.budget.carried_byte.map_or(f64::INFINITY, |most| most as f64);
        carried.min(most).max(self.budget.most_byte as f64) + self.emptied_byte as f64
    }

    fn size_byte(&self) -> u32 {
        self.setup.ability.most_packet_byte
    }

    /// The longest wait of the last train, ns.
    fn longest_ns(&self) -> f64 {
        self.waits(self.traces.len().wrapping_sub(1)).into_iter().flatten().fold(0.0, f64::max)
    }

    fn waits(&self, index: usize) -> Vec<Option<f64>> {
        let Some((_, trace)) = self.traces.get(index) else { return Vec::new() };
        let at_ns = trace.probes.first().map_or(0.0, |probe| probe.sent_ns);
        let idle = trace::idle_ns(self.traces.iter().map(|(_, trace)| trace), at_ns, self.trains.drift);
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
        let read =
            |(trace, waits): &(&Trace, Vec<_>)| depth::read(trace, waits, self.free(), self.rate(), &self.trains);
        filling.iter().map(read).collect()
    }

    fn depth(&self) -> Option<Depth> {
        depth::depth(&self.readings(), self.rate())
    }

    /// The cross traffic that the trains saw, and the rate at which the queue drains, bit/s; `None` where no queue was
    /// seen, or a policer.
    fn cross(&self) -> Option<(Cross, f64)> {
        let readings = self.readings();
        let full = self.depth();
        let no_queue = self.estimate.as_ref()?.at_least && full.is_none();
        if no_queue || readings.iter().any(|reading| reading.losses == Losses::Policed) {
            return None;
        }
        // What a burst that did not fill the queue shows is less sure than what abacus saw of the link.
        let some = || at_least(&readings, self.rate());
        let rate = full.map(|depth| depth.drain_bit_per_s.max(self.behind_bucket())).or(self.rate());
        let rate = rate.or_else(|| some().map(|depth| depth.drain_bit_per_s))?;
        let packet_ns = f64::from(self.size_byte()) * 8e9 / rate;
        let depth_ns = full.map_or(f64::INFINITY, |depth| depth.time_ns);
        // What both directions send at once is no cross traffic.
        let trains = self.of_stage(|stage| stage != Stage::Over || full.is_none());
        let link = Link { packet_ns, depth_ns, credit_ns: credit_ns(&readings) };
        Some((Cross::seen(&trains, link, self.tuning)?, rate))
    }

    /// Packets sent into a short and into a long queue, with the chance of the losses in the long one. A queue that
    /// manages itself may act on its length or only where it stands: the clearer of both, with both counted as tries.
    fn by_queue(&self) -> ([Lost; 2], Option<f64>) {
        let long_ns = self.trains.long_ns;
        let trains: Vec<_> = self.of_stage(|_| true).into_iter().filter(|(trace, _)| !trace.overrun).collect();
        let sums = [0.0, self.trains.stood_ns].map(|stood_ns| {
            let counts = trains.iter().map(|(trace, waits)| depth::by_queue(trace, waits, 0, long_ns, stood_ns));
            let sum = counts.fold([Lost::default(); 2], |sum, count| [0, 1].map(|of| sum[of] + count[of]));
            (sum, depth::loss_p(sum[0], sum[1]).map(|p| (2.0 * p).min(1.0)))
        });
        let [length, standing] = sums;
        let p = |sum: &([Lost; 2], Option<f64>)| sum.1.unwrap_or(f64::INFINITY);
        if p(&standing) < p(&length) { standing } else { length }
    }

    /// A burst made a queue that stood for long, was not full and lost packets: one that stands for longer is to show
    /// whether it manages itself. Marks show that already.
    fn is_suspect(&self) -> bool {
        let readings = self.readings();
        let stood =
            readings.last().is_some_and(|last| last.top_ns >= self.trains.stood_ns && last.losses == Losses::Elsewhere);
        let ([short, long], _) = self.by_queue();
        let share = |of: Lost| of.hit() as f64 / of.sent.max(1) as f64;
        let hit = long.hit() as f64 >= self.trains.least_lost;
        stood && hit && share(long) > share(short) && !self.is_marking()
    }

    /// Packets are lost or marked in a long queue that is not full, and not in a short one.
    fn is_managed(&self) -> bool {
        let ([_, long], p) = self.by_queue();
        long.hit() as f64 >= self.trains.least_lost && p.is_some_and(|p| p < self.trains.managed_p)
    }

    /// Packets are marked in a long queue, and hardly in a short one: unlike losses, marks do not come by chance.
    fn is_marking(&self) -> bool {
        let ([short, long], _) = self.by_queue();
        let share = |of: Lost| of.marked as f64 / of.sent.max(1) as f64;
        long.marked as f64 >= self.trains.least_lost && share(long) > share(short)
    }

    fn ecn(&self) -> Option<EcnSeen> {
        let fields = self.traces.iter().flat_map(|(_, trace)| &trace.probes).filter_map(|probe| probe.ecn);
        let seen = fields.fold(EcnSeen::default(), |seen, ecn| EcnSeen {
            arrived: seen.arrived + 1,
            marked: seen.marked + u64::from(ecn == Ecn::Marked),
            cleared: seen.cleared + u64::from(ecn == Ecn::Cleared),
        });
        (seen.arrived > 0).then_some(seen)
    }

    /// Most packets that the queue dropped were lost well before the depth that a burst showed: a queue with a mean, as
    /// RED's, passes a burst.
    fn cut_early(&self, depth_ns: f64) -> bool {
        let over = self.of_stage(|stage| stage == Stage::Over);
        let lost = over.iter().filter(|(trace, _)| !trace.overrun).map(|(trace, waits)| {
            let [early, full] = depth::by_queue(trace, waits, trace.settled(), self.trains.early_wait * depth_ns, 0.0);
            (early.lost, full.lost)
        });
        let (early, full) = lost.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        early as f64 >= self.trains.least_lost && early > full
    }

    fn figures(&self) -> PathFigures {
        let readings = self.readings();
        let full = self.depth();
        let ([short_queue, long_queue], queue_loss_p) = self.by_queue();
        let policed = readings.iter().any(|reading| reading.losses == Losses::Policed);
        let queue = match full {
            Some(depth) if self.cut_early(depth.time_ns) || self.is_marking() => QueueKind::Aqm,
            Some(_) => QueueKind::DropTail,
            None if policed => QueueKind::Policer,
            None if self.is_managed() || self.is_marking() => QueueKind::Aqm,
            None => QueueKind::NotSeen,
        };
        let depth = full.or_else(|| at_least(&readings, self.rate()));
        let mut estimate =
            self.estimate.clone().unwrap_or_else(|| Estimate::none(&self.spent, crate::avb::Stopped::Running));
        // A queue that was full bounds what a token bucket let pass.
        estimate.at_least &= full.is_none();
        let most = full.map_or(f64::INFINITY, |depth| depth.drain_bit_per_s.max(self.behind_bucket()));
        let mut random = Random::part(self.setup.seed, MODEL_PART);
        let cross = self.cross();
        let (free, interval) = free_of(cross.as_ref(), &estimate, most, &mut random);
        PathFigures {
            free_bit_per_s: free,
            free_interval_bit_per_s: interval,
            loaded: self.loaded(cross.as_ref().map(|it| &it.0), free, depth.as_ref(), queue, &mut random),
            estimate,
            depth,
            queue,
            queue_loss_p,
            short_queue,
            long_queue,
            ecn: self.ecn(),
            least_delay_ns: self
                .epoch
                .and_then(|epoch| epoch.least_delay_ns(self.traces.iter().map(|(_, trace)| trace))),
            probe_byte: self.spent.probe_byte,
            elapsed_s: self.spent.elapsed_s(),
        }
    }

    /// Latency at each share. Computed where the cross traffic is known; else, and where the queue drops packets before
    /// it is full, what trains at that rate waited.
    fn loaded(
        &self,
        cross: Option<&Cross>,
        free: Option<f64>,
        depth: Option<&Depth>,
        queue: QueueKind,
        random: &mut Random,
    ) -> Vec<Loaded> {
        let at = |share: f64, waits: &Waits, at_least: bool| Loaded {
            share,
            rate_bit_per_s: free.map(|free| share * free),
            added_ns: waits.median_ns,
            added_p95_ns: waits.p95_ns,
            added_interval_ns: Some(waits.interval_ns),
            lost_share: None,
            computed: true,
            at_least,
        };
        let computed = |share: f64, random: &mut Random| Some(at(share, &cross?.waits(share, random)?, false));
        let measured = |share: f64, stage: Stage| {
            let (trace, waits) = self.of_stage(|it| it == stage).into_iter().next()?;
            let stream = trace.settled();
            let known: Vec<f64> = waits[stream..].iter().flatten().copied().collect();
            let lost = trace.probes[stream..].iter().filter(|probe| probe.received_ns.is_none()).count();
            let lost_share = (!trace.overrun).then(|| lost as f64 / (waits.len() - stream).max(1) as f64);
            let rate_bit_per_s = self.free().map(|free| share * free);
            let (added_ns, added_p95_ns) = (median(&known)?, quantile(&known, 0.95)?);
            Some(Loaded { share, rate_bit_per_s, added_ns, added_p95_ns, lost_share, ..Loaded::default() })
        };
        // The wait for those ahead: the last packet that fits is part of a full queue.
        let packet_ns = f64::from(self.size_byte()) * 8e9 / depth.map_or(f64::INFINITY, |it| it.drain_bit_per_s);
        let derived = |depth: &Depth| {
            let [time_ns, low, high] = [depth.time_ns, depth.time_interval_ns[0], depth.time_interval_ns[1]]
                .map(|time_ns| (time_ns - packet_ns).max(0.0));
            let waits = Waits { median_ns: time_ns, p95_ns: time_ns, interval_ns: [low, high] };
            Loaded { rate_bit_per_s: None, ..at(SHARES[2], &waits, depth.at_least) }
        };
        let half = computed(SHARES[0], random).or_else(|| measured(SHARES[0], Stage::Light));
        let most = computed(SHARES[1], random);
        let over = match queue {
            QueueKind::DropTail => computed(SHARES[2], random).or_else(|| depth.map(derived)),
            QueueKind::Aqm => measured(SHARES[2], Stage::Over).or_else(|| depth.map(derived)),
            QueueKind::Policer | QueueKind::NotSeen => depth.map(derived),
        };
        [half, most, over].into_iter().flatten().collect()
    }
}

/// What is free, with its interval, bit/s: by abacus; by the cross traffic of all trains where abacus knows nothing, or
/// where that agrees and is narrower, but for what a token bucket passed. `most` at most, at which the queue drains.
fn free_of(
    cross: Option<&(Cross, f64)>,
    estimate: &Estimate,
    most: f64,
    random: &mut Random,
) -> (Option<f64>, Option<[f64; 2]>) {
    let bounded = |rate: f64| rate.min(most);
    let by_abacus = (estimate.avb_bit_per_s.map(bounded), estimate.interval_bit_per_s.map(|ends| ends.map(bounded)));
    let Some((cross, rate)) = cross else { return by_abacus };
    let bucket = estimate.token_bucket_byte.is_some();
    let [low, high] = cross.free_interval(random).map(|share| share * rate);
    match by_abacus {
        (Some(_), Some([from, to])) if bucket || to - from < high - low || high < from || to < low => by_abacus,
        _ => (Some(cross.free_share() * rate), Some([low, high])),
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
