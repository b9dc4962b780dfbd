//! Ancillary data of datagrams (`cmsg(3)`), as plain bytes: no pointers, so no `unsafe`, and a parser that any bytes
//! can be given to.

use std::net::IpAddr;

use libc::{c_int, cmsghdr, sock_extended_err, timespec};

/// Room for everything that is asked of the kernel for one datagram.
pub const RECEIVE_BYTE: usize = 256;
/// Room for all control messages to the kernel with one datagram.
pub const SEND_BYTE: usize = 184;

const HEADER: usize = align(size_of::<cmsghdr>());
/// Linux 6.13 and later; `asm-generic/socket.h`. SPARC and PA-RISC have other numbers and are refused by the kernel.
const SCM_TS_OPT_ID: c_int = 81;
/// `linux/errqueue.h`.
const SO_EE_ORIGIN_TXTIME: u8 = 6;
const SO_EE_CODE_TXTIME_MISSED: u8 = 2;

const fn align(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

/// Control messages to the kernel with one datagram. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendControl {
    /// Cut the data into datagrams of this size (UDP_SEGMENT); the last may be shorter.
    pub segment_byte: Option<u16>,
    /// Stamp the departure of this datagram.
    pub stamp: Option<StampRequest>,
    /// Let it go at this time, in ns of the clock that [`super::Socket::launch_times`] named.
    pub launch_ns: Option<u64>,
    /// Send it from this address of this host (IP_PKTINFO, IPV6_PKTINFO). Of the socket's family; a socket for both
    /// takes IPv4 ones in IPv6's form.
    pub source: Option<IpAddr>,
    /// DSCP and ECN of its header, as the byte of IPv4's TOS (IP_TOS, IPV6_TCLASS).
    pub class: Option<u8>,
}

/// A wish for the stamp of one departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampRequest {
    /// By the network card, too.
    pub hardware: bool,
    /// The key under which the stamp comes back; `None` leaves it to the kernel, which counts from 0. Linux 6.13 and
    /// later.
    pub key: Option<u32>,
}

impl SendControl {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes it in the kernel's form and gives the bytes used.
    pub(super) fn write(&self, into: &mut Room) -> usize {
        let mut writer = Writer { bytes: &mut into.0, used: 0 };
        if let Some(segment) = self.segment_byte {
            writer.put(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        if let Some(stamp) = self.stamp {
            let hardware = if stamp.hardware { libc::SOF_TIMESTAMPING_TX_HARDWARE } else { 0 };
            let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE | hardware;
            writer.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags.to_ne_bytes());
            if let Some(key) = stamp.key {
                writer.put(libc::SOL_SOCKET, SCM_TS_OPT_ID, &key.to_ne_bytes());
            }
        }
        if let Some(launch) = self.launch_ns {
            writer.put(libc::SOL_SOCKET, libc::SCM_TXTIME, &launch.to_ne_bytes());
        }
        // The interface is left to the routing table; `struct in_pktinfo` begins with it, `struct in6_pktinfo` ends
        // with it.
        match self.source {
            Some(IpAddr::V4(source)) => {
                let mut info = [0; size_of::<libc::in_pktinfo>()];
                let at = core::mem::offset_of!(libc::in_pktinfo, ipi_spec_dst);
                info[at..at + 4].copy_from_slice(&source.octets());
                writer.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(source)) => {
                let mut info = [0; size_of::<libc::in6_pktinfo>()];
                info[..16].copy_from_slice(&source.octets());
                writer.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(class) = self.class {
            // A socket reads that of the packet's family, and passes over the other.
            for (level, kind) in [(libc::IPPROTO_IP, libc::IP_TOS), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)] {
                writer.put(level, kind, &c_int::from(class).to_ne_bytes());
            }
        }
        writer.used
    }
}

/// Bytes aligned as the kernel wants control data.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Room<const N: usize = SEND_BYTE>(pub(super) [u8; N]);

impl<const N: usize> Room<N> {
    /// All zero.
    pub(super) const EMPTY: Self = Self([0; N]);
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl Writer<'_> {
    fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let (at, length) = (self.used, HEADER + data.len());
        let end = at + align(length);
        let room = self.bytes.get_mut(at..end).expect("SEND_BYTE has room for one of each");
        room.fill(0);
        room[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
        room[LEVEL_AT..LEVEL_AT + 4].copy_from_slice(&level.to_ne_bytes());
        room[LEVEL_AT + 4..LEVEL_AT + 8].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..length].copy_from_slice(data);
        self.used = end;
    }
}

/// The kernel's `cmsghdr` begins with a length as wide as a pointer, on every C library.
const LEVEL_AT: usize = size_of::<usize>();

/// Control messages from the kernel with one datagram, or with one entry of the error queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveControl {
    /// Stamp of the kernel, ns since 1970 on CLOCK_REALTIME.
    pub software_ns: Option<u64>,
    /// Stamp of the network card, ns on its own clock.
    pub hardware_ns: Option<u64>,
    /// The datagram is several of this size, the last may be shorter (UDP_GRO).
    pub segment_byte: Option<u16>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// DSCP and ECN, as the byte of IPv4's TOS.
    pub class: Option<u8>,
    /// The address of this host that it was sent to (IP_PKTINFO, IPV6_PKTINFO), in the form of the socket's family.
    pub local: Option<IpAddr>,
    /// The VLAN tag that the kernel took out of the frame: its EtherType and its contents ([`super::Layer::Frames`]).
    pub vlan: Option<(u16, u16)>,
    /// Why there is an entry in the error queue.
    pub error: Option<QueuedError>,
}

/// An entry of the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedError {
    /// The stamp of a departure, with its key.
    Departure {
        /// The key that was given, or the kernel's count.
        key: u32,
    },
    /// The queue discipline dropped a datagram for its launch time.
    Launch {
        /// The time asked for, in ns of the clock of launch times.
        launch_ns: u64,
        /// Whether that time had passed before it could be sent; else there was something wrong with the time itself.
        missed: bool,
    },
    /// Something on this host or on the way refused a datagram.
    Refused {
        /// The error number, as ECONNREFUSED or EMSGSIZE.
        errno: i32,
        /// For EMSGSIZE: the path's MTU.
        info: u32,
        /// Whether this host refused it, not the path.
        local: bool,
    },
}

impl ReceiveControl {
    /// Reads control data. Unknown and cut entries are passed over.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut found = Self::default();
        while let Some(length) = number(bytes, 0).map(usize::from_ne_bytes) {
            let (Some(level), Some(kind)) = (number(bytes, LEVEL_AT), number(bytes, LEVEL_AT + 4)) else { break };
            let Some(data) = bytes.get(HEADER..length) else { break };
            found.take(c_int::from_ne_bytes(level), c_int::from_ne_bytes(kind), data);
            bytes = bytes.get(align(length)..).unwrap_or_default();
        }
        found
    }

    fn take(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                self.software_ns = time_at(data, 0);
                // The second of the three has been empty since Linux 3.5.
                self.hardware_ns = time_at(data, 2);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let segment = number(data, 0).map(c_int::from_ne_bytes);
                self.segment_byte = segment.and_then(|size| u16::try_from(size).ok()).filter(|size| *size > 0);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = number(data, 0).map(c_int::from_ne_bytes).and_then(|ttl| u8::try_from(ttl).ok());
            }
            // One byte of IPv4, a number of IPv6.
            (libc::IPPROTO_IP, libc::IP_TOS) => self.class = data.first().copied(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.class = number(data, 0).map(c_int::from_ne_bytes).and_then(|class| u8::try_from(class).ok());
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: Option<[u8; 4]> = number(data, core::mem::offset_of!(libc::in_pktinfo, ipi_spec_dst));
                self.local = octets.map(IpAddr::from);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: Option<[u8; 16]> = number(data, 0);
                self.local = octets.map(IpAddr::from);
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => self.vlan = vlan_of(data),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                self.error = queued(data)
            }
            _ => {}
        }
    }
}

/// Reads `struct tpacket_auxdata`.
fn vlan_of(data: &[u8]) -> Option<(u16, u16)> {
    use core::mem::offset_of;
    let status = number(data, offset_of!(libc::tpacket_auxdata, tp_status)).map(u32::from_ne_bytes)?;
    let tag = number(data, offset_of!(libc::tpacket_auxdata, tp_vlan_tci)).map(u16::from_ne_bytes)?;
    // Before Linux 3.14 the place of the EtherType was padding.
    let kind = number(data, offset_of!(libc::tpacket_auxdata, tp_vlan_tpid)).map(u16::from_ne_bytes);
    let kind = kind.filter(|_| status & libc::TP_STATUS_VLAN_TPID_VALID != 0).unwrap_or(libc::ETH_P_8021Q as u16);
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((kind, tag))
}

fn queued(data: &[u8]) -> Option<QueuedError> {
    use core::mem::offset_of;
    let word = |at| number(data, at).map(u32::from_ne_bytes);
    let errno = word(offset_of!(sock_extended_err, ee_errno))?.cast_signed();
    let info = word(offset_of!(sock_extended_err, ee_info))?;
    let word_after = word(offset_of!(sock_extended_err, ee_data))?;
    match *data.get(offset_of!(sock_extended_err, ee_origin))? {
        libc::SO_EE_ORIGIN_TIMESTAMPING => Some(QueuedError::Departure { key: word_after }),
        SO_EE_ORIGIN_TXTIME => Some(QueuedError::Launch {
            launch_ns: u64::from(word_after) << 32 | u64::from(info),
            missed: *data.get(offset_of!(sock_extended_err, ee_code))? == SO_EE_CODE_TXTIME_MISSED,
        }),
        origin => Some(QueuedError::Refused { errno, info, local: origin == libc::SO_EE_ORIGIN_LOCAL }),
    }
}

/// Entry `index` of `struct scm_timestamping`, in ns; an entry of zeros means that there is none.
fn time_at(data: &[u8], index: usize) -> Option<u64> {
    let at = index * size_of::<timespec>();
    let seconds = i64::from_ne_bytes(number(data, at)?);
    let nanos = i64::from_ne_bytes(number(data, at + 8)?);
    let whole = u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(nanos).ok()?)?;
    (whole > 0).then_some(whole)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
