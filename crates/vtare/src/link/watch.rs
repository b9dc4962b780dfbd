use std::sync::mpsc::Sender;

use vtare_emulator::{Bin, Watch};
use vtare_units::Span;
use vtare_units::figures::LogHistogram;

/// The time over which a rate counts as kept.
const WINDOW_NS: i64 = 100_000_000;
/// The rate of a window counts as kept where no more than one frame in this number was late.
const KEPT: u64 = 100;

/// How late frames left one direction, and how fast they did.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    /// All lateness.
    pub(super) histogram: LogHistogram,
    /// The greatest, ns.
    pub(super) most_ns: Option<i64>,
    /// Frames later than the limit.
    pub(super) late: u64,
    /// The highest rate over 100 ms, bit/s of IP.
    pub(super) highest_bit_per_s: Option<u64>,
    /// The highest at which no more than 1 % of the frames were late.
    pub(super) highest_kept_bit_per_s: Option<u64>,
    window: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    released_ns: i64,
    frames: u64,
    late: u64,
    byte: u64,
}

impl Lateness {
    fn add(&mut self, late_ns: i64, limit_ns: i64, byte: u32) {
        self.histogram.add(late_ns);
        self.most_ns = self.most_ns.max(Some(late_ns));
        let is_late = late_ns > limit_ns;
        self.late += u64::from(is_late);
        self.window.frames += 1;
        self.window.late += u64::from(is_late);
        self.window.byte += u64::from(byte);
    }

    /// Passes 10 ms. The first and the last window of a run may be cut short: they are lower, never higher.
    fn pass(&mut self, span_ns: i64) {
        self.window.released_ns += span_ns;
        if self.window.released_ns < WINDOW_NS {
            return;
        }
        let Window { released_ns, frames, late, byte } = std::mem::take(&mut self.window);
        if frames == 0 {
            return;
        }
        let rate = u64::try_from(u128::from(byte) * 8_000_000_000 / u128::from(released_ns.unsigned_abs())).ok();
        self.highest_bit_per_s = self.highest_bit_per_s.max(rate);
        if late * KEPT <= frames {
            self.highest_kept_bit_per_s = self.highest_kept_bit_per_s.max(rate);
        }
    }
}

/// Keeps lateness, and hands bins to whoever writes them.
pub(super) struct Observer {
    pub(super) lanes: [Lateness; 2],
    limit_ns: i64,
    bins: Sender<(usize, Bin)>,
}

impl Observer {
    pub(super) fn new(limit_ns: u64, bins: Sender<(usize, Bin)>) -> Self {
        let limit_ns = i64::try_from(limit_ns).unwrap_or(i64::MAX);
        Self { lanes: [Lateness::default(), Lateness::default()], limit_ns, bins }
    }
}

impl Watch for Observer {
    fn released(&mut self, lane: usize, late: Span, packet_byte: u32) {
        self.lanes[lane].add(late.as_nanos(), self.limit_ns, packet_byte);
    }

    fn bin(&mut self, lane: usize, bin: &Bin) {
        self.lanes[lane].pass(vtare_emulator::BIN_NS.cast_signed());
        // The writer has ended: its error is reported at the end.
        let _ = self.bins.send((lane, *bin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_as_kept_where_one_frame_in_a_hundred_is_late_at_most() {
        let mut lateness = Lateness::default();
        let mut window = |frames: u64, late: u64| {
            for frame in 0..frames {
                lateness.add(if frame < late { 60_000 } else { 1_000 }, 50_000, 1_250);
            }
            (0..10).for_each(|_| lateness.pass(10_000_000));
            (lateness.highest_bit_per_s, lateness.highest_kept_bit_per_s)
        };
        // 100 frames of 1250 B in 100 ms are 10 Mbit/s.
        assert_eq!(window(100, 1), (Some(10_000_000), Some(10_000_000)));
        assert_eq!(window(200, 3), (Some(20_000_000), Some(10_000_000)));
        assert_eq!(window(0, 0), (Some(20_000_000), Some(10_000_000)), "an empty window changes nothing");
        assert_eq!((lateness.late, lateness.most_ns), (4, Some(60_000)));
    }
}
