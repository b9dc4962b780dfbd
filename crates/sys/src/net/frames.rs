//! Whole frames of an interface (AF_PACKET), with what the kernel still has to do to them.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Socket;
use super::socket::Layer;
use crate::SysError;

/// Bytes of the header that stands before every frame of a [`Layer::Frames`] socket, in both directions.
pub const FRAME_HEADER_BYTE: usize = 10;

/// `linux/virtio_net.h`.
const NEEDS_CHECKSUM: u8 = 1;
const CONGESTION_BIT: u8 = 0x80;

/// How a frame that is several packets in one is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is one packet.
    None,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams (UDP_SEGMENT).
    Udp,
    /// Something that this program does not know; the kernel's number.
    Other(u8),
}

/// The metadata of a frame, from the kernel and to it (`struct virtio_net_hdr`, PACKET_VNET_HDR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The checksum of the transport header holds the sum of the pseudo header only: offset of the stretch to sum from
    /// the start of the frame, and of the checksum from there.
    pub checksum: Option<(u16, u16)>,
    /// How it is to be cut.
    pub cut: Cut,
    /// Bytes of all headers of a frame that is to be cut, as the kernel stated them.
    pub header_byte: u16,
    /// Payload of each packet but the last, where it is to be cut.
    pub segment_byte: u16,
    /// Whether TCP's congestion bit (CWR) belongs to the first packet only.
    pub congestion: bool,
}

impl FrameHeader {
    /// A frame that is whole and ready.
    pub const PLAIN: Self = Self { checksum: None, cut: Cut::None, header_byte: 0, segment_byte: 0, congestion: false };

    /// Reads what stands before a frame, in this machine's byte order.
    #[must_use]
    pub fn read(bytes: &[u8; FRAME_HEADER_BYTE]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let cut = match bytes[1] & !CONGESTION_BIT {
            0 => Cut::None,
            1 => Cut::Tcp4,
            4 => Cut::Tcp6,
            5 => Cut::Udp,
            other => Cut::Other(other),
        };
        let checksum = (bytes[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(8)));
        Self { checksum, cut, header_byte: word(2), segment_byte: word(4), congestion: bytes[1] & CONGESTION_BIT != 0 }
    }

    /// Writes it as the kernel takes it back.
    #[must_use]
    pub fn write(&self) -> [u8; FRAME_HEADER_BYTE] {
        let mut bytes = Self::write_single(self.checksum);
        let kind = match self.cut {
            Cut::None => 0,
            Cut::Tcp4 => 1,
            Cut::Tcp6 => 4,
            Cut::Udp => 5,
            Cut::Other(other) => other,
        };
        bytes[1] = kind | if self.congestion { CONGESTION_BIT } else { 0 };
        bytes[2..4].copy_from_slice(&self.header_byte.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.segment_byte.to_ne_bytes());
        bytes
    }

    /// Writes the header of a frame that is one packet.
    #[must_use]
    pub fn write_single(checksum: Option<(u16, u16)>) -> [u8; FRAME_HEADER_BYTE] {
        let mut bytes = [0; FRAME_HEADER_BYTE];
        if let Some((start, offset)) = checksum {
            bytes[0] = NEEDS_CHECKSUM;
            bytes[6..8].copy_from_slice(&start.to_ne_bytes());
            bytes[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        bytes
    }
}

/// The number of an interface of this network namespace; `None` where there is none of that name.
#[must_use]
pub fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a live C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// What a socket for frames has seen since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    /// Frames that came, those dropped among them.
    pub frames: u32,
    /// Of those, dropped because the socket's buffer was full.
    pub drops: u32,
}

impl Socket {
    /// A socket for all frames that arrive on interface `index`, whomever they are addressed to, and for sending frames
    /// there. Frames carry a [`FrameHeader`]. Its own and other programs' departures are not seen; sends go past
    /// the interface's queue discipline.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, before Linux 4.20, and where there is no such interface.
    pub fn frames(index: u32) -> Result<Self, SysError> {
        const REMEDY: &str = ": run as root or with CAP_NET_RAW";
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0: nothing arrives before everything is set up.
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(SysError::last("socket(AF_PACKET)", REMEDY));
        }
        // SAFETY: the descriptor was opened above and nobody else has it.
        let socket = Self::of_frames(unsafe { OwnedFd::from_raw_fd(fd) });
        let set = |option, call: &str, remedy| socket.set(libc::SOL_PACKET, option, 1_i32, call, remedy);
        set(libc::PACKET_VNET_HDR, "setsockopt(PACKET_VNET_HDR)", "")?;
        set(PACKET_IGNORE_OUTGOING, "setsockopt(PACKET_IGNORE_OUTGOING)", ": needs Linux 4.20 or later")?;
        set(libc::PACKET_QDISC_BYPASS, "setsockopt(PACKET_QDISC_BYPASS)", "")?;
        set(libc::PACKET_AUXDATA, "setsockopt(PACKET_AUXDATA)", "")?;
        socket.bind_frames(index)?;
        let all = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, all, "setsockopt(PACKET_MR_PROMISC)", "")?;
        Ok(socket)
    }

    fn bind_frames(&self, index: u32) -> Result<(), SysError> {
        // SAFETY: all-zero is a valid address.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as libc::c_ushort;
        name.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        name.sll_ifindex = index.cast_signed();
        let length = size_of_val(&name) as libc::socklen_t;
        // SAFETY: the address is live and of the length given.
        if unsafe { libc::bind(self.as_raw_fd(), (&raw const name).cast(), length) } == 0 {
            Ok(())
        } else {
            Err(SysError::last(format!("bind to interface {index}"), ": bring it up (ip link set IFACE up)"))
        }
    }

    /// What a socket of [`Layer::Frames`] has seen since the last call (PACKET_STATISTICS).
    ///
    /// # Errors
    /// For sockets of other layers.
    pub fn frame_count(&self) -> Result<FrameCount, SysError> {
        debug_assert_eq!(self.layer(), Layer::Frames, "other sockets have no such counters");
        let mut stats = [0_u32; 2];
        let mut length = size_of_val(&stats) as libc::socklen_t;
        let (place, room) = (stats.as_mut_ptr().cast(), &raw mut length);
        // SAFETY: both are live and the length is that of the array.
        let answer =
            unsafe { libc::getsockopt(self.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, place, room) };
        if answer == 0 {
            Ok(FrameCount { frames: stats[0], drops: stats[1] })
        } else {
            Err(SysError::last("getsockopt(PACKET_STATISTICS)", ""))
        }
    }
}

/// `linux/if_packet.h`.
const PACKET_IGNORE_OUTGOING: i32 = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_the_kernel_writes_it() {
        let mut bytes = [0_u8; FRAME_HEADER_BYTE];
        (bytes[0], bytes[1]) = (1, 0x81);
        bytes[2..4].copy_from_slice(&66_u16.to_ne_bytes());
        bytes[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let wanted = FrameHeader {
            checksum: Some((34, 16)),
            cut: Cut::Tcp4,
            header_byte: 66,
            segment_byte: 1448,
            congestion: true,
        };
        assert_eq!(FrameHeader::read(&bytes), wanted);
        assert_eq!(wanted.write(), bytes);
        bytes[1] = 7;
        assert_eq!(FrameHeader::read(&bytes).cut, Cut::Other(7));
    }

    #[test]
    fn what_is_written_for_one_packet_reads_the_same() {
        for checksum in [None, Some((34, 6))] {
            let read = FrameHeader::read(&FrameHeader::write_single(checksum));
            assert_eq!(read, FrameHeader { checksum, ..FrameHeader::PLAIN });
        }
    }

    #[test]
    fn no_interface_has_an_impossible_name() {
        assert_eq!(interface_index("no such interface"), None);
        assert_eq!(interface_index("a\0b"), None);
        assert!(interface_index("lo").is_some());
    }
}
