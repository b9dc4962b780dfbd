//! The sender's clock and sleep as a factor: the same link on vtare's timers or on the system's.

use vtare_clock::Clock;
use vtare_clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_link::socket::SocketLink;
use vtare_probe::link::{Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span, Timestamp};

use super::parameters::ClockChoice;

/// A UDP link whose sender goes by a given clock and waits in a given path.
pub(super) struct TimedLink<'c> {
    link: SocketLink<'c>,
    clock: ClockChoice,
    sleep: Method,
    /// `None`: as the link itself waits, asleep until shortly before and then spinning.
    sleeper: Option<Sleeper<'c>>,
    facts: Facts,
}

impl<'c> TimedLink<'c> {
    /// The link on these timers.
    pub(super) fn new(link: SocketLink<'c>, clock: &'c Clock, choice: ClockChoice, sleep: Method) -> Self {
        let mut facts = link.facts().clone();
        // A clock that is asked by a call cannot be spun on as finely, so the system's clock always has a sleeper of
        // its own kind.
        let own = choice == ClockChoice::Vtare && sleep == Method::Spin;
        let sleeper = (!own).then(|| Sleeper::new(clock, sleep, SleepOptions::default()));
        if !own {
            let teller = if choice == ClockChoice::Os { "the system's clock" } else { "vtare's clock" };
            facts.chosen_because = format!("{}; sent by {teller}, waiting by {sleep}", facts.chosen_because);
        }
        Self { link, clock: choice, sleep, sleeper, facts }
    }

    /// Spins on the system's clock, as a program without vtare's would.
    fn spin_on_system_clock(until: Timestamp<Monotonic>) {
        while clocks::now::<Monotonic>() < until {
            std::hint::spin_loop();
        }
    }
}

/// The longest wait that is spun on the system's clock; the kernel sleeps through the rest.
const SPUN: Span = Span::from_millis(1);

impl ProbeLink for TimedLink<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn now(&self) -> Timestamp<Monotonic> {
        match self.clock {
            ClockChoice::Vtare => self.link.now(),
            ClockChoice::Os => clocks::now(),
        }
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        if self.clock == ClockChoice::Vtare {
            return self.link.send(datagrams);
        }
        let before = clocks::now();
        let burst = self.link.send(datagrams)?;
        Ok(Burst { before, after: clocks::now(), ..burst })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        self.link.receive(until, sink)
    }

    fn pause(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        let failed = |error: vtare_sys::SysError| LinkError::System {
            doing: "waiting for the next packet",
            source: error.into(),
        };
        match (&mut self.sleeper, self.clock) {
            (None, _) => self.link.pause(until),
            (Some(_), ClockChoice::Os) if self.sleep == Method::Spin => {
                if until - clocks::now::<Monotonic>() > SPUN + SPUN {
                    clocks::sleep_until(until - SPUN).map_err(failed)?;
                }
                Self::spin_on_system_clock(until);
                Ok(())
            }
            (Some(sleeper), _) => {
                // A signal ends a sleep early: the packet is then sent early, as any program's would be; the send time
                // is measured.
                sleeper.sleep_until(until).map_err(failed)?;
                Ok(())
            }
        }
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.link.departures(sink)
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        self.link.local_drops()
    }
}
