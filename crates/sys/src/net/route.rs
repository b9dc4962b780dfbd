//! The path of a packet out of this host: route, neighbour, interface, read from the kernel (rtnetlink) in the calling
//! thread's network namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use libc::{
    IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU, NDA_DST, NDA_LLADDR, RTA_DST, RTA_GATEWAY,
    RTA_OIF, RTA_PREFSRC,
};

use super::netlink::{ask, attribute, attributes, failed, messages, word};
use crate::SysError;

/// How packets to an address leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the interface.
    pub interface: u32,
    /// The IPv4 address of the router; `None` where the destination is on the link.
    pub gateway: Option<Ipv4Addr>,
    /// The address they come from.
    pub source: Option<Ipv4Addr>,
}

/// An interface as the link layer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its hardware address, where it is one of Ethernet.
    pub address: Option<[u8; 6]>,
    /// Bytes of the largest IP packet.
    pub mtu_byte: u32,
    /// What kind of virtual interface it is, as `veth`, `bridge`; `None` for hardware.
    pub kind: Option<String>,
}

/// Bytes of `struct rtmsg`, `struct ndmsg`, `struct ifinfomsg`.
const ROUTE_BYTE: usize = 12;
const NEIGHBOUR_BYTE: usize = 12;
const LINK_BYTE: usize = 16;

/// How packets to `to` leave.
///
/// # Errors
/// Where there is no route, or the kernel refuses the request.
pub fn to(to: Ipv4Addr) -> Result<Route, SysError> {
    find(to.into())
}

/// The number of the interface by which packets to `to` leave.
///
/// # Errors
/// Where there is no route, or the kernel refuses the request.
pub fn interface_to(to: IpAddr) -> Result<u32, SysError> {
    find(to).map(|route| route.interface)
}

fn find(to: IpAddr) -> Result<Route, SysError> {
    let mut body = vec![0; ROUTE_BYTE];
    match to {
        IpAddr::V4(to) => {
            (body[0], body[1]) = (libc::AF_INET as u8, 32);
            attribute(&mut body, RTA_DST, &to.octets());
        }
        IpAddr::V6(to) => {
            (body[0], body[1]) = (libc::AF_INET6 as u8, 128);
            attribute(&mut body, RTA_DST, &to.octets());
        }
    }
    let what = || format!("find the route to {to}");
    let answer = ask(libc::RTM_GETROUTE, 0, &body).map_err(failed(what()))?;
    let route = messages(&answer).find(|(kind, _)| *kind == libc::RTM_NEWROUTE).and_then(|(_, body)| route_of(body));
    route.ok_or_else(|| io::Error::other("the answer names no interface")).map_err(failed(what()))
}

/// The hardware address of `address` on an interface, where the kernel knows it now: after a packet to it.
///
/// # Errors
/// Where the kernel refuses the request.
pub fn neighbour(interface: u32, address: Ipv4Addr) -> Result<Option<[u8; 6]>, SysError> {
    let mut body = vec![0; NEIGHBOUR_BYTE];
    body[0] = libc::AF_INET as u8;
    let answer =
        ask(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &body).map_err(failed("read the table of neighbours".to_owned()))?;
    let mut entries = messages(&answer).filter(|(kind, _)| *kind == libc::RTM_NEWNEIGH);
    Ok(entries.find_map(|(_, body)| neighbour_of(body, interface, address)))
}

/// The interface of this number.
///
/// # Errors
/// Where there is none, or the kernel refuses the request.
pub fn link(interface: u32) -> Result<Link, SysError> {
    let mut body = vec![0; LINK_BYTE];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let answer = ask(libc::RTM_GETLINK, 0, &body).map_err(failed(format!("read interface {interface}")))?;
    let found = messages(&answer).find(|(kind, _)| *kind == libc::RTM_NEWLINK).and_then(|(_, body)| link_of(body));
    found
        .ok_or_else(|| io::Error::other("the answer has no name or no MTU"))
        .map_err(failed(format!("read interface {interface}")))
}

fn ipv4(value: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from)
}

/// Reads the body of an RTM_NEWROUTE message; `None` where it names no interface.
#[must_use]
pub fn route_of(body: &[u8]) -> Option<Route> {
    let (mut interface, mut gateway, mut source) = (None, None, None);
    for (kind, value) in attributes(body, ROUTE_BYTE) {
        match kind {
            RTA_OIF => interface = word(value),
            RTA_GATEWAY => gateway = ipv4(value),
            RTA_PREFSRC => source = ipv4(value),
            _ => {}
        }
    }
    Some(Route { interface: interface?, gateway, source })
}

/// The hardware address in the body of an RTM_NEWNEIGH message, where it is of this address on this interface.
#[must_use]
pub fn neighbour_of(body: &[u8], interface: u32, address: Ipv4Addr) -> Option<[u8; 6]> {
    let of = body.get(4..8).and_then(word);
    let is =
        |wanted, value: &[u8]| attributes(body, NEIGHBOUR_BYTE).any(|(kind, found)| kind == wanted && found == value);
    if of != Some(interface) || !is(NDA_DST, &address.octets()) {
        return None;
    }
    attributes(body, NEIGHBOUR_BYTE).find(|(kind, _)| *kind == NDA_LLADDR).and_then(|(_, value)| value.try_into().ok())
}

/// Reads the body of an RTM_NEWLINK message; `None` where it has no name or no MTU.
#[must_use]
pub fn link_of(body: &[u8]) -> Option<Link> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
    let (mut name, mut address, mut mtu_byte, mut kind_of) = (None, None, None, None);
    for (kind, value) in attributes(body, LINK_BYTE) {
        match kind {
            IFLA_IFNAME => name = Some(text(value)).filter(|name| !name.is_empty()),
            IFLA_ADDRESS => address = value.try_into().ok(),
            IFLA_MTU => mtu_byte = word(value),
            IFLA_LINKINFO => {
                kind_of = attributes(value, 0).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, value)| text(value));
            }
            _ => {}
        }
    }
    Some(Link { name: name?, address, mtu_byte: mtu_byte?, kind: kind_of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_over_loopback() {
        let Ok(route) = to(Ipv4Addr::LOCALHOST) else { return eprintln!("skipped: no route to loopback here") };
        let link = link(route.interface).expect("it is there");
        assert_eq!(interface_to(Ipv4Addr::LOCALHOST.into()).expect("as before"), route.interface);
        assert_eq!((link.name.as_str(), route.gateway, link.address), ("lo", None, Some([0; 6])));
        assert!(link.mtu_byte >= 1_500);
        assert_eq!(neighbour(route.interface, Ipv4Addr::LOCALHOST).expect("the table can be read"), None);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        assert_eq!(link(u32::from(u16::MAX)).expect_err("no such number").errno(), Some(libc::ENODEV));
    }

    #[test]
    fn a_link_without_an_mtu_is_not_one_with_an_mtu_of_0() {
        let mut body = vec![0; LINK_BYTE];
        attribute(&mut body, IFLA_IFNAME, b"eth0\0");
        assert_eq!(link_of(&body), None);
        attribute(&mut body, IFLA_MTU, &1_500_u32.to_ne_bytes());
        assert_eq!(link_of(&body).map(|link| link.mtu_byte), Some(1_500));
    }

    #[test]
    fn answers_cut_anywhere_give_less_and_never_panic() {
        let mut body = vec![0; ROUTE_BYTE];
        attribute(&mut body, RTA_OIF, &3_u32.to_ne_bytes());
        attribute(&mut body, RTA_GATEWAY, &[10, 0, 0, 1]);
        attribute(&mut body, RTA_PREFSRC, &[10, 0, 0, 2]);
        let whole = Route { interface: 3, gateway: Some([10, 0, 0, 1].into()), source: Some([10, 0, 0, 2].into()) };
        assert_eq!(route_of(&body), Some(whole));
        for end in 0..body.len() {
            assert_ne!(route_of(&body[..end]), Some(whole));
            assert_eq!(neighbour_of(&body[..end], 0, Ipv4Addr::LOCALHOST), None);
            assert_eq!(link_of(&body[..end]), None);
        }
    }
}
