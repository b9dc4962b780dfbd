//! UTC as an interval: what a VMClock or a PTP clock states, else what the kernel is given by its NTP daemon; carried
//! on by the clock with a stated drift, and refused after a disruption until it is bounded again: at once by a clock
//! outside of this machine, else by the daemon. A pure decision, and the record that readers share.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use vtare_units::{Monotonic, Span, Timestamp, Wall};

use crate::watch::Checked;

/// How far UTC is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UtcStatus {
    /// UTC lies in the interval as a clock outside of this machine states it (VMClock, PTP clock), or as the kernel is
    /// given it by its NTP daemon.
    Synchronized,
    /// The daemon is gone, or the clock was stepped by hand: the last interval goes on, and grows with the drift.
    FreeRunning,
    /// Time was disrupted, and the daemon has not bounded it again: no interval (0 to the end of time).
    Disrupted,
    /// Nothing bounds UTC (no interval); or this is a guest that can be stopped without seeing it (no VMClock), and the
    /// interval, if there is one, holds only if it was not since the daemon's last measurement.
    #[default]
    Unknown,
}

/// UTC lies between `earliest` and `latest`, if `status` is one that states so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcInterval {
    /// The earliest that UTC can be now, since 1970.
    pub earliest: Timestamp<Wall>,
    /// The latest.
    pub latest: Timestamp<Wall>,
    /// What that is worth.
    pub status: UtcStatus,
    /// The generation of the reading behind it ([`Checked`]).
    pub generation: u64,
}

impl UtcInterval {
    /// Whether the interval is stated to contain UTC.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        matches!(self.status, UtcStatus::Synchronized | UtcStatus::FreeRunning)
    }
}

/// What is stated of UTC, by the kernel or by a clock outside of this machine, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtcStatement {
    /// When.
    pub at: Timestamp<Monotonic>,
    /// CLOCK_REALTIME then, or what the clock outside showed.
    pub wall: Timestamp<Wall>,
    /// How far apart the two readings can be.
    pub width: Span,
    /// Whether an NTP daemon states that the clock is synchronized (not STA_UNSYNC).
    pub synchronized: bool,
    /// The greatest error of CLOCK_REALTIME against UTC (maxerror).
    pub max_error: Span,
    /// The greatest drift, in ppm (tolerance).
    pub drift_ppm: f64,
    /// A leap second is due or in progress: CLOCK_REALTIME may be one second off.
    pub leap: bool,
    /// Whether a stop of this machine in which all its clocks stop would be seen.
    pub stops_are_seen: bool,
    /// A clock states it that goes on while this machine is stopped: it holds from the first moment after a disruption.
    pub outside: bool,
    /// How far the host's clock, whose error nobody states, is ahead of CLOCK_MONOTONIC, in ns, to within
    /// 100 us; `None` where there is none to read.
    pub host_ahead_ns: Option<i64>,
}

/// The longest bracket around a reading of the host's clock.
pub(crate) const HOST_WIDTH: Span = Span::from_micros(100);
/// The host's clock went on by this much more than this machine's, beyond what both may be steered: this machine stood.
const HOST_STEP: Span = Span::from_millis(1);
/// Steering of two clocks, 500 ppm each.
const STEERED: f64 = 1_000e-6;

/// The kernel's limit of maxerror: where it states that much, nobody sets it.
const MOST_ERROR: Span = Span::from_secs(16);
/// Between two statements of the daemon maxerror grows by this, once a second; any other change is a new statement.
const KERNEL_ADDS: Span = Span::from_micros(500);
/// The kernel adds a second's drift to maxerror once a second, at its end.
const KERNEL_ADDS_EVERY: Span = Span::from_secs(1);
/// For how long a statement is carried on before the kernel is asked again.
const REFRESH_EVERY: Span = Span::from_millis(100);
/// Statements of the daemon after a disruption until it is believed: the first may rest on measurements before it.
const NEW_STATEMENTS: u32 = 2;

/// What is known of UTC at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Known {
    at_ns: u64,
    /// UTC minus CLOCK_MONOTONIC.
    offset_ns: i64,
    /// By how much UTC may be off that; `u64::MAX`: there is no interval.
    error_ns: u64,
    /// Drift, as a fraction of 2^32.
    drift: u64,
    pub(crate) status: UtcStatus,
    generation: u64,
    /// maxerror as last stated, in ns.
    max_error_ns: i64,
    /// How often the daemon has stated something new since a disruption.
    statements: u32,
    bounded: bool,
    /// Whether it ever asked the kernel.
    pub(crate) begun: bool,
    /// As in the statement.
    host_ahead_ns: Option<i64>,
}

impl Known {
    /// The error when `age_ns` have passed.
    #[inline(always)]
    fn error_after(&self, age_ns: u64) -> u64 {
        let growth = (u128::from(age_ns) * u128::from(self.drift)) >> 32;
        self.error_ns.saturating_add(growth.min(u64::MAX.into()) as u64)
    }

    #[inline(always)]
    fn interval(&self, now: Checked) -> UtcInterval {
        let at = now.at.as_nanos();
        let middle = at.wrapping_add_signed(self.offset_ns);
        let error = self.error_after(at.saturating_sub(self.at_ns));
        UtcInterval {
            earliest: Timestamp::from_nanos(middle.saturating_sub(error)),
            latest: Timestamp::from_nanos(middle.saturating_add(error)),
            status: self.status,
            generation: now.generation,
        }
    }

    /// No interval, for this reason.
    fn refused(&self, status: UtcStatus, now: &UtcStatement, generation: u64, statements: u32) -> Self {
        Self {
            at_ns: now.at.as_nanos(),
            offset_ns: 0,
            error_ns: u64::MAX,
            drift: 0,
            status,
            generation,
            max_error_ns: now.max_error.as_nanos(),
            statements,
            bounded: false,
            begun: true,
            host_ahead_ns: now.host_ahead_ns,
        }
    }

    /// Whether the host's clock went on without this machine since.
    fn was_left_behind(&self, now: &UtcStatement) -> bool {
        let passed_ns = now.at.as_nanos().saturating_sub(self.at_ns) as f64;
        let allowed_ns = HOST_STEP.as_nanos() + HOST_WIDTH.as_nanos() + (passed_ns * STEERED) as i64;
        self.host_ahead_ns
            .zip(now.host_ahead_ns)
            .is_some_and(|(before, after)| before.abs_diff(after) > allowed_ns.cast_unsigned())
    }
}

/// What is known of UTC after `now` was stated in `generation`, and whether it contradicts what was known.
pub(crate) fn next(known: &Known, now: &UtcStatement, generation: u64) -> (Known, bool) {
    let stated = now.synchronized && now.max_error < MOST_ERROR;
    let same_generation = known.begun && known.generation == generation;
    if same_generation && known.was_left_behind(now) {
        return (known.refused(UtcStatus::Disrupted, now, generation.wrapping_add(1), 0), true);
    }
    if known.begun && !same_generation && !now.outside {
        return (known.refused(UtcStatus::Disrupted, now, generation, 0), false);
    }
    let grown_ns = now.max_error.as_nanos() - known.max_error_ns;
    let anew = grown_ns < 0 || grown_ns % KERNEL_ADDS.as_nanos() != 0;
    let statements = known.statements + u32::from(anew);
    if known.status == UtcStatus::Disrupted && !now.outside && !(stated && statements >= NEW_STATEMENTS) {
        return (known.refused(UtcStatus::Disrupted, now, generation, statements), false);
    }
    let claim = |status| if now.stops_are_seen { status } else { UtcStatus::Unknown };
    let passed = now.at.as_nanos().saturating_sub(known.at_ns);
    if !stated {
        let next = if known.bounded {
            let error_ns = known.error_after(passed);
            let at_ns = now.at.as_nanos();
            let host_ahead_ns = now.host_ahead_ns;
            Known { at_ns, error_ns, status: claim(UtcStatus::FreeRunning), host_ahead_ns, ..*known }
        } else {
            known.refused(UtcStatus::Unknown, now, generation, 0)
        };
        return (Known { max_error_ns: now.max_error.as_nanos(), ..next }, false);
    }
    let drift_each = now.drift_ppm * 1e-6;
    let leap_ns = if now.leap { 1_000_000_000 } else { 0 };
    let unseen_ns = (KERNEL_ADDS_EVERY.as_nanos() as f64 * drift_each) as i64;
    let error_ns = now.max_error.as_nanos() + unseen_ns + now.width.as_nanos() + leap_ns;
    let stated = Known {
        at_ns: now.at.as_nanos(),
        offset_ns: now.wall.as_nanos().wrapping_sub(now.at.as_nanos()).cast_signed(),
        error_ns: error_ns.cast_unsigned(),
        drift: (drift_each * 2_f64.powi(32)).ceil() as u64,
        status: claim(UtcStatus::Synchronized),
        generation,
        max_error_ns: now.max_error.as_nanos(),
        statements: 0,
        bounded: true,
        begun: true,
        host_ahead_ns: now.host_ahead_ns,
    };
    let apart = known.offset_ns.abs_diff(stated.offset_ns);
    let comparable = known.bounded && same_generation;
    if comparable && apart > known.error_after(passed).saturating_add(stated.error_ns) {
        // Both were vouched for, so this machine stopped between them and did not see it. What is stated now counts as
        // the first new statement; that of a clock outside holds.
        if now.outside {
            return (Known { generation: generation.wrapping_add(1), ..stated }, true);
        }
        return (known.refused(UtcStatus::Disrupted, now, generation.wrapping_add(1), 1), true);
    }
    (stated, false)
}

/// How asking the kernel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    Yes,
    /// The statement contradicts what was known.
    Contradicted,
    /// Another thread is at it.
    ByOther,
}

/// What is known of UTC, read by any number of threads while one writes.
#[derive(Debug, Default)]
pub(crate) struct UtcRecord {
    sequence: AtomicU64,
    at_ns: AtomicU64,
    offset_ns: AtomicI64,
    error_ns: AtomicU64,
    drift: AtomicU64,
    status: AtomicU8,
    generation: AtomicU64,
    max_error_ns: AtomicI64,
    statements: AtomicU32,
    /// `i64::MIN` where there is no clock of the host.
    host_ahead_ns: AtomicI64,
    /// 0: the kernel was never asked; 1: there is no interval; 2: there is one.
    state: AtomicU8,
    /// The process that writes at this moment, or 0.
    writing: AtomicU32,
}

impl UtcRecord {
    #[inline(always)]
    fn load(&self) -> Option<Known> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let state = self.state.load(Ordering::Relaxed);
        let known = Known {
            at_ns: self.at_ns.load(Ordering::Relaxed),
            offset_ns: self.offset_ns.load(Ordering::Relaxed),
            error_ns: self.error_ns.load(Ordering::Relaxed),
            drift: self.drift.load(Ordering::Relaxed),
            status: match self.status.load(Ordering::Relaxed) {
                0 => UtcStatus::Synchronized,
                1 => UtcStatus::FreeRunning,
                2 => UtcStatus::Disrupted,
                _ => UtcStatus::Unknown,
            },
            generation: self.generation.load(Ordering::Relaxed),
            max_error_ns: self.max_error_ns.load(Ordering::Relaxed),
            statements: self.statements.load(Ordering::Relaxed),
            bounded: state == 2,
            begun: state != 0,
            host_ahead_ns: Some(self.host_ahead_ns.load(Ordering::Relaxed)).filter(|ahead| *ahead != i64::MIN),
        };
        fence(Ordering::Acquire);
        (sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence).then_some(known)
    }

    /// The interval at `now`, where what is known is of its generation and fresh.
    #[inline(always)]
    pub(crate) fn interval(&self, now: Checked) -> Option<UtcInterval> {
        let known = self.load()?;
        let age_ns = now.at.as_nanos().wrapping_sub(known.at_ns);
        (known.begun && known.generation == now.generation && age_ns <= REFRESH_EVERY.as_nanos_unsigned())
            .then(|| known.interval(now))
    }

    /// The same where another thread has been asking the kernel for long: what was known goes on to grow, and is
    /// refused in another generation.
    pub(crate) fn stale(&self, now: Checked) -> UtcInterval {
        let known = self.load().filter(|known| known.begun);
        match known {
            Some(known) if known.generation == now.generation => known.interval(now),
            other => {
                let status = if other.is_some() { UtcStatus::Disrupted } else { UtcStatus::Unknown };
                UtcInterval { earliest: Timestamp::ZERO, latest: Timestamp::MAX, status, generation: now.generation }
            }
        }
    }

    /// Takes `statement` in, made in the generation of `now`, a reading after it.
    pub(crate) fn refresh(&self, statement: Option<UtcStatement>, now: Checked) -> Refreshed {
        let process = std::process::id();
        let holder = self.writing.load(Ordering::Relaxed);
        if holder == process
            || self.writing.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return Refreshed::ByOther;
        }
        // A process that was forked in the middle of a write starts anew.
        let known = self.load().unwrap_or_default();
        let nothing = UtcStatement {
            at: now.at,
            wall: Timestamp::ZERO,
            width: Span::ZERO,
            synchronized: false,
            max_error: MOST_ERROR,
            drift_ppm: 0.0,
            leap: false,
            stops_are_seen: false,
            outside: false,
            host_ahead_ns: None,
        };
        let (next, contradicted) = next(&known, &statement.unwrap_or(nothing), now.generation);
        let sequence = self.sequence.load(Ordering::Relaxed) | 1;
        self.sequence.store(sequence, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.at_ns.store(next.at_ns, Ordering::Relaxed);
        self.offset_ns.store(next.offset_ns, Ordering::Relaxed);
        self.error_ns.store(next.error_ns, Ordering::Relaxed);
        self.drift.store(next.drift, Ordering::Relaxed);
        self.status.store(next.status as u8, Ordering::Relaxed);
        self.generation.store(next.generation, Ordering::Relaxed);
        self.max_error_ns.store(next.max_error_ns, Ordering::Relaxed);
        self.statements.store(next.statements, Ordering::Relaxed);
        self.host_ahead_ns.store(next.host_ahead_ns.unwrap_or(i64::MIN), Ordering::Relaxed);
        self.state.store(if next.bounded { 2 } else { 1 }, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
        self.writing.store(0, Ordering::Release);
        if contradicted { Refreshed::Contradicted } else { Refreshed::Yes }
    }
}

#[cfg(test)]
#[path = "utc_tests.rs"]
mod tests;
