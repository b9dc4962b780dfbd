use vtare_clock::Clock;
use vtare_sys::clocks;
use vtare_sys::net::LaunchClock;
use vtare_units::{Monotonic, Timestamp};

use crate::link::socket::{ClockOffset, SocketOptions};

/// The launch times of a socket: on which clock they are, and what became of those that the queue did not keep.
#[derive(Debug)]
pub(super) struct Launches {
    /// How far the clock of launch times is ahead; `None` where it is the program's own.
    tai: Option<ClockOffset>,
    /// What the queue is told beyond the time of departure, ns.
    shift_ns: u64,
    /// Datagrams that were dropped because their time had passed.
    pub(super) missed: u64,
    /// Datagrams that were dropped because something was wrong with their time.
    pub(super) invalid: u64,
}

fn tai(clock: &Clock) -> Option<ClockOffset> {
    ClockOffset::read(|| clock.now_ordered(), || Ok(clocks::tai_ns())).ok()
}

impl Launches {
    /// Launch times as the options want them; `None` where they want none.
    pub(super) fn new(clock: &Clock, options: &SocketOptions) -> Option<Self> {
        let keeper = options.launch.as_ref()?;
        let tai = match keeper.clock {
            LaunchClock::Monotonic => None,
            LaunchClock::Tai => Some(tai(clock)?),
        };
        Some(Self { tai, shift_ns: keeper.shift_ns, missed: 0, invalid: 0 })
    }

    /// Reads the other clock again.
    pub(super) fn renew(&mut self, clock: &Clock) {
        if let (Some(old), Some(newer)) = (&mut self.tai, tai(clock)) {
            old.renew(newer);
        }
    }

    /// A time as the kernel wants it.
    pub(super) fn told(&self, at: Timestamp<Monotonic>) -> u64 {
        self.tai.map_or(at.as_nanos(), |tai| tai.there_ns(at)) + self.shift_ns
    }

    /// The kernel dropped a datagram for its time.
    pub(super) fn dropped(&mut self, missed: bool) {
        if missed {
            self.missed += 1;
        } else {
            self.invalid += 1;
        }
    }
}
