//! Probes at the entry and exit of an interface, by programs in the kernel (`crates/bpf/capture.c`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use vtare_bpf::layout::capture::{counts, record, wanted};
use vtare_sys::bpf::{BpfError, MapView, Object, RingBuffer, TcLink, TcSide};

use crate::frame::{Packet, Transport};
use crate::probe::{self, Probe, Wanted};
use crate::{Direction, Tally};

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
        looked_for.entry(0)[wanted::ECHO].store(wanted.icmp.into(), Ordering::Relaxed);
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
        let count = |at: usize| self.counts.entry(0)[at].load(Ordering::Relaxed);
        Tally {
            lost: count(counts::LOST),
            cut: count(counts::UNREAD),
            merged: count(counts::MERGED),
            fragments: count(counts::FRAGMENTS),
            foreign: self.foreign,
            ..Tally::default()
        }
    }
}

/// Reads a record: when, what, and whether it came in a large packet.
fn read(record: &[u8; record::BYTE]) -> Option<(u64, Packet<'_>, bool)> {
    let long = |at: usize| u64::from_ne_bytes(octets(record, at));
    let word = |at: usize| u32::from_ne_bytes(octets(record, at));
    let half = |at: usize| u16::from_be_bytes(octets(record, at));
    let [version, protocol, outgoing, merged, head_byte] = octets(record, record::VERSION_AT);
    let (source, destination) = match version {
        4 => (
            Ipv4Addr::from(octets::<4>(record, record::FROM_AT)).into(),
            Ipv4Addr::from(octets::<4>(record, record::TO_AT)).into(),
        ),
        _ => (
            Ipv6Addr::from(octets::<16>(record, record::FROM_AT)).into(),
            Ipv6Addr::from(octets::<16>(record, record::TO_AT)).into(),
        ),
    };
    let transport = match protocol {
        17 => Transport::Udp { source: half(record::TRANSPORT_AT), destination: half(record::TRANSPORT_AT + 2) },
        _ => Transport::Echo {
            reply: matches!(record[record::TRANSPORT_AT], 0 | 129),
            identifier: half(record::TRANSPORT_AT + 4),
            sequence: half(record::TRANSPORT_AT + 6),
        },
    };
    let packet = Packet {
        source,
        destination,
        transport,
        ip_byte: word(record::IP_BYTE_AT),
        payload_byte: word(record::PAYLOAD_BYTE_AT),
        payload: record.get(record::HEAD_AT..record::HEAD_AT + usize::from(head_byte))?,
        direction: Some(if outgoing == 0 { Direction::Rx } else { Direction::Tx }),
        tunnel: None,
    };
    Some((long(record::STAMP_NS_AT), packet, merged != 0))
}

fn octets<const N: usize>(record: &[u8; record::BYTE], at: usize) -> [u8; N] {
    record.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}
