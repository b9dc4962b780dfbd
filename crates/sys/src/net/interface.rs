//! The interfaces of the calling thread's network namespace. Asked of the kernel, not of `/sys`, which may show another namespace.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::SysError;

/// Counters of an interface; they are 32 bits wide and wrap, so take differences with `wrapping_sub`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that arrived.
    pub rx_packets: u32,
    /// Packets that left.
    pub tx_packets: u32,
    /// Arrivals that were dropped: no room, or nobody to take them.
    pub rx_dropped: u32,
    /// Departures that were dropped before the wire.
    pub tx_dropped: u32,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as `eth0`.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its counters, where the kernel gave them.
    pub counters: Option<LinkCounters>,
}

/// The part of `struct rtnl_link_stats` that is read here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stats {
    rx_packets: u32,
    tx_packets: u32,
    _bytes: [u32; 2],
    _errors: [u32; 2],
    rx_dropped: u32,
    tx_dropped: u32,
}

/// All interfaces with their addresses and counters.
///
/// # Errors
/// Where the kernel does not tell.
pub fn all() -> Result<Vec<Interface>, SysError> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is live; the list is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(SysError::last("getifaddrs", ""));
    }
    let mut found: Vec<Interface> = Vec::new();
    let mut entry = first;
    // SAFETY: the list's pointers are null or valid until it is freed.
    while let Some(at) = unsafe { entry.as_ref() } {
        take(at, &mut found);
        entry = at.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The interface that has this address.
///
/// # Errors
/// Where the kernel does not tell. No such interface is no error: `None`.
pub fn with_address(address: IpAddr) -> Result<Option<Interface>, SysError> {
    Ok(all()?.into_iter().find(|interface| interface.addresses.contains(&address)))
}

/// Whether there is an interface with this number.
#[must_use]
pub fn exists(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer is live and as long as the call wants.
    let answer = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    !answer.is_null()
}

fn take(entry: &libc::ifaddrs, found: &mut Vec<Interface>) {
    // SAFETY: the name is a string that lives as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    let text = name.to_string_lossy();
    let at = found.iter().position(|interface| interface.name == text).unwrap_or_else(|| {
        // SAFETY: as above.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        found.push(Interface { name: text.into_owned(), index, up, addresses: Vec::new(), counters: None });
        found.len() - 1
    });
    // SAFETY: the address is null or lives as long as the list.
    let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { return };
    match i32::from(address.sa_family) {
        libc::AF_INET => {
            // SAFETY: of this family, so it is a sockaddr_in.
            let name = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            found[at].addresses.push(IpAddr::V4(Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes())));
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, so it is a sockaddr_in6.
            let name = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            found[at].addresses.push(IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr)));
        }
        libc::AF_PACKET if !entry.ifa_data.is_null() => {
            // SAFETY: for AF_PACKET the data is a struct rtnl_link_stats, which begins with these counters.
            let stats = unsafe { entry.ifa_data.cast::<Stats>().read_unaligned() };
            found[at].counters = Some(LinkCounters {
                rx_packets: stats.rx_packets,
                tx_packets: stats.tx_packets,
                rx_dropped: stats.rx_dropped,
                tx_dropped: stats.tx_dropped,
            });
        }
        _ => {}
    }
}

/// The kinds of the queue disciplines of interface `index`, as `noqueue`, `fq`, `etf`.
///
/// # Errors
/// Where the kernel does not tell.
pub fn queue_disciplines(index: u32) -> Result<Vec<String>, SysError> {
    let failed =
        |source| SysError::Call { call: "ask for queue disciplines (RTM_GETQDISC)".to_owned(), source, remedy: "" };
    dump_queues().map(|answer| kinds_of(&answer, index)).map_err(failed)
}

/// Bytes of `struct nlmsghdr`.
pub(super) const MESSAGE_HEADER: usize = 16;
/// Bytes of `struct tcmsg`.
const QUEUE_HEADER: usize = 20;

fn dump_queues() -> io::Result<Vec<u8>> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = [0_u8; MESSAGE_HEADER + QUEUE_HEADER];
    request[..4].copy_from_slice(&((MESSAGE_HEADER + QUEUE_HEADER) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETQDISC.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
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
        answer.extend_from_slice(&part[..got]);
        let ends = |(kind, _): &(u16, &[u8])| matches!(i32::from(*kind), libc::NLMSG_DONE | libc::NLMSG_ERROR);
        if got == 0 || messages(&part[..got]).any(|message| ends(&message)) {
            return Ok(answer);
        }
    }
}

/// The messages of a netlink answer: `(type, body)`.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(MESSAGE_HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

fn kinds_of(answer: &[u8], index: u32) -> Vec<String> {
    const TCA_KIND: u16 = 1;
    let mut kinds = Vec::new();
    for (kind, body) in messages(answer) {
        let of = body.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        if kind != libc::RTM_NEWQDISC || of != Some(index) {
            continue;
        }
        let mut attributes = body.get(QUEUE_HEADER..).unwrap_or_default();
        while let Some([a, b, c, d]) = attributes.get(..4) {
            let (length, kind) = (usize::from(u16::from_ne_bytes([*a, *b])), u16::from_ne_bytes([*c, *d]));
            let Some(value) = attributes.get(4..length) else { break };
            if kind == TCA_KIND {
                kinds.push(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned());
            }
            attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_its_address_and_has_counters() {
        let found = with_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("interfaces are readable");
        let Some(loopback) = found else { return eprintln!("skipped: loopback has no address here") };
        assert_eq!(loopback.name, "lo");
        assert!(loopback.index > 0 && loopback.counters.is_some());
    }

    #[test]
    fn loopback_has_a_queue_discipline_that_keeps_no_launch_times() {
        let loopback = all().expect("interfaces are readable").into_iter().find(|interface| interface.name == "lo");
        let Some(loopback) = loopback else { return eprintln!("skipped: no loopback here") };
        let kinds = queue_disciplines(loopback.index).expect("queues are readable");
        assert!(!kinds.iter().any(|kind| kind == "etf"), "{kinds:?}");
    }

    #[test]
    fn queue_kinds_are_read_from_their_interface_only() {
        let mut answer = Vec::new();
        for (index, kind) in [(7_u32, b"noqueue\0".as_slice()), (3, b"fq\0")] {
            let length = MESSAGE_HEADER + QUEUE_HEADER + (4 + kind.len()).next_multiple_of(4);
            let start = answer.len();
            answer.extend_from_slice(&(length as u32).to_ne_bytes());
            answer.extend_from_slice(&libc::RTM_NEWQDISC.to_ne_bytes());
            answer.resize(start + MESSAGE_HEADER + 4, 0);
            answer.extend_from_slice(&index.to_ne_bytes());
            answer.resize(start + MESSAGE_HEADER + QUEUE_HEADER, 0);
            answer.extend_from_slice(&(4 + kind.len() as u16).to_ne_bytes());
            answer.extend_from_slice(&1_u16.to_ne_bytes());
            answer.extend_from_slice(kind);
            answer.resize(start + length, 0);
        }
        assert_eq!(kinds_of(&answer, 3), ["fq"]);
        assert_eq!(kinds_of(&answer, 7), ["noqueue"]);
        // Cut anywhere, it gives less and never panics.
        for end in 0..answer.len() {
            assert!(kinds_of(&answer[..end], 3).len() <= 1);
        }
    }
}
