//! Probes at the entry and exit of an interface, by programs in the kernel (`crates/bpf/capture.c`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use vtare_sys::bpf::{BpfError, MapView, Object, RingBuffer, TcLink, TcSide};

use crate::frame::{Packet, Transport};
use crate::probe::{self, Probe, Wanted};
use crate::{Direction, Tally};

/// Bytes of `struct record`.
const RECORD_BYTE: usize = 96;
const HEAD_AT: usize = 64;
/// Bytes that one probe takes in the ring.
pub const PROBE_BYTE: u32 = 104;

/// Programs on both sides of an interface; gone when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct TcTap {
    sides: Option<[TcLink; 2]>,
    ring: RingBuffer,
    counts: MapView,
    wanted: Wanted,
    foreign: u64,
}

impl TcTap {
    /// Begins to capture what is `wanted` at interface `index`. The ring takes `ring_byte`, a power of two and at least
    /// a page.
    ///
    /// # Errors
    /// Where the kernel refuses: without CAP_BPF and CAP_NET_ADMIN, before Linux 6.6, or for a ring it has no memory
    /// for.
    pub fn open(index: u32, wanted: &Wanted, ring_byte: u32) -> Result<Self, BpfError> {
        let mut object = Object::parse("capture.bpf.o", vtare_bpf::CAPTURE)?;
        object.shape_mut("records").most_entries = ring_byte;
        let mut maps = object.create_maps()?;
        let looked_for = maps.get("wanted").view()?;
        for port in wanted.ports.iter().copied().chain(wanted.stamp) {
            looked_for.entry(0)[usize::from(port >> 6)].fetch_or(1 << (port & 63), Ordering::Relaxed);
        }
        looked_for.entry(0)[ECHO_WORD].store(wanted.icmp.into(), Ordering::Relaxed);
        let counts = maps.get("counts").view()?;
        let programs = [("capture_rx", TcSide::Ingress), ("capture_tx", TcSide::Egress)];
        // Both are loaded before the first is attached, so that neither side begins long before the other.
        let [rx, tx] = programs.map(|(name, side)| object.load(name, &maps).map(|program| (program, side)));
        let attach = |(program, side)| TcLink::attach(&program, index, side);
        let (rx, tx) = (rx?, tx?);
        let (rx, tx) = (attach(rx), attach(tx));
        let ring = RingBuffer::new(maps.take("records"))?;
        Ok(Self { sides: Some([rx?, tx?]), ring, counts, wanted: wanted.clone(), foreign: 0 })
    }

    /// Gives what was captured since the last call: CLOCK_MONOTONIC in ns, and the probe.
    pub fn drain(&mut self, give: &mut dyn FnMut(u64, Probe)) {
        let Self { ring, wanted, foreign, .. } = self;
        ring.drain(&mut |record| {
            let found = record.first_chunk().and_then(read).map_or(0, |(stamp_ns, packet, merged)| {
                let mut shown = |probe: Probe| give(stamp_ns, Probe { merged: probe.merged || merged, ..probe });
                probe::find(&packet, None, wanted, &mut shown).probes
            });
            *foreign += u64::from(found == 0);
        });
    }

    /// Takes the programs off the interface; what they have written can still be drained.
    pub fn detach(&mut self) {
        self.sides = None;
    }

    /// What was counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let count = |at: usize| self.counts.entry(0).get(at).map_or(0, |word: &AtomicU64| word.load(Ordering::Relaxed));
        Tally {
            lost: count(0),
            cut: count(1),
            merged: count(2),
            fragments: count(3),
            foreign: self.foreign,
            ..Tally::default()
        }
    }
}

/// The word behind the bits of all ports.
const ECHO_WORD: usize = 1024;

/// Reads a record: when, what, and whether it came in a large packet.
fn read(record: &[u8; RECORD_BYTE]) -> Option<(u64, Packet<'_>, bool)> {
    let long = |at: usize| u64::from_ne_bytes(octets(record, at));
    let word = |at: usize| u32::from_ne_bytes(octets(record, at));
    let half = |at: usize| u16::from_be_bytes(octets(record, at));
    let [version, protocol, outgoing, merged, head_byte] = octets(record, 16);
    let (source, destination) = match version {
        4 => (Ipv4Addr::from(octets::<4>(record, 24)).into(), Ipv4Addr::from(octets::<4>(record, 40)).into()),
        _ => (Ipv6Addr::from(octets::<16>(record, 24)).into(), Ipv6Addr::from(octets::<16>(record, 40)).into()),
    };
    let transport = match protocol {
        17 => Transport::Udp { source: half(56), destination: half(58) },
        _ => Transport::Echo { reply: matches!(record[56], 0 | 129), identifier: half(60), sequence: half(62) },
    };
    let packet = Packet {
        source,
        destination,
        transport,
        ip_byte: word(8),
        payload_byte: word(12),
        payload: record.get(HEAD_AT..HEAD_AT + usize::from(head_byte))?,
        direction: Some(if outgoing == 0 { Direction::Rx } else { Direction::Tx }),
        tunnel: None,
    };
    Some((long(0), packet, merged != 0))
}

fn octets<const N: usize>(record: &[u8; RECORD_BYTE], at: usize) -> [u8; N] {
    record.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}
