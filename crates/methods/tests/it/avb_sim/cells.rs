//! The cells of the simulated proof.

use vtare_pathsim::{Detour, HopSpec, LossModel, Noise, PathSpec, Pause, PeerClock, Traffic};
use vtare_probe::sim::{RelaySpec, SenderSpec, TrainSpec};
use vtare_units::Random;

/// What the cross traffic is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// Evenly spaced packets.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Four sources, on and off with Pareto durations of shape 1.5, 20 packets a burst in the mean, each with half the
    /// capacity as peak.
    Pareto,
}

/// One cell of the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// Capacity of the tight link, bit/s.
    pub(crate) capacity: u64,
    /// Share of it that cross traffic takes, percent.
    pub(crate) load: u64,
    pub(crate) model: Model,
    /// 1, or 3: the tight link between two of the same capacity with half of its load.
    pub(crate) hops: usize,
}

/// All cells: at load 0 there is nothing for a model to differ in.
pub(crate) fn grid() -> Vec<Cell> {
    let mut cells = Vec::new();
    for capacity in [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000] {
        for load in [0, 30, 60, 90] {
            for model in [Model::Constant, Model::Poisson, Model::Pareto] {
                for hops in [1, 3] {
                    if load > 0 || model == Model::Constant {
                        cells.push(Cell { capacity, load, model, hops });
                    }
                }
            }
        }
    }
    cells
}

const SIZE: u32 = 1500;

fn hop(capacity: u64, cross: u64, model: Model) -> HopSpec {
    // Half a second of room: cross traffic alone overflows nothing.
    let hop = HopSpec::new(capacity, capacity / 16, 300_000);
    if cross == 0 {
        return hop;
    }
    match model {
        Model::Constant => hop.with_cross(Traffic::Constant { rate_bit_per_s: cross, size_byte: SIZE }),
        Model::Poisson => hop.with_cross(Traffic::Poisson { rate_bit_per_s: cross, size_byte: SIZE }),
        Model::Pareto => (0..4).fold(hop, |hop, _| {
            let peak_bit_per_s = capacity / 2;
            let on_ns = 20 * u64::from(SIZE) * 8_000_000_000 / peak_bit_per_s;
            let rate_bit_per_s = cross / 4;
            hop.with_cross(Traffic::ParetoOnOff { rate_bit_per_s, peak_bit_per_s, size_byte: SIZE, on_ns, shape: 1.5 })
        }),
    }
}

impl Cell {
    /// The simulated path.
    pub(crate) fn spec(&self, seed: u64) -> TrainSpec {
        let c = self.capacity;
        let mut hops = vec![hop(c, c * self.load / 100, self.model)];
        if self.hops == 3 {
            let other = || hop(c, c * self.load / 200, self.model);
            hops.insert(0, other());
            hops.push(other());
        }
        // Up to 1 Gbit/s single sends of 1 us from a card of at least 10 Gbit/s; beyond, sends of many packets.
        let large_sends = c > 1_000_000_000;
        let call_ns = if large_sends { 2_000.0 } else { 1_000.0 };
        let line = (2 * c).max(10_000_000_000) as f64;
        TrainSpec {
            path: PathSpec { hops, ..PathSpec::default() },
            sender: SenderSpec { call_ns, large_sends, line_bit_per_s: Some(line), ..SenderSpec::default() },
            answer_ns: 1_000_000,
            seed,
            ..TrainSpec::default()
        }
    }

    /// Time for which the path runs before the measurement, ns: 2000 packets of the tight link.
    pub(crate) fn warm_ns(&self) -> u64 {
        2_000 * u64::from(SIZE) * 8_000_000_000 / self.capacity
    }
}

/// A path with something wrong about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// One packet in a hundred is lost.
    Loss,
    /// 20 ms there, 20 ms back.
    Delay,
    /// One packet in fifty comes 1 ms later.
    Reorder,
    /// The sender stalls for 5 ms, ten times a second.
    SenderPauses,
    /// The receiver's machine stalls for 5 ms, ten times a second: kernel stamps as well.
    ReceiverStalls,
    /// Arrivals are handed over in groups, 50 us after the first.
    Coalescing,
    /// No kernel stamps of departures, and a sender that is late by up to 20 us.
    LateSender,
    /// The receiver's clock runs 80 ppm fast and is hours off.
    Skew,
    /// A narrow link without cross traffic before the tight one, a quarter faster than what that has left.
    NarrowBefore,
    /// The link is a token bucket, which passes as much at once as it carries in 200 us, two packets at least.
    Bucket,
    /// The same without cross traffic.
    IdleBucket,
    /// The same, and single sends are hardly faster than the link, each 5 % faster or slower.
    SlowSender,
    /// What exceeds such a bucket, of four packets at least, is dropped.
    Policer,
    /// The link's timer lets four packets go together, and single sends are slower than the link.
    Clumps,
    /// A program behind the tight link lets packets go a little late, and 50 times a second stalls for 0.1 to 6
    /// ms: a user-space emulator on a busy machine.
    LateRelay,
    /// The same, and it runs no longer than it stalls: 1 to 5 ms.
    StarvedRelay,
    /// All at once, but for the narrow link and the relays.
    All,
}

pub(crate) const TROUBLES: [Trouble; 17] = [
    Trouble::Loss,
    Trouble::Delay,
    Trouble::Reorder,
    Trouble::SenderPauses,
    Trouble::ReceiverStalls,
    Trouble::Coalescing,
    Trouble::LateSender,
    Trouble::Skew,
    Trouble::NarrowBefore,
    Trouble::Bucket,
    Trouble::IdleBucket,
    Trouble::SlowSender,
    Trouble::Policer,
    Trouble::Clumps,
    Trouble::LateRelay,
    Trouble::StarvedRelay,
    Trouble::All,
];

/// Pauses of 5 ms at places that depend on the seed, 100 ms apart in the mean.
fn pauses(seed: u64, part: u64) -> Vec<Pause> {
    let mut random = Random::part(seed, part);
    let mut at = 0.0;
    let times = (0..100).map(|_| {
        at += 5e6 + random.exponential(95e6);
        at
    });
    times.map(|at| Pause { at_ns: at as u64, span_ns: 5_000_000 }).collect()
}

impl Trouble {
    /// How late the relay is, where there is one.
    fn relay(self, seed: u64) -> Option<Noise> {
        let mut random = Random::part(seed, 104);
        let mut runs_ns = |run: &mut dyn FnMut(&mut Random) -> (f64, f64)| {
            (0..1013).map(|_| run(&mut random)).map(|(ran, lost)| (ran as u32, lost as u32)).collect::<Vec<_>>()
        };
        let runs_ns = match self {
            // Most are short.
            Self::LateRelay => runs_ns(&mut |it| (it.exponential(20e6), 1e5 * 60_f64.powf(it.unit()))),
            Self::StarvedRelay => runs_ns(&mut |it| (1e6 + 4e6 * it.unit(), 1e6 + 4e6 * it.unit())),
            _ => return None,
        };
        let late_ns = (0..1009).map(|_| (3_000.0 + random.exponential(8_000.0)).min(60_000.0) as u32).collect();
        Some(Noise { late_ns, runs_ns, ..Noise::default() })
    }

    /// The path: a link with Poisson's cross traffic, and the trouble.
    pub(crate) fn spec(self, capacity: u64, load: u64, seed: u64) -> TrainSpec {
        let cell = Cell { capacity, load, model: Model::Poisson, hops: 1 };
        let mut spec = cell.spec(seed);
        let any = |it: Self| self == it || self == Self::All;
        if let Some(noise) = self.relay(seed) {
            // It sends a few times as fast as the link, as single sends of a program are: 4 us.
            spec.relay = RelaySpec { noise, packet_ns: 4_000.min(u64::from(SIZE) * 8_000_000_000 / capacity / 3) };
        }
        if any(Self::Loss) {
            spec.path.hops[0].loss = LossModel::Random { probability: 0.01 };
        }
        if any(Self::Delay) {
            spec.path.hops[0].delay_ns = 20_000_000;
            spec.answer_ns = 20_000_000;
        }
        if any(Self::Reorder) {
            spec.path.detour = Detour { probability: 0.02, extra_ns: 1_000_000 };
        }
        if any(Self::SenderPauses) {
            spec.sender.noise.pauses = pauses(seed, 101);
        }
        if any(Self::ReceiverStalls) {
            spec.receiver_stalls = pauses(seed, 102);
        }
        if any(Self::Coalescing) {
            spec.receiver.coalesce_ns = 50_000;
        }
        if any(Self::LateSender) {
            let mut random = Random::part(seed, 103);
            spec.sender.noise.late_ns = (0..1009).map(|_| random.exponential(1_500.0).min(20_000.0) as u32).collect();
            spec.sender.stamps = false;
        }
        if any(Self::Skew) {
            spec.receiver_clock = PeerClock { offset_ns: 10_000_000_000_000, skew_ppb: 80_000 };
        }
        let packet_ns = f64::from(SIZE) * 8e9 / capacity as f64;
        if matches!(self, Self::Bucket | Self::IdleBucket | Self::SlowSender | Self::Policer) {
            let least = if self == Self::Policer { 4 } else { 2 };
            spec.path.hops[0].bucket_byte = (capacity / 40_000).max(least * u64::from(SIZE));
            spec.path.hops[0].polices = self == Self::Policer;
        }
        if matches!(self, Self::IdleBucket | Self::SlowSender) {
            spec.path.hops[0].cross.clear();
        }
        if self == Self::SlowSender {
            let mut random = Random::part(seed, 105);
            let late_ns = (0..1009).map(|_| (0.1 * packet_ns * random.unit()) as u32).collect();
            spec.sender = SenderSpec { call_ns: 0.92 * packet_ns, large_sends: true, ..spec.sender };
            spec.sender.noise.late_ns = late_ns;
        }
        if self == Self::Clumps {
            let late_ns = [3.0, 2.0, 1.0, 0.0].map(|packets| (packets * packet_ns) as u32).to_vec();
            spec.relay = RelaySpec { noise: Noise { late_ns, ..Noise::default() }, packet_ns: packet_ns as u64 / 60 };
            spec.sender = SenderSpec { call_ns: 1.5 * packet_ns, large_sends: true, ..spec.sender };
        }
        if self == Self::NarrowBefore {
            // A quarter more than the tight link has left.
            let narrow = capacity * (100 - load) / 80;
            spec.path.hops.insert(0, HopSpec::new(narrow, capacity / 16, 300_000));
        }
        spec
    }
}
