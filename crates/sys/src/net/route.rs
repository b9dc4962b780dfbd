//! The way a packet takes from here: route, neighbour, interface. Asked of the kernel (rtnetlink), in the calling thread's network namespace.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::interface::{MESSAGE_HEADER, messages};
use crate::SysError;

/// How packets to an address leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the interface.
    pub interface: u32,
    /// The router; `None` where the address is on the link.
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

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
/// Bytes of `struct rtmsg`, `struct ndmsg`, `struct ifinfomsg`.
const ROUTE_BYTE: usize = 12;
const NEIGHBOUR_BYTE: usize = 12;
const LINK_BYTE: usize = 16;

/// How packets to `to` leave.
///
/// # Errors
/// Where there is no route, or the kernel does not tell.
pub fn to(to: Ipv4Addr) -> Result<Route, SysError> {
    let mut body = vec![0; ROUTE_BYTE];
    body[0] = libc::AF_INET as u8;
    body[1] = 32;
    attribute(&mut body, RTA_DST, &to.octets());
    let answer = ask(libc::RTM_GETROUTE, 0, &body).map_err(failed(format!("find the route to {to}")))?;
    let route = messages(&answer).find(|(kind, _)| *kind == libc::RTM_NEWROUTE).and_then(|(_, body)| route_of(body));
    let unreadable = || io::Error::other("the answer names no interface");
    route.ok_or_else(unreadable).map_err(failed(format!("find the route to {to}")))
}

/// The number of the interface by which packets to `to` leave.
///
/// # Errors
/// Where there is no route, or the kernel does not tell.
pub fn interface_to(to: IpAddr) -> Result<u32, SysError> {
    let mut body = vec![0; ROUTE_BYTE];
    let (family, bits) = if to.is_ipv4() { (libc::AF_INET, 32) } else { (libc::AF_INET6, 128) };
    (body[0], body[1]) = (family as u8, bits);
    match to {
        IpAddr::V4(to) => attribute(&mut body, RTA_DST, &to.octets()),
        IpAddr::V6(to) => attribute(&mut body, RTA_DST, &to.octets()),
    }
    let answer = ask(libc::RTM_GETROUTE, 0, &body).map_err(failed(format!("find the route to {to}")))?;
    let body = messages(&answer).find(|(kind, _)| *kind == libc::RTM_NEWROUTE).map(|(_, body)| body);
    let found = body.and_then(|body| attributes(body, ROUTE_BYTE).find(|(kind, _)| *kind == RTA_OIF));
    let unreadable = || io::Error::other("the answer names no interface");
    found.and_then(|(_, value)| word(value)).ok_or_else(unreadable).map_err(failed(format!("find the route to {to}")))
}

/// The hardware address of `address` on an interface, where the kernel knows it now. Whoever has just talked to it finds it here.
///
/// # Errors
/// Where the kernel does not tell.
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
/// Where there is none, or the kernel does not tell.
pub fn link(interface: u32) -> Result<Link, SysError> {
    let mut body = vec![0; LINK_BYTE];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let answer = ask(libc::RTM_GETLINK, 0, &body).map_err(failed(format!("look at interface {interface}")))?;
    let found = messages(&answer).find(|(kind, _)| *kind == libc::RTM_NEWLINK).and_then(|(_, body)| link_of(body));
    found.ok_or_else(|| io::Error::other("it has no name")).map_err(failed(format!("look at interface {interface}")))
}

pub(super) fn failed(call: String) -> impl FnOnce(io::Error) -> SysError {
    |source| SysError::Call { call, source, remedy: "" }
}

pub(super) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes behind the first `header` bytes: `(kind, value)`.
pub(super) fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(header..).unwrap_or_default();
    std::iter::from_fn(move || {
        let &[a, b, c, d] = rest.first_chunk()?;
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The two upper bits are flags.
        Some((kind & 0x3fff, value))
    })
}

pub(super) fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().copied().map(u32::from_ne_bytes)
}

fn ipv4(value: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from)
}

fn route_of(body: &[u8]) -> Option<Route> {
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

fn neighbour_of(body: &[u8], interface: u32, address: Ipv4Addr) -> Option<[u8; 6]> {
    let of = body.get(4..8).and_then(word);
    let is =
        |wanted, value: &[u8]| attributes(body, NEIGHBOUR_BYTE).any(|(kind, found)| kind == wanted && found == value);
    if of != Some(interface) || !is(NDA_DST, &address.octets()) {
        return None;
    }
    attributes(body, NEIGHBOUR_BYTE).find(|(kind, _)| *kind == NDA_LLADDR).and_then(|(_, value)| value.try_into().ok())
}

fn link_of(body: &[u8]) -> Option<Link> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
    let mut found = Link { name: String::new(), address: None, mtu_byte: 0, kind: None };
    for (kind, value) in attributes(body, LINK_BYTE) {
        match kind {
            IFLA_IFNAME => found.name = text(value),
            IFLA_ADDRESS => found.address = value.try_into().ok(),
            IFLA_MTU => found.mtu_byte = word(value)?,
            IFLA_LINKINFO => {
                found.kind =
                    attributes(value, 0).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, value)| text(value));
            }
            _ => {}
        }
    }
    (!found.name.is_empty()).then_some(found)
}

/// Sends one request to rtnetlink and returns the answer; empty where the kernel has just acknowledged (`NLM_F_ACK`).
pub(super) fn ask(kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<Vec<u8>> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = Vec::new();
    request.extend_from_slice(&((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    // SAFETY: the bytes are live and of the length given.
    if unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = Vec::new();
    let mut part = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: the bytes are live and of the length given.
        let got = unsafe { libc::recv(socket.as_raw_fd(), part.as_mut_ptr().cast(), part.len(), 0) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        if let Some((_, body)) = messages(&part[..got]).find(|(kind, _)| i32::from(*kind) == libc::NLMSG_ERROR) {
            let code = body.first_chunk().copied().map_or(libc::EIO, i32::from_ne_bytes);
            if code == 0 && flags & libc::NLM_F_ACK != 0 {
                return Ok(answer);
            }
            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
        }
        answer.extend_from_slice(&part[..got]);
        let done = messages(&part[..got]).any(|(kind, _)| i32::from(kind) == libc::NLMSG_DONE);
        if got == 0 || done || flags & libc::NLM_F_DUMP != libc::NLM_F_DUMP {
            return Ok(answer);
        }
    }
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
    fn answers_cut_anywhere_give_less_and_never_panic() {
        let mut body = vec![0; ROUTE_BYTE];
        attribute(&mut body, RTA_OIF, &3_u32.to_ne_bytes());
        attribute(&mut body, RTA_GATEWAY, &[10, 0, 0, 1]);
        attribute(&mut body, RTA_PREFSRC, &[10, 0, 0, 2]);
        let whole = Route { interface: 3, gateway: Some([10, 0, 0, 1].into()), source: Some([10, 0, 0, 2].into()) };
        assert_eq!(route_of(&body), Some(whole));
        for end in 0..body.len() {
            assert_ne!(route_of(&body[..end]), Some(whole));
            neighbour_of(&body[..end], 0, Ipv4Addr::LOCALHOST);
            link_of(&body[..end]);
        }
    }
}
