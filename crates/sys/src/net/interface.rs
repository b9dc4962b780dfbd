//! The interfaces of the calling thread's network namespace. Asked of the kernel, not of `/sys`, which may show another
//! namespace.

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
/// Where the kernel refuses the query.
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
/// Where the kernel refuses the query. No such interface is no error: `None`.
pub fn with_address(address: IpAddr) -> Result<Option<Interface>, SysError> {
    Ok(all()?.into_iter().find(|interface| interface.addresses.contains(&address)))
}

/// The number of the interface with this name, or that the text is itself, as in `fe80::1%2`.
#[must_use]
pub fn number(text: &str) -> Option<u32> {
    let name = CString::new(text).ok()?;
    // SAFETY: the name is a string that lives as long as the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index != 0 { Some(index) } else { text.parse().ok().filter(|&index| exists(index)) }
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
}
