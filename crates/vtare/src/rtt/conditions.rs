//! The conditions under which the sending thread runs. Each is a factor of an experiment: what was refused is reported,
//! not replaced.

use vtare_sys::kernel_file;
use vtare_sys::net::DmaLatency;
use vtare_sys::sched::{self, Class};
use vtare_units::Span;

use crate::failure::Failure;
use crate::instrument::Note;
use crate::sentences::run as words;

/// Sets the calling thread up. `spins`: it takes all of a CPU.
///
/// # Errors
/// Where the CPU is refused, or the kernel would stop a thread that spins at a real-time priority.
pub(crate) fn take(cpu: Option<usize>, fifo: Option<u8>, spins: bool) -> Result<Vec<Note>, Failure> {
    let mut notes = Vec::new();
    if let Some(cpu) = cpu {
        sched::pin_to(&[cpu])?;
    } else {
        notes.push(Note::new("not_pinned", words::not_pinned()));
    }
    // The least slack: sleeps between packets end when they are meant to.
    if let Err(error) = sched::set_timer_slack(Span::from_nanos(1)) {
        notes.push(Note::new("slack_refused", words::slack_refused(error)));
    }
    if let Some(priority) = fifo {
        if spins && let Some(stopped) = stopped_each_second() {
            return Err(Failure::Input(format!(
                "--fifo {priority}: the kernel stops a spinning real-time thread for {stopped} of each second: add \
                 --blocking, or lift that limit: sysctl kernel.sched_rt_runtime_us=-1"
            )));
        }
        if let Err(error) = sched::set_class(Class::Fifo(priority.into())) {
            notes.push(Note::new("fifo_refused", words::fifo_refused(error)));
        }
    }
    Ok(notes)
}

/// How long a real-time thread that never sleeps is stopped in each second; `None` without a limit.
fn stopped_each_second() -> Option<Span> {
    let read =
        |name: &str| -> Option<i64> { kernel_file::text(format!("/proc/sys/kernel/{name}"))?.trim().parse().ok() };
    let (runtime_us, period_us) = (read("sched_rt_runtime_us")?, read("sched_rt_period_us")?);
    let limited = runtime_us >= 0 && runtime_us < period_us;
    limited.then(|| Span::from_nanos((period_us - runtime_us) * 1_000_000_000 / period_us))
}

/// Holds `/dev/cpu_dma_latency` where that is asked for.
pub(crate) fn hold_latency(latency_ns: Option<u64>, notes: &mut Vec<Note>) -> Option<DmaLatency> {
    let latency = Span::from_unsigned_nanos(latency_ns?);
    match DmaLatency::hold(latency) {
        Ok(held) => Some(held),
        Err(error) => {
            notes.push(Note::new("dma_latency_refused", words::dma_latency_refused(error)));
            None
        }
    }
}
