use vtare_clock::{Clock, ClockOffset};
use vtare_sys::net::LaunchClock;
use vtare_units::{Monotonic, Timestamp};

use crate::socket::options::SocketOptions;

/// The launch times of a socket: on which clock they are, and what became of those that the queue did not keep.
#[derive(Debug)]
pub(super) struct Launches {
    /// How far the clock of launch times is ahead; `None` where it is the program's own.
    tai: Option<ClockOffset>,
    /// Added to the time of departure that the queue is given, ns.
    shift_ns: u64,
    /// Datagrams that were dropped because their time had passed.
    pub(super) missed: u64,
    /// Datagrams that were dropped because something was wrong with their time.
    pub(super) invalid: u64,
}

impl Launches {
    /// Launch times as the options want them; `None` where they want none.
    pub(super) fn new(clock: &Clock, options: &SocketOptions) -> Option<Self> {
        let keeper = options.launch.as_ref()?;
        let tai = match keeper.clock {
            LaunchClock::Monotonic => None,
            LaunchClock::Tai => Some(ClockOffset::tai(|| clock.now_ordered())),
        };
        Some(Self { tai, shift_ns: keeper.shift_ns, missed: 0, invalid: 0 })
    }

    /// Reads the other clock again.
    pub(super) fn renew(&mut self, clock: &Clock) {
        if let Some(tai) = &mut self.tai {
            tai.renew(ClockOffset::tai(|| clock.now_ordered()));
        }
    }

    /// A time as the kernel wants it.
    pub(super) fn kernel_time_ns(&self, at: Timestamp<Monotonic>) -> u64 {
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
