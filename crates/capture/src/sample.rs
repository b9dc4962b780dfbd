//! Packets made by hand, for the tests of this room.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vtare_units::{Span, Timestamp};
use vtare_wire::{SessionId, SessionKey, full, short, stamp};

pub(super) static KEY: SessionKey = SessionKey::new([7; 16]);
pub(super) const SESSION: SessionId = SessionId(0xfedc_ba98_7654_3210);
pub(super) const HANDLE: u16 = 0x1234;
pub(super) const V4: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
pub(super) const V6: (IpAddr, IpAddr) =
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)));

/// A request of the full form.
pub(super) fn full_request(sequence: u64, byte: usize) -> Vec<u8> {
    let mut datagram = vec![0; byte];
    let probe = full::Probe { session: SESSION, sequence, sent: Timestamp::from_nanos(9), wants_reply: true };
    probe.encode(&KEY, &mut datagram).expect("room");
    datagram
}

/// The reply to it.
pub(super) fn full_reply(sequence: u64, byte: usize) -> Vec<u8> {
    let mut datagram = full_request(sequence, byte);
    let request = full::Unverified::parse(&mut datagram[..]).and_then(|it| it.request(&KEY)).expect("just made");
    let turnaround = full::Turnaround {
        received: Timestamp::from_nanos(1),
        replied: Timestamp::from_nanos(2),
        accepted: 3,
        flags: full::ReplyFlags { rx_by_kernel: true, ..Default::default() },
    };
    request.into_reply(&KEY, &turnaround).to_vec()
}

fn context() -> short::Context<'static> {
    short::Context { session: SESSION, handle: HANDLE, key: &KEY }
}

/// A request of the short form.
pub(super) fn short_request(sequence: u64, byte: usize) -> Vec<u8> {
    let mut datagram = vec![0; byte];
    short::Probe::new(sequence, Timestamp::from_nanos(9), true).encode(&context(), &mut datagram).expect("room");
    datagram
}

/// The reply to it.
pub(super) fn short_reply(sequence: u64, byte: usize) -> Vec<u8> {
    let mut datagram = short_request(sequence, byte);
    let request = short::Unverified::parse(&mut datagram[..]).and_then(|it| it.request(&context(), sequence));
    request.expect("just made").into_reply(&context(), Span::from_nanos(5)).to_vec()
}

/// A STAMP sender's packet.
pub(super) fn stamp_request(sequence: u32, byte: usize) -> Vec<u8> {
    let mut datagram = vec![0; byte];
    let sent = stamp::Time::from_unix_ns(5, stamp::TimeFormat::Ntp);
    let error = stamp::ErrorEstimate::of_ns(1_000, false);
    stamp::SenderPacket { sequence, sent, error, session: 77 }.encode(None, &mut datagram).expect("room");
    datagram
}

/// A reflector's, whose own number is another.
pub(super) fn stamp_reply(sequence: u32, byte: usize) -> Vec<u8> {
    let mut datagram = stamp_request(sequence, byte);
    let time = stamp::Time::from_unix_ns(6, stamp::TimeFormat::Ntp);
    let error = stamp::ErrorEstimate::of_ns(1_000, false);
    let reflection =
        stamp::Reflection { sequence: sequence + 1_000, replied: time, error, received: time, sender_ttl: 1 };
    stamp::reflect(None, &mut datagram, &reflection).expect("a good packet").to_vec()
}

/// UDP and IP around `payload`, with no options.
pub(super) fn udp(ends: (IpAddr, IpAddr), ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(ports.0.to_be_bytes());
    datagram.extend(ports.1.to_be_bytes());
    datagram.extend((payload.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(ends, 17, &datagram)
}

/// An echo message with IP around it.
pub(super) fn echo(ends: (IpAddr, IpAddr), reply: bool, identifier: u16, sequence: u16, byte: usize) -> Vec<u8> {
    let (protocol, kind) = match (ends.0.is_ipv6(), reply) {
        (false, false) => (1, 8),
        (false, true) => (1, 0),
        (true, false) => (58, 128),
        (true, true) => (58, 129),
    };
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.resize(8 + byte, 0x5a);
    ip(ends, protocol, &message)
}

/// IP around `inner`.
pub(super) fn ip(ends: (IpAddr, IpAddr), protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut packet = match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut head = vec![0x45, 0];
            head.extend((inner.len() as u16 + 20).to_be_bytes());
            head.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            head.extend(from.octets());
            head.extend(to.octets());
            head
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut head = vec![0x60, 0, 0, 0];
            head.extend((inner.len() as u16).to_be_bytes());
            head.extend([protocol, 64]);
            head.extend(from.octets());
            head.extend(to.octets());
            head
        }
        _ => panic!("both ends are of one family"),
    };
    packet.extend(inner);
    packet
}

/// Ethernet around an IP packet, with VLAN tags, padded to the least frame.
pub(super) fn ethernet(packet: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 5]);
    }
    frame.extend(if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(packet);
    frame.resize(frame.len().max(60), 0);
    frame
}
