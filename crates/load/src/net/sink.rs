use std::sync::atomic::{AtomicBool, Ordering};

use vtare_clock::offset::BRACKETS;
use vtare_clock::{Clock, ClockOffset};
use vtare_sys::errno::EINTR;
use vtare_sys::net::{Layer, ReceiveBatch, Socket, StampFlags, wait_readable};
use vtare_sys::{clocks, process, sched};
use vtare_units::{Monotonic, Span, Timestamp};

use super::bins::Bins;
use super::{NetBin, NetReport, SinkOptions, SinkReport, header_byte};
use crate::run::{Reading, net_report};
use crate::{LoadError, Report};

/// Datagrams of one call, each of up to 64 KiB: arrivals may come merged.
const BATCH: usize = 32;
const SLOT_BYTE: usize = 1 << 16;
/// What the socket is to hold: 30000 packets of 1500 B.
const SOCKET_BYTE: i32 = 1 << 26;
/// With this much room arrivals are not waited for, but looked for every [`LOOK`]: waking up for each would take the
/// CPU from those who are measured. The kernel has stamped them.
const ROOMY_BYTE: i32 = 1 << 23;
const LOOK: Span = Span::from_millis(1);
/// The longest wait: the stop flag is looked at then.
const WAIT: Span = Span::from_millis(10);
/// Stamps are taken a moment before a packet can be read.
const SETTLE: Span = Span::from_millis(1);

/// Counts what arrives until `stop` is set or the time is over. Bins are by the kernel's stamps.
///
/// # Errors
/// Where the address is not of this host, or its port is taken.
pub fn count(
    clock: &Clock,
    options: &SinkOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(),
    each: &mut dyn FnMut(NetBin),
) -> Result<Report, LoadError> {
    let failed = |doing| move |source| LoadError::Net { doing, source };
    let socket = Socket::open(Layer::Udp, options.at).map_err(failed("open a socket"))?;
    let stamps = StampFlags { receive_software: true, ..StampFlags::default() };
    // Without stamps (gVisor has none) an arrival counts at the time at which it is read.
    let _ = socket.stamp(stamps);
    // Large sends arrive as they were sent instead of being cut for this program alone; old kernels cut them.
    let _ = socket.merge_arrivals();
    let (room, _) = socket.set_buffers(SOCKET_BYTE).map_err(failed("ask for a buffer"))?;
    socket.bind(options.at).map_err(failed("take the address"))?;
    options.cpu.map_or(Ok(()), |cpu| sched::pin_to(&[cpu])).map_err(failed("pin"))?;
    let mut arrivals = ReceiveBatch::new(BATCH, SLOT_BYTE);
    let read_wall = || ClockOffset::wall(BRACKETS, || clock.now_ordered());
    let mut wall = read_wall();

    let start = clock.now();
    let before = Reading::bare(start, process::cpu_time());
    let end = options.limit.map(|limit| start + limit);
    let mut tally = Tally { header: u64::from(header_byte(options.at)), ..Tally::default() };
    let mut bins = Bins::new(options.bin, start);
    let mut is_first = true;
    let mut ready = Some(ready);
    loop {
        let now = clock.now();
        if wall.is_old(now) {
            wall.renew(read_wall());
        }
        if let Some(ready) = ready.take() {
            ready();
        }
        // Asked before the socket is: what came until then is counted, also where this thread was delayed.
        let over = stop.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end);
        let got = receive(&mut arrivals, &socket)?;
        for index in 0..got {
            let Some(received) = arrivals.get(index) else { break };
            let stamp = received.control.software_ns.and_then(|ns| wall.convert(ns));
            let payload = received.bytes.len() as u64;
            let segment = received.control.segment_byte.map_or(payload, u64::from).max(1);
            let packets = payload.div_ceil(segment).max(1);
            let at = stamp.unwrap_or(now);
            tally.unstamped += if stamp.is_some() { 0 } else { packets };
            let byte = tally.add(at, packets, payload, std::mem::take(&mut is_first).then_some(segment.min(payload)));
            bins.add(at, packets, byte);
        }
        if got == BATCH {
            continue;
        }
        // The socket was empty: what was stamped before is here.
        bins.close(Timestamp::from_nanos(now.as_nanos().saturating_sub(SETTLE.as_nanos_unsigned())), each);
        if over {
            break;
        }
        let far = now + if room >= ROOMY_BYTE { LOOK } else { WAIT };
        let until = end.map_or(far, |end| end.min(far));
        if room >= ROOMY_BYTE {
            clocks::sleep_until(until).map_err(failed("sleep"))?;
        } else {
            wait_readable(&socket, now, until).map_err(failed("wait"))?;
        }
    }
    let now = clock.now();
    let after = Reading::bare(now, process::cpu_time());
    bins.close_all(now, each);
    let drops = socket.drops().ok().map(u64::from);
    let sink = SinkReport { socket_drops: drops, unstamped: tally.unstamped, stamp_error_ns: wall.error_ns() };
    Ok(net_report(&before, &after, tally.report(options, sink)))
}

fn receive(arrivals: &mut ReceiveBatch, socket: &Socket) -> Result<usize, LoadError> {
    match arrivals.receive(socket, BATCH) {
        Ok(got) => Ok(got),
        Err(error) if error.raw_os_error() == Some(EINTR) => Ok(0),
        Err(source) => Err(LoadError::Receive { source }),
    }
}

#[derive(Debug, Default)]
struct Tally {
    header: u64,
    packets: u64,
    ip_byte: u64,
    first: Option<Timestamp<Monotonic>>,
    last: Option<Timestamp<Monotonic>>,
    first_byte: u64,
    unstamped: u64,
}

impl Tally {
    /// Counts packets with `payload` bytes in all, and gives their IP bytes. `first` is the payload of the very first.
    fn add(&mut self, at: Timestamp<Monotonic>, packets: u64, payload: u64, first: Option<u64>) -> u64 {
        let byte = payload + packets * self.header;
        self.packets += packets;
        self.ip_byte += byte;
        if let Some(first) = first {
            self.first_byte = first + self.header;
        }
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(Some(at));
        byte
    }

    fn report(self, options: &SinkOptions, sink: SinkReport) -> NetReport {
        let spread = self.first.zip(self.last).map(|(first, last)| (last - first).as_secs_f64());
        let rate = |seconds: f64| (self.ip_byte - self.first_byte) as f64 * 8.0 / seconds;
        NetReport {
            role: "sink",
            address: options.at,
            packets: self.packets,
            ip_byte: self.ip_byte,
            rate_bit_per_s: spread.filter(|seconds| *seconds > 0.0).map(rate),
            first_monotonic_ns: self.first.map(Timestamp::as_nanos),
            last_monotonic_ns: self.last.map(Timestamp::as_nanos),
            sender: None,
            sink: Some(sink),
        }
    }
}
