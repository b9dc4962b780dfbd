use super::void::Void;
use super::{Cap, Seen};

/// What is known of the conditions of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Intended load, frames a second.
    pub intended_packet_per_s: f64,
    /// Frames that left over the intended duration, a second.
    pub achieved_packet_per_s: f64,
    /// Share of the time in which the generator's thread stalled; `None` where it was not watched.
    pub stalled_share: Option<f64>,
    /// CPU time of other programs, as share of one CPU; `None` where the system does not report it.
    pub others_share: Option<f64>,
    /// Whether frames came changed.
    pub uncounted: bool,
    /// What the analyser counted, frames a second, where it had no room for some; `None` where it had.
    pub overrun_packet_per_s: Option<f64>,
}

/// When a trial is void.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The generator may be short of the intended rate, or above it, by this share.
    pub most_short: f64,
    /// Its thread may stall for this share of the time.
    pub most_stalled: f64,
    /// Other programs may use this share of one CPU.
    pub most_others: f64,
}

impl Default for Gate {
    /// 0.5 % of the rate, 1 % of the time, 10 % of a CPU.
    fn default() -> Self {
        Self { most_short: 0.005, most_stalled: 0.01, most_others: 0.1 }
    }
}

impl Gate {
    /// Why the trial is void; `None` where it counts.
    ///
    /// ```
    /// use vtare_methods::throughput::{Conditions, Gate, Void};
    /// let seen = Conditions { intended_packet_per_s: 1e5, achieved_packet_per_s: 99_400.0, ..Conditions::default() };
    /// assert_eq!(Gate::default().judge(&seen), Some(Void::GeneratorShort { achieved_packet_per_s: 99_400.0 }));
    /// ```
    #[must_use]
    pub fn judge(&self, conditions: &Conditions) -> Option<Void> {
        if conditions.uncounted {
            return Some(Void::Uncounted);
        }
        let (intended, achieved) = (conditions.intended_packet_per_s, conditions.achieved_packet_per_s);
        // Others first: they explain why a generator is short, and a generator that is short for good would end the
        // search there.
        if let Some(share) = conditions.others_share.filter(|share| *share > self.most_others) {
            return Some(Void::Busy { share });
        }
        if (achieved - intended).abs() > self.most_short * intended {
            return Some(Void::GeneratorShort { achieved_packet_per_s: achieved });
        }
        if let Some(counted_packet_per_s) = conditions.overrun_packet_per_s {
            return Some(Void::Overrun { counted_packet_per_s });
        }
        conditions.stalled_share.filter(|share| *share > self.most_stalled).map(|share| Void::Stalled { share })
    }
}

/// What a search does with a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It counts.
    Counts,
    /// It is made again.
    Again,
    /// The tester, which the cap names, is not so fast: no load above this one can be tried.
    TooFast(u64, Cap),
}

/// Counts the void trials of a search, and makes an end of repeating.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Voids {
    in_row: u32,
    best_packet_per_s: f64,
    /// By the number of their cause.
    void: [u64; Void::NAMES.len()],
    pub(super) disturbed: u64,
}

/// A load that the generator did not reach so often in a row is beyond it.
const MOST_IN_ROW: u32 = 5;
/// Short by no more than this share at best, it was interrupted, and is not too slow.
const MOST_DISTURBED: f64 = 0.03;
/// Of what a tester did at best, this share is tried next.
const BELOW_BEST: f64 = 0.97;

impl Voids {
    /// Trials that were void.
    pub(super) fn void(&self) -> u64 {
        self.void.iter().sum()
    }

    /// Why most of them were; `None` where none was.
    pub(super) fn because(&self) -> Option<&'static str> {
        let most = (0..self.void.len()).max_by_key(|number| self.void[*number])?;
        (self.void[most] > 0).then(|| Void::NAMES[most])
    }

    /// What becomes of a trial. One that lost no more than the share `good` although others disturbed it
    /// shows as much as it would have shown without them.
    pub(super) fn judge(&mut self, intended_packet_per_s: u64, seen: &Seen, good: f64) -> Verdict {
        let only_disturbed = matches!(seen.void, Some(Void::Busy { .. } | Void::Stalled { .. }));
        let good = only_disturbed && seen.loss_ratio().is_some_and(|lost| lost <= good);
        let Some(void) = seen.void.filter(|_| !good) else {
            self.in_row = 0;
            self.best_packet_per_s = 0.0;
            self.disturbed += u64::from(good);
            return Verdict::Counts;
        };
        self.in_row += 1;
        if let Void::GeneratorShort { achieved_packet_per_s: rate } | Void::Overrun { counted_packet_per_s: rate } =
            void
        {
            self.best_packet_per_s = self.best_packet_per_s.max(rate);
        }
        if self.in_row < MOST_IN_ROW {
            self.void[void.number()] += 1;
            return Verdict::Again;
        }
        let best = std::mem::take(&mut self.best_packet_per_s);
        self.in_row = 0;
        let most = intended_packet_per_s as f64 * (1.0 - MOST_DISTURBED);
        match void {
            Void::GeneratorShort { .. } if best < most => {
                self.void[void.number()] += 1;
                // A little below what it did at best: there it should get through.
                Verdict::TooFast((best * BELOW_BEST) as u64, Cap::Generator)
            }
            // Whatever it counted: what it had no room for would pass for a loss of the device.
            Void::Overrun { .. } => {
                self.void[void.number()] += 1;
                Verdict::TooFast((best.min(most) * BELOW_BEST) as u64, Cap::Analyser)
            }
            // A little short at best: interruptions, which a lower load would meet as well.
            Void::GeneratorShort { .. } | Void::Stalled { .. } | Void::Busy { .. } | Void::Uncounted => {
                self.disturbed += 1;
                Verdict::Counts
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(void: Option<Void>) -> Seen {
        Seen { sent: 100, received: 100, void }
    }

    #[test]
    fn half_a_percent_short_is_void_and_a_little_less_is_not() {
        let of = |achieved| {
            Gate::default().judge(&Conditions {
                intended_packet_per_s: 10_000.0,
                achieved_packet_per_s: achieved,
                ..Conditions::default()
            })
        };
        assert_eq!(of(9_950.0), None);
        assert!(matches!(of(9_949.0), Some(Void::GeneratorShort { .. })));
        assert!(matches!(of(10_051.0), Some(Void::GeneratorShort { .. })));
    }

    #[test]
    fn others_and_stalls_make_a_trial_void_but_what_is_not_known_does_not() {
        let base = Conditions { intended_packet_per_s: 1e3, achieved_packet_per_s: 1e3, ..Conditions::default() };
        let judge = |conditions| Gate::default().judge(&conditions);
        assert_eq!(judge(base), None);
        assert_eq!(judge(Conditions { others_share: Some(0.2), ..base }), Some(Void::Busy { share: 0.2 }));
        assert_eq!(judge(Conditions { stalled_share: Some(0.02), ..base }), Some(Void::Stalled { share: 0.02 }));
        assert_eq!(judge(Conditions { uncounted: true, ..base }), Some(Void::Uncounted));
    }

    #[test]
    fn a_void_trial_is_made_again_and_never_a_failure_until_it_is_no_better_five_times() {
        let mut voids = Voids::default();
        let busy = Seen { received: 90, ..seen(Some(Void::Busy { share: 1.0 })) };
        for _ in 1..MOST_IN_ROW {
            assert_eq!(voids.judge(2_000, &busy, 0.0), Verdict::Again);
        }
        assert_eq!(voids.judge(2_000, &busy, 0.0), Verdict::Counts);
        assert_eq!((voids.void(), voids.disturbed), (4, 1));
        // A good one in between begins the count anew.
        let short = |rate| seen(Some(Void::GeneratorShort { achieved_packet_per_s: rate }));
        assert_eq!(voids.judge(2_000, &short(900.0), 0.0), Verdict::Again);
        assert_eq!(voids.judge(2_000, &seen(None), 0.0), Verdict::Counts);
        for rate in [500.0, 1_000.0, 400.0, 300.0] {
            assert_eq!(voids.judge(2_000, &short(rate), 0.0), Verdict::Again);
        }
        assert_eq!(voids.judge(2_000, &short(100.0), 0.0), Verdict::TooFast(970, Cap::Generator));
        // Nearly there is no limit of the generator, but an interruption.
        for _ in 1..MOST_IN_ROW {
            assert_eq!(voids.judge(2_000, &short(1_950.0), 0.0), Verdict::Again);
        }
        assert_eq!(voids.judge(2_000, &short(1_900.0), 0.0), Verdict::Counts);
    }

    #[test]
    fn a_trial_that_lost_nothing_counts_whoever_disturbed_it() {
        let mut voids = Voids::default();
        let busy = seen(Some(Void::Busy { share: 1.0 }));
        assert_eq!((voids.judge(2_000, &busy, 0.0), voids.void(), voids.disturbed), (Verdict::Counts, 0, 1));
        let lossy = Seen { received: 99, ..busy };
        assert_eq!(voids.judge(2_000, &lossy, 0.005), Verdict::Again);
        assert_eq!(voids.judge(2_000, &lossy, 0.02), Verdict::Counts);
        // Fewer frames than were asked for: no loss shows nothing then.
        let short = seen(Some(Void::GeneratorShort { achieved_packet_per_s: 1_000.0 }));
        assert_eq!(voids.judge(2_000, &short, 0.0), Verdict::Again);
    }

    #[test]
    fn frames_without_room_are_never_taken_for_a_loss() {
        let judged = Gate::default().judge(&Conditions {
            intended_packet_per_s: 1e3,
            achieved_packet_per_s: 1e3,
            overrun_packet_per_s: Some(990.0),
            ..Conditions::default()
        });
        assert_eq!(judged, Some(Void::Overrun { counted_packet_per_s: 990.0 }));
        let mut voids = Voids::default();
        for _ in 1..MOST_IN_ROW {
            assert_eq!(voids.judge(1_000, &seen(judged), 0.0), Verdict::Again);
        }
        // 0.97 of 0.97 of the load: nearly all was counted, and yet not all.
        assert_eq!(voids.judge(1_000, &seen(judged), 0.0), Verdict::TooFast(940, Cap::Analyser));
    }
}
