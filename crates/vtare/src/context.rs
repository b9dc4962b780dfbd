//! What every command gets: the clock once it is needed, the request to stop, and a progress line.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::failure::Failure;
use crate::progress::Progress;
use vtare_clock::{Clock, ClockOptions};

/// The surroundings of one command.
pub(crate) struct Context {
    clock: OnceLock<Clock>,
    stop: Arc<AtomicBool>,
    live: bool,
    quiet: bool,
}

impl Context {
    /// A context whose stop flag is set by the first SIGINT or SIGTERM; the second one ends the process at once.
    pub(crate) fn with_signals() -> Result<Self, Failure> {
        let context = Self::without_signals();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The order matters: the shutdown reads the flag before this signal sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&context.stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&context.stop)))
                .map_err(|error| Failure::Machine(format!("cannot listen for signal {signal}: {error}")))?;
        }
        Ok(context)
    }

    /// A context that no signal reaches.
    pub(crate) fn without_signals() -> Self {
        Self { clock: OnceLock::new(), stop: Arc::new(AtomicBool::new(false)), live: false, quiet: false }
    }

    /// The same, where results are shown as they come.
    pub(crate) fn live(self, live: bool) -> Self {
        Self { live, ..self }
    }

    /// The same, where only results and errors are shown.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Whether results are shown as they come.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Whether only results and errors are shown.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The clock, calibrated at the first call so that commands without need of it start at once.
    pub(crate) fn clock(&self) -> &Clock {
        self.clock.get_or_init(|| Clock::start(&ClockOptions::default()))
    }

    /// Whether the user or the system asked to stop. Instruments check it often and keep what they have.
    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag itself, for threads and for other crates.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// A progress line of `total` steps on stderr, visible on a terminal only, and not where it is asked to be quiet.
    pub(crate) fn progress(&self, label: &str, total: u64) -> Progress {
        if self.quiet { Progress::hidden() } else { Progress::start(label, total) }
    }
}
