//! The series of readings of one source, kept as an exact distribution.
//!
//! Readings are taken in chunks into memory that is already there; between chunks they are folded into histograms. The
//! fold falls between two chunks, so it is in no difference. A raw reading of 64 bits is stored rather than a
//! difference of 32, so that a gap of seconds (a guest that was paused) is exact too.

use std::hint::black_box;

use vtare_sys::sched;
use vtare_units::Span;
use vtare_units::figures::{ExactHistogram, Figures};

use super::cell::{TimerCell, TimerRow};
use super::loops::{Loops, Timed};
use super::sources::{Reads, Source, Unit};
use crate::failure::Failure;
use crate::instrument::Note;
use crate::samples::Samples;
use crate::sentences::timer as words;
use vtare_clock::Clock;

/// Readings in one chunk: 256 KiB, which stays in the second-level cache.
const CHUNK: usize = 1 << 15;
/// Readings before each chunk that are not kept: they bring code and data back into the caches after the fold.
const WARM_UP: usize = 64;
/// Slow readings of one source that keep their position; further ones go to the histogram, so that the file stays below
/// 20 MB where every reading is slow.
const MOST_TAIL_ROWS: u64 = 500_000;

/// A chunk's memory, touched so that no page fault falls into a reading.
pub(super) fn buffer() -> Vec<u64> {
    let mut buffer = vec![1; CHUNK + 1];
    black_box(&mut buffer).fill(0);
    buffer
}

/// The readings of one source so far.
pub(super) struct Series {
    source: Source,
    unit: Unit,
    /// Raw differences up to this one are not in the tail.
    tail_from: i64,
    body: ExactHistogram,
    tail: ExactHistogram,
    /// Slow readings beyond [`MOST_TAIL_ROWS`], kept without position.
    beyond: ExactHistogram,
    tail_rows: u64,
    raw_sum: i64,
    elapsed: Span,
    loops: Loops,
}

struct Record<'a>(&'a mut [u64]);

impl Reads for Record<'_> {
    type Answer = ();

    // Never inlined: each source gets one loop of its own, the same for every chunk.
    #[inline(never)]
    fn with(self, read: impl Fn() -> u64) {
        for _ in 0..WARM_UP {
            black_box(read());
        }
        for slot in self.0 {
            *slot = read();
        }
    }
}

/// Times a loop of that many reads.
struct TimeLoop<'a>(&'a Clock, u64);

impl Reads for TimeLoop<'_> {
    type Answer = Span;

    #[inline(never)]
    fn with(self, read: impl Fn() -> u64) -> Span {
        let mut sum = 0_u64;
        let from = self.0.now_ordered();
        for _ in 0..self.1 / 8 {
            for _ in 0..8 {
                // The sum uses every reading, so that no conversion is left out as dead code.
                sum = sum.wrapping_add(read());
            }
        }
        for _ in 0..self.1 % 8 {
            sum = sum.wrapping_add(read());
        }
        black_box(sum);
        self.0.now_ordered() - from
    }
}

impl Series {
    /// An empty series.
    pub(super) fn new(source: Source, clock: &Clock, tail_ns: u64) -> Self {
        let unit = source.unit();
        Self {
            source,
            unit,
            tail_from: raw_limit(tail_ns, |raw| unit.picos(clock, raw)),
            body: ExactHistogram::default(),
            tail: ExactHistogram::default(),
            beyond: ExactHistogram::default(),
            tail_rows: 0,
            raw_sum: 0,
            elapsed: Span::ZERO,
            loops: Loops::default(),
        }
    }

    /// What is read.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// How many differences there are.
    pub(super) fn readings(&self) -> u64 {
        self.body.n() + self.tail.n()
    }

    /// How long reading took, folding included.
    pub(super) fn elapsed(&self) -> Span {
        self.elapsed
    }

    /// The loops of reads timed so far.
    pub(super) fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Takes one chunk of readings, at most up to `goal`.
    pub(super) fn extend(
        &mut self,
        buffer: &mut [u64],
        goal: u64,
        clock: &Clock,
        samples: &mut Samples,
    ) -> Result<(), Failure> {
        let wanted = goal.saturating_sub(self.readings()).min(CHUNK as u64);
        let chunk = &mut buffer[..wanted as usize + 1];
        let from = clock.now();
        self.source.read_with(clock, Record(chunk));
        self.fold(chunk, clock, samples)?;
        self.elapsed += clock.now() - from;
        Ok(())
    }

    fn fold(&mut self, chunk: &[u64], clock: &Clock, samples: &mut Samples) -> Result<(), Failure> {
        let first = self.readings().cast_signed();
        for (index, pair) in (first..).zip(chunk.windows(2)) {
            let raw = pair[1].wrapping_sub(pair[0]).cast_signed();
            self.raw_sum = self.raw_sum.saturating_add(raw);
            if raw <= self.tail_from {
                self.body.add(raw);
            } else {
                self.tail.add(raw);
                self.keep_slow(raw, index, clock, samples)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn keep_slow(&mut self, raw: i64, index: i64, clock: &Clock, samples: &mut Samples) -> Result<(), Failure> {
        if !samples.kept() {
            return Ok(());
        }
        if self.tail_rows >= MOST_TAIL_ROWS {
            self.beyond.add(raw);
            return Ok(());
        }
        self.tail_rows += 1;
        let cost_ps = self.unit.picos(clock, raw);
        let name = self.source.to_string();
        samples.row(&TimerRow { source: &name, index: Some(index), cost_ps, count: 1 })?;
        Ok(())
    }

    /// Times loops of reads ([`Loops::extend`]).
    pub(super) fn time_loops(&mut self, clock: &Clock, readings: u64, cap: Option<Span>) {
        let switches = || sched::thread_usage().involuntary_switches;
        let source = self.source;
        self.loops.extend(readings, cap, |reads| {
            let before = switches();
            let span = source.read_with(clock, TimeLoop(clock, reads));
            Timed { span, preempted: switches() != before }
        });
    }

    /// The rows of the samples file that have no position: `(cost_ps, count)`.
    pub(super) fn histogram_rows(&self, clock: &Clock) -> Vec<(i64, u64)> {
        self.in_picos(clock, self.body.counts().into_iter().chain(self.beyond.counts()))
    }

    /// A note where the tail was too long to keep every position.
    pub(super) fn note(&self) -> Option<Note> {
        (self.beyond.n() > 0)
            .then(|| Note::new("tail_capped", words::tail_capped(self.source, self.tail_rows, self.beyond.n())))
    }

    /// The figures.
    pub(super) fn cell(&self, clock: &Clock) -> TimerCell {
        let counts = self.in_picos(clock, self.body.counts().into_iter().chain(self.tail.counts()));
        let seconds = self.unit.picos(clock, self.raw_sum) as f64 / 1e12;
        TimerCell {
            source: Some(self.source),
            cost_ns: Figures::of_counts(&counts).scaled(1e-3),
            read_cost_ns: self.loops.read_cost_ns(),
            preempted_loops: self.loops.preempted(),
            exceed_per_s: (seconds > 0.0).then(|| self.tail.n() as f64 / seconds),
        }
    }

    fn in_picos(&self, clock: &Clock, counts: impl Iterator<Item = (i64, u64)>) -> Vec<(i64, u64)> {
        counts.map(|(raw, count)| (self.unit.picos(clock, raw), count)).collect()
    }
}

/// The greatest raw difference that is not above `tail_ns`, where `picos` rises with the raw difference.
fn raw_limit(tail_ns: u64, picos: impl Fn(i64) -> i64) -> i64 {
    let tail_ps = tail_ns.saturating_mul(1_000).cast_signed();
    let (mut below, mut above) = (0, 1);
    while picos(above) <= tail_ps {
        (below, above) = (above, above * 2);
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if picos(middle) <= tail_ps { below = middle } else { above = middle }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn the_limit_of_the_tail_is_exact_in_raw_units() {
        assert_eq!(raw_limit(1_000, |raw| raw * 1_000), 1_000);
        // 2.6 GHz: 385 ps a tick; 2597 ticks are 999.8 ns, 2598 are 1000.2 ns.
        assert_eq!(raw_limit(1_000, |raw| raw * 385), 2_597);
        assert_eq!(raw_limit(1, |raw| raw * 1_000_000), 0);
    }

    #[test]
    fn a_chunk_of_known_readings_folds_into_body_and_tail() {
        let context = Context::without_signals();
        let clock = context.clock();
        let mut series = Series::new(Source::ClockMonotonic, clock, 1_000);
        let mut samples = Samples::discard();
        series.fold(&[100, 125, 150, 1_150, 2_151], clock, &mut samples).expect("nothing is written");
        series.fold(&[9_000, 9_025], clock, &mut samples).expect("nothing is written");
        // 25, 25, 1000 | 25 in the body (1000 is not above the limit), 1001 in the tail; 2151 to 9000 is no difference.
        assert_eq!(series.readings(), 5);
        assert_eq!(series.histogram_rows(clock), [(25_000, 3), (1_000_000, 1)]);
        let cell = series.cell(clock);
        assert_eq!((cell.cost_ns.median, cell.cost_ns.max), (Some(25.0), Some(1_001.0)));
        let per_s = cell.exceed_per_s.expect("time has passed");
        assert!((per_s - 1e9 / 2_076.0).abs() < 1e-3, "{per_s}");
    }

    #[test]
    fn every_source_that_is_available_gives_the_readings_asked_for() {
        let context = Context::without_signals();
        let clock = context.clock();
        let mut buffer = buffer();
        for source in Source::available(clock) {
            let mut series = Series::new(source, clock, 1_000);
            let goal = CHUNK as u64 + 100;
            while series.readings() < goal {
                series.extend(&mut buffer, goal, clock, &mut Samples::discard()).expect("nothing is written");
            }
            series.time_loops(clock, 0, None);
            assert_eq!(series.readings(), goal, "{source}");
            let cell = series.cell(clock);
            assert!(cell.read_cost_ns.n + cell.preempted_loops >= 1, "{source}");
        }
    }
}
