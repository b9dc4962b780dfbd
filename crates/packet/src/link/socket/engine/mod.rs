//! One socket behind a link: set up here, sending and receiving in files of their own.

mod asking;
mod launches;
mod receiving;
mod sending;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_sys::SysError;
use vtare_sys::clocks;
use vtare_sys::net::hardware::CardClock;
use vtare_sys::net::interface::{self, Interface, LinkCounters};
use vtare_sys::net::{ReceiveBatch, SendBatch, Socket};
use vtare_units::{Monotonic, Span, Timestamp, Wall};

use super::super::{Capabilities, Departure, Facts, LinkError, LocalDrops, Refusal, Stamp};
use super::canary::Canary;
use super::offset::ClockOffset;
use super::options::{SocketOptions, Wait};
use super::tx_keys::TxKeys;
use asking::Asking;
use launches::Launches;
pub(in crate::link) use receiving::{LINGER, WAKE_BEFORE};

/// Datagrams of one system call.
const BATCH: usize = 64;

/// What stands before the payload in what the socket sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum Framing {
    /// Nothing: the kernel makes the UDP header.
    Udp,
    /// An ICMP echo header.
    Echo(super::super::icmp::Echo),
}

/// A datagram that arrived, before the trait's form.
pub(in crate::link) struct Arrival<'a> {
    pub(in crate::link) payload: &'a [u8],
    pub(in crate::link) stamp: Option<Stamp>,
    pub(in crate::link) ttl: Option<u8>,
}

/// One socket with all that is known of it.
#[derive(Debug)]
pub(in crate::link) struct Engine<'c> {
    clock: &'c Clock,
    socket: Socket,
    peer: SocketAddr,
    framing: Framing,
    wait: Wait,
    pub(in crate::link) facts: Facts,
    pub(in crate::link) canary: Canary,
    outgoing: SendBatch,
    arrivals: ReceiveBatch,
    errors: ReceiveBatch,
    wall: Option<ClockOffset>,
    card: Option<(CardClock, ClockOffset)>,
    keys: TxKeys,
    hardware: bool,
    /// Departures read from the error queue while waiting, not yet given away.
    departed: VecDeque<Departure>,
    launches: Option<Launches>,
    interface: Option<(String, LinkCounters)>,
    /// What one look at an empty socket costs, smoothed.
    look: Span,
    last_sent: Timestamp<Monotonic>,
    busy: bool,
}

fn refusal(wanted: &str, said: impl std::fmt::Display) -> Refusal {
    Refusal { wanted: wanted.to_owned(), said: said.to_string() }
}

impl<'c> Engine<'c> {
    /// Sets an open socket up. It must be connected to `peer`.
    pub(in crate::link) fn new(
        clock: &'c Clock,
        socket: Socket,
        peer: SocketAddr,
        framing: Framing,
        options: &SocketOptions,
        (engine, because): (&str, String),
    ) -> Result<Self, LinkError> {
        let mut facts = Facts {
            engine: engine.to_owned(),
            chosen_because: because,
            capabilities: Capabilities { batch: BATCH, ..Capabilities::default() },
            refusals: Vec::new(),
            stamp_error_ns: None,
            ip_header_byte: if peer.is_ipv6() { crate::wire::IPV6_UDP_BYTE } else { crate::wire::IPV4_UDP_BYTE },
            most_payload_byte: None,
        };
        let mtu = socket.mtu().ok().and_then(|mtu| usize::try_from(mtu).ok());
        facts.most_payload_byte = mtu.map(|mtu| mtu.saturating_sub(facts.ip_header_byte));
        let interface = interface_of(&socket);
        let mut asking = Asking { socket: &socket, facts: &mut facts };
        asking.plain(options, framing == Framing::Udp);
        let card = asking.stamps(options, interface.as_ref());
        let merged = facts.capabilities.gro;
        let launches = facts.capabilities.launch_time.then(|| Launches::new(clock, options)).flatten();
        let slot_byte = if merged { 1 << 16 } else { options.largest_byte + 128 };
        let now = || clock.now_ordered();
        let mut engine = Self {
            wall: None,
            hardware: card.is_some(),
            card: card.and_then(|card| {
                let offset = ClockOffset::read(now, || card.now_ns()).ok()?;
                Some((card, offset))
            }),
            clock,
            socket,
            peer,
            framing,
            wait: options.wait,
            facts,
            canary: Canary::new(options.gap_ns),
            outgoing: SendBatch::new(BATCH),
            arrivals: ReceiveBatch::new(if merged { BATCH / 4 } else { BATCH }, slot_byte),
            errors: ReceiveBatch::new(BATCH, 64),
            keys: TxKeys::ours(),
            departed: VecDeque::with_capacity(BATCH),
            launches,
            interface: interface.and_then(|found| Some((found.name, found.counters?))),
            look: Span::from_nanos(500),
            last_sent: Timestamp::ZERO,
            busy: false,
        };
        engine.renew_offsets();
        Ok(engine)
    }

    pub(in crate::link) fn now(&self) -> Timestamp<Monotonic> {
        self.clock.now_ordered()
    }

    pub(in crate::link) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Readings of other clocks are renewed while there is time.
    fn renew_offsets(&mut self) {
        if let Some(launches) = &mut self.launches {
            launches.renew(self.clock);
        }
        let stamps = self.facts.capabilities.rx_stamp.is_some() || self.facts.capabilities.tx_stamp.is_some();
        if !stamps {
            return;
        }
        let now = || self.clock.now_ordered();
        // Reading wall time cannot fail.
        if let Ok(newer) = ClockOffset::read(now, || Ok(clocks::now::<Wall>().as_nanos())) {
            match &mut self.wall {
                Some(wall) => {
                    let steps = wall.steps();
                    wall.renew(newer);
                    if wall.steps() > steps {
                        let said = "wall time was set during the run: kernel stamps within half a second of it are off";
                        self.facts.refusals.push(refusal("steady_wall_clock", said));
                    }
                }
                none => *none = Some(newer),
            }
        }
        if let Some((card, offset)) = &mut self.card
            && let Ok(newer) = ClockOffset::read(now, || card.now_ns())
        {
            // Cards have clocks of their own, which drift: the newest reading is the best.
            *offset = newer;
        }
        let errors = [self.wall.map(|wall| wall.error_ns()), self.card.as_ref().map(|(_, offset)| offset.error_ns())];
        self.facts.stamp_error_ns = errors.into_iter().flatten().max();
    }

    fn dead(&self, error: &io::Error, doing: &'static str) -> LinkError {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return LinkError::Refused { peer: self.peer.to_string() };
        }
        let again =
            error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
        LinkError::System { doing, source: again }
    }

    /// What was lost on this host since the link was opened.
    pub(in crate::link) fn local_drops(&mut self) -> LocalDrops {
        let counted = self.interface.as_ref().and_then(|(name, before)| dropped_since(name, *before));
        LocalDrops {
            receive_buffer: self.socket.drops().ok().map(u64::from),
            interface_tx: counted.map(|(tx, _)| tx),
            interface_rx: counted.map(|(_, rx)| rx),
            launch_missed: self.launches.as_ref().map(|launches| launches.missed),
            launch_invalid: self.launches.as_ref().map(|launches| launches.invalid),
            foreign: 0,
        }
    }
}

/// A system's refusal as an error of the link.
pub(in crate::link) fn system(doing: &'static str) -> impl Fn(SysError) -> LinkError {
    move |error| LinkError::System { doing, source: io::Error::other(error.to_string()) }
}

/// What the interface called `name` has dropped since `before`: departures, arrivals.
pub(in crate::link) fn dropped_since(name: &str, before: LinkCounters) -> Option<(u64, u64)> {
    let now = interface::all().ok()?.into_iter().find(|interface| interface.name == name)?.counters?;
    let since = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
    Some((since(now.tx_dropped, before.tx_dropped), since(now.rx_dropped, before.rx_dropped)))
}

fn interface_of(socket: &Socket) -> Option<Interface> {
    interface::with_address(socket.local_address().ok()?.ip()).ok()?
}
