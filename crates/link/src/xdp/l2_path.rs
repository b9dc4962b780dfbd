//! The path of a program's frames: interface, hardware addresses, headers.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use vtare_probe::link::{Capabilities, Facts, Refusal, StampSource};
use vtare_sys::bpf::{XdpLink, XdpMode};
use vtare_sys::net::route;
use vtare_sys::{SysError, clocks};
use vtare_units::{Monotonic, Span};
use vtare_wire::{IPV4_UDP_BYTE, UDP_FRAME_HEADERS_BYTE, udp_frame_headers};

use super::error::XdpError;

/// Largest datagram: a live frame lies in one page of memory with the kernel's own records.
pub(crate) const MOST_PAYLOAD_BYTE: usize = 3_200;
/// How often, and how long each time, the kernel is given to find a neighbour.
const LOOKS: usize = 5;
const LOOK_PATIENCE: Span = Span::from_millis(100);

/// The path to a peer, as an Ethernet frame needs it.
#[derive(Debug)]
pub(crate) struct L2Path {
    pub(crate) interface: u32,
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    pub(crate) mtu_byte: u32,
    pub(crate) from: [u8; 6],
    pub(crate) to: [u8; 6],
    pub(crate) next_hop: Ipv4Addr,
}

impl L2Path {
    /// Finds the path to `peer` for datagrams of `size_byte`.
    pub(crate) fn find(peer: Ipv4Addr, size_byte: u16) -> Result<Self, XdpError> {
        let route = route::to(peer)?;
        let link = route::link(route.interface)?;
        let name = link.name;
        let (Some(from), false) = (link.address.filter(|address| *address != [0; 6]), name == "lo") else {
            return Err(XdpError::Unfit(format!(
                "{name} is no Ethernet interface: frames of Ethernet are all that can be sent so"
            )));
        };
        let most = most_payload_byte(link.mtu_byte);
        if usize::from(size_byte) > most {
            return Err(XdpError::Unfit(format!(
                "datagrams of {size_byte} B: frames made here carry at most {most} B on {name}"
            )));
        }
        let next_hop = route.gateway.unwrap_or(peer);
        let Some(to) = hardware_address(route.interface, next_hop)? else {
            return Err(XdpError::Unfit(format!(
                "no hardware address of {next_hop} on {name}: is it there? (ip neigh)"
            )));
        };
        Ok(Self { interface: route.interface, name, kind: link.kind, mtu_byte: link.mtu_byte, from, to, next_hop })
    }
}

/// The largest datagram: as the interface carries, and as one frame of a program holds.
pub(crate) fn most_payload_byte(mtu_byte: u32) -> usize {
    (mtu_byte as usize).saturating_sub(IPV4_UDP_BYTE).min(MOST_PAYLOAD_BYTE)
}

/// Takes a port of `local` for datagrams to `peer`. Holding it keeps others off it, and what is let pass finds a
/// socket.
pub(crate) fn hold_port(local: Ipv4Addr, peer: SocketAddrV4) -> Result<(u16, UdpSocket), XdpError> {
    let port = UdpSocket::bind((local, 0)).and_then(|socket| {
        socket.connect(peer)?;
        Ok((socket.local_addr()?.port(), socket))
    });
    port.map_err(|source| {
        XdpError::System(SysError::Call { call: format!("take a port of {local}"), source, remedy: "" })
    })
}

/// Why an interface runs programs in the network stack only, where its driver refused them.
pub(crate) fn native_refused(path: &L2Path, link: &XdpLink) -> Option<Refusal> {
    link.native_refused().map(|reason| Refusal {
        wanted: "xdp_native".to_owned(),
        reason: format!("{} runs XDP programs in the network stack only: {reason}", path.name),
    })
}

/// The interface and where programs run there, as text.
pub(crate) fn place(path: &L2Path, link: &XdpLink) -> String {
    let mode = if link.mode() == XdpMode::Native { "in the driver" } else { "in the network stack" };
    format!("on {} ({}), {mode}", path.name, path.kind.as_deref().unwrap_or("hardware"))
}

/// Asks the table of neighbours; a datagram to the discard port has the kernel look for the neighbour where it does not
/// know it.
fn hardware_address(interface: u32, next_hop: Ipv4Addr) -> Result<Option<[u8; 6]>, XdpError> {
    for _ in 0..LOOKS {
        if let Some(found) = route::neighbour(interface, next_hop)? {
            return Ok(Some(found));
        }
        let _ = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(&[0], (next_hop, 9)));
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + LOOK_PATIENCE);
    }
    Ok(None)
}

pub(crate) fn facts(path: &L2Path, taking: &XdpLink, because: String) -> Facts {
    Facts {
        engine: "xdp".to_owned(),
        chosen_because: format!("{because}; {}", place(path, taking)),
        capabilities: Capabilities {
            tx_stamp: Some(StampSource::Software),
            tx_stamp_every: 1,
            rx_stamp: Some(StampSource::Software),
            counts_drops: true,
            batch: 1,
            ..Capabilities::default()
        },
        refusals: native_refused(path, taking).into_iter().collect(),
        stamp_error_ns: None,
        ip_header_byte: IPV4_UDP_BYTE,
        most_payload_byte: Some(most_payload_byte(path.mtu_byte)),
    }
}

/// Headers of every probe.
pub(crate) fn headers(
    path: &L2Path,
    local: SocketAddrV4,
    peer: SocketAddrV4,
    size_byte: u16,
) -> [u8; UDP_FRAME_HEADERS_BYTE] {
    udp_frame_headers([path.from, path.to], [local, peer], size_byte)
}

//= RFC 826
pub(crate) fn arp_request(path: &L2Path, local: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(60);
    frame.extend_from_slice(&path.to);
    frame.extend_from_slice(&path.from);
    // ARP for IPv4 over Ethernet, a request.
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&path.from);
    frame.extend_from_slice(&local.octets());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&path.next_hop.octets());
    frame.resize(60, 0);
    frame
}
