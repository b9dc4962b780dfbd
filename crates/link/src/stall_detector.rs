use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Span, Timestamp};

/// Time that something took from a link's thread while it did nothing but look: what `vtare noise` measures, beside the
/// run.
///
/// Watched is only the time between two looks of which the later found nothing: work of the run itself is not watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallDetector {
    /// The least difference that counts as a gap, ns.
    pub threshold_ns: u64,
    /// Time watched, gaps included, ns.
    pub watched_ns: u64,
    /// Gaps.
    pub gaps: u64,
    /// The sum of all gaps, ns.
    pub lost_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

impl StallDetector {
    /// A detector of gaps of at least `threshold_ns`.
    #[must_use]
    pub const fn new(threshold_ns: u64) -> Self {
        Self { threshold_ns, watched_ns: 0, gaps: 0, lost_ns: 0, longest_ns: 0 }
    }

    /// Two looks, with nothing done between them.
    #[inline]
    pub(crate) fn watch(&mut self, earlier: Timestamp<Monotonic>, later: Timestamp<Monotonic>) {
        let between = (later - earlier).as_nanos_unsigned();
        self.watched_ns += between;
        if between >= self.threshold_ns {
            self.gaps += 1;
            self.lost_ns += between;
            self.longest_ns = self.longest_ns.max(between);
        }
    }

    /// The share of the watched time that was lost; `None` where nothing was watched.
    #[must_use]
    pub fn lost_fraction(&self) -> Option<f64> {
        (self.watched_ns > 0).then(|| self.lost_ns as f64 / self.watched_ns as f64)
    }

    /// The longest gap; `None` where nothing was watched.
    #[must_use]
    pub fn longest(&self) -> Option<Span> {
        (self.watched_ns > 0).then(|| Span::from_unsigned_nanos(self.longest_ns))
    }
}
