//! What all trains so far show: pure functions of their history.

use super::account::{Bounds, Path, account};
use super::capacity::Capacity;
use super::cases::Case;
use super::points::Point;
use super::tight::{self, Ratio, Response};
use super::tuning as t;
use crate::avb::Ability;

/// A primed train and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The points behind its head, from where links before the tight one have settled.
    pub(super) points: Vec<Point>,
    /// It lost packets where the delay was highest: how long the queue was then, ns.
    pub(super) overflowed_ns: Option<f64>,
    /// It was a train that measures, not one that approaches.
    pub(super) measured: bool,
    /// How long packets waited behind the tight link, ns.
    pub(super) held_ns: f64,
}

/// All trains of one value, and what earlier ones showed of the path.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// What gaps show of the capacity.
    pub(super) capacity: Capacity,
    /// Rate at which the sender's card, or a link before a policer, lets packets go, bit/s.
    pub(super) line: f64,
    /// The capacity before there was a gap that shows it, bit/s, and the least that trains left the path with.
    pub(super) at_least: f64,
    /// The least delay so far, ns.
    pub(super) base_ns: f64,
    /// Where the first, back-to-back train lets the value be expected, bit/s.
    pub(super) first_guess: f64,
    /// How long an arrival may wait for its stamp, s.
    pub(super) grain_s: f64,
    /// Depth of a token bucket, bytes.
    pub(super) bucket_byte: Option<f64>,
    /// The longest train that kept the queue busy, s.
    pub(super) longest_s: f64,
    /// The special case that is switched off.
    pub(super) without: Option<Case>,
    /// The primed trains.
    pub(super) trains: Vec<Record>,
}

/// One train under what is known of the path now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The part of it with the narrowest interval.
    pub(super) best: Bounds,
    /// All of it.
    pub(super) whole: Bounds,
    /// The longest wait behind the tight link, as a share of its time.
    pub(super) held: f64,
    pub(super) measured: bool,
    pub(super) overflowed_ns: Option<f64>,
}

/// What the history shows.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) path: Path,
    pub(super) readings: Vec<Reading>,
    /// The value to plan the next train by, bit/s.
    pub(super) near: f64,
    /// Variance of the cross traffic per time, bit^2/s.
    pub(super) burst: f64,
    /// Standard deviations of it for which the queue is filled.
    pub(super) prime: f64,
    /// Trains in a row that emptied the queue.
    pub(super) drained: u32,
    /// The last train's rate was far from the value.
    pub(super) astray: bool,
    /// Most that the queue may be made to hold, bits.
    pub(super) room_bit: f64,
}

impl History {
    /// Whether this special case is not switched off.
    pub(super) fn has(&self, case: Case) -> bool {
        self.without != Some(case)
    }

    /// Capacity of the narrow link, bit/s, and its standard error as a share.
    pub(super) fn narrow(&self) -> Option<(f64, f64)> {
        let (found, error) =
            self.capacity.estimate().or((self.at_least > 0.0).then_some((self.at_least, t::SCATTERED_ERROR)))?;
        Some(if self.at_least > t::OUTGROWN * found { (self.at_least, t::SCATTERED_ERROR) } else { (found, error) })
    }

    fn path(&self, ability: &Ability, packet_byte: u32, ratio: &Ratio, dispersion: f64) -> Option<Path> {
        let (narrow, error) = self.narrow()?;
        Some(Path {
            capacity: ratio.value * narrow,
            capacity_error: error.max(t::CAPACITY_ERROR).hypot(ratio.error / ratio.value),
            narrow: (narrow, error.max(t::CAPACITY_ERROR)),
            ratio: *ratio,
            base_ns: self.base_ns,
            stamp_error_ns: ability.stamp_error_ns,
            grain_ns: self.grain_s * 1e9,
            bucket_ns: self.bucket_byte.unwrap_or(0.0) * 8e9 / (ratio.value * narrow),
            packet_bit: f64::from(packet_byte) * 8.0,
            dispersion,
        })
    }

    fn readings(&self, path: &Path) -> Vec<Reading> {
        let parts = self.has(Case::Part);
        let reading = |train: &Record| {
            let (best, whole) = account(&train.points, parts, path)?;
            let held = train.held_ns / 1e9 / whole.seconds();
            Some(Reading { best, whole, held, measured: train.measured, overflowed_ns: train.overflowed_ns })
        };
        self.trains.iter().filter_map(reading).collect()
    }

    /// What all of it shows; `None` before the capacity is known.
    pub(super) fn evidence(&self, ability: &Ability, packet_byte: u32, follows: bool) -> Option<Evidence> {
        let first = self.path(ability, packet_byte, &Ratio::ONE, 0.0)?;
        let narrow = self.readings(&first);
        let respond = |reading: &Reading| Response {
            rate: reading.best.rate,
            slope: reading.best.slope,
            slope_error: (reading.best.end_error / first.capacity).hypot(reading.held),
            spread: (reading.best.burst / reading.best.seconds()).sqrt().hypot(reading.best.idle) / first.capacity,
        };
        let responses: Vec<Response> = narrow.iter().map(respond).collect();
        // Where a run follows changes, what moved from train to train may be the path.
        let ratio =
            if follows || !self.has(Case::TightLink) { Ratio::ONE } else { tight::ratio(&responses, first.narrow) };
        let dispersion = narrow.iter().map(|reading| reading.best.dispersion).fold(0.0, f64::max);
        let path = self.path(ability, packet_byte, &ratio, dispersion)?;
        let mut readings = self.readings(&path);
        if self.has(Case::Moving) {
            doubt(&mut readings, path.ratio.other);
        }
        Some(self.steer(path, readings))
    }

    /// Where the next train should go.
    fn steer(&self, path: Path, readings: Vec<Reading>) -> Evidence {
        let mut out = Evidence {
            path,
            readings: Vec::new(),
            near: self.first_guess,
            burst: 0.0,
            prime: t::PRIME,
            drained: 0,
            astray: false,
            room_bit: f64::INFINITY,
        };
        for reading in &readings {
            let whole = &reading.whole;
            if let Some(queued_ns) = reading.overflowed_ns {
                // What got in is what counts, but cross traffic was lost as well.
                out.room_bit = (t::OVERFLOWED * path.capacity * queued_ns / 1e9)
                    .min(t::OVERFLOWED * out.room_bit)
                    .max(t::LEAST_POINTS as f64 * path.packet_bit);
                out.near = (t::OVERFLOWED * whole.rate).min(out.near);
                out.drained = 0;
                continue;
            }
            out.burst = whole.burst.max(0.5 * out.burst);
            out.astray = whole.drained() || path.capacity * whole.slope.abs() > t::ASTRAY * whole.rate;
            if whole.drained() {
                out.drained += 1;
                out.prime *= t::PRIME_MORE;
                let part = if reading.best.drained() { None } else { Some(reading.best.value()) };
                // What a token bucket passes without a queue shows no more than that: what was expected may still hold.
                let bucket = path.bucket_ns > 0.0;
                let open = if bucket { out.near.clamp(whole.least, whole.least + whole.idle) } else { whole.value() };
                out.near = part.map_or(open, |part| part.max(whole.least)).min(path.carries());
            } else {
                out.drained = out.drained.saturating_sub(1);
                out.near = steered(&reading.best).min(path.carries());
            }
        }
        out.readings = readings;
        out
    }
}

/// Where the tight link may not be the narrow one, a value that still moves from train to train may go on moving: other
/// links fill and drain as well.
fn doubt(readings: &mut [Reading], other_link: f64) {
    let values: Vec<f64> = readings.iter().map(|reading| reading.best.value()).collect();
    for (place, reading) in readings.iter_mut().enumerate().skip(1) {
        let moved = other_link * (values[place] - values[place - 1]).abs();
        reading.best.moved = moved;
        reading.best.error = reading.best.error.hypot(moved);
    }
}

/// The value to steer by, bit/s. A short train at a rate far above it hardly separates a small value from none; a rate
/// below it would empty the queue and take all the time there is: so towards the upper end of what it may be.
fn steered(bounds: &Bounds) -> f64 {
    let value = bounds.value();
    (value + t::SIDES * bounds.error).min(bounds.rate / 2.0).max(value)
}

impl Evidence {
    /// The readings that agree with the last one, from it back.
    fn agreeing(&self) -> &[Reading] {
        let Some(last) = self.readings.iter().rev().find(|it| it.overflowed_ns.is_none()).map(|it| it.best) else {
            return &[];
        };
        let spread = |it: &Bounds| it.error.powi(2) + it.burst.max(last.burst) / it.seconds();
        let agrees = |it: &Bounds| {
            let away = (it.value() - last.value()).abs();
            away <= t::SIDES * (spread(it) + spread(&last)).sqrt()
                + (it.idle + last.idle) / 2.0
                + t::LITTLE * last.least.abs()
        };
        let carried = t::OUTGROWN * self.path.capacity * (1.0 + t::SIDES * self.path.capacity_error);
        let bad = |it: &Reading| it.overflowed_ns.is_none() && (!agrees(&it.best) || it.best.least > carried);
        let since = self.readings.iter().rposition(bad).map_or(0, |before| before + 1);
        &self.readings[since..]
    }

    /// The narrowest account of those that agree; whether it is one that measured.
    pub(super) fn answer(&self) -> Option<(Bounds, bool)> {
        let narrowest = |measured: bool| {
            let of = self.agreeing().iter().filter(|it| it.overflowed_ns.is_none());
            let of = of.filter(|it| !measured || it.measured);
            of.map(|it| it.best).min_by(|a, b| a.width().total_cmp(&b.width()))
        };
        narrowest(true).map(|it| (it, true)).or_else(|| narrowest(false).map(|it| (it, false)))
    }

    /// Rate at which packets sent back to back come to the tight link, bit/s: a link before it may be as slow as that.
    pub(super) fn inflow(&self, history: &History) -> f64 {
        let slowest =
            if self.room_bit.is_finite() || history.bucket_byte.is_some() { f64::INFINITY } else { self.path.capacity };
        history.line.min(slowest).max(t::OUTGROWN * self.near)
    }
}
