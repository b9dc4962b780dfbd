//! Trains that a responder sends because its client asked for them, and the credit that bounds them.

use std::net::SocketAddr;

use vtare_units::Span;

use super::limits::{Limits, Reason, ReverseBound};
use super::messages::{Counters, Grant};
use super::request::ReversePlan;
use crate::{IPV4_UDP_BYTE, IPV6_UDP_BYTE, SessionId, SessionKey, full};

/// A train that has been granted and paid for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReverseOrder {
    /// Whose.
    pub session: SessionId,
    /// The key for its tags.
    pub key: SessionKey,
    /// The address that the session's own probes come from.
    pub to: SocketAddr,
    /// The number of its first packet.
    pub first_sequence: u64,
    /// Which train.
    pub plan: ReversePlan,
    /// It leaves ECN-capable.
    pub ecn: bool,
}

/// What may still be sent to a client: what has come from it less what has been sent to it. So a responder never sends
/// more packets or more bytes than it got, whoever has the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Packets.
    pub packets: u64,
    /// Bytes, from the IP header on.
    pub byte: u64,
}

impl Credit {
    /// The credit that is left after all that `counters` counts.
    #[must_use]
    pub const fn left(counters: &Counters, ipv6: bool) -> Self {
        let came = Self::of(counters.accepted, counters.accepted_byte, ipv6);
        let went = Self::of(
            counters.replied.saturating_add(counters.reversed).saturating_add(counters.reverse_unsent),
            counters.replied_byte.saturating_add(counters.reverse_byte),
            ipv6,
        );
        Self { packets: came.packets.saturating_sub(went.packets), byte: came.byte.saturating_sub(went.byte) }
    }

    /// What this many packets with this many bytes of payload take.
    #[must_use]
    pub const fn of(packets: u64, payload_byte: u64, ipv6: bool) -> Self {
        let header = if ipv6 { IPV6_UDP_BYTE } else { IPV4_UDP_BYTE } as u64;
        Self { packets, byte: payload_byte.saturating_add(packets.saturating_mul(header)) }
    }
}

/// Checks a plan against the session's grant, the responder's limits and the credit.
pub(super) fn check(
    plan: &ReversePlan,
    grant: &Grant,
    limits: &Limits,
    credit: Credit,
    ipv6: bool,
) -> Result<(), Reason> {
    let packets = u64::from(plan.packets);
    let wanted = Credit::of(packets, packets * u64::from(plan.size_byte), ipv6);
    let most_packets = grant.open.burst_packet.min(limits.burst_packet);
    // Before the spacing is laid out: its length is the number of packets.
    if !(1..=most_packets).contains(&packets) {
        return Err(Reason::Reverse { bound: ReverseBound::Packets, found: packets, most: most_packets });
    }
    let lasts_ns = plan.spacing.due(plan.packets).last().map_or(0, Span::as_nanos_unsigned);
    let size = usize::from(plan.size_byte);
    let bounds = [
        (ReverseBound::SizeByte, plan.size_byte.into(), grant.open.size_byte.into()),
        (ReverseBound::LastsNs, lasts_ns, limits.reverse_ns),
        (ReverseBound::CreditPackets, wanted.packets, credit.packets),
        (ReverseBound::CreditByte, wanted.byte, credit.byte),
    ];
    if size < full::HEADER_BYTE {
        let least_byte = full::HEADER_BYTE as u16;
        return Err(Reason::Size { found_byte: plan.size_byte, least_byte });
    }
    match bounds.into_iter().find(|(_, found, most)| found > most) {
        Some((bound, found, most)) => Err(Reason::Reverse { bound, found, most }),
        None => Ok(()),
    }
}
