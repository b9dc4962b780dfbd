//! Gives an interface of the calling thread's network namespace its address, MTU and neighbours (rtnetlink). A micro
//! guest has no other program for it.

use std::net::Ipv4Addr;

use libc::{IFA_ADDRESS, IFA_LOCAL, IFLA_MTU, NDA_DST, NDA_LLADDR};

use super::netlink::{ask, attribute, failed};
use crate::SysError;

const CREATE: libc::c_int = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// Brings interface number `interface` up, with this MTU in bytes where one is given.
///
/// # Errors
/// Where there is no such interface, the MTU is not one of its, or without CAP_NET_ADMIN.
pub fn bring_up(interface: u32, mtu_byte: Option<u32>) -> Result<(), SysError> {
    let up = libc::IFF_UP as u32;
    let mut body = vec![0; 4];
    for word in [interface, up, up] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    if let Some(mtu) = mtu_byte {
        attribute(&mut body, IFLA_MTU, &mtu.to_ne_bytes());
    }
    change(libc::RTM_NEWLINK, libc::NLM_F_ACK, &body, format!("bring interface {interface} up"))
}

/// Gives an interface an address, whose first `prefix_length` bits are those of its network.
///
/// # Errors
/// As [`bring_up`].
pub fn give_address(interface: u32, address: Ipv4Addr, prefix_length: u8) -> Result<(), SysError> {
    let mut body = vec![libc::AF_INET as u8, prefix_length, 0, 0];
    body.extend_from_slice(&interface.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &address.octets());
    attribute(&mut body, IFA_ADDRESS, &address.octets());
    let what = format!("give interface {interface} the address {address}/{prefix_length}");
    change(libc::RTM_NEWADDR, CREATE, &body, what)
}

/// Sets the hardware address of a neighbour permanently, so that no ARP request is sent during a measurement.
///
/// # Errors
/// As [`bring_up`].
pub fn give_neighbour(interface: u32, address: Ipv4Addr, hardware: [u8; 6]) -> Result<(), SysError> {
    let mut body = vec![libc::AF_INET as u8, 0, 0, 0];
    body.extend_from_slice(&interface.to_ne_bytes());
    body.extend_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
    body.extend_from_slice(&[0, 0]);
    attribute(&mut body, NDA_DST, &address.octets());
    attribute(&mut body, NDA_LLADDR, &hardware);
    change(libc::RTM_NEWNEIGH, CREATE, &body, format!("give interface {interface} the neighbour {address}"))
}

pub(super) fn change(kind: u16, flags: libc::c_int, body: &[u8], what: String) -> Result<(), SysError> {
    ask(kind, flags, body).map(|_| ()).map_err(failed(what))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::net::{interface, route};

    /// Runs `test` in a network namespace of its own, which ends with the thread.
    fn alone(test: impl FnOnce() + Send + 'static) {
        let run = move || {
            // SAFETY: takes a number only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return eprintln!("skipped: a namespace of its own needs root");
            }
            test();
        };
        std::thread::spawn(run).join().expect("the test holds");
    }

    #[test]
    fn an_interface_gets_what_it_is_given() {
        alone(|| {
            let loopback = interface::all().expect("they are readable")[0].index;
            let (own, other) = (Ipv4Addr::new(10, 77, 1, 2), Ipv4Addr::new(10, 77, 2, 1));
            bring_up(loopback, Some(9000)).expect("root may");
            give_address(loopback, own, 16).expect("root may");
            // Loopback has no neighbours of its own, and the kernel takes one all the same.
            give_neighbour(loopback, other, [2, 0x76, 0, 0, 0, 1]).expect("root may");
            let found = interface::with_address(IpAddr::V4(own)).expect("they are readable").expect("it has it");
            assert!(found.up && found.index == loopback);
            assert_eq!(route::link(loopback).expect("it is there").mtu_byte, 9000);
            assert_eq!(route::to(other).expect("it is in the network").source, Some(own));
        });
    }

    #[test]
    fn what_cannot_be_given_is_an_error_with_the_wish() {
        let error = give_address(u32::from(u16::MAX), Ipv4Addr::new(10, 0, 0, 1), 8).expect_err("no such interface");
        assert!(error.to_string().contains("10.0.0.1/8"), "{error}");
    }
}
