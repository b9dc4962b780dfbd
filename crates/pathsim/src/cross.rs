use serde::{Deserialize, Serialize};
use vtare_units::{BitRate, Bytes, Pace, Random};

use crate::error::{SimError, above_zero};

/// Traffic that shares one hop with the probes. It enters at the hop and leaves behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// What it is like.
    pub traffic: Traffic,
    /// When it starts, ns.
    #[serde(default)]
    pub from_ns: u64,
    /// When it ends, ns; `None`: never.
    #[serde(default)]
    pub until_ns: Option<u64>,
}

/// Kinds of cross traffic. Rates are at the IP layer; sizes are bytes of IP packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    /// No packets, a constant share of the capacity: the model in which the equations of the literature are exact.
    Fluid {
        /// Its rate.
        rate_bit_per_s: u64,
    },
    /// Evenly spaced packets.
    Constant {
        /// Its rate.
        rate_bit_per_s: u64,
        /// Size of its packets.
        size_byte: u32,
    },
    /// Packets with exponential gaps.
    Poisson {
        /// Its mean rate.
        rate_bit_per_s: u64,
        /// Size of its packets.
        size_byte: u32,
    },
    /// Phases at peak rate and silent phases, both with Pareto durations: bursty on all time scales for shapes below 2.
    ParetoOnOff {
        /// Its mean rate.
        rate_bit_per_s: u64,
        /// Its rate while on.
        peak_bit_per_s: u64,
        /// Size of its packets.
        size_byte: u32,
        /// Mean duration of a phase that is on, ns.
        on_ns: u64,
        /// Shape of both durations; 1.5 is usual.
        shape: f64,
    },
    /// Recorded packets, over and over: the gap before each in ns, and its size.
    Trace {
        /// Gap and size of each packet.
        packets: Vec<(u32, u32)>,
    },
}

impl Cross {
    /// Traffic for the whole time.
    #[must_use]
    pub const fn always(traffic: Traffic) -> Self {
        Self { traffic, from_ns: 0, until_ns: None }
    }

    /// Whether it is there at `at_ns`.
    #[must_use]
    pub fn is_on(&self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && self.until_ns.is_none_or(|until| at_ns < until)
    }

    /// Its mean rate while it is there, bit/s.
    #[must_use]
    pub fn mean_bit_per_s(&self) -> u64 {
        match &self.traffic {
            Traffic::Fluid { rate_bit_per_s }
            | Traffic::Constant { rate_bit_per_s, .. }
            | Traffic::Poisson { rate_bit_per_s, .. }
            | Traffic::ParetoOnOff { rate_bit_per_s, .. } => *rate_bit_per_s,
            Traffic::Trace { packets } => {
                let gaps: u128 = packets.iter().map(|&(gap, _)| u128::from(gap)).sum();
                let bits: u128 = packets.iter().map(|&(_, size)| u128::from(size) * 8).sum();
                (bits * 1_000_000_000).checked_div(gaps).unwrap_or(0) as u64
            }
        }
    }

    /// Whether there can be such traffic.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn check(&self) -> Result<(), SimError> {
        match &self.traffic {
            Traffic::Fluid { .. } => Ok(()),
            Traffic::Constant { rate_bit_per_s, size_byte } | Traffic::Poisson { rate_bit_per_s, size_byte } => {
                above_zero("rate of cross traffic", *rate_bit_per_s)?;
                above_zero("size of cross traffic", (*size_byte).into())
            }
            Traffic::ParetoOnOff { rate_bit_per_s: mean, peak_bit_per_s: peak, size_byte, on_ns, shape } => {
                above_zero("rate of cross traffic", *mean)?;
                above_zero("size of cross traffic", (*size_byte).into())?;
                above_zero("on-phase of cross traffic", *on_ns)?;
                if !(shape.is_finite() && *shape > 1.0) {
                    return Err(SimError::Shape { found: *shape });
                }
                if mean >= peak {
                    return Err(SimError::Peak { mean_bit_per_s: *mean, peak_bit_per_s: *peak });
                }
                Ok(())
            }
            Traffic::Trace { packets } => {
                above_zero("sum of gaps in a trace", packets.iter().map(|&(gap, _)| u64::from(gap)).sum())
            }
        }
    }
}

/// The packets of one [`Cross`], one after another.
#[derive(Clone, Debug)]
pub struct Source {
    cross: Cross,
    random: Random,
    /// Packets made, of this phase for on-off traffic.
    made: u64,
    /// Start of the phase, or time of the last packet, in 2^-16 ns since `from_ns`: fractions add up.
    base: u128,
    /// End of an on-phase, same unit.
    phase_end: u128,
    next: Option<(u64, u32)>,
}

const FRACTION: u32 = 16;

impl Source {
    /// The packets of `cross`, which must have been checked ([`Cross::check`]).
    #[must_use]
    pub fn new(cross: &Cross, random: Random) -> Self {
        let mut source = Self { cross: cross.clone(), random, made: 0, base: 0, phase_end: 0, next: None };
        if matches!(cross.traffic, Traffic::ParetoOnOff { .. }) {
            source.turn_on();
        }
        source.next = source.make();
        source
    }

    /// The next packet up to `at_ns`: when it comes, and its size.
    pub fn take_until(&mut self, at_ns: u64) -> Option<(u64, u32)> {
        let next = self.next.filter(|&(at, _)| at <= at_ns)?;
        self.next = self.make();
        Some(next)
    }

    /// When the next packet comes.
    #[must_use]
    pub fn peek(&self) -> Option<u64> {
        self.next.map(|(at, _)| at)
    }

    fn make(&mut self) -> Option<(u64, u32)> {
        let (offset, size) = match &self.cross.traffic {
            Traffic::Fluid { .. } => return None,
            &Traffic::Constant { rate_bit_per_s, size_byte } => {
                let pace = Pace::of_bit_rate(BitRate::from_bit_per_s(rate_bit_per_s), Bytes::new(size_byte.into()));
                (pace.offset_ns(self.made)?, size_byte)
            }
            &Traffic::Poisson { rate_bit_per_s, size_byte } => {
                let mean_ns = f64::from(size_byte) * 8e9 / rate_bit_per_s as f64;
                self.base += scaled(self.random.exponential(mean_ns));
                (u64::try_from(self.base >> FRACTION).ok()?, size_byte)
            }
            &Traffic::ParetoOnOff { peak_bit_per_s, size_byte, .. } => {
                let pace = Pace::of_bit_rate(BitRate::from_bit_per_s(peak_bit_per_s), Bytes::new(size_byte.into()));
                let mut at = self.base + (u128::from(pace.offset_ns(self.made)?) << FRACTION);
                while at >= self.phase_end {
                    self.turn_off();
                    self.turn_on();
                    at = self.base;
                }
                (u64::try_from(at >> FRACTION).ok()?, size_byte)
            }
            Traffic::Trace { packets } => {
                let &(gap, size) = packets.get((self.made % packets.len() as u64) as usize)?;
                self.base += u128::from(gap) << FRACTION;
                (u64::try_from(self.base >> FRACTION).ok()?, size)
            }
        };
        self.made += 1;
        let at = offset.checked_add(self.cross.from_ns)?;
        self.cross.is_on(at).then_some((at, size))
    }

    /// An on-phase begins at `base`.
    fn turn_on(&mut self) {
        if let Traffic::ParetoOnOff { on_ns, shape, .. } = self.cross.traffic {
            self.phase_end = self.base + scaled(self.random.pareto(on_ns as f64, shape)).max(1);
            self.made = 0;
        }
    }

    /// A silent phase passes; `base` is its end.
    fn turn_off(&mut self) {
        if let Traffic::ParetoOnOff { rate_bit_per_s, peak_bit_per_s, on_ns, shape, .. } = self.cross.traffic {
            let off_ns = on_ns as f64 * (peak_bit_per_s as f64 / rate_bit_per_s as f64 - 1.0);
            self.base = self.phase_end + scaled(self.random.pareto(off_ns, shape));
        }
    }
}

fn scaled(ns: f64) -> u128 {
    (ns * f64::from(1_u32 << FRACTION)) as u128
}
