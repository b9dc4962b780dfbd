//! The conditions under which the sending thread runs. Each is a factor of an experiment: what was refused is reported,
//! not replaced.

use vtare_sys::net::DmaLatency;
use vtare_sys::sched::{self, Class};
use vtare_units::Span;

use crate::failure::Failure;
use crate::instrument::Note;

/// Sets the calling thread up.
///
/// # Errors
/// Where the CPU is refused.
pub(crate) fn take(cpu: Option<usize>, fifo: Option<u8>, spins: bool) -> Result<Vec<Note>, Failure> {
    let mut notes = Vec::new();
    if let Some(cpu) = cpu {
        sched::pin_to(&[cpu])?;
    } else {
        notes.push(Note::new("not_pinned", "the sending thread could move between CPUs; --cpu N keeps it on one"));
    }
    // The least slack: sleeps between packets end when they are meant to.
    if let Err(error) = sched::set_timer_slack(Span::from_nanos(1)) {
        notes.push(Note::new("slack_refused", error.to_string()));
    }
    if let Some(priority) = fifo {
        match sched::set_class(Class::Fifo(priority.into())) {
            Ok(()) if spins => notes.push(Note::new(
                "fifo_spins",
                "a spinning thread under SCHED_FIFO is stopped for 50 ms in each second, unless \
                 kernel.sched_rt_runtime_us is -1; --blocking avoids it",
            )),
            Ok(()) => {}
            Err(error) => notes.push(Note::new("fifo_refused", error.to_string())),
        }
    }
    Ok(notes)
}

/// Holds `/dev/cpu_dma_latency` where that is asked for.
pub(crate) fn hold_latency(latency_ns: Option<u64>, notes: &mut Vec<Note>) -> Option<DmaLatency> {
    let latency = Span::from_nanos(latency_ns?.min(i64::MAX as u64).cast_signed());
    match DmaLatency::hold(latency) {
        Ok(held) => Some(held),
        Err(error) => {
            notes.push(Note::new("dma_latency_refused", error.to_string()));
            None
        }
    }
}
