//! Probes by an AF_PACKET ring: its filter in classic BPF, and its stamps on the program's clock.

use std::time::Duration;

use vtare_clock::offset::BRACKETS;
use vtare_clock::{Clock, ClockOffset};
use vtare_sys::SysError;
use vtare_sys::net::packet_ring::{FilterStep, PacketRing, RingCounts, RingPacket, RingSize};
use vtare_units::{Monotonic, Timestamp};

use crate::frame::{self, NoPacket, Packet};
use crate::probe::{self, Probe, Wanted};
use crate::{Direction, Tally};

/// A block that is not full is handed over after this time.
const RETIRE_MS: u32 = 10;

/// A ring on one interface; gone when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct RingTap<'c> {
    ring: PacketRing,
    clock: &'c Clock,
    wall: ClockOffset,
    wanted: Wanted,
    tally: Tally,
}

impl<'c> RingTap<'c> {
    /// Begins to capture what is `wanted` at interface `index`. The ring takes `ring_byte`, a power of two and at least
    /// two pages.
    ///
    /// # Errors
    /// Where the kernel refuses: without CAP_NET_RAW, for an interface that is down, or a ring it has no memory for.
    pub fn open(clock: &'c Clock, index: u32, wanted: &Wanted, ring_byte: u32) -> Result<Self, SysError> {
        let block_byte = (ring_byte / 16).clamp(1 << 12, 1 << 20);
        let size = RingSize { block_byte, blocks: (ring_byte / block_byte).max(1), retire_ms: RETIRE_MS };
        let wall = ClockOffset::wall(BRACKETS, || clock.now());
        let ring = PacketRing::open(index, &filter(wanted), size)?;
        Ok(Self { ring, clock, wall, wanted: wanted.clone(), tally: Tally::default() })
    }

    /// Gives what was captured since the last call: CLOCK_MONOTONIC in ns, and the probe.
    ///
    /// # Errors
    /// Where the kernel does not report what it dropped.
    pub fn drain(&mut self, give: &mut dyn FnMut(u64, Probe)) -> Result<(), SysError> {
        if self.wall.is_old(self.clock.now()) {
            self.wall.renew(ClockOffset::wall(BRACKETS, || self.clock.now()));
        }
        let Self { ring, wall, wanted, tally, .. } = self;
        ring.drain(|packet| {
            // Before the clock's own beginning there are no packets.
            let Some(at) = wall.convert(packet.wall_ns).map(Timestamp::<Monotonic>::as_nanos) else { return };
            match read(&packet) {
                Ok(read) => tally.add(probe::find(&read, None, wanted, &mut |probe| give(at, probe))),
                Err(why) => tally.refuse(why),
            }
        });
        self.tally.lost = ring.counts()?.drops;
        Ok(())
    }

    /// Sleeps until something can be drained, or so long.
    ///
    /// # Errors
    /// Where the interface went down or away.
    pub fn wait(&self, timeout: Duration) -> Result<(), SysError> {
        self.ring.wait(timeout)
    }

    /// What was counted so far.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What the kernel counted so far.
    ///
    /// # Errors
    /// Where the kernel does not give it.
    pub fn counts(&mut self) -> Result<RingCounts, SysError> {
        self.ring.counts()
    }

    /// How far a converted stamp may be off, ns, and how often wall time was set meanwhile.
    #[must_use]
    pub const fn stamp_error(&self) -> (u64, u64) {
        (self.wall.error_ns(), self.wall.steps())
    }
}

/// Loads, from the network header on.
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
/// The same behind the IPv4 header, whose length is in X.
const LOAD_BYTE_X: u16 = 0x50;
const LOAD_HALF_X: u16 = 0x48;
/// X = 4 times the lower half of a byte: the length of an IPv4 header.
const HEADER_TO_X: u16 = 0xb1;
const AND: u16 = 0x54;
const SUBTRACT: u16 = 0x14;
const STORE: u16 = 0x02;
const LOAD_STORED: u16 = 0x60;
const TO_X: u16 = 0x07;
const ADD: u16 = 0x04;
const SHIFT_LEFT: u16 = 0x64;
const SET: u16 = 0x00;
const SET_X: u16 = 0x01;
const EQUAL: u16 = 0x15;
const EQUAL_X: u16 = 0x1d;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
/// `SKF_AD_OFF + SKF_AD_PROTOCOL`: the Ethernet type.
const PROTOCOL_AT: u32 = 0xffff_f000;

/// Bytes that are copied of a packet that holds one probe: all headers, and the fields of a probe.
pub const HEAD_BYTE: u32 = 256;
/// All of a packet that may hold more.
const WHOLE: u32 = 0x4_0000;

/// Where a jump goes: to the next step, or to a part of the program whose place is known last.
#[derive(Clone, Copy)]
enum To {
    Next,
    None,
    Head,
    Whole,
    Udp4,
    Icmp4,
    V6,
    Size,
    Echo6,
    Udp6,
    Extension6,
    Fragment6,
    Behind6,
    EchoBehind6,
}

/// The filter for `wanted`. It lets more through than is wanted (tagged packets, IPv6 with several extension headers),
/// never less.
///
/// Every IPv6 host sends some packets with one extension header by itself: reports of multicast listeners, for seconds
/// after a link came up.
#[must_use]
pub fn filter(wanted: &Wanted) -> Vec<FilterStep> {
    let ports: Vec<u16> = wanted.ports.iter().copied().chain(wanted.stamp).collect();
    let mut steps: Vec<(u16, u32, To, To)> = Vec::new();
    let udp = if ports.is_empty() { To::None } else { To::Udp4 };
    let icmp = if wanted.icmp { To::Icmp4 } else { To::None };
    let plain = |code, k| (code, k, To::Next, To::Next);
    steps.push(plain(LOAD_HALF, PROTOCOL_AT));
    steps.push((EQUAL, 0x86dd, To::V6, To::Next));
    for tag in [0x8100, 0x88a8, 0x9100] {
        steps.push((EQUAL, tag, To::Whole, To::Next));
    }
    steps.push((EQUAL, 0x0800, To::Next, To::None));
    // IPv4. The first fragment carries the ports; a later one is of no use.
    steps.push(plain(LOAD_HALF, 6));
    steps.push(plain(AND, 0x1fff));
    steps.push((EQUAL, 0, To::Next, To::None));
    steps.push(plain(HEADER_TO_X, 0));
    steps.push(plain(LOAD_BYTE, 9));
    steps.push((EQUAL, 17, udp, To::Next));
    steps.push((EQUAL, 1, icmp, To::None));
    let udp4 = steps.len();
    for at in [0, 2] {
        steps.push(plain(LOAD_HALF_X, at));
        for &port in &ports {
            steps.push((EQUAL, port.into(), To::Size, To::Next));
        }
    }
    steps.push((JUMP, 0, To::None, To::None));
    let size = steps.len();
    // Does the datagram state the size that it has? Then it is one probe of the full form, and its head will do.
    steps.push(plain(LOAD_HALF_X, 4));
    steps.push(plain(SUBTRACT, 8));
    steps.push(plain(STORE, 0));
    steps.push(plain(LOAD_HALF_X, 10));
    steps.push(plain(TO_X, 0));
    steps.push(plain(LOAD_STORED, 0));
    steps.push((EQUAL_X, 0, To::Head, To::Whole));
    let icmp4 = steps.len();
    steps.push(plain(LOAD_BYTE_X, 0));
    steps.push((EQUAL, 8, To::Head, To::Next));
    steps.push((EQUAL, 0, To::Head, To::None));
    let v6 = steps.len();
    let udp6 = if ports.is_empty() { To::None } else { To::Udp6 };
    let (echo6, echo_behind6) = if wanted.icmp { (To::Echo6, To::EchoBehind6) } else { (To::None, To::None) };
    // X: bytes of extension headers.
    steps.push(plain(SET_X, 0));
    steps.push(plain(LOAD_BYTE, 6));
    steps.push((EQUAL, 17, udp6, To::Next));
    steps.push((EQUAL, 58, echo6, To::Next));
    for extension in [0, 43, 60] {
        steps.push((EQUAL, extension, To::Extension6, To::Next));
    }
    steps.push((EQUAL, 44, To::Fragment6, To::None));
    let extension = steps.len();
    steps.push(plain(LOAD_BYTE, 41));
    steps.push(plain(ADD, 1));
    steps.push(plain(SHIFT_LEFT, 3));
    steps.push(plain(TO_X, 0));
    steps.push((JUMP, 0, To::Behind6, To::Behind6));
    let fragment = steps.len();
    steps.push(plain(LOAD_HALF, 42));
    steps.push(plain(AND, 0xfff8));
    steps.push((EQUAL, 0, To::Next, To::None));
    steps.push(plain(SET, 8));
    steps.push(plain(TO_X, 0));
    let behind = steps.len();
    steps.push(plain(LOAD_BYTE, 40));
    steps.push((EQUAL, 17, udp6, To::Next));
    steps.push((EQUAL, 58, echo_behind6, To::Next));
    for extension in [0, 43, 44] {
        steps.push((EQUAL, extension, To::Whole, To::Next));
    }
    steps.push((EQUAL, 60, To::Whole, To::None));
    let mut echo = |found: To| {
        let at = steps.len();
        steps.push(plain(LOAD_BYTE_X, 40));
        steps.push((EQUAL, 128, found, To::Next));
        steps.push((EQUAL, 129, found, To::None));
        at
    };
    let (echo, echo_behind) = (echo(To::Head), echo(To::Whole));
    let udp_v6 = steps.len();
    for at in [40, 42] {
        steps.push(plain(LOAD_HALF_X, at));
        for &port in &ports {
            steps.push((EQUAL, port.into(), To::Whole, To::Next));
        }
    }
    let ends = steps.len();
    for k in [0, HEAD_BYTE, WHOLE] {
        steps.push(plain(RETURN, k));
    }
    let place = |at: usize, to: To| -> u8 {
        let target = match to {
            To::Next => at + 1,
            To::Size => size,
            To::Echo6 => echo,
            To::Udp6 => udp_v6,
            To::Extension6 => extension,
            To::Fragment6 => fragment,
            To::Behind6 => behind,
            To::EchoBehind6 => echo_behind,
            To::None => ends,
            To::Head => ends + 1,
            To::Whole => ends + 2,
            To::Udp4 => udp4,
            To::Icmp4 => icmp4,
            To::V6 => v6,
        };
        (target - at - 1) as u8
    };
    let jump = |at: usize, (code, k, yes, no): (u16, u32, To, To)| match code {
        JUMP => (code, 0, 0, u32::from(place(at, yes))),
        EQUAL | EQUAL_X => (code, place(at, yes), place(at, no), k),
        _ => (code, 0, 0, k),
    };
    steps.into_iter().enumerate().map(|(at, step)| jump(at, step)).collect()
}

/// Reads a packet of the ring.
///
/// # Errors
/// [`NoPacket`], with the reason.
pub fn read<'a>(packet: &RingPacket<'a>) -> Result<Packet<'a>, NoPacket> {
    let read = frame::ethertype(packet.protocol, packet.bytes)?;
    let direction = if packet.outgoing { Direction::Tx } else { Direction::Rx };
    Ok(Packet { direction: Some(direction), ..read })
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
