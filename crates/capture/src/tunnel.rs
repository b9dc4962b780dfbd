//! Headers of overlays: what a packet is wrapped in on its way.

use crate::header::{NoPacket, Protocol, Tunnel, number, octets, rest};

/// What is behind the header of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner<'a> {
    /// An Ethernet frame.
    Ethernet(&'a [u8]),
    /// What this ethertype names.
    EtherType(u16, &'a [u8]),
    /// An IP header.
    Ip(&'a [u8]),
}

/// Ethernet inside GRE and GENEVE.
const ETHERTYPE_ETHERNET: u16 = 0x6558;
/// Labels on one packet; more than four are unusual.
const MOST_LABELS: usize = 16;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// Reads the header of a tunnel that is at the beginning of `bytes`.
///
/// # Errors
/// [`NoPacket`], where it is none of its kind, or not captured whole.
pub(crate) fn open(tunnel: Tunnel, bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    match tunnel {
        Tunnel::IpInIp => Ok(Inner::Ip(bytes)),
        Tunnel::Gre => gre(bytes),
        Tunnel::Mpls => mpls(bytes),
        Tunnel::Pppoe => pppoe(bytes),
        Tunnel::Vxlan => vxlan(bytes),
        Tunnel::Geneve => geneve(bytes),
    }
}

const fn other(tunnel: Tunnel) -> NoPacket {
    NoPacket::Other(Protocol::Inside(tunnel))
}

fn named(kind: u16, bytes: &[u8]) -> Inner<'_> {
    if kind == ETHERTYPE_ETHERNET { Inner::Ethernet(bytes) } else { Inner::EtherType(kind, bytes) }
}

fn gre(bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    let (flags, kind) = (number(bytes, 0)?, number(bytes, 2)?);
    // Version 0 without source routing, which nobody sends any more.
    if flags & 0x4007 != 0 {
        return Err(other(Tunnel::Gre));
    }
    let optional = [0x8000, 0x2000, 0x1000].iter().filter(|&flag| flags & flag != 0).count();
    Ok(named(kind, rest(bytes, 4 + 4 * optional)?))
}

fn mpls(mut bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    for _ in 0..MOST_LABELS {
        let last = octets::<4>(bytes, 0)?[2] & 1 == 1;
        bytes = rest(bytes, 4)?;
        if !last {
            continue;
        }
        // No label names what follows: IP begins with its version, a frame of a pseudowire with a word of zeros.
        return match octets::<1>(bytes, 0)?[0] >> 4 {
            4 | 6 => Ok(Inner::Ip(bytes)),
            0 => Ok(Inner::Ethernet(rest(bytes, 4)?)),
            _ => Err(other(Tunnel::Mpls)),
        };
    }
    Err(other(Tunnel::Mpls))
}

fn pppoe(bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    // Version 1, type 1, session data.
    if number(bytes, 0)? != 0x1100 {
        return Err(other(Tunnel::Pppoe));
    }
    match number(bytes, 6)? {
        PPP_IPV4 | PPP_IPV6 => Ok(Inner::Ip(rest(bytes, 8)?)),
        _ => Err(other(Tunnel::Pppoe)),
    }
}

fn vxlan(bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    // A network is named, and nothing else is set.
    match octets::<4>(bytes, 0)? {
        [0x08, 0, 0, 0] => Ok(Inner::Ethernet(rest(bytes, 8)?)),
        _ => Err(other(Tunnel::Vxlan)),
    }
}

fn geneve(bytes: &[u8]) -> Result<Inner<'_>, NoPacket> {
    let [first, flags] = octets::<2>(bytes, 0)?;
    // Version 0, no packet of control.
    if first >> 6 != 0 || flags & 0x80 != 0 {
        return Err(other(Tunnel::Geneve));
    }
    let options = usize::from(first & 0x3f) * 4;
    Ok(named(number(bytes, 2)?, rest(bytes, 8 + options)?))
}
