//! Several links driven as one: many far ends at the same time from one thread.

use std::cell::Cell;
use std::rc::Rc;

use vtare_units::{Monotonic, Timestamp};

use crate::link::{Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink};

/// Links that share one schedule: of `n` links, packet `s` goes over link `s mod n`, where it is number `s / n`.
///
/// A schedule at `n` times the pace so gives each link its own pace, evenly shifted against the others. What arrives is
/// distinguished by [`Many::lane`]; numbers of departures are those of the shared schedule again.
#[derive(Debug)]
pub struct Many<L> {
    links: Vec<L>,
    lane: Rc<Cell<usize>>,
    /// Departures of one look, as (link, departure).
    departed: Vec<(usize, Departure)>,
}

impl<L: ProbeLink> Many<L> {
    /// All of `links` as one; `None` for none.
    #[must_use]
    pub fn new(links: Vec<L>) -> Option<Self> {
        (!links.is_empty()).then(|| Self { links, lane: Rc::default(), departed: Vec::new() })
    }

    /// The link that the arrival being given came over: read it inside the sink of [`ProbeLink::receive`].
    #[must_use]
    pub fn lane(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.lane)
    }

    /// The links, in their order.
    #[must_use]
    pub fn into_links(self) -> Vec<L> {
        self.links
    }
}

impl<L: ProbeLink> ProbeLink for Many<L> {
    /// The facts of the first link.
    fn facts(&self) -> &Facts {
        self.links[0].facts()
    }

    fn now(&self) -> Timestamp<Monotonic> {
        self.links[0].now()
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        let count = self.links.len() as u64;
        if count == 1 {
            return self.links[0].send(datagrams);
        }
        let before = self.now();
        let mut accepted = 0;
        for datagram in datagrams {
            let own = Outgoing { sequence: datagram.sequence / count, ..*datagram };
            let burst = self.links[(datagram.sequence % count) as usize].send(&[own])?;
            if burst.accepted == 0 {
                break;
            }
            accepted += 1;
        }
        Ok(Burst { accepted, before, after: self.now() })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        if let [only] = self.links.as_mut_slice() {
            return only.receive(until, sink);
        }
        loop {
            for (lane, link) in self.links.iter_mut().enumerate() {
                self.lane.set(lane);
                link.receive(Timestamp::ZERO, sink)?;
                // The next one's packet must not wait until all the others have been read.
                if link.now() >= until {
                    return Ok(());
                }
            }
        }
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        let count = self.links.len() as u64;
        for (lane, link) in self.links.iter_mut().enumerate() {
            link.departures(&mut |departure| self.departed.push((lane, departure)))?;
        }
        for (lane, departure) in self.departed.drain(..) {
            sink(Departure { sequence: departure.sequence * count + lane as u64, ..departure });
        }
        Ok(())
    }

    /// The sums over all links; what one of them does not count is missing.
    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        let none = Some(0);
        let mut sum = LocalDrops {
            receive_buffer: none,
            interface_tx: none,
            interface_rx: none,
            launch_missed: none,
            launch_invalid: none,
            foreign: 0,
        };
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        for link in &mut self.links {
            let drops = link.local_drops()?;
            sum.receive_buffer = add(sum.receive_buffer, drops.receive_buffer);
            sum.interface_tx = add(sum.interface_tx, drops.interface_tx);
            sum.interface_rx = add(sum.interface_rx, drops.interface_rx);
            sum.launch_missed = add(sum.launch_missed, drops.launch_missed);
            sum.launch_invalid = add(sum.launch_invalid, drops.launch_invalid);
            sum.foreign += drops.foreign;
        }
        Ok(sum)
    }
}
