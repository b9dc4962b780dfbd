use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};

use vtare_clock::Clock;
use vtare_clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_pathsim::Source;
use vtare_sys::errno::{ECONNREFUSED, EINTR, ENOBUFS, ENOMEM};
use vtare_sys::net::control::SendControl;
use vtare_sys::net::{Layer, Message, SendBatch, Socket};
use vtare_sys::{process, sched};
use vtare_units::{Monotonic, Random, Span, Timestamp};

use super::bins::Bins;
use super::{NetBin, NetReport, SenderOptions, SenderReport, header_byte};
use crate::run::{Reading, net_report};
use crate::{LoadError, Report};

/// Packets of one call: what a large send may be cut into on every kernel that can cut.
const BATCH: usize = 64;
/// What a UDP datagram can carry: the bound of one large send.
const LARGEST_SEND: usize = 65_507;
/// How often the stop flag is looked at.
const LOOK: Span = Span::from_millis(10);

/// Sends until `stop` is set or the time is over. Each packet leaves when it is due: the thread sleeps where that pays,
/// and spins the last stretch ([`Method::Adaptive`]). Packets that are due together, because one call took longer than
/// their gap, leave in one call.
///
/// # Errors
/// For traffic that cannot be, packets that the path does not carry, and without a way to the sink.
pub fn send(
    clock: &Clock,
    options: &SenderOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(),
    each: &mut dyn FnMut(NetBin),
) -> Result<Report, LoadError> {
    let traffic = options.traffic()?;
    let mut outlet = Outlet::open(options)?;
    options
        .cpu
        .map_or(Ok(()), |cpu| sched::pin_to(&[cpu]))
        .map_err(|source| LoadError::Net { doing: "pin", source })?;
    let mut source = Source::new(&traffic, Random::part(options.seed, 0));
    let pacing = SleepOptions { tolerance: options.tolerance, ..SleepOptions::default() };
    let mut sleeper = Sleeper::new(clock, Method::Adaptive, pacing);

    let start = clock.now();
    let before = Reading::bare(start, process::cpu_time());
    let end = options.limit.map(|limit| start + limit);
    let mut bins = Bins::new(options.bin, start);
    ready();
    loop {
        let mut now = clock.now();
        let due = source.peek().map(|at| start + Span::from_unsigned_nanos(at));
        // Beyond the end of time (292 years) there are no packets: only the end is waited for.
        let until = due.unwrap_or(Timestamp::from_nanos(u64::MAX)).min(now + LOOK);
        let until = end.map_or(until, |end| end.min(until));
        if until > now {
            sleeper.sleep_until(until).map_err(|source| LoadError::Net { doing: "sleep", source })?;
            now = clock.now();
        }
        let mut count = 0;
        // What is due at the end or behind it does not belong to this load; what was due before is sent, however late
        // it is.
        let limit = end.map_or(now, |end| now.min(Timestamp::from_nanos(end.as_nanos() - 1)));
        while count < BATCH
            && let Some((at, _)) = source.take_until((limit - start).as_nanos_unsigned())
        {
            if now - (start + Span::from_unsigned_nanos(at)) > options.catch_up {
                outlet.counted.skipped += 1;
            } else {
                count += 1;
            }
        }
        if count > 0 {
            let (sent_at, sent) = outlet.send(clock, count)?;
            bins.add(sent_at, sent, sent * u64::from(outlet.packet_byte));
        }
        bins.close(now, each);
        if stop.load(Ordering::Relaxed) || (count < BATCH && end.is_some_and(|end| now >= end)) {
            break;
        }
    }
    let now = clock.now();
    let after = Reading::bare(now, process::cpu_time());
    bins.close_all(now, each);
    Ok(net_report(&before, &after, outlet.report(options, now - start)))
}

/// The socket and what went through it.
struct Outlet {
    socket: Socket,
    batch: SendBatch,
    bytes: Vec<u8>,
    size: usize,
    packet_byte: u32,
    segments: bool,
    packets: u64,
    first: Option<Timestamp<Monotonic>>,
    last: Option<Timestamp<Monotonic>>,
    counted: SenderReport,
}

impl Outlet {
    fn open(options: &SenderOptions) -> Result<Self, LoadError> {
        let failed = |doing| move |source| LoadError::Net { doing, source };
        let socket = Socket::open(Layer::Udp, options.to).map_err(failed("open a socket"))?;
        socket.connect(options.to).map_err(failed("find a way to the sink"))?;
        let packet_byte = u32::from(options.size_byte) + header_byte(options.to);
        let mtu = socket.mtu().ok().and_then(|mtu| u32::try_from(mtu).ok());
        if let Some(mtu) = mtu.filter(|mtu| packet_byte > *mtu) {
            let most = mtu.saturating_sub(header_byte(options.to));
            return Err(LoadError::Size { found: options.size_byte, most });
        }
        // Without privilege the kernel gives what its limit allows; what finds no room is counted.
        let _ = socket.set_buffers(1 << 22);
        let size = usize::from(options.size_byte);
        // Not zeros: those are pages that are not there before they are written.
        let bytes = vec![0x76; LARGEST_SEND];
        let counted = SenderReport {
            asked_bit_per_s: options.rate_bit_per_s,
            size_byte: options.size_byte,
            arrivals: options.arrivals,
            seed: options.seed,
            skipped: 0,
            refused: 0,
            unreachable: 0,
            calls: 0,
            largest_burst: 0,
        };
        let segments = options.segments && socket.probe_segmentation().is_ok();
        let batch = SendBatch::new(BATCH);
        Ok(Self { socket, batch, bytes, size, packet_byte, segments, packets: 0, first: None, last: None, counted })
    }

    /// Sends `count` packets, and gives when the first call was made and how many the kernel took.
    fn send(&mut self, clock: &Clock, count: usize) -> Result<(Timestamp<Monotonic>, u64), LoadError> {
        let first = clock.now();
        let (mut left, mut sent) = (count, 0);
        while left > 0 {
            let in_one = if self.segments && left > 1 { left.min(LARGEST_SEND / self.size) } else { 1 };
            let at = clock.now();
            let large = [IoSlice::new(&self.bytes[..self.size * in_one])];
            let segment_byte = if in_one > 1 { u16::try_from(self.size).ok() } else { None };
            let control = SendControl { segment_byte, ..SendControl::default() };
            let message = Message { parts: &large, to: None, control };
            let messages = [message; BATCH];
            // One large send, or several small ones in one call.
            let several = if in_one > 1 { 1 } else { left };
            match self.batch.send(&self.socket, &messages[..several]) {
                Ok(taken) => {
                    let packets = taken * in_one;
                    self.counted.calls += 1;
                    self.counted.largest_burst = self.counted.largest_burst.max(packets as u64);
                    self.first.get_or_insert(at);
                    self.last = Some(at);
                    sent += packets as u64;
                    left -= packets;
                }
                Err(error) => match error.raw_os_error() {
                    Some(EINTR) => {}
                    // The answer to an earlier packet; this one has not been tried.
                    Some(ECONNREFUSED) => self.counted.unreachable += 1,
                    _ if is_full(&error) => {
                        self.counted.refused += in_one as u64;
                        left -= in_one;
                    }
                    _ => return Err(LoadError::Send { source: error }),
                },
            }
        }
        self.packets += sent;
        Ok((first, sent))
    }

    fn report(self, options: &SenderOptions, elapsed: Span) -> NetReport {
        let ip_byte = self.packets * u64::from(self.packet_byte);
        let seconds = elapsed.as_secs_f64();
        NetReport {
            role: "sender",
            address: options.to,
            packets: self.packets,
            ip_byte,
            rate_bit_per_s: (seconds > 0.0).then(|| ip_byte as f64 * 8.0 / seconds),
            first_monotonic_ns: self.first.map(Timestamp::as_nanos),
            last_monotonic_ns: self.last.map(Timestamp::as_nanos),
            sender: Some(self.counted),
            sink: None,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || matches!(error.raw_os_error(), Some(ENOBUFS | ENOMEM))
}
