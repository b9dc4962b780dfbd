//! Readings that carry the generation of the time they belong to, and UTC as an interval.

use std::cell::Cell;

use vtare_units::{CounterTick, Timestamp};

use crate::clock::Clock;
use crate::source::TimeSource;
use crate::utc::{Refreshed, UtcInterval};
use crate::watch::{self, Checked, Disruption, KnownRate, Look};

/// Readings that a look may take until one lies close enough between two of the counter.
const LOOK_TRIES: usize = 8;
/// Close enough, in ns.
const NARROW_NS: i64 = 10_000;
/// How far own readings may lie from the kernel's clock after a disruption, in ns; further off, the kernel's are given.
const OWN_READINGS_NS: i64 = 200_000;

impl<S: TimeSource> Clock<S> {
    /// CLOCK_MONOTONIC now, and the generation of the reading: it grows before the first reading after a disruption of
    /// 1 ms and more returns ([`Disruption`]). Two readings of one generation are as far apart as they show.
    ///
    /// Unordered, as [`Clock::now`]; in a new generation it may be smaller than in the one before. What a machine
    /// cannot see from inside is no disruption here: docs/methods/clock.md lists it.
    ///
    /// ```
    /// use vtare_clock::{Clock, ClockOptions};
    /// let clock = Clock::start(&ClockOptions::fast());
    /// let (begun, ended) = (clock.now_checked(), clock.now_checked());
    /// if begun.generation == ended.generation {
    ///     println!("{} passed", ended.at - begun.at);
    /// }
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn now_checked(&self) -> Checked {
        let generation = self.watch.generation();
        let read = Cell::new(CounterTick::new(0));
        let counter = || {
            read.set(self.line.source.tick());
            read.get()
        };
        let found = match &self.records {
            Some(kernel) => kernel.steered.monotonic_ns_and_age(counter),
            None => self.line.ns(counter).fresh().map(|ns| (ns, 0)),
        };
        // The mark after the counter: a stop between the two then shows. And the generation last: a look that another
        // thread took meanwhile may have found a stop after this reading, or before it.
        match found {
            Some((ns, page_age))
                if self.watch.holds(read.get(), watch::mark(self.line.source.disruption_marker()))
                    && self.watch.page_holds(page_age)
                    && self.near_last_tick(ns)
                    && !self.watch.reads_kernel()
                    && self.watch.generation() == generation =>
            {
                Checked { at: Timestamp::from_nanos(ns), generation }
            }
            refused => self.checked_slow(refused.is_some()),
        }
    }

    /// Where the kernel's page is not read: whether its last timer tick allows `ns`, as the page's age does.
    #[inline(always)]
    fn near_last_tick(&self, ns: u64) -> bool {
        self.records.is_some() || self.line.source.coarse().is_none_or(|tick| watch::near_tick(ns, tick))
    }

    /// How often time was disrupted since the first checked reading, plus 1, and by what last.
    #[must_use]
    pub fn disruptions(&self) -> (u64, Option<Disruption>) {
        (self.now_checked().generation, self.watch.cause())
    }

    /// A checked reading that comes from the kernel, or was `refused` until another look is taken.
    #[cold]
    #[inline(never)]
    fn checked_slow(&self, refused: bool) -> Checked {
        let mut looked: Option<Look> = None;
        if refused && !self.watch.reads_kernel() {
            looked = Some(self.look_for_disruption());
        }
        loop {
            let generation = self.watch.generation();
            let from_kernel = self.watch.reads_kernel();
            let at = if from_kernel { self.line.source.monotonic() } else { self.now_ordered() };
            let tick = self.watched_tick();
            let mark = watch::mark(self.line.source.disruption_marker());
            let holds =
                self.watch.holds(tick, mark) || looked.is_some_and(|look| self.watch.covered_by(&look, tick, mark));
            if holds && self.watch.reads_kernel() == from_kernel && self.watch.generation() == generation {
                return Checked { at, generation };
            }
            looked = Some(self.look_for_disruption());
        }
    }

    /// Takes a look and holds it against the last one.
    fn look_for_disruption(&self) -> Look {
        let generation = self.watch.generation();
        let look = self.look();
        if generation == 0 {
            self.watch.start(&look, self.known_rate().map(|known| known.rate));
            return look;
        }
        let Some((base, last)) = self.watch.looks() else { return look };
        let Some(cause) = watch::disruption(&base, &last, &look, self.known_rate()) else {
            // Back to own readings where that is no step back, beyond what the two readings take.
            let near = |(least, most): (i64, i64)| least >= -1_000 && (0..OWN_READINGS_NS).contains(&most);
            if self.watch.reads_kernel() && self.ahead_of_kernel_ns().is_some_and(near) {
                self.watch.set_reads_kernel(false);
            }
            self.watch.publish(generation, &look, false);
            return look;
        };
        // Readings of other threads come from the kernel until the line is right again.
        self.watch.set_reads_kernel(true);
        self.watch.disrupt(generation, cause);
        self.line.follow_disruption();
        // A second look: the first may have been taken in part before the disruption.
        let look = self.look();
        let near = |(least, most): (i64, i64)| least > -OWN_READINGS_NS && most < OWN_READINGS_NS;
        self.watch.set_reads_kernel(!self.ahead_of_kernel_ns().is_some_and(near));
        self.watch.publish(generation.wrapping_add(1), &look, true);
        look
    }

    #[cfg(test)]
    pub(crate) fn source(&self) -> &S {
        &self.line.source
    }

    /// All that shows a disruption, now.
    fn look(&self) -> Look {
        let source = &self.line.source;
        let rate = self.known_rate().map(|known| known.rate);
        let mut best: Option<(i64, u64, CounterTick)> = None;
        for _ in 0..LOOK_TRIES {
            let before = self.watched_tick();
            let raw_ns = source.raw().as_nanos();
            let after = self.watched_tick();
            let ticks = after.since(before);
            let width_ns = rate.map_or(ticks, |rate| rate.nanos(ticks)) + 1;
            // A counter that fell back between two readings shows nothing.
            if width_ns > 0 && best.is_none_or(|(least, ..)| width_ns < least) {
                best = Some((width_ns, raw_ns, after));
            }
            if best.is_some_and(|(least, ..)| least <= NARROW_NS) {
                break;
            }
        }
        let (raw_width_ns, raw_ns, tick) =
            best.unwrap_or_else(|| (NARROW_NS, source.raw().as_nanos(), self.watched_tick()));
        let last_written = self.records.and_then(|kernel| kernel.steered.scale()).map(|scale| scale.last);
        let page_age_ns = rate.zip(last_written).map_or(0, |(rate, last)| rate.nanos(tick.since(last)));
        let suspended_ns = source.suspended().as_nanos();
        let mark = watch::mark(source.disruption_marker());
        let counted = self.records.map_or_else(|| self.line.current().is_some(), |kernel| kernel.steered.by_counter());
        Look { tick, raw_ns, raw_width_ns, suspended_ns, mark, page_age_ns, counted }
    }

    /// The least that own readings are ahead of the kernel's clock, and the most; `None` where the thread is kept from
    /// running.
    fn ahead_of_kernel_ns(&self) -> Option<(i64, i64)> {
        (0..LOOK_TRIES).find_map(|_| {
            let before = self.now_ordered();
            let kernel = self.line.source.monotonic();
            let after = self.now_ordered();
            let range = ((before - kernel).as_nanos(), (after - kernel).as_nanos());
            (range.1 - range.0 <= NARROW_NS).then_some(range)
        })
    }

    /// The counter's rate, where the clock started out on the counter.
    fn known_rate(&self) -> Option<KnownRate> {
        let begun = self.begun.get().filter(|begun| begun.trust.trusted)?;
        let found = begun.calibration.as_ref()?;
        Some(KnownRate { rate: found.rate, error_ppm: found.residual_ppm() })
    }

    /// What the age of a look is counted in: the counter, or the kernel's clock where that is not trusted.
    fn watched_tick(&self) -> CounterTick {
        match self.known_rate() {
            Some(_) => self.line.source.tick_ordered(),
            None => CounterTick::new(self.line.source.monotonic().as_nanos()),
        }
    }

    /// UTC now, as an interval. [`UtcInterval`] has what it promises.
    #[inline(always)]
    #[must_use]
    pub fn now_utc_interval(&self) -> UtcInterval {
        let now = self.now_checked();
        self.utc.interval(now).unwrap_or_else(|| self.utc_slow())
    }

    /// An interval for which no fresh statement is at hand.
    #[cold]
    #[inline(never)]
    fn utc_slow(&self) -> UtcInterval {
        loop {
            let generation = self.now_checked().generation;
            let statement = self.line.source.utc_statement();
            // A stop while the statement was read belongs to neither.
            let now = self.now_checked();
            if now.generation != generation {
                continue;
            }
            let refreshed = self.utc.refresh(statement, now);
            if refreshed == Refreshed::Contradicted {
                self.watch.disrupt(generation, Disruption::Contradicted);
            }
            let now = self.now_checked();
            match self.utc.interval(now) {
                Some(interval) => return interval,
                None if refreshed == Refreshed::ByOther => return self.utc.stale(now),
                None => {}
            }
        }
    }
}
