//! What a packet towards a peer can carry, known before a link is opened.

use std::net::SocketAddr;

use vtare_probe::link::LinkError;
use vtare_sys::net::{Layer, Socket};
use vtare_wire::{IPV4_UDP_BYTE, IPV6_UDP_BYTE};

use super::error::system;

/// What a UDP packet towards a peer can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSize {
    /// Bytes of the IP and UDP headers.
    pub header_byte: usize,
    /// The most payload without fragments; `None` where the kernel does not know the path's MTU.
    pub most_payload_byte: Option<usize>,
}

impl PacketSize {
    /// What the kernel knows of the path to `peer`. Opens no link: a session is asked for with this size, and the link
    /// is opened once, when the session has given the local address.
    ///
    /// # Errors
    /// [`LinkError::Unreachable`] where there is no route to `peer`.
    pub fn towards(peer: SocketAddr) -> Result<Self, LinkError> {
        let socket = Socket::open(Layer::Udp, peer).map_err(system("open a UDP socket"))?;
        connect(&socket, peer, None)?;
        Ok(Self::of(&socket, peer))
    }

    /// The same for a connected socket.
    pub(super) fn of(socket: &Socket, peer: SocketAddr) -> Self {
        let header_byte = if peer.is_ipv6() { IPV6_UDP_BYTE } else { IPV4_UDP_BYTE };
        let mtu_byte = socket.mtu().ok().and_then(|mtu| usize::try_from(mtu).ok());
        Self { header_byte, most_payload_byte: mtu_byte.map(|mtu| mtu.saturating_sub(header_byte)) }
    }
}

pub(super) fn connect(socket: &Socket, peer: SocketAddr, local: Option<SocketAddr>) -> Result<(), LinkError> {
    if let Some(mut local) = local {
        local.set_port(0);
        socket.bind(local).map_err(system("take a local address"))?;
    }
    socket.connect(peer).map_err(|error| LinkError::Unreachable { peer, source: error.into() })
}

#[cfg(test)]
mod tests {
    use vtare_clock::{Clock, ClockOptions};
    use vtare_probe::link::ProbeLink;

    use super::*;
    use crate::socket::{SocketLink, SocketOptions};

    #[test]
    fn the_size_of_packets_is_known_before_the_link_is_opened() {
        let clock = Clock::start(&ClockOptions::fast());
        for peer in ["127.0.0.1:9", "[::1]:9"] {
            let peer: SocketAddr = peer.parse().expect("an address");
            // A machine without IPv6 has no route to ::1.
            let Ok(size) = PacketSize::towards(peer) else { continue };
            let link = SocketLink::udp(&clock, peer, &SocketOptions::default(), "test").expect("the same route");
            let facts = link.facts();
            assert_eq!((size.header_byte, size.most_payload_byte), (facts.ip_header_byte, facts.most_payload_byte));
            assert!(size.most_payload_byte.is_some_and(|most| most > 1_000), "{peer}: {size:?}");
        }
        assert!(PacketSize::towards("127.0.0.1:9".parse().expect("an address")).is_ok());
    }
}
