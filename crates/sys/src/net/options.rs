//! Options of a socket. Each call reports whether the option is set; nothing is replaced in silence.

use std::os::fd::AsRawFd;

use vtare_units::Span;

use super::{Layer, Socket};
use crate::SysError;

/// What SO_TIMESTAMPING shall give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampFlags {
    /// The kernel stamps arrivals.
    pub receive_software: bool,
    /// The network card stamps arrivals.
    pub receive_hardware: bool,
    /// Departures may be stamped: [`super::control::SendControl::stamp`] selects which ones.
    pub departures: bool,
}

/// The clock that launch times are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchClock {
    /// CLOCK_MONOTONIC, as `fq` wants.
    Monotonic,
    /// CLOCK_TAI, as `etf` wants.
    Tai,
}

impl LaunchClock {
    /// The clock with the kernel's number `id`, where launch times can be on it.
    #[must_use]
    pub const fn of(id: i32) -> Option<Self> {
        match id {
            libc::CLOCK_MONOTONIC => Some(Self::Monotonic),
            libc::CLOCK_TAI => Some(Self::Tai),
            _ => None,
        }
    }

    /// The kernel's number of the clock.
    #[must_use]
    pub const fn id(self) -> i32 {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Tai => libc::CLOCK_TAI,
        }
    }
}

/// What becomes of datagrams that are larger than the path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtu {
    /// They are refused (EMSGSIZE), here or by a router.
    Refuse,
    /// They are cut into fragments.
    Fragment,
    /// They are cut into fragments where they are larger than the interface's MTU, whatever ICMP messages report of the
    /// path: those can be forged by anybody.
    FragmentAtInterface,
}

const fn filter_of(kinds: &[u8]) -> u32 {
    let (mut blocked, mut at) = (u32::MAX, 0);
    while at < kinds.len() {
        blocked &= !(1 << kinds[at]);
        at += 1;
    }
    blocked
}

impl Socket {
    pub(super) fn set<T: Copy>(
        &self,
        level: i32,
        option: i32,
        value: T,
        call: &str,
        remedy: &'static str,
    ) -> Result<(), SysError> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: `value` is live and of the length given.
        let answer = unsafe { libc::setsockopt(self.as_raw_fd(), level, option, (&raw const value).cast(), length) };
        if answer == 0 { Ok(()) } else { Err(SysError::last(call, remedy)) }
    }

    /// As [`Socket::set`], of an option that a sandbox takes without a word and does not have: it is read back.
    fn set_for_real(
        &self,
        level: i32,
        option: i32,
        value: i32,
        call: &str,
        remedy: &'static str,
    ) -> Result<(), SysError> {
        self.set(level, option, value, call, remedy)?;
        self.get(level, option, &format!("{call}: taken without effect, getsockopt")).map(drop)
    }

    fn get(&self, level: i32, option: i32, call: &str) -> Result<i32, SysError> {
        let (mut value, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
        let (place, room) = ((&raw mut value).cast(), &raw mut length);
        // SAFETY: both are live and the length is that of the value.
        let answer = unsafe { libc::getsockopt(self.as_raw_fd(), level, option, place, room) };
        if answer == 0 { Ok(value) } else { Err(SysError::last(call, "")) }
    }

    /// Asks for stamps (SO_TIMESTAMPING). Keys of departures count anew from 0.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn stamp(&self, flags: StampFlags) -> Result<(), SysError> {
        let mut bits = 0;
        if flags.receive_software {
            bits |= libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        }
        if flags.receive_hardware {
            bits |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        }
        if flags.departures {
            // TSONLY: the stamp comes back without a copy of the packet.
            bits |= libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE
                | libc::SOF_TIMESTAMPING_OPT_ID
                | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        }
        // The kernel sets its count to 0 where the flag is new.
        let call = format!("setsockopt(SO_TIMESTAMPING, {bits:#x})");
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, bits & !libc::SOF_TIMESTAMPING_OPT_ID, &call, "")?;
        self.set_for_real(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, bits.cast_signed(), &call, "")
    }

    /// Datagrams that this socket has dropped so far, whether or not one arrived since (SO_MEMINFO).
    ///
    /// # Errors
    /// Before Linux 4.12.
    pub fn drops(&self) -> Result<u32, SysError> {
        /// `linux/sock_diag.h`: the place of the drops in what SO_MEMINFO gives.
        const SK_MEMINFO_DROPS: usize = 8;
        let mut values = [0_u32; 9];
        let mut length = size_of_val(&values) as libc::socklen_t;
        let (place, room) = (values.as_mut_ptr().cast(), &raw mut length);
        // SAFETY: both are live and the length is that of the array.
        let answer = unsafe { libc::getsockopt(self.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, place, room) };
        if answer == 0 && length as usize >= size_of_val(&values) {
            Ok(values[SK_MEMINFO_DROPS])
        } else {
            Err(SysError::last("getsockopt(SO_MEMINFO)", ": needs Linux 4.12 or later"))
        }
    }

    /// Asks for buffers of `byte` bytes in each direction, past the system's limit where privilege allows; gives what
    /// was obtained, `(receive, send)`. The kernel counts its own overhead in: a datagram of 64 B takes about 800
    /// B.
    ///
    /// # Errors
    /// Where the kernel refuses the query.
    pub fn set_buffers(&self, byte: i32) -> Result<(i32, i32), SysError> {
        for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            if self.set(libc::SOL_SOCKET, force, byte, "", "").is_err() {
                // Without privilege the kernel gives what its limit allows; what that is, is asked below.
                let _limited = self.set(libc::SOL_SOCKET, plain, byte, "", "");
            }
        }
        // The kernel doubles what it was asked for.
        let receive = self.get(libc::SOL_SOCKET, libc::SO_RCVBUF, "getsockopt(SO_RCVBUF)")? / 2;
        let send = self.get(libc::SOL_SOCKET, libc::SO_SNDBUF, "getsockopt(SO_SNDBUF)")? / 2;
        Ok((receive, send))
    }

    /// Has the kernel poll the network card's queue for up to `span` when this socket is read (SO_BUSY_POLL).
    ///
    /// # Errors
    /// Above the system's own value without CAP_NET_ADMIN.
    pub fn busy_poll(&self, span: Span) -> Result<(), SysError> {
        let micros = i32::try_from(span.as_nanos_unsigned().div_ceil(1_000)).unwrap_or(i32::MAX);
        let remedy = ": needs CAP_NET_ADMIN, or net.core.busy_read of at least this";
        self.set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros, "setsockopt(SO_BUSY_POLL)", remedy)
    }

    /// Lets datagrams carry the time at which they shall go (SO_TXTIME), with a report in the error queue of each that
    /// the queue discipline drops for its time. The kernel takes this whatever the interface's queue discipline is;
    /// whether that keeps the times is another question: [`super::queue`].
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn launch_times(&self, clock: LaunchClock) -> Result<(), SysError> {
        let value = libc::sock_txtime { clockid: clock.id(), flags: libc::SOF_TXTIME_REPORT_ERRORS };
        let remedy = ": needs Linux 4.19 or later, and CAP_NET_ADMIN for other clocks than CLOCK_MONOTONIC";
        self.set(libc::SOL_SOCKET, libc::SO_TXTIME, value, "setsockopt(SO_TXTIME)", remedy)
    }

    /// Whether the kernel cuts large sends into datagrams (UDP_SEGMENT).
    ///
    /// # Errors
    /// Before Linux 4.18, and on sockets other than UDP.
    pub fn probe_segmentation(&self) -> Result<(), SysError> {
        let remedy = ": needs Linux 4.18 or later";
        self.set_for_real(libc::SOL_UDP, libc::UDP_SEGMENT, 0, "setsockopt(UDP_SEGMENT)", remedy)
    }

    /// Lets arrivals come several at once as one large datagram (UDP_GRO).
    ///
    /// # Errors
    /// Before Linux 5.0, and on sockets other than UDP.
    pub fn merge_arrivals(&self) -> Result<(), SysError> {
        self.set(libc::SOL_UDP, libc::UDP_GRO, 1_i32, "setsockopt(UDP_GRO)", ": needs Linux 5.0 or later")
    }

    /// Has arrivals come one by one again. What was merged and not read yet still comes merged.
    ///
    /// # Errors
    /// As [`Socket::merge_arrivals`].
    pub fn separate_arrivals(&self) -> Result<(), SysError> {
        self.set(libc::SOL_UDP, libc::UDP_GRO, 0_i32, "setsockopt(UDP_GRO)", ": needs Linux 5.0 or later")
    }

    /// Has the kernel report the TTL or hop limit of arrivals.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn report_ttl(&self) -> Result<(), SysError> {
        let (level, option) = match self.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
            false => (libc::IPPROTO_IP, libc::IP_RECVTTL),
        };
        self.set(level, option, 1_i32, "setsockopt(IP_RECVTTL)", "")
    }

    /// Has the kernel report DSCP and ECN of arrivals; of those of either family where the socket takes both.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn report_class(&self) -> Result<(), SysError> {
        if self.is_ipv6() {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1_i32, "setsockopt(IPV6_RECVTCLASS)", "")?;
        }
        self.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1_i32, "setsockopt(IP_RECVTOS)", "")
    }

    /// Gives all that is sent this DSCP and ECN, as the byte of IPv4's TOS.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn set_class(&self, class: u8) -> Result<(), SysError> {
        if self.is_ipv6() {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, i32::from(class), "setsockopt(IPV6_TCLASS)", "")?;
        }
        self.set(libc::IPPROTO_IP, libc::IP_TOS, i32::from(class), "setsockopt(IP_TOS)", "")
    }

    /// Has the kernel report to which address of this host arrivals were sent, and lets
    /// [`super::control::SendControl::source`] choose one.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn report_local(&self) -> Result<(), SysError> {
        let (level, option) = match self.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        };
        self.set(level, option, 1_i32, "setsockopt(IP_PKTINFO)", "")
    }

    /// Sets what becomes of datagrams that are too large.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn path_mtu(&self, rule: PathMtu) -> Result<(), SysError> {
        // The values are the same for both families.
        let value = match rule {
            PathMtu::Refuse => libc::IP_PMTUDISC_DO,
            PathMtu::Fragment => libc::IP_PMTUDISC_DONT,
            PathMtu::FragmentAtInterface => libc::IP_PMTUDISC_OMIT,
        };
        if self.is_ipv6() {
            let remedy = ": values up to 5 need Linux 3.15 or later";
            self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, value, "setsockopt(IPV6_MTU_DISCOVER)", remedy)?;
        }
        // A socket for both families has both.
        self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value, "setsockopt(IP_MTU_DISCOVER)", "")
    }

    /// The rule that [`Socket::path_mtu`] set, as the kernel has it: for IPv4, and for IPv6 where the socket has it.
    ///
    /// # Errors
    /// Where the kernel refuses.
    #[cfg(test)]
    pub(super) fn path_mtu_rules(&self) -> Result<(i32, Option<i32>), SysError> {
        let ipv4 = self.get(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, "getsockopt(IP_MTU_DISCOVER)")?;
        let ipv6 = || self.get(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, "getsockopt(IPV6_MTU_DISCOVER)");
        Ok((ipv4, self.is_ipv6().then(ipv6).transpose()?))
    }

    /// The MTU of the path as this host knows it, in bytes from the IP header on. The socket must be connected.
    ///
    /// # Errors
    /// Where the socket is not connected.
    pub fn mtu(&self) -> Result<i32, SysError> {
        let (level, option) = match self.is_ipv6() {
            true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
            false => (libc::IPPROTO_IP, libc::IP_MTU),
        };
        self.get(level, option, "getsockopt(IP_MTU)")
    }

    /// Of all ICMP messages, lets in those of these kinds only. For [`Layer::RawIcmp`].
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn only_icmp(&self, kinds: &[u8]) -> Result<(), SysError> {
        debug_assert_eq!(self.layer(), Layer::RawIcmp, "other sockets have no such filter");
        /// `linux/icmp.h`: a set bit blocks the kind.
        const ICMP_FILTER: i32 = 1;
        /// `linux/icmpv6.h`: likewise, eight words.
        const ICMPV6_FILTER: i32 = 1;
        if self.is_ipv6() {
            let mut blocked = [u32::MAX; 8];
            for &kind in kinds {
                blocked[usize::from(kind >> 5)] &= !(1 << (kind & 31));
            }
            self.set(libc::IPPROTO_ICMPV6, ICMPV6_FILTER, blocked, "setsockopt(ICMPV6_FILTER)", "")
        } else {
            self.set(libc::SOL_RAW, ICMP_FILTER, filter_of(kinds), "setsockopt(ICMP_FILTER)", "")
        }
    }
}
