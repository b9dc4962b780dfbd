//! How early each method asks the kernel to wake the thread.

use vtare_units::Span;

use super::adaptive::Adaptive;
use super::cheap::Cheap;
use super::{Method, SleepOptions};

/// Spinning of [`Method::TwoPhaseCapped`] at most.
const CAP: Span = Span::from_millis(1);

/// What decides the margin before the deadline.
#[derive(Clone, Debug)]
pub(super) enum Policy {
    /// Always the same margin.
    Fixed(Span),
    Adaptive(Adaptive),
    Cheap(Cheap),
}

/// How a sleep ended, for its policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// From its start to its end.
    pub(super) lasted: Span,
    pub(super) miss: Span,
    /// The longest gap between two clock readings while spinning; zero where nothing was spun.
    pub(super) longest_gap: Span,
    pub(super) spin: Span,
    /// The kernel had a part in it.
    pub(super) in_kernel: bool,
}

impl Policy {
    /// The policy of `method`, on a kernel whose timer ticks every `tick`.
    pub(super) fn of(method: Method, options: &SleepOptions, tick: Span) -> Self {
        match method {
            Method::Usleep | Method::ClockNanosleep => Self::Fixed(Span::ZERO),
            Method::TwoPhase => Self::Fixed(tick),
            Method::TwoPhaseCapped => Self::Fixed(tick.min(CAP)),
            Method::Spin => Self::Fixed(Span::MAX),
            Method::Adaptive | Method::NeverEarly => Self::Adaptive(Adaptive::new(options)),
            Method::Cheap => Self::Cheap(Cheap::new(options)),
        }
    }

    /// How long before its deadline the kernel is to wake a sleep of `duration`.
    pub(super) fn margin(&mut self, duration: Span) -> Span {
        match self {
            Self::Fixed(margin) => *margin,
            Self::Adaptive(policy) => policy.margin(duration),
            Self::Cheap(policy) => policy.margin(duration),
        }
    }

    /// Learns how much later than asked the kernel woke a sleep of `duration`.
    pub(super) fn learn(&mut self, duration: Span, overshoot: Span) {
        match self {
            Self::Fixed(_) => {}
            Self::Adaptive(policy) => policy.learn(duration, overshoot),
            Self::Cheap(policy) => policy.learn(duration, overshoot),
        }
    }

    /// Takes note of how a sleep ended.
    pub(super) fn ended(&mut self, end: End) {
        match self {
            Self::Fixed(_) => {}
            Self::Adaptive(policy) => policy.ended(end.miss, end.longest_gap),
            Self::Cheap(policy) => policy.ended(end.lasted, end.spin, end.in_kernel),
        }
    }

    /// Whether spins are kept short: the machine is, or lately was, oversubscribed.
    pub(super) fn is_wary(&self) -> bool {
        matches!(self, Self::Adaptive(policy) if policy.is_wary())
    }

    /// Whether spinning is held back for the next sleep.
    pub(super) fn held_back(&self) -> bool {
        matches!(self, Self::Adaptive(policy) if policy.held_back())
    }
}
