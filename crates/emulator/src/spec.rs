use serde::{Deserialize, Serialize};
use vtare_pathsim::{Detour, Duplication, LossModel, SimError, Step, above_zero, probability};

/// What one direction does to frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LaneSpec {
    /// The rates at which the queue is served, one after another and then again from the first. None: at once,
    /// whatever the size.
    pub rate: Vec<Phase>,
    /// What of a frame counts for the rate, the buffer and the truth.
    pub layer: Layer,
    /// What the queue holds.
    pub buffer: Buffer,
    /// ECN-capable packets that take longer than this to leave the queue get the mark of congestion, ns. None: no
    /// packet does.
    pub mark_ns: Option<u64>,
    /// Delay behind the queue, ns.
    pub delay_ns: u64,
    /// What the delay varies by.
    pub jitter: Jitter,
    /// Loss before the queue.
    pub loss: LossModel,
    /// Frames that come twice.
    pub duplication: Duplication,
    /// Frames that take longer, and so change places with those behind them.
    pub reorder: Detour,
    /// Share of frames of which one bit is turned over.
    pub corruption: f64,
}

/// A rate and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The rate, bit/s at the lane's layer. 0 is an outage.
    pub rate_bit_per_s: u64,
    /// How long, ns.
    pub lasts_ns: u64,
}

/// What of a frame is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// From the IP header to the end of the packet.
    #[default]
    Ip,
    /// What the packet takes on an Ethernet wire: frame (60 B at least), check sequence, preamble and gap, 38 B on top
    /// of the IP packet.
    Ethernet,
}

/// What a queue holds at most, the frame being sent among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// Bytes. A frame that finds the queue empty always fits.
    Byte(u64),
    /// Frames.
    Packet(u64),
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Packet(1_000)
    }
}

/// Variation of the delay, drawn for each frame by itself. The delay never falls below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jitter {
    /// Its size, ns; what that means is the shape's.
    pub size_ns: u64,
    /// How it is distributed.
    pub shape: JitterShape,
    /// Whether a frame may overtake those before it. If not, it waits for them, which makes delays longer where gaps
    /// are shorter than the jitter.
    pub overtakes: bool,
}

/// How jitter is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JitterShape {
    /// Evenly between minus and plus the size.
    #[default]
    Uniform,
    /// Normal around 0; the size is the standard deviation.
    Normal,
    /// Exponential; the size is its mean.
    Exponential,
    /// Pareto with shape 2.5; the size is its mean.
    Pareto,
}

/// Shape of [`JitterShape::Pareto`]: the variance exists, the third moment does not.
pub(super) const PARETO_SHAPE: f64 = 2.5;

/// A direction that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// As on a simulated path.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A phase without an end or without a length.
    #[error("step {index} of the rate lasts 0 ns: use more")]
    Phase {
        /// Which, from 0.
        index: usize,
    },
    /// Nothing would ever leave.
    #[error("every step of the rate is 0 bit/s: use one above 0")]
    Outage,
    /// Times that run off the scale.
    #[error("delay and jitter are {found_ns} ns together: use an hour or less")]
    Delay {
        /// Their sum.
        found_ns: u64,
    },
}

impl LaneSpec {
    /// Whether there can be such a direction.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), SpecError> {
        const HOUR_NS: u64 = 3_600_000_000_000;
        if let Some(index) = self.rate.iter().position(|phase| phase.lasts_ns == 0) {
            return Err(SpecError::Phase { index });
        }
        if !self.rate.is_empty() && self.rate.iter().all(|phase| phase.rate_bit_per_s == 0) {
            return Err(SpecError::Outage);
        }
        match self.buffer {
            Buffer::Byte(most) | Buffer::Packet(most) => above_zero("buffer", most)?,
        }
        self.loss.check()?;
        probability("duplication", self.duplication.probability)?;
        probability("reorder", self.reorder.probability)?;
        probability("corruption", self.corruption)?;
        let found_ns = self.delay_ns.saturating_add(self.jitter.size_ns).saturating_add(self.reorder.extra_ns);
        if found_ns > HOUR_NS { Err(SpecError::Delay { found_ns }) } else { Ok(()) }
    }

    /// One rate for ever.
    #[must_use]
    pub fn steady(rate_bit_per_s: u64) -> Vec<Phase> {
        vec![Phase { rate_bit_per_s, lasts_ns: u64::MAX / 4 }]
    }

    /// The least time that a frame spends in this direction.
    #[must_use]
    pub fn least_delay_ns(&self) -> u64 {
        match self.jitter.shape {
            JitterShape::Uniform => self.delay_ns.saturating_sub(self.jitter.size_ns),
            JitterShape::Normal if self.jitter.size_ns > 0 => 0,
            _ => self.delay_ns,
        }
    }

    /// Bytes of a frame at this layer, from its IP packet (for other frames: what follows the Ethernet header).
    #[must_use]
    pub const fn size_byte(&self, packet_byte: u32) -> u32 {
        match self.layer {
            Layer::Ip => packet_byte,
            // 14 header, 4 check sequence, 8 preamble, 12 gap; padded to 46 B behind the header.
            Layer::Ethernet if packet_byte < 46 => 84,
            Layer::Ethernet => packet_byte.saturating_add(38),
        }
    }
}

/// The rates of a direction over all time.
#[derive(Clone, Debug)]
pub(super) struct RatePlan {
    phases: Vec<Phase>,
    cycle_ns: u64,
    /// Start of the cycle that the next change belongs to, and which change it is.
    base_ns: u64,
    next: usize,
}

impl RatePlan {
    pub(super) fn new(phases: &[Phase]) -> Self {
        let cycle_ns = phases.iter().fold(0_u64, |sum, phase| sum.saturating_add(phase.lasts_ns));
        Self { phases: phases.to_vec(), cycle_ns, base_ns: 0, next: 1 }
    }

    /// The rate at a time.
    pub(super) fn at(&self, at_ns: u64) -> u64 {
        self.phase_at(at_ns).0
    }

    /// The rate at a time, and when it ends.
    fn phase_at(&self, at_ns: u64) -> (u64, u64) {
        let cycle = at_ns / self.cycle_ns * self.cycle_ns;
        let mut end = cycle;
        for phase in &self.phases {
            end = end.saturating_add(phase.lasts_ns);
            if at_ns < end {
                return (phase.rate_bit_per_s, end);
            }
        }
        (self.phases.last().map_or(0, |phase| phase.rate_bit_per_s), u64::MAX)
    }

    /// The mean rate between two times, bit/s.
    pub(super) fn mean(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (mut at, mut work) = (from_ns, 0_u128);
        while at < to_ns {
            let (rate, end) = self.phase_at(at);
            let end = end.min(to_ns);
            work += u128::from(rate) * u128::from(end - at);
            at = end;
        }
        let span = u128::from(to_ns.saturating_sub(from_ns));
        work.checked_div(span).map_or_else(|| self.at(from_ns), |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The next change of the rate that has not been given yet, if it lies before `before_ns`.
    pub(super) fn next_change(&mut self, before_ns: u64) -> Option<Step> {
        if self.phases.len() < 2 {
            return None;
        }
        let inside = self.phases[..self.next].iter().fold(0_u64, |sum, phase| sum.saturating_add(phase.lasts_ns));
        let at_ns = self.base_ns.checked_add(inside)?;
        if at_ns >= before_ns {
            return None;
        }
        if self.next == self.phases.len() {
            (self.base_ns, self.next) = (at_ns, 0);
        }
        let capacity_bit_per_s = self.phases[self.next].rate_bit_per_s;
        self.next += 1;
        Some(Step { at_ns, capacity_bit_per_s })
    }

    /// How long a queue of `byte` bytes takes at most, ns: in whole cycles.
    pub(super) fn longest_ns(&self, byte: u64) -> u64 {
        let cycle = self.phases.iter().map(|phase| u128::from(phase.rate_bit_per_s) * u128::from(phase.lasts_ns));
        let cycle: u128 = cycle.sum::<u128>().max(1);
        let cycles = (u128::from(byte) * 8_000_000_000).div_ceil(cycle).saturating_add(1);
        u64::try_from(cycles.saturating_mul(self.cycle_ns.into())).unwrap_or(u64::MAX)
    }
}
