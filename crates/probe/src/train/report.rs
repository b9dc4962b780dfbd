use vtare_units::{Clock, Monotonic, Peer, Span, Timestamp};
use vtare_wire::session::ArrivalSource;

/// When a packet left, on clock `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<S: Clock> {
    /// Just before the call that sent it.
    pub before: Timestamp<S>,
    /// Just after that call: it left between the two. `None` where the sender does not report it (trains from the far
    /// end).
    pub after: Option<Timestamp<S>>,
    /// It left in one call with the packet before it, at no time of its own.
    pub joined: bool,
}

/// When a packet arrived, on clock `R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<R: Clock> {
    /// When.
    pub at: Timestamp<R>,
    /// Who took that stamp.
    pub source: ArrivalSource,
    /// It has the stamp of the packet that arrived before it: they came as one piece, and this one at no time of its
    /// own.
    pub joined: bool,
    /// Its place among the train's packets in the order of arrival, from 0.
    pub place: u32,
    /// Its ECN field, two bits; `None` where that is not known.
    pub ecn: Option<u8>,
}

/// What became of one packet. `S` is the sender's clock, `R` the receiver's: their zeros differ, and their rates by
/// some parts in a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFate<S: Clock = Monotonic, R: Clock = Peer> {
    /// Its number in the session.
    pub sequence: u64,
    /// When it was due, as the schedule stood then; `None` for trains from the far end.
    pub scheduled: Option<Timestamp<S>>,
    /// When it left; `None`: the kernel had no room for it, or, for trains from the far end, it never arrived.
    pub sent: Option<Sent<S>>,
    /// When the kernel or the card saw it leave, where that was stamped.
    pub kernel_sent: Option<Timestamp<S>>,
    /// When it arrived; `None`: lost, or not recorded.
    pub received: Option<Received<R>>,
}

/// What became of a train.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainReport<S: Clock = Monotonic, R: Clock = Peer> {
    /// Its packets, in the order of their numbers.
    pub packets: Vec<PacketFate<S, R>>,
    /// Bytes of each packet's payload.
    pub size_byte: u16,
    /// Bytes of the headers before it, from the IP header on.
    pub ip_header_byte: u16,
    /// Packets of one call: above 1 the times within a call are nobody's, and the train is to be judged call by call.
    pub burst_packet: u16,
    /// Packets that the sender's kernel took.
    pub sent: u64,
    /// Packets that it did not take.
    pub unsent: u64,
    /// Of those sent, packets whose arrival is not known: lost on the way, at a full receive buffer, or not recorded.
    pub lost: u64,
    /// Packets that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Packets that arrived and were refused by the responder (rate, number, time), since the train before.
    pub refused: u64,
    /// Packets that arrived and were not recorded because the responder's records were full, since the train before.
    pub unrecorded: u64,
    /// Datagrams that found the receiver's buffer full since the train before, of all senders: losses up to this
    /// number are the receiver's, not the path's. `None` where it does not report it.
    pub socket_drops: Option<u64>,
    /// How often the sender fell so far behind that it moved the rest of the train; `None` where the sender does not
    /// report it.
    pub moves: Option<u32>,
    /// By how much in all.
    pub moved: Option<Span>,
}

/// What became of a train from the far end: sent on its clock, received on this host's.
pub type ReverseReport = TrainReport<Peer, Monotonic>;

impl<S: Clock, R: Clock> TrainReport<S, R> {
    /// Packets that arrived.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.sent - self.lost
    }

    /// Losses that are the receiving host's (full buffer, records full, refused), as far as it reports them, and those
    /// of the path.
    #[must_use]
    pub fn lost_by_receiver_and_path(&self) -> (u64, u64) {
        let here = self.socket_drops.unwrap_or(0).saturating_add(self.unrecorded).saturating_add(self.refused);
        let receiver = here.min(self.lost);
        (receiver, self.lost - receiver)
    }

    /// Bytes of one packet from the IP header on.
    #[must_use]
    pub fn ip_byte(&self) -> u64 {
        u64::from(self.size_byte) + u64::from(self.ip_header_byte)
    }

    /// Fills in places and order, and counts losses, from what `received` holds.
    pub(super) fn settle(&mut self, in_order_of_arrival: &[usize]) {
        let mut highest = None;
        self.reordered = 0;
        for (place, &index) in in_order_of_arrival.iter().enumerate() {
            if let Some(received) = &mut self.packets[index].received {
                received.place = place as u32;
            }
            self.reordered += u64::from(highest.is_some_and(|highest| index < highest));
            highest = highest.max(Some(index));
        }
        self.lost = self.sent.saturating_sub(in_order_of_arrival.len() as u64);
    }
}
