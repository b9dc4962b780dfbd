//! The sending end: `crates/bpf/probe.c` and what it shares with this process.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vtare_bpf::layout::probe::setup as word;
use vtare_probe::link::Facts;
use vtare_sys::bpf::{BpfError, Interrupt, LiveRun, MapView, Object, Program, XdpLink};
use vtare_sys::{clocks, sched};
use vtare_units::{Monotonic, Pace, Span, Timestamp};
use vtare_wire::{Form, Kind, SessionId, SessionKey, first_byte, full, short};

use super::error::XdpError;
use super::l2_path::{L2Path, arp_request, facts, headers, hold_port};
use super::secrets::secrets;

/// Slots and replies that may lie unread at most: a second at 1 Mpps.
const MOST_UNREAD: u64 = 1 << 20;
/// Rings hold what comes in this long, ns.
const RING_NS: u64 = 1_000_000_000;
/// A call of the program waits for a slot no longer than this: meanwhile the CPU's other soft interrupts wait.
const SLICE_NS: u64 = 50_000;
/// How often the rings are read.
const READ_EVERY: Span = Span::from_millis(1);
/// How often, and how long each time, it is tried whether sent frames arrive.
const REACHABILITY_TRIES: usize = 5;
const REACHABILITY_PATIENCE: Span = Span::from_millis(100);

/// Whom to probe, and how the probes look.
#[derive(Clone, Debug)]
pub struct Target {
    /// The far end.
    pub peer: SocketAddrV4,
    /// This end's address.
    pub local: Ipv4Addr,
    /// Bytes of a datagram.
    pub size_byte: u16,
    /// The form of the probes.
    pub form: Form,
    /// The session.
    pub session: SessionId,
    /// The responder's number for it.
    pub handle: u16,
    /// Its key.
    pub key: SessionKey,
    /// Packets a second: the rings hold a second of them.
    pub rate_packet_per_s: u64,
}

/// When to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How often.
    pub pace: Pace,
    /// Slots.
    pub packets: u64,
    /// From the call to the first slot, ns.
    pub lead_in_ns: u64,
    /// A slot this late is still sent, ns.
    pub catch_up_ns: u64,
    /// Replies are awaited for this time after the last slot, ns.
    pub linger_ns: u64,
    /// Frames that leave together; 1: each at once.
    pub batch: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A slot has passed.
    Slot {
        /// Its number.
        sequence: u64,
        /// When it was due.
        scheduled: Timestamp<Monotonic>,
        /// When its packet was handed to the driver; `None`: the program was too late for it.
        sent: Option<Timestamp<Monotonic>>,
    },
    /// A valid reply came.
    Reply(Reply),
    /// Time to show something, about every millisecond; all events until now have been given.
    Turn(Timestamp<Monotonic>),
}

/// A valid reply that the kernel program took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of its request.
    pub sequence: u64,
    /// When the driver had it.
    pub arrived: Timestamp<Monotonic>,
    /// The responder's stamps of arrival and departure, ns, and its count of requests; `None` in the short form.
    pub far_end: Option<(u64, u64, u64)>,
    /// From arrival to departure at the responder; `None` where it took 4.29 s or more in the short form.
    pub turnaround: Option<Span>,
}

/// What a sending end came to.
#[derive(Debug)]
pub struct Ended {
    /// When the first slot was due.
    pub started: Timestamp<Monotonic>,
    /// When the last event was given.
    pub ended: Timestamp<Monotonic>,
    /// CPU time of the sending thread.
    pub cpu: Span,
    /// How often it had to give its CPU apath.
    pub involuntary_switches: u64,
    /// Datagrams from the responder's address and port that were no replies of this session.
    pub foreign: u64,
    /// Replies that found the ring full: they are counted here only.
    pub overrun: u64,
    /// Why it ended before its time.
    pub failed: Option<BpfError>,
}

/// The programs, loaded, and what they share with this process.
#[derive(Debug)]
pub(super) struct Programs {
    target: Target,
    pub(super) setup: MapView,
    sends: MapView,
    replies: MapView,
    pub(super) generate: Program,
    pub(super) take: Program,
    knock: Program,
}

/// A sending end whose programs are loaded and attached.
#[derive(Debug)]
pub struct XdpProbe {
    programs: Programs,
    frame: Vec<u8>,
    facts: Facts,
    _taking: XdpLink,
    /// Holds the port: nobody else gets it, and what the programs let pass finds a socket.
    _port: UdpSocket,
}

impl Programs {
    /// Loads them for `target`; each packet begins with `headers`.
    pub(super) fn load(target: &Target, interface: u32, headers: &[u8; 42]) -> Result<Self, XdpError> {
        let mut object = Object::parse("probe.bpf.o", vtare_bpf::PROBE)?;
        let unread = (u128::from(target.rate_packet_per_s) * u128::from(RING_NS) / 1_000_000_000)
            .clamp(4_096, u128::from(MOST_UNREAD)) as u64;
        let unread = unread.next_power_of_two();
        object.shape_mut("sends").most_entries = unread as u32;
        object.shape_mut("replies").most_entries = unread as u32;
        let maps = object.create_maps()?;
        let setup = maps.get("setup_map").view()?;
        let set = |at: usize, value: u64| setup.words()[at].store(value, Ordering::Relaxed);
        set(word::INTERFACE, interface.into());
        set(word::SIZE_BYTE, target.size_byte.into());
        set(word::FULL, u64::from(target.form == Form::Full));
        set(word::HANDLE, target.handle.into());
        for (index, value) in secrets(&target.key, target.session).into_iter().enumerate() {
            set(word::SECRETS + index, value);
        }
        for (index, bytes) in headers.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            set(word::HEADERS + index, u64::from_ne_bytes(word));
        }
        set(word::SENDS_MASK, unread - 1);
        set(word::REPLIES_MASK, unread - 1);
        set(word::SLICE_NS, SLICE_NS);
        Ok(Self {
            target: target.clone(),
            sends: maps.get("sends").view()?,
            replies: maps.get("replies").view()?,
            setup,
            generate: object.load("generate", &maps)?,
            take: object.load("take", &maps)?,
            knock: object.load("knock", &maps)?,
        })
    }

    /// Datagrams that showed to be no replies without their tag, from where replies come from.
    pub(super) fn foreign(&self) -> u64 {
        self.setup.words()[word::FOREIGN].load(Ordering::Relaxed)
    }

    /// Replies that found the ring full.
    pub(super) fn overrun(&self) -> u64 {
        self.setup.words()[word::OVERRUN].load(Ordering::Relaxed)
    }

    /// Gives the program its schedule.
    pub(super) fn plan(&self, plan: &Plan, started: Timestamp<Monotonic>) {
        let set = |at: usize, value: u64| self.setup.words()[at].store(value, Ordering::Release);
        set(word::START_NS, started.as_nanos());
        set(word::PACE_NS, plan.pace.span_ns);
        set(word::PACE_PACKETS, plan.pace.packets);
        set(word::CATCH_UP_NS, plan.catch_up_ns);
        // Last: with it the program begins.
        set(word::PACKETS, plan.packets);
    }
}

impl XdpProbe {
    /// Finds the way to the peer, loads the programs, attaches one to the interface there, and sees whether frames
    /// arrive.
    ///
    /// # Errors
    /// [`XdpError`], each with the way out.
    pub fn open(target: &Target, because: impl Into<String>) -> Result<Self, XdpError> {
        let path = L2Path::find(*target.peer.ip(), target.size_byte)?;
        let (local_port, port) = hold_port(target.local, target.peer)?;
        let local = SocketAddrV4::new(target.local, local_port);
        let headers = headers(&path, local, target.peer, target.size_byte);
        let programs = Programs::load(target, path.interface, &headers)?;
        let taking = XdpLink::attach(&programs.take, path.interface)?;
        let mut frame = headers.to_vec();
        frame.resize(headers.len() + usize::from(target.size_byte), 0);
        let facts = facts(&path, &taking, because.into());
        let probe = Self { programs, frame, facts, _taking: taking, _port: port };
        probe.check_reachability(&path, target.local)?;
        Ok(probe)
    }

    /// What it got and did not get.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sends by `plan` and reports what happens, until all is answered, the linger is over, or `stop` is set. `prepare`
    /// is called on the thread that sends (and spins) before it does; events are given on the calling one, and the
    /// answer to a turn is whether every packet has been answered.
    ///
    /// # Errors
    /// Where the plan does not fit the program's numbers, and where `prepare` fails.
    pub fn run<E: Send>(
        &mut self,
        plan: &Plan,
        prepare: impl FnOnce() -> Result<(), E> + Send,
        stop: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(Event) -> bool,
    ) -> Result<Result<Ended, E>, XdpError> {
        let pace = plan.pace;
        if pace.packets == 0 || plan.packets.checked_mul(pace.span_ns).is_none() {
            return Err(XdpError::Unfit(format!(
                "{} packets at {} in {} ns do not fit the kernel program's 64 bits: send fewer",
                plan.packets, pace.packets, pace.span_ns
            )));
        }
        self.facts.capabilities.batch = plan.batch as usize;
        let started = clocks::now::<Monotonic>() + Span::from_unsigned_nanos(plan.lead_in_ns);
        let word = |at: usize| &self.programs.setup.words()[at];
        self.programs.plan(plan, started);
        let (this, over) = (&*self, AtomicBool::new(false));
        let (interrupt_to, interrupt) = std::sync::mpsc::channel();
        let outcome = std::thread::scope(|scope| {
            let over = &over;
            let sending = scope.spawn(move || {
                let result = prepare().map(|()| {
                    let _ = interrupt_to.send(Interrupt::of_this_thread());
                    let before = sched::thread_usage();
                    let failed = this.generate(plan, started).err();
                    (failed, before, sched::thread_usage())
                });
                over.store(true, Ordering::Release);
                result
            });
            let mut reader = Reader::new(&this.programs, plan.pace, started);
            let (mut stopped, mut sender) = (false, None);
            let mut quiet_until = None;
            loop {
                let done = over.load(Ordering::Acquire);
                let all = reader.drain(observe);
                let now = clocks::now::<Monotonic>();
                let complete = observe(Event::Turn(now));
                if !stopped && stop() {
                    stopped = true;
                    word(word::STOP).store(1, Ordering::Release);
                }
                if stopped && !done {
                    sender = sender.or_else(|| interrupt.try_recv().ok());
                    // Again each time: one that comes between two calls is lost.
                    sender.iter().for_each(|sender: &Interrupt| sender.send());
                }
                if done && all {
                    let until = *quiet_until.get_or_insert(now + Span::from_unsigned_nanos(plan.linger_ns));
                    if stopped || complete || now >= until {
                        break;
                    }
                }
                // A signal ends the sleep early, which does no harm.
                let _ = clocks::sleep_until(now + READ_EVERY);
            }
            (sending.join(), reader.forged)
        });
        let (outcome, forged) = match outcome {
            (Ok(Ok(outcome)), forged) => (outcome, forged),
            (Ok(Err(error)), _) => return Ok(Err(error)),
            (Err(panic), _) => std::panic::resume_unwind(panic),
        };
        let (failed, before, after) = outcome;
        Ok(Ok(Ended {
            started,
            ended: clocks::now::<Monotonic>(),
            cpu: (after.user + after.system) - (before.user + before.system),
            involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
            foreign: self.programs.foreign() + forged,
            overrun: self.programs.overrun(),
            failed,
        }))
    }

    /// The sending thread: in the kernel until all slots have passed.
    fn generate(&self, plan: &Plan, started: Timestamp<Monotonic>) -> Result<(), BpfError> {
        let word = |at: usize| self.programs.setup.words()[at].load(Ordering::Acquire);
        let last =
            started + Span::from_unsigned_nanos(plan.packets.saturating_mul(plan.pace.span_ns) / plan.pace.packets);
        loop {
            let next = word(word::NEXT);
            if next >= plan.packets || word(word::STOP) != 0 {
                return Ok(());
            }
            // A call for each slot, and one for each slice that is waited for; those that are left over end at once.
            let wait = (last - clocks::now::<Monotonic>()).as_nanos().max(0).cast_unsigned();
            let calls = plan.packets - next + wait / SLICE_NS + u64::from(plan.batch);
            let repeat = u32::try_from(calls).unwrap_or(u32::MAX);
            match self.programs.generate.run_live(&self.frame, LiveRun { repeat, batch: plan.batch }) {
                Err(error) if !error.is_interrupted() => return Err(error),
                _ => {}
            }
        }
    }

    fn check_reachability(&self, path: &L2Path, local: Ipv4Addr) -> Result<(), XdpError> {
        let frame = arp_request(path, local);
        let answered = || self.programs.setup.words()[word::ANSWERED_ARP].load(Ordering::Relaxed) > 0;
        for _ in 0..REACHABILITY_TRIES {
            self.programs.knock.run_live(&frame, LiveRun { repeat: 1, batch: 1 })?;
            let until = clocks::now::<Monotonic>() + REACHABILITY_PATIENCE;
            while clocks::now::<Monotonic>() < until {
                if answered() {
                    return Ok(());
                }
                let _ = clocks::sleep_until(clocks::now::<Monotonic>() + READ_EVERY);
            }
        }
        Err(XdpError::Unreachable { interface: path.name.clone(), next_hop: path.next_hop })
    }
}

/// Reads what the programs wrote.
pub(super) struct Reader<'p> {
    programs: &'p Programs,
    pace: Pace,
    started: Timestamp<Monotonic>,
    /// Slots given as events.
    told: u64,
    /// Replies read or skipped.
    read: u64,
    /// Replies that have no entry, since the ring was full.
    skipped: u64,
    /// Replies whose tag was wrong.
    pub(super) forged: u64,
    payload: Vec<u8>,
}

impl<'p> Reader<'p> {
    pub(super) fn new(programs: &'p Programs, pace: Pace, started: Timestamp<Monotonic>) -> Self {
        let payload = vec![0; programs.target.size_byte.into()];
        Self { programs, pace, started, told: 0, read: 0, skipped: 0, forged: 0, payload }
    }

    /// Gives all events that are there; whether nothing is left in between.
    pub(super) fn drain(&mut self, observe: &mut dyn FnMut(Event) -> bool) -> bool {
        let word = |at: usize| &self.programs.setup.words()[at];
        // Replies first: the slots read after them are then at least those that they answer.
        let replies = word(word::REPLIES).load(Ordering::Acquire);
        let overrun = word(word::OVERRUN).load(Ordering::Acquire);
        let next = word(word::NEXT).load(Ordering::Acquire);
        let mask = word(word::SENDS_MASK).load(Ordering::Relaxed);
        let pace = self.pace;
        for sequence in self.told..next {
            let scheduled = self.started + Span::from_unsigned_nanos(sequence * pace.span_ns / pace.packets);
            let sent_ns = self.programs.sends.words()[(sequence & mask) as usize].load(Ordering::Relaxed);
            let sent = (sent_ns != 0).then(|| Timestamp::from_nanos(sent_ns));
            observe(Event::Slot { sequence, scheduled, sent });
        }
        self.told = next;
        word(word::SENDS_READ).store(next, Ordering::Release);
        let mask = word(word::REPLIES_MASK).load(Ordering::Relaxed);
        let mut all = true;
        while self.read < replies {
            let entry = self.programs.replies.entry((self.read & mask) as usize);
            let commit = entry[0].load(Ordering::Acquire);
            if commit >> 8 == self.read + 1 {
                match self.programs.target.reply(entry, commit as u8, next.saturating_sub(1), &mut self.payload) {
                    Some(reply) => _ = observe(Event::Reply(reply)),
                    None => self.forged += 1,
                }
            } else if overrun > self.skipped {
                self.skipped += 1;
            } else {
                // Its writer is between taking its number and writing the entry.
                all = false;
                break;
            }
            self.read += 1;
        }
        // Once: the programs read the same cache line for every packet.
        word(word::REPLIES_READ).store(self.read, Ordering::Release);
        all
    }
}

impl Target {
    /// The reply that `take` laid into `entry`; `None` where its tag is wrong. Each number meant is one near `newest`.
    fn reply(&self, entry: &[AtomicU64], flags: u8, newest: u64, payload: &mut [u8]) -> Option<Reply> {
        let mut header = [0; 48];
        for (bytes, word) in header.chunks_exact_mut(8).zip(&entry[2..]) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let arrived = Timestamp::from_nanos(entry[1].load(Ordering::Relaxed));
        match self.form {
            Form::Full => {
                payload[0] = first_byte(Form::Full, Kind::Reply);
                payload[1] = flags;
                payload[2..4].copy_from_slice(&self.size_byte.to_be_bytes());
                payload[4..12].copy_from_slice(&self.session.0.to_be_bytes());
                payload[12..60].copy_from_slice(&header);
                let reply = full::Unverified::parse(&payload[..]).and_then(|found| found.reply(&self.key)).ok()?;
                let far = reply.turnaround;
                let (received, replied) = (far.received.as_nanos(), far.replied.as_nanos());
                Some(Reply {
                    sequence: reply.probe.sequence,
                    arrived,
                    far_end: Some((received, replied, far.accepted)),
                    turnaround: replied.checked_sub(received).map(Span::from_unsigned_nanos),
                })
            }
            Form::Short => {
                payload[..18].copy_from_slice(&header[..18]);
                let context = short::Context { session: self.session, handle: self.handle, key: &self.key };
                let reply =
                    short::Unverified::parse(&payload[..]).and_then(|found| found.reply(&context, newest)).ok()?;
                Some(Reply { sequence: reply.sequence, arrived, far_end: None, turnaround: reply.turnaround })
            }
        }
    }
}
