use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Peer, Timestamp};

use crate::session::{Arrival, Table, Verdict};
use crate::wire::full::ReplyFlags;

/// The far end's clock, as it differs from the near one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerClock {
    /// What it shows at time 0, ns.
    pub offset_ns: i64,
    /// How much faster it runs, in parts per billion.
    pub skew_ppb: i64,
}

impl PeerClock {
    /// What it shows at `at`; before its own zero it shows 0.
    #[must_use]
    pub fn at(self, at: Timestamp<Monotonic>) -> Timestamp<Peer> {
        let at = i128::from(at.as_nanos());
        let shown = at + at * i128::from(self.skew_ppb) / 1_000_000_000 + i128::from(self.offset_ns);
        Timestamp::from_nanos(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }
}

/// What the far end of a [`SimLink`](super::SimLink) does with a datagram.
pub trait FarSide {
    /// Takes a datagram and may rewrite it into a reply; gives the reply's length, at most that of the datagram. `received` is the
    /// kernel's stamp, `now` and `replied` are when the program got it and when it answers.
    fn hear(
        &mut self,
        datagram: &mut [u8],
        now: Timestamp<Monotonic>,
        received: Timestamp<Peer>,
        replied: Timestamp<Peer>,
    ) -> Option<usize>;
}

/// Sends everything back as it came, as ICMP echo does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl FarSide for Echo {
    fn hear(
        &mut self,
        datagram: &mut [u8],
        _: Timestamp<Monotonic>,
        _: Timestamp<Peer>,
        _: Timestamp<Peer>,
    ) -> Option<usize> {
        Some(datagram.len())
    }
}

/// `vtare serve` as a function: the sessions of a [`Table`], all datagrams coming from one address.
#[derive(Debug)]
pub struct Responder {
    /// Its sessions.
    pub table: Table,
    /// Where datagrams come from.
    pub from: SocketAddr,
}

impl FarSide for Responder {
    fn hear(
        &mut self,
        datagram: &mut [u8],
        now: Timestamp<Monotonic>,
        received: Timestamp<Peer>,
        replied: Timestamp<Peer>,
    ) -> Option<usize> {
        let arrival = Arrival { now, received, flags: ReplyFlags { rx_by_kernel: true, ..ReplyFlags::default() } };
        match self.table.judge(self.from, datagram, &arrival, || replied) {
            Verdict::Reply(reply) => Some(reply.len()),
            Verdict::Record { .. } | Verdict::Drop(_) => None,
        }
    }
}
