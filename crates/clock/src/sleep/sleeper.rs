use std::cell::Cell;

use vtare_sys::clocks::{self, SleepEnd};
use vtare_sys::{SysError, counter, facts, sched};
use vtare_units::{CounterTick, Monotonic, Span, ThreadCpu, Timestamp};

use super::adaptive::GAP;
use super::policy::{End, Policy};
use super::{Method, SleepOptions, Wake};
use crate::Clock;

/// Below this the spin reads the counter without a pause instruction between.
const LAST_STRETCH: Span = Span::from_nanos(200);
/// With less than this left to spin, learning is put off to the next sleep: it takes up to half a microsecond.
const TIME_TO_LEARN: Span = Span::from_micros(2);
/// How long before the deadline the first legs of a spin end.
const REHEARSALS: [Span; 2] = [Span::from_micros(8), Span::from_micros(2)];
/// On an oversubscribed machine: the slice asked for while spinning, so that no thread of the usual slice is due first,
/// and the shortest spin that is worth the system calls.
const SPIN_SLICE: Span = Span::from_millis(3);
const WORTH_A_SLICE: Span = Span::from_micros(5);
/// There too: how long before its deadline a sleep of at least [`LONG_SLEEP`] is first woken. Having waited for that
/// turn, the thread is owed the next one by the scheduler's account (EEVDF's lag). Beside 40 busy threads on two CPUs
/// this and the long slice halved the sleeps of 10 ms that were late; of 1 ms, the early wake-up cost more than it
/// gained.
const EARLY: Span = Span::from_millis(5);
const LONG_SLEEP: Span = Span::from_millis(8);
/// 1/HZ of the kernels that most distributions ship (HZ = 250), used where the system does not report it.
const USUAL_TICK: Span = Span::from_millis(4);

/// Sleeps for one thread, by one method. The adaptive method learns from each sleep: keep the sleeper.
///
/// ```
/// use vtare_clock::{Clock, ClockOptions, sleep::{Method, SleepOptions, Sleeper}};
/// use vtare_units::Span;
/// let clock = Clock::start(&ClockOptions::fast());
/// let mut sleeper = Sleeper::new(&clock, Method::Adaptive, SleepOptions::default());
/// let wake = sleeper.sleep(Span::from_micros(200))?;
/// assert!(!wake.miss.is_negative() || wake.interrupted);
/// # Ok::<(), vtare_sys::SysError>(())
/// ```
#[derive(Debug)]
pub struct Sleeper<'c> {
    clock: &'c Clock,
    method: Method,
    policy: Policy,
    /// CPU time of this thread before the kernel's part, where that part is measured.
    cpu_before: Option<Timestamp<ThreadCpu>>,
    /// A duration and its overshoot that there was no time to learn from.
    unlearned: Option<(Span, Span)>,
    /// The end of the last sleep: judged before the next one.
    unjudged: Option<End>,
    /// Involuntary switches of this thread when they were last looked at.
    switches: u64,
    /// [`LAST_STRETCH`] and [`REHEARSALS`] in ticks.
    last_stretch_ticks: i64,
    rehearsal_ticks: [i64; 2],
    options: SleepOptions,
    /// The thread's own slack, once its scheduling has been set up; it is put back at every wake-up.
    own_slack: Cell<Option<Span>>,
    /// The thread has [`SPIN_SLICE`].
    long_slice: Cell<bool>,
    refused: Cell<Refused>,
}

/// What the system did not allow this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The scheduler takes no slice (before Linux 6.12 it ignores it; a sandbox may forbid the call).
    pub slice: bool,
    /// No real-time priority: RLIMIT_RTPRIO and CAP_SYS_NICE are missing.
    pub fifo: bool,
}

/// A sleep of which the kernel's part is still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    begun: Timestamp<Monotonic>,
    deadline: Timestamp<Monotonic>,
    /// Sleep in the kernel until then before anything else, where the machine is oversubscribed: the thread is then
    /// owed a turn later. A caller may leave this out.
    pub early: Option<Timestamp<Monotonic>>,
    /// Sleep in the kernel until then; `None` where the whole sleep is spun, or the deadline has passed.
    pub kernel_until: Option<Timestamp<Monotonic>>,
    held_back: bool,
    wary: bool,
}

/// The last leg of a sleep, to be spun where the sleep returns ([`spin_until`]): little is then left to do after its
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastLeg {
    /// The sleep ends at this tick.
    pub end: CounterTick,
    phase: Phase,
    spin_from: Timestamp<Monotonic>,
    longest_gap: Span,
}

/// How the second half of a sleep ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// It has ended: the method does not spin, it was too late, or the counter is not usable.
    Ended(Wake),
    /// At most 2 us are left.
    Last(LastLeg),
}

/// Spins until the counter shows `end`; returns the reading that ended it. Without pauses: for the last microseconds.
#[inline(always)]
#[must_use]
pub fn spin_until(end: CounterTick) -> CounterTick {
    loop {
        let now = counter::read();
        if end.since(now) <= 0 {
            return now;
        }
    }
}

impl<'c> Sleeper<'c> {
    /// A sleeper on `clock`.
    #[must_use]
    pub fn new(clock: &'c Clock, method: Method, options: SleepOptions) -> Self {
        let tick_period = facts::tick_period().unwrap_or(USUAL_TICK);
        let (own_slack, refused) = (Cell::new(None), Cell::new(Refused::default()));
        let policy = Policy::of(method, &options, tick_period);
        let ticks = |span: Span| {
            let rate = clock.calibration().map(|found| found.rate);
            rate.map_or(0, |rate| rate.ticks_for(span.as_nanos_unsigned()).cast_signed())
        };
        Self {
            clock,
            method,
            policy,
            cpu_before: None,
            unlearned: None,
            unjudged: None,
            switches: 0,
            last_stretch_ticks: ticks(LAST_STRETCH),
            rehearsal_ticks: REHEARSALS.map(ticks),
            options,
            own_slack,
            long_slice: Cell::new(false),
            refused,
        }
    }

    /// What the system did not allow this sleeper's thread; known after its first sleep.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused.get()
    }

    /// Sets the thread up at its first sleep.
    #[cold]
    fn set_up_thread(&self) -> Span {
        // A kernel without slack has nothing to lower.
        let own = sched::timer_slack().unwrap_or(Span::ZERO);
        let mut refused = Refused::default();
        if self.method.learns()
            && let Some(slice) = self.options.slice
        {
            refused.slice = sched::set_slice(slice).is_err();
        }
        if let Some(priority) = self.options.fifo {
            refused.fifo = sched::set_class(sched::Class::Fifo(priority)).is_err();
        }
        self.refused.set(refused);
        self.own_slack.set(Some(own));
        own
    }

    /// The thread's own slack; sets the thread up at its first sleep.
    #[inline]
    fn own_slack(&self) -> Span {
        self.own_slack.get().unwrap_or_else(|| self.set_up_thread())
    }

    /// Before the kernel's part: the slack that the methods which learn want.
    #[inline]
    fn lower_slack(&self, own: Span) {
        if self.method.learns()
            && let Some(slack) = self.options.slack
            && slack < own
        {
            // A refusal leaves the sleep less precise, which the policy then sees.
            let _ = sched::set_timer_slack(slack);
        }
    }

    /// At wake-up, before the spin, so that it costs the caller nothing: the thread's own slack.
    #[inline]
    fn put_slack_back(&self) {
        if self.method.learns()
            && let Some(own) = self.own_slack.get()
            && self.options.slack.is_some_and(|slack| slack < own)
        {
            let _ = sched::set_timer_slack(own);
        }
    }

    /// Asks for a slice, where the scheduler takes any and the thread has another: a long one to spin, the short one
    /// to be woken.
    #[inline]
    fn lengthen_slice(&self, long: bool) {
        if let Some(slice) = self.options.slice
            && self.long_slice.get() != long
            && !self.refused.get().slice
        {
            self.long_slice.set(long);
            // A refusal leaves the sleep less precise, which the policy then sees.
            let _ = sched::set_slice(if long { SPIN_SLICE } else { slice });
        }
    }

    /// Sleeps for `span` from now.
    ///
    /// # Errors
    /// Where the kernel refuses the deadline.
    #[inline(always)]
    pub fn sleep(&mut self, span: Span) -> Result<Wake, SysError> {
        let now = self.clock.now();
        self.until(now, now + span)
    }

    /// Sleeps until `deadline`. A deadline that has passed returns at once, with the miss.
    ///
    /// # Errors
    /// Where the kernel refuses the deadline.
    #[inline(always)]
    pub fn sleep_until(&mut self, deadline: Timestamp<Monotonic>) -> Result<Wake, SysError> {
        self.until(self.clock.now(), deadline)
    }

    /// The first half of a sleep, for callers that make the kernel call themselves: how long to stay in the kernel.
    ///
    /// Call [`Sleeper::finish`] with what it returns once the kernel call has come back undisturbed,
    /// [`Sleeper::abandon`] where a signal ended it.
    #[inline]
    #[must_use]
    pub fn begin(&mut self, now: Timestamp<Monotonic>, deadline: Timestamp<Monotonic>) -> Phase {
        let own_slack = self.own_slack();
        if let Some((duration, overshoot)) = self.unlearned.take() {
            self.policy.learn(duration, overshoot);
        }
        if let Some(end) = self.unjudged.take() {
            self.judge(end);
        }
        let duration = deadline - now;
        let (held_back, wary) = (self.policy.held_back(), self.policy.is_wary());
        let margin = self.policy.margin(duration);
        let kernel_until = (duration > margin).then(|| deadline - margin);
        if kernel_until.is_some() {
            if let Policy::Cheap(policy) = &self.policy {
                self.cpu_before = policy.wants_kernel_part().then(clocks::now);
            }
            self.lower_slack(own_slack);
            self.lengthen_slice(false);
        }
        let early = (wary && duration >= LONG_SLEEP).then(|| deadline - EARLY);
        Phase { begun: now, deadline, early, kernel_until, held_back, wary }
    }

    /// Instead of the second half, where a signal ended the kernel's part.
    #[inline]
    pub fn abandon(&self) {
        self.put_slack_back();
    }

    /// The second half of a sleep: spins until the deadline, unless the method leaves it all to the kernel, and learns.
    #[inline(always)]
    pub fn finish(&mut self, phase: &Phase) -> Wake {
        match self.approach(phase, || ()) {
            Approach::Ended(wake) => wake,
            Approach::Last(leg) => {
                let (reached, gap) = self.spin_counter(leg.end);
                self.ended(&LastLeg { longest_gap: leg.longest_gap.max(gap), ..leg }, reached)
            }
        }
    }

    /// The second half of a sleep but for its last leg, for callers with work of their own between the end of the sleep
    /// and their return: they do it, spin the last leg with [`spin_until`], return, and call [`Sleeper::ended`] at
    /// their next sleep. `rehearse` is called some microseconds before the end. What runs there is in the caches when
    /// the sleep ends; after a sleep in the kernel it would not be, which costs hundreds of nanoseconds.
    #[inline(always)]
    pub fn approach(&mut self, phase: &Phase, rehearse: impl FnMut()) -> Approach {
        if matches!(self.method, Method::Usleep | Method::ClockNanosleep) {
            return Approach::Ended(self.woken(phase.deadline, SleepEnd::Reached));
        }
        let mut spin_from = phase.begun;
        if phase.kernel_until.is_some() {
            // The clock after the system call: what that takes is part of what the margin has to cover.
            self.put_slack_back();
            if let (Policy::Cheap(policy), Some(before)) = (&mut self.policy, self.cpu_before.take()) {
                policy.learn_kernel_part(clocks::now::<ThreadCpu>() - before);
            }
            spin_from = self.clock.now();
            if phase.wary && phase.deadline - spin_from > WORTH_A_SLICE {
                self.lengthen_slice(true);
            }
        }
        if self.method.learns()
            && let Some(asked) = phase.kernel_until
        {
            let (duration, overshoot) = (phase.deadline - phase.begun, spin_from - asked);
            if phase.deadline - spin_from > TIME_TO_LEARN {
                self.policy.learn(duration, overshoot);
            } else {
                self.unlearned = Some((duration, overshoot));
            }
        }
        if spin_from >= phase.deadline {
            return Approach::Ended(self.end_of(phase, spin_from, spin_from, Span::ZERO));
        }
        let Some(end) = self.clock.tick_at(phase.deadline) else {
            let (reached, longest_gap) = self.spin_clock(spin_from, phase.deadline);
            return Approach::Ended(self.end_of(phase, spin_from, reached, longest_gap));
        };
        let longest_gap = self.first_legs(end, rehearse);
        if self.method == Method::NeverEarly {
            let (_, gap) = self.spin_counter(end);
            // By the kernel's clock, whatever ours shows.
            while clocks::now::<Monotonic>() < phase.deadline {
                std::hint::spin_loop();
            }
            return Approach::Ended(self.end_of(phase, spin_from, self.clock.now(), longest_gap.max(gap)));
        }
        Approach::Last(LastLeg { end, phase: *phase, spin_from, longest_gap })
    }

    /// The end of a sleep whose last leg the caller has spun: `reached` is the reading that ended it. Learns from it at
    /// the next sleep.
    #[inline(always)]
    pub fn ended(&mut self, leg: &LastLeg, reached: CounterTick) -> Wake {
        // From the reading that ended the wait: one more would only delay the caller.
        let miss = self.clock.span_of(reached.since(leg.end));
        self.end_of(&leg.phase, leg.spin_from, leg.phase.deadline + miss, leg.longest_gap.max(miss))
    }

    #[inline(always)]
    fn end_of(
        &mut self,
        phase: &Phase,
        spin_from: Timestamp<Monotonic>,
        reached: Timestamp<Monotonic>,
        longest_gap: Span,
    ) -> Wake {
        let miss = reached - phase.deadline;
        let spin = (reached - spin_from).max(Span::ZERO);
        if self.method.learns() {
            let (lasted, in_kernel) = (reached - phase.begun, phase.kernel_until.is_some());
            self.unjudged = Some(End { lasted, miss, longest_gap, spin, in_kernel });
        }
        Wake { miss, spin, disturbed: phase.held_back || longest_gap > GAP, interrupted: false }
    }

    /// Gives the policy the end of the last sleep. A gap counts only where another thread took the CPU: one that the
    /// hypervisor or an interrupt took would have come without spinning too.
    fn judge(&mut self, end: End) {
        let mut counted = Span::ZERO;
        if end.longest_gap > GAP {
            let switches = sched::thread_usage().involuntary_switches;
            if switches > self.switches {
                counted = end.longest_gap;
            }
            self.switches = switches;
        }
        self.policy.ended(End { longest_gap: counted, ..end });
    }

    #[inline(always)]
    fn until(&mut self, now: Timestamp<Monotonic>, deadline: Timestamp<Monotonic>) -> Result<Wake, SysError> {
        if self.method == Method::Usleep {
            self.own_slack();
            let left = deadline - now;
            let end = if left > Span::ZERO { clocks::usleep(left)? } else { SleepEnd::Reached };
            return Ok(self.woken(deadline, end));
        }
        let phase = self.begin(now, deadline);
        for until in phase.early.into_iter().chain(phase.kernel_until) {
            if clocks::sleep_until(until)? == SleepEnd::Interrupted {
                self.put_slack_back();
                return Ok(self.woken(deadline, SleepEnd::Interrupted));
            }
        }
        Ok(self.finish(&phase))
    }

    fn woken(&self, deadline: Timestamp<Monotonic>, end: SleepEnd) -> Wake {
        let miss = self.clock.now_ordered() - deadline;
        Wake { miss, spin: Span::ZERO, disturbed: false, interrupted: end == SleepEnd::Interrupted }
    }

    /// Spins until shortly before `end`, in legs of the same code: what runs at the deadline has then just run, and is
    /// in the caches. After a sleep of milliseconds that is worth half a microsecond; the first fetch may take
    /// microseconds of page walks in a guest. Returns the longest gap between two readings.
    #[inline(always)]
    fn first_legs(&self, end: CounterTick, mut rehearse: impl FnMut()) -> Span {
        let mut longest_gap = Span::ZERO;
        for ahead in self.rehearsal_ticks {
            let rehearsal = CounterTick::new(end.count().wrapping_add_signed(-ahead));
            if rehearsal.since(counter::read()) < 0 {
                // Less time is left than a rehearsal may take.
                continue;
            }
            longest_gap = longest_gap.max(self.spin_counter(rehearsal).1);
            std::hint::black_box(self.clock.now_ordered());
            counter::fetch_code_ahead();
            rehearse();
        }
        longest_gap
    }

    /// Spins until `end`: the reading that ended it and the longest gap between two readings.
    // Never inlined: all legs must be the same code.
    #[inline(never)]
    fn spin_counter(&self, end: CounterTick) -> (CounterTick, Span) {
        let last_stretch = self.last_stretch_ticks;
        let mut longest = 0;
        let mut last = counter::read();
        // A pause instruction marks this as a wait; near the end it would cost precision (26 to 140 cycles each).
        while end.since(last) > last_stretch {
            std::hint::spin_loop();
            let now = counter::read();
            longest = longest.max(now.since(last));
            last = now;
        }
        while end.since(last) > 0 {
            let now = counter::read();
            longest = longest.max(now.since(last));
            last = now;
        }
        (last, self.clock.span_of(longest))
    }

    fn spin_clock(&self, from: Timestamp<Monotonic>, deadline: Timestamp<Monotonic>) -> (Timestamp<Monotonic>, Span) {
        let mut longest = Span::ZERO;
        let mut last = from;
        while last < deadline {
            std::hint::spin_loop();
            let now = self.clock.now();
            longest = longest.max(now - last);
            last = now;
        }
        (last, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClockOptions;

    #[test]
    fn no_method_ever_wakes_early() {
        let clock = Clock::start(&ClockOptions::fast());
        for method in Method::ALL {
            let mut sleeper = Sleeper::new(&clock, method, SleepOptions::default());
            for micros in [0, 1, 30, 200] {
                let wake = sleeper.sleep(Span::from_micros(micros)).expect("a short sleep is accepted");
                assert!(!wake.miss.is_negative() || wake.interrupted, "{method}: {wake:?}");
            }
        }
    }

    #[test]
    fn a_sleep_that_is_never_early_ends_when_the_kernels_own_clock_has_reached_its_deadline() {
        // Without the kernel's page the clock may be ahead of the kernel's.
        let clock = Clock::start(&ClockOptions { kernel_page: false, ..ClockOptions::fast() });
        let mut sleeper = Sleeper::new(&clock, Method::NeverEarly, SleepOptions::default());
        for micros in [0, 1, 30, 200, 200, 200] {
            let deadline = clock.now() + Span::from_micros(micros);
            let wake = sleeper.sleep_until(deadline).expect("a short sleep is accepted");
            assert!(clocks::now::<Monotonic>() >= deadline || wake.interrupted, "{wake:?}");
        }
    }

    #[test]
    fn a_long_sleep_on_an_oversubscribed_machine_is_woken_early_and_then_shortly_before_its_deadline() {
        let clock = Clock::start(&ClockOptions::fast());
        let mut sleeper = Sleeper::new(&clock, Method::Adaptive, SleepOptions::default());
        let (now, long) = (clock.now(), Span::from_millis(10));
        assert_eq!(sleeper.begin(now, now + long).early, None, "on a quiet machine it is woken once");
        let taken = Span::from_millis(4);
        let gap = End { lasted: long, miss: taken, longest_gap: taken, spin: taken, in_kernel: true };
        sleeper.policy.ended(gap);
        let phase = sleeper.begin(now, now + long);
        assert_eq!(phase.early, Some(now + Span::from_millis(5)));
        assert!(phase.kernel_until.is_some_and(|until| until > now + long - Span::from_micros(61)), "{phase:?}");
        assert_eq!(sleeper.begin(now, now + Span::from_millis(2)).early, None);
    }

    #[test]
    fn a_deadline_that_has_passed_returns_at_once_with_the_miss() {
        let clock = Clock::start(&ClockOptions::fast());
        for method in Method::ALL {
            let mut sleeper = Sleeper::new(&clock, method, SleepOptions::default());
            let wake = sleeper.sleep_until(clock.now() - Span::from_millis(50)).expect("a past deadline is accepted");
            assert!(wake.miss >= Span::from_millis(50), "{method}: {wake:?}");
            assert_eq!(wake.spin, Span::ZERO, "{method}");
        }
    }

    #[test]
    fn nothing_is_rehearsed_where_less_time_is_left_than_that_takes() {
        let clock = Clock::start(&ClockOptions::fast());
        let mut sleeper = Sleeper::new(&clock, Method::Spin, SleepOptions::default());
        let now = clock.now();
        let phase = sleeper.begin(now, now + Span::from_micros(1));
        let mut rehearsals = 0;
        let approach = sleeper.approach(&phase, || rehearsals += 1);
        let wake = match approach {
            Approach::Ended(wake) => wake,
            Approach::Last(leg) => sleeper.ended(&leg, spin_until(leg.end)),
        };
        assert!(!wake.miss.is_negative());
        assert_eq!(rehearsals, 0);
    }

    #[test]
    fn the_system_clock_alone_serves_every_method_too() {
        let options = ClockOptions { source: crate::SourceChoice::Os, ..ClockOptions::fast() };
        let clock = Clock::start(&options);
        assert!(!clock.reads_counter());
        for method in Method::ALL {
            let mut sleeper = Sleeper::new(&clock, method, SleepOptions::default());
            let wake = sleeper.sleep(Span::from_micros(100)).expect("a short sleep is accepted");
            assert!(!wake.miss.is_negative() || wake.interrupted, "{method}: {wake:?}");
        }
    }
}
