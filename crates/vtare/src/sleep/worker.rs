//! The thread that one method sleeps on.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Span, ThreadCpu, Timestamp};

use super::parameters::Parameters;
use crate::context::Context;
use crate::failure::Failure;
use crate::standstill::{self, Outage, Watch};
use vtare_clock::Clock;
use vtare_clock::sleep::{Method, SleepOptions, Sleeper};

/// How a sleeping thread is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) cpu: Option<usize>,
    pub(super) slack_ns: Option<u64>,
    pub(super) cpu_share: f64,
    pub(super) lambda_ns: u64,
    pub(super) tolerance_ns: u64,
    pub(super) fifo: Option<u8>,
    /// When the run began.
    pub(super) began: Timestamp<Monotonic>,
}

impl Settings {
    /// As the run asks for it.
    pub(super) fn of(parameters: &Parameters, began: Timestamp<Monotonic>) -> Self {
        let Parameters { cpu, slack_ns, cpu_share, lambda_ns, tolerance_ns, fifo, .. } = *parameters;
        Self { cpu, slack_ns, cpu_share, lambda_ns, tolerance_ns, fifo, began }
    }
}

/// What the system did not allow a sleeping thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// No real-time priority, and why.
    pub(super) fifo: Option<String>,
    /// The scheduler took no time slice for a method that learns.
    pub(super) slice: bool,
    /// The timer slack that was asked for was not set, and why.
    pub(super) slack: Option<String>,
}

/// One turn to sleep: at most `sleeps` sleeps, and none begun after `time` has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) target: Span,
    pub(super) sleeps: u64,
    pub(super) time: Option<Span>,
}

/// One sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) miss_ns: i64,
    pub(super) spin_ns: i64,
    pub(super) disturbed: bool,
}

/// What a turn gave.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) readings: Vec<Reading>,
    /// Sleeps in which the process was stopped or the machine stalled. They are no readings.
    pub(super) outages: Vec<Outage>,
    /// CPU time of the thread in this turn.
    pub(super) cpu: Span,
    /// Time that passed in this turn.
    pub(super) wall: Span,
    /// What the system has not allowed this thread so far.
    pub(super) refused: Refused,
}

/// The owner's end of a sleeping thread. The thread ends when this is dropped.
pub(super) struct Worker {
    orders: Sender<Order>,
    turns: Receiver<Result<Batch, Failure>>,
}

impl Worker {
    /// Starts the thread. What it meets while setting up is the answer to the first turn.
    pub(super) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        clock: &'env Clock,
        method: Method,
        settings: Settings,
        context: &'env Context,
    ) -> Self {
        let ((orders, inbox), (outbox, turns)) = (channel(), channel());
        scope.spawn(move || {
            let mut sleeper = set_up(clock, method, settings);
            for order in inbox {
                let turn = match &mut sleeper {
                    Ok((sleeper, fifo)) => sleep(sleeper, order, clock, (context, settings.began))
                        .map(|turn| note_refused(turn, sleeper, fifo)),
                    Err(failure) => Err(Failure::Machine(failure.to_string())),
                };
                // This fails where the owner has ended, which needs no result.
                let Ok(()) = outbox.send(turn) else { return };
            }
        });
        Self { orders, turns }
    }

    /// Has the thread take one turn, and waits for it.
    pub(super) fn turn(&self, order: Order) -> Result<Batch, Failure> {
        let gone = || Failure::Machine("the sleeping thread ended before its turn".to_owned());
        self.orders.send(order).map_err(|_| gone())?;
        self.turns.recv().map_err(|_| gone())?
    }
}

/// Sets the thread up: its sleeper, and why the system gave it no real-time priority, where one was asked for and
/// refused.
fn set_up(clock: &Clock, method: Method, settings: Settings) -> Result<(Sleeper<'_>, Refused), Failure> {
    if let Some(cpu) = settings.cpu {
        sched::pin_to(&[cpu])?;
    }
    let slack = settings.slack_ns.map(|slack| sched::set_timer_slack(Span::from_unsigned_nanos(slack)));
    // Here and not by the sleeper, which sets its thread up at its first sleep in the kernel: spinning never gets
    // there.
    let class = settings.fifo.map(|priority| sched::set_class(sched::Class::Fifo(priority.into())));
    let reason =
        |answer: Option<Result<(), vtare_sys::SysError>>| answer.and_then(Result::err).map(|error| error.to_string());
    let refused = Refused { fifo: reason(class), slack: reason(slack), slice: false };
    let default = SleepOptions::default();
    // The methods that learn set the slack themselves, unless the run sets it.
    let slack = settings.slack_ns.map(Span::from_unsigned_nanos).or(default.slack);
    let (lambda, tolerance) =
        (Span::from_unsigned_nanos(settings.lambda_ns), Span::from_unsigned_nanos(settings.tolerance_ns));
    let options = SleepOptions { cpu_share: settings.cpu_share, lambda, tolerance, slack, ..default };
    Ok((Sleeper::new(clock, method, options), refused))
}

/// Adds what is known of refusals once the thread has slept.
fn note_refused(turn: Batch, sleeper: &Sleeper<'_>, refused: &Refused) -> Batch {
    Batch { refused: Refused { slice: sleeper.refused().slice, ..refused.clone() }, ..turn }
}

fn sleep(
    sleeper: &mut Sleeper<'_>,
    order: Order,
    clock: &Clock,
    (context, began): (&Context, Timestamp<Monotonic>),
) -> Result<Batch, Failure> {
    // Room for all, so that nothing is allocated between two sleeps.
    let mut readings = Vec::with_capacity(order.sleeps.min(1 << 20) as usize);
    let (watch, mut outages, mut longest_ns) = (Watch::start(), Vec::new(), 0);
    // The CPU time is read inside the wall time, so that a thread that only spins shows 100 % and not more.
    let (from, cpu_from) = (clock.now(), clocks::now::<ThreadCpu>());
    for _ in 0..order.sleeps {
        if context.stop_requested() || order.time.is_some_and(|time| clock.now() - from >= time) {
            break;
        }
        let deadline = clock.now() + order.target;
        let wake = sleeper.sleep_until(deadline)?;
        // One reading after the call, for every method alike: the caller's own view.
        let miss = clock.now_ordered() - deadline;
        if wake.interrupted {
            // A signal cut this sleep short: its miss is no property of the machine.
            continue;
        }
        let miss_ns = miss.as_nanos();
        if standstill::stands_out(miss_ns, longest_ns)
            && let Some(cause) = watch.accounts(None).cause(miss)
        {
            outages.push(Outage::new((deadline - began).as_nanos(), miss_ns, cause));
            continue;
        }
        longest_ns = longest_ns.max(miss_ns);
        readings.push(Reading { miss_ns, spin_ns: wake.spin.as_nanos(), disturbed: wake.disturbed });
    }
    let cpu = clocks::now::<ThreadCpu>() - cpu_from;
    let stood: i64 = outages.iter().map(|outage: &Outage| outage.length_ns.cast_signed()).sum();
    let wall = clock.now() - from - Span::from_nanos(stood);
    Ok(Batch { readings, outages, cpu, wall, refused: Refused::default() })
}
