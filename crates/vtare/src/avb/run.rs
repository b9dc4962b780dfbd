//! Driving a method over a path: estimate after estimate, until there are enough, a signal arrives, or the far end is
//! gone.

use std::ops::ControlFlow;

use vtare_methods::avb::{Budget, Estimate, Method, Setup, Step};
use vtare_units::{Monotonic, Span, Timestamp};

use super::parameters::{FOLLOW_NS, Parameters, Stream};
use super::probe_path::{Broken, ProbePath};
use crate::context::Context;
use crate::failure::Failure;
use crate::progress::Progress;

/// A wait is cut into pieces of this length at most, so that a signal is noticed.
const PIECE: Span = Span::from_millis(100);

/// An estimate and when it began, on the sender's clock.
#[derive(Clone, Debug)]
pub(super) struct TimedEstimate {
    /// The first step.
    pub(super) began: Timestamp<Monotonic>,
    /// The result.
    pub(super) estimate: Estimate,
    /// Bytes of soundings, and of what was sent to be allowed trains back, since the estimate before.
    pub(super) extra_byte: u64,
}

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// A signal.
    pub(super) stopped: bool,
    /// Why the far end is taken to be gone.
    pub(super) lost: Option<String>,
    /// What the method cannot do.
    pub(super) unable: Option<String>,
}

impl Ended {
    fn of(broken: Broken) -> Self {
        match broken {
            Broken::Lost(error) => Self { lost: Some(error.to_string()), ..Self::default() },
            Broken::Unable(why) => Self { unable: Some(why), ..Self::default() },
            Broken::Late => {
                Self { unable: Some("no time is left for what its trains cost".to_owned()), ..Self::default() }
            }
        }
    }
}

/// How one estimate ended.
enum EstimateEnd {
    Done,
    /// The reader of the estimates wants no more.
    Enough,
    Stopped,
    Broken(Broken),
}

/// Makes estimates and gives each to `show`, until that breaks.
///
/// # Errors
/// [`Failure::Input`] for settings that cannot be.
pub(super) fn estimates(
    path: &mut ProbePath<'_>,
    parameters: &Parameters,
    seed: u64,
    context: &Context,
    show: &mut dyn FnMut(&TimedEstimate) -> ControlFlow<()>,
) -> Result<Ended, Failure> {
    let settings = parameters.settings()?;
    let budget = Budget { most_byte: parameters.most_byte, most_ns: parameters.most_ns, ..Budget::default() };
    let first = path.now();
    let ends = parameters.seconds.map(|seconds| first + Span::from_nanos((seconds * 1e9) as i64));
    let wanted = parameters.wanted().unwrap_or(u64::MAX);
    let mut near = None;
    let mut bucket_byte = None;
    for number in 0..wanted {
        let setup = Setup { ability: path.ability, budget, seed: seed.wrapping_add(number) };
        let mut method = settings.method(setup).map_err(|error| Failure::Input(error.to_string()))?;
        if let Err(broken) = path.prepare(parameters.most_byte, near) {
            return Ok(Ended::of(broken));
        }
        let began = path.now();
        let mut keep = |timed: &TimedEstimate| {
            near = timed.estimate.avb_bit_per_s.or(near);
            show(&deepest(timed, &mut bucket_byte))
        };
        match one(path, method.as_mut(), parameters.follow, began, ends, context, &mut keep) {
            EstimateEnd::Done => {}
            EstimateEnd::Enough => return Ok(Ended::default()),
            EstimateEnd::Stopped => return Ok(Ended { stopped: true, ..Ended::default() }),
            EstimateEnd::Broken(broken) => return Ok(Ended::of(broken)),
        }
        let pause = Span::from_unsigned_nanos(parameters.pause_ns);
        // A method that does not follow by itself is asked anew each second.
        let next = if parameters.follow { began + Span::from_unsigned_nanos(FOLLOW_NS) } else { path.now() + pause };
        if number + 1 == wanted || ends.is_some_and(|ends| next >= ends) {
            return Ok(Ended::default());
        }
        match wait(path, next - path.now(), context) {
            EstimateEnd::Done | EstimateEnd::Enough => {}
            EstimateEnd::Stopped => return Ok(Ended { stopped: true, ..Ended::default() }),
            EstimateEnd::Broken(broken) => return Ok(Ended::of(broken)),
        }
    }
    Ok(Ended::default())
}

/// The estimate with the deepest token bucket of those so far, bytes: it is as deep at least, and one that earlier
/// estimates emptied looks shallower.
fn deepest(timed: &TimedEstimate, bucket_byte: &mut Option<f64>) -> TimedEstimate {
    let mut timed = timed.clone();
    *bucket_byte = timed.estimate.token_bucket_byte.into_iter().chain(*bucket_byte).max_by(f64::total_cmp);
    timed.estimate.token_bucket_byte = *bucket_byte;
    timed
}

/// One estimate; of a method that follows changes, all of them.
fn one(
    path: &mut ProbePath<'_>,
    method: &mut dyn Method,
    follows: bool,
    began: Timestamp<Monotonic>,
    ends: Option<Timestamp<Monotonic>>,
    context: &Context,
    keep: &mut dyn FnMut(&TimedEstimate) -> ControlFlow<()>,
) -> EstimateEnd {
    let mut shown_trains = 0;
    let mut give = |path: &mut ProbePath<'_>, estimate: Estimate| {
        let extra_byte = std::mem::take(&mut path.extra_byte);
        keep(&TimedEstimate { began, estimate, extra_byte })
    };
    loop {
        if context.stop_requested() {
            if let Some(estimate) = newer(method, shown_trains) {
                let _ = give(path, estimate);
            }
            return EstimateEnd::Stopped;
        }
        let step = method.step(path.now());
        let broken = match step {
            Step::Done(estimate) => {
                return if give(path, *estimate).is_break() { EstimateEnd::Enough } else { EstimateEnd::Done };
            }
            Step::Wait(ns) => {
                if let Some(estimate) = at_a_wait(method, follows, shown_trains) {
                    shown_trains = estimate.trains;
                    if give(path, estimate).is_break() {
                        return EstimateEnd::Enough;
                    }
                }
                if ends.is_some_and(|ends| path.now() >= ends) {
                    return EstimateEnd::Done;
                }
                match wait(path, Span::from_unsigned_nanos(ns), context) {
                    EstimateEnd::Broken(broken) => Some(broken),
                    EstimateEnd::Done | EstimateEnd::Enough | EstimateEnd::Stopped => None,
                }
            }
            Step::Send(train) => {
                let near = method.interim().and_then(|estimate| estimate.avb_bit_per_s);
                match path.send(&train, near) {
                    Ok(seen) => {
                        method.observe(&seen);
                        None
                    }
                    Err(broken) => Some(broken),
                }
            }
        };
        if let Some(broken) = broken {
            if let Some(estimate) = newer(method, shown_trains) {
                let _ = give(path, estimate);
            }
            return EstimateEnd::Broken(broken);
        }
    }
}

/// The best answer so far, where trains have been sent since the one that was shown last.
fn newer(method: &dyn Method, shown_trains: u32) -> Option<Estimate> {
    method.interim().filter(|estimate| estimate.trains > shown_trains)
}

/// What a wait gives to show: of a method that follows changes a new value. Others wait with half an answer at hand,
/// too, to let a queue run empty: theirs comes at the end.
fn at_a_wait(method: &dyn Method, follows: bool, shown_trains: u32) -> Option<Estimate> {
    if follows { newer(method, shown_trains) } else { None }
}

/// Passes time in pieces.
fn wait(path: &mut ProbePath<'_>, span: Span, context: &Context) -> EstimateEnd {
    let until = path.now() + span;
    loop {
        let left = until - path.now();
        if left <= Span::ZERO {
            return EstimateEnd::Done;
        }
        if context.stop_requested() {
            return EstimateEnd::Stopped;
        }
        if let Err(broken) = path.pause(left.min(PIECE)) {
            return EstimateEnd::Broken(broken);
        }
    }
}

/// The progress line; none where estimates are shown line by line.
pub(super) fn progress(parameters: &Parameters, context: &Context) -> Progress {
    match parameters.stream {
        Stream::Lines => Progress::hidden(),
        _ => context.progress(&format!("avb {}", parameters.peer), parameters.wanted().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_methods::avb::{Observation, Spent, Stopped};

    /// Has an answer after this number of trains, and always waits.
    struct Waiting(u32);

    impl Method for Waiting {
        fn name(&self) -> &'static str {
            "waiting"
        }

        fn step(&mut self, _: Timestamp<Monotonic>) -> Step {
            Step::Wait(1)
        }

        fn observe(&mut self, _: &Observation) {}

        fn interim(&self) -> Option<Estimate> {
            (self.0 > 0).then(|| Estimate::none(&Spent { trains: self.0, ..Spent::default() }, Stopped::Running))
        }
    }

    #[test]
    fn a_token_bucket_that_was_not_full_again_stays_as_deep_as_it_was_seen() {
        let mut so_far = None;
        let shown = [None, Some(50e3), Some(13.5e3), None, Some(60e3)].map(|token_bucket_byte| {
            let estimate = Estimate { token_bucket_byte, ..Estimate::none(&Spent::default(), Stopped::Running) };
            let timed = TimedEstimate { began: Timestamp::ZERO, estimate, extra_byte: 0 };
            deepest(&timed, &mut so_far).estimate.token_bucket_byte
        });
        assert_eq!(shown, [None, Some(50e3), Some(50e3), Some(50e3), Some(60e3)]);
    }

    #[test]
    fn only_what_follows_shows_values_at_waits_and_each_once() {
        let trains = |follows, timed, shown| at_a_wait(&Waiting(timed), follows, shown).map(|estimate| estimate.trains);
        assert_eq!(trains(true, 4, 0), Some(4));
        assert_eq!(trains(true, 4, 4), None, "shown already");
        assert_eq!(trains(true, 0, 0), None, "nothing yet");
        assert_eq!(trains(false, 4, 0), None, "an estimate by itself ends once");
        assert_eq!(newer(&Waiting(4), 0).map(|estimate| estimate.trains), Some(4), "broken off, it has what there is");
    }
}
