use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vtare_pathsim::{Host, Lateness, Path, SimError};
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::LARGEST_BYTE;

use super::far::FarSide;
use super::spec::SimSpec;
use crate::link::{
    Burst, Capabilities, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Stamp, StampSource,
};

/// A simulated path there and back, with a far end that answers, behind the trait of real links.
///
/// Time stalls but for [`ProbeLink::receive`], which moves it on to `until`.
#[derive(Debug)]
pub struct SimLink<F> {
    spec: SimSpec,
    facts: Facts,
    forward: Path,
    reverse: Path,
    near: Host,
    far: Host,
    far_side: F,
    sender: Lateness,
    answerer: Lateness,
    last_answer: Timestamp<Monotonic>,
    now: Timestamp<Monotonic>,
    events: BinaryHeap<Reverse<Event>>,
    made: u64,
    departures: Vec<Departure>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Timestamp<Monotonic>,
    /// Number of the event: those of one time happen in the order in which they were made.
    number: u64,
    what: What,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A datagram reaches the far host.
    AtFar(Vec<u8>),
    /// The far program gets it; the stamp is the far kernel's.
    ToFarSide(Timestamp<Monotonic>, Vec<u8>),
    /// The far end sends a datagram that answers nothing.
    Leaves(Vec<u8>),
    /// A datagram reaches the near host.
    AtNear(Vec<u8>),
    /// The near program gets it; the stamp is the near kernel's.
    ToProgram(Timestamp<Monotonic>, Vec<u8>),
}

impl<F: FarSide> SimLink<F> {
    /// A path at time 0.
    ///
    /// # Errors
    /// The first thing in `spec` that cannot be.
    pub fn new(spec: &SimSpec, far_side: F) -> Result<Self, SimError> {
        let capabilities = Capabilities {
            tx_stamp: Some(StampSource::Software),
            tx_stamp_every: 1,
            rx_stamp: Some(StampSource::Software),
            gro: spec.near.coalesce_ns > 0,
            counts_drops: true,
            launch_time: true,
            batch: usize::MAX,
            ..Capabilities::default()
        };
        Ok(Self {
            facts: super::facts(capabilities),
            forward: Path::new(&spec.forward, spec.seed)?,
            reverse: Path::new(&spec.reverse, !spec.seed)?,
            near: Host::new(&spec.near),
            far: Host::new(&spec.far),
            far_side,
            sender: Lateness::new(&spec.near.send_noise),
            answerer: Lateness::new(&spec.far.send_noise),
            last_answer: Timestamp::ZERO,
            now: Timestamp::ZERO,
            events: BinaryHeap::new(),
            made: 0,
            departures: Vec::new(),
            spare: Vec::new(),
            spec: spec.clone(),
        })
    }

    /// The path there.
    #[must_use]
    pub const fn forward(&self) -> &Path {
        &self.forward
    }

    /// The path back.
    #[must_use]
    pub const fn reverse(&self) -> &Path {
        &self.reverse
    }

    /// The far end, and what it has seen.
    #[must_use]
    pub const fn far_side(&self) -> &F {
        &self.far_side
    }

    /// Datagrams that the far end's receive buffer had no room for.
    #[must_use]
    pub const fn far_dropped(&self) -> u64 {
        self.far.dropped()
    }

    /// The far end's program at work.
    pub fn far_side_mut(&mut self) -> &mut F {
        &mut self.far_side
    }

    /// Has the far end send a datagram of its own at `at`, or now where that has passed.
    pub fn send_from_far(&mut self, at: Timestamp<Monotonic>, payload: &[u8]) {
        let datagram = self.copy(payload);
        self.at(at.max(self.now), What::Leaves(datagram));
    }

    fn at(&mut self, at: Timestamp<Monotonic>, what: What) {
        self.made += 1;
        self.events.push(Reverse(Event { at, number: self.made, what }));
    }

    fn copy(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(payload);
        buffer
    }

    fn travel(&mut self, there: bool, at: Timestamp<Monotonic>, datagram: Vec<u8>) {
        let size = (datagram.len() + self.facts.ip_header_byte) as u32;
        let path = if there { &mut self.forward } else { &mut self.reverse };
        let arrive = |datagram| if there { What::AtFar(datagram) } else { What::AtNear(datagram) };
        let passage = path.send(at, size);
        if let Some(second) = passage.copy {
            let copy = self.copy(&datagram);
            self.at(second, arrive(copy));
        }
        match passage.arrived {
            Some(arrived) => self.at(arrived, arrive(datagram)),
            None => self.spare.push(datagram),
        }
    }

    fn happen(&mut self, event: Event, sink: &mut dyn FnMut(Incoming<'_>)) {
        let at = event.at;
        match event.what {
            What::AtFar(datagram) => match self.far.take(at) {
                Some((stamp, taken)) => self.at(taken, What::ToFarSide(stamp, datagram)),
                None => self.spare.push(datagram),
            },
            What::ToFarSide(stamp, mut datagram) => {
                let clock = self.spec.peer_clock;
                // One program answers, one datagram after another.
                let replied = Timestamp::from_nanos(self.answerer.act(at.as_nanos())).max(self.last_answer);
                self.last_answer = replied;
                match self.far_side.receive(&mut datagram, at, clock.at(stamp), clock.at(replied)) {
                    Some(length) => {
                        datagram.truncate(length);
                        self.travel(false, replied, datagram);
                    }
                    None => self.spare.push(datagram),
                }
            }
            What::Leaves(datagram) => self.travel(false, at, datagram),
            What::AtNear(datagram) => match self.near.take(at) {
                Some((stamp, taken)) => self.at(taken, What::ToProgram(stamp, datagram)),
                None => self.spare.push(datagram),
            },
            What::ToProgram(stamp, datagram) => {
                let stamp = Some(Stamp { at: stamp, source: StampSource::Software });
                // While the program was busy elsewhere nothing was handed to it.
                sink(Incoming { payload: &datagram, arrived: at.max(self.now), stamp, ttl: Some(64), class: None });
                self.spare.push(datagram);
            }
        }
    }
}

impl<F: FarSide> ProbeLink for SimLink<F> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn now(&self) -> Timestamp<Monotonic> {
        self.now
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        for outgoing in datagrams {
            if outgoing.payload.len() > LARGEST_BYTE {
                return Err(LinkError::TooLarge { found_byte: outgoing.payload.len(), most_byte: LARGEST_BYTE });
            }
            let leaves = outgoing.launch.map_or(self.now, |launch| launch.max(self.now));
            let stamp = Stamp { at: leaves, source: StampSource::Software };
            self.departures.push(Departure { sequence: outgoing.sequence, stamp });
            let datagram = self.copy(outgoing.payload);
            self.travel(true, leaves, datagram);
        }
        Ok(Burst { accepted: datagrams.len(), before: self.now, after: self.now })
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        let end = until.max(self.now);
        while self.events.peek().is_some_and(|Reverse(event)| event.at <= end) {
            if let Some(Reverse(event)) = self.events.pop() {
                self.happen(event, sink);
            }
        }
        if until > self.now {
            self.now = Timestamp::from_nanos(self.sender.act(until.as_nanos()));
        }
        Ok(())
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        let now = self.now;
        // A stamp comes when its packet has left.
        self.departures.extract_if(.., |departure| departure.stamp.at <= now).for_each(sink);
        Ok(())
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        Ok(LocalDrops {
            receive_buffer: Some(self.near.dropped()),
            interface_tx: Some(0),
            interface_rx: Some(0),
            ..LocalDrops::default()
        })
    }
}
