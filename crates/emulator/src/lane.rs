use std::collections::VecDeque;

use vtare_pathsim::{Hop, HopSpec};
use vtare_units::Random;

use crate::spec::{Buffer, Jitter, JitterShape, LaneSpec, PARETO_SHAPE, RatePlan, SpecError};
use crate::truth::{BIN_NS, Bin, LaneCount};

/// When a frame is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When, ns since the start.
    pub at_ns: u64,
    /// Whether it takes longer than those around it (`reorder`).
    pub detoured: bool,
    /// When its copy leaves, where it has one.
    pub copy_at_ns: Option<u64>,
    /// Whether it waited for so long that it is to be marked, where it is ECN-capable.
    pub marked: bool,
    /// Random bits that choose the bit to turn over, where one is to be.
    pub damage: Option<u64>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves.
    Due(Due),
    /// The loss model took it.
    Lost,
    /// The queue was full.
    Overflow,
}

/// One direction: frames in, in the order of their arrival; their times of departure out. Time is ns since the start.
///
/// ```
/// use vtare_emulator::{Fate, Lane, LaneSpec};
/// // 100 Mbit/s and 5 ms: 1250 B take 100 us to send.
/// let spec = LaneSpec { rate: LaneSpec::steady(100_000_000), delay_ns: 5_000_000, ..LaneSpec::default() };
/// let mut lane = Lane::new(&spec, 1)?;
/// let due = |fate| match fate { Fate::Due(due) => Some(due.at_ns), _ => None };
/// assert_eq!(due(lane.pass(0, 1250, false)), Some(5_100_000));
/// // The second one, which came at once, waits for the first.
/// assert_eq!(due(lane.pass(0, 1250, false)), Some(5_200_000));
/// # Ok::<(), vtare_emulator::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lane {
    spec: LaneSpec,
    /// The queue, its rate and the loss; `plan` is `None` where the queue is served at once.
    hop: Hop,
    plan: Option<RatePlan>,
    /// How far ahead of a frame the rate must be known.
    horizon_ns: u64,
    /// Departures of the frames in the queue, where they are what is limited.
    waiting: VecDeque<u64>,
    random: Random,
    last_due_ns: u64,
    count: LaneCount,
    bin: Bin,
}

impl Lane {
    /// The direction of `spec`; `seed` fixes all that is random in it.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn new(spec: &LaneSpec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let plan = (!spec.rate.is_empty()).then(|| RatePlan::new(&spec.rate));
        let buffer_byte = match spec.buffer {
            Buffer::Byte(most) => most,
            Buffer::Packet(_) => u64::MAX,
        };
        let mut hop = HopSpec::new(plan.as_ref().map_or(u64::MAX, |plan| plan.at(0)), buffer_byte, 0);
        hop.loss = spec.loss;
        let hop = Hop::new(&hop, Random::part(seed, 1).bits())?;
        // Frames are 64 KiB at most, also where frames are counted.
        let most_byte = match spec.buffer {
            Buffer::Byte(most) => most.saturating_add(1 << 16),
            Buffer::Packet(most) => most.saturating_add(1).saturating_mul(1 << 16),
        };
        let horizon_ns = plan.as_ref().map_or(0, |plan| plan.longest_ns(most_byte));
        let bin = Bin { capacity_bit_per_s: plan.as_ref().map(|plan| plan.mean(0, BIN_NS)), ..Bin::default() };
        Ok(Self {
            spec: spec.clone(),
            hop,
            plan,
            horizon_ns,
            waiting: VecDeque::new(),
            random: Random::part(seed, 0),
            last_due_ns: 0,
            count: LaneCount::default(),
            bin,
        })
    }

    /// What it counted so far.
    #[must_use]
    pub const fn count(&self) -> LaneCount {
        self.count
    }

    /// A packet arrives at `at_ns` that has `packet_byte` bytes of IP. One that comes with an earlier time than the one
    /// before it enters the queue behind it.
    pub fn pass(&mut self, at_ns: u64, packet_byte: u32, is_probe: bool) -> Fate {
        let size = self.spec.size_byte(packet_byte);
        self.count.arrived_packet += 1;
        self.count.arrived_byte += u64::from(size);
        self.learn_rates(at_ns);
        self.hop.run_until(at_ns);
        if self.hop.next_is_lost() {
            self.count.lost_packet += 1;
            self.bin.lost_packet += 1;
            return Fate::Lost;
        }
        let Some(served_ns) = self.serve(at_ns, size) else {
            self.count.overflow_packet += 1;
            self.bin.overflow_packet += 1;
            return Fate::Overflow;
        };
        self.count.admitted_packet += 1;
        self.count.admitted_byte += u64::from(size);
        let byte = if is_probe { &mut self.bin.probe_byte } else { &mut self.bin.cross_byte };
        *byte += u64::from(size);
        self.count.probe_byte += if is_probe { u64::from(size) } else { 0 };
        if self.plan.is_some() {
            self.bin.queue_most_byte = self.bin.queue_most_byte.max(self.hop.queued_byte());
        }
        let waited_ns = served_ns.saturating_sub(at_ns);
        let marked = self.spec.mark_ns.is_some_and(|most_ns| waited_ns > most_ns);
        Fate::Due(Due { marked, ..self.depart(served_ns) })
    }

    /// A packet was marked.
    pub const fn note_mark(&mut self) {
        self.count.marked_packet += 1;
    }

    /// A frame arrived that this program cannot carry.
    pub fn unable(&mut self, packet_byte: u32) {
        self.count.arrived_packet += 1;
        self.count.arrived_byte += u64::from(self.spec.size_byte(packet_byte));
        self.count.unable_packet += 1;
        self.bin.unable_packet += 1;
    }

    /// It was noticed that the socket dropped frames.
    pub fn note_socket_drops(&mut self, frames: u64) {
        self.bin.socket_drop_frame += frames;
    }

    /// When the frame has been served; `None` where it finds no room.
    fn serve(&mut self, at_ns: u64, size: u32) -> Option<u64> {
        if self.plan.is_none() {
            return Some(at_ns);
        }
        if let Buffer::Packet(most) = self.spec.buffer {
            while self.waiting.front().is_some_and(|served| *served <= at_ns) {
                self.waiting.pop_front();
            }
            if self.waiting.len() as u64 >= most {
                return None;
            }
        }
        let served = self.hop.admit(size)?;
        if matches!(self.spec.buffer, Buffer::Packet(_)) {
            self.waiting.push_back(served);
        }
        Some(served)
    }

    /// What happens behind the queue.
    fn depart(&mut self, served_ns: u64) -> Due {
        let spec = &self.spec;
        let varied = spec.delay_ns.saturating_add_signed(vary(&mut self.random, spec.jitter));
        let mut at_ns = served_ns.saturating_add(varied);
        if !spec.jitter.overtakes {
            at_ns = at_ns.max(self.last_due_ns);
            self.last_due_ns = at_ns;
        }
        let detoured = self.random.chance(spec.reorder.probability);
        if detoured {
            at_ns = at_ns.saturating_add(spec.reorder.extra_ns);
            self.count.reordered_packet += 1;
        }
        let copied = self.random.chance(spec.duplication.probability);
        let copy_at_ns = copied.then(|| at_ns.saturating_add(spec.duplication.after_ns));
        self.count.duplicated_packet += u64::from(copied);
        let damaged = self.random.chance(spec.corruption);
        self.count.corrupted_packet += u64::from(damaged);
        Due { at_ns, detoured, copy_at_ns, marked: false, damage: damaged.then(|| self.random.bits()) }
    }

    fn learn_rates(&mut self, at_ns: u64) {
        let Some(plan) = &mut self.plan else { return };
        let before = at_ns.saturating_add(self.horizon_ns);
        while let Some(step) = plan.next_change(before) {
            self.hop.add_step(step);
        }
    }

    /// Gives every bin that ends by `until_ns`, and begins the next one. Frames that arrive later with an earlier time
    /// count for that one.
    pub fn close_bins(&mut self, until_ns: u64, mut each: impl FnMut(&Bin)) {
        while self.bin.start_ns.saturating_add(BIN_NS) <= until_ns {
            let end = self.bin.start_ns + BIN_NS;
            if self.plan.is_some() {
                self.learn_rates(end);
                self.hop.run_until(end);
                self.bin.queue_byte = self.hop.queued_byte();
            }
            each(&self.bin);
            let capacity_bit_per_s = self.plan.as_ref().map(|plan| plan.mean(end, end + BIN_NS));
            let queue_most_byte = self.bin.queue_byte;
            self.bin = Bin { start_ns: end, capacity_bit_per_s, queue_most_byte, ..Bin::default() };
        }
    }
}

/// What is added to the delay, ns.
fn vary(random: &mut Random, jitter: Jitter) -> i64 {
    let size = jitter.size_ns as f64;
    if jitter.size_ns == 0 {
        return 0;
    }
    let varied = match jitter.shape {
        JitterShape::Uniform => size * (2.0 * random.unit() - 1.0),
        JitterShape::Normal => size * random.normal(),
        JitterShape::Exponential => random.exponential(size),
        JitterShape::Pareto => random.pareto(size, PARETO_SHAPE),
    };
    varied.round() as i64
}
