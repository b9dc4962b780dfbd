//! The loop of a sender that never waits for replies, over any link.
//!
//! Each slot is sent when it is due, whatever has come back. A sender that was delayed sends what is due at once,
//! together, and leaves out what is later than [`Options::catch_up_ns`]: those slots are reported as unsent, so that
//! every slot is accounted for. With [`Options::launch`] it hands slots over before they are due, and the kernel's
//! queue lets each go at its time.

use std::ops::ControlFlow;

use vtare_units::{Monotonic, Span, Timestamp};

use crate::link::{Burst, Departure, Incoming, LinkError, Outgoing, ProbeLink};
use crate::schedule::Slot;

/// How a sender uses launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Lead {
    /// Packets are handed over at most this long before they are due, ns.
    pub ahead_ns: u64,
    /// A launch time is at least this long after the packet was handed over, ns.
    pub least_ns: u64,
}

impl Lead {
    /// How one thread hands packets over to several queues: as early as the one with the least room allows, with
    /// launch times as late as the most demanding one needs. `None` where a path has no queue that keeps launch times:
    /// a packet handed over early would leave early there.
    #[must_use]
    pub fn shared(leads: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let leads: Vec<Self> = leads.into_iter().collect::<Option<_>>()?;
        let least_ns = leads.iter().map(|lead| lead.least_ns).max()?;
        let ahead_ns = leads.iter().map(|lead| lead.ahead_ns).min()?;
        Some(Self { ahead_ns: ahead_ns.max(2 * least_ns), least_ns })
    }
}

/// How the loop behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From the call to the first slot, ns: time to warm up.
    pub lead_in_ns: u64,
    /// A slot this late is still sent, ns; a later one is not.
    pub catch_up_ns: u64,
    /// Most datagrams of one call to the link.
    pub batch: usize,
    /// Time between two [`Event::Turn`]s at most, and between two reads of departures at least, ns.
    pub turn_ns: u64,
    /// After the last slot, replies are awaited for this long, ns.
    pub linger_ns: u64,
    /// Datagrams are handed over early, with the time at which they shall leave; for links with
    /// [`Capabilities::launch_time`](crate::link::Capabilities::launch_time). `None`: each is sent when it is due.
    pub launch: Option<Lead>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lead_in_ns: 10_000_000,
            catch_up_ns: 100_000_000,
            batch: 64,
            turn_ns: 1_000_000,
            linger_ns: 2_000_000_000,
            launch: None,
        }
    }
}

/// Slots that are left out between two reads of the link.
const MOST_SKIPPED: usize = 4_096;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A slot's datagram was taken by the link. It left between the burst's two stamps, or leaves at its launch time.
    Sent {
        /// The slot.
        slot: Slot,
        /// When it was due.
        scheduled: Timestamp<Monotonic>,
        /// The call that sent it.
        burst: Burst,
        /// When it shall leave; `None`: at once.
        launch: Option<Timestamp<Monotonic>>,
    },
    /// A slot passed because the loop was too far behind.
    TooLate {
        /// The slot.
        slot: Slot,
        /// When it was due.
        scheduled: Timestamp<Monotonic>,
    },
    /// A slot passed because the link had no room.
    NoRoom {
        /// The slot.
        slot: Slot,
        /// When it was due.
        scheduled: Timestamp<Monotonic>,
    },
    /// A departure was stamped.
    Departed(Departure),
    /// A datagram came.
    Arrived(Incoming<'a>),
    /// Time to show something or to stop.
    Turn(Timestamp<Monotonic>),
}

/// What goes into the datagrams and what is made of events.
pub trait Observer {
    /// Writes the datagram of `slot`, whose length is the slot's size, just before it is sent. `now` is its send time
    /// as far as can be known before.
    fn fill(&mut self, slot: &Slot, now: Timestamp<Monotonic>, datagram: &mut [u8]);

    /// Takes an event. [`ControlFlow::Break`] ends the loop: no more slots, no lingering.
    fn observe(&mut self, event: Event<'_>) -> ControlFlow<()>;
}

/// How the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the first slot was due.
    pub started: Timestamp<Monotonic>,
    /// When the loop returned.
    pub ended: Timestamp<Monotonic>,
    /// The observer ended it.
    pub broken_off: bool,
}

/// Runs a schedule over a link.
///
/// # Errors
/// Where the link cannot go on; everything given to the observer until then holds.
pub fn run<L: ProbeLink + ?Sized>(
    link: &mut L,
    slots: impl IntoIterator<Item = Slot>,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Ended, LinkError> {
    // Half of the lead is for gathering what one call hands over, half to be late in.
    let (ahead, wake) = options.launch.map_or((Span::ZERO, Span::ZERO), |lead| {
        let keep = Span::from_unsigned_nanos(lead.least_ns);
        (Span::from_unsigned_nanos(lead.ahead_ns), keep + (Span::from_unsigned_nanos(lead.ahead_ns) - keep) / 2)
    });
    let started = link.now() + Span::from_unsigned_nanos(options.lead_in_ns) + ahead;
    let mut state = State {
        link,
        observer,
        turn: Span::from_unsigned_nanos(options.turn_ns.max(1)),
        last_turn: Timestamp::ZERO,
        broken: false,
    };
    let mut slots = slots.into_iter().peekable();
    let mut batch = Batch::default();
    while let Some(slot) = slots.peek().copied() {
        state.wait(started + slot.due - wake)?;
        if state.broken {
            break;
        }
        let now = state.link.now();
        batch.clear();
        let mut skipped = 0;
        while let Some(slot) =
            slots.next_if(|slot| started + slot.due <= now + ahead && batch.slots.len() < options.batch.max(1))
        {
            let scheduled = started + slot.due;
            if now - scheduled > Span::from_unsigned_nanos(options.catch_up_ns) {
                state.observe(Event::TooLate { slot, scheduled });
                skipped += 1;
                // Catching up may take long: the observer must be able to end it. Many at once: where one read of the
                // link takes as long as a slot, a sender that skips one slot a look never catches up.
                if state.broken || skipped >= MOST_SKIPPED {
                    break;
                }
                continue;
            }
            let launch = options.launch.map(|lead| scheduled.max(now + Span::from_unsigned_nanos(lead.least_ns)));
            batch.add(slot, launch, |datagram| state.observer.fill(&slot, launch.unwrap_or(now), datagram));
        }
        batch.send(&mut state, started)?;
        if state.broken {
            break;
        }
    }
    if !state.broken {
        let end = state.link.now() + ahead + Span::from_unsigned_nanos(options.linger_ns);
        state.wait(end)?;
    }
    state.departures()?;
    Ok(Ended { started, ended: state.link.now(), broken_off: state.broken })
}

struct State<'o, L: ?Sized> {
    link: &'o mut L,
    observer: &'o mut dyn Observer,
    turn: Span,
    last_turn: Timestamp<Monotonic>,
    broken: bool,
}

impl<L: ProbeLink + ?Sized> State<'_, L> {
    fn observe(&mut self, event: Event<'_>) {
        self.broken |= self.observer.observe(event).is_break();
    }

    /// Receives until `until`, with turns in between; reads at least once.
    fn wait(&mut self, until: Timestamp<Monotonic>) -> Result<(), LinkError> {
        loop {
            let now = self.link.now();
            if now - self.last_turn >= self.turn {
                self.last_turn = now;
                self.departures()?;
                self.observe(Event::Turn(now));
            }
            // Not a short rest: a wait of its own would cost the next slot its punctuality.
            let slice = if until - now > self.turn * 2 { now + self.turn } else { until };
            let (observer, broken) = (&mut *self.observer, &mut self.broken);
            self.link.receive(slice, &mut |incoming| {
                *broken |= observer.observe(Event::Arrived(incoming)).is_break();
            })?;
            if self.broken || self.link.now() >= until {
                return Ok(());
            }
        }
    }

    fn departures(&mut self) -> Result<(), LinkError> {
        let (observer, broken) = (&mut *self.observer, &mut self.broken);
        self.link.departures(&mut |departure| {
            *broken |= observer.observe(Event::Departed(departure)).is_break();
        })
    }
}

/// Datagrams that leave together; the memory is used again.
#[derive(Default)]
struct Batch {
    slots: Vec<Slot>,
    launches: Vec<Option<Timestamp<Monotonic>>>,
    bytes: Vec<u8>,
}

impl Batch {
    fn clear(&mut self) {
        self.slots.clear();
        self.launches.clear();
        self.bytes.clear();
    }

    fn add(&mut self, slot: Slot, launch: Option<Timestamp<Monotonic>>, fill: impl FnOnce(&mut [u8])) {
        let from = self.bytes.len();
        self.bytes.resize(from + usize::from(slot.size_byte), 0);
        fill(&mut self.bytes[from..]);
        self.slots.push(slot);
        self.launches.push(launch);
    }

    fn send<L: ProbeLink + ?Sized>(
        &self,
        state: &mut State<'_, L>,
        started: Timestamp<Monotonic>,
    ) -> Result<(), LinkError> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let mut from = 0;
        let mut outgoing = self.slots.iter().zip(&self.launches).map(|(slot, &launch)| {
            let payload = &self.bytes[from..from + usize::from(slot.size_byte)];
            from += payload.len();
            Outgoing { sequence: slot.sequence, payload, launch }
        });
        // One alone, as nearly all are, takes no memory.
        let burst = match (self.slots.len(), outgoing.next()) {
            (1, Some(single)) => state.link.send(&[single])?,
            (_, first) => state.link.send(&first.into_iter().chain(outgoing).collect::<Vec<_>>())?,
        };
        for (index, (&slot, &launch)) in self.slots.iter().zip(&self.launches).enumerate() {
            let scheduled = started + slot.due;
            state.observe(if index < burst.accepted {
                Event::Sent { slot, scheduled, burst, launch }
            } else {
                Event::NoRoom { slot, scheduled }
            });
        }
        Ok(())
    }
}
