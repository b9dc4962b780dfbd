//! Receiving and waiting, and the stamps of departures.

use std::io;

use vtare_probe::link::{Departure, LinkError, Stamp, StampSource};
use vtare_sys::net::control::QueuedError;
use vtare_units::{Monotonic, Span, Timestamp};

use super::{Arrival, BATCH, Engine, Framing};
use crate::socket::error::system;
use crate::wait::{pause, spin};

/// Datagrams that are looked for while few arrive.
const FEW: usize = 8;
/// Bounds of the time before a deadline in which the socket is not asked: asking would overrun the deadline.
const QUIET: (Span, Span) = (Span::from_nanos(500), Span::from_micros(5));

impl Engine<'_> {
    /// Gives arrivals to `sink` until `until`.
    pub(crate) fn receive(
        &mut self,
        until: Timestamp<Monotonic>,
        sink: &mut dyn FnMut(Timestamp<Monotonic>, Arrival<'_>),
    ) -> Result<(), LinkError> {
        let mut last = self.clock.now();
        if self.wall.is_some_and(|wall| wall.is_old(last)) && (until - last > Span::from_micros(50) || self.busy) {
            self.renew_offsets();
            last = self.clock.now();
        }
        // A link that never has a moment to spare renews at the next call all the same.
        self.busy = until <= last;
        loop {
            let found = self.read_once(sink)?;
            let now = self.clock.now();
            if found == 0 {
                self.stalls.watch(last, now);
                let cost = now - last;
                if cost < Span::from_micros(20) {
                    self.look = Span::from_nanos((self.look.as_nanos() * 7 + cost.as_nanos()) / 8);
                }
            }
            if now >= until {
                return Ok(());
            }
            let quiet = (self.look + self.look).clamp(QUIET.0, QUIET.1);
            let left = until - now;
            if left <= quiet {
                spin(self.clock, &mut self.stalls, now, until);
                return Ok(());
            }
            last = self.sleep(now, until, found)?;
        }
    }

    /// Waits until `until` without reading the socket.
    pub(crate) fn pause(&mut self, until: Timestamp<Monotonic>) {
        pause(self.clock, &mut self.stalls, until);
    }

    /// Sleeps in the kernel where that is what this link does now, and gives the time after it.
    fn sleep(
        &mut self,
        now: Timestamp<Monotonic>,
        until: Timestamp<Monotonic>,
        found: usize,
    ) -> Result<Timestamp<Monotonic>, LinkError> {
        if found > 0 {
            return Ok(now);
        }
        let Some(wake) = self.wait.sleep_until(now, until, self.last_sent) else { return Ok(now) };
        // Stamps in the error queue end every wait until they are read. Read before it and not after: a reply that ends
        // it is taken at once.
        self.collect_departures()?;
        let now = self.clock.now().max(now);
        if now < wake {
            vtare_sys::net::wait_readable(&self.socket, now, wake).map_err(system("wait for replies"))?;
        }
        Ok(self.clock.now())
    }

    /// Takes what is there, once, and gives how many datagrams that were.
    fn read_once(&mut self, sink: &mut dyn FnMut(Timestamp<Monotonic>, Arrival<'_>)) -> Result<usize, LinkError> {
        let mut total = 0;
        let mut most = FEW;
        loop {
            let got = match self.arrivals.receive(&self.socket, most) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(self.dead(&error, "receive")),
            };
            if got == 0 {
                return Ok(total);
            }
            let arrived = self.clock.now_ordered();
            for index in 0..got {
                let Some(received) = self.arrivals.get(index) else { break };
                let control = received.control;
                let wall = control.software_ns.and_then(|ns| self.wall?.convert(ns));
                let card = control.hardware_ns.and_then(|ns| self.card.as_ref()?.1.convert(ns));
                let stamp = card
                    .map(|at| Stamp { at, source: StampSource::Hardware })
                    .or(wall.map(|at| Stamp { at, source: StampSource::Software }));
                let bytes = &*received.bytes;
                let (payload, ttl) = match self.framing {
                    Framing::Udp => (Some(bytes), control.ttl),
                    Framing::Echo(echo) => {
                        let (payload, ttl) = echo.reply(bytes);
                        (payload, control.ttl.or(ttl))
                    }
                };
                let Some(payload) = payload else { continue };
                let segment = control.segment_byte.map_or(payload.len(), usize::from).max(1);
                for payload in payload.chunks(segment) {
                    total += 1;
                    sink(arrived, Arrival { payload, stamp, ttl, class: control.class });
                }
            }
            if got < most.min(self.arrivals.slots()) {
                return Ok(total.max(1));
            }
            // It came in bunches: look again with more room, but give the sender its turn.
            if most == BATCH {
                return Ok(total.max(1));
            }
            most = BATCH;
        }
    }

    fn collect_departures(&mut self) -> Result<(), LinkError> {
        if self.facts.capabilities.tx_stamp.is_none() && self.launches.is_none() {
            return Ok(());
        }
        loop {
            let got = match self.errors.receive_errors(&self.socket, BATCH) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(self.dead(&error, "read stamps of departures")),
            };
            for index in 0..got {
                let Some(received) = self.errors.get(index) else { break };
                let control = received.control;
                let key = match control.error {
                    Some(QueuedError::Departure { key }) => key,
                    Some(QueuedError::Launch { missed, .. }) => {
                        if let Some(launches) = &mut self.launches {
                            launches.dropped(missed);
                        }
                        continue;
                    }
                    _ => continue,
                };
                let (stamp, source) = match (control.hardware_ns, control.software_ns) {
                    (Some(ns), _) => {
                        (self.card.as_ref().and_then(|(_, offset)| offset.convert(ns)), StampSource::Hardware)
                    }
                    (None, Some(ns)) => (self.wall.and_then(|wall| wall.convert(ns)), StampSource::Software),
                    (None, None) => continue,
                };
                if let (Some(at), Some(sequence)) = (stamp, self.keys.returned(key)) {
                    self.departed.push_back(Departure { sequence, stamp: Stamp { at, source } });
                }
            }
            if got < BATCH {
                return Ok(());
            }
        }
    }

    /// Gives the departures stamped since the last call.
    pub(crate) fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.collect_departures()?;
        self.departed.drain(..).for_each(sink);
        Ok(())
    }
}
