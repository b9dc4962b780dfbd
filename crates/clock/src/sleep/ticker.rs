use vtare_sys::SysError;
use vtare_units::{Monotonic, Span, Timestamp};

use super::{Sleeper, Wake};

/// One beat of a [`Ticker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The deadline of this beat.
    pub deadline: Timestamp<Monotonic>,
    /// How the sleep until it ended.
    pub wake: Wake,
    /// Further deadlines that had passed as well when this beat ended: they are left out.
    pub missed: u64,
}

/// Periodic deadlines without drift: the n-th lies n periods after the start, whatever the wake-ups were. A caller that
/// comes late returns at once, finds the further deadlines that have passed counted, and goes on with the next one
/// ahead.
///
/// ```
/// use vtare_clock::{Clock, ClockOptions, sleep::{Method, SleepOptions, Sleeper, Ticker}};
/// use vtare_units::Span;
/// let clock = Clock::start(&ClockOptions::fast());
/// let sleeper = Sleeper::new(&clock, Method::Adaptive, SleepOptions::default());
/// let mut ticker = Ticker::new(sleeper, clock.now(), Span::from_micros(500));
/// for _ in 0..4 {
///     let tick = ticker.wait()?;
///     println!("{} late, {} missed", tick.wake.miss, tick.missed);
/// }
/// # Ok::<(), vtare_sys::SysError>(())
/// ```
#[derive(Debug)]
pub struct Ticker<'c> {
    sleeper: Sleeper<'c>,
    schedule: Schedule,
}

impl<'c> Ticker<'c> {
    /// Beats every `period` (at least 1 ns) after `start`.
    #[must_use]
    pub fn new(sleeper: Sleeper<'c>, start: Timestamp<Monotonic>, period: Span) -> Self {
        Self { sleeper, schedule: Schedule::new(start, period) }
    }

    /// Sleeps until the next deadline. A sleep that a signal ended counts for nothing: the deadline stays the next one.
    ///
    /// # Errors
    /// Where the kernel refuses the deadline.
    pub fn wait(&mut self) -> Result<Tick, SysError> {
        let deadline = self.schedule.next;
        let wake = self.sleeper.sleep_until(deadline)?;
        let missed = if wake.interrupted { 0 } else { self.schedule.advance(deadline + wake.miss) };
        Ok(Tick { deadline, wake, missed })
    }

    /// Deadlines left out so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.schedule.missed
    }
}

/// The deadlines alone.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    next: Timestamp<Monotonic>,
    period_ns: u64,
    missed: u64,
}

impl Schedule {
    fn new(start: Timestamp<Monotonic>, period: Span) -> Self {
        let period_ns = period.as_nanos_unsigned().max(1);
        Self { next: Timestamp::from_nanos(start.as_nanos().saturating_add(period_ns)), period_ns, missed: 0 }
    }

    /// Goes on to the first deadline after `now`, at which the present one was met or found past; how many between were
    /// left out.
    fn advance(&mut self, now: Timestamp<Monotonic>) -> u64 {
        let missed = (now - self.next).as_nanos_unsigned() / self.period_ns;
        let ahead = (missed + 1).saturating_mul(self.period_ns);
        self.next = Timestamp::from_nanos(self.next.as_nanos().saturating_add(ahead));
        self.missed += missed;
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(ns)
    }

    #[test]
    fn a_caller_in_time_gets_every_deadline() {
        let mut schedule = Schedule::new(at(1_000), Span::from_nanos(100));
        for beat in 1..=50 {
            assert_eq!(schedule.next, at(1_000 + beat * 100));
            assert_eq!(schedule.advance(at(1_000 + beat * 100 + 7)), 0);
        }
    }

    #[test]
    fn a_late_caller_gets_the_deadline_it_is_late_for_and_the_further_ones_counted() {
        let mut schedule = Schedule::new(at(0), Span::from_nanos(100));
        assert_eq!(schedule.advance(at(350)), 2);
        assert_eq!(schedule.next, at(400));
        assert_eq!(schedule.advance(at(400)), 0);
        assert_eq!(schedule.advance(at(600)), 1);
        assert_eq!((schedule.next, schedule.missed), (at(700), 3));
    }

    proptest! {
        #[test]
        fn deadlines_stay_on_the_grid_and_given_plus_missed_is_all(
            period in 1_u64..1_000_000,
            lates in prop::collection::vec(0_u64..5_000_000, 1..100),
        ) {
            let start = 7_777;
            let mut schedule = Schedule::new(at(start), Span::from_nanos(period as i64));
            for (given, late) in lates.iter().enumerate() {
                let now = schedule.next + Span::from_nanos(*late as i64);
                schedule.advance(now);
                prop_assert_eq!((schedule.next.as_nanos() - start) % period, 0);
                prop_assert_eq!((schedule.next.as_nanos() - start) / period, given as u64 + 2 + schedule.missed);
                prop_assert!(schedule.next > now);
            }
        }
    }
}
