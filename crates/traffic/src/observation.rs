use vtare_units::{Monotonic, Peer, Timestamp};

use crate::Train;

/// One packet of a train: when it was due, when it left, when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was due.
    pub scheduled: Timestamp<Monotonic>,
    /// When the program handed it to the kernel, measured; `None`: it was not sent.
    pub sent: Option<Timestamp<Monotonic>>,
    /// When the kernel or the card let it go, where that was stamped.
    pub kernel_sent: Option<Timestamp<Monotonic>>,
    /// When it arrived, by the receiver's kernel or card, on the receiver's clock; `None`: it did not.
    pub received: Option<Timestamp<Peer>>,
    /// Its place in the order of arrival, from 0, duplicates not counted; `None`: it did not arrive.
    pub place: Option<u32>,
    /// Size, bytes of the IP packet.
    pub size_byte: u32,
    /// Number of the call that sent it: packets of one call leave back to back.
    pub call: u32,
    /// Number of the group in which it was handed over at the receiver: packets of one group share one stamp (UDP_GRO,
    /// interrupt moderation). `None` where the receiver does not report groups; equal stamps then mark
    /// one.
    pub group: Option<u32>,
    /// The sender was kept from running just before this packet (its canary saw a gap), so `sent` may be early or
    /// late.
    pub descheduled: bool,
    /// ECN field of the packet as it arrived; `None` where it left without one, or where nobody reports it.
    pub ecn: Option<Ecn>,
}

/// What a packet that left ECN-capable arrived as.
//= RFC 3168, section 5: the ECN field in IP
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable: something on the way cleared the field.
    Cleared,
    /// ECN-capable, as it left.
    Capable,
    /// With the mark of congestion (CE).
    Marked,
}

impl Ecn {
    /// The field's two bits, of which both ECN-capable values are one here.
    #[must_use]
    pub const fn of(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Cleared,
            3 => Self::Marked,
            _ => Self::Capable,
        }
    }
}

impl Packet {
    /// The best send time there is: the kernel's stamp, or else the program's.
    #[must_use]
    pub fn left(&self) -> Option<Timestamp<Monotonic>> {
        self.kernel_sent.or(self.sent)
    }
}

/// What became of a train.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The train as asked for.
    pub train: Train,
    /// One entry for each packet of the train, in the order of the schedule.
    pub packets: Vec<Packet>,
    /// When the sender knew all this: the answer has come back.
    pub finished: Timestamp<Monotonic>,
    /// Packets of this train that reached the receiver's host and found its socket's buffer full; `None`: it does
    /// not count them.
    pub receiver_drops: Option<u32>,
}

/// A packet that arrived, with both its times in ns from the first packet of its train: two clocks, so only differences
/// of `received_ns - sent_ns` between packets mean anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SortedArrival {
    /// Number in the train, from 0.
    pub index: u32,
    /// Best send time, ns since that of the first packet sent, sender's clock.
    pub sent_ns: f64,
    /// Receive time, ns since the least receive time of the train, receiver's clock.
    pub received_ns: f64,
    /// Bytes of the IP packet.
    pub size_byte: u32,
}

impl SortedArrival {
    /// One-way delay up to a constant of the train, ns.
    #[must_use]
    pub fn delay_ns(&self) -> f64 {
        self.received_ns - self.sent_ns
    }
}

impl Observation {
    /// Packets that left.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.packets.iter().filter(|packet| packet.sent.is_some()).count()
    }

    /// Packets that arrived.
    #[must_use]
    pub fn received(&self) -> usize {
        self.packets.iter().filter(|packet| packet.received.is_some()).count()
    }

    /// Packets that left and neither arrived nor were dropped at the receiver's socket: what the path lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.sent().saturating_sub(self.received()).saturating_sub(self.receiver_drops.unwrap_or(0) as usize)
    }

    /// Share of the packets sent that did not arrive, 0 to 1; `None` where none was sent.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        let sent = self.sent();
        (sent > 0).then(|| sent.saturating_sub(self.received()) as f64 / sent as f64)
    }

    /// Packets that arrived after one that was sent later (RFC 4737).
    #[must_use]
    pub fn reordered(&self) -> usize {
        let mut highest = None;
        let places = self.packets.iter().filter_map(|packet| packet.place);
        places
            .filter(|&place| highest.replace(place.max(highest.unwrap_or(0))).is_some_and(|most| place < most))
            .count()
    }

    /// The packets that arrived, in the order of sending.
    #[must_use]
    pub fn arrivals(&self) -> Vec<SortedArrival> {
        let first_sent = self.packets.iter().find_map(Packet::left);
        let first_received = self.packets.iter().filter_map(|packet| packet.received).min();
        let (Some(first_sent), Some(first_received)) = (first_sent, first_received) else {
            return Vec::new();
        };
        let arrival = |(index, packet): (u32, &Packet)| {
            Some(SortedArrival {
                index,
                sent_ns: (packet.left()? - first_sent).as_nanos() as f64,
                received_ns: (packet.received? - first_received).as_nanos() as f64,
                size_byte: packet.size_byte,
            })
        };
        (0..).zip(&self.packets).filter_map(arrival).collect()
    }

    /// The rate at which the train was really sent: bytes of all packets sent but the last, over the time from the
    /// first to the last, bit/s. `None` where that time is 0 or fewer than two were sent.
    #[must_use]
    pub fn sent_bit_per_s(&self) -> Option<f64> {
        let times = self.packets.iter().filter_map(|packet| Some((packet.left()?, packet.size_byte)));
        rate(times.map(|(at, size)| (at.as_nanos(), size)))
    }

    /// The rate at which the train arrived: bytes of all packets that arrived but the first, over the time from the
    /// first to the last arrival, bit/s. `None` where that time is 0 or fewer than two arrived.
    #[must_use]
    pub fn received_bit_per_s(&self) -> Option<f64> {
        let mut times: Vec<_> =
            self.packets.iter().filter_map(|packet| Some((packet.received?.as_nanos(), packet.size_byte))).collect();
        times.sort_unstable();
        // The time of an arrival is the end of its packet, that of a send the beginning: here the first packet does not
        // count.
        rate(times.into_iter().rev())
    }

    /// Gaps between neighbours of the schedule that both left and arrived: sent and received, ns.
    #[must_use]
    pub fn gaps_ns(&self) -> Vec<(f64, f64)> {
        let arrivals = self.arrivals();
        let neighbours = arrivals.windows(2).filter(|pair| pair[1].index == pair[0].index + 1);
        neighbours.map(|pair| (pair[1].sent_ns - pair[0].sent_ns, pair[1].received_ns - pair[0].received_ns)).collect()
    }
}

/// All bytes but those of the last item, over the time between the first and the last.
fn rate(times: impl Iterator<Item = (u64, u32)>) -> Option<f64> {
    let mut ends: Option<(u64, u64)> = None;
    let (mut bits, mut last) = (0.0, 0);
    for (at, size) in times {
        ends = Some(ends.map_or((at, at), |(low, high)| (low.min(at), high.max(at))));
        bits += f64::from(last) * 8.0;
        last = size;
    }
    let (low, high) = ends?;
    (high > low).then(|| bits / ((high - low) as f64 / 1e9))
}
