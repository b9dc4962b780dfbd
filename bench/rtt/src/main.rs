//! The bare echo pair: nothing but `sendmmsg` and `recvmmsg` on connected sockets, what any engine on sockets can at
//! best be.
//!
//! `bench-rtt echo ADDRESS:PORT [CPU]` sends every datagram back, spinning. `bench-rtt blast ADDRESS:PORT SECONDS BYTES
//! WINDOW [CPU]` keeps up to WINDOW datagrams on their way for SECONDS and prints replies a second. A reply that does
//! not come within 10 ms is given up. `bench-rtt train ADDRESS:PORT KEYFILE GAP_NS BYTES SECONDS BURST [CPU]` sends
//! vtare's one-way trains to a `vtare serve` and prints how well they held their gap, as JSON; BURST 0 leaves the
//! packets of a call to the sender.
//!
//! `bench-rtt programs ADDRESS:PORT KEYFILE PACKETS BYTES CPU` sends by vtare's programs in the kernel without pause
//! and prints what a packet takes; `bench-rtt bounce INTERFACE` and `bench-rtt floor INTERFACE CALLS BYTES CPU` do the
//! same with programs that do nothing.

mod programs;
mod train;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const BATCH: usize = 64;
const LARGEST: usize = 9_000;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo", address, cpu @ ..] => echo(address, cpu.first()),
        ["blast", address, seconds, bytes, window, cpu @ ..] => {
            pin(cpu.first())?;
            let rate = blast(address, seconds.parse()?, bytes.parse()?, window.parse()?)?;
            println!("{rate:.0}");
            Ok(())
        }
        ["train", address, key, gap_ns, bytes, seconds, burst, cpu @ ..] => {
            pin(cpu.first())?;
            let (gap_ns, size_byte, seconds, burst) =
                (gap_ns.parse()?, bytes.parse()?, seconds.parse()?, burst.parse()?);
            train::measure(&train::Asked { address, key, gap_ns, size_byte, seconds, burst })
        }
        ["programs", address, key, packets, bytes, cpu] => {
            let (packets, size_byte) = (packets.parse()?, bytes.parse()?);
            programs::measure(&programs::Asked { address, key, packets, size_byte, cpu })
        }
        ["bounce", interface] => programs::bounce(interface),
        ["floor", interface, calls, bytes, cpu] => {
            pin(Some(cpu))?;
            programs::floor(interface, calls.parse()?, bytes.parse()?)
        }
        _ => {
            Err("want: train ADDRESS:PORT KEYFILE GAP_NS BYTES SECONDS BURST [CPU] | echo ADDRESS:PORT [CPU] | blast \
            ADDRESS:PORT SECONDS BYTES WINDOW [CPU]"
                .into())
        }
    }
}

fn pin(cpu: Option<&&str>) -> Result<(), Failed> {
    let Some(cpu) = cpu else { return Ok(()) };
    let cpu: usize = cpu.parse()?;
    // SAFETY: an all-zero set is a valid, empty one; it is live and of the size given.
    let answer = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Buffers of one batch, and headers that point into them. Everything stays where it is.
struct Batch {
    _bytes: Vec<u8>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    _names: Vec<libc::sockaddr_storage>,
}

impl Batch {
    fn new(length: usize, named: bool) -> Self {
        let mut bytes = vec![0_u8; BATCH * length];
        // SAFETY: all-zero addresses and headers are valid, empty ones.
        let (mut names, mut headers): (Vec<libc::sockaddr_storage>, Vec<libc::mmsghdr>) =
            unsafe { (vec![std::mem::zeroed(); BATCH], vec![std::mem::zeroed(); BATCH]) };
        let base = bytes.as_mut_ptr();
        let mut vectors: Vec<libc::iovec> = (0..BATCH)
            // SAFETY: the offset lies inside the allocation.
            .map(|at| libc::iovec { iov_base: unsafe { base.add(at * length) }.cast(), iov_len: length })
            .collect();
        for ((header, vector), name) in headers.iter_mut().zip(&mut vectors).zip(&mut names) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            if named {
                header.msg_hdr.msg_name = (&raw mut *name).cast();
            }
        }
        Self { _bytes: bytes, vectors, headers, _names: names }
    }

    fn receive(&mut self, socket: &UdpSocket) -> usize {
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        }
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT as _);
        // SAFETY: all pointers in the headers are into this batch.
        let got = unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), BATCH as u32, flags, std::ptr::null_mut()) };
        usize::try_from(got).unwrap_or(0)
    }

    fn send(&mut self, socket: &UdpSocket, count: usize) -> usize {
        // SAFETY: as above.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _)
        };
        usize::try_from(sent).unwrap_or(0)
    }
}

fn echo(address: &str, cpu: Option<&&str>) -> Result<(), Failed> {
    pin(cpu)?;
    let socket = UdpSocket::bind(address)?;
    let mut batch = Batch::new(LARGEST, true);
    eprintln!("ready");
    loop {
        let got = batch.receive(&socket);
        for at in 0..got {
            batch.vectors[at].iov_len = batch.headers[at].msg_len as usize;
        }
        // What the kernel has no room for is lost, as any datagram may be.
        let _sent = batch.send(&socket, got);
        for vector in &mut batch.vectors[..got] {
            vector.iov_len = LARGEST;
        }
    }
}

fn blast(address: &str, seconds: f64, bytes: usize, window: usize) -> Result<f64, Failed> {
    let socket = UdpSocket::bind(if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(address)?;
    let (mut out, mut back) = (Batch::new(bytes, false), Batch::new(LARGEST, false));
    let (mut on_their_way, mut replies) = (0_usize, 0_u64);
    let start = Instant::now();
    let mut last = start;
    loop {
        let now = Instant::now();
        if now - start >= Duration::from_secs_f64(seconds) {
            return Ok(replies as f64 / (now - start).as_secs_f64());
        }
        if on_their_way + BATCH <= window {
            on_their_way += out.send(&socket, BATCH);
        }
        let got = back.receive(&socket);
        replies += got as u64;
        on_their_way = on_their_way.saturating_sub(got);
        if got > 0 {
            last = now;
        } else if now - last > Duration::from_millis(10) {
            (on_their_way, last) = (0, now);
        }
    }
}
