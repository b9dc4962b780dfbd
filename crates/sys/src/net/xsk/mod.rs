//! An AF_XDP socket: frames of one receive queue of one interface, in memory shared with the kernel.
//!
//! An XDP program gives it what arrives (a map of the kind [`crate::bpf::MapKind::Xsk`] holds its descriptor). Frames
//! are looked for and laid ready without a system call; one call sends all that are ready.
//= Linux Documentation/networking/af_xdp.rst; include/uapi/linux/if_xdp.h

mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::SysError;
use ring::Ring;

/// What the kernel leaves free before each frame that arrives.
const HEADROOM_BYTE: usize = 256;
/// Bytes that a program may lay before a frame for [`Frame::note`].
const NOTE_BYTE: usize = 8;
/// A call sends 32 frames at most; one that sends none for this often leaves the rest for later.
const IDLE_CALLS: usize = 3;

/// How much memory it gets. All three are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XskSize {
    /// Bytes of memory for one frame: 2048 or 4096.
    pub chunk_byte: u32,
    /// Frames that may lie unread.
    pub receive: u32,
    /// Frames that may be on their way out.
    pub send: u32,
}

impl XskSize {
    /// The largest frame that arrives whole.
    #[must_use]
    pub const fn most_byte(&self) -> usize {
        self.chunk_byte as usize - HEADROOM_BYTE
    }
}

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XskMode {
    /// The card reads and writes this process's memory: the driver must know it.
    ZeroCopy,
    /// The kernel copies: works with every driver.
    Copy,
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// From the Ethernet header on.
    pub bytes: &'a [u8],
    /// What the program wrote into the 8 B before the frame, in this machine's byte order; 0 where it wrote nothing.
    pub note: u64,
}

/// What the kernel counted since the socket was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskCounts {
    /// Frames that found no memory, or were too large.
    pub dropped: u64,
    /// Frames that found the receive ring full.
    pub ring_full: u64,
    /// Descriptors of this process that the kernel did not take, of both directions.
    pub invalid: u64,
}

/// The memory for all frames.
#[derive(Debug)]
struct Memory {
    address: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Memory {}

impl Memory {
    fn new(length: usize) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE);
        // SAFETY: a new mapping of its own; the kernel chooses the address and the result is checked.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: address.cast(), length })
    }

    fn at(&self, address: u64) -> *mut u8 {
        assert!(address < self.length as u64);
        // SAFETY: within the mapping.
        unsafe { self.address.add(address as usize) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no borrow outlives the owner, and the kernel holds the pages on its
        // own account.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}

/// The socket with its memory and rings; gone when dropped, or when the process ends.
#[derive(Debug)]
pub struct Xsk {
    // Before the memory: the kernel lets go first.
    fd: OwnedFd,
    arrived: Ring<libc::xdp_desc>,
    /// Memory given to the kernel for what arrives.
    offered: Ring<u64>,
    leaving: Ring<libc::xdp_desc>,
    /// Memory of frames that have left.
    left: Ring<u64>,
    memory: Memory,
    /// Addresses of memory for frames to send.
    free: Vec<u64>,
    size: XskSize,
    mode: XskMode,
}

impl Xsk {
    /// Makes a socket for one receive queue of the interface of this number. Arrivals need a program there that gives
    /// them to it.
    ///
    /// # Errors
    /// Where the kernel refuses: without CAP_NET_RAW, for [`XskMode::ZeroCopy`] where the driver does not know it,
    /// where another socket has the queue.
    ///
    /// # Panics
    /// Where a size is no power of two.
    pub fn open(interface: u32, queue: u32, size: XskSize, mode: XskMode) -> Result<Self, SysError> {
        let failed = |call: &str| SysError::last(format!("{call} (AF_XDP)"), "");
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(SysError::last(
                "socket(AF_XDP)",
                ": needs CAP_NET_RAW, and a kernel with CONFIG_XDP_SOCKETS (Linux 4.18)",
            ));
        }
        // SAFETY: the descriptor was opened above and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let chunks = u64::from(size.receive) + u64::from(size.send);
        let length = chunks as usize * size.chunk_byte as usize;
        let memory = Memory::new(length).map_err(|source| SysError::Call {
            call: format!("reserve {length} B of memory for frames"),
            source,
            remedy: "",
        })?;
        // SAFETY: all zero is a valid value.
        let mut area: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (area.addr, area.len, area.chunk_size) = (memory.address as u64, length as u64, size.chunk_byte);
        set(&fd, libc::XDP_UMEM_REG, &area).map_err(|()| failed("share memory"))?;
        for (option, entries) in [
            (libc::XDP_UMEM_FILL_RING, size.receive),
            (libc::XDP_UMEM_COMPLETION_RING, size.send),
            (libc::XDP_RX_RING, size.receive),
            (libc::XDP_TX_RING, size.send),
        ] {
            set(&fd, option, &entries).map_err(|()| failed("make a ring"))?;
        }
        // SAFETY: all zero is a valid value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        get(&fd, libc::XDP_MMAP_OFFSETS, &mut offsets).map_err(|()| failed("find the rings"))?;
        let mapped = |source| SysError::Call { call: "map a ring (AF_XDP)".to_owned(), source, remedy: "" };
        let (receive_at, send_at) = (libc::XDP_PGOFF_RX_RING as usize, libc::XDP_PGOFF_TX_RING as usize);
        let arrived = Ring::map(&fd, &offsets.rx, receive_at, size.receive).map_err(mapped)?;
        let leaving = Ring::map(&fd, &offsets.tx, send_at, size.send).map_err(mapped)?;
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as usize;
        let offered = Ring::map(&fd, &offsets.fr, fill_at, size.receive).map_err(mapped)?;
        let left_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as usize;
        let left = Ring::map(&fd, &offsets.cr, left_at, size.send).map_err(mapped)?;
        let at = |chunk: u64| chunk * u64::from(size.chunk_byte);
        let free = (0..u64::from(size.send)).map(at).collect();
        let mut socket = Self { fd, arrived, offered, leaving, left, memory, free, size, mode };
        (u64::from(size.send)..chunks).for_each(|chunk| socket.offered.put(at(chunk)));
        socket.offered.publish();
        socket.bind(interface, queue)?;
        Ok(socket)
    }

    fn bind(&self, interface: u32, queue: u32) -> Result<(), SysError> {
        let how = match self.mode {
            XskMode::ZeroCopy => libc::XDP_ZEROCOPY,
            XskMode::Copy => libc::XDP_COPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: how | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the address is live, of the family of the socket and of the length given.
        if unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) } == 0 {
            return Ok(());
        }
        let error = SysError::last(format!("bind to queue {queue} of interface {interface} (AF_XDP)"), "");
        let remedy = match error.errno() {
            Some(libc::EBUSY) => ": another AF_XDP socket has this queue",
            Some(libc::EOPNOTSUPP) if self.mode == XskMode::ZeroCopy => ": the driver knows no zero copy",
            _ => "",
        };
        match error {
            SysError::Call { call, source, .. } => Err(SysError::Call { call, source, remedy }),
            other => Err(other),
        }
    }

    /// Who moves the bytes.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
    }

    /// Lays a frame of `length` B ready: `write` gets its bytes, as they were left there. Whether there was room for
    /// it.
    pub fn put(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if self.free.is_empty() {
            for _ in 0..self.left.ready() {
                // Nothing but what was put there comes back; an address is where a frame began.
                let address = self.left.take();
                self.free.push(address);
            }
            self.left.release();
        }
        if length > self.size.chunk_byte as usize || self.leaving.room() == 0 {
            return false;
        }
        let Some(address) = self.free.pop().filter(|address| self.holds(*address, length)) else { return false };
        let place = self.memory.at(address);
        // SAFETY: `length` B lie within the memory, which `holds` checked; the kernel does not touch a chunk that it
        // was not given or has given back.
        write(unsafe { std::slice::from_raw_parts_mut(place, length) });
        self.leaving.put(libc::xdp_desc { addr: address, len: length as u32, options: 0 });
        true
    }

    /// Sends what was laid ready, and gives how many frames the kernel has not taken yet: they leave with the next
    /// call.
    ///
    /// # Errors
    /// Where the interface is down or gone.
    pub fn send(&mut self) -> io::Result<usize> {
        self.leaving.publish();
        let mut waiting = self.leaving.waiting();
        let mut idle = 0;
        // A driver that reads the memory itself goes on alone once it was called.
        while waiting > 0 && idle < IDLE_CALLS && (self.mode == XskMode::Copy || self.leaving.wants_call()) {
            match self.call_sender() {
                Ok(()) => {}
                Err(error) => match error.raw_os_error() {
                    // EBUSY: the interface has dropped one and counted it.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
            let now = self.leaving.waiting();
            idle = if now == waiting { idle + 1 } else { 0 };
            waiting = now;
        }
        Ok(waiting as usize)
    }

    fn call_sender(&self) -> io::Result<()> {
        // SAFETY: no buffer and no address: the rings hold everything.
        let answer =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if answer >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// How many frames have arrived; a look at memory.
    #[inline]
    pub fn ready(&mut self) -> usize {
        self.arrived.ready() as usize
    }

    /// Gives at most `most` frames that have arrived to `sink`, in their order, and their memory back to the kernel;
    /// how many there were.
    pub fn receive(&mut self, most: usize, sink: &mut dyn FnMut(Frame<'_>)) -> usize {
        // Chunks that come out of one ring have left the other: there is always room for them.
        let count = self.ready().min(most).min(self.offered.room() as usize);
        for _ in 0..count {
            let descriptor = self.arrived.take();
            let (address, length) = (descriptor.addr, descriptor.len as usize);
            let in_chunk = address as usize % self.size.chunk_byte as usize;
            if !self.holds(address, length) || in_chunk < NOTE_BYTE {
                continue;
            }
            let note_at = self.memory.at(address - NOTE_BYTE as u64).cast::<u64>();
            // SAFETY: these 8 B are in the same chunk, which the kernel has given to this process; for any alignment.
            let note = unsafe { note_at.read_unaligned() };
            let place = self.memory.at(address);
            // SAFETY: `length` B lie within the memory, which `holds` checked; the kernel does not write to the chunk
            // before it is offered again, after the borrow.
            let bytes = unsafe { std::slice::from_raw_parts(place, length) };
            sink(Frame { bytes, note });
            // SAFETY: as for reading. A frame without a note must not show that of an earlier one.
            unsafe { note_at.write_unaligned(0) };
            self.offered.put(address - in_chunk as u64);
        }
        if count > 0 {
            self.arrived.release();
            self.offered.publish();
            if self.mode == XskMode::ZeroCopy && self.offered.wants_call() {
                // SAFETY: no buffer: it only wakes the driver. A refusal is repeated at the next look.
                unsafe { libc::recv(self.fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
            }
        }
        count
    }

    /// Whether `length` B from `address` on lie within one chunk of the memory.
    fn holds(&self, address: u64, length: usize) -> bool {
        let chunk = self.size.chunk_byte as usize;
        usize::try_from(address).is_ok_and(|address| address < self.memory.length && address % chunk + length <= chunk)
    }

    /// What the kernel counted.
    ///
    /// # Errors
    /// Where the kernel refuses the query.
    pub fn counts(&self) -> Result<XskCounts, SysError> {
        // SAFETY: all zero is a valid value.
        let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get(&self.fd, libc::XDP_STATISTICS, &mut found)
            .map_err(|()| SysError::last("getsockopt(XDP_STATISTICS)", ""))?;
        Ok(XskCounts {
            dropped: found.rx_dropped,
            ring_full: found.rx_ring_full,
            invalid: found.rx_invalid_descs + found.tx_invalid_descs,
        })
    }
}

impl AsRawFd for Xsk {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> Result<(), ()> {
    let length = size_of::<T>() as libc::socklen_t;
    let place = std::ptr::from_ref(value).cast();
    // SAFETY: the value is live and of the length given.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, place, length) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

fn get<T>(fd: &OwnedFd, option: libc::c_int, value: &mut T) -> Result<(), ()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = std::ptr::from_mut(value).cast();
    // SAFETY: the value is live, of the length given, and of numbers only, which any bytes are.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, place, &raw mut length) } {
        0 if length as usize == size_of::<T>() => Ok(()),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests;
