//! Packets with addresses and contents of the sender's choice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use vtare_sys::net::namespace;
use vtare_wire::internet_checksum;

/// A raw socket: of IPv4 with headers of its own, or of ICMPv6, whose checksum the kernel makes.
const RAW_IPV4: (AddressFamily, Protocol) = (AddressFamily::INET, ipproto::RAW);
const RAW_ICMPV6: (AddressFamily, Protocol) = (AddressFamily::INET6, ipproto::ICMPV6);

/// Sends `packets` to `to` out of the namespace `name`.
pub(crate) fn send(name: &str, to: IpAddr, packets: &[Vec<u8>]) {
    let path = format!("/run/netns/{name}");
    let (family, protocol) = if to.is_ipv4() { RAW_IPV4 } else { RAW_ICMPV6 };
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            namespace::enter(Path::new(&path)).expect("it was made");
            let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol)).expect("root may");
            for packet in packets {
                sendto(&socket, packet, SendFlags::empty(), &SocketAddr::new(to, 0)).expect("it is taken");
            }
        });
        sent.join().expect("it does not panic");
    });
}

/// An IPv4 packet; the kernel fills in the length, the number and the checksum of the header.
pub(crate) fn ipv4(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    packet.extend_from_slice(payload);
    packet
}

/// An IPv6 packet.
fn ipv6(protocol: u8, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    packet.extend_from_slice(payload);
    packet
}

/// A UDP datagram without a checksum.
pub(crate) fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [from, to, (8 + payload.len()) as u16, 0] {
        datagram.extend_from_slice(&word.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    datagram
}

/// What a responder at port 8462 of `victim` may have sent to `peer`, as an ICMP message quotes it: a probe's reply,
/// and the answer to an echo, for which no socket is asked.
fn quotes(echo_reply: u8) -> [(bool, Vec<u8>); 2] {
    [(true, udp(8462, 40_000, &[])), (false, vec![echo_reply, 0, 0, 0, 0, 1, 0, 1])]
}

/// RFC 792: destination unreachable, fragmentation needed, from `router`, about packets of `victim` to `peer`.
pub(crate) fn fragmentation_needed(router: Ipv4Addr, victim: Ipv4Addr, peer: Ipv4Addr, mtu: u16) -> Vec<Vec<u8>> {
    let message = |(is_udp, payload): (bool, Vec<u8>)| {
        let mut icmp = vec![3, 4, 0, 0, 0, 0];
        icmp.extend_from_slice(&mtu.to_be_bytes());
        icmp.extend(ipv4(if is_udp { 17 } else { 1 }, victim, peer, &payload));
        let checksum = internet_checksum(&icmp);
        icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
        ipv4(1, router, victim, &icmp)
    };
    quotes(0).into_iter().map(message).collect()
}

/// RFC 4443: packet too big, about packets of `victim` to `peer`.
pub(crate) fn packet_too_big(victim: Ipv6Addr, peer: Ipv6Addr, mtu: u32) -> Vec<Vec<u8>> {
    let message = |(is_udp, payload): (bool, Vec<u8>)| {
        let mut icmp = vec![2, 0, 0, 0];
        icmp.extend_from_slice(&mtu.to_be_bytes());
        icmp.extend(ipv6(if is_udp { 17 } else { 58 }, victim, peer, &payload));
        icmp
    };
    quotes(129).into_iter().map(message).collect()
}
