//! How a link passes its time: asleep in the kernel until shortly before something is due, and reading the clock from
//! there on.

use serde::{Deserialize, Serialize};
use vtare_clock::Clock;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};

use crate::stall_detector::StallDetector;

/// How a link passes the time until the next packet is due or arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Asks the socket without pause, from shortly before a packet is due until 50 ms after it was sent; else it sleeps
    /// in the kernel. Above 20 packets a second that is a whole core, and no wake-up is ever waited for.
    #[default]
    Spin,
    /// Sleeps in the kernel until something arrives or is due, as ordinary programs do.
    Block,
}

/// A spinning link goes on spinning for this long after a packet was sent: a reply may come any moment.
const LINGER: Span = Span::from_millis(50);
/// A sleeping link wakes this long before a packet is due: the kernel's wake-ups are late by less, nearly always.
const WAKE_BEFORE: Span = Span::from_millis(1);

/// When to wake, where it is worth to sleep until `until`.
fn wake_before(now: Timestamp<Monotonic>, until: Timestamp<Monotonic>) -> Option<Timestamp<Monotonic>> {
    (until - now > WAKE_BEFORE + WAKE_BEFORE).then(|| until - WAKE_BEFORE)
}

impl Wait {
    /// Until when a link that found nothing sleeps in the kernel for arrivals, or wakes by one; `None`: it looks again
    /// at once.
    pub(crate) fn sleep_until(
        self,
        now: Timestamp<Monotonic>,
        until: Timestamp<Monotonic>,
        last_sent: Timestamp<Monotonic>,
    ) -> Option<Timestamp<Monotonic>> {
        match self {
            Self::Block => Some(until),
            Self::Spin if now - last_sent > LINGER => wake_before(now, until),
            Self::Spin => None,
        }
    }
}

/// Only reads the clock, from `last` until `until`.
pub(crate) fn spin(
    clock: &Clock,
    stalls: &mut StallDetector,
    mut last: Timestamp<Monotonic>,
    until: Timestamp<Monotonic>,
) {
    while last < until {
        let now = clock.now();
        stalls.watch(last, now);
        last = now;
    }
}

/// Waits until `until` and reads no socket: asleep until shortly before, spinning from there on.
pub(crate) fn pause(clock: &Clock, stalls: &mut StallDetector, until: Timestamp<Monotonic>) {
    let mut now = clock.now();
    if let Some(wake) = wake_before(now, until) {
        // Where it cannot sleep it spins.
        let _ = clocks::sleep_until(wake);
        now = clock.now();
    }
    spin(clock, stalls, now, until);
}
