use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use vtare_units::{Monotonic, Timestamp};

use crate::SysError;

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// UDP datagrams.
    Udp,
    /// ICMP echo without privilege: the kernel sets identifier and checksum and gives this socket its own replies only.
    Ping,
    /// ICMP with CAP_NET_RAW: arrivals come with their IPv4 header, and those of other programs come too.
    RawIcmp,
    /// Whole frames of one interface: [`Socket::frames`] opens it, and [`Socket::open`] refuses it.
    Frames,
}

/// A socket for probes, closed when dropped. Sends and receives through [`super::SendBatch`] and
/// [`super::ReceiveBatch`].
#[derive(Debug)]
pub struct Socket {
    // The standard library's type for any datagram socket: binding, connecting and closing are safe there.
    inner: UdpSocket,
    layer: Layer,
    ipv6: bool,
}

impl Socket {
    /// A socket of `layer`, for addresses like `peer`.
    ///
    /// # Errors
    /// Where the kernel refuses: [`Layer::Ping`] outside of `ping_group_range`, [`Layer::RawIcmp`] without CAP_NET_RAW.
    pub fn open(layer: Layer, peer: SocketAddr) -> Result<Self, SysError> {
        let ipv6 = peer.is_ipv6();
        let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
        let icmp = if ipv6 { libc::IPPROTO_ICMPV6 } else { libc::IPPROTO_ICMP };
        let (kind, protocol, remedy) = match layer {
            Layer::Udp => (libc::SOCK_DGRAM, libc::IPPROTO_UDP, ""),
            Layer::Ping => (libc::SOCK_DGRAM, icmp, ": put this group into net.ipv4.ping_group_range, or run as root"),
            Layer::RawIcmp => (libc::SOCK_RAW, icmp, ": run as root or with CAP_NET_RAW"),
            Layer::Frames => {
                let source = io::Error::from_raw_os_error(libc::EINVAL);
                return Err(SysError::Call {
                    call: "socket(Frames)".to_owned(),
                    source,
                    remedy: ": belongs to an interface",
                });
            }
        };
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) };
        if fd < 0 {
            return Err(SysError::last(format!("socket({layer:?})"), remedy));
        }
        // SAFETY: the descriptor was opened above and nobody else has it.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { inner: UdpSocket::from(owned), layer, ipv6 })
    }

    pub(super) fn of_frames(fd: OwnedFd) -> Self {
        Self { inner: UdpSocket::from(fd), layer: Layer::Frames, ipv6: false }
    }

    /// What it carries.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// Whether it speaks IPv6.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// Gives it a local address. Port 0 lets the kernel choose.
    ///
    /// # Errors
    /// Where the address is not of this host, or the port is taken or privileged.
    pub fn bind(&self, address: SocketAddr) -> Result<(), SysError> {
        self.named(address, libc::bind, "bind")
    }

    /// Sends to this address only, and receives from it only.
    ///
    /// # Errors
    /// Where there is no route.
    pub fn connect(&self, address: SocketAddr) -> Result<(), SysError> {
        self.named(address, libc::connect, "connect")
    }

    fn named(
        &self,
        address: SocketAddr,
        call: unsafe extern "C" fn(libc::c_int, *const libc::sockaddr, libc::socklen_t) -> libc::c_int,
        name: &str,
    ) -> Result<(), SysError> {
        // SAFETY: all-zero is a valid address of no family.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let length = super::address::write_name(&mut storage, address);
        // SAFETY: the storage is live and holds an address of this length.
        if unsafe { call(self.as_raw_fd(), (&raw const storage).cast(), length) } == 0 {
            Ok(())
        } else {
            Err(SysError::last(format!("{name} to {address}"), ""))
        }
    }

    /// The local address.
    ///
    /// # Errors
    /// Where the kernel refuses the query.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Takes the pending error of the socket, as ECONNREFUSED after an ICMP "port unreachable".
    ///
    /// # Errors
    /// Where the kernel refuses the query.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Lets [`super::ReceiveBatch::receive_waiting`] wait, for so long at most. All other calls go on without waiting.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn may_wait(&self, most: std::time::Duration) -> io::Result<()> {
        self.inner.set_read_timeout(Some(most))?;
        self.inner.set_nonblocking(false)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Something can be read, or an error is pending.
    Ready,
    /// The time passed, or a signal came.
    Over,
}

/// Sleeps in the kernel until `socket` can be read, or until `until`, whichever comes first (`ppoll`).
///
/// # Errors
/// Where the kernel refuses.
pub fn wait_readable(
    socket: &impl AsRawFd,
    now: Timestamp<Monotonic>,
    until: Timestamp<Monotonic>,
) -> Result<Waited, SysError> {
    wait_any_readable([socket], now, until)
}

/// As [`wait_readable`], for the first of several sockets.
///
/// # Errors
/// Where the kernel refuses.
pub fn wait_any_readable<const N: usize>(
    sockets: [&impl AsRawFd; N],
    now: Timestamp<Monotonic>,
    until: Timestamp<Monotonic>,
) -> Result<Waited, SysError> {
    let left = until.as_nanos().saturating_sub(now.as_nanos());
    let timeout = libc::timespec {
        tv_sec: (left / 1_000_000_000) as libc::time_t,
        tv_nsec: (left % 1_000_000_000) as libc::c_long,
    };
    let mut wanted = sockets.map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let (list, count) = (wanted.as_mut_ptr(), N as libc::nfds_t);
    // SAFETY: as many live pollfds as stated, and a live timespec; no signal mask.
    match unsafe { libc::ppoll(list, count, &raw const timeout, std::ptr::null()) } {
        0 => Ok(Waited::Over),
        1.. => Ok(Waited::Ready),
        _ => match SysError::last("ppoll", "") {
            error if error.errno() == Some(libc::EINTR) => Ok(Waited::Over),
            error => Err(error),
        },
    }
}
