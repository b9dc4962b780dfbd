//! Copies of the packets that cross an interface, in a ring that the kernel fills: AF_PACKET with TPACKET_V3.
//!
//! The kernel copies a packet and its stamp into a block of memory, and gives the block away when it is full or has
//! waited long enough. Packets begin at their network header (`SOCK_DGRAM`), so all kinds of interfaces look alike.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::SysError;

/// How the ring is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Bytes of a block: a power of two, at least a page. The kernel hands over whole blocks.
    pub block_byte: u32,
    /// How many blocks there are.
    pub blocks: u32,
    /// A block that is not full is handed over after this time, in milliseconds.
    pub retire_ms: u32,
}

/// What a filter finds as the type (`SKF_AD_PKTTYPE`) of a packet that leaves.
pub const OUTGOING: u8 = libc::PACKET_OUTGOING;

/// One instruction of a classic BPF filter: code, jump if true, jump if false, operand.
pub type FilterStep = (u16, u8, u8, u32);

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub struct RingPacket<'a> {
    /// When the kernel saw it, ns of CLOCK_REALTIME.
    pub wall_ns: u64,
    /// Whether it leaves the host, or the namespace.
    pub outgoing: bool,
    /// The Ethernet type of what follows the link header.
    pub protocol: u16,
    /// Its length from the network header on.
    pub original_byte: u32,
    /// What the filter had copied of it, from the network header on.
    pub bytes: &'a [u8],
}

/// What the kernel counted since the ring was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Packets that passed the filter, with those that found no room.
    pub packets: u64,
    /// Packets that found no room.
    pub drops: u64,
    /// How often the kernel waited for a block.
    pub freezes: u64,
}

/// A ring on one interface; gone when dropped, or when the process ends.
#[derive(Debug)]
pub struct PacketRing {
    socket: OwnedFd,
    memory: Memory,
    next: u32,
    counts: RingCounts,
}

#[derive(Debug)]
struct Memory {
    at: *mut u8,
    block_byte: usize,
    blocks: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached through it only.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing points into it any more.
        unsafe { libc::munmap(self.at.cast(), self.block_byte * self.blocks) };
    }
}

const REMEDY: &str = ": run as root or with CAP_NET_RAW";

impl PacketRing {
    /// Copies of what crosses interface `index` and passes `filter` (from the network header on) from now on.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, for a filter that the kernel refuses, a size it has no memory for, an interface that is not
    /// there or is down.
    pub fn open(index: u32, filter: &[FilterStep], size: RingSize) -> Result<Self, SysError> {
        // Protocol 0: nothing is copied before the filter is in place and the interface is named.
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(SysError::last("socket(AF_PACKET)", REMEDY));
        }
        // SAFETY: the descriptor was opened above and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version, "setsockopt(PACKET_VERSION)", "")?;
        attach(&socket, filter)?;
        let request = libc::tpacket_req3 {
            tp_block_size: size.block_byte,
            tp_block_nr: size.blocks,
            tp_frame_size: FRAME_BYTE,
            tp_frame_nr: size.block_byte / FRAME_BYTE * size.blocks,
            tp_retire_blk_tov: size.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let call = format!("setsockopt(PACKET_RX_RING, {} blocks of {} B)", size.blocks, size.block_byte);
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request, &call, ": ask for a smaller ring")?;
        let memory = map(&socket, size)?;
        bind(&socket, index)?;
        Ok(Self { socket, memory, next: 0, counts: RingCounts::default() })
    }

    /// Gives the packets of all blocks that the kernel has handed over, and the blocks back. Returns how many packets
    /// there were.
    pub fn drain(&mut self, mut give: impl FnMut(RingPacket<'_>)) -> usize {
        let mut given = 0;
        // One turn around the ring at most, so that the caller gets to look at other things.
        for _ in 0..self.memory.blocks {
            let at = self.memory.block(self.next);
            // SAFETY: a block begins with its version, the offset of private data, and its status; it lies in the
            // mapping.
            let status_at = unsafe { at.add(STATUS_AT) };
            // SAFETY: aligned, mapped as long as `self`, and used atomically by both sides.
            let status = unsafe { AtomicU32::from_ptr(status_at.cast()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the kernel has handed the block over and does not write to it until it gets it back; it lies in
            // the mapping.
            let block = unsafe { std::slice::from_raw_parts(at, self.memory.block_byte) };
            given += packets(block, &mut give);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.memory.blocks as u32;
        }
        given
    }

    /// Sleeps in the kernel until a block can be read, `timeout` has passed, or a signal came.
    ///
    /// # Errors
    /// Where the interface went down or away.
    pub fn wait(&self, timeout: Duration) -> Result<(), SysError> {
        let mut wanted = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one live pollfd.
        let answer = unsafe { libc::poll(&raw mut wanted, 1, ms) };
        if answer < 0 {
            let error = SysError::last("poll of the packet ring", "");
            return if error.errno() == Some(libc::EINTR) { Ok(()) } else { Err(error) };
        }
        if wanted.revents & libc::POLLERR == 0 {
            return Ok(());
        }
        let mut errno: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        let place = (&raw mut errno).cast();
        // SAFETY: both are live and the length is that of the number.
        unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, place, &raw mut length);
        }
        match errno {
            0 => Ok(()),
            errno => Err(SysError::Call {
                call: "the packet ring".to_owned(),
                source: std::io::Error::from_raw_os_error(errno),
                remedy: ": the interface went down or away",
            }),
        }
    }

    /// What the kernel counted so far.
    ///
    /// # Errors
    /// Where the kernel refuses the query.
    pub fn counts(&mut self) -> Result<RingCounts, SysError> {
        // SAFETY: all-zero is a valid value of this structure of numbers.
        let mut found: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&found) as libc::socklen_t;
        let (fd, place) = (self.socket.as_raw_fd(), (&raw mut found).cast());
        // SAFETY: both are live and the length is that of the structure.
        let answer = unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &raw mut length) };
        if answer != 0 {
            return Err(SysError::last("getsockopt(PACKET_STATISTICS)", ""));
        }
        // The kernel begins anew after each answer.
        self.counts.packets += u64::from(found.tp_packets);
        self.counts.drops += u64::from(found.tp_drops);
        self.counts.freezes += u64::from(found.tp_freeze_q_cnt);
        Ok(self.counts)
    }
}

impl Memory {
    fn block(&self, number: u32) -> *mut u8 {
        // SAFETY: the number is below that of the blocks, so the offset lies in the mapping.
        unsafe { self.at.add(number as usize * self.block_byte) }
    }
}

/// Only the number of frames follows from it; packets of any length are packed one behind another.
const FRAME_BYTE: u32 = 2048;
/// In `struct tpacket_block_desc`.
const STATUS_AT: usize = 8;
const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;
/// `struct sockaddr_ll` lies behind the aligned `struct tpacket3_hdr`.
const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The packets of one block.
fn packets(block: &[u8], give: &mut impl FnMut(RingPacket<'_>)) -> usize {
    use core::mem::offset_of;
    let count = word(block, PACKETS_AT).unwrap_or(0);
    let mut at = word(block, FIRST_AT).unwrap_or(0) as usize;
    let mut given = 0;
    for _ in 0..count {
        let Some(header) = block.get(at..) else { break };
        let field = |offset| word(header, offset);
        let (Some(next), Some(seconds), Some(nanos), Some(length)) = (
            field(offset_of!(libc::tpacket3_hdr, tp_next_offset)),
            field(offset_of!(libc::tpacket3_hdr, tp_sec)),
            field(offset_of!(libc::tpacket3_hdr, tp_nsec)),
            field(offset_of!(libc::tpacket3_hdr, tp_snaplen)),
        ) else {
            break;
        };
        let original_byte = field(offset_of!(libc::tpacket3_hdr, tp_len)).unwrap_or(0);
        let net = half(header, offset_of!(libc::tpacket3_hdr, tp_net)).map_or(0, u16::from_ne_bytes);
        let bytes = header.get(usize::from(net)..).and_then(|rest| rest.get(..length as usize));
        let protocol = half(header, ADDRESS_AT + offset_of!(libc::sockaddr_ll, sll_protocol)).map(u16::from_be_bytes);
        let kind = header.get(ADDRESS_AT + offset_of!(libc::sockaddr_ll, sll_pkttype)).copied();
        if let (Some(bytes), Some(protocol), Some(kind)) = (bytes, protocol, kind) {
            let wall_ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanos);
            give(RingPacket { wall_ns, outgoing: kind == libc::PACKET_OUTGOING, protocol, original_byte, bytes });
            given += 1;
        }
        if next == 0 {
            break;
        }
        at += next as usize;
    }
    given
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<[u8; 2]> {
    bytes.get(at..at + 2)?.try_into().ok()
}

fn set<T>(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &T,
    call: &str,
    remedy: &'static str,
) -> Result<(), SysError> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is live and of the length given.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    if answer == 0 { Ok(()) } else { Err(SysError::last(call, remedy)) }
}

fn attach(socket: &OwnedFd, filter: &[FilterStep]) -> Result<(), SysError> {
    let mut steps: Vec<libc::sock_filter> =
        filter.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "setsockopt(SO_ATTACH_FILTER)", "")
}

fn map(socket: &OwnedFd, size: RingSize) -> Result<Memory, SysError> {
    let (block_byte, blocks) = (size.block_byte as usize, size.blocks as usize);
    // SAFETY: a new mapping of the ring that was made with these sizes.
    let at = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), block_byte * blocks, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if at == libc::MAP_FAILED {
        return Err(SysError::last("mmap of the packet ring", ": ask for a smaller ring"));
    }
    Ok(Memory { at: at.cast(), block_byte, blocks })
}

fn bind(socket: &OwnedFd, index: u32) -> Result<(), SysError> {
    // SAFETY: all-zero is a valid address of no family.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is live and of the length given.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } == 0 {
        Ok(())
    } else {
        Err(SysError::last(format!("bind to interface {index}"), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with one packet whose header has these values.
    fn block(length: u32, next: u32, count: u32) -> Vec<u8> {
        use core::mem::offset_of;
        let mut block = vec![0_u8; 512];
        let mut put = |at: usize, value: &[u8]| block[at..at + value.len()].copy_from_slice(value);
        put(PACKETS_AT, &count.to_ne_bytes());
        put(FIRST_AT, &48_u32.to_ne_bytes());
        for (offset, value) in [
            (offset_of!(libc::tpacket3_hdr, tp_next_offset), next),
            (offset_of!(libc::tpacket3_hdr, tp_sec), 3),
            (offset_of!(libc::tpacket3_hdr, tp_nsec), 7),
            (offset_of!(libc::tpacket3_hdr, tp_snaplen), length),
            (offset_of!(libc::tpacket3_hdr, tp_len), 1_000),
        ] {
            put(48 + offset, &value.to_ne_bytes());
        }
        put(48 + offset_of!(libc::tpacket3_hdr, tp_net), &96_u16.to_ne_bytes());
        put(48 + ADDRESS_AT + offset_of!(libc::sockaddr_ll, sll_protocol), &0x0800_u16.to_be_bytes());
        put(48 + ADDRESS_AT + offset_of!(libc::sockaddr_ll, sll_pkttype), &[libc::PACKET_OUTGOING]);
        put(48 + 96, b"packet");
        block
    }

    #[test]
    fn a_block_gives_its_packets_with_stamp_and_direction() {
        let mut seen = Vec::new();
        let given = packets(&block(6, 0, 1), &mut |packet| {
            assert_eq!((packet.wall_ns, packet.outgoing, packet.protocol), (3_000_000_007, true, 0x0800));
            assert_eq!(packet.original_byte, 1_000);
            seen.push(packet.bytes.to_vec());
        });
        assert_eq!((given, seen), (1, vec![b"packet".to_vec()]));
    }

    #[test]
    fn lengths_that_leave_the_block_give_fewer_packets_and_no_panic() {
        for (length, next, count) in [(1_000, 0, 1), (6, u32::MAX, 9), (u32::MAX, 8, 9), (6, 400, 3)] {
            assert!(packets(&block(length, next, count), &mut |packet| assert!(packet.bytes.len() < 512)) <= 2);
        }
        assert_eq!(packets(&[0; 5], &mut |_| {}), 0);
    }

    #[test]
    fn a_ring_on_loopback_copies_what_passes_its_filter() {
        let lo = crate::net::interface::all().expect("readable").into_iter().find(|interface| interface.name == "lo");
        let Some(lo) = lo.filter(|lo| lo.up) else { return eprintln!("skipped: no loopback that is up here") };
        // ld #len; ret 64 for IP packets of 28 + 33 bytes, else 0.
        let filter = [(0x80, 0, 0, 0), (0x15, 0, 1, 61), (0x06, 0, 0, 64), (0x06, 0, 0, 0)];
        let size = RingSize { block_byte: 1 << 14, blocks: 4, retire_ms: 5 };
        let mut ring = match PacketRing::open(lo.index, &filter, size) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        for length in [33, 34, 33] {
            sender.send_to(&[7; 34][..length], receiver.local_addr().expect("bound")).expect("sent");
        }
        let mut seen = Vec::new();
        for _ in 0..200 {
            ring.wait(Duration::from_millis(50)).expect("loopback stays up");
            ring.drain(|packet| seen.push((packet.outgoing, packet.original_byte, packet.wall_ns > 0)));
            if seen.len() >= 4 {
                break;
            }
        }
        // Each packet leaves and arrives.
        assert_eq!(seen.iter().filter(|seen| **seen == (true, 61, true)).count(), 2, "{seen:?}");
        assert_eq!(seen.iter().filter(|seen| **seen == (false, 61, true)).count(), 2, "{seen:?}");
        assert_eq!(ring.counts().expect("counted"), RingCounts { packets: 4, drops: 0, freezes: 0 });
        assert!(ring.counts().expect("counted").packets == 4, "counted once");
    }
}
