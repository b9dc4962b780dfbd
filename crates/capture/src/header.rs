//! What frames and tunnels share: kinds of headers, and numbers read from their bytes.

/// What a packet was wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tunnel {
    /// IPv4 or IPv6 in IP (RFC 2003, RFC 4213).
    IpInIp,
    /// Generic routing encapsulation (RFC 2784, RFC 2890).
    Gre,
    /// Labels of MPLS (RFC 3032).
    Mpls,
    /// PPP over Ethernet (RFC 2516).
    Pppoe,
    /// Virtual extensible LAN (RFC 7348).
    Vxlan,
    /// Generic network virtualization encapsulation (RFC 8926).
    Geneve,
}

impl Tunnel {
    /// Its usual name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IpInIp => "IP in IP",
            Self::Gre => "GRE",
            Self::Mpls => "MPLS",
            Self::Pppoe => "PPPoE",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "GENEVE",
        }
    }

    /// The tunnel whose packets go to this UDP port; 8472 is the one that Linux began with for VXLAN.
    pub(crate) const fn of_port(port: u16) -> Option<Self> {
        match port {
            4789 | 8472 => Some(Self::Vxlan),
            6081 => Some(Self::Geneve),
            _ => None,
        }
    }
}

/// A protocol that no probe is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// By the number of its ethertype.
    EtherType(u16),
    /// By its number in the IP header.
    Ip(u8),
    /// A message of ICMP that is no echo, by its type.
    Icmp(u8),
    /// Something else in a tunnel.
    Inside(Tunnel),
    /// No version of IP.
    NoIp,
    /// UDP to and from other ports than those that are wanted.
    OtherPorts,
    /// An echo message where none is wanted.
    Echo,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EtherType(0x0806) => f.write_str("ARP"),
            Self::EtherType(kind) => write!(f, "ethertype 0x{kind:04x}"),
            Self::Ip(6) => f.write_str("TCP"),
            Self::Ip(50) => f.write_str("ESP"),
            Self::Ip(number) => write!(f, "IP protocol {number}"),
            Self::Icmp(kind) => write!(f, "ICMP type {kind}"),
            Self::Inside(tunnel) => write!(f, "{} without IP", tunnel.as_str()),
            Self::NoIp => f.write_str("no IP"),
            Self::OtherPorts => f.write_str("UDP at other ports"),
            Self::Echo => f.write_str("ICMP echo (read with --icmp)"),
        }
    }
}

/// Why a frame is no packet that could be a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoPacket {
    /// Another protocol: ARP, TCP, ICMP errors and so on.
    #[error("another protocol: {0}")]
    Other(Protocol),
    /// The second or a later fragment of a packet: its ports are in the first.
    #[error("a later fragment")]
    Fragment,
    /// The headers were not captured whole.
    #[error("cut before the end of its headers")]
    Cut,
}

pub(crate) fn byte(bytes: &[u8], at: usize) -> Result<u8, NoPacket> {
    bytes.get(at).copied().ok_or(NoPacket::Cut)
}

pub(crate) fn number(bytes: &[u8], at: usize) -> Result<u16, NoPacket> {
    octets(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn octets<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], NoPacket> {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or(NoPacket::Cut)
}

pub(crate) fn rest(bytes: &[u8], at: usize) -> Result<&[u8], NoPacket> {
    bytes.get(at..).ok_or(NoPacket::Cut)
}
