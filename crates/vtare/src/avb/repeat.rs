//! Estimate after estimate by a method that sends no trains of vtare's own: with the silence between them, until there
//! are enough, a signal arrives, or the far end is gone.

use std::ops::ControlFlow;

use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};

use super::cell::{self, AvbCell, Gathered, StreamLine};
use super::parameters::{FOLLOW_NS, Parameters, Stream};
use super::run::{self, TimedEstimate};
use super::shown::megabits;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{Note, Outcome, Session};

/// How often the end, signals and what is under way are checked.
pub(super) const LOOK_EVERY: Span = Span::from_millis(20);

/// One estimate, and what came to an end with it.
pub(super) struct Made {
    pub(super) timed: TimedEstimate,
    /// By a signal.
    pub(super) stopped: bool,
    /// Why the far end is taken to be gone.
    pub(super) lost: Option<String>,
}

/// Makes estimates by `make`, which may fill in what it learns of the `cell`.
///
/// # Errors
/// Those of `make`; where samples or estimates cannot be written.
pub(super) fn repeat(
    parameters: &Parameters,
    session: &mut Session<'_>,
    mut cell: AvbCell,
    mut notes: Vec<Note>,
    make: &mut dyn FnMut(&mut AvbCell) -> Result<Made, Failure>,
) -> Result<Outcome<AvbCell>, Failure> {
    let progress = run::progress(parameters, session.context);
    let started = clocks::now::<Monotonic>();
    let ends = parameters.seconds.map(|seconds| started + Span::from_nanos((seconds * 1e9) as i64));
    let wanted = parameters.wanted().unwrap_or(u64::MAX);
    let mut gathered = Gathered::default();
    let mut interrupted = false;
    for number in 0..wanted {
        let Made { timed, stopped, lost } = make(&mut cell)?;
        gathered.push(&timed);
        cell::row(&mut session.samples, &cell, number, &timed)?;
        progress.set(number + 1);
        progress.label(&format!("avb {}: {}", cell.peer, megabits(timed.estimate.avb_bit_per_s)));
        interrupted = stopped;
        session.peer_lost = lost.map(|why| format!("{}: {why}", parameters.peer));
        if parameters.stream != Stream::Off {
            let line = StreamLine::new(&cell, &gathered, &timed, started, clocks::now());
            if cell::show(&line, parameters.stream, &mut notes)?.is_break() {
                break;
            }
        }
        let pause = Span::from_unsigned_nanos(parameters.pause_ns);
        let next =
            if parameters.follow { timed.began + Span::from_unsigned_nanos(FOLLOW_NS) } else { clocks::now() + pause };
        let last = number + 1 == wanted || ends.is_some_and(|ends| next >= ends);
        if interrupted || last || session.peer_lost.is_some() {
            break;
        }
        interrupted = wait_until(next, session.context).is_break();
        if interrupted {
            break;
        }
    }
    drop(progress);
    gathered.sum_up(&mut cell, None);
    notes.extend(gathered.notes(&cell.method));
    Ok(Outcome { cells: vec![cell], notes, interrupted })
}

/// Passes time; breaks where the user or the system wants an end.
fn wait_until(until: Timestamp<Monotonic>, context: &Context) -> ControlFlow<()> {
    loop {
        if context.stop_requested() {
            return ControlFlow::Break(());
        }
        let now = clocks::now::<Monotonic>();
        if now >= until {
            return ControlFlow::Continue(());
        }
        // A sleep that is cut short only looks earlier.
        let _ = clocks::sleep_until((now + LOOK_EVERY).min(until));
    }
}
