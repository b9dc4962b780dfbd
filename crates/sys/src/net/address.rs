//! Socket addresses in the kernel's form.

use std::net::SocketAddr;

/// Writes an address in the kernel's form and gives its length.
pub(super) fn write_name(into: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(address) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than any address and aligned for all of them.
            unsafe { (&raw mut *into).cast::<libc::sockaddr_in>().write(name) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(address) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut *into).cast::<libc::sockaddr_in6>().write(name) };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}
