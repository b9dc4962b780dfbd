use serde::{Deserialize, Serialize};
use vtare_units::Random;

use crate::aqm::{Aqm, Arrival, Manager};
use crate::cross::{Cross, Source, Traffic};
use crate::error::{SimError, above_zero, probability};

/// A queue, the link behind it, and what else uses them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopSpec {
    /// Rate at which the queue is served, bit/s of IP packets. 0 is an outage.
    pub capacity_bit_per_s: u64,
    /// Changes of the capacity, in the order of time.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Bytes that may be queued, the packet being sent among them. A packet that finds the queue empty always fits.
    pub buffer_byte: u64,
    /// Depth of a token bucket that fills at the capacity: this many bytes pass at once, however fast they come. 0: a
    /// plain link, which sends one packet at a time.
    #[serde(default)]
    pub bucket_byte: u64,
    /// What drops packets before the buffer is full.
    #[serde(default)]
    pub aqm: Aqm,
    /// It marks probes, which are ECN-capable, and drops the others only.
    #[serde(default)]
    pub marks: bool,
    /// What exceeds the bucket is dropped and never waits: a policer.
    #[serde(default)]
    pub polices: bool,
    /// Propagation delay behind the queue, ns.
    pub delay_ns: u64,
    /// Loss before the queue.
    #[serde(default)]
    pub loss: LossModel,
    /// Traffic that shares the queue.
    #[serde(default)]
    pub cross: Vec<Cross>,
}

impl HopSpec {
    /// A hop without loss or cross traffic.
    #[must_use]
    pub const fn new(capacity_bit_per_s: u64, buffer_byte: u64, delay_ns: u64) -> Self {
        Self {
            capacity_bit_per_s,
            steps: Vec::new(),
            buffer_byte,
            bucket_byte: 0,
            aqm: Aqm::None,
            marks: false,
            polices: false,
            delay_ns,
            loss: LossModel::None,
            cross: Vec::new(),
        }
    }

    /// The same hop with this traffic on it as well.
    #[must_use]
    pub fn with_cross(mut self, traffic: Traffic) -> Self {
        self.cross.push(Cross::always(traffic));
        self
    }

    /// The capacity at a time, bit/s.
    #[must_use]
    pub fn capacity_at(&self, at_ns: u64) -> u64 {
        let passed = self.steps.iter().take_while(|step| step.at_ns <= at_ns).last();
        passed.map_or(self.capacity_bit_per_s, |step| step.capacity_bit_per_s)
    }

    /// Capacity less the mean rate of the cross traffic that is there at that time: the truth for an estimator, bit/s.
    #[must_use]
    pub fn available_at(&self, at_ns: u64) -> u64 {
        let crossing = self.cross.iter().filter(|cross| cross.is_on(at_ns)).map(Cross::mean_bit_per_s).sum();
        self.capacity_at(at_ns).saturating_sub(crossing)
    }

    fn check(&self) -> Result<(), SimError> {
        above_zero("buffer of a hop", self.buffer_byte)?;
        if self.polices {
            above_zero("token bucket of a policer", self.bucket_byte)?;
        }
        self.aqm.check()?;
        self.cross.iter().try_for_each(Cross::check)?;
        self.loss.check()
    }
}

/// A change of capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, ns.
    pub at_ns: u64,
    /// The capacity from then on, bit/s.
    pub capacity_bit_per_s: u64,
}

/// How probes are lost, apart from full queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossModel {
    /// Not at all.
    #[default]
    None,
    /// Each with this probability.
    Random {
        /// The probability.
        probability: f64,
    },
    /// In bursts: a chain of two states that moves with every packet.
    //= Gilbert 1960
    Bursty {
        /// Chance that a packet finds a burst beginning.
        enter: f64,
        /// Chance that a packet finds the burst ending.
        leave: f64,
        /// Chance of a packet inside a burst to be lost.
        lost_inside: f64,
    },
}

impl LossModel {
    /// Checks its probabilities.
    ///
    /// # Errors
    /// [`SimError::Probability`].
    pub fn check(&self) -> Result<(), SimError> {
        match *self {
            Self::None => Ok(()),
            Self::Random { probability: p } => probability("loss", p),
            Self::Bursty { enter, leave, lost_inside } => {
                probability("chance to enter a loss burst", enter)?;
                probability("chance to leave a loss burst", leave)?;
                probability("loss inside a burst", lost_inside)
            }
        }
    }
}

/// What a hop counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HopCount {
    /// Probes that came.
    pub probes: u64,
    /// When the last of them came, ns; 0 before the first.
    pub probe_at_ns: u64,
    /// Of those, lost by the loss model.
    pub lost: u64,
    /// Of those, dropped by the queue: it was full, or its AQM dropped them.
    pub dropped: u64,
    /// Packets, probes and others, dropped by the AQM.
    pub aqm_dropped: u64,
    /// Packets of cross traffic dropped by the queue.
    pub cross_dropped: u64,
    /// Bytes of cross traffic (packets) that went through.
    pub cross_byte: u64,
    /// Bytes of cross traffic (packets) that came, whatever became of them.
    pub cross_offered_byte: u64,
}

/// Capacity and fluid traffic from one time on.
#[derive(Clone, Copy, Debug)]
struct Regime {
    from_ns: u64,
    capacity: u64,
    fluid: u64,
}

/// 1e-9 bit: what a rate of 1 bit/s does in 1 ns. All queue arithmetic is in whole ones, hence exact.
type NanoBit = u128;

const fn nanobits(bytes: u64) -> NanoBit {
    bytes as u128 * 8_000_000_000
}

/// What became of a probe at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is at the far end of the hop's link at this time, ns, with the mark of congestion or without.
    At(u64, bool),
    /// The loss model took it.
    Lost,
    /// It found the queue full, or the link out for ever.
    Dropped,
}

/// A queue and its link under way.
#[derive(Clone, Debug)]
pub struct Hop {
    spec: HopSpec,
    regimes: Vec<Regime>,
    regime: usize,
    sources: Vec<Source>,
    /// The time that `work` is valid for.
    at_ns: u64,
    /// What is left to be sent.
    work: NanoBit,
    in_burst: bool,
    random: Random,
    manager: Manager,
    count: HopCount,
}

impl Hop {
    /// An empty queue at time 0.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn new(spec: &HopSpec, seed: u64) -> Result<Self, SimError> {
        spec.check()?;
        let fluids: Vec<&Cross> = spec.cross.iter().filter(|c| matches!(c.traffic, Traffic::Fluid { .. })).collect();
        let mut times: Vec<u64> = std::iter::once(0)
            .chain(spec.steps.iter().map(|step| step.at_ns))
            .chain(fluids.iter().flat_map(|cross| std::iter::once(cross.from_ns).chain(cross.until_ns)))
            .collect();
        times.sort_unstable();
        times.dedup();
        let regimes = times
            .into_iter()
            .map(|from_ns| Regime {
                from_ns,
                capacity: spec.capacity_at(from_ns),
                fluid: fluids.iter().filter(|cross| cross.is_on(from_ns)).map(|cross| cross.mean_bit_per_s()).sum(),
            })
            .collect();
        let packets = spec.cross.iter().filter(|c| !matches!(c.traffic, Traffic::Fluid { .. }));
        let sources = packets.zip(1..).map(|(cross, part)| Source::new(cross, Random::part(seed, part))).collect();
        let random = Random::part(seed, 0);
        let manager = Manager::new(spec.aqm, Random::part(seed, u64::MAX));
        let (regime, at_ns, work, in_burst) = (0, 0, 0, false);
        Ok(Self {
            spec: spec.clone(),
            regimes,
            regime,
            sources,
            at_ns,
            work,
            in_burst,
            random,
            manager,
            count: HopCount::default(),
        })
    }

    /// What it has counted.
    #[must_use]
    pub const fn count(&self) -> HopCount {
        self.count
    }

    /// Lets all cross traffic up to `at_ns` in; the queue is then as a packet that comes at that time finds it.
    pub fn run_until(&mut self, at_ns: u64) {
        while let Some(first) = self.sources.iter().enumerate().filter_map(|(i, s)| Some((s.peek()?, i))).min()
            && first.0 <= at_ns
        {
            if let Some((at, size)) = self.sources[first.1].take_until(at_ns) {
                self.advance(at);
                self.count.cross_offered_byte += u64::from(size);
                if self.enqueue(size, false).is_some() {
                    self.count.cross_byte += u64::from(size);
                } else {
                    self.count.cross_dropped += 1;
                }
            }
        }
        self.advance(at_ns);
    }

    /// A probe comes at `at_ns`; not before the one before it.
    pub fn pass(&mut self, at_ns: u64, size_byte: u32) -> Passed {
        self.run_until(at_ns);
        self.count.probes += 1;
        self.count.probe_at_ns = at_ns;
        if self.loses() {
            self.count.lost += 1;
            return Passed::Lost;
        }
        let marked = self.enqueue(size_byte, self.spec.marks);
        let sent = marked.and_then(|marked| Some((self.empty_at()?.checked_add(self.spec.delay_ns)?, marked)));
        match sent {
            Some((there, marked)) => Passed::At(there, marked),
            None => {
                self.count.dropped += 1;
                Passed::Dropped
            }
        }
    }

    /// The loss model's word on the next packet, for those who take a hop's steps one by one.
    pub fn next_is_lost(&mut self) -> bool {
        self.loses()
    }

    /// Puts a packet that comes now into the queue and gives when it will have been sent, ns; `None` where it does not
    /// fit.
    pub fn admit(&mut self, size_byte: u32) -> Option<u64> {
        self.enqueue(size_byte, false).and_then(|_| self.empty_at())
    }

    /// What is queued now, in bytes begun.
    #[must_use]
    pub fn queued_byte(&self) -> u64 {
        u64::try_from(self.work.div_ceil(nanobits(1))).unwrap_or(u64::MAX)
    }

    /// Adds a change of the capacity behind all others, and forgets changes long past: a hop may run for ever.
    pub fn add_step(&mut self, step: Step) {
        const FORGET: usize = 1_024;
        if self.regime >= FORGET {
            self.regimes.drain(..self.regime);
            self.regime = 0;
        }
        let Step { at_ns: from_ns, capacity_bit_per_s: capacity } = step;
        debug_assert!(
            self.regimes.last().is_some_and(|last| last.from_ns < from_ns),
            "steps come in the order of time"
        );
        let fluid = self
            .spec
            .cross
            .iter()
            .filter(|cross| cross.is_on(from_ns) && matches!(cross.traffic, Traffic::Fluid { .. }));
        let fluid = fluid.map(Cross::mean_bit_per_s).sum();
        self.regimes.push(Regime { from_ns, capacity, fluid });
    }

    /// Puts a packet into the queue; whether it is marked, which one may be that is ECN-capable; `None`: it is dropped.
    fn enqueue(&mut self, size_byte: u32, is_capable: bool) -> Option<bool> {
        let work = self.work + nanobits(size_byte.into());
        let bucket = nanobits(self.spec.bucket_byte);
        let fits = if self.spec.polices {
            work <= bucket
        } else {
            self.work <= bucket || work <= bucket + nanobits(self.spec.buffer_byte)
        };
        let hit = fits && self.aqm_hits(size_byte);
        if !fits || hit && !is_capable {
            self.count.aqm_dropped += u64::from(hit);
            return None;
        }
        self.work = work;
        Some(hit)
    }

    /// Whether the queue's AQM drops or marks a packet for which there is room.
    fn aqm_hits(&mut self, size_byte: u32) -> bool {
        if self.spec.aqm == Aqm::None {
            return false;
        }
        let Some(turn_ns) = self.empty_at() else { return false };
        let packet = Arrival {
            at_ns: self.at_ns,
            turn_ns,
            queued_byte: self.queued_byte(),
            capacity_bit_per_s: self.regimes[self.regime].capacity,
            size_byte,
        };
        self.manager.drops(&packet)
    }

    fn loses(&mut self) -> bool {
        match self.spec.loss {
            LossModel::None => false,
            LossModel::Random { probability } => self.random.chance(probability),
            LossModel::Bursty { enter, leave, lost_inside } => {
                let turn = if self.in_burst { leave } else { enter };
                self.in_burst ^= self.random.chance(turn);
                self.in_burst && self.random.chance(lost_inside)
            }
        }
    }

    /// Serves the queue until `to_ns`.
    fn advance(&mut self, to_ns: u64) {
        while self.at_ns < to_ns {
            let Regime { capacity, fluid, .. } = self.regimes[self.regime];
            let next = self.regimes.get(self.regime + 1).map_or(u64::MAX, |regime| regime.from_ns);
            let end = to_ns.min(next);
            let span = u128::from(end - self.at_ns);
            if capacity >= fluid {
                self.work = self.work.saturating_sub(u128::from(capacity - fluid) * span);
            } else {
                // What finds no room is lost; the queue stays full.
                let most = self.work.max(nanobits(self.spec.buffer_byte + self.spec.bucket_byte));
                self.work = (self.work + u128::from(fluid - capacity) * span).min(most);
            }
            self.at_ns = end;
            if end == next {
                self.regime += 1;
            }
        }
    }

    /// When all that is queued now will have been sent; `None` where that never happens. With a token bucket `work` is
    /// the tokens that are owed, and the last packet goes when no more than a full bucket of them is.
    fn empty_at(&self) -> Option<u64> {
        let owed = self.work.saturating_sub(nanobits(self.spec.bucket_byte));
        let (mut left, mut at, mut regime) = (owed, self.at_ns, self.regime);
        loop {
            let capacity = self.regimes[regime].capacity;
            let next = self.regimes.get(regime + 1).map(|regime| regime.from_ns);
            let served = next.map(|next| u128::from(capacity) * u128::from(next - at));
            if capacity > 0 && served.is_none_or(|served| served >= left) {
                let span = match u64::try_from(left) {
                    Ok(left) => left.div_ceil(capacity),
                    Err(_) => u64::try_from(left.div_ceil(capacity.into())).ok()?,
                };
                return at.checked_add(span);
            }
            left -= served?;
            at = next?;
            regime += 1;
        }
    }
}
