//! The line that a daemon keeps, as all processes of the machine read it: words that one process writes and any number
//! read.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use vtare_units::Timestamp;

use crate::clock::Clock;
use crate::confirm::STEP_NS;
use crate::keeper::UtcLine;
use crate::source::TimeSource;
use crate::utc::{UtcInterval, UtcStatus};
use crate::watch::Checked;

/// Words of a page.
pub const PAGE_WORDS: usize = 13;

/// "vtareUT" and the version of the page.
const MAGIC: u64 = u64::from_be_bytes(*b"vtareUT\x01");
/// Looks at a page that is being written.
const TRIES: usize = 64;

/// The page, and what this process knows of it.
#[derive(Debug, Default)]
pub struct UtcPage {
    /// The generation of this process's own clock.
    seen: AtomicU64,
    /// Rounds that must have ended before the line holds for this process.
    holds_from: AtomicU64,
}

impl UtcPage {
    /// Writes the line. One process at a time does so.
    pub fn write(words: &[AtomicU64; PAGE_WORDS], line: &UtcLine) {
        // Odd while it is written, also where an earlier writer ended in the middle.
        let sequence = words[1].load(Ordering::Relaxed) | 1;
        words[1].store(sequence, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let status = match line.status {
            UtcStatus::Synchronized => 0,
            UtcStatus::FreeRunning => 1,
            UtcStatus::Disrupted => 2,
            UtcStatus::Unknown => 3,
        };
        let values = [
            line.begun.as_nanos(),
            line.at.as_nanos(),
            line.earliest.as_nanos(),
            line.latest.as_nanos(),
            line.slower,
            line.faster,
            line.until.as_nanos(),
            status,
            line.generation,
            line.rounds,
            u64::from(line.hosts) << 32 | u64::from(line.liars),
        ];
        words[2..].iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        words[0].store(MAGIC, Ordering::Relaxed);
        words[1].store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// Whether nothing was ever written, or a writer ended in the middle.
    #[must_use]
    pub fn is_new(words: &[AtomicU64; PAGE_WORDS]) -> bool {
        words[0].load(Ordering::Relaxed) == 0 || words[1].load(Ordering::Relaxed) & 1 == 1
    }

    /// The line; `None` where there is none, or it is being written.
    #[inline]
    #[must_use]
    pub fn load(words: &[AtomicU64; PAGE_WORDS]) -> Option<UtcLine> {
        for _ in 0..TRIES {
            let sequence = words[1].load(Ordering::Acquire);
            let word = |at: usize| words[at].load(Ordering::Relaxed);
            let line = UtcLine {
                begun: Timestamp::from_nanos(word(2)),
                at: Timestamp::from_nanos(word(3)),
                earliest: Timestamp::from_nanos(word(4)),
                latest: Timestamp::from_nanos(word(5)),
                slower: word(6),
                faster: word(7),
                until: Timestamp::from_nanos(word(8)),
                status: match word(9) {
                    0 => UtcStatus::Synchronized,
                    1 => UtcStatus::FreeRunning,
                    2 => UtcStatus::Disrupted,
                    _ => UtcStatus::Unknown,
                },
                generation: word(10),
                rounds: word(11),
                hosts: (word(12) >> 32) as u32,
                liars: word(12) as u32,
            };
            let known = word(0) == MAGIC;
            fence(Ordering::Acquire);
            if sequence & 1 == 0 && words[1].load(Ordering::Relaxed) == sequence {
                return known.then_some(line);
            }
        }
        None
    }

    /// UTC now by the page. One reading of the clock, and `words`, which another process may write meanwhile.
    #[inline]
    #[must_use]
    pub fn interval<S: TimeSource>(&self, clock: &Clock<S>, words: &[AtomicU64; PAGE_WORDS]) -> UtcInterval {
        let sequence = words[1].load(Ordering::Acquire);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let (at, earliest, latest, slower, faster) = (word(3), word(4), word(5), word(6), word(7));
        let (until, status, generation, rounds) = (word(8), word(9), word(10), word(11));
        let now = clock.now_checked();
        fence(Ordering::Acquire);
        let age = now.at.as_nanos().wrapping_sub(at);
        if sequence & 1 != 0
            || word(1) != sequence
            || status != 0
            || age >= until.wrapping_sub(at)
            || self.seen.load(Ordering::Relaxed) != now.generation
            || rounds < self.holds_from.load(Ordering::Relaxed)
        {
            return self.interval_slow(words, now);
        }
        // As `UtcLine::interval` has it, for a reading after the round.
        let part = |fraction: u64| ((u128::from(age) * u128::from(fraction)) >> 32) as u64;
        UtcInterval {
            earliest: Timestamp::from_nanos(earliest.wrapping_add(age).saturating_sub(part(slower) + STEP_NS)),
            latest: Timestamp::from_nanos(latest.wrapping_add(age).saturating_add(part(faster) + STEP_NS)),
            status: UtcStatus::Synchronized,
            generation: generation.wrapping_add(now.generation),
        }
    }

    /// A reading for which the line does not hold, or not yet.
    #[cold]
    #[inline(never)]
    fn interval_slow(&self, words: &[AtomicU64; PAGE_WORDS], now: Checked) -> UtcInterval {
        let line = Self::load(words).unwrap_or_default();
        let found = line.interval(now);
        if self.seen.load(Ordering::Relaxed) != now.generation {
            self.disrupted(&line, now.generation);
        }
        // A disruption that this process has seen itself: the round under way may have begun before it.
        if line.rounds < self.holds_from.load(Ordering::Relaxed) {
            return UtcInterval {
                earliest: Timestamp::ZERO,
                latest: Timestamp::MAX,
                status: UtcStatus::Disrupted,
                ..found
            };
        }
        found
    }

    fn disrupted(&self, line: &UtcLine, generation: u64) {
        if self.seen.swap(generation, Ordering::Relaxed) != 0 {
            self.holds_from.store(line.rounds + 2, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_sim::on;
    use crate::sim::SimClock;
    use vtare_units::Span;

    fn words() -> [AtomicU64; PAGE_WORDS] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    fn line(clock: &Clock<SimClock>, rounds: u64) -> UtcLine {
        let at = clock.now_checked().at;
        UtcLine {
            begun: at,
            at,
            earliest: Timestamp::from_nanos(1_000_000_000),
            latest: Timestamp::from_nanos(1_001_000_000),
            slower: (1 << 32) / 1_000,
            faster: (1 << 32) / 1_000,
            until: at + Span::from_millis(200),
            status: UtcStatus::Synchronized,
            generation: 7,
            rounds,
            hosts: 3,
            liars: 1,
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_holds_for_two_heartbeats() {
        let (clock, page, words) = (on(SimClock::new(2_596_118)), UtcPage::default(), words());
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Unknown);
        let written = line(&clock, 3);
        UtcPage::write(&words, &written);
        let read = UtcPage::load(&words).expect("it is whole");
        assert_eq!(read, written);
        clock.source().advance_ns(100e6);
        let found = page.interval(&clock, &words);
        assert_eq!((found.status, found.generation), (UtcStatus::Synchronized, 8));
        assert!((1_099_890_000..1_099_901_000).contains(&found.earliest.as_nanos()), "{found:?}");
        assert!((1_101_100_000..1_101_110_000).contains(&found.latest.as_nanos()), "{found:?}");
        let after = read.interval(clock.now_checked());
        assert!((after.latest - found.latest).as_nanos() < 10_000 && after.earliest >= found.earliest, "{after:?}");
        clock.source().advance_ns(101e6);
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Unknown, "nobody wrote for two heartbeats");
        words[1].store(5, Ordering::Relaxed);
        assert_eq!(UtcPage::load(&words), None, "it is being written");
    }

    #[test]
    fn a_disruption_that_the_process_sees_itself_ends_the_line_until_two_rounds_later() {
        let (clock, page, words) = (on(SimClock::new(2_596_118)), UtcPage::default(), words());
        UtcPage::write(&words, &line(&clock, 3));
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Synchronized);
        clock.source().stop(Span::from_millis(5));
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Disrupted, "a VMClock shows it at once");
        UtcPage::write(&words, &line(&clock, 4));
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Disrupted);
        UtcPage::write(&words, &line(&clock, 5));
        assert_eq!(page.interval(&clock, &words).status, UtcStatus::Synchronized);
    }
}
