//! The next train: what it is for, and that bytes and time are left for it.

use super::depth::credit_ns;
use super::{Losses, MODEL_PART, PathProbe, SHARES, Stage};
use crate::avb::{Spacing, Train, group};
use vtare_units::Random;

impl PathProbe {
    /// The train of this stage; `None` where it has none.
    pub(super) fn train(&self) -> Option<Train> {
        let (byte, left) = (f64::from(self.size_byte()), self.left_byte());
        let train = match self.stage {
            Stage::Avb | Stage::Done => return None,
            Stage::Light => {
                let rate = SHARES[0] * self.free()?;
                let most_byte = self.trains.light_byte * self.most_byte();
                self.paced((self.train_byte(most_byte, rate) / byte) as u32, rate)
            }
            Stage::Fill(packets) => Train::back_to_back(packets, self.size_byte()),
            Stage::Held(_) => self.held()?,
            Stage::Over => self.over()?,
        };
        let packets = train.packets.min(self.setup.ability.most_packets);
        let idle_ns = self.longest_ns();
        // The burst is the measurement: what it takes to send it does not depend on the path.
        let lasts_ns = if matches!(self.stage, Stage::Fill(_)) { 0.0 } else { train.duration_ns() };
        (packets > 0 && f64::from(packets) * byte <= left && idle_ns + lasts_ns <= self.left_ns())
            .then(|| Train { packets, ..train }.after_idle(idle_ns as u64))
    }

    fn left_byte(&self) -> f64 {
        (self.most_byte() - self.spent.probe_byte as f64).max(0.0)
    }

    fn left_ns(&self) -> f64 {
        self.budget.most_ns as f64 - 1e9 * self.spent.elapsed_s()
    }

    /// Bytes of a train at this rate: not more than these, and not for longer than its share of the time. A slow path
    /// gets a few packets more.
    fn train_byte(&self, most_byte: f64, rate: f64) -> f64 {
        let time_ns = self.trains.train_time * self.budget.most_ns as f64;
        let few = (self.trains.least_packets * f64::from(self.size_byte())).min(2.0 * rate * time_ns / 8e9);
        (rate * time_ns / 8e9).min(most_byte).max(few)
    }

    /// A train at this rate: single packets, or groups where single sends are too slow.
    fn paced(&self, packets: u32, rate: f64) -> Train {
        let size_byte = self.size_byte();
        let train = Train::constant(packets, size_byte, rate);
        let group = group(rate, size_byte, &self.setup.ability);
        if group < 2 {
            return train;
        }
        let gap_ns = f64::from(group) * f64::from(size_byte) * 8e9 / rate;
        Train { packets: packets.next_multiple_of(group), spacing: Spacing::groups(group, gap_ns), ..train }
    }

    /// A burst, then a stream at this rate.
    fn primed(&self, head_byte: f64, stream_byte: f64, rate: f64) -> Option<Train> {
        let byte = f64::from(self.size_byte());
        let stream = self.paced((stream_byte.min(self.left_byte() - head_byte - byte).max(0.0) / byte) as u32, rate);
        if f64::from(stream.packets) < self.trains.least_packets / 2.0 {
            return None;
        }
        let (group, gap_ns) = match stream.spacing {
            Spacing::Primed { packets, gap_ns, .. } => (packets, gap_ns),
            _ => (1, byte * 8e9 / rate),
        };
        let head = ((head_byte / byte) as u32).max(1);
        let ability = &self.setup.ability;
        let after_ns = f64::from(head) * ability.least_gap_ns / f64::from(ability.most_group.max(1));
        let spacing = Spacing::Primed { head, after_ns: after_ns.max(gap_ns), packets: group, gap_ns };
        Some(Train { packets: head + stream.packets, size_byte: self.size_byte(), spacing, idle_before_ns: 0 })
    }

    /// What a token bucket passes at once, bytes: by abacus, or by the bursts.
    fn bucket_byte(&self) -> f64 {
        let by_abacus = self.estimate.as_ref().and_then(|estimate| estimate.token_bucket_byte).unwrap_or(0.0);
        let drain = self.depth().map_or(0.0, |depth| depth.drain_bit_per_s);
        by_abacus.max(credit_ns(&self.readings()) * drain / 8e9)
    }

    /// What is free, bit/s: by the cross traffic seen so far; by abacus, but no more than the queue drains; or all of
    /// that, where abacus found nothing (its bytes may end while a token bucket lets all pass).
    fn free_by_now(&self) -> Option<f64> {
        if let Some((cross, rate)) = self.cross() {
            return Some(cross.free_share() * rate);
        }
        let drain = self.depth().map(|depth| depth.drain_bit_per_s);
        self.free().map(|free| drain.map_or(free, |drain| free.min(drain))).or(drain)
    }

    /// The trains so far show what waits in the queue at 90 % of what is free: its interval is short beside the depth.
    fn is_known(&self) -> bool {
        let known = self.cross().zip(self.depth()).and_then(|((cross, _), depth)| {
            let waits = cross.waits(SHARES[1], &mut Random::part(self.setup.seed, MODEL_PART))?;
            Some(waits.interval_ns[1] - waits.interval_ns[0] < self.trains.known * depth.time_ns)
        });
        known.unwrap_or(false)
    }

    /// A stream at what is free: the queue runs neither empty nor full.
    fn held(&self) -> Option<Train> {
        let rate = self.trains.held_rate * self.free_by_now()?;
        // What the last train needs is kept for it.
        let last_byte = self.depth().map_or(0.0, |depth| self.last_byte(depth.byte));
        let most_byte = (self.trains.held_byte * self.most_byte()).min(self.left_byte() - last_byte);
        let head_byte = self.bucket_byte();
        self.primed(head_byte, self.train_byte(most_byte, rate).min(most_byte - head_byte), rate)
    }

    /// Bytes of the last train at least, where the buffer holds this many.
    fn last_byte(&self, depth_byte: f64) -> f64 {
        let stream_byte = self.trains.least_packets * f64::from(self.size_byte());
        self.trains.head_share * depth_byte + self.bucket_byte() + stream_byte
    }

    /// The queue filled, then held by 110 % of what is free.
    fn over(&self) -> Option<Train> {
        let rate = SHARES[2] * self.free_by_now()?;
        let bucket_byte = self.bucket_byte();
        match self.depth() {
            Some(depth) => {
                let stream_byte = self.train_byte(self.trains.over_packets * f64::from(self.size_byte()), rate);
                self.primed(self.trains.head_share * depth.byte + bucket_byte, stream_byte, rate)
            }
            // All that is left.
            None if self.is_suspect() => {
                let left_ns = self.left_ns() - self.longest_ns();
                self.primed(bucket_byte, rate * left_ns.max(0.0) / 8e9, rate)
            }
            None => None,
        }
    }

    /// The stage behind this one.
    pub(super) fn after(&self) -> Stage {
        match self.stage {
            Stage::Avb => Stage::Light,
            Stage::Light => Stage::Fill(self.first_burst()),
            Stage::Fill(packets) => self.next_burst(packets).map_or_else(|| self.after_filling(), Stage::Fill),
            Stage::Held(number) if f64::from(number) < self.trains.held_trains && !self.is_known() => {
                Stage::Held(number + 1)
            }
            Stage::Held(_) => Stage::Over,
            Stage::Over | Stage::Done => Stage::Done,
        }
    }

    /// The stage behind the last burst.
    pub(super) fn after_filling(&self) -> Stage {
        if self.is_suspect() { Stage::Over } else { Stage::Held(1) }
    }

    /// Packets of the burst behind one of `packets`; `None` where no more is to be learned.
    fn next_burst(&self, packets: u32) -> Option<u32> {
        let policed = self.readings().last().is_some_and(|reading| reading.losses == Losses::Policed);
        // All that is left for one that keeps the queue standing, where it may manage itself.
        if self.depth().is_some() || policed || self.is_suspect() {
            return None;
        }
        let byte = f64::from(self.size_byte());
        let (before, left) = (f64::from(packets), self.left_byte());
        // Where this burst fills the buffer, bytes are left for the last train; else all of them are for the burst.
        let half = (left - self.last_byte(0.0)) / (1.0 + self.trains.head_share) / byte;
        let next = half.min(self.trains.growth * before);
        let next = if next >= self.trains.half_growth * before { next } else { left / byte };
        let next = (next as u32).min(self.setup.ability.most_packets);
        (f64::from(next) >= self.trains.least_growth * before).then_some(next)
    }

    /// Packets of the first burst: more than abacus had queued at once.
    fn first_burst(&self) -> u32 {
        let queued_ns = self.estimate.as_ref().and_then(|estimate| estimate.queued_ns).unwrap_or(0.0);
        let byte = f64::from(self.size_byte());
        let most = (self.left_byte() / self.trains.growth / byte) as u32;
        ((self.trains.first_times * queued_ns * self.rate().unwrap_or(0.0) / 8e9 / byte) as u32)
            .min(most)
            .max(self.trains.least_packets as u32)
    }
}
