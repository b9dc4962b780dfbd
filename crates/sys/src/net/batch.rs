//! Many datagrams in one call.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use super::Socket;
use super::address::write_name;
use super::control::{RECEIVE_BYTE, ReceiveControl, Room, SendControl};

/// One datagram to send, or several in one with [`SendControl::segment_byte`].
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its bytes, in pieces.
    pub parts: &'a [IoSlice<'a>],
    /// Where to; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// Control messages for the kernel.
    pub control: SendControl,
}

/// Sends datagrams with `sendmmsg`. Keeps its memory between calls.
#[derive(Debug)]
pub struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    controls: Vec<Room>,
    names: Vec<libc::sockaddr_storage>,
}

impl SendBatch {
    /// Room for `most` messages a call.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { headers: Vec::with_capacity(most), controls: vec![Room::EMPTY; most], names: vec![empty_name(); most] }
    }

    /// Messages that one call takes at most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.controls.len()
    }

    /// Sends the first [`SendBatch::most`] of `messages` in their order without waiting, and gives how many the kernel
    /// took.
    ///
    /// # Errors
    /// Where it took none: `WouldBlock` and ENOBUFS where it has no room.
    pub fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> io::Result<usize> {
        self.headers.clear();
        for ((message, control), name) in messages.iter().zip(&mut self.controls).zip(&mut self.names) {
            // SAFETY: all-zero is a valid, empty message header.
            let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            // `IoSlice` has the layout of `iovec`; the kernel only reads through the pointer.
            header.msg_hdr.msg_iov = message.parts.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_iovlen = message.parts.len() as _;
            if !message.control.is_empty() {
                header.msg_hdr.msg_controllen = message.control.write(control) as _;
                header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            }
            if let Some(to) = message.to {
                header.msg_hdr.msg_namelen = write_name(name, to);
                header.msg_hdr.msg_name = (&raw mut *name).cast();
            }
            self.headers.push(header);
        }
        let (fd, count) = (socket.as_raw_fd(), self.headers.len() as libc::c_uint);
        // SAFETY: every pointer in the headers is into `messages`, `controls` or `names`, which live and stay put
        // during the call.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

// SAFETY: the pointers in `headers` are written anew at each call and never used after it.
unsafe impl Send for SendBatch {}

/// Receives datagrams with `recvmmsg`, from the socket or from its error queue. Keeps its memory between calls.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    slot_byte: usize,
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<Room<RECEIVE_BYTE>>,
    names: Vec<libc::sockaddr_storage>,
    /// The headers point at the memory above.
    aimed: bool,
    /// Headers, from the first, that the kernel may have written to.
    filled: usize,
    /// The kernel knows no MSG_WAITFORONE (gVisor).
    one_at_a_time: bool,
}

// SAFETY: the pointers in `headers` and `vectors` are into memory that this batch owns alone, that never moves, and
// that goes with it.
unsafe impl Send for ReceiveBatch {}

/// One datagram that was received.
#[derive(Debug)]
pub struct Received<'a> {
    /// Its bytes, as many as fit.
    pub bytes: &'a mut [u8],
    /// Whether it was longer.
    pub cut: bool,
    /// Who sent it, where the kernel reports it.
    pub from: Option<SocketAddr>,
    /// Control messages from the kernel.
    pub control: ReceiveControl,
}

impl ReceiveBatch {
    /// Room for `slots` datagrams of up to `slot_byte` bytes. All of it is touched now: a page fault later would be
    /// measured.
    #[must_use]
    pub fn new(slots: usize, slot_byte: usize) -> Self {
        // Not `vec![0; n]`, which maps pages of zeros without touching them.
        let mut bytes = vec![1; slots * slot_byte];
        bytes.fill(0);
        // SAFETY: all-zero is a valid, empty message header.
        let header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        Self {
            bytes,
            slot_byte,
            headers: vec![header; slots],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; slots],
            controls: vec![Room::EMPTY; slots],
            names: vec![empty_name(); slots],
            aimed: false,
            filled: 0,
            one_at_a_time: false,
        }
    }

    /// Datagrams that one call takes at most.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.headers.len()
    }

    /// Receives up to `most` datagrams without waiting, and gives how many there were; 0 where there are none.
    ///
    /// # Errors
    /// The kernel's error: pending errors of the socket too, as ECONNREFUSED.
    #[inline]
    pub fn receive(&mut self, socket: &Socket, most: usize) -> io::Result<usize> {
        self.call(socket, most, libc::MSG_DONTWAIT)
    }

    /// As [`ReceiveBatch::receive`], but sleeps in the kernel until there is one, on a socket that may wait
    /// ([`Socket::may_wait`]). Gives 0 when the socket's time is over or a signal came.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive_waiting(&mut self, socket: &Socket, most: usize) -> io::Result<usize> {
        let answer = match self.one_at_a_time {
            false => self.call(socket, most, libc::MSG_WAITFORONE),
            true => self.call(socket, most.min(1), 0),
        };
        match answer {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !self.one_at_a_time => {
                self.one_at_a_time = true;
                self.receive_waiting(socket, most)
            }
            answer => answer,
        }
    }

    /// As [`ReceiveBatch::receive`], from the error queue: stamps of departures and refusals.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive_errors(&mut self, socket: &Socket, most: usize) -> io::Result<usize> {
        self.call(socket, most, libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE)
    }

    #[inline]
    fn call(&mut self, socket: &Socket, most: usize, flags: libc::c_int) -> io::Result<usize> {
        let most = most.min(self.headers.len());
        if !self.aimed {
            self.aim();
        }
        // The kernel wrote to those that it filled, and to no other.
        for header in &mut self.headers[..self.filled] {
            let header = &mut header.msg_hdr;
            header.msg_controllen = RECEIVE_BYTE as _;
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
            header.msg_flags = 0;
        }
        let (fd, headers) = (socket.as_raw_fd(), self.headers.as_mut_ptr());
        // SAFETY: the pointers of the first `most` headers are into this batch's own memory, which stays put during the
        // call.
        let got = unsafe { libc::recvmmsg(fd, headers, most as libc::c_uint, flags as _, std::ptr::null_mut()) };
        let got = usize::try_from(got);
        // Also the one at which it failed, for safety's sake.
        self.filled = (got.unwrap_or(0) + 1).min(self.headers.len());
        got.or_else(|_| {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
        })
    }

    /// Has the headers point at this batch's memory, which stays where it is as long as the batch lives.
    #[cold]
    fn aim(&mut self) {
        let slots = self.bytes.chunks_exact_mut(self.slot_byte).zip(&mut self.controls).zip(&mut self.names);
        for ((header, vector), ((bytes, control), name)) in self.headers.iter_mut().zip(&mut self.vectors).zip(slots) {
            vector.iov_base = bytes.as_mut_ptr().cast();
            vector.iov_len = bytes.len();
            let header = &mut header.msg_hdr;
            header.msg_iov = &raw mut *vector;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_name = (&raw mut *name).cast();
        }
        (self.aimed, self.filled) = (true, self.headers.len());
    }

    /// Datagram `index` of the last call; valid for indexes below what that call gave.
    #[inline]
    pub fn get(&mut self, index: usize) -> Option<Received<'_>> {
        let header = self.headers.get(index)?;
        let length = (header.msg_len as usize).min(self.slot_byte);
        let control = &self.controls[index].0;
        // As wide as a pointer with glibc, 32 bits with musl.
        #[allow(clippy::unnecessary_cast, reason = "the width depends on the C library")]
        let control = ReceiveControl::parse(control.get(..header.msg_hdr.msg_controllen as usize).unwrap_or_default());
        let from = read_name(&self.names[index], header.msg_hdr.msg_namelen);
        let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let bytes = &mut self.bytes[index * self.slot_byte..][..length];
        Some(Received { bytes, cut, from, control })
    }
}

fn empty_name() -> libc::sockaddr_storage {
    // SAFETY: all-zero is a valid address of no family.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Reads an address in the kernel's form; `None` for none and for families other than IP.
pub(super) fn read_name(name: &libc::sockaddr_storage, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    match i32::from(name.ss_family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the storage is aligned for and larger than every address, and any bytes are a valid sockaddr_in.
            let name = unsafe { (&raw const *name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let name = unsafe { (&raw const *name).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id)))
        }
        _ => None,
    }
}
