use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use vtare_clock::offset::BRACKETS;
use vtare_clock::sleep::SleepOptions;
use vtare_clock::sleep::adaptive::Adaptive;
use vtare_clock::{Clock, ClockOffset};
use vtare_sys::clocks;
use vtare_sys::errno::{EINTR, EMSGSIZE, ENETDOWN};
use vtare_sys::net::control::SendControl;
use vtare_sys::net::frames::interface_index;
use vtare_sys::net::{Message, ReceiveBatch, SendBatch, Socket, StampFlags, Waited, wait_any_readable};
use vtare_units::{Monotonic, Span, Timestamp, Wall};

use crate::departures::{Departure, Departures};
use crate::intake::{Direction, Intake};
use crate::lane::Lane;
use crate::outgoing::Outgoing;
use crate::report::{EmulatorError, EmulatorOptions, Ended, Inlet, Outlet, Watch};
use crate::store::Store;

/// Frames of one system call.
const BATCH: usize = 32;
/// Packets that are sent before arrivals are looked for again.
const PACKETS: usize = 128;
/// Room for the largest frame that the kernel gives as one: 64 KiB of IP packet and its headers.
const SLOT_BYTE: usize = (1 << 16) + 256;
/// What the sockets may hold while this program does not get its turn.
const SOCKET_BYTE: i32 = 1 << 26;
/// How often drops are asked for, and the longest sleep.
const LOOK: Span = Span::from_millis(10);
/// Arrivals are waited for only where the delay is shorter than this. Else they lie in the socket, stamped, until this
/// long before they could be due: no wake-up at their arrival takes the sender's CPU.
const UNHURRIED_NS: u64 = 2_000_000;
/// How long before the earliest possible departure an unhurried emulator looks for arrivals.
const AHEAD_NS: u64 = 1_000_000;
/// Stamps are taken a moment before a frame can be read: bins are closed this long after their end.
const SETTLE_NS: u64 = 1_000_000;

struct Side {
    name: String,
    socket: Socket,
    arrivals: ReceiveBatch,
    departures: SendBatch,
    inlet: Inlet,
}

/// Both directions of a link between two real interfaces.
pub struct Emulator<'c> {
    clock: &'c Clock,
    sides: [Side; 2],
    directions: [Direction; 2],
    store: Store,
    due: Vec<Departure>,
    outgoing: Outgoing,
    probe_port: u16,
    wall: Option<ClockOffset>,
    started: Timestamp<Monotonic>,
    margin: Adaptive,
    failure: Option<String>,
}

impl<'c> Emulator<'c> {
    /// Opens both interfaces. Frames that arrive from now on are carried once [`Emulator::run`] is called.
    ///
    /// # Errors
    /// Without such interfaces, without CAP_NET_RAW, and for directions that cannot be.
    pub fn open(clock: &'c Clock, options: &EmulatorOptions) -> Result<Self, EmulatorError> {
        let [a, b] = &options.interfaces;
        if a == b {
            return Err(EmulatorError::OneInterface { name: a.clone() });
        }
        let direction = |number: usize| {
            let (from, to) = (&options.interfaces[number], &options.interfaces[1 - number]);
            let spec = &options.lanes[number];
            let lane = Lane::new(spec, vtare_units::Random::part(options.seed, number as u64).bits())
                .map_err(|source| EmulatorError::Lane { from: from.clone(), to: to.clone(), source })?;
            let least_delay_ns = spec.least_delay_ns();
            Ok::<_, EmulatorError>(Direction {
                lane,
                queue: Departures::default(),
                least_delay_ns,
                outlet: Outlet::default(),
            })
        };
        let directions = [direction(0)?, direction(1)?];
        // Both names before the first socket, which takes privileges: a wrong name is the nearer cause.
        let indices = [index(a)?, index(b)?];
        let sides = [side(a, indices[0])?, side(b, indices[1])?];
        // Time on this thread is expensive where frames are due: a microsecond of spinning is worth a tenth of the
        // default price.
        let margin = Adaptive::new(&SleepOptions { lambda: Span::from_millis(20), ..SleepOptions::default() });
        let started = clock.now();
        Ok(Self {
            clock,
            sides,
            directions,
            store: Store::new(options.most_byte),
            due: Vec::with_capacity(PACKETS),
            outgoing: Outgoing::default(),
            probe_port: options.probe_port,
            wall: None,
            started,
            margin,
            failure: None,
        })
    }

    /// Carries frames until `stop` is set or `limit` is over, on this thread.
    pub fn run(mut self, stop: &AtomicBool, limit: Option<Span>, watch: &mut dyn Watch) -> Ended {
        let mut now = self.clock.now();
        let started_unix_ns = clocks::now::<Wall>().as_nanos().saturating_sub(self.since_start(now));
        let end = limit.map(|limit| now + limit);
        let mut looked = now;
        while !stop.load(Ordering::Relaxed) && self.failure.is_none() && end.is_none_or(|end| now < end) {
            if self.wall.is_none_or(|wall| wall.is_old(now)) {
                self.renew_wall();
            }
            let got = self.take(0, watch) + self.take(1, watch);
            (0..2).for_each(|lane| self.release(lane, watch));
            if got == 0 {
                self.wait(end);
            }
            now = self.clock.now();
            if now - looked > LOOK {
                looked = now;
                self.count_drops();
            }
        }
        // Read anew: this thread may have been delayed since.
        now = self.clock.now();
        self.end(now, started_unix_ns, watch)
    }

    fn end(mut self, now: Timestamp<Monotonic>, started_unix_ns: u64, watch: &mut dyn Watch) -> Ended {
        // What has arrived is accounted for, as if on its way.
        for side in 0..2 {
            while self.take(side, watch) == BATCH {}
        }
        self.count_drops();
        let until = self.since_start(now);
        for (lane, direction) in self.directions.iter_mut().enumerate() {
            direction.lane.close_bins(until, |bin| watch.bin(lane, bin));
            direction.outlet.left_packet = direction.queue.len() as u64;
        }
        Ended {
            started: self.started,
            started_unix_ns,
            elapsed: now - self.started,
            lanes: [0, 1].map(|lane: usize| self.directions[lane].lane.count()),
            outlets: [0, 1].map(|lane: usize| self.directions[lane].outlet),
            inlets: [0, 1].map(|side: usize| self.sides[side].inlet),
            stamp_error_ns: self.wall.map_or(0, |wall| wall.error_ns()),
            failure: self.failure,
        }
    }

    /// Time 0 of the bins: when it was opened.
    #[must_use]
    pub const fn started(&self) -> Timestamp<Monotonic> {
        self.started
    }

    fn since_start(&self, at: Timestamp<Monotonic>) -> u64 {
        at.as_nanos().saturating_sub(self.started.as_nanos())
    }

    fn renew_wall(&mut self) {
        let newer = ClockOffset::wall(BRACKETS, || self.clock.now_ordered());
        self.wall.get_or_insert(newer).renew(newer);
    }

    fn count_drops(&mut self) {
        for (side, direction) in self.sides.iter_mut().zip(&mut self.directions) {
            if let Ok(count) = side.socket.frame_count() {
                side.inlet.socket_drops += u64::from(count.drops);
                direction.lane.note_socket_drops(count.drops.into());
            }
        }
    }

    fn fail(&mut self, side: usize, doing: &str, error: &io::Error) {
        let name = &self.sides[side].name;
        self.failure.get_or_insert_with(|| format!("{name}: cannot {doing}: {error}"));
    }

    /// Reads what has arrived at one side, once, and gives how many frames that were. Closes the bins of which nothing
    /// more can come.
    fn take(&mut self, side: usize, watch: &mut dyn Watch) -> usize {
        let before = self.since_start(self.clock.now());
        let (got, latest) = self.read(side);
        // Less than a batch: the socket was empty, all that was stamped before is here.
        let known = if got < BATCH { before } else { latest };
        self.directions[side].lane.close_bins(known.saturating_sub(SETTLE_NS), |bin| watch.bin(side, bin));
        got
    }

    /// The frames read, and when the latest of them arrived.
    fn read(&mut self, side: usize) -> (usize, u64) {
        let got = match self.sides[side].arrivals.receive(&self.sides[side].socket, BATCH) {
            Ok(got) => got,
            Err(error) if error.raw_os_error() == Some(EINTR) => 0,
            Err(error) => {
                self.fail(side, "receive", &error);
                return (0, 0);
            }
        };
        if got == 0 {
            return (0, 0);
        }
        let mut latest = 0;
        let now = self.clock.now();
        let Self { sides, directions, store, wall, started, probe_port, .. } = self;
        let (Side { arrivals, inlet, .. }, direction) = (&mut sides[side], &mut directions[side]);
        let start_ns = started.as_nanos();
        for index in 0..got {
            let Some(received) = arrivals.get(index) else { break };
            let stamp = received.control.software_ns.and_then(|ns| wall.as_ref()?.convert(ns));
            inlet.frames += 1;
            inlet.unstamped += u64::from(stamp.is_none());
            let at_ns = stamp.unwrap_or(now).as_nanos().saturating_sub(start_ns);
            latest = at_ns;
            let mut intake = Intake { at_ns, direction, store, probe_port: *probe_port };
            intake.frame(received.bytes, received.cut, received.control.vlan, inlet);
        }
        (got, latest)
    }

    /// Hands the kernel what is due.
    fn release(&mut self, lane: usize, watch: &mut dyn Watch) {
        // Twice a batch at most: the other side and the arrivals want their turn.
        for _ in 0..2 {
            let now = self.since_start(self.clock.now());
            let mut due = std::mem::take(&mut self.due);
            let queue = &mut self.directions[lane].queue;
            due.extend(std::iter::from_fn(|| queue.pop_due(now)).take(PACKETS));
            self.send(lane, &due, watch);
            due.iter().for_each(|packet| self.store.release(packet.slot));
            let was_all = due.len() < PACKETS;
            due.clear();
            self.due = due;
            if was_all {
                return;
            }
        }
    }

    fn send(&mut self, lane: usize, due: &[Departure], watch: &mut dyn Watch) {
        let out = 1 - lane;
        self.outgoing.gather(due, &self.store);
        let counts: Vec<usize> = self.outgoing.counts().collect();
        let (pieces, ends) = self.outgoing.pieces(due, &self.store);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let message = |(start, end): (usize, &usize)| Message {
            parts: &pieces[start..*end],
            to: None,
            control: SendControl::default(),
        };
        let messages: Vec<Message<'_>> = starts.zip(&ends).map(message).collect();
        let (mut frame, mut packet) = (0, 0);
        while frame < messages.len() {
            let before = self.clock.now();
            let Side { socket, departures, .. } = &mut self.sides[out];
            let answer = departures.send(socket, &messages[frame..]);
            let after = self.clock.now();
            let outlet = &mut self.directions[lane].outlet;
            match answer {
                Ok(sent) => {
                    // Each of them left at some moment of the call; in order, and evenly as far as is known.
                    let call_ns = (after - before).as_nanos();
                    for (number, count) in counts[frame..frame + sent].iter().enumerate() {
                        let at = before + Span::from_nanos(call_ns * (number as i64 + 1) / sent as i64);
                        outlet.sent_frame += 1;
                        for left in &due[packet..packet + count] {
                            outlet.sent_packet += 1;
                            outlet.sent_byte += u64::from(left.packet_byte);
                            let due_ns = left.at_ns.min(i64::MAX as u64).cast_signed();
                            watch.released(lane, at - (self.started + Span::from_nanos(due_ns)), left.packet_byte);
                        }
                        packet += count;
                    }
                    frame += sent;
                }
                Err(error) => {
                    let count = counts[frame];
                    match error.raw_os_error() {
                        Some(EINTR) => continue,
                        Some(EMSGSIZE) => outlet.too_long_packet += count as u64,
                        Some(ENETDOWN) => {
                            let name = &self.sides[out].name;
                            self.failure.get_or_insert_with(|| format!("{name}: cannot send: {error}"));
                            return;
                        }
                        _ => outlet.refused_packet += count as u64,
                    }
                    (frame, packet) = (frame + 1, packet + count);
                }
            }
        }
    }

    /// Passes the time until a frame is due or may have arrived: in the kernel where that is far, by returning at once
    /// where it is near.
    fn wait(&mut self, end: Option<Timestamp<Monotonic>>) {
        let now = self.clock.now();
        let since = self.since_start(now);
        let next = self.directions.iter().filter_map(|direction| direction.queue.peek().map(|first| first.at_ns)).min();
        let least_delay = self.directions.iter().map(|direction| direction.least_delay_ns).min().unwrap_or(0);
        let hurried = least_delay < UNHURRIED_NS;
        // The earliest time at which a frame that arrives right now can be due.
        let unseen = if hurried { u64::MAX } else { since + least_delay - AHEAD_NS };
        let far = since + LOOK.as_nanos_unsigned();
        let duty = next.unwrap_or(u64::MAX);
        let ahead = |at: u64| Span::from_unsigned_nanos(at.saturating_sub(since));
        let margin = self.margin.margin(ahead(duty.min(far)));
        let until = duty.saturating_sub(margin.as_nanos_unsigned()).min(unseen).min(far);
        // A sleep shorter than this costs more than it saves.
        const SHORT_NS: u64 = 5_000;
        if until <= since + SHORT_NS {
            return;
        }
        let asked = now + ahead(until);
        let asked = end.map_or(asked, |end| end.min(asked));
        let slept = if hurried {
            wait_any_readable([&self.sides[0].socket, &self.sides[1].socket], now, asked)
        } else {
            clocks::sleep_until(asked).map(|_| Waited::Over)
        };
        let woken = self.clock.now();
        // A wake-up before the time was for an arrival or a signal, and is no reading of lateness.
        if matches!(slept, Ok(Waited::Over)) && woken >= asked {
            self.margin.learn(ahead(duty.min(far)), woken - asked);
        }
    }
}

fn index(name: &str) -> Result<u32, EmulatorError> {
    interface_index(name).ok_or_else(|| EmulatorError::NoInterface { name: name.to_owned() })
}

fn side(name: &str, index: u32) -> Result<Side, EmulatorError> {
    let socket = Socket::frames(index)?;
    socket.stamp(StampFlags { receive_software: true, ..StampFlags::default() })?;
    socket.set_buffers(SOCKET_BYTE)?;
    let (arrivals, departures) = (ReceiveBatch::new(BATCH, SLOT_BYTE), SendBatch::new(BATCH));
    Ok(Side { name: name.to_owned(), socket, arrivals, departures, inlet: Inlet::default() })
}
