//! One socket behind a link: set up here, sending and receiving in files of their own.

mod launches;
mod receiving;
mod sending;
mod setup;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use launches::Launches;
use setup::{Setup, refusal};
use vtare_clock::offset::BRACKETS;
use vtare_clock::{Clock, ClockOffset};
use vtare_probe::link::{Capabilities, Departure, Facts, LinkError, LocalDrops, Stamp};
use vtare_sys::net::hardware::CardClock;
use vtare_sys::net::interface::{self, Interface, LinkCounters};
use vtare_sys::net::{ReceiveBatch, SendBatch, Socket};
use vtare_units::{Monotonic, Span, Timestamp};

use super::echo::Echo;
use super::error::dropped_since;
use super::options::SocketOptions;
use super::packet_size::PacketSize;
use super::tx_keys::TxKeys;
use crate::stall_detector::StallDetector;
use crate::wait::Wait;

/// Datagrams of one system call.
const BATCH: usize = 64;

/// What stands before the payload in what the socket sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing: the kernel makes the UDP header.
    Udp,
    /// An ICMP echo header.
    Echo(Echo),
}

/// A datagram that arrived, before the trait's form.
pub(crate) struct Arrival<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) stamp: Option<Stamp>,
    pub(crate) ttl: Option<u8>,
    pub(crate) class: Option<u8>,
}

/// One socket with all that is known of it.
#[derive(Debug)]
pub(crate) struct Engine<'c> {
    clock: &'c Clock,
    socket: Socket,
    peer: SocketAddr,
    pub(super) framing: Framing,
    wait: Wait,
    pub(crate) facts: Facts,
    pub(crate) stalls: StallDetector,
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
    /// What one read of an empty socket costs, smoothed.
    look: Span,
    last_sent: Timestamp<Monotonic>,
    busy: bool,
}

impl<'c> Engine<'c> {
    /// Sets an open socket up. It must be connected to `peer`.
    pub(crate) fn new(
        clock: &'c Clock,
        socket: Socket,
        peer: SocketAddr,
        framing: Framing,
        options: &SocketOptions,
        (engine, because): (&str, String),
    ) -> Result<Self, LinkError> {
        let size = PacketSize::of(&socket, peer);
        let mut facts = Facts {
            engine: engine.to_owned(),
            chosen_because: because,
            capabilities: Capabilities { batch: BATCH, ..Capabilities::default() },
            refusals: Vec::new(),
            stamp_error_ns: None,
            ip_header_byte: size.header_byte,
            most_payload_byte: size.most_payload_byte,
        };
        let interface = interface_of(&socket);
        let mut setup = Setup { socket: &socket, facts: &mut facts };
        setup.plain(options, framing == Framing::Udp);
        let card = setup.stamps(options, interface.as_ref());
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
            stalls: StallDetector::new(options.gap_ns),
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

    pub(crate) fn now(&self) -> Timestamp<Monotonic> {
        self.clock.now_ordered()
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
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
        let newer = ClockOffset::wall(BRACKETS, now);
        let wall = self.wall.get_or_insert(newer);
        let steps = wall.steps();
        wall.renew(newer);
        if wall.steps() > steps {
            let reason = "wall time was set during the run: kernel stamps within half a second of it are off";
            self.facts.refusals.push(refusal("steady_wall_clock", reason));
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
    pub(crate) fn local_drops(&mut self) -> LocalDrops {
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

fn interface_of(socket: &Socket) -> Option<Interface> {
    interface::with_address(socket.local_address().ok()?.ip()).ok()?
}
