//! A simulated kernel that wakes sleepers as late, and interrupts spinners as often, as a recorded one did.
//!
//! Time is a number here: a thousand sleeps of 10 ms take microseconds, and every run repeats.

use vtare_units::Span;

use super::policy::{End, Policy};
use super::{Method, SleepOptions};

/// What a machine did to a sleeping and to a spinning thread, in ns: the policy's world.
///
/// Recorded by `bench/sleep --record`; `tests/traces` holds some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// How much later than asked the kernel woke the thread, sleep after sleep.
    pub overshoot_ns: Vec<u32>,
    /// How long a spinning thread ran undisturbed, and for how long it then lost the CPU, time after time.
    pub runs_ns: Vec<(u32, u32)>,
}

/// A line of a trace file that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is `{found}`: use `overshoot NS` or `run NS NS` (# starts a comment)")]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// What it shows.
    pub found: String,
}

impl Trace {
    /// Reads a trace from its text: lines `overshoot NS` and `run RAN_NS LOST_NS`, `#` for comments.
    ///
    /// # Errors
    /// At the first line that is neither.
    ///
    /// ```
    /// use vtare_clock::sleep::sim::Trace;
    /// let trace = Trace::parse("# two sleeps\novershoot 14000\novershoot 15200\nrun 900000 4000000\n")?;
    /// assert_eq!(trace.overshoot_ns, [14_000, 15_200]);
    /// # Ok::<(), vtare_clock::sleep::sim::TraceError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let error = || TraceError { line: number + 1, found: line.to_owned() };
            let nanos = |word: &str| word.parse::<u32>().map_err(|_| error());
            match words.as_slice() {
                [] => {}
                ["overshoot", ns] => trace.overshoot_ns.push(nanos(ns)?),
                ["run", ran, lost] => trace.runs_ns.push((nanos(ran)?, nanos(lost)?)),
                _ => return Err(error()),
            }
        }
        Ok(trace)
    }
}

/// What a number of simulated sleeps came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Actual minus target wake-up, in ns, in the order of the sleeps.
    pub miss_ns: Vec<u64>,
    /// Time spent spinning, as a share of the time asked to sleep.
    pub spin_share: f64,
    /// Sleeps that the guard held back from spinning.
    pub held_back: usize,
}

impl Outcome {
    /// The median miss, in ns; `None` without sleeps.
    #[must_use]
    pub fn median_miss_ns(&self) -> Option<u64> {
        let mut sorted = self.miss_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The simulated kernel: walks through a trace, from the start again at its end.
#[derive(Clone, Debug)]
pub struct SimKernel<'t> {
    trace: &'t Trace,
    sleeps: usize,
    runs: usize,
    /// What is left of the present undisturbed run.
    left_ns: u64,
    /// A pause of the whole machine, once, after this number of sleeps.
    pause: Option<(usize, u64)>,
}

impl<'t> SimKernel<'t> {
    /// A kernel that behaves as in `trace`.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let left_ns = trace.runs_ns.first().map_or(u64::MAX, |run| u64::from(run.0));
        Self { trace, sleeps: 0, runs: 0, left_ns, pause: None }
    }

    /// The same kernel, whose machine stalls for `span` while sleep number `sleep` is being spun to its end.
    #[must_use]
    pub fn with_pause(mut self, sleep: usize, span: Span) -> Self {
        self.pause = Some((sleep, span.as_nanos_unsigned()));
        self
    }

    fn overshoot(&mut self) -> u64 {
        let known = &self.trace.overshoot_ns;
        let overshoot = known.get(self.sleeps % known.len().max(1)).copied().map_or(0, u64::from);
        self.sleeps += 1;
        overshoot
    }

    /// Spins for `span` ns: when it ends, and the longest gap met.
    fn spin(&mut self, span: u64) -> (u64, u64) {
        if let Some((_, lost)) = self.pause.take_if(|pause| pause.0 < self.sleeps) {
            return (span.max(lost), lost);
        }
        let (mut passed, mut longest) = (0, 0);
        while passed < span {
            if self.left_ns > span - passed {
                self.left_ns -= span - passed;
                return (span, longest);
            }
            let lost = u64::from(self.trace.runs_ns[self.runs % self.trace.runs_ns.len()].1);
            passed += self.left_ns + lost;
            longest = longest.max(lost);
            self.runs += 1;
            self.left_ns = u64::from(self.trace.runs_ns[self.runs % self.trace.runs_ns.len()].0).max(1);
        }
        (passed, longest)
    }

    /// Sleeps `count` times for `duration` by `method` and returns the results. `tick` is 1/HZ, for the two-phase
    /// methods.
    pub fn sleep(
        &mut self,
        method: Method,
        options: &SleepOptions,
        duration: Span,
        tick: Span,
        count: usize,
    ) -> Outcome {
        let mut policy = Policy::of(method, options, tick);
        let mut outcome = Outcome { miss_ns: Vec::with_capacity(count), spin_share: 0.0, held_back: 0 };
        let mut spun_ns = 0_u64;
        let target = duration.as_nanos_unsigned();
        for _ in 0..count {
            outcome.held_back += usize::from(policy.held_back());
            let margin = policy.margin(duration).as_nanos_unsigned();
            let mut awake = 0;
            let in_kernel = target > margin;
            if in_kernel {
                let overshoot = self.overshoot();
                awake = target - margin + overshoot;
                policy.learn(duration, Span::from_unsigned_nanos(overshoot));
            }
            let (spin, longest) = if awake < target { self.spin(target - awake) } else { (0, 0) };
            let miss = awake + spin - target;
            let [miss_span, longest_gap, spin_span] = [miss, longest, spin].map(Span::from_unsigned_nanos);
            policy.ended(End {
                lasted: duration + miss_span,
                miss: miss_span,
                longest_gap,
                spin: spin_span,
                in_kernel,
            });
            spun_ns += spin.min(target.saturating_sub(awake));
            outcome.miss_ns.push(miss);
        }
        outcome.spin_share = spun_ns as f64 / (target as f64 * count.max(1) as f64);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_neither_is_named() {
        let error = Trace::parse("overshoot 5\nrun 7\n").expect_err("a run has two figures");
        assert_eq!(error.to_string(), "line 2 is `run 7`: use `overshoot NS` or `run NS NS` (# starts a comment)");
        assert!(Trace::parse("overshoot -3").is_err());
    }

    #[test]
    fn the_kernels_part_overshoots_as_recorded_and_a_spin_ends_late_where_it_is_interrupted() {
        let trace = Trace::parse("overshoot 20000\nrun 50000 4000000").expect("a good trace");
        let (millisecond, tick) = (Span::from_millis(1), Span::from_millis(4));
        let options = SleepOptions::default();
        let kernel = SimKernel::new(&trace).sleep(Method::ClockNanosleep, &options, millisecond, tick, 3);
        assert_eq!(kernel.miss_ns, [20_000; 3]);
        assert_eq!(kernel.spin_share, 0.0);
        // 50 us of running, 4 ms lost: 3.05 ms late.
        let spin = SimKernel::new(&trace).sleep(Method::Spin, &options, millisecond, tick, 1);
        assert_eq!(spin.miss_ns, [3_050_000]);
    }
}
