use std::net::SocketAddr;

use vtare_units::{Monotonic, Peer, Timestamp};
use vtare_wire::full::ReplyFlags;
use vtare_wire::session::{Arrival, Table, Verdict};

/// What the far end of a [`SimLink`](super::SimLink) does with a datagram.
pub trait FarSide {
    /// Takes a datagram and may rewrite it into a reply; gives the reply's length, at most that of the datagram.
    /// `received` is the kernel's stamp, `now` and `replied` are when the program got it and when it answers.
    fn receive(
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
    fn receive(
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
    fn receive(
        &mut self,
        datagram: &mut [u8],
        now: Timestamp<Monotonic>,
        received: Timestamp<Peer>,
        replied: Timestamp<Peer>,
    ) -> Option<usize> {
        let arrival =
            Arrival { now, received, flags: ReplyFlags { rx_by_kernel: true, ..ReplyFlags::default() }, class: None };
        match self.table.judge(self.from, datagram, &arrival, || replied) {
            Verdict::Reply(reply) => Some(reply.len()),
            Verdict::Record { .. } | Verdict::Drop(_) => None,
        }
    }
}
